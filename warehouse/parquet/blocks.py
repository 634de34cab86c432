"""What the directory keeps of a data file: its blocks, made when it is written or from its footer, in a file beside it.

Whoever writes the data file writes the side file, whoever deletes the data file deletes it, and nobody believes it more
than the log.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ebb.index.columns import EXPIRES_SLOT
from ebb.index.directory import Block, Filter
from ebb.index.keys import Interval
from ebb.index.sidefile import dump_blocks
from ebb.warehouse.parquet.checksums import crc32
from ebb.warehouse.parquet.datafile import DataFile, read_bytes
from ebb.warehouse.parquet.statistics import key_interval
from ebb.warehouse.store.files import new_file, remove_file, rename
from ebb.warehouse.store.paths import partial_side_file, side_file

__all__ = ["blocks_of", "has_plain_bytes", "plain_bytes", "write_side_file"]

_NO_FILTER = Filter(0, 0, 0)


def write_side_file(table: str, path: str, blocks: Sequence[Block]) -> None:
    """Keep the blocks of a data file beside it, in one step."""
    partial = f"{table}/{partial_side_file(path)}"
    try:
        with open(new_file(partial), "wb") as opened:
            opened.write(dump_blocks(path.rsplit("/", 1)[-1], blocks))
        rename(partial, f"{table}/{side_file(path)}")
    except BaseException:
        with contextlib.suppress(OSError):
            remove_file(partial)
        raise


def has_plain_bytes(kind: pa.DataType) -> bool:
    """Whether equal values of a type have equal bytes in a file, so that filters can be asked for them."""
    tests = (pa.types.is_integer, pa.types.is_string, pa.types.is_binary, pa.types.is_date32, pa.types.is_timestamp)
    return any(test(kind) for test in tests)


def plain_bytes(value: Any, kind: pa.DataType) -> bytes:
    """Return a value as Parquet writes it plainly, which is what filters hash."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    number = value if isinstance(value, int) else pa.scalar(value, kind).value
    return struct.pack("<q" if kind.bit_width == 64 else "<i", number)


def blocks_of(file: DataFile, key: Sequence[str], ends: Sequence[Interval] | None = None) -> list[Block]:
    """Return the blocks of a file from its footer; ``ends`` if the codes of its row groups are known exactly."""
    leaves = [file.leaf(name) for name in key]
    of_codes = [*leaves, file.leaf(EXPIRES_SLOT)]
    blocks = []
    for row_group in range(file.row_groups):
        facts = file.footer.row_group(row_group)
        interval = ends[row_group] if ends else key_interval(file, row_group, of_codes)
        filters = tuple(_filter(file, row_group, leaf) for leaf in leaves)
        blocks.append(
            Block(
                file.path,
                row_group,
                interval.start,
                interval.stop,
                facts.num_rows,
                file.row_group_bytes(row_group),
                filters,
            )
        )
    return blocks


def _filter(file: DataFile, row_group: int, leaf: int) -> Filter:
    column = file.footer.row_group(row_group).column(leaf)
    if not column.bloom_filter_offset or not column.bloom_filter_length:
        return _NO_FILTER
    checksum = file.filter_sum(row_group, leaf)
    if checksum is None:  # then what is there now has to be believed
        data = read_bytes(file.table, file.path, column.bloom_filter_offset, column.bloom_filter_length)
        checksum = crc32(data)
    return Filter(column.bloom_filter_offset, column.bloom_filter_length, checksum)
