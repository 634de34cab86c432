"""A commit that knows whether it happened.

A commit is one file, the next entry of the log. It is written under another name first and then linked to its own,
which fails if that is taken: an entry is there whole or not at all, and of two writers one wins. Every commit has an
id. Whatever goes wrong on the way, the log decides: if the next entry has our id, the commit was made; if it has
another, somebody else was faster; if there is none, nothing was changed and it is tried once more; if the log cannot
be read, the commit is in doubt, and nobody may delete a file that it may name.

A commit also waits for the disk, in this order, so that a power failure leaves the table at a commit that was acknowledged
or at a later one, with every file that it names:

1. the files that the entry adds, what lies beside them, and the folders above them up to the table's;
2. the entry, under its other name;
3. the folder of the log, with the entry's name in it. Only then is the commit acknowledged, and the head record written,
   which so is never ahead of the log.

What else an entry names (a state of the ledger, commits of the quarantine) was synced by those who wrote it. What a commit
makes superfluous is deleted after it returned, so never before 3. An error of the disk in 1 or 2 leaves everything as it
was. One in 3 leaves a commit that others see already: nobody takes it back, and whoever locks the table next syncs it.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path

from ebb.index.errors import ConflictError, EngineError, InDoubtError, UnsyncedError, WarehouseError
from ebb.index.head import entry_hash
from ebb.warehouse.store.disk import Disk
from ebb.warehouse.store.errors import disk_error
from ebb.warehouse.store.files import create, is_there, remove_file
from ebb.warehouse.store.paths import (
    UNFINISHED_COMMITS,
    entry_name,
    folders_above,
    footer_hash_in,
    inside,
    side_file,
    unfinished_commit,
)
from ebb.warehouse.table.log import Action, LogEntry, encoded

__all__ = ["append", "new_id", "remove_unfinished"]


def new_id() -> str:
    """Return an id for a commit."""
    return uuid.uuid4().hex


def append(log: Path, version: int, actions: Sequence[Action], *, id: str, table: str, disk: Disk) -> str:
    """Make entry ``version`` of a log; returns the hash of its bytes.

    When this returns, the entry is there, on the disk, and it is ours.

    Raises ConflictError if the entry is somebody else's, EngineError if there is none, InDoubtError if nobody can tell,
    UnsyncedError if the entry is there and nobody can tell whether it is on the disk. A signal is handed on, whether or not
    the entry was made: ask the log.
    """
    try:
        disk.sync(_added(log.parent, actions))
    except OSError as error:
        raise _failed(error) from error
    entry = encoded(actions)
    _create(log, version, entry, id=id, table=table, disk=disk)
    try:
        # The first entry of a log comes with its folders.
        disk.sync([log] if version else [log, log.parent, log.parent.parent])
    except OSError as error:
        raise UnsyncedError(table, version, disk_error(error, "").args[1]) from error
    return entry_hash(entry)


def _added(folder: Path, actions: Sequence[Action]) -> list[Path]:
    """Return what must be on the disk before an entry that adds files."""
    paths = [inside(action["add"]["path"]) for action in actions if "add" in action]
    beside = [folder / side_file(path) for path in paths if footer_hash_in(path)]
    return [
        *(folder / path for path in paths),
        *filter(is_there, beside),
        *(folder / place for place in folders_above(paths)),
    ]


def _failed(error: Exception) -> EngineError:
    step = "fix the cause and run it again"
    return disk_error(error, "the commit failed", note="nothing was changed", step=step)


def _create(log: Path, version: int, entry: bytes, *, id: str, table: str, disk: Disk) -> None:
    for is_last in (False, True):
        try:
            create(log / entry_name(version), entry, unfinished=log / unfinished_commit(id), disk=disk)
        except Exception as error:
            try:
                there = LogEntry.read(log, version)
            except WarehouseError as unreadable:
                raise InDoubtError(table, f"{error}; {unreadable}") from error
            if there is None:
                if is_last or not isinstance(error, OSError):
                    raise _failed(error) from error
                continue
            if there.id != id:
                raise ConflictError(table, version - 1) from error
        return


def remove_unfinished(log: Path) -> None:
    """Remove what killed commits left.  Requires the writer's lock."""
    for unfinished in log.glob(UNFINISHED_COMMITS):
        remove_file(unfinished)
