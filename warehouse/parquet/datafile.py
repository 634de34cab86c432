"""Reading data files that may be damaged: a file is read as it was written, or not at all.

The log vouches for a file's size and, through the name, for a hash of its footer, which is checked before anything
is parsed: parsing a damaged footer may give wrong answers or end the process. The footer says where column chunks and
Bloom filters are, and has a checksum of each. Those of pages, which other engines verify, leave out the headers of the
pages: a damaged one can give fewer records, or other numbers. A symbolic link on the way to a file is refused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, KeysView, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ebb.index.cellfile import CellFile
from ebb.index.errors import CorruptionError, EngineError
from ebb.warehouse.parquet.checksums import SUMS, crc32
from ebb.warehouse.parquet.footer import chunk_start, damaged, footer_hash, read_footer
from ebb.warehouse.parquet.thrift import MAGIC, Chunk, ParquetColumn, chunk_facts, footer_of, parquet_columns
from ebb.warehouse.store.errors import read_error
from ebb.warehouse.store.files import fill, opened_file, read_at, refuse_links
from ebb.warehouse.store.paths import footer_hash_in

__all__ = ["DataFile", "RowGroups", "read_bytes", "read_errors", "read_row_groups"]


_GAP_BYTES = 8 * 1024  # reading a gap of this size takes no longer than starting another read after it


def read_bytes(table: str, path: str, offset: int, length: int, checksum: int | None = None) -> bytes:
    """Return some bytes of a data file, with this checksum if one is given.  Requires: no link leads to it."""
    with read_errors(path), opened_file(table, path) as opened:
        data = read_at(opened, length, offset)
    if checksum is not None and crc32(data) != checksum:
        raise _not_written(path, offset, length)
    return data


def _not_written(path: str, offset: int, length: int) -> CorruptionError:
    return damaged(f"{path}: {length:,} bytes from {offset:,} on are not those written")


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data file with its footer read and checked."""

    table: str
    path: str
    footer: pq.FileMetaData
    columns: Mapping[str, ParquetColumn]  # those added to the table later are not among them
    sums: bytes  # the checksums; none if another tool wrote the file
    # Those that were read before, by row group and leaf.
    chunks: dict[tuple[int, int], Chunk] = field(default_factory=dict, compare=False)

    @staticmethod
    def open(table: str, file: CellFile) -> DataFile:
        """Read the footer of a data file and check that it is the one that was written."""
        refuse_links(table, file.path)
        with read_errors(file.path), opened_file(table, file.path) as opened:
            footer = read_footer(opened, file.path, file.size_bytes)
            named = footer_hash_in(file.path)
            if named and footer_hash(footer) != named:
                raise damaged(f"{file.path}: its footer is not the one written")
            parsed = pq.read_metadata(pa.BufferReader(footer))
        try:
            columns = parquet_columns(footer)
            # In a file that another tool has copied they are those of the original.
            sums = bytes.fromhex((parsed.metadata or {}).get(SUMS, b"").decode()) if named else b""
        except (ValueError, IndexError) as error:
            raise damaged(f"{file.path}: its footer cannot be understood ({error})") from error
        return DataFile(table, file.path, parsed, columns, sums)

    @property
    def names(self) -> KeysView[str]:
        """Return its columns."""
        return self.columns.keys()

    @property
    def row_groups(self) -> int:
        """Return how many row groups there are."""
        return int(self.footer.num_row_groups)

    def row_group_bytes(self, row_group: int) -> int:
        """Return the compressed size of a row group."""
        facts = self.footer.row_group(row_group)
        return sum(facts.column(i).total_compressed_size for i in range(facts.num_columns))

    def column_bytes(self, groups: Sequence[int], columns: Sequence[str]) -> int:
        """Return the compressed size of some columns in row groups."""
        leaves = [leaf for name in columns if name in self.columns for leaf in self.columns[name].leaves]
        facts = [self.footer.row_group(group) for group in groups]
        return sum(group.column(leaf).total_compressed_size for group in facts for leaf in leaves)

    @property
    def footer_bytes(self) -> int:
        """Return the length of the footer."""
        return int(self.footer.serialized_size) + 8

    def leaf(self, name: str) -> int:
        """Return the place of a column that is not nested among the leaves: nested columns before it have several."""
        return self.columns[name].leaves[0]

    def filter_sum(self, row_group: int, leaf: int) -> int | None:
        """Return the checksum of a column's Bloom filter in a row group; None if it is not known.  Requires a filter."""
        facts = self.footer.row_group(row_group)
        before = sum(bool(facts.column(i).bloom_filter_offset) for i in range(leaf))
        return self._sums(row_group)[facts.num_columns + before] if self.sums else None

    def _sums(self, row_group: int) -> tuple[int, ...]:
        """Return the checksums of a row group: of its column chunks, then of its filters."""
        count = len(self.sums) // 4 // self.row_groups
        return struct.unpack_from(f">{count}I", self.sums, 4 * count * row_group)

    def chunk(self, row_group: int, leaf: int, head: bytes) -> Chunk:
        """Return a column chunk; ``head`` as the file's columns tell it of the leaf.  Requires checksums."""
        chunk = self.chunks.get((row_group, leaf))
        if chunk is None:
            column = self.footer.row_group(row_group).column(leaf)
            start, size_bytes = chunk_start(column), column.total_compressed_size
            facts = chunk_facts(head, column.compression, column.num_values, column.total_uncompressed_size, size_bytes)
            checksum = self._sums(row_group)[leaf]
            chunk = Chunk(start, size_bytes, column.data_page_offset - start, checksum, facts)
            self.chunks[row_group, leaf] = chunk
        return chunk

    def read(self, row_groups: Sequence[int], columns: Sequence[str] | None = None) -> pa.Table:
        """Read row groups with their checksums verified; columns that the file does not have are left out.

        Serial, because callers read many of them at once.
        """
        names = [name for name in (self.names if columns is None else columns) if name in self.columns]
        if self.sums:
            return _read_chunks([(self, row_groups)], names)
        with (
            read_errors(self.path),
            opened_file(self.table, self.path) as opened,
            open(opened, "rb", closefd=False) as source,
            pq.ParquetFile(source, metadata=self.footer, page_checksum_verification=True, pre_buffer=False) as file,
        ):
            table = file.read_row_groups(list(row_groups), columns=names, use_threads=False)
        return table.replace_schema_metadata()  # Arrow puts there what the footer has


