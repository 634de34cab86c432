"""The head record on disk: read before the log is opened, written after each commit under the writer's lock.

Read first, because a log only grows: one that is opened later must hold what the head record says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ebb.index.errors import LostHeadError, RolledBackError
from ebb.index.head import Head, lost, new_file, places, rolled_back
from ebb.warehouse.store.disk import Disk
from ebb.warehouse.store.errors import disk_error, refusal
from ebb.warehouse.store.files import overwrite, read_file, replace_file
from ebb.warehouse.store.paths import HEAD, entry_name
from ebb.warehouse.table.log import LogEntry

__all__ = ["Known", "check_whole", "fits", "follows", "head_of", "keep_from", "read_head", "vouched", "write_head"]


@dataclass(frozen=True, slots=True)
class Known:
    """The head record of a table, or what is wrong with it."""

    head: Head | None
    problem: str = ""
    next_at: int | None = None  # where the next one goes; None: in a new file
    is_whole: bool = True


def read_head(hidden: Path) -> Known:
    """Read the head record in the hidden folder of a table."""
    try:
        found = places(read_file(f"{hidden}/{HEAD}"))
    except FileNotFoundError:
        return Known(None, "is missing")
    except OSError as error:
        if refusal(error):
            raise disk_error(error, f"the head record cannot be read: {hidden}/{HEAD}") from error
        return Known(None, "is damaged")
    problem = "" if found.head else "is damaged"
    return Known(found.head, problem, found.next_at if found.head else None, found.is_whole)


def write_head(hidden: Path, head: Head, disk: Disk, known: Known | None = None) -> Head:
    """Write the next head record, after the one that is known; returns it.

    Requires the writer's lock. What goes wrong comes as OSError. Nobody waits for the disk unless the file is made: after a
    power failure one before it may count, and the log be ahead of it as after a crash.
    """
    known = known or Known(None)
    made = replace(head, serial=known.head.serial + 1 if known.head else 0)
    if known.next_at is None:
        replace_file(hidden / HEAD, new_file(made), disk)
    else:
        overwrite(hidden / HEAD, made.dumps(), known.next_at)
    return made


def head_of(entry: LogEntry, metadata: Mapping[str, Any], clock: int | None, *, oldest: int) -> Head:
    """Return the head record of a commit."""
    return Head(
        table=str(metadata["id"]),
        version=entry.version,
        commit=entry.id,
        entry=entry.hash,
        clock=clock,
        oldest=oldest,
    )


def keep_from(hidden: Path, version: int, disk: Disk) -> None:
    """Say that the log need not have entries before a version: before they are removed.  Requires the writer's lock."""
    known = read_head(hidden)
    if known.head is not None and version > known.head.oldest:
        write_head(hidden, replace(known.head, oldest=version), disk, known)
        disk.sync([hidden / HEAD, hidden])


def vouched(
    name: str, log: Path, known: Known, *, table: str, newest: LogEntry | None, version: int
) -> RolledBackError | LostHeadError | None:
    """Return what is wrong with a log that was opened after its head record was read; None if nothing is.

    ``newest``: its entry ``version``.  Reads one more entry if the log goes on after the head, and more only if the head
    record is of another table: that of an adoption whose writer died before it wrote the next one is.
    """
    head = known.head
    if head is None:
        return lost(name, known.problem)
    if head.table != table and _is_adopted(head, log, version):
        return None
    entry = newest if head.version == version else LogEntry.read(log, head.version)
    return rolled_back(name, head, table=table, newest=version, entry=entry.hash if entry else None)


def fits(head: Head | None, *, table: str, version: int, entry: str, is_last: bool) -> bool:
    """Whether a log that has an entry may be the one that a head record tells of; ``is_last``: it has none after it.

    Who has seen the newest commit needs no head record.
    """
    if head is None:
        return True
    is_this_or_later = head.version <= version or not is_last
    return head.table == table and is_this_or_later and (head.version != version or head.entry == entry)


def follows(entry: LogEntry, before: str) -> bool:
    """Whether what an entry of Ebb tells is all that changed after the one before it, whose hash is ``before``."""
    return not entry.changes_table and "ledger" in entry.ebb and entry.ebb.get("after") == before


def check_whole(name: str, hidden: Path, log: Path, table: str, version: int, entry: str) -> None:
    """Refuse to go on with a log that lost commits since it was read: the next head record would hide that.

    ``version`` and ``entry``: the newest that was read, and its hash.
    """
    head = read_head(hidden).head
    if head is None or head.table != table or head.version < version or (log / entry_name(version + 1)).exists():
        return  # if there is one, somebody was faster
    found = entry if head.version == version else None
    if refused := rolled_back(name, head, table=table, newest=version, entry=found):
        raise refused


def _is_adopted(head: Head, log: Path, newest: int) -> bool:
    """Whether a log was adopted in spite of a head record, and so has another table id since.  O(commits)."""
    for version in range(newest, -1, -1):
        entry = LogEntry.read(log, version)
        if entry is None:
            return False
        if entry.ebb.get("former_table") == head.table:
            return head.version < version + int(entry.ebb.get("lost_versions") or 0)
    return False
