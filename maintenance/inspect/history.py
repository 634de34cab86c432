"""The commits of a table as the log tells them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from ebb.maintenance.inspect.status import iso_time, known_fields
from ebb.warehouse.table.snapshot import Snapshot

__all__ = ["Commit", "history"]


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
    cells_touched: int | None = None
    cells_bound: int | None = None
    seconds: float | None = None
    erased_version: int | None = None  # before it, what commits up to this one had removed was erased
    erased_files: int | None = None
    erased_bytes: int | None = None
    time: str | None = None  # of the slot


def history(snapshot: Snapshot, limit: int | None = None) -> tuple[Commit, ...]:
    """Return the commits, newest first, as the log tells them."""
    return tuple(islice(_commits(snapshot), limit))


def _commits(snapshot: Snapshot) -> Iterator[Commit]:
    for entry in snapshot.table.entries(snapshot.version):
        slot = entry.ebb.get("slot")
        facts = {
            **known_fields(Commit, entry),
            "version": entry.version,
            "committed": iso_time(entry.timestamp_ms),
            "op": entry.ebb.get("op", entry.operation.lower()),
            "files_added": len(entry.added),
            "files_removed": len(entry.removed),
            "bytes_written": entry.bytes_added,
            "time": None if slot is None else snapshot.spec.timeline.show_slot(slot),
        }
        yield Commit(**facts)
