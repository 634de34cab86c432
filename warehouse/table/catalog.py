"""The tables of a warehouse: create, list, open, alter and drop.  A table is a folder below the root."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from ebb.index.columns import PARTITION_COLUMNS, SLOT_COLUMNS, Column, delta_fields
from ebb.index.errors import InputError, TableExistsError, UnknownTableError, UsageError, WarehouseError
from ebb.index.ledger import Change
from ebb.warehouse.store.disk import Disk
from ebb.warehouse.store.errors import disk_error, disk_errors
from ebb.warehouse.store.files import make_folder, remove_tree, rename
from ebb.warehouse.store.modes import group_id, let_in, share
from ebb.warehouse.store.paths import HIDDEN, LEASES, LOG, dropped_name, new_table_name
from ebb.warehouse.table.checkpoint import CHECKPOINT_INTERVAL
from ebb.warehouse.table.commit import append, new_id
from ebb.warehouse.table.head import head_of, write_head
from ebb.warehouse.table.log import LogEntry, commit_action, metadata_actions, new_metadata, schema_text
from ebb.warehouse.table.settle import sync_all
from ebb.warehouse.table.snapshot import Snapshot, Table
from ebb.warehouse.table.spec import TableSpec, check_name, is_name
from ebb.warehouse.table.states import stored_ledger

__all__ = [
    "alter_table",
    "check_root",
    "create_table",
    "drop_table",
    "find_table",
    "list_tables",
    "remove_dropped",
    "share_table",
]

_DELTA_PROPERTIES = {
    # No key may ever enter the log: it outlives the records.
    "delta.dataSkippingStatsColumns": ",".join(SLOT_COLUMNS),
    "delta.checkpointInterval": str(CHECKPOINT_INTERVAL),
}


def list_tables(root: Path, *, durable: bool = True) -> list[Table]:
    """Return the tables below ``root`` by name; ``durable``: whoever writes to them waits for the disk."""
    with disk_errors(f"warehouse {root} cannot be read"):
        names = sorted(entry.name for entry in root.iterdir()) if root.is_dir() else []
    return [Table(root, name, Disk(durable)) for name in names if is_name(name) and _may_have_log(root / name)]


def _may_have_log(folder: Path) -> bool:
    try:
        return (folder / LOG).is_dir()
    except PermissionError:  # perhaps a table: whoever opens it is told
        return True


def find_table(root: Path, name: str, *, durable: bool = True) -> Table:
    """Return the table with this name, or say which ones exist."""
    check_name(name)
    table = Table(root, name, Disk(durable))
    if not table.is_there():
        names = tuple(t.name for t in list_tables(root))
        raise UnknownTableError(name, root, names, hint=None if names else "no_tables")
    return table


def create_table(root: Path, spec: TableSpec, now_ms: int, *, durable: bool = True) -> Table:
    """Create an empty table."""
    table = Table(root, spec.name, Disk(durable))
    if table.folder.exists():
        raise TableExistsError(spec.name, root)
    slots = [Column(name, "bigint") for name in SLOT_COLUMNS]
    cells = [Column(name, "int") for name in PARTITION_COLUMNS]
    # The slots stand first: behind a struct column delta-rs does not find their statistics.
    fields = delta_fields((*slots, *spec.columns, *cells))
    metadata = new_metadata(fields, PARTITION_COLUMNS, {**_DELTA_PROPERTIES, **spec.properties()}, now_ms)
    id = new_id()
    said = commit_action(
        "create", {"id": id, "op": "create", "ledger": stored_ledger(None, Change(clock=None))}, now_ms
    )
    # Under another name first: the table is there as a whole or not at all.
    unfinished = root / new_table_name(spec.name, id)
    new_folders = [folder for folder in (root, *root.absolute().parents) if not folder.exists()]
    try:
        make_folder(unfinished, parents=True)
        _share(root, [unfinished], spec)
        make_folder(unfinished / LOG)
        make_folder(unfinished / HIDDEN)
        make_folder(unfinished / HIDDEN / LEASES)  # readers find it, and need not make it
        entry = [said, *metadata_actions(metadata, with_protocol=True)]
        hash = append(unfinished / LOG, 0, entry, id=id, table=spec.name, disk=table.disk)
        head = head_of(LogEntry.of(entry, 0, hash), metadata, None, oldest=0)
        write_head(unfinished / HIDDEN, head, table.disk)
        table.disk.sync([unfinished / HIDDEN, unfinished])
        rename(unfinished, table.folder)
    except (OSError, WarehouseError) as error:
        remove_tree(unfinished)
        if table.folder.exists():
            raise TableExistsError(spec.name, root) from error
        if isinstance(error, InputError | UsageError):
            raise
        raise disk_error(error, f"table {spec.name} cannot be created in {root}") from error
    with disk_errors(f"table {spec.name} was created, and may not be on the disk yet"):
        table.disk.sync([root, *(folder.absolute().parent for folder in new_folders)])
    with contextlib.suppress(OSError):  # the table is there: what killed ones left waits for the next
        for left in root.glob(new_table_name(spec.name)):
            remove_tree(left)
    return table


def share_table(table: Table, spec: TableSpec) -> None:
    """Let the members of the declared group read everything of a table, or nobody but its owner."""
    with disk_errors(f"who may read the files of table {table.name} cannot be changed"):
        _share(table.root, [folder for folder in (table.quarantine, table.folder) if folder.exists()], spec)
        sync_all(table)


def _share(root: Path, folders: Sequence[Path], spec: TableSpec) -> None:
    group = None if spec.group is None else group_id(spec.group)
    if group is not None and not let_in(root, group):
        msg = f"warehouse {root} cannot be entered by members of group {spec.group}"
        raise InputError(msg, f"let them: chgrp {spec.group}, or chmod o+x")
    for folder in folders:
        share(folder, group)


def alter_table(snapshot: Snapshot, changes: Mapping[str, str], new_column: Column | None, now_ms: int) -> None:
    """Change properties and add a column, in one commit with the ledger as it is."""
    schema = json.loads(snapshot.metadata["schemaString"])
    fields = [*schema["fields"], *(delta_fields([new_column]) if new_column else [])]
    metadata = {
        **snapshot.metadata,
        "schemaString": schema_text(fields),
        "configuration": {**snapshot.metadata["configuration"], **changes},
    }
    snapshot.commit_metadata(metadata, {"op": "alter", "slot": snapshot.ledger.clock}, now_ms)


def drop_table(table: Table) -> None:
    """Delete a table and its quarantine.  Both vanish under their names first, so no half of them is ever seen."""
    # The quarantine first: what a kill leaves is a table that can be dropped again, never records without a table.
    try:
        for folder in (table.quarantine, table.folder):
            if folder.exists():
                rename(folder, table.root / dropped_name(table.name, new_id()))
                table.disk.sync([table.root])  # before the next, and before anything in it goes
    except OSError as error:
        raise disk_error(error, f"table {table.name} cannot be dropped") from error
    remove_dropped(table.root)


def remove_dropped(root: Path) -> None:
    """Remove what killed drops left in a warehouse."""
    with disk_errors(f"what is left of dropped tables in {root} cannot be removed"):
        for left in root.glob(dropped_name("*")):
            remove_tree(left)


def check_root(root: Path) -> Path:
    """Refuse a warehouse that is a file."""
    if root.exists() and not root.is_dir():
        msg = f"warehouse {root} is not a folder"
        raise UsageError(msg, "choose another one", hint="warehouse")
    return root
