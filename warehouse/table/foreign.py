"""What other tools did to a table: noticed when its log is read, refused by writers, told to readers.

A commit without an ``ebb`` entry is another tool's. If it added or removed files, counts of the ledger no longer hold, and
nothing may be planned with them until somebody has looked: see ``maintenance/adopt.py``. One that did neither (a vacuum,
a property of Delta) changes nothing that Ebb relies on.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path

from deltalake import DeltaTable

from ebb.index.cellfile import CellFile
from ebb.index.errors import CorruptionError, ProtocolError
from ebb.index.foreign import ForeignCommit, ForeignCommitWarning, refusal
from ebb.warehouse.table.log import LogEntry

__all__ = ["check_protocol", "check_slots", "foreign_commits", "warn_reader"]

_READER, _WRITER = 1, 2  # the protocol of our tables


def foreign_commits(log: Path, newest: int) -> tuple[ForeignCommit, ...]:
    """Return the commits since the last one of Ebb that added or removed files, the oldest first.  One read if none."""
    found: list[ForeignCommit] = []
    for version in range(newest, -1, -1):
        entry = LogEntry.read(log, version)
        if entry is None or entry.id is not None:
            break
        if entry.added or entry.removed:
            found.append(
                ForeignCommit(
                    version=version,
                    operation=entry.operation,
                    committed=entry.committed,
                    files_added=len(entry.added),
                    files_removed=len(entry.removed),
                )
            )
    return tuple(reversed(found))


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
