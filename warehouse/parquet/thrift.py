"""Footers of Parquet files: what one says of its columns, and a new one for column chunks from many files.

To open a file costs Arrow more than to read a short run of one key from it, and a window has many files. So the chunks
that a probe needs are laid one after the other in memory, whatever file they come from, and the footer made here
lets Arrow read them as one file. Footers are in Thrift's compact protocol; of a footer that is read, only its schema
matters. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

__all__ = ["MAGIC", "Chunk", "ParquetColumn", "chunk_facts", "footer_of", "parquet_columns"]

MAGIC = b"PAR1"  # at both ends of a file
_FLAGS, _BYTE, _INTEGERS, _BINARY, _STRUCT = (1, 2), 3, (4, 5, 6), 8, 12  # Thrift's types; a flag's value is its type
_CODECS = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "BROTLI": 4, "ZSTD": 6}


class ParquetColumn(NamedTuple):
    """A column of a file: its schema as it is written there, and the leaves that its values lie in."""

    schema: bytes
    elements: int  # of the schema that it takes
    leaves: tuple[int, ...]  # their places among the leaves of the file
    heads: tuple[bytes, ...]  # of each leaf, what every chunk of it starts with: type, encodings, path


class Chunk(NamedTuple):
    """A column chunk: where it lies in its file, and what a footer says of it besides."""

    start: int
    size_bytes: int
    dictionary_bytes: int  # before its data, if there is a dictionary
    checksum: int
    facts: bytes


def parquet_columns(footer: bytes) -> dict[str, ParquetColumn]:
    """Return the columns that a footer tells of, by name, in order.  Requires a valid footer."""
    source = _Source(footer)
    for field in source.fields():
        if field == 2:
            elements = [_element(source) for _ in range(source.list_size())]
            break
    else:
        elements = []
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


def chunk_facts(head: bytes, codec: str, values: int, raw_bytes: int, size_bytes: int) -> bytes:
    """Return what a footer says of a column chunk, up to where it lies."""
    numbers = (_CODECS[codec], values, raw_bytes, size_bytes)
    return b"\x26\x00\x1c%b\x15%b\x16%b\x16%b\x16%b\x26" % (head, *map(_zigzag, numbers))


def footer_of(columns: Sequence[ParquetColumn], row_groups: Sequence[tuple[int, Sequence[tuple[int, Chunk]]]]) -> bytes:
    """Return the footer, with its length and magic, of a file with these row groups.

    Of each the number of records and, for all leaves of the columns, the chunks and where they lie now.
    """
    body = [
        b"\x15\x04\x19",
        _list(_STRUCT, 1 + sum(column.elements for column in columns)),
        b"\x48\x06schema\x15%b\x00" % _zigzag(len(columns)),
        *(column.schema for column in columns),
        b"\x16%b\x19" % _zigzag(sum(records for records, _ in row_groups)),
        _list(_STRUCT, len(row_groups)),
    ]
    for records, chunks in row_groups:
        body += (b"\x19", _list(_STRUCT, len(chunks)))
        size_bytes = 0
        for at, chunk in chunks:
            body += (chunk.facts, _zigzag(at + chunk.dictionary_bytes))
            if chunk.dictionary_bytes:
                body += (b"\x26", _zigzag(at))
            body.append(b"\x00\x00")
            size_bytes += chunk.size_bytes
        body.append(b"\x16%b\x16%b\x00" % (_zigzag(size_bytes), _zigzag(records)))
    body.append(b"\x00")
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
                self._skip(header & 0xF)
        self.at += 1

    def _skip(self, kind: int) -> None:
        if kind == _STRUCT:
            for _ in self.fields():
                pass
        elif kind == _BINARY:
            self.binary()
        elif kind == _BYTE:
            self.at += 1
        elif kind in _INTEGERS:
            self.varint()
        elif kind not in _FLAGS:
            msg = f"a footer's schema has no values of Thrift's type {kind}"
            raise ValueError(msg)
