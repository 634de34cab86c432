"""How long expired records have been on disk, against the deletion bound."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

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
    """Measure the oldest expired byte on disk.

    The time counts from a record's expiry, or from when its file was written if that was later: a replay of old
    data cannot be late before it has begun. For integer columns the clock is the only now there is.
    """
    line, clock = snapshot.spec.timeline, snapshot.ledger.clock
    if clock is None:
        return Exposure(age=0, bound=snapshot.spec.bound, files=0)
    moment = line.kind.from_datetime(now) if line.kind.has_wall_clock else line.end_of(clock)
    over = max(clock, line.clock_at(moment))  # a table that is behind holds records that have expired on the wall
    oldest: dict[str, int] = {f.path: f.min_exp for f in snapshot.files if f.has_expired(over)}
    removed = set(snapshot.table.data_files()) - {f.path for f in snapshot.files}
    for entry in snapshot.table.entries(snapshot.version):
        if not removed:
            break
        if entry.ebb.get("oldest_expired") is not None:
            oldest |= {path: entry.ebb["oldest_expired"] for path in entry.removed if path in removed}
        removed -= set(entry.removed)
    age = 0
    for path, slot in oldest.items():
        start = line.end_of(slot)
        if line.kind.has_wall_clock:
            written = datetime.fromtimestamp((snapshot.table.folder / path).stat().st_mtime, tz=now.tzinfo)
            start = max(start, line.kind.from_datetime(written))
        age = max(age, moment - start)
    return Exposure(age=age, bound=snapshot.spec.bound, files=len(oldest))
