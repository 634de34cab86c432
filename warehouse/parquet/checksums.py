"""The checksums that a data file carries in its footer: of every column chunk and of every Bloom filter.

All of them are CRC-32. Whatever reads data files computes it with zlib-ng, in a fraction of zlib's time, which is most of
the cost of verifying a scan; ``index.sidefile`` takes the standard library's, because its files are small and ``index``
has no dependencies.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from zlib_ng.zlib_ng import crc32

from ebb.warehouse.parquet.footer import chunk_start, footer_hash, read_footer
from ebb.warehouse.store.files import opened_file, patch, read_at, size_of

__all__ = ["SUMS", "crc32", "leaves", "room_for_sums", "write_checksums"]

SUMS = b"ebb.checksums"  # in the footer: of each row group the CRC-32 of every column chunk, then of every Bloom filter


_DIGITS = 8  # of one of them


def leaves(kind: pa.DataType) -> int:
    """Return how many columns Parquet makes of one of this type."""
    return sum(leaves(kind.field(i).type) for i in range(kind.num_fields)) if kind.num_fields else 1


def room_for_sums(count: int) -> dict[bytes, bytes]:
    """Return what a footer needs for ``count`` checksums to be written into it by :func:`write_checksums`."""
    return {SUMS: b"0" * _DIGITS * count}


def write_checksums(table: str, path: str) -> str:
    """Write the checksums of a new file into its footer and return the footer's hash, which its name has to carry."""
    with opened_file(table, path) as file:
        footer, size = read_footer(file, path), size_of(file)
        parsed = pq.read_metadata(pa.BufferReader(footer))
        pieces = [piece for row_group in range(parsed.num_row_groups) for piece in _pieces(parsed.row_group(row_group))]
        sums = b"".join(b"%08x" % crc32(read_at(file, length, offset)) for offset, length in pieces)
    if parsed.metadata != room_for_sums(len(pieces)):
        msg = f"{path} has no room for the checksums of its {len(pieces)} pieces"
        raise ValueError(msg)
    at = footer.rindex(b"0" * len(sums))  # the last place: the length before them may be a 0 as well
    patch(f"{table}/{path}", sums, size - len(footer) + at)
    return footer_hash(footer[:at] + sums + footer[at + len(sums) :])


def _pieces(facts: Any) -> list[tuple[int, int]]:
    """Return offset and length of the column chunks of a row group, then of its Bloom filters."""
    columns = [facts.column(i) for i in range(facts.num_columns)]
    filters = [(c.bloom_filter_offset, c.bloom_filter_length) for c in columns if c.bloom_filter_offset]
    return [(chunk_start(column), column.total_compressed_size) for column in columns] + filters
