"""Whether a data file is the one that was written, every byte of it.

Its name vouches for the footer, the footer for the contents, and the contents for every other byte but the first four,
which are the same in all Parquet files.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from zlib_ng.zlib_ng import crc32

from ebb.index.cellfile import CellFile
from ebb.index.contents import Contents
from ebb.warehouse.parquet.datafile import DataFile, not_written, read_errors
from ebb.warehouse.parquet.footer import damaged
from ebb.warehouse.parquet.thrift import MAGIC
from ebb.warehouse.store.files import opened_file, read_at

__all__ = ["check_bytes"]


def check_bytes(table: str, file: CellFile) -> None:
    """Read a whole data file of ours; CorruptionError if any byte is another one than was written.  Holds one chunk."""
    found = DataFile.open(table, file)
    if not found.is_ours:
        raise damaged(f"{file.path}: its name holds no hash, so nothing vouches for it")
    counted = len(MAGIC) + found.known_bytes
    with read_errors(file.path), opened_file(table, file.path) as opened:
        if read_at(opened, len(MAGIC), 0) != MAGIC:
            raise not_written(file.path, 0, len(MAGIC))
        for offset, length, checksum in _pieces(found.contents):
            if crc32(read_at(opened, length, offset)) != checksum:
                raise not_written(file.path, offset, length)
            counted += length
    if counted != file.size_bytes:
        raise damaged(f"{file.path}: it has {file.size_bytes:,} bytes, and its contents tell of {counted:,}")


def _pieces(contents: Contents) -> Iterator[tuple[int, int, int]]:
    """Yield place, length and checksum of every column chunk and Bloom filter."""
    yield from zip(contents.chunk_starts, contents.chunk_bytes, contents.chunk_sums, strict=True)
    for column, row_group in itertools.product(range(contents.key_columns), range(contents.row_groups)):
        where = contents.filter(column, row_group)
        if where.length:
            yield where
