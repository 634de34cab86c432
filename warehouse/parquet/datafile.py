"""Data files that may be damaged: a file is read as it was written, or not at all.

The log vouches for a file's size and, through the name, for a hash of its footer, which is checked before anything
is parsed: parsing a damaged footer may give wrong answers or end the process. The footer vouches for the file's contents
(``index.contents``), which say where every page and Bloom filter is, with a checksum of each. The side file beside it says
the same under a checksum of its own; whoever looks for keys needs no more than that. A symbolic link on the way to a
file is refused.
"""

from __future__ import annotations

import contextlib
import itertools
import struct
from collections.abc import Iterator, KeysView, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from zlib_ng.zlib_ng import crc32

from ebb.index.cellfile import ANY_SLOT, CellFile
from ebb.index.contents import ChunkPages, Contents, RowGroup, dump_side_file, load_side_file
from ebb.index.errors import CorruptionError, EngineError
from ebb.index.keys import Interval
from ebb.warehouse.parquet.footer import CONTENTS, damaged, footer_bytes, footer_hash
from ebb.warehouse.parquet.thrift import ParquetColumn, parquet_columns, read_footer
from ebb.warehouse.store.errors import read_error
from ebb.warehouse.store.files import opened_file, read_at, read_file, refuse_links, remove_file, write_new
from ebb.warehouse.store.paths import footer_hash_in, side_file

__all__ = ["DataFile", "not_written", "read_errors"]

