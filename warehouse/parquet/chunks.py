"""Reading row groups of many files as if they were one: whole column chunks, or of each only the pages that are needed.

What is needed is laid one after the other in memory, every piece is checked against its checksum there, and a footer is
made that lets Arrow read all of it at once. Serial, because callers read many of them at the same time.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, nullcontext
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from zlib_ng.zlib_ng import crc32

from ebb.warehouse.parquet.datafile import DataFile, not_written, read_errors
from ebb.warehouse.parquet.footer import PlacedChunk, footer_of
from ebb.warehouse.parquet.thrift import MAGIC, ParquetColumn
from ebb.warehouse.store.files import fill, opened_file

__all__ = [
    "OpenFiles",
    "Part",
    "RowGroups",
    "Run",
    "alike",
    "narrow_columns",
    "read_parts",
    "read_row_groups",
    "read_runs",
]

_GAP_BYTES = 8 * 1024  # reading a gap of this size takes no longer than starting another read after it

RowGroups = tuple[DataFile, Sequence[int]]  # some of one file, by number
Part = tuple[DataFile, int]  # one of them


class _Segment(NamedTuple):
    """Bytes of a file with a checksum of their own: a column chunk or a page."""

    offset: int
    size_bytes: int
    checksum: int
    at: int  # in memory


class OpenFiles:
    """Data files that are read several times in a row, opened once."""

    def __init__(self) -> None:
        self._held = ExitStack()
        self._opened: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._held.close()

    def of(self, file: DataFile) -> int:
        """Return a file, open to be read."""
        opened = self._opened.get(file.path)
        if opened is None:
            with read_errors(file.path):
                opened = self._opened[file.path] = self._held.enter_context(opened_file(file.table, file.path))
        return opened


class _Room:
    """What is read at once: which bytes of which files, and where they go."""

    def __init__(self, opened: OpenFiles | None = None, gap_bytes: int = _GAP_BYTES) -> None:
        self._opened = opened
        self.size_bytes = len(MAGIC)  # as in a file: nothing can be at 0
        self.taken_bytes = 0
        self._gap_bytes = gap_bytes
        self._reads: list[tuple[DataFile, list[list[_Segment]]]] = []
        self._end = 0

    def of(self, file: DataFile) -> None:
        """Take what follows from this file."""
        if not self._reads or self._reads[-1][0] is not file:
            self._reads.append((file, []))
            self._end = -self._gap_bytes - 1

    def take(self, offset: int, size_bytes: int, checksum: int) -> int:
        """Make room for bytes of the file; returns where they will be."""
        gap = offset - self._end
        pieces = self._reads[-1][1]
        if 0 <= gap <= self._gap_bytes and pieces:
            self.size_bytes += gap
        else:
            pieces.append([])
        at = self.size_bytes
        pieces[-1].append(_Segment(offset, size_bytes, checksum, at))
        self.size_bytes, self._end = at + size_bytes, offset + size_bytes
        self.taken_bytes += size_bytes
        return at

    def read(
        self, columns: Sequence[ParquetColumn], row_groups: Sequence[tuple[int, Sequence[PlacedChunk]]]
    ) -> pa.Table:
        """Read everything, check it, and return it as the records of row groups with these columns."""
        first = self._reads[0][0]
        others = f" and {len(self._reads) - 1} others" if len(self._reads) > 1 else ""
        with read_errors(first.path + others):
            held = pa.allocate_buffer(self.size_bytes)
            room = memoryview(held)
            with nullcontext(self._opened) if self._opened else OpenFiles() as opened:
                for file, pieces in self._reads:
                    _fill(room, file, opened.of(file), pieces)
            footer = pq.read_metadata(pa.BufferReader(footer_of(columns, row_groups)))
            with pq.ParquetFile(pa.BufferReader(held), metadata=footer, pre_buffer=False) as source:
                return source.read_row_groups(range(len(row_groups)), use_threads=False)


def _fill(room: memoryview, file: DataFile, opened: int, pieces: Sequence[Sequence[_Segment]]) -> None:
    """Read pieces of a file and check that all of their segments are those written."""
    for piece in pieces:
        first, last = piece[0], piece[-1]
        with read_errors(file.path):
            end = fill(opened, room[first.at : last.at + last.size_bytes], first.offset)
        for offset, size_bytes, checksum, at in piece:
            if offset + size_bytes > end or crc32(room[at : at + size_bytes]) != checksum:
                raise not_written(file.path, offset, size_bytes)


def alike(row_groups: Sequence[RowGroups], columns: Sequence[str]) -> Iterator[list[RowGroups]]:
    """Bring together what can be read at once: row groups of files with the same columns, and each of other tools' alone."""
    found: dict[Any, list[RowGroups]] = {}
    for file, numbers in row_groups:
        kind = tuple(map(file.columns.get, columns)) if file.is_ours else (file.path, *numbers)
        found.setdefault(kind, []).append((file, numbers))
    yield from found.values()


def read_row_groups(row_groups: Sequence[RowGroups], columns: Sequence[str]) -> pa.Table:
    """Read row groups with their checksums verified; columns that the files do not have are left out.

    Requires: all of them are :func:`alike`.
    """
    first = row_groups[0][0]
    names = [name for name in columns if name in first.columns]
    if not first.is_ours:
        return _read_of_others(*row_groups[0], names)
    return read_parts([(file, number) for file, numbers in row_groups for number in numbers], names)


