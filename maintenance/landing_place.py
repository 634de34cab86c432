"""Where a landing folder may be, and what one holds.

A landing folder belongs to one table: two tables would take each other's files. It is not in the warehouse, whose folders
are tables, nor around it. Paths are compared with their links followed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ebb.index.errors import UsageError, WarehouseError
from ebb.warehouse.store.paths import LANDING_APPLIED, LANDING_REFUSED, LANDING_TAKEN, QUARANTINE_SUFFIX
from ebb.warehouse.table.catalog import list_tables

__all__ = [
    "Kept",
    "check_landing",
    "check_place",
    "has_arrived",
    "kept_files",
    "read_landing",
    "relation",
    "strange_entries",
]

_SLOT = re.compile(r"-?[0-9]+(\.[0-9]+)?(\.part)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """How many files a landing folder holds."""

    folder: str
    waiting: int  # arrived, and part of no batch yet
    taken: int  # in _taken: part of a batch that is being applied, or that a run left unfinished
    refused: int  # in _refused
    applied: int  # in _applied: copies of what is in the table

    @property
    def total(self) -> int:
        """Return how many there are in all."""
        return self.waiting + self.taken + self.refused + self.applied


def has_arrived(path: Path) -> bool:
    """Whether something in a landing folder is a file that its producer has finished; a link to one counts."""
    return not path.name.startswith((".", "_")) and path.suffix not in (".tmp", ".part") and path.is_file()


def kept_files(folder: str) -> Kept | None:
    """Return how many files a landing folder holds; None if it cannot be looked into."""

    def set_aside(place: str) -> int:
        return sum(not path.name.startswith((".", "_")) for path in Path(folder, place).glob("*/*"))

    try:
        waiting = sum(map(has_arrived, Path(folder).iterdir()))
        taken, refused, applied = map(set_aside, (LANDING_TAKEN, LANDING_REFUSED, LANDING_APPLIED))
    except OSError:
        return None
    return Kept(folder=folder, waiting=waiting, taken=taken, refused=refused, applied=applied)


def strange_entries(folder: str) -> list[str]:
    """Return what is in Ebb's folders of a landing folder and is not the files of a slot."""
    found: list[str] = []
    for place in (LANDING_TAKEN, LANDING_REFUSED, LANDING_APPLIED):
        if Path(folder, place).is_dir():
            paths = Path(folder, place).iterdir()
            found += [f"{place}/{path.name}" for path in paths if not (path.is_dir() and _SLOT.fullmatch(path.name))]
    return sorted(found)


def read_landing(folder: str | None) -> str | None:
    """Return the place of a landing folder, absolute; None if there is none."""
    if not folder:
        return None
    try:
        folder.encode()
        return str(Path(folder).expanduser().resolve())
    except UnicodeEncodeError as error:
        msg = f"landing folder {folder!r} is not Unicode, and the table could not remember it; choose another"
        raise UsageError(msg) from error
    except (OSError, RuntimeError) as error:  # links that lead to themselves, or nobody's home
        msg = f"landing folder {folder} cannot be found ({error}); choose another"
        raise UsageError(msg) from error


def check_landing(folder: str | None, root: Path, table: str) -> None:
    """Refuse a landing folder of a table that is in or around the warehouse, or that another table has."""
    if folder is None:
        return
    others: dict[str, Path | None] = {}
    for other in list_tables(root):
        if other.name != table:
            try:
                landing = other.snapshot().spec.landing
            except WarehouseError:  # nobody can tell where it has its own
                landing = None
            others[other.name] = Path(landing).resolve() if landing else None
    check_place(Path(folder), root.resolve(), others, table)


def check_place(folder: Path, root: Path, others: Mapping[str, Path | None], table: str) -> None:
    """Refuse a landing folder that is no place for one.  ``others``: the other tables, and where they have theirs.

    >>> check_place(Path("/in/b"), Path("/data"), {"a": Path("/in/a")}, "b")
    """
    if how := relation(folder, root):
        inside = folder.relative_to(root).parts[:1] if folder.is_relative_to(root) else ()
        owner = next((name for name in (table, *others) if inside in ((name,), (name + QUARANTINE_SUFFIX,))), None)
        of = f", in the folder of table {owner}" if owner else ""
        msg = f"landing folder {folder} {how} the warehouse {root}{of}"
        raise UsageError(msg, "choose a folder that is apart from the warehouse")
    for name, other in others.items():
        if other is not None and (how := relation(folder, other)):
            place = "" if folder == other else f"{other}, "
            msg = f"landing folder {folder} {how} {place}the landing folder of table {name}"
            raise UsageError(msg, f"choose one for table {table} that is apart from it")


def relation(folder: Path, other: Path) -> str | None:
    """Return how two folders share a place; None if they do not.

    >>> relation(Path("/a/b"), Path("/a")), relation(Path("/a"), Path("/ab"))
    ('is inside', None)
    """
    if folder == other:
        return "is"
    if folder.is_relative_to(other):
        return "is inside"
    return "contains" if other.is_relative_to(folder) else None
