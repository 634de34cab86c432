"""What a footer says about the values in a row group: the least and the greatest, and which encoded keys lie between.

Statistics are taken as Parquet stores them. Python has no value for a time after the year 9999 or before the year 1,
and a text may have been cut within a character; both have an order all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from ebb.index.columns import EXPIRES_SLOT
from ebb.index.directory import Block, FileBlocks, blocks_in, blocks_in_order
from ebb.index.keys import Interval, code, successor
from ebb.warehouse.parquet.datafile import DataFile

__all__ = ["blocks_of", "bounds", "key_interval"]

_NUMBERS = {"NONE", "INT_8", "INT_16", "INT_32", "INT_64", "DATE", "TIMESTAMP_MICROS"}
_AS_STORED = {
    "BOOLEAN": {"NONE"},
    "INT32": _NUMBERS,
    "INT64": _NUMBERS,
    "FLOAT": {"NONE"},
    "DOUBLE": {"NONE"},
    "BYTE_ARRAY": {"NONE", "UTF8"},
}


def bounds(file: DataFile, row_group: int, leaf: int) -> tuple[Any, Any] | None:
    """Return a value that none in a column chunk is less than, and one that none is greater than; None if not known.

    Times are the integers that they are, texts their bytes. NaN is not among the values.
    """
    chunk = file.footer.row_group(row_group).column(leaf)
    statistics = chunk.statistics
    if statistics is None or not statistics.has_min_max:
        return None
    kind = statistics.converted_type
    if kind in _AS_STORED.get(chunk.physical_type, ()):
        return statistics.min_raw, statistics.max_raw
    if kind == "DECIMAL":
        scale = file.footer.schema.column(leaf).scale
        return _decimal(statistics.min_raw, scale), _decimal(statistics.max_raw, scale)
    return None


def _decimal(stored: Any, scale: int) -> Decimal:
    number = int.from_bytes(stored, "big", signed=True) if isinstance(stored, bytes) else int(stored)
    return Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale))


def key_interval(file: DataFile, row_group: int, leaves: Sequence[int]) -> Interval:
    """Return an interval that holds the encoded keys of a row group; ``leaves`` are the key's columns in their order.

    It begins with the parts that are the same in all records: the part after them is the first that narrows it.
    """
    same = b""
    for leaf in leaves:
        ends = bounds(file, row_group, leaf)
        if ends is None:
            break
        low, high = code(ends[:1]), code(ends[1:])
        if low != high:
            return Interval(same + low, successor(same + high))
        same += low
    return Interval(same, successor(same))


def blocks_of(file: DataFile, key: Sequence[str]) -> FileBlocks:
    """Return the row groups of a file by their keys: as its contents have them, or as another tool's statistics tell."""
    contents = file.contents
    if file.is_ours:
        return blocks_in(file.path, contents)
    leaves = [file.leaf(name) for name in (*key, EXPIRES_SLOT)]

    def block(number: int) -> Block:
        keys, size = key_interval(file, number, leaves), contents.row_group_bytes(number)
        return Block(file.path, number, keys.start, keys.stop, contents.records[number], size)

    return blocks_in_order(map(block, range(contents.row_groups)))
