"""The commits of a table as the log tells them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import islice

from ebb.warehouse.table.log import LogEntry
from ebb.warehouse.table.snapshot import Snapshot

__all__ = ["Commit", "commits", "history"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One commit; what a commit of its kind does not say is None."""

    version: int
    committed: str  # when
    op: str
    files_added: int
    files_removed: int
    bytes_written: int
    id: str | None = None  # None if Ebb did not make it
    slot: int | None = None
    ticks: int | None = None
    received: int | None = None
    admitted: int | None = None
    expired_on_arrival: int | None = None
    quarantined: int | None = None
    reasons: Mapping[str, int] | None = None
    expired: int | None = None
    live: int | None = None
    live_before: int | None = None  # an adoption: what the ledger had counted
    adopted_versions: tuple[int, ...] | None = None  # an adoption: the commits of other tools
    adopted_operations: tuple[str, ...] | None = None
    repeated: int | None = None  # records that were left out because they had been applied before
    repeated_of: int | None = None
    cells_touched: int | None = None
    cells_bound: int | None = None
    seconds: float | None = None
    phases: Mapping[str, float] | None = None  # what took how many of them, up to the commit
    exposed_since: int | None = None  # since when the oldest expired record in the removed files had been due to go
    erased_version: int | None = None  # before it, what commits up to this one had removed was erased
    erased_files: int | None = None
    erased_bytes: int | None = None
    records: int | None = None  # that were live and were amended, forgotten, held or released
    expired_records: int | None = None  # that were forgotten, had expired, and were still in a file of the table
    removed_records: int | None = None  # that were forgotten in files that had been removed, and went sooner for it
    quarantined_records: int | None = None  # that were forgotten in the quarantine
    landed_files: int | None = None  # of the landing folder that were deleted because they held forgotten records
    case: str | None = None  # under which that was asked
    by: str | None = None  # who asked
    asked: str | None = None  # the salted hash of what was asked
    to_slot: int | None = None  # when amended records expire
    erase_by_ms: int | None = None  # when the bytes of forgotten records must be gone, in ms since 1970
    erase_by_slot: int | None = None  # the same where times are integers
    time: str | None = None  # of the slot


def history(snapshot: Snapshot, limit: int | None = None) -> tuple[Commit, ...]:
    """Return the commits, newest first, as the log tells them."""
    return tuple(islice(commits(snapshot), limit))


def commits(snapshot: Snapshot) -> Iterator[Commit]:
    """Yield the commits, newest first; each is read when it is asked for."""
    for entry in snapshot.table.entries(snapshot.version):
        yield _commit(snapshot, entry)


def _commit(snapshot: Snapshot, entry: LogEntry) -> Commit:
    said = {known.name: entry.ebb[known.name] for known in fields(Commit) if known.name in entry.ebb}
    slot = entry.ebb.get("slot")
    facts = {
        **{name: tuple(value) if isinstance(value, list) else value for name, value in said.items()},
        "version": entry.version,
        "committed": entry.committed,
        "op": entry.ebb.get("op", entry.operation.lower()),
        "files_added": len(entry.added),
        "files_removed": len(entry.removed),
        "bytes_written": entry.bytes_added,
        "time": None if slot is None else snapshot.spec.timeline.show_slot(slot),
    }
    return Commit(**facts)
