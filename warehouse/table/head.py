"""The head record on disk: read before the log is opened, written after each commit under the writer's lock.

Read first, because a log only grows: one that is opened later must hold what the head record says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ebb.index.errors import LostHeadError, RolledBackError
from ebb.index.head import Head, lost, rolled_back
from ebb.warehouse.store.disk import Disk
from ebb.warehouse.store.errors import disk_error, refusal
from ebb.warehouse.store.files import read_file, replace_file
from ebb.warehouse.store.paths import HEAD
from ebb.warehouse.table.log import LogEntry

__all__ = ["Known", "head_of", "keep_from", "read_head", "vouched", "write_head"]


@dataclass(frozen=True, slots=True)
class Known:
    """The head record of a table, or what is wrong with it."""

    head: Head | None
    problem: str = ""


def read_head(hidden: Path) -> Known:
    """Read the head record in the hidden folder of a table."""
    try:
        return Known(Head.loads(read_file(f"{hidden}/{HEAD}")))
    except FileNotFoundError:
        return Known(None, "is missing")
    except OSError as error:
        if refusal(error):
            raise disk_error(error, f"the head record cannot be read: {hidden}/{HEAD}") from error
        return Known(None, "is damaged")
    except ValueError:
        return Known(None, "is damaged")


def write_head(hidden: Path, head: Head, disk: Disk) -> None:
    """Put a head record in place of the one before.  Requires the writer's lock; what goes wrong comes as OSError.

    After a power failure it may be the one before: then the log is ahead of it, as after a crash.
    """
    replace_file(hidden / HEAD, head.dumps(), disk)


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
    known = read_head(hidden).head
    if known is not None and version > known.oldest:
        write_head(hidden, replace(known, oldest=version), disk)
        disk.sync([hidden])


def vouched(
    name: str, log: Path, known: Known, *, table: str, newest: LogEntry | None, version: int
) -> RolledBackError | LostHeadError | None:
    """Return what is wrong with a log that was opened after its head record was read; None if nothing is.

    ``newest``: its entry ``version``.  Reads one more entry if the log goes on after the head.
    """
    head = known.head
    if head is None:
        return lost(name, known.problem)
    entry = newest if head.version == version else LogEntry.read(log, head.version)
    return rolled_back(name, head, table=table, newest=version, entry=entry.hash if entry else None)
