"""Objects that say which records are held: written before the commit that names them, gone with the release.

They hold keys and conditions, so they are never part of the log. Nothing is done without them: one that is missing or damaged
is an error.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from ebb.index.cellfile import HoldName
from ebb.index.errors import CorruptionError
from ebb.index.holds import Hold
from ebb.warehouse.store.errors import disk_errors, read_error
from ebb.warehouse.store.files import make_folder, names_in, read_file, remove_file, write_new
from ebb.warehouse.store.paths import HOLDS, hold_name
from ebb.warehouse.table.snapshot import Snapshot, Table

__all__ = ["damaged_holds", "read_holds", "remove_other_holds", "write_hold"]


def _folder(table: Table) -> Path:
    return table.hidden / HOLDS


def read_holds(snapshot: Snapshot) -> list[tuple[HoldName, Hold]]:
    """Return what each case of a table holds, the oldest first."""
    return [(found, _read(snapshot.table, found)) for found in snapshot.ledger.holds]


def _read(table: Table, found: HoldName) -> Hold:
    step = "restore it from a backup; until then nothing is written"
    try:
        return Hold.loads(read_file(f"{_folder(table)}/{found.name}"))
    except OSError as error:
        raise read_error(error, f"hold {found.case}", found.name, damaged=step) from error
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptionError(f"hold {found.case} is damaged", f"{found.name} ({error})", step) from error


def damaged_holds(snapshot: Snapshot) -> list[tuple[HoldName, CorruptionError]]:
    """Return the holds that are missing or damaged, each with the reason."""
    damaged = []
    for found in snapshot.ledger.holds:
        try:
            _read(snapshot.table, found)
        except CorruptionError as error:
            damaged.append((found, error))
    return damaged


def write_hold(table: Table, hold: Hold) -> HoldName:
    """Write an object under a new name, for a commit to name it."""
    name = hold_name()
    with disk_errors(f"hold {hold.case} cannot be written"):
        make_folder(_folder(table), exist_ok=True, parents=True)
        write_new(f"{_folder(table)}/{name}", [hold.dumps()])
        table.disk.sync([_folder(table) / name, _folder(table), table.hidden])
    return HoldName(hold.case, name)


def remove_other_holds(table: Table, named: Collection[HoldName]) -> None:
    """Remove the objects that the newest commit does not name.  Requires the writer's lock."""
    names = {found.name for found in named}
    with suppress(FileNotFoundError):
        for name in names_in(_folder(table)):
            if name not in names:
                remove_file(_folder(table) / name)
