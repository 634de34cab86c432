"""Batches applied without Spark: judged, written and committed by the parts that an update is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ebb import OpenTable
from ebb.index.columns import EXPIRES_SLOT
from ebb.index.grid import Cell
from ebb.index.ledger import Change
from ebb.warehouse.intake.judge import OVER, RAW, REASON, judge
from ebb.warehouse.intake.quarantine import commit_refused, write_refused
from ebb.warehouse.parquet.arrow import arrow_schema, conform
from ebb.warehouse.parquet.sizes import WriteSizes
from ebb.warehouse.parquet.writer import Layout, RunWriter, Written, split_cells
from ebb.warehouse.store.files import make_folder
from ebb.warehouse.store.paths import staging_folder

__all__ = ["apply"]

_REFUSED = Cell(-1, -1)


def apply(table: OpenTable, slot: int, rows: Sequence[dict[str, Any]], sizes: WriteSizes | None = None) -> None:
    """Commit records as the update of a slot would."""
    snapshot = table.table.snapshot()
    spec, now_ms = snapshot.spec, int(table.warehouse.now().timestamp() * 1000)
    schema = arrow_schema(spec.columns)
    records = pa.Table.from_pylist([dict(row) for row in rows], pa.schema([schema.field(c.name) for c in spec.columns]))
    judged = judge(records.append_column(RAW, pa.nulls(len(rows), pa.string())), spec, slot, own_slots=False)
    order = [(name, "ascending") for name in ("_g", "_e", *spec.key, EXPIRES_SLOT)]
    folder = staging_folder(slot)
    make_folder(table.table.folder / folder)
    layout = Layout(schema, spec.key, str(table.table.folder), folder, sizes or WriteSizes())
    total, refused = Written(), []
    for cell, part in split_cells(judged.combine_chunks().sort_by(order).to_batches()):
        if cell == _REFUSED:
            refused.append(part.select([REASON, RAW]))
            continue
        run = RunWriter(layout, cell)
        run.add(conform(part.filter(pc.invert(part[OVER])), schema))
        total.add(run.close())
    quarantined = write_refused(str(table.table.folder), folder, refused)["files"]
    commit_refused(table.table, quarantined, slot=slot, clock=snapshot.ledger.clock, now_ms=now_ms)
    snapshot.commit(
        adds=total.files,
        removes=[],
        change=Change(clock=slot, arrivals=Counter(total.expirations)),
        report={"op": "update", "slot": slot},
        data_change=True,
        now_ms=now_ms,
    )
    for left in (Path(table.table.folder, folder, "refused"), Path(table.table.folder, folder)):
        if left.is_dir() and not any(left.iterdir()):
            left.rmdir()
