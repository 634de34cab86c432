"""How long expired records have been on disk, against the deletion bound, and when the bound will be missed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate

from ebb.index.cellfile import CellFile, Removal
from ebb.index.strategy import Strategy
from ebb.index.timeline import Timeline
from ebb.maintenance.plan.erase import exposed_since
from ebb.warehouse.table.cellfiles import file_of_add
from ebb.warehouse.table.snapshot import Snapshot

__all__ = ["Exposure", "Pace", "exposed_by_others", "exposure", "missed_at", "pace_of"]

_STALLED_TICKS = 2  # overdue: that an update comes in time is then no assumption to make


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """How long the oldest expired record has been on disk after its expiry, against the deletion bound."""

    age: int  # in the unit of the time columns; 0 if there is none
    bound: int
    files: int  # files that hold expired records
    live: tuple[CellFile, ...] = ()  # those of them that are still in the table
    live_since: int | None = None  # since when the oldest expired record in these has been due to go

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
    moment = _moment(line, clock, now)
    over = max(clock, line.clock_at(moment))  # a table that is behind holds records that have expired on the wall
    expired = tuple(f for f in files if f.has_expired(over) and not f.cell.is_held)  # held ones must be there
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
        live=expired,
        live_since=live,
    )


def _exposed(removal: Removal, moment: int) -> int | None:
    """Return since when the oldest expired record in removed files has been due to go: it may have expired since."""
    if removal.exposed_since is None and removal.due_from is not None and removal.due_from <= moment:
        return removal.due_from
    return removal.exposed_since


def _moment(line: Timeline, clock: int, now: datetime) -> int:
    return line.kind.from_datetime(now) if line.kind.has_wall_clock else line.end_of(clock)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How expired records leave the disk of a table from now on."""

    timeline: Timeline
    strategy: Strategy
    bound: int
    grace_period: int
    lag: int  # ticks after which a file with an expired record is rewritten
    clock: int
    moment: int  # now
    is_stopped: bool  # no update can be expected

    @property
    def next_update(self) -> int:
        """Return when the next update is: at the end of the tick that is running."""
        return self.timeline.end_of(self.timeline.clock_at(self.moment) + 1)

    def removed(self, file: CellFile) -> int:
        """Return when an update removes a file or writes it again without what has expired in it."""
        is_rebuilt = self.strategy is Strategy.REBUILD
        slot = file.min_exp if is_rebuilt else min(file.max_exp, file.min_exp + self.lag)
        return max(self.next_update, self.timeline.end_of(slot))

    def erased(self, removed: int, *, is_prompt: bool = False) -> int:
        """Return when the files that were removed at a moment are gone.

        ``is_prompt``: the moment is that of the commit, and not of the update, whose commit comes a little later.
        """
        tick = self.timeline.tick
        over = removed + self.grace_period
        if not self.timeline.kind.has_wall_clock:  # the clock tells, and before the next update it is still there
            return max(self.moment, removed + -(-self.grace_period // tick) * tick)
        ticks = -((self.next_update - over) // tick) if is_prompt else (over - self.next_update) // tick + 1
        return self.next_update + max(0, ticks) * tick


def pace_of(snapshot: Snapshot, now: datetime) -> Pace | None:
    """Return how expired records leave the disk of a table; None if it has no clock yet."""
    spec, clock = snapshot.spec, snapshot.ledger.clock
    if clock is None:
        return None
    line = spec.timeline
    moment = _moment(line, clock, now)
    is_late = line.clock_at(moment) - clock >= _STALLED_TICKS
    return Pace(
        timeline=line,
        strategy=spec.strategy,
        bound=spec.bound,
        grace_period=spec.reader_time,
        lag=spec.lag,
        clock=clock,
        moment=moment,
        is_stopped=is_late or snapshot.write_refusal is not None,
    )


def missed_at(pace: Pace, files: Sequence[CellFile], removals: Sequence[Removal]) -> int | None:
    """Return when the deletion bound will be missed, or was; None if it is kept as far as the files can tell.

    ``files`` are the live ones, ``removals`` what waits to be erased, the oldest first. It is taken for granted that
    updates go on, each at the end of its tick, unless the table is stopped. Pure.
    """
    line, kind = pace.timeline, pace.timeline.kind
    ends = [(start, pace.erased(pace.removed(file))) for file in files if (start := _due(file, line)) is not None]
    stamps = [
        kind.from_micros(removal.committed_ms * 1000)
        if kind.has_wall_clock
        else line.end_of(pace.clock if removal.slot is None else removal.slot)
        for removal in removals
    ]
    for removal, stamp in zip(removals, list(accumulate(reversed(stamps), min))[::-1], strict=True):
        if removal.exposed_since is not None:
            ends.append((removal.exposed_since, pace.erased(stamp, is_prompt=True)))
    deadlines = [start + pace.bound for start, end in ends if pace.is_stopped or end > start + pace.bound]
    return min(deadlines, default=None)


def _due(file: CellFile, line: Timeline) -> int | None:
    """Return from when on the first record of a file is to be gone; None if nobody knows, or it is held."""
    is_due = file.has_slots and not file.cell.is_held
    return exposed_since([file], line, clock=file.min_exp) if is_due else None


def exposed_by_others(snapshot: Snapshot) -> dict[int, int]:
    """Return since when expired records in the files that other tools removed have been due to go, by version.

    What was in those files, the commits tell that added them, as far back as the log goes. Held files had to be there.
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
                version = removed.pop(file.path)
                files[version] += [] if file.cell.is_held else [file]
        if entry.version in versions:
            removed.update(dict.fromkeys(entry.removed, entry.version))
        elif not removed and entry.version < min(versions):
            break
    clock = snapshot.ledger.clock or 0
    since = {version: exposed_since(some, snapshot.spec.timeline, clock=clock) for version, some in files.items()}
    return {version: start for version, start in since.items() if start is not None}
