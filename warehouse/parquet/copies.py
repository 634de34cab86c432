"""Row groups that are taken over from one data file to another as they are: verified, never unpacked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import pyarrow as pa
from zlib_ng.zlib_ng import crc32

from ebb.warehouse.parquet.builder import CopiedRowGroup
from ebb.warehouse.parquet.datafile import DataFile, not_written, read_errors
from ebb.warehouse.parquet.thrift import Footer, read_footer
from ebb.warehouse.store.files import fill, opened_file

__all__ = ["CopySource"]


class CopySource:
    """A data file of ours, opened, whose row groups are copied."""

    def __init__(self, file: DataFile, key: Sequence[str]) -> None:
        self._file = file
        self._key_leaves = [file.leaf(name) for name in key]

    @cached_property
    def _footer(self) -> Footer:
        return read_footer(self._file.tail)

    def row_group(self, number: int) -> CopiedRowGroup:
        """Read a row group as it lies in the file, with its Bloom filters."""
        path, facts = self._file.path, self._file.contents.row_group(number)
        chunks = facts.chunks
        filters = {leaf: found for leaf, found in zip(self._key_leaves, facts.filters, strict=True) if found.length}
        # Its chunks lie one after the other.
        start, end = chunks[0].start, chunks[-1].start + chunks[-1].size_bytes
        size = end - start + sum(found.length for found in filters.values())
        with read_errors(path), opened_file(self._file.table, path) as opened:
            held = memoryview(pa.allocate_buffer(size))
            fill(opened, held[: end - start], start)
            pieces = [held[c.start - start : c.start - start + c.size_bytes] for c in chunks]
            at, bits = end - start, {}
            for leaf, found in filters.items():
                bits[leaf] = held[at : at + found.length]
                fill(opened, bits[leaf], found.offset)
                at += found.length
        told = [(c.start, c.size_bytes, c.checksum, piece) for c, piece in zip(chunks, pieces, strict=True)]
        told += [(found.offset, found.length, found.checksum, bits[leaf]) for leaf, found in filters.items()]
        for offset, length, checksum, piece in told:
            if crc32(piece) != checksum:
                raise not_written(path, offset, length)
        return CopiedRowGroup(self._footer, facts, self._footer.row_groups[number][1], pieces, bits)
