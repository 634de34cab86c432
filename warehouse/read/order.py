"""Sharing row groups out among threads, and finding the wanted records in them."""

from __future__ import annotations

import bisect
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ebb.index.directory import Block
from ebb.index.keys import Wanted
from ebb.warehouse.parquet.arrow import Codes, key_starts
from ebb.warehouse.parquet.blocks import has_plain_bytes
from ebb.warehouse.parquet.datafile import RowGroups
from ebb.warehouse.parquet.sizes import ReadSizes
from ebb.warehouse.read.pool import read_pool

__all__ = ["key_mask", "selected", "shared_out", "sorted_runs"]

_FEW = 8  # up to this many keys are looked up one by one in a sorted table


def shared_out(blocks: Iterable[Block], sizes: ReadSizes) -> list[list[tuple[str, list[int]]]]:
    """Share blocks out, file by file, among as many threads as are worth it; the row groups of a file are in order."""
    row_groups: dict[str, list[int]] = {}
    weights: Counter[str] = Counter()
    for block in blocks:
        row_groups.setdefault(block.path, []).append(block.row_group)
        weights[block.path] += max(block.size_bytes, sizes.least_bytes)
    # Threads cost more than they save where little is read.
    per_thread = 2 * weights.total() // read_pool()._max_workers
    share_bytes = min(sizes.share_bytes, max(sizes.share_bytes // 4, per_thread))
    shares: list[list[tuple[str, list[int]]]] = [[]]
    size = 0
    for path, numbers in row_groups.items():
        if size >= share_bytes:
            shares.append([])
            size = 0
        shares[-1].append((path, sorted(numbers)))
        size += weights[path]
    return shares


def key_mask(table: pa.Table, key: Sequence[str], wanted: Wanted) -> Any:
    """Return which records of a table are wanted, in whatever order they are; None if Arrow cannot tell."""
    widths = {len(value) for value in wanted.keys}
    if len(widths) != 1 or (len(wanted.keys) > 1 and widths != {1}):
        return None
    mask: Any = None
    for name, values in zip(key, zip(*wanted.keys, strict=True), strict=False):
        column = table[name]
        if not has_plain_bytes(column.type):
            return None
        is_in = pc.is_in(column, value_set=pa.array(values, column.type))
        mask = is_in if mask is None else pc.and_(mask, is_in)
    return mask


def sorted_runs(table: pa.Table, sources: Iterable[RowGroups]) -> Iterator[pa.Table]:
    """Yield the records of each file in a table that was read of several: they are sorted."""
    start = 0
    for data, row_groups in sources:
        records = sum(data.footer.row_group(row_group).num_rows for row_group in row_groups)
        yield table.slice(start, records)
        start += records


def selected(table: pa.Table, key: Sequence[str], wanted: Wanted) -> pa.Table:
    """Return the wanted records of a sorted table."""
    if not table.num_rows:
        return table
    codes = Codes(table, key)
    near = wanted.between(codes[0], codes[len(codes) - 1] + b"\x00")
    met = near.intervals
    if len(met) == 1 and met[0].holds(codes[0]) and met[0].holds(codes[len(codes) - 1]):
        return table
    if len(met) <= _FEW:
        slices = [table.slice(0, 0)]
        for interval in met:
            low = bisect.bisect_left(codes, interval.start)
            high = len(codes) if interval.stop is None else bisect.bisect_left(codes, interval.stop, lo=low)
            slices.append(table.slice(low, high - low))
        return pa.concat_tables(slices)
    # Many keys of several parts: one pass over those that are there.
    edges = [*key_starts(table, key), table.num_rows]
    mask = bytearray(table.num_rows)
    for low, high in itertools.pairwise(edges):
        key_code = codes[low]
        if met[max(0, bisect.bisect_right(near.starts, key_code) - 1)].holds(key_code):
            mask[low:high] = b"\x01" * (high - low)
    packed = pc.not_equal(pa.Array.from_buffers(pa.int8(), len(mask), [None, pa.py_buffer(mask)]), 0)
    return table.filter(packed)
