"""Making sure that what others have written to a table is on the disk, before anything is built on it.

A writer who died may have made a commit, of the table or of its quarantine, and not synced it; nor written the head record. One who does not wait for the disk leaves a word, ``unsynced``, for
the next one who does. Another tool leaves no word, but its commits tell.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ebb.index.errors import WarehouseError
from ebb.warehouse.store.errors import disk_errors
from ebb.warehouse.store.files import is_there, make_file, remove_file
from ebb.warehouse.store.paths import LOG, UNSYNCED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ebb.index.foreign import ForeignCommit
    from ebb.warehouse.store.lock import Lock
    from ebb.warehouse.table.snapshot import Table

__all__ = ["sync_all", "sync_foreign", "take_over"]


def take_over(table: Table, lock: Lock) -> None:
    """Begin to write after whoever wrote last.  Requires the writer's lock."""
    unsynced = table.hidden / UNSYNCED
    with disk_errors(f"table {table.name} cannot be written", note="nothing was changed"):
        if not table.disk.is_durable:
            make_file(unsynced, exist_ok=True)
        elif is_there(unsynced):
            sync_all(table)
            remove_file(unsynced)
        elif not lock.is_in_order:
            quarantine = [table.quarantine / LOG, table.quarantine, table.root]
            table.disk.sync([table.log, *(quarantine if is_there(quarantine[0]) else [])])
    if not lock.is_in_order:
        with suppress(WarehouseError, OSError):  # the commit that follows writes it, too
            _write_head(table)


def _write_head(table: Table) -> None:
    """Write the head record that a commit is ahead of, because its writer died."""
    snapshot = table.snapshot()
    is_behind = snapshot.head is not None and snapshot.head.entry != snapshot.hash
    if is_behind and snapshot.unsettled is None and not snapshot.foreign:
        table._newest[:] = [snapshot.with_head()]


def sync_foreign(table: Table, foreign: Sequence[ForeignCommit]) -> None:
    """Wait for what other tools wrote, before the commit that makes it part of the table."""
    if not foreign:
        return
    with disk_errors("the commit failed", note="nothing was changed"):
        sync_all(table)


def sync_all(table: Table) -> None:
    """Wait until everything of a table is on the disk, whoever wrote it; what goes wrong comes as OSError."""
    for folder in (table.quarantine, table.folder):
        if is_there(folder):
            table.disk.sync_below(folder)
    table.disk.sync([table.root])