RowGroups = tuple[DataFile, Sequence[int]]  # some of one file, by number


def read_row_groups(
    row_groups: Sequence[RowGroups], columns: Sequence[str]
) -> Iterator[tuple[list[RowGroups], pa.Table]]:
    """Read row groups of many files, as many as possible at once; yield some with their records, one after the other.

    Verified and serial as :meth:`DataFile.read`.
    """
    alike: dict[Any, list[RowGroups]] = {}
    for file, numbers in row_groups:
        # Column chunks of files with the same columns can be read as if they were of one file.
        kind = tuple(map(file.columns.get, columns)) if file.sums else (file.path, *numbers)
        alike.setdefault(kind, []).append((file, numbers))
    for same in alike.values():
        first = same[0][0]
        names = [name for name in columns if name in first.columns]
        yield same, _read_chunks(same, names) if first.sums else first.read(same[0][1], names)


_Placed = tuple[int, Chunk]  # a column chunk and where it lies in memory


def _read_chunks(row_groups: Sequence[RowGroups], names: Sequence[str]) -> pa.Table:
    """Read row groups of files with the same columns, whose column chunks have checksums."""
    first = row_groups[0][0]
    columns = sorted((first.columns[name] for name in names), key=lambda column: column.leaves)
    needed = [pair for column in columns for pair in zip(column.leaves, column.heads, strict=True)]
    in_memory: list[tuple[int, list[_Placed]]] = []  # row groups: how many records, and where their chunks are
    reads: list[tuple[DataFile, list[list[_Placed]]]] = []
    at = len(MAGIC)  # as in a file: nothing can be at 0
    for file, numbers in row_groups:
        pieces: list[list[_Placed]] = []
        end = -_GAP_BYTES - 1
        for number in numbers:
            placed: list[_Placed] = []
            for leaf, head in needed:
                chunk = file.chunk(number, leaf, head)
                gap = chunk.start - end
                if 0 <= gap <= _GAP_BYTES:
                    at += gap
                else:
                    pieces.append([])
                placed.append((at, chunk))
                pieces[-1].append(placed[-1])
                at, end = at + chunk.size_bytes, chunk.start + chunk.size_bytes
            in_memory.append((file.footer.row_group(number).num_rows, placed))
        reads.append((file, pieces))
    others = f" and {len(row_groups) - 1} others" if len(row_groups) > 1 else ""
    with read_errors(first.path + others):
        held = pa.allocate_buffer(at)
        for file, pieces in reads:
            _fill(memoryview(held), file, pieces)
        footer = pq.read_metadata(pa.BufferReader(footer_of(columns, in_memory)))
        with pq.ParquetFile(pa.BufferReader(held), metadata=footer, pre_buffer=False) as source:
            return source.read_row_groups(range(len(in_memory)), use_threads=False).select(names)


def _fill(room: memoryview, file: DataFile, pieces: Sequence[Sequence[_Placed]]) -> None:
    """Read pieces of a file and check that the column chunks in them are those written."""
    with read_errors(file.path), opened_file(file.table, file.path) as opened:
        for piece in pieces:
            (start, first), (last_start, last) = piece[0], piece[-1]
            offset = fill(opened, room[start : last_start + last.size_bytes], first.start)
            for at, chunk in piece:
                is_there = chunk.start + chunk.size_bytes <= offset
                if not is_there or crc32(room[at : at + chunk.size_bytes]) != chunk.checksum:
                    raise _not_written(file.path, chunk.start, chunk.size_bytes)


@contextmanager
def read_errors(path: str) -> Iterator[None]:
    """Translate what goes wrong with a data file into an error that names it."""
    try:
        yield
    except MemoryError as error:  # Arrow's is one of its other errors as well
        step = "ask for fewer columns, or give the process more"
        raise EngineError("there is not enough memory", f"to read {path}", step) from error
    except (OSError, pa.ArrowException) as error:
        step = "its version was erased while it was read, run the command again; or the table is damaged"
        raise read_error(error, "a data file", path, missing=step) from error
