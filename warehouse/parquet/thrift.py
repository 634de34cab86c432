"""Footers of Parquet files taken apart: what one says of its columns and chunks.  In Thrift's compact protocol.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

__all__ = [
    "MAGIC",
    "STRUCT",
    "ChunkEntry",
    "Footer",
    "ParquetColumn",
    "list_header",
    "page_locations",
    "parquet_columns",
    "read_footer",
    "varint",
    "zigzag",
]

MAGIC = b"PAR1"  # at both ends of a file
# Thrift's types; a flag's value is its type.
_FLAGS, _BYTE, _INTEGERS, _DOUBLE, _BINARY, _LISTS, STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, (9, 10), 12


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
        names = b"".join(varint(len(name)) + name for name in path)
        return place + 1, [b"\x15" + zigzag(element.kind) + b"\x19\x05\x19" + list_header(_BINARY, len(path)) + names]
    place += 1
    heads: list[bytes] = []
    for _ in range(element.children):
        place, below = _walk(elements, place, path)
        heads += below
    return place, heads


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
        elif kind == STRUCT and numbers is above and field == _META:
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


def list_header(kind: int, size: int) -> bytes:
    """Return what a list of so many values of a type starts with."""
    return bytes((size << 4 | kind,)) if size < 15 else bytes((0xF0 | kind,)) + varint(size)


def zigzag(number: int) -> bytes:
    """Return an integer that is not negative."""
    return varint(number << 1)  # none is negative


def varint(number: int) -> bytes:
    """Return a length."""
    if number < 0x80:
        return bytes((number,))
    if number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    if number < 0x10000000:  # all of four bytes, of which the last ones may be empty: a loop takes twice as long
        return (
            number & 0x7F | (number & 0x3F80) << 1 | (number & 0x1FC000) << 2 | (number & 0xFE00000) << 3 | 0x808080
        ).to_bytes(4, "little")
    return (number & 0x7F | 0x80).to_bytes(1, "little") + varint(number >> 7)


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
    if kind == STRUCT:
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
