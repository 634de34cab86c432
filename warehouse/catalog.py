"""The tables of a warehouse: create, list, open, alter and drop.  A table is a folder below the root."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path

from index.errors import EngineError, TableExistsError, UnknownTableError, UsageError, WarehouseError
from index.ledger import Ledger
from warehouse.checkpoint import CHECKPOINT_INTERVAL
from warehouse.commit import append, new_id
from warehouse.log import LOG, commit_action, metadata_actions, new_metadata, schema_text
from warehouse.schema import PARTITION_COLUMNS, SLOT_COLUMNS, Column, delta_fields
from warehouse.spec import TableSpec, check_name
from warehouse.table import Snapshot, Table

__all__ = ["alter_table", "create_table", "drop_table", "find_table", "list_tables"]

_DELTA_PROPERTIES = {
    # No key may ever enter the log: it outlives the records.
    "delta.dataSkippingStatsColumns": ",".join(SLOT_COLUMNS),
    "delta.checkpointInterval": str(CHECKPOINT_INTERVAL),
}


def list_tables(root: Path) -> list[Table]:
    """Return the tables below ``root`` by name."""
    if not root.is_dir():
        return []
    folders = sorted(entry for entry in root.iterdir() if (entry / LOG).is_dir())
    return [Table(root, entry.name) for entry in folders if "." not in entry.name]


def find_table(root: Path, name: str) -> Table:
    """Return the table with this name, or say which ones exist."""
    check_name(name)
    table = Table(root, name)
    if not table.log.is_dir():
        names = ", ".join(t.name for t in list_tables(root))
        known = f"it has {names}" if names else "it is empty: check --warehouse, or run ebb create first"
        raise UnknownTableError(name, root, known)
    return table


def create_table(root: Path, spec: TableSpec, now_ms: int) -> Table:
    """Create an empty table."""
    table = Table(root, spec.name)
    if table.folder.exists():
        raise TableExistsError(spec.name, root)
    slots = [Column(name, "bigint") for name in SLOT_COLUMNS]
    cells = [Column(name, "int") for name in PARTITION_COLUMNS]
    # The slots stand first: behind a struct column delta-rs does not find their statistics.
    fields = delta_fields((*slots, *spec.columns, *cells))
    metadata = new_metadata(fields, PARTITION_COLUMNS, {**_DELTA_PROPERTIES, **spec.properties()}, now_ms)
    id = new_id()
    said = commit_action("create", {"id": id, "op": "create", "ledger": Ledger().dumps()}, now_ms)
    # Under another name first: the table is there as a whole or not at all.
    unfinished = root / f".new-{spec.name}-{id}"
    try:
        (unfinished / LOG).mkdir(mode=0o700, parents=True)
        append(unfinished / LOG, 0, [said, *metadata_actions(metadata, with_protocol=True)], id=id, table=spec.name)
        unfinished.rename(table.folder)
    except (OSError, WarehouseError) as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        if table.folder.exists():
            raise TableExistsError(spec.name, root) from error
        raise EngineError(f"table {spec.name} cannot be created in {root}", error, "check the folder") from error
    for left in root.glob(f".new-{spec.name}-*"):
        shutil.rmtree(left, ignore_errors=True)
    return table


def alter_table(snapshot: Snapshot, changes: Mapping[str, str], new_column: Column | None, now_ms: int) -> None:
    """Change properties and add a column, in one commit with the ledger as it is."""
    schema = json.loads(snapshot.metadata["schemaString"])
    fields = [*schema["fields"], *(delta_fields([new_column]) if new_column else [])]
    metadata = {
        **snapshot.metadata,
        "schemaString": schema_text(fields),
        "configuration": {**snapshot.metadata["configuration"], **changes},
    }
    snapshot.commit_metadata(metadata, {"op": "alter"}, now_ms)


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
