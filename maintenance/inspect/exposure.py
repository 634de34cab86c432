"""How long expired records have been on disk, against the deletion bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ebb.index.cellfile import CellFile, Removal
from ebb.maintenance.plan.erase import exposed_since
from ebb.warehouse.table.cellfiles import file_of_add
from ebb.warehouse.table.snapshot import Snapshot

__all__ = ["Exposure", "exposed_by_others", "exposure"]


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


def exposure(snapshot: Snapshot, now: datetime, files: Sequence[CellFile]) -> Exposure:
    """Return how long the oldest expired byte has been on disk, as the log says; ``files`` are the live ones.

    The time counts from a record's expiry, or from when its file was written if that was later: a replay of old
    data cannot be late before it has begun. For integer columns the clock is the only now there is.
    """
    line, clock = snapshot.spec.timeline, snapshot.ledger.clock
    if clock is None:
        return Exposure(age=0, bound=snapshot.spec.bound, files=0)
    moment = line.kind.from_datetime(now) if line.kind.has_wall_clock else line.end_of(clock)
    over = max(clock, line.clock_at(moment))  # a table that is behind holds records that have expired on the wall
    expired = [file for file in files if file.has_expired(over)]
    others = exposed_by_others(snapshot)
    removed = [
        (since, len(removal.paths))
        for removal in snapshot.removals()
        if (since := others.get(removal.version, _exposed(removal, moment))) is not None
    ]
    starts = [since for since, _ in removed]
    if (live := exposed_since(expired, line, clock=over)) is not None:
        starts.append(live)
    return Exposure(
        age=max(0, moment - min(starts)) if starts else 0,
        bound=snapshot.spec.bound,
        files=len(expired) + sum(count for _, count in removed),
    )


def _exposed(removal: Removal, moment: int) -> int | None:
    """Return since when the oldest expired record in removed files has been due to go: it may have expired since."""
    if removal.exposed_since is None and removal.due_from is not None and removal.due_from <= moment:
        return removal.due_from
    return removal.exposed_since


def exposed_by_others(snapshot: Snapshot) -> dict[int, int]:
    """Return since when expired records in the files that other tools removed have been due to go, by version.

    What was in those files, the commits tell that added them, as far back as the log goes.
    """
    if not snapshot.foreign:
        return {}
    versions = {commit.version for commit in snapshot.foreign}
    removed: dict[str, int] = {}
    files: dict[int, list[CellFile]] = {version: [] for version in versions}
    for entry in snapshot.table.entries(snapshot.version):
        for add in entry.adds:
            file = file_of_add(add)
            if file.path in removed and file.has_slots:
                files[removed.pop(file.path)].append(file)
        if entry.version in versions:
            removed.update(dict.fromkeys(entry.removed, entry.version))
        elif not removed and entry.version < min(versions):
            break
    clock = snapshot.ledger.clock or 0
    since = {version: exposed_since(some, snapshot.spec.timeline, clock=clock) for version, some in files.items()}
    return {version: start for version, start in since.items() if start is not None}
