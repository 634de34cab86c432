"""The backups of a table that Ebb looks after, as the table remembers them: how old they are, and whether they are in order."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ebb.index.errors import WarehouseError
from ebb.index.manifest import Kept
from ebb.index.timeline import TimeKind
from ebb.maintenance.backup_place import Place, remembered
from ebb.maintenance.values import age_text
from ebb.warehouse.table.snapshot import Snapshot

__all__ = ["BackupStatus", "backups"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupStatus:
    """One backup."""

    place: str
    version: int | None  # None: the first one was never finished
    slot: int | None  # its clock
    taken: str | None
    age: str | None  # since it was taken
    age_seconds: float | None
    is_reachable: bool
    overdue: str | None  # how long the oldest expired record there has been due to be gone; None: the bound is kept
    is_stale: bool  # it may hold records that were forgotten since
    reason: str  # why expired records could not be taken out the last time; empty if they could

    @property
    def is_overdue(self) -> bool:
        """Whether it holds something for longer than was promised."""
        return self.is_stale or self.overdue is not None

    def finding(self, table: str) -> WarehouseError:
        """Return what is to be done about a backup that holds expired records for too long."""
        state = "" if self.is_reachable else ", and it cannot be reached"
        held = f"records that expired {self.overdue} ago, longer than the deletion bound allows"
        held = "records that were forgotten" if self.is_stale else held
        facts = f"the backup {self.place} of table {table} {'may hold' if self.is_stale else 'holds'} {held}{state}"
        return WarehouseError(facts, "bring it back and update the table", table, self.place, hint="backup")


def backups(snapshot: Snapshot, now: datetime) -> tuple[BackupStatus, ...]:
    """Return the backups of a table; none if what it remembers of them cannot be read.

    One that nobody has confirmed after it was restored looks after none.
    """
    copied = snapshot.spec.copied
    if copied is not None and not copied.is_confirmed:
        return ()
    try:
        return tuple(_status(snapshot, kept, now) for kept in remembered(snapshot.table))
    except WarehouseError:  # the next update says so
        return ()


def _status(snapshot: Snapshot, kept: Kept, now: datetime) -> BackupStatus:
    taken = None if kept.taken_ms is None else datetime.fromtimestamp(kept.taken_ms / 1000, tz=UTC)
    seconds = None if taken is None else max(0.0, (now - taken).total_seconds())
    return BackupStatus(
        place=kept.place,
        version=kept.version,
        slot=kept.clock,
        taken=None if taken is None else taken.isoformat(timespec="seconds").replace("+00:00", "Z"),
        age=None if seconds is None else age_text(TimeKind.TIMESTAMP, int(seconds * 1_000_000)),
        age_seconds=seconds,
        is_reachable=Place(Path(kept.place), snapshot.table.name).is_reachable,
        overdue=_overdue(snapshot, kept, now),
        is_stale=kept.stale_since is not None,
        reason=kept.reason,
    )


def _overdue(snapshot: Snapshot, kept: Kept, now: datetime) -> str | None:
    """Return the age of the oldest expired record in a backup if the deletion bound does not allow it."""
    line, clock = snapshot.spec.timeline, snapshot.ledger.clock
    if clock is None or kept.oldest is None:
        return None
    moment = line.kind.from_datetime(now) if line.kind.has_wall_clock else line.end_of(clock)
    age = moment - line.end_of(kept.oldest)
    return age_text(line.kind, age) if age > snapshot.spec.bound else None
