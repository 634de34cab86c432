"""What is in a data file and where: its row groups with their keys and slots, column chunks, pages, checksums, filters.

A data file carries its contents as one block of bytes before its footer; beside it lies a side file with the same block
and the Bloom filters, so that a reader who looks for a key needs nothing else to find the pages that may hold it. Both are
arrays of numbers that are looked at where they lie: taking in a file costs the same however many pages it has. They never
change, because the data file never does. Numbers are little-endian. Pure.
"""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from ebb.index.keys import Interval, successor

__all__ = ["ChunkPages", "Contents", "Filter", "RowGroup", "dump_side_file", "load_side_file", "shortened"]

_MAGIC = b"EBBKEYS2"
_HEAD = struct.Struct("<5I")  # row groups, leaves, key columns, pages, bytes of the schema
_SIDE = struct.Struct("<II")  # bytes of the name, bytes of the block
_KEY_BYTES = 256  # of starts and stops; longer ones are cut, so that an interval holds a little more

Checksum = Callable[[Any], int]


class Filter(NamedTuple):
    """Where the Bloom filter of a row group's key column lies in its file; without a length there is none."""

    offset: int
    length: int
    checksum: int


class ChunkPages(NamedTuple):
    """A column chunk as it is put into a file."""

    start: int
    size_bytes: int
    values: int
    codec: int  # as Parquet numbers it
    checksum: int
    page_bytes: Sequence[int]  # with their headers, one after the other
    page_records: Sequence[int]  # a dictionary has none
    page_sums: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroup:
    """A row group as it is put into a file."""

    records: int
    raw_bytes: int  # of all columns, unpacked
    interval: Interval  # of the codes of its records
    slots: tuple[int, int, int, int]  # least and greatest insertion slot, least and greatest expiration slot
    chunks: Sequence[ChunkPages]  # of all leaves, in order
    filters: Sequence[Filter]  # one per key column


_Kind = Literal["B", "I", "q", "Q"]


def _arrays(n: int, leaves: int, keys: int, pages: int) -> Iterator[tuple[str, _Kind, int]]:
    """Yield the arrays of a block in their order: name, type of its numbers, how many."""
    yield "records", "I", n
    yield "raw_bytes", "Q", n
    for name in ("min_ins", "max_ins", "min_exp", "max_exp"):
        yield name, "q", n
    yield "chunk_starts", "Q", n * leaves  # row group by row group
    for name in ("chunk_bytes", "chunk_values", "chunk_sums", "chunk_pages"):
        yield name, "I", n * leaves
    for name in ("page_bytes", "page_records", "page_sums"):
        yield name, "I", pages
    yield "filter_starts", "Q", keys * n  # key column by key column
    for name in ("filter_bytes", "filter_sums"):
        yield name, "I", keys * n
    for name in ("start_ends", "stop_ends"):
        yield name, "I", n
    yield "chunk_codecs", "B", n * leaves  # last: one byte each


