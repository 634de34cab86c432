"""What other tools do to a table: delta-rs in this process, on real folders."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from ebb import OpenTable
from ebb.index.columns import PARTITION_COLUMNS
from ebb.warehouse.parquet.arrow import arrow_schema
from ebb.warehouse.store.paths import entry_name
from ebb.warehouse.table.snapshot import Snapshot, Table
from tests.builders import ARROW, arrow_batch
from tests.model import Model, Record

__all__ = [
    "READS", "WAYS", "WRITES", "append", "append_without_statistics", "delta", "filled", "fresh", "ids", "planted", "rows_of", "set_properties", "vouch",
]  # fmt: skip

WAYS = {
    "retire": {"grid": "3x5", "policy": "3x2", "strategy": "retire", "deletion_bound": "6"},
    "norebuild": {"grid": "3x3", "strategy": "norebuild", "deletion_bound": "6"},
    "rebuild": {"grid": "3x3", "strategy": "rebuild", "deletion_bound": "6"},
}
READS: dict[str, Callable[[OpenTable], object]] = {
    "scan": lambda t: t.scan().read_all(),
    "probe": lambda t: t.probe("k1"),
    "latest": lambda t: t.up_to_date().scan().read_all(),
    "sql": lambda t: t.warehouse.sql("SELECT count(*) FROM t").read_all(),
    "query for others": lambda t: t.window_sql(),
}
WRITES: dict[str, Callable[[OpenTable], object]] = {
    "update": lambda t: t.update(arrow_batch([Record(50, "k1", 5, 8)]), at=5),
    "empty tick": lambda t: t.update(at=5),
    "dry run": lambda t: t.update(at=5, dry_run=True),
    "load": lambda t: t.load(arrow_batch([Record(50, "k1", 5, 8)]), at=5),
    "alter": lambda t: t.alter(deletion_bound="9"),
    "seal": lambda t: t.seal(),
    "purge": lambda t: t.purge(),
    "erase": lambda t: t.erase(),
}


def fresh(table: OpenTable) -> OpenTable:
    """Return the table as a process sees it that has not opened it before."""
    return OpenTable(table.warehouse, Table(table.table.root, table.name))


def ids(model: Model) -> list[int]:
    return sorted(record.id for record in model.window())


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
    columns["_gen"] = wrong.get("_gen") or [grid.generation] * len(records)
    columns["_g"] = wrong.get("_g") or [grid.groups.partition(slot) for slot in columns["_ins_slot"]]
    columns["_e"] = wrong.get("_e") or [grid.cohorts.partition(slot) for slot in columns["_exp_slot"]]
    schema = arrow_schema(spec.columns)
    for name in PARTITION_COLUMNS:
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


def set_properties(table: OpenTable, known: Snapshot, **properties: str) -> None:
    """Set properties of ours as another tool can; ``known``: the table when it could be read."""
    configuration = known.metadata["configuration"] | {f"ebb.{name}": value for name, value in properties.items()}
    entry = [
        {"commitInfo": {"operation": "SET TBLPROPERTIES"}},
        {"metaData": {**known.metadata, "configuration": configuration}},
    ]
    path = table.table.log / f"{delta(table).version() + 1:020}.json"
    path.write_text("".join(json.dumps(action) + "\n" for action in entry), encoding="utf-8")


def vouch(table: OpenTable) -> None:
    """Let the head record vouch for the log as it is now: somebody has changed an entry who knew how."""
    fresh(table).table.snapshot(is_rollback_fine=True).with_head(is_confirmed=True)
