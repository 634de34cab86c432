"""Merging the sorted files of a cell into one run, without what has expired."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ebb.index.cellfile import Rewrite
from ebb.index.columns import EXPIRES_SLOT
from ebb.warehouse.parquet.arrow import conform
from ebb.warehouse.parquet.datafile import DataFile
from ebb.warehouse.parquet.writer import Layout, RunWriter, Written

__all__ = ["merge_runs"]


def merge_runs(layout: Layout, task: Rewrite) -> Written:
    """Merge the input files into one sorted run, leaving out what has expired.

    Reads at most about ``stripe_bytes`` at once: larger inputs are merged one key range after the other.
    """
    sources = [DataFile.open(layout.table, file) for file in task.inputs]
    writer = RunWriter(layout, task.cell)
    order = [(name, "ascending") for name in (*layout.key, EXPIRES_SLOT)]
    for low, high in _stripes(sources, layout):
        parts = list(_read_stripe(sources, layout, low, high, task.clock))
        if parts:
            # One chunk per column first: sorting and taking from many chunks costs several times more.
            merged = pa.concat_tables(parts).combine_chunks()
            writer.add(merged if len(sources) == 1 else merged.sort_by(order))
    return writer.close()


def _stripes(sources: Sequence[DataFile], layout: Layout) -> list[tuple[Any, Any]]:
    """Return key ranges (low, high] of about ``stripe_bytes`` each; None is open."""
    ends: list[tuple[Any, int]] = []
    for file in sources:
        column = file.leaf(layout.key[0])
        for group in range(file.groups):
            facts = file.footer.row_group(group)
            stats = facts.column(column).statistics
            if stats is None or not stats.has_min_max:
                return [(None, None)]
            ends.append((stats.max, facts.total_byte_size))
    ends.sort(key=lambda end: end[0])
    stripes: list[tuple[Any, Any]] = []
    low, size = None, 0
    for high, bytes_ in ends[:-1]:
        size += bytes_
        if size >= layout.sizes.stripe_bytes and high != low:
            stripes.append((low, high))
            low, size = high, 0
    return [*stripes, (low, None)]


def _read_stripe(sources: Sequence[DataFile], layout: Layout, low: Any, high: Any, clock: int) -> Iterator[pa.Table]:
    key = layout.key[0]
    kind = layout.schema.field(key).type
    for file in sources:
        column = file.leaf(key)
        groups = []
        for group in range(file.groups):
            stats = file.footer.row_group(group).column(column).statistics
            above = low is not None and stats is not None and stats.has_min_max and stats.max <= low
            below = high is not None and stats is not None and stats.has_min_max and stats.min > high
            if not (above or below):
                groups.append(group)
        if not groups:
            continue
        table = conform(file.read(groups), layout.schema)
        mask = pc.greater(table[EXPIRES_SLOT], clock)
        if low is not None:
            mask = pc.and_(mask, pc.greater(table[key], pa.scalar(low, kind)))
        if high is not None:
            mask = pc.and_(mask, pc.less_equal(table[key], pa.scalar(high, kind)))
        yield table.filter(mask)
