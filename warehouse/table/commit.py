"""A commit that knows whether it happened.

A commit is one file, the next entry of the log. It is written under another name first and then linked to its own,
which fails if that is taken: an entry is there whole or not at all, and of two writers one wins. Every commit has an
id. Whatever goes wrong on the way, the log decides: if the next entry has our id, the commit was made; if it has
another, somebody else was faster; if there is none, nothing was changed and it is tried once more; if the log cannot
be read, the commit is in doubt, and nobody may delete a file that it may name.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path

from ebb.index.errors import ConflictError, InDoubtError, WarehouseError
from ebb.index.head import entry_hash
from ebb.warehouse.store.errors import disk_error
from ebb.warehouse.store.files import create, remove_file
from ebb.warehouse.store.paths import UNFINISHED_COMMITS, entry_name, unfinished_commit
from ebb.warehouse.table.log import Action, LogEntry, encoded

__all__ = ["append", "new_id", "remove_unfinished"]


def new_id() -> str:
    """Return an id for a commit."""
    return uuid.uuid4().hex


def append(log: Path, version: int, actions: Sequence[Action], *, id: str, table: str) -> str:
    """Make entry ``version`` of a log; returns the hash of its bytes.  When this returns, the entry is there and it is ours.

    Raises ConflictError if the entry is somebody else's, EngineError if there is none, InDoubtError if nobody can tell.
    A signal is handed on, whether or not the entry was made: ask the log.
    """
    entry = encoded(actions)
    for is_last in (False, True):
        try:
            create(log / entry_name(version), entry, unfinished=log / unfinished_commit(id))
        except Exception as error:
            try:
                there = LogEntry.read(log, version)
            except WarehouseError as unreadable:
                raise InDoubtError(table, f"{error}; {unreadable}") from error
            if there is None:
                if is_last or not isinstance(error, OSError):
                    step = "fix the cause and run it again"
                    raise disk_error(error, "the commit failed", note="nothing was changed", step=step) from error
                continue
            if there.id != id:
                raise ConflictError(table, version - 1) from error
        break
    return entry_hash(entry)


def remove_unfinished(log: Path) -> None:
    """Remove what killed commits left.  Requires the writer's lock."""
    for unfinished in log.glob(UNFINISHED_COMMITS):
        remove_file(unfinished)
