"""Where a table stands: clock, size, cells, deletion bound, last update."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timezone
from typing import Any

from ebb.index.timeline import TimeKind
from ebb.maintenance.declare import Description, described
from ebb.maintenance.inspect.exposure import exposure
from ebb.maintenance.upkeep import erase_plan
from ebb.warehouse.table.log import LogEntry
from ebb.warehouse.table.snapshot import Snapshot

__all__ = ["CellStatus", "LastUpdate", "Status", "iso_time", "known_fields", "status"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellStatus:
    """What one cell holds."""

    group: int
    cohort: int
    records: int
    bytes: int
    files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LastUpdate:
    """What the last update or load said about itself."""

    time: str  # when it was committed
    id: str | None = None
    op: str
    slot: int
    ticks: int = 0
    received: int = 0
    admitted: int = 0
    expired_on_arrival: int = 0
    quarantined: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    expired: int = 0
    live: int = 0
    cells_touched: int = 0
    cells_bound: int = 0
    files_added: int = 0
    files_removed: int = 0
    bytes_written: int = 0
    seconds: float = 0.0
    exposed_since: int | None = None
    erased_version: int | None = None
    erased_files: int = 0
    erased_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Status(Description):
    """Where a table stands."""

    folder: str
    version: int
    clock: int | None  # None before the first load or update
    clock_time: str | None
    ticks_behind: int | None  # None for integer times, which no wall clock moves
    next_due: str | None
    live_records: int
    stored_records: int
    files: int
    bytes: int
    files_waiting_for_erase: int  # removed, and within the grace period of readers
    expired_files_on_disk: int
    oldest_expired_age: str | None
    deletion_bound_kept: bool
    filling_group: int | None
    next_cohort: int | None
    cells: tuple[CellStatus, ...]  # those that hold something
    last_update: LastUpdate | None


def status(snapshot: Snapshot, now: datetime) -> Status:
    """Return where a table stands."""
    spec, clock, line = snapshot.spec, snapshot.ledger.clock, snapshot.spec.timeline
    due = line.clock_at(line.kind.from_datetime(now)) if line.kind.has_wall_clock else None
    exposed = exposure(snapshot, now)
    return Status(
        **described(spec),
        folder=str(snapshot.table.folder),
        version=snapshot.version,
        clock=clock,
        clock_time=None if clock is None else line.show_slot(clock),
        ticks_behind=None if clock is None or due is None else max(0, due - clock),
        next_due=None if clock is None else line.show_slot(clock + 1),
        live_records=snapshot.ledger.live_records,
        stored_records=sum(f.records for f in snapshot.files),
        files=len(snapshot.files),
        bytes=sum(f.size_bytes for f in snapshot.files),
        files_waiting_for_erase=erase_plan(snapshot, now).files_waiting,
        expired_files_on_disk=exposed.files,
        oldest_expired_age=_age(line.kind, exposed.age) if exposed.files else None,
        deletion_bound_kept=exposed.is_kept,
        filling_group=None if clock is None else spec.grid.groups.partition(clock + 1),
        next_cohort=None if clock is None else spec.grid.cohorts.partition(clock + 1),
        cells=_cells(snapshot),
        last_update=_last_update(snapshot),
    )


def _cells(snapshot: Snapshot) -> tuple[CellStatus, ...]:
    cells: dict[tuple[int, int], Counter[str]] = {}
    for file in snapshot.files:
        cells.setdefault(file.cell, Counter()).update(records=file.records, bytes=file.size_bytes, files=1)
    return tuple(CellStatus(group=g, cohort=e, **counts) for (g, e), counts in sorted(cells.items()))


def _last_update(snapshot: Snapshot) -> LastUpdate | None:
    for entry in snapshot.table.entries(snapshot.version):
        if entry.ebb.get("op") in ("update", "load"):
            return LastUpdate(**{**known_fields(LastUpdate, entry), "time": iso_time(entry.timestamp_ms)})
    return None


def known_fields(kind: type, entry: LogEntry) -> dict[str, Any]:
    """Return what a commit said about itself, as far as a dataclass has a field for it."""
    return {known.name: entry.ebb[known.name] for known in fields(kind) if known.name in entry.ebb}


def _age(kind: TimeKind, age: int) -> str:
    """Return an age without fractions of a second, in at most two units."""
    if kind is not TimeKind.TIMESTAMP:
        return kind.show_duration(age)
    seconds = age // 1_000_000
    for size, unit, smaller, rest in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if seconds >= size:
            return f"{seconds // size}{unit} {seconds % size // smaller}{rest}"
    return f"{seconds}s"


def iso_time(timestamp_ms: int) -> str:
    """Return the time of a commit as text."""
    moment = datetime.fromtimestamp(timestamp_ms / 1000, tz=timezone.utc)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
