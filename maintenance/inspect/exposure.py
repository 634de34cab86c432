"""How long expired records have been on disk, against the deletion bound."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ebb.maintenance.plan.erase import exposed_since
from ebb.warehouse.table.snapshot import Snapshot

__all__ = ["Exposure", "exposure"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """How long the oldest expired record has been on disk after its expiry, against the deletion bound."""

    age: int  # in the unit of the time columns; 0 if there is none
    bound: int
    files: int  # files that hold expired records

    @property
    def is_kept(self) -> bool:
        """Whether the deletion bound holds."""
        return self.age <= self.bound


def exposure(snapshot: Snapshot, now: datetime) -> Exposure:
    """Return how long the oldest expired byte has been on disk, as the log says.

    The time counts from a record's expiry, or from when its file was written if that was later: a replay of old
    data cannot be late before it has begun. For integer columns the clock is the only now there is.
    """
    line, clock = snapshot.spec.timeline, snapshot.ledger.clock
    if clock is None:
        return Exposure(age=0, bound=snapshot.spec.bound, files=0)
    moment = line.kind.from_datetime(now) if line.kind.has_wall_clock else line.end_of(clock)
    over = max(clock, line.clock_at(moment))  # a table that is behind holds records that have expired on the wall
    expired = [file for file in snapshot.files if file.has_expired(over)]
    live = exposed_since(expired, line, clock=over)
    removed = [removal for removal in snapshot.removals() if removal.exposed_since is not None]
    starts = [start for start in (live, *(removal.exposed_since for removal in removed)) if start is not None]
    return Exposure(
        age=max(0, moment - min(starts)) if starts else 0,
        bound=snapshot.spec.bound,
        files=len(expired) + sum(len(removal.paths) for removal in removed),
    )
