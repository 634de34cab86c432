"""The tables of a warehouse: create, list, open, alter and drop.  A table is a folder below the root."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path

from deltalake import DeltaTable, Field, Schema
from deltalake.exceptions import DeltaError
from deltalake.transaction import CommitProperties

from index.errors import ConflictError, EngineError, TableExistsError, UnknownTableError, UsageError
from index.ledger import Ledger
from warehouse.schema import PARTITION_COLUMNS, SLOT_COLUMNS, Column, delta_fields
from warehouse.spec import TableSpec, check_name
from warehouse.table import APP, Snapshot, Table

__all__ = ["alter_table", "create_table", "drop_table", "find_table", "list_tables"]

_DELTA_PROPERTIES = {
    # No key may ever enter the log: it outlives the records.
    "delta.dataSkippingStatsColumns": ",".join(SLOT_COLUMNS),
    "delta.checkpointInterval": "50",
}


def list_tables(root: Path) -> list[Table]:
    """Return the tables below ``root`` by name."""
    if not root.is_dir():
        return []
    folders = sorted(entry for entry in root.iterdir() if (entry / "_delta_log").is_dir())
    return [Table(root, entry.name) for entry in folders if "." not in entry.name]


def find_table(root: Path, name: str) -> Table:
    """Return the table with this name, or say which ones exist."""
    check_name(name)
    table = Table(root, name)
    if not (table.folder / "_delta_log").is_dir():
        names = ", ".join(t.name for t in list_tables(root))
        known = f"it has {names}" if names else "it is empty: check --warehouse, or run ebb create first"
        raise UnknownTableError(name, root, known)
    return table


def create_table(root: Path, spec: TableSpec) -> Table:
    """Create an empty table."""
    table = Table(root, spec.name)
    if table.folder.exists():
        raise TableExistsError(spec.name, root)
    slots = [Column(name, "bigint") for name in SLOT_COLUMNS]
    cells = [Column(name, "int") for name in PARTITION_COLUMNS]
    # The slots stand first: behind a struct column delta-rs does not find their statistics.
    fields = delta_fields((*slots, *spec.columns, *cells))
    entry = json.dumps({"op": "create", "ledger": Ledger().dumps()}, separators=(",", ":"))
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        table.folder.mkdir(mode=0o700)
        DeltaTable.create(
            table.folder,
            Schema.from_json(json.dumps({"type": "struct", "fields": fields})),
            partition_by=list(PARTITION_COLUMNS),
            configuration={**_DELTA_PROPERTIES, **spec.properties()},
            raise_if_key_not_exists=False,
            commit_properties=CommitProperties(custom_metadata={APP: entry}),
        )
    except FileExistsError as error:
        raise TableExistsError(spec.name, root) from error
    except (OSError, DeltaError) as error:
        shutil.rmtree(table.folder, ignore_errors=True)
        raise EngineError(f"table {spec.name} cannot be created in {root}", error, "check the folder") from error
    return table


def alter_table(snapshot: Snapshot, changes: Mapping[str, str], new_column: Column | None) -> None:
    """Change properties, then add a column: one commit each, both with the ledger as it is."""
    entry = json.dumps({"op": "alter", "ledger": snapshot.ledger.dumps()}, separators=(",", ":"))
    properties = CommitProperties(custom_metadata={APP: entry}, max_commit_retries=0)
    try:
        if changes:
            snapshot.delta.alter.set_table_properties(
                dict(changes), raise_if_not_exists=False, commit_properties=properties
            )
        if new_column is not None:
            field = Field.from_json(json.dumps(delta_fields([new_column])[0]))
            DeltaTable(snapshot.table.folder).alter.add_columns(field, commit_properties=properties)
    except DeltaError as error:
        raise ConflictError(snapshot.table.name, snapshot.version) from error


def drop_table(table: Table) -> None:
    """Delete a table and its quarantine.  It vanishes under its name first, so no half of it is ever seen."""
    for folder in (table.folder, table.quarantine):
        if folder.exists():
            grave = table.root / f".dropped-{table.name}-{uuid.uuid4().hex[:8]}"
            folder.rename(grave)
            shutil.rmtree(grave)
    for left in table.root.glob(f".dropped-{table.name}-*"):
        shutil.rmtree(left, ignore_errors=True)


def check_root(root: Path) -> Path:
    """Refuse a warehouse that is a file."""
    if root.exists() and not root.is_dir():
        msg = f"warehouse {root} is not a folder; pass --warehouse DIR"
        raise UsageError(msg)
    return root