class Contents:
    """What is in a data file.  It looks into bytes that it keeps.

    ``chunk_pages`` is, for each chunk, how many pages there are up to its end. A stop that is empty is open.
    """

    def __init__(self, block: bytes | memoryview, bits: memoryview | None = None) -> None:
        """Find the arrays.  ValueError or struct.error if the bytes are none that :meth:`dump` wrote."""
        data = self.block = memoryview(block)
        self.row_groups, self.leaves, self.key_columns, pages, schema_bytes = _HEAD.unpack_from(data)
        at = _HEAD.size + schema_bytes
        self.schema = bytes(data[_HEAD.size : at])  # of Parquet, as a footer has it
        found: dict[str, memoryview] = {}
        for name, kind, count in _arrays(self.row_groups, self.leaves, self.key_columns, pages):
            end = at + count * struct.calcsize(f"<{kind}")
            if end > len(data):
                raise _another_length()
            found[name] = data[at:end].cast(kind)
            at = end
        self.records, self.raw_bytes = found["records"], found["raw_bytes"]
        self.min_ins, self.max_ins = found["min_ins"], found["max_ins"]
        self.min_exp, self.max_exp = found["min_exp"], found["max_exp"]
        self.chunk_starts, self.chunk_bytes = found["chunk_starts"], found["chunk_bytes"]
        self.chunk_values, self.chunk_sums = found["chunk_values"], found["chunk_sums"]
        self.page_bytes, self.page_records = found["page_bytes"], found["page_records"]
        self.page_sums, self.chunk_pages = found["page_sums"], found["chunk_pages"]
        self.chunk_codecs = found["chunk_codecs"]
        self._filters = found["filter_starts"], found["filter_bytes"], found["filter_sums"]
        self._bits = bits
        self._first_filter = min(filter(None, found["filter_starts"]), default=0)
        ends = [*found["start_ends"]], [*found["stop_ends"]]
        middle = at + (ends[0][-1] if ends[0] else 0)
        self.starts, self.stops = _texts(data[at:middle], ends[0]), _texts(data[middle:], ends[1])
        if len(data) != middle + (ends[1][-1] if ends[1] else 0):
            raise _another_length()

    @staticmethod
    def dump(schema: bytes, row_groups: Sequence[RowGroup]) -> bytes:
        """Write what is in a file."""
        chunks = [chunk for group in row_groups for chunk in group.chunks]
        filters = [found for column in zip(*(group.filters for group in row_groups), strict=True) for found in column]
        intervals = [shortened(group.interval) for group in row_groups]
        starts, stops = [one.start for one in intervals], [one.stop or b"" for one in intervals]
        slots = list(zip(*(group.slots for group in row_groups), strict=True))
        columns: dict[str, Sequence[int]] = {
            "records": [group.records for group in row_groups],
            "raw_bytes": [group.raw_bytes for group in row_groups],
            **dict(zip(("min_ins", "max_ins", "min_exp", "max_exp"), slots or [()] * 4, strict=True)),
            "chunk_starts": [chunk.start for chunk in chunks],
            "chunk_bytes": [chunk.size_bytes for chunk in chunks],
            "chunk_values": [chunk.values for chunk in chunks],
            "chunk_sums": [chunk.checksum for chunk in chunks],
            "chunk_pages": list(itertools.accumulate(len(chunk.page_bytes) for chunk in chunks)),
            "page_bytes": [size for chunk in chunks for size in chunk.page_bytes],
            "page_records": [records for chunk in chunks for records in chunk.page_records],
            "page_sums": [checksum for chunk in chunks for checksum in chunk.page_sums],
            "filter_starts": [found.offset for found in filters],
            "filter_bytes": [found.length for found in filters],
            "filter_sums": [found.checksum for found in filters],
            "start_ends": list(itertools.accumulate(map(len, starts))),
            "stop_ends": list(itertools.accumulate(map(len, stops))),
            "chunk_codecs": [chunk.codec for chunk in chunks],
        }
        leaves, keys = (len(row_groups[0].chunks), len(row_groups[0].filters)) if row_groups else (0, 0)
        sizes = len(row_groups), leaves, keys, len(columns["page_bytes"])
        arrays = [struct.pack(f"<{count}{kind}", *columns[name]) for name, kind, count in _arrays(*sizes)]
        return b"".join([_HEAD.pack(*sizes, len(schema)), schema, *arrays, *starts, *stops])

    def row_group(self, number: int) -> RowGroup:
        """Return all that is known of a row group."""
        return RowGroup(
            records=self.records[number],
            raw_bytes=self.raw_bytes[number],
            interval=Interval(self.starts[number], self.stops[number] or None),
            slots=(self.min_ins[number], self.max_ins[number], self.min_exp[number], self.max_exp[number]),
            chunks=[self._chunk(number, leaf) for leaf in range(self.leaves)],
            filters=[self.filter(column, number) for column in range(self.key_columns)],
        )

    def _chunk(self, number: int, leaf: int) -> ChunkPages:
        chunk, pages = number * self.leaves + leaf, self.pages(number, leaf)
        return ChunkPages(
            self.chunk_starts[chunk],
            self.chunk_bytes[chunk],
            self.chunk_values[chunk],
            self.chunk_codecs[chunk],
            self.chunk_sums[chunk],
            tuple(self.page_bytes[pages.start : pages.stop]),
            tuple(self.page_records[pages.start : pages.stop]),
            tuple(self.page_sums[pages.start : pages.stop]),
        )

    def pages(self, row_group: int, leaf: int) -> range:
        """Return the places of the pages of a column chunk."""
        chunk = row_group * self.leaves + leaf
        return range(self.chunk_pages[chunk - 1] if chunk else 0, self.chunk_pages[chunk])

    def row_group_bytes(self, row_group: int) -> int:
        """Return the compressed size of a row group."""
        first = row_group * self.leaves
        return sum(self.chunk_bytes[first : first + self.leaves])

    def filter(self, column: int, row_group: int) -> Filter:
        """Return where the Bloom filter of a key column is."""
        place = column * self.row_groups + row_group
        starts, sizes, sums = self._filters
        return Filter(starts[place], sizes[place], sums[place])

    def has_filters_in(self, size_bytes: int) -> bool:
        """Whether the Bloom filters lie in a file of this size, and those that it knows are all there."""
        starts, sizes, _ = self._filters
        end = max(map(int.__add__, starts, sizes), default=0)
        return end <= size_bytes and (self._bits is None or end - self._first_filter <= len(self._bits))

    @property
    def has_bits(self) -> bool:
        """Whether it knows the Bloom filters themselves."""
        return self._bits is not None

    def filter_bits(self, column: int, row_group: int) -> memoryview:
        """Return a Bloom filter with its header.  Requires that it knows them."""
        assert self._bits is not None  # noqa: S101 - as required
        # Those of a file lie one after the other there too, from its first one on.
        starts, sizes, _ = self._filters
        place = column * self.row_groups + row_group
        at = starts[place] - self._first_filter
        return self._bits[at : at + sizes[place]]


