"""Sharing row groups out among threads, and finding the wanted records in them."""

from __future__ import annotations

import bisect
import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ebb.index.directory import Block
from ebb.index.keys import Wanted
from ebb.warehouse.parquet.arrow import Codes, key_starts
from ebb.warehouse.parquet.bloom import has_plain_bytes
from ebb.warehouse.parquet.chunks import Run
from ebb.warehouse.parquet.sizes import ReadSizes
from ebb.warehouse.read.pool import read_pool

__all__ = ["key_mask", "runs_of", "shared_out", "wanted_places"]

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
        if len(values) == 1:  # what looks for many takes long to start
            is_in = pc.equal(column, pa.scalar(values[0], column.type))
        else:
            is_in = pc.is_in(column, value_set=pa.array(values, column.type))
        mask = is_in if mask is None else pc.and_(mask, is_in)
    return mask


def wanted_places(table: pa.Table, key: Sequence[str], wanted: Wanted, counts: Iterable[int]) -> Any:
    """Return the places of the wanted records in a table, as an array of numbers.

    The table is made of sorted parts with so many records each.
    """
    mask = key_mask(table, key, wanted)
    if mask is not None:
        return pc.indices_nonzero(mask).to_numpy().astype(np.int64)
    found = [np.zeros(0, np.int64)]
    start = 0
    for count in counts:
        found.append(start + _places(table.slice(start, count), key, wanted))
        start += count
    return np.concatenate(found)


def _places(table: pa.Table, key: Sequence[str], wanted: Wanted) -> Any:
    """Return the places of the wanted records in a sorted table."""
    codes = Codes(table, key, with_slots=False)  # nobody asks for expirations
    if not len(codes):
        return np.zeros(0, np.int64)
    near = wanted.between(codes[0], codes[len(codes) - 1] + b"\x00")
    met = near.intervals
    if len(met) == 1 and met[0].holds(codes[0]) and met[0].holds(codes[len(codes) - 1]):
        return np.arange(len(codes))
    found = [np.zeros(0, np.int64)]
    if len(met) <= _FEW:
        for interval in met:
            low = bisect.bisect_left(codes, interval.start)
            high = len(codes) if interval.stop is None else bisect.bisect_left(codes, interval.stop, lo=low)
            found.append(np.arange(low, high))
        return np.concatenate(found)
    # Many keys of several parts: one pass over those that are there.
    edges = [*key_starts(table, key).tolist(), table.num_rows]
    for low, high in itertools.pairwise(edges):
        key_code = codes[low]
        if met[max(0, bisect.bisect_right(near.starts, key_code) - 1)].holds(key_code):
            found.append(np.arange(low, high))
    return np.concatenate(found)


def runs_of(places: Any, counts: Sequence[int]) -> list[list[Run]]:
    """Return places in parts with so many records each as runs in each of the parts, counted from its start."""
    runs: list[list[Run]] = [[] for _ in counts]
    ends = np.cumsum(counts)
    of_part = np.searchsorted(ends, places, side="right")
    breaks = np.flatnonzero((np.diff(places) != 1) | (np.diff(of_part) != 0)) + 1
    firsts = np.concatenate([[0], breaks])
    lasts = np.concatenate([breaks, [len(places)]]) - 1
    parts = of_part[firsts]
    before = ends[parts] - np.asarray(counts)[parts]
    for part, low, high in zip(
        parts.tolist(), (places[firsts] - before).tolist(), (places[lasts] - before).tolist(), strict=True
    ):
        runs[part].append((low, high + 1))
    return runs
