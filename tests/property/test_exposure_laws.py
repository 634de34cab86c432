"""When the deletion bound will be missed, as told from the files, against a simulation of the updates to come."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from ebb.index.cellfile import CellFile, Removal
from ebb.index.grid import Axis, Grid, Ring
from ebb.index.strategy import Strategy, lag_ticks, shortest_bound
from ebb.index.timeline import TimeKind, Timeline
from ebb.maintenance.inspect.exposure import Pace, missed_at
from ebb.maintenance.plan.erase import exposed_since, plan_erase
from ebb.maintenance.plan.update import plan_update
from ebb.maintenance.plan.upkeep import plan_purge, plan_seal
from tests.filestore import FileStore, Record

HOUR = 3_600_000_000
SECONDS = 1_000_000
SPAN = 5


@dataclass
class World:
    """A table as its plans make it, on a clock of its own: a commit is made some seconds after its update began."""

    line: Timeline
    strategy: Strategy
    grid: Grid
    bound: int
    grace_period: int
    clock: int = 0
    now: int = 0
    is_sealing: bool = False
    removals: list[Removal] = field(default_factory=list)
    missed: int | None = None  # the first moment at which the bound was missed by what has gone
    _added: dict[str, int] = field(default_factory=dict)
    _version: int = 0

    def __post_init__(self) -> None:
        self.store = FileStore(self.grid)

    @property
    def lag(self) -> int:
        return lag_ticks(self.bound, self.line, self.grace_period)

    @property
    def live(self) -> list[CellFile]:
        return [replace(file, added_ms=self._added[file.path]) for file in self.store.live]

    @property
    def moment(self) -> int:
        return self.now if self.line.kind.has_wall_clock else self.line.end_of(self.clock)

    def pace(self, *, is_stopped: bool = False) -> Pace:
        return Pace(
            timeline=self.line, strategy=self.strategy, bound=self.bound, grace_period=self.grace_period, lag=self.lag, clock=self.clock,
            moment=self.moment, is_stopped=is_stopped,
        )  # fmt: skip

    def update(self, records: list[Record], slot: int) -> None:
        """Erase, admit and expire; then purge and seal as updates do."""
        wall = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=self.now)
        plan = plan_erase(self.removals, self.line, grace_period=self.grace_period, clock=self.clock, now=wall)
        for removal in plan.erased:
            self._judge(removal.exposed_since)
        self.removals = list(plan.waiting)
        arriving = [replace(file, added_ms=0) for file in self.store.stage(records)]
        before = {file.path for file in self.live}
        whole = plan_update(
            self.strategy, self.grid, clock=self.clock, slot=slot, live=self.live, arriving=arriving, lag=self.lag
        )
        self.store.apply_all(whole)
        self.now, self.clock = self.now + 5 * SECONDS, slot
        self._commit(before)
        for due in (
            plan_purge(clock=slot, live=self.live, lag=self.lag),
            plan_seal(self.grid, clock=slot, live=self.live) if self.is_sealing else None,
        ):
            if due is not None:
                before = {file.path for file in self.live}
                self.store.apply(due)
                self._commit(before)

    def _commit(self, before: set[str]) -> None:
        there = {file.path for file in self.store.live}
        gone = [replace(file, added_ms=self._added[file.path]) for file in self._known if file.path in before - there]
        self._version += 1
        for path in there - self._added.keys():
            self._added[path] = self.now // 1000
        self._known = self.store.live
        if gone:
            since = exposed_since(gone, self.line, clock=self.clock)
            self.removals.append(
                Removal(
                    version=self._version, committed_ms=self.now // 1000, slot=self.clock, paths=tuple(f.path for f in gone),
                    size_bytes=1, exposed_since=since,
                )
            )  # fmt: skip

    _known: list[CellFile] = field(default_factory=list)

    def _judge(self, since: int | None) -> None:
        if since is not None and self.moment > since + self.bound:
            self.missed = min(self.missed or since + self.bound, since + self.bound)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Draw a table after some updates, of which some came late."""
    has_wall = draw(st.booleans())
    tick = HOUR if has_wall else draw(st.integers(1, 3))
    line = Timeline(kind=TimeKind.TIMESTAMP if has_wall else TimeKind.INTEGER, origin=0, tick=tick, span=SPAN * tick)
    strategy = draw(st.sampled_from(list(Strategy)))
    grid = Grid(Ring(draw(st.integers(1, 4)), draw(st.integers(1, 2))), _cohorts(draw, strategy))
    grace = draw(st.integers(0, 3 * tick)) if not has_wall else draw(st.integers(0, 12)) * tick // 4
    shortest = shortest_bound(strategy, grid, line, grace)
    bound = shortest + draw(st.integers(0, 3)) * tick
    world = World(line, strategy, grid, bound, grace, is_sealing=strategy is Strategy.RETIRE and draw(st.booleans()))
    number = 0
    for ticks in draw(st.lists(st.sampled_from([1, 1, 1, 1, 2, 4]), min_size=2, max_size=12)):
        slot = world.clock + ticks
        world.now = max(world.now, line.end_of(slot) if has_wall else 0) + draw(st.integers(0, 1800)) * SECONDS
        lifetimes = draw(st.lists(st.integers(1, SPAN), max_size=4))
        world.update([Record(number + at, slot, slot + life) for at, life in enumerate(lifetimes)], slot)
        number += len(lifetimes)
    if has_wall:
        world.now += draw(st.integers(0, 5 * 3600)) * SECONDS
    return world


def _cohorts(draw: st.DrawFn, strategy: Strategy) -> Axis:
    run = draw(st.integers(1, 3))
    return Ring(-(-SPAN // run) + 1 if strategy is Strategy.RETIRE else draw(st.integers(1, 4)), run)


@given(worlds())
def test_what_the_files_foretell_comes_true(world: World) -> None:
    """Updates go on in time: the bound is missed when it was told, or never."""
    told = missed_at(world.pace(), world.live, world.removals)
    world.missed = None
    line = world.line
    for _ in range(60):
        if line.kind.has_wall_clock:
            slot = line.clock_at(world.now) + 1
            world.now = line.end_of(slot)
        else:
            slot = world.clock + 1
        world.update([], slot)
        if not world.live and not world.removals:
            break

    assert not world.live
    assert told == world.missed


@given(worlds())
def test_without_updates_the_oldest_byte_tells_when_the_bound_is_missed(world: World) -> None:
    told = missed_at(world.pace(is_stopped=True), world.live, world.removals)

    ends = [line_start(world, file) for file in world.live]
    ends += [removal.exposed_since for removal in world.removals if removal.exposed_since is not None]
    assert told == min((start + world.bound for start in ends), default=None)


def line_start(world: World, file: CellFile) -> int:
    """Return when the first record of a file is due to go."""
    expiry = world.line.end_of(file.min_exp)
    return max(expiry, file.added_ms * 1000) if world.line.kind.has_wall_clock else expiry