def _another_length() -> ValueError:
    return ValueError("it has another length than it says")


def _texts(data: memoryview, ends: Sequence[int]) -> list[bytes]:
    """Return byte strings that lie one after the other."""
    whole, start, texts = bytes(data), 0, []
    for end in ends:
        if end < start:  # many of them could hold all of the bytes
            raise _another_length()
        texts.append(whole[start:end])
        start = end
    return texts


def shortened(interval: Interval) -> Interval:
    """Return an interval that holds at least the same, with ends that are not very long.

    >>> shortened(Interval(b"a" * 999, b"b" * 999)) == Interval(b"a" * 256, b"b" * 255 + b"c")
    True
    """
    start, stop = interval.start, interval.stop
    if stop is not None and len(stop) > _KEY_BYTES:
        stop = successor(stop[:_KEY_BYTES])
    return Interval(start[:_KEY_BYTES], stop)


def dump_side_file(name: str, block: bytes | memoryview, filters: Sequence[bytes | memoryview]) -> bytes:
    """Write what is known of the file with this name; the filters key column by key column."""
    text = name.encode()
    body = b"".join([_SIDE.pack(len(text), len(block)), text, block, *filters])
    return _MAGIC + struct.pack("<I", zlib.crc32(body)) + body


def load_side_file(name: str, data: bytes, crc32: Checksum = zlib.crc32) -> Contents | None:
    """Read what :func:`dump_side_file` wrote of a file; None if it is damaged, of another version or of another file.

    ``crc32`` may be a faster one than the standard library's.
    """
    view = memoryview(data)
    if data[:8] != _MAGIC or len(data) < 20 or struct.unpack_from("<I", data, 8)[0] != crc32(view[12:]):
        return None
    name_bytes, block_bytes = _SIDE.unpack_from(data, 12)
    at = 20 + name_bytes
    if data[20:at] != name.encode():
        return None
    try:
        return Contents(view[at : at + block_bytes], view[at + block_bytes :])
    except (ValueError, struct.error):
        return None
