"""Random grids and histories of updates for the laws, and the loop that plays a history on a store of files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hypothesis import strategies as st

from ebb.index.grid import Axis, Grid, Ring, Shuffle
from ebb.index.strategy import Strategy
from ebb.maintenance.plan.update import UpdatePlan, plan_update
from ebb.maintenance.plan.upkeep import plan_seal
from tests.filestore import FileStore, Record

MOST_PARTITIONS = 8
GENERATIONS = st.integers(0, 2)


@dataclass(frozen=True)
class Step:
    """One update: how many ticks it covers and the lifetimes, in ticks, of the records it brings."""

    ticks: int
    lifetimes: tuple[int, ...]


@dataclass(frozen=True)
class History:
    """A grid, p and the updates made to it."""

    grid: Grid
    ticks_per_span: int
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Moment:
    """An update that has been planned and applied."""

    clock: int
    slot: int
    arriving: list[Record]
    expected: list[Record]
    plan: UpdatePlan
    store: FileStore
    was_killed: bool


def axes() -> st.SearchStrategy[Axis]:
    """Draw an axis of any kind."""
    counts = st.integers(1, MOST_PARTITIONS)
    return st.one_of(st.builds(Ring, counts, st.integers(1, 5)), st.builds(Shuffle, counts, st.integers(0, 2**16)))


def grids() -> st.SearchStrategy[Grid]:
    """Draw a grid with any two axes."""
    return st.builds(Grid, axes(), axes(), GENERATIONS)


@st.composite
def exclusive_grids(draw: st.DrawFn, ticks_per_span: int) -> Grid:
    """Draw a grid that retire accepts."""
    run = draw(st.integers(1, 4))
    fewest = -(-ticks_per_span // run) + 1
    return Grid(draw(axes()), Ring(draw(st.integers(fewest, fewest + 2)), run), draw(GENERATIONS))


@st.composite
def histories(
    draw: st.DrawFn, *, exclusive: bool = False, most_ticks: int = 1, steps: tuple[int, int] = (1, 20)
) -> History:
    """Draw a grid and what happens to it."""
    p = draw(st.integers(1, 10))
    lifetimes = st.lists(st.integers(1, p), max_size=6).map(tuple)
    step = st.builds(Step, st.integers(1, most_ticks), lifetimes)
    grid = draw(exclusive_grids(p) if exclusive else grids())
    return History(grid, p, tuple(draw(st.lists(step, min_size=steps[0], max_size=steps[1]))))


@st.composite
def stocked_stores(draw: st.DrawFn, *, clock: int, with_expired: bool) -> FileStore:
    """Draw a table whose files lie where the grid says, written by up to four commits and merged in any way."""
    store = FileStore(draw(grids()))
    ages = st.integers(0, 9)
    left = st.integers(-3 if with_expired else 1, 10)
    commits = draw(st.lists(st.lists(st.tuples(ages, left), max_size=10), max_size=4))
    number = 0
    for commit in commits:
        records = []
        for age, ticks_left in commit:
            number += 1
            records.append(Record(number, min(clock - age, clock + ticks_left - 1), clock + ticks_left))
        store.admit(records)
    return store


def play(
    history: History,
    strategy: Strategy,
    *,
    lag: int = 0,
    is_sealing: bool = False,
    killed: Callable[[], bool] = lambda: False,
) -> Iterator[Moment]:
    """Plan and apply each update of a history, beginning with an empty table at slot 0.

    ``killed``: whether the next update is, after the commit that moves the clock.
    """
    store, grid, clock, number = FileStore(history.grid), history.grid, 0, 0
    for step in history.steps:
        slot = clock + step.ticks
        batch = [Record(number + i, slot, slot + life) for i, life in enumerate(step.lifetimes)]
        number += len(batch)
        expected = sorted(store.visible(slot) + batch)
        arriving = store.stage(batch)
        plan = plan_update(strategy, grid, clock=clock, slot=slot, live=store.live, arriving=arriving, lag=lag)
        was_killed = killed()
        if was_killed:
            store.apply(plan.update)
        else:
            store.apply_all(plan)
        if is_sealing:
            store.apply(plan_seal(grid, clock=slot, live=store.live))
        yield Moment(clock, slot, batch, expected, plan, store, was_killed)
        clock = slot
