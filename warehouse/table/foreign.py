"""What other tools did to a table: noticed when its log is read, refused by writers, told to readers.

A commit without an ``ebb`` entry is another tool's. If it added or removed files, counts of the ledger no longer hold, and
nothing may be planned with them until somebody has looked: see ``maintenance/adopt.py``. One that did neither (a vacuum,
a property of Delta) changes nothing that Ebb relies on.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from ebb.index.cellfile import CellFile
from ebb.index.errors import CorruptionError, ProtocolError
from ebb.index.foreign import ForeignCommit, ForeignCommitWarning, refusal
from ebb.warehouse.table.log import LogEntry
from ebb.warehouse.table.spec import ALTERABLE

__all__ = ["check_layout", "check_protocol", "check_slots", "entries_of_others", "foreign_commits", "warn_reader"]

_READER, _WRITER = 1, 2  # the protocol of our tables


def entries_of_others(log: Path, newest: LogEntry | None) -> list[LogEntry]:
    """Return the commits since the last one of Ebb, the oldest first.  No read if there are none."""
    found: list[LogEntry] = []
    entry = newest
    while entry is not None and entry.id is None:
        found.append(entry)
        entry = LogEntry.read(log, entry.version - 1) if entry.version else None
    return found[::-1]


def foreign_commits(entries: Sequence[LogEntry]) -> tuple[ForeignCommit, ...]:
    """Return those commits of other tools that added or removed files."""
    return tuple(
        ForeignCommit(
            version=entry.version,
            operation=entry.operation,
            committed=entry.committed,
            files_added=len(entry.added),
            files_removed=len(entry.removed),
        )
        for entry in entries
        if entry.added or entry.removed
    )


def check_layout(table: str, folder: Path, entries: Sequence[LogEntry], now: Mapping[str, str]) -> None:
    """Refuse a table whose layout, as its properties tell it, is another one since commits of other tools.

    What ``alter`` can change may change. Looks further back only if one of them says how the table looks.
    """
    changed = [entry for entry in entries if entry.changes_table]
    if not changed or not entries[0].version:
        return
    try:
        was = DeltaTable(folder, version=entries[0].version - 1).metadata().configuration
    except (DeltaError, OSError):  # that version left the log: then nothing is left to compare with
        return
    names = sorted(name for name in {*was, *now} if name.startswith("ebb.") and was.get(name) != now.get(name))
    fixed = [name for name in names if name not in ALTERABLE]
    if fixed:
        what = f"another tool changed the layout of table {table} in version {changed[0].version}"
        raise CorruptionError(what, ", ".join(fixed), "set it back with that tool, or restore the table from a backup")


def check_protocol(table: str, delta: DeltaTable) -> None:
    """Refuse a table whose files mean something else than Ebb reads in them: deletion vectors, column mapping."""
    now = delta.protocol()
    if now.min_reader_version > _READER or now.min_writer_version > _WRITER:
        features = {*(now.reader_features or ()), *(now.writer_features or ())}
        raise ProtocolError(table, now.min_reader_version, now.min_writer_version, sorted(features))


def check_slots(files: Iterable[CellFile]) -> None:
    """Refuse files without slots in the log: only another tool's commit may add one."""
    for file in files:
        if not file.has_slots:
            raise CorruptionError("the log has no slots for a file", file.path, "restore the log from a backup")


def warn_reader(table: str, commits: Sequence[ForeignCommit]) -> None:
    """Warn that an answer is made of what another tool has left."""
    if commits:
        warnings.warn(ForeignCommitWarning(refusal(table, commits)), stacklevel=4)
