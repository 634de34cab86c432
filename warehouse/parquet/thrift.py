"""Footers of Parquet files: what one says of its columns and chunks, and new ones for chunks that lie elsewhere.

Two kinds are made here. Chunks, or some of their pages, that are laid one after the other in memory, whatever file they
come from, get a footer that lets Arrow read them as one file: to open a file costs Arrow more than to read a short run of
one key from it, and a window has many files. And row groups that are put together to a new file get that file's footer, in
which everything but their places is as it was. Footers are in Thrift's compact protocol. Pure.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "MAGIC",
    "ChunkEntry",
    "Footer",
    "ParquetColumn",
    "PlacedChunk",
    "file_footer",
    "footer_of",
    "page_locations",
    "parquet_columns",
    "read_footer",
]

MAGIC = b"PAR1"  # at both ends of a file
# Thrift's types; a flag's value is its type.
_FLAGS, _BYTE, _INTEGERS, _DOUBLE, _BINARY, _LISTS, _STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, (9, 10), 12


class ParquetColumn(NamedTuple):
    """A column of a file: its schema as it is written there, and the leaves that its values lie in."""

    schema: bytes
    elements: int  # of the schema that it takes
    leaves: tuple[int, ...]  # their places among the leaves of the file
    heads: tuple[bytes, ...]  # of each leaf, what every chunk of it starts with: type, encodings, path

    @property
    def is_flat(self) -> bool:
        """Whether each record has exactly one value: then pages can be told apart by records."""
        return self.elements == 1


class PlacedChunk(NamedTuple):
    """Pages of a column chunk, and where they lie in memory: the dictionary first, if there is one."""

    at: int
    size_bytes: int
    dictionary_bytes: int
    values: int
    codec: int


class ChunkEntry(NamedTuple):
    """What a footer says of a column chunk, cut where it says where something is; and what it says there."""

    parts: tuple[bytes, ...]  # before, between and after the places
    has_dictionary: bool
    data_at: int
    dictionary_at: int  # 0 if there is none
    filter_at: int  # of its Bloom filter; 0 if there is none
    filter_bytes: int
    values: int
    raw_bytes: int
    size_bytes: int
    codec: int
    index_at: int  # of its offset index; 0 if there is none
    index_bytes: int

    @property
    def start(self) -> int:
        """Return where its first page is."""
        return self.dictionary_at or self.data_at


class Footer(NamedTuple):
    """A footer taken apart."""

    schema: bytes  # the list of elements, with its header
    row_groups: tuple[tuple[int, tuple[ChunkEntry, ...]], ...]  # the records and the chunks of each
    created_by: bytes
    column_orders: bytes


def parquet_columns(schema: bytes) -> dict[str, ParquetColumn]:
    """Return the columns that the schema of a footer tells of, by name, in order.  Requires a valid one."""
    source = _Source(schema)
    elements = [_element(source) for _ in range(source.list_size())]
    columns: dict[str, ParquetColumn] = {}
    place, leaf = 1, 0  # the first element is the root
    while place < len(elements):
        end, heads = _walk(elements, place, ())
        schema = b"".join(element.schema for element in elements[place:end])
        leaves = tuple(range(leaf, leaf + len(heads)))
        columns[elements[place].name.decode()] = ParquetColumn(schema, end - place, leaves, tuple(heads))
        place, leaf = end, leaf + len(heads)
    return columns


class _Element(NamedTuple):
    schema: bytes
    name: bytes
    kind: int
    children: int


def _element(source: _Source) -> _Element:
    start, name, kind, children = source.at, b"", 0, 0
    for field in source.fields():
        if field == 1:
            kind = source.integer()
        elif field == 4:
            name = source.binary()
        elif field == 5:
            children = source.integer()
    return _Element(source.data[start : source.at], name, kind, children)


def _walk(elements: Sequence[_Element], place: int, above: tuple[bytes, ...]) -> tuple[int, list[bytes]]:
    """Return where the element after this one and all below it is, and the heads of the leaves among them."""
    element = elements[place]
    path = (*above, element.name)
    if not element.children:
        names = b"".join(_varint(len(name)) + name for name in path)
        return place + 1, [b"\x15" + _zigzag(element.kind) + b"\x19\x05\x19" + _list(_BINARY, len(path)) + names]
    place += 1
    heads: list[bytes] = []
    for _ in range(element.children):
        place, below = _walk(elements, place, path)
        heads += below
    return place, heads


def footer_of(columns: Sequence[ParquetColumn], row_groups: Sequence[tuple[int, Sequence[PlacedChunk]]]) -> bytes:
    """Return the footer, with its length and magic, that lets Arrow read chunks in memory as those of one file.

    Of each row group the number of records and, for all leaves of the columns, the chunks as they lie there.
    """
    heads = tuple(b"\x26\x00\x1c%b\x15" % head for column in columns for head in column.heads)
    body = [
        b"\x15\x04\x19",
        _list(_STRUCT, 1 + sum(column.elements for column in columns)),
        b"\x48\x06schema\x15%b\x00" % _zigzag(len(columns)),
        *(column.schema for column in columns),
        b"\x16%b\x19" % _zigzag(sum(records for records, _ in row_groups)),
        _list(_STRUCT, len(row_groups)),
    ]
    for dictionaries, same in itertools.groupby(
        row_groups, lambda group: tuple(bool(c.dictionary_bytes) for c in group[1])
    ):
        body.append(_filled(*_row_group_form(heads, dictionaries), [_numbers(*group) for group in same]))
    body.append(b"\x00")
    footer = b"".join(body)
    return footer + len(footer).to_bytes(4, "little") + MAGIC


def _numbers(records: int, chunks: Sequence[PlacedChunk]) -> list[int]:
    """Return the numbers of a row group in the order in which its form has room for them."""
    numbers: list[int] = []
    total = 0
    for at, size_bytes, dictionary_bytes, values, codec in chunks:
        numbers += (codec, values, size_bytes, size_bytes, at + dictionary_bytes)
        if dictionary_bytes:
            numbers.append(at)
        total += size_bytes
    numbers += (total, records)
    return numbers


_VARINT_BYTES = 9  # of numbers that are written all at once, of which the last bytes may be empty


@lru_cache(maxsize=256)
def _row_group_form(heads: tuple[bytes, ...], dictionaries: tuple[bool, ...]) -> tuple[bytes, Any]:
    """Return a row group with room for its numbers, and where that is."""
    room = bytes(_VARINT_BYTES)
    form, places = bytearray(b"\x19" + _list(_STRUCT, len(heads))), []

    def write(*parts: bytes) -> None:
        for part in parts:
            if part is room:
                places.append(len(form))
            form.extend(part)

    for head, has_dictionary in zip(heads, dictionaries, strict=True):
        write(head, room, b"\x16", room, b"\x16", room, b"\x16", room, b"\x26", room)
        write(*((b"\x26", room) if has_dictionary else ()), b"\x00\x00")
    write(b"\x16", room, b"\x16", room, b"\x00")
    return bytes(form), np.array(places)[:, None] + np.arange(_VARINT_BYTES)


def _filled(form: bytes, places: Any, numbers: Sequence[Sequence[int]]) -> bytes:
    """Return a form once for each sequence of numbers, with them in their places."""
    doubled = np.array(numbers, np.uint64) << np.uint64(1)  # none is negative
    groups = doubled[:, :, None] >> np.arange(0, 7 * _VARINT_BYTES, 7, dtype=np.uint64) & np.uint64(0x7F)
    groups[:, :, :-1] |= np.uint64(0x80)
    filled = np.tile(np.frombuffer(form, np.uint8), (len(numbers), 1))
    filled[:, places] = groups
    return filled.tobytes()


def read_footer(footer: bytes) -> Footer:
    """Take a footer apart.  Requires a valid one."""
    source = _Source(footer)
    schema = created_by = column_orders = b""
    row_groups: tuple[tuple[int, tuple[ChunkEntry, ...]], ...] = ()
    for field in source.fields():
        start = source.at
        if field == 2:
            source.skip(_LISTS[0])
            schema = footer[start : source.at]
        elif field == 4:
            row_groups = tuple(_row_group(source) for _ in range(source.list_size()))
        elif field == 6:
            created_by = source.binary()
        elif field == 7:
            source.skip(_LISTS[0])
            column_orders = footer[start : source.at]
    return Footer(schema, row_groups, created_by, column_orders)


def _row_group(source: _Source) -> tuple[int, tuple[ChunkEntry, ...]]:
    chunks: tuple[ChunkEntry, ...] = ()
    records = 0
    for field in source.fields():
        if field == 1:
            chunks = tuple(_chunk(source) for _ in range(source.list_size()))
        elif field == 3:
            records = source.integer()
    return records, chunks


_META, _INDEX_AT, _INDEX_BYTES = 3, 4, 5  # fields of a column chunk
_CODEC, _VALUES, _RAW, _SIZE, _DATA_AT, _DICTIONARY_AT, _FILTER_AT, _FILTER_BYTES = (
    4,
    5,
    6,
    7,
    9,
    11,
    14,
    15,
)  # and below
_PLACES = {_DATA_AT, _DICTIONARY_AT, _FILTER_AT}


def _chunk(source: _Source) -> ChunkEntry:
    """Read a column chunk.  Written out in full, because files have thousands of them."""
    data, at = source.data, source.at
    parts: list[bytes] = []
    known: dict[int, int] = {}
    above: dict[int, int] = {}
    numbers, field, start, after = above, 0, 0, 0
    while True:
        header = data[at]
        at += 1
        if not header:
            if numbers is above:
                break
            parts.append(data[start:at])
            numbers, field = above, after
            continue
        if header > 0xF:
            field += header >> 4
        else:
            source.at = at
            field = source.integer()
            at = source.at
        kind = header & 0xF
        if kind in _INTEGERS:
            if numbers is known and field in _PLACES:
                parts.append(data[start:at])
            number = shift = 0
            while (byte := data[at]) > 0x7F:
                number |= (byte & 0x7F) << shift
                shift += 7
                at += 1
            at += 1
            numbers[field] = (number | byte << shift) >> 1
            if numbers is known and field in _PLACES:
                start = at
        elif kind == _STRUCT and numbers is above and field == _META:
            numbers, after, field, start = known, field, 0, at
        elif kind not in _FLAGS:
            at = _after(data, at, kind)
    source.at = at
    return ChunkEntry(
        parts=tuple(parts),
        has_dictionary=_DICTIONARY_AT in known,
        data_at=known[_DATA_AT],
        dictionary_at=known.get(_DICTIONARY_AT, 0),
        filter_at=known.get(_FILTER_AT, 0),
        filter_bytes=known.get(_FILTER_BYTES, 0),
        values=known[_VALUES],
        raw_bytes=known[_RAW],
        size_bytes=known[_SIZE],
        codec=known[_CODEC],
        index_at=above.get(_INDEX_AT, 0),
        index_bytes=above.get(_INDEX_BYTES, 0),
    )


def page_locations(index: bytes) -> list[tuple[int, int, int]]:
    """Return place, size with header and first record of each data page, as an offset index tells them.

    Requires a valid one. Written out in full, because files have thousands of pages.
    """
    found = []
    at = 1
    count = index[at] >> 4
    at += 1
    if count == 15:
        source = _Source(index)
        source.at = at
        count, at = source.varint(), source.at
    for _ in range(count):
        numbers = []
        for _ in range(3):
            at += 1  # the header of the field: all three are there, in order
            number = shift = 0
            while (byte := index[at]) > 0x7F:
                number |= (byte & 0x7F) << shift
                shift += 7
                at += 1
            numbers.append((number | byte << shift) >> 1)
            at += 1
        at += 1
        found.append((numbers[0], numbers[1], numbers[2]))
    return found


def file_footer(
    like: Footer, row_groups: Sequence[tuple[int, Sequence[tuple[int, int, ChunkEntry]]]], metadata: Mapping[str, str]
) -> bytes:
    """Return the footer, with its length and magic, of a file with the columns of another one.

    Of each row group the number of records and the chunks: where they are now, where their Bloom filters are, and what
    a footer said of them.
    """
    body = [
        b"\x15\x04\x19",
        like.schema,
        b"\x16%b\x19" % _zigzag(sum(records for records, _ in row_groups)),
        _list(_STRUCT, len(row_groups)),
    ]
    for number, (records, chunks) in enumerate(row_groups):
        body += (b"\x19", _list(_STRUCT, len(chunks)))
        raw_bytes = size_bytes = 0
        for at, filter_at, entry in chunks:
            places = [at + entry.data_at - entry.start]
            if entry.has_dictionary:
                places.append(at)
            if entry.filter_at:
                places.append(filter_at)
            body += (b"\x26\x00\x1c", entry.parts[0])
            for place, part in zip(places, entry.parts[1:], strict=True):
                body += (_zigzag(place), part)
            body.append(b"\x00")
            raw_bytes += entry.raw_bytes
            size_bytes += entry.size_bytes
        first = chunks[0][0] if chunks else 0
        numbers = (raw_bytes, records, first, size_bytes)
        body.append(b"\x16%b\x16%b\x26%b\x16%b\x14%b\x00" % (*map(_zigzag, numbers), _zigzag(min(number, 0x7FFF))))
    body += (b"\x19", _list(_STRUCT, len(metadata)))
    for name, text in metadata.items():
        body.append(b"\x18%b%b\x18%b%b\x00" % (_varint(len(name)), name.encode(), _varint(len(text)), text.encode()))
    body += (b"\x18", _varint(len(like.created_by)), like.created_by, b"\x19", like.column_orders, b"\x00")
    written = b"".join(body)
    return written + len(written).to_bytes(4, "little") + MAGIC


def _list(kind: int, size: int) -> bytes:
    return bytes((size << 4 | kind,)) if size < 15 else bytes((0xF0 | kind,)) + _varint(size)


def _zigzag(number: int) -> bytes:
    return _varint(number << 1)  # none is negative


def _varint(number: int) -> bytes:
    if number < 0x80:
        return bytes((number,))
    if number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    if number < 0x10000000:  # all of four bytes, of which the last ones may be empty: a loop takes twice as long
        return (
            number & 0x7F | (number & 0x3F80) << 1 | (number & 0x1FC000) << 2 | (number & 0xFE00000) << 3 | 0x808080
        ).to_bytes(4, "little")
    return (number & 0x7F | 0x80).to_bytes(1, "little") + _varint(number >> 7)


class _Source:
    """Bytes that are read from the start."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def varint(self) -> int:
        number = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7

    def integer(self) -> int:
        number = self.varint()
        return number >> 1 ^ -(number & 1)

    def binary(self) -> bytes:
        size = self.varint()
        self.at += size
        return self.data[self.at - size : self.at]

    def list_size(self) -> int:
        header = self.data[self.at]
        self.at += 1
        return header >> 4 if header < 0xF0 else self.varint()

    def fields(self) -> Iterator[int]:
        """Yield the number of each field of a struct; a value that is not read then is passed over."""
        field = 0
        while header := self.data[self.at]:
            self.at += 1
            field = field + (header >> 4) if header >> 4 else self.integer()
            start = self.at
            yield field
            if self.at == start:
                self.skip(header & 0xF)
        self.at += 1

    def skip(self, kind: int) -> None:
        """Pass over a value of a type."""
        self.at = _after(self.data, self.at, kind)


def _after(data: bytes, at: int, kind: int) -> int:
    """Return where a value of a type ends that starts at a place.  Written out in full, because footers are long."""
    if kind == _STRUCT:
        while header := data[at]:
            at += 1
            if header < 0x10:
                at = _after(data, at, _INTEGERS[0])
            kind = header & 0xF
            if kind in _INTEGERS:
                while data[at] > 0x7F:
                    at += 1
                at += 1
            elif kind == _BINARY and data[at] < 0x80:
                at += 1 + data[at]
            elif kind not in _FLAGS:
                at = _after(data, at, kind)
        return at + 1
    if kind in _INTEGERS:
        while data[at] > 0x7F:
            at += 1
        return at + 1
    source = _Source(data)
    source.at = at
    if kind == _BINARY:
        source.binary()
    elif kind in _LISTS:
        of = data[at] & 0xF
        size = source.list_size()
        for _ in range(size):
            source.at = source.at + 1 if of in _FLAGS else _after(data, source.at, of)
    elif kind == _BYTE:
        source.at += 1
    elif kind == _DOUBLE:
        source.at += 8
    else:
        msg = f"a footer has no values of Thrift's type {kind}"
        raise ValueError(msg)
    return source.at
