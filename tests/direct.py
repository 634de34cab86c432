"""Batches applied without Spark, with sizes of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from ebb import OpenTable
from ebb.maintenance.update import update
from ebb.warehouse.intake.batch import Stream
from ebb.warehouse.parquet.arrow import arrow_schema
from ebb.warehouse.parquet.sizes import WriteSizes

__all__ = ["apply"]


def apply(table: OpenTable, slot: int, rows: Sequence[dict[str, Any]], sizes: WriteSizes | None = None) -> None:
    """Apply records as the update of a slot."""
    spec = table.table.snapshot().spec
    schema = pa.schema(list(arrow_schema(spec.columns))[: len(spec.columns)])
    context = replace(table.warehouse.context(), sizes=sizes or WriteSizes())
    batch = Stream(pa.Table.from_pylist([dict(row) for row in rows], schema))
    update(table.table, batch, context, at=spec.timeline.end_of(slot), catch_up=True)