def _read_of_others(file: DataFile, row_groups: Sequence[int], names: Sequence[str]) -> pa.Table:
    with (
        read_errors(file.path),
        opened_file(file.table, file.path) as opened,
        open(opened, "rb", closefd=False) as source,
        pq.ParquetFile(source, metadata=file.footer, page_checksum_verification=True, pre_buffer=False) as parquet,
    ):
        table = parquet.read_row_groups(list(row_groups), columns=names, use_threads=False)
    return table.replace_schema_metadata()  # Arrow puts there what the footer has


def read_parts(parts: Sequence[Part], names: Sequence[str], opened: OpenFiles | None = None) -> pa.Table:
    """Read whole column chunks of row groups.  Requires files of ours with the same columns, which have these."""
    columns = _in_file_order(parts[0][0], names)
    leaves = [leaf for column in columns for leaf in column.leaves]
    room = _Room(opened)
    row_groups = []
    for file, number in parts:
        contents = file.contents
        room.of(file)
        first, placed = number * contents.leaves, []
        for leaf in leaves:
            chunk = first + leaf
            size = contents.chunk_bytes[chunk]
            at = room.take(contents.chunk_starts[chunk], size, contents.chunk_sums[chunk])
            page = contents.pages(number, leaf)[0]
            dictionary = 0 if contents.page_records[page] else contents.page_bytes[page]
            placed.append(PlacedChunk(at, size, dictionary, contents.chunk_values[chunk], contents.chunk_codecs[chunk]))
        row_groups.append((contents.records[number], placed))
    return room.read(columns, row_groups).select(names)


def _in_file_order(file: DataFile, names: Sequence[str]) -> list[ParquetColumn]:
    return sorted((file.columns[name] for name in names), key=lambda column: column.leaves)


def narrow_columns(parts: Sequence[Part], names: Sequence[str]) -> list[str]:
    """Return the columns that are read whole: no chunk of them has several pages to choose from, or they are nested."""
    columns = parts[0][0].columns

    def is_narrow(column: ParquetColumn) -> bool:
        if not column.is_flat:
            return True
        leaf = column.leaves[0]
        return all(_data_pages(file, number, leaf)[1] == 1 for file, number in parts)

    return [name for name in names if is_narrow(columns[name])]


def _data_pages(file: DataFile, number: int, leaf: int) -> tuple[int, int, int]:
    """Return the place of a chunk's first data page, how many there are, and the size of the dictionary before them."""
    contents = file.contents
    pages = contents.pages(number, leaf)
    if contents.page_records[pages.start]:
        return pages.start, len(pages), 0
    return pages.start + 1, len(pages) - 1, contents.page_bytes[pages.start]


Run = tuple[int, int]  # records of a row group, from one up to but not including another


class Found(NamedTuple):
    """Records of one column among others that were read with them."""

    values: pa.ChunkedArray
    places: Any  # of the records among the values, as an array of numbers
    size_bytes: int  # of what was read


def read_runs(
    parts: Sequence[Part], runs: Sequence[Sequence[Run]], name: str, opened: OpenFiles | None = None
) -> Found:
    """Read some records of one column, of each row group only the pages that hold them.

    ``runs``: the records of each part, in order. Requires files of ours whose column is flat, and at least one record.
    """
    column = parts[0][0].columns[name]
    room = _Room(opened, gap_bytes=0)
    row_groups: list[tuple[int, list[PlacedChunk]]] = []
    found: list[Any] = []  # where the records are among all that are read
    before = 0
    for (file, number), wanted in zip(parts, runs, strict=True):
        if wanted:
            room.of(file)
            chunk, placed = _take_pages(room, file, number, column.leaves[0], wanted)
            found += [np.arange(before + low, before + high) for low, high in placed]
            row_groups.append((chunk.values, [chunk]))
            before += chunk.values
    return Found(room.read([column], row_groups)[name], np.concatenate(found), room.taken_bytes)


def _take_pages(
    room: _Room, file: DataFile, number: int, leaf: int, wanted: Sequence[Run]
) -> tuple[PlacedChunk, list[Run]]:
    """Make room for the pages of a chunk that hold some records; returns the chunk, and where they are in it."""
    contents = file.contents
    first, count, dictionary_bytes = _data_pages(file, number, leaf)
    records = [0, *itertools.accumulate(contents.page_records[first : first + count])]
    chunk = number * contents.leaves + leaf
    offset = contents.chunk_starts[chunk]
    offsets = [*itertools.accumulate(contents.page_bytes[first : first + count], initial=offset + dictionary_bytes)]
    start, size = room.size_bytes, dictionary_bytes
    if dictionary_bytes:
        room.take(offset, dictionary_bytes, contents.page_sums[first - 1])
    placed: list[Run] = []
    following = values = 0  # the page after the last one taken, and how many values were
    for low, high in wanted:
        page = max(following, bisect.bisect_right(records, low) - 1)
        while page < count and records[page] < high:
            room.take(offsets[page], contents.page_bytes[first + page], contents.page_sums[first + page])
            size += contents.page_bytes[first + page]
            values += records[page + 1] - records[page]
            page += 1
        following = page
        # The pages that were taken last end where this page does.
        placed.append((values - records[page] + low, values - records[page] + high))
    return PlacedChunk(start, size, dictionary_bytes, values, contents.chunk_codecs[chunk]), placed
