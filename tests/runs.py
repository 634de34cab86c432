"""Sorted runs of one cell, written and read back without a table around them.

A row is the parts of its key, its expiration slot and its number. Dates and times are the integers that they are, so
that rows can hold those for which Python has no value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ebb.index.cellfile import CellFile, Rewrite
from ebb.index.grid import Cell
from ebb.index.keys import code
from ebb.warehouse.parquet.merge import merge_runs
from ebb.warehouse.parquet.sizes import WriteSizes
from ebb.warehouse.parquet.writer import Layout, RunWriter, Written

__all__ = ["CELL", "SMALL", "Row", "layout_in", "merged", "ordered", "read_back", "table_of", "written"]

CELL = Cell(1, 2)
# A handful of records makes several row groups, stripes and files.
SMALL = WriteSizes(
    row_group_bytes=256,
    long_key_bytes=128,
    settled_key_bytes=128,
    page_bytes=64,
    file_bytes=2048,
    buffer_bytes=1024,
    stripe_bytes=1024,
)
Row = tuple[Any, ...]


def layout_in(folder: str | Path, kinds: Sequence[pa.DataType], sizes: WriteSizes = SMALL) -> Layout:
    """Return the layout of a table with key columns of these types; its files go to a folder ``c``."""
    Path(folder, "c").mkdir(exist_ok=True)
    key = [(f"k{place}", kind) for place, kind in enumerate(kinds)]
    slots = [("_ins_slot", pa.int64()), ("_exp_slot", pa.int64())]
    schema = pa.schema([*key, ("id", pa.int64()), ("text", pa.string()), *slots])
    return Layout(schema, tuple(name for name, _ in key), str(folder), "c", sizes)


def ordered(rows: Iterable[Row]) -> list[Row]:
    """Return rows by key, then expiration."""
    return sorted(rows, key=lambda row: code(row[:-1]))


def table_of(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    """Return rows as a table, in their order."""
    columns = [
        *([row[place] for row in rows] for place in range(len(schema) - 4)),
        [row[-1] for row in rows],
        [f"record {row[-1]}" * 3 for row in rows],
        [1] * len(rows),
        [row[-2] for row in rows],
    ]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def written(layout: Layout, rows: Iterable[Row]) -> Written:
    """Write one run."""
    writer = RunWriter(layout, CELL)
    writer.add(table_of(ordered(rows), layout.schema))
    return writer.close()


def merged(layout: Layout, files: Iterable[CellFile], clock: int = 0) -> Written:
    """Merge files into one run."""
    return merge_runs(layout, Rewrite(cell=CELL, inputs=tuple(files), clock=clock))


def read_back(layout: Layout, files: Iterable[CellFile]) -> pa.Table:
    """Read files as anybody would, one after the other."""
    tables = [pq.read_table(Path(layout.table, file.path), partitioning=None) for file in files]
    return pa.concat_tables([layout.schema.empty_table(), *tables])