parsed_columns = lru_cache(maxsize=64)(parquet_columns)  # files of a table have the same


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data file: what is in it and, if it was opened for that, its footer."""

    table: str
    path: str
    contents: Contents
    columns: Mapping[str, ParquetColumn]  # those added to the table later are not among them
    is_ours: bool  # whether its contents were written with it; those of another tool's file have no checksums
    footer: Any = None  # pyarrow's, if it was opened
    tail: bytes = b""  # the same as it is in the file
    known_bytes: int = 0  # of what was read to know this

    @staticmethod
    def open(table: str, file: CellFile) -> DataFile:
        """Read the footer and the contents of a data file and check that they are those that were written."""
        refuse_links(table, file.path)
        with read_errors(file.path), opened_file(table, file.path) as opened:
            footer = footer_bytes(opened, file.path, file.size_bytes)
            named = footer_hash_in(file.path)
            if named and footer_hash(footer) != named:
                raise damaged(f"{file.path}: its footer is not the one written")
            parsed = pq.read_metadata(pa.BufferReader(footer))
            try:
                contents = _contents(opened, file.path, parsed) if named else _contents_of_others(footer)
                columns = parsed_columns(contents.schema)
            except (ValueError, LookupError, struct.error) as error:
                raise damaged(f"{file.path}: its footer cannot be understood ({error})") from error
        known_bytes = len(footer) + len(contents.block)
        return DataFile(table, file.path, contents, columns, bool(named), parsed, footer, known_bytes)

    @staticmethod
    def look_up(table: str, file: CellFile) -> DataFile:
        """Return a data file with its contents, if possible from the side file; if that is lost, it is written again."""
        side, name = side_file(file.path), file.path.rsplit("/", 1)[-1]
        refuse_links(table, file.path)
        refuse_links(table, side)
        with contextlib.suppress(OSError):
            data = read_file(f"{table}/{side}")
            known = _known(load_side_file(name, data, crc32), file)
            if known is not None:
                contents, columns = known
                return DataFile(table, file.path, contents, columns, is_ours=True, known_bytes=len(data))
        found = DataFile.open(table, file)
        if not found.is_ours:
            return found
        data = dump_side_file(name, found.contents.block, list(found._filters()))
        with contextlib.suppress(OSError):
            remove_file(f"{table}/{side}")  # a damaged one
            write_new(f"{table}/{side}", [data], for_owner=True)
            if not Path(table, file.path).exists():  # erased meanwhile: nothing of it may come back
                remove_file(f"{table}/{side}")
        return replace(found, contents=load_side_file(name, data) or found.contents)

    def _filters(self) -> Iterator[bytes]:
        """Yield the Bloom filters, key column by key column, verified."""
        contents = self.contents
        with read_errors(self.path), opened_file(self.table, self.path) as opened:
            for column, row_group in itertools.product(range(contents.key_columns), range(contents.row_groups)):
                where = contents.filter(column, row_group)
                data = read_at(opened, where.length, where.offset)
                if crc32(data) != where.checksum:
                    raise not_written(self.path, where.offset, where.length)
                yield data

    @property
    def names(self) -> KeysView[str]:
        """Return its columns."""
        return self.columns.keys()

    @property
    def row_groups(self) -> int:
        """Return how many row groups there are."""
        return self.contents.row_groups

    def column_bytes(self, groups: Sequence[int], columns: Sequence[str]) -> int:
        """Return the compressed size of some columns in row groups."""
        leaves = [leaf for name in columns if name in self.columns for leaf in self.columns[name].leaves]
        sizes, width = self.contents.chunk_bytes, self.contents.leaves
        return sum(sizes[group * width + leaf] for group in groups for leaf in leaves)

    def leaf(self, name: str) -> int:
        """Return the place of a column that is not nested among the leaves: nested columns before it have several."""
        return self.columns[name].leaves[0]


def _known(contents: Contents | None, file: CellFile) -> tuple[Contents, Mapping[str, ParquetColumn]] | None:
    """Return what a side file tells, and the columns; None if it cannot be true.

    Its checksum is its own: nothing but the data file itself vouches for it.
    """
    if contents is None:
        return None
    try:
        columns = parsed_columns(contents.schema)
        return (contents, columns) if _can_be(contents, columns, file) else None
    except (ValueError, LookupError, RecursionError):
        return None


def _can_be(contents: Contents, columns: Mapping[str, ParquetColumn], file: CellFile) -> bool:
    """Whether the contents fit the file as the log knows it, and each other."""
    flat = [column.leaves[0] for column in columns.values() if column.is_flat]
    leaves = [leaf for column in columns.values() for leaf in column.leaves]
    if not contents.row_groups or contents.leaves != len(leaves):
        return False
    records, sizes, starts, ends, page_bytes, page_records = (
        np.asarray(numbers, np.int64)
        for numbers in (
            contents.records, contents.chunk_bytes, contents.chunk_starts, contents.chunk_pages, contents.page_bytes,
            contents.page_records,
        )
    )  # fmt: skip
    pages = np.diff(ends, prepend=0)
    if ends[-1] != len(page_bytes) or (pages < 1).any() or records.sum() != file.records:
        return False
    in_chunks = np.add.reduceat(page_records, ends - pages).reshape(-1, contents.leaves)
    return bool(
        (np.add.reduceat(page_bytes, ends - pages) == sizes).all()
        and ((starts >= 0) & (starts <= file.size_bytes - sizes)).all()
        and (in_chunks[:, flat] == records[:, None]).all()
        and contents.has_filters_in(file.size_bytes)
    )


def _contents(opened: int, path: str, footer: pq.FileMetaData) -> Contents:
    """Return the contents that a file carries, as its footer vouches for them."""
    offset, length, checksum = (footer.metadata or {})[CONTENTS.encode()].decode().split()
    block = read_at(opened, int(length), int(offset))
    if crc32(block) != int(checksum, 16):
        raise not_written(path, int(offset), int(length))
    return Contents(block)


def _contents_of_others(footer: bytes) -> Contents:
    """Return what the footer of another tool's file tells of it: chunks of one page each, no keys, no checksums."""
    found = read_footer(footer)
    row_groups = [
        RowGroup(
            records=records,
            raw_bytes=sum(entry.raw_bytes for entry in entries),
            interval=Interval(b"", None),
            slots=(*ANY_SLOT, *ANY_SLOT),
            chunks=[
                ChunkPages(e.start, e.size_bytes, e.values, e.codec, 0, (e.size_bytes,), (records,), (0,))
                for e in entries
            ],
            filters=(),
        )
        for records, entries in found.row_groups
    ]
    return Contents(Contents.dump(found.schema, row_groups))


def not_written(path: str, offset: int, length: int) -> CorruptionError:
    """Return the error for bytes of a data file that are others than those that were written."""
    return damaged(f"{path}: {length:,} bytes from {offset:,} on are not those written")


@contextmanager
def read_errors(path: str) -> Iterator[None]:
    """Translate what goes wrong with a data file into an error that names it."""
    try:
        yield
    except MemoryError as error:  # Arrow's is one of its other errors as well
        step = "ask for fewer columns, or give the process more"
        raise EngineError("there is not enough memory", f"to read {path}", step) from error
    except (OSError, pa.ArrowException) as error:
        raise read_error(error, "a data file", path) from error
