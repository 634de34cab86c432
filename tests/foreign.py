"""What other tools do to a table: delta-rs in this process, on real folders."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from ebb import OpenTable
from ebb.warehouse.parquet.arrow import arrow_schema
from ebb.warehouse.store.paths import entry_name
from tests.builders import ARROW
from tests.model import Model, Record

__all__ = ["append", "append_without_statistics", "delta", "filled", "planted", "rows_of"]


def delta(table: OpenTable) -> DeltaTable:
    return DeltaTable(table.table.folder)


def filled(table: OpenTable, slots: range = range(1, 5)) -> Model:
    """Fill a table, five records a slot that live for two to six slots; returns the model of it."""
    model = Model(table.table.snapshot().spec.timeline)
    for slot in slots:
        batch = [Record(10 * slot + n, f"k{(7 * n + slot) % 5}", slot, slot + 2 + n) for n in range(5)]
        table.update(
            pa.Table.from_pylist(
                [{"id": r.id, "key": r.key, "inserted": r.inserted, "expires": r.expires, "pay": "p"} for r in batch],
                schema=ARROW,
            ),
            at=slot,
        )
        model.apply(slot, batch)
    return model


def rows_of(table: OpenTable, records: Sequence[Record], **wrong: Any) -> pa.Table:
    """Return records with slots and cells, as another tool would have to write them; ``wrong`` replaces columns."""
    spec, clock = table.table.snapshot().spec, table.table.snapshot().ledger.clock or 0
    line, grid = spec.timeline, spec.grid
    columns: dict[str, list[Any]] = {
        "id": [r.id for r in records],
        "key": [r.key for r in records],
        "inserted": [r.inserted for r in records],
        "expires": [r.expires for r in records],
        "pay": ["q"] * len(records),
        "_ins_slot": [min(line.slot_of(r.inserted or 0), clock) for r in records],
        "_exp_slot": [line.slot_of(r.expires or 0) for r in records],
    }
    columns |= {name: value for name, value in wrong.items() if name in columns}
    columns["_g"] = wrong.get("_g") or [grid.groups.partition(slot) for slot in columns["_ins_slot"]]
    columns["_e"] = wrong.get("_e") or [grid.cohorts.partition(slot) for slot in columns["_exp_slot"]]
    schema = arrow_schema(spec.columns)
    for name in ("_g", "_e"):
        schema = schema.append(pa.field(name, pa.int32()))
    return pa.table({field.name: columns[field.name] for field in schema}, schema=schema)


def append(table: OpenTable, records: Sequence[Record], **wrong: Any) -> None:
    """Append records with delta-rs."""
    write_deltalake(
        table.table.folder, rows_of(table, records, **wrong), mode="append", commit_properties=CommitProperties()
    )


def append_without_statistics(table: OpenTable, records: Sequence[Record], **wrong: Any) -> None:
    """Append records with a tool that keeps no statistics."""
    append(table, records, **wrong)
    entry = _newest(table)
    lines = [json.loads(line) for line in entry.read_text(encoding="utf-8").splitlines()]
    for action in lines:
        action.get("add", {}).pop("stats", None)
    entry.write_text("".join(json.dumps(action) + "\n" for action in lines), encoding="utf-8")


def _newest(table: OpenTable) -> Path:
    return max(table.table.log.glob("*.json"))


def planted(table: OpenTable, *actions: dict[str, Any], operation: str = "RESTORE") -> None:
    """Commit as another tool would."""
    version = table.table.snapshot().version + 1
    entry = [{"commitInfo": {"operation": operation}}, *actions]
    text = "".join(json.dumps(action) + "\n" for action in entry)
    (table.table.log / entry_name(version)).write_text(text, encoding="utf-8")
