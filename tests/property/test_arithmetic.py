"""The formulas of ``docs/arithmetic.md`` against real plans, played tick by tick on a store of files."""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from bench.measure import RESULTS
from bench.report import rows_of
from bench.report_constants import log_bytes
from ebb.index.cost.choose import choose, expected_files
from ebb.index.grid import Grid, Ring
from ebb.index.strategy import Strategy, lag_ticks
from ebb.index.strategy import shortest_bound as declared_bound
from ebb.index.timeline import TimeKind, Timeline
from ebb.maintenance.plan.change import Plan
from ebb.maintenance.plan.update import plan_update
from ebb.maintenance.plan.upkeep import plan_purge, plan_seal
from ebb.warehouse.table.log import add_action, encoded, remove_action
from tests.documents import ROOT, blocks, run_python
from tests.filestore import FileStore, Record

PAGE = ROOT / "docs" / "arithmetic.md"
REBUILD, NOREBUILD, RETIRE = Strategy
RETIRED = [(12, 3, 2), (24, 5, 4), (36, 6, 7), (36, 6, 1), (48, 7, 10), (24, 5, 24)]
SQUARES = [(36, 4, 4), (36, 2, 6), (24, 4, 4), (36, 6, 3), (60, 5, 5)]


@pytest.fixture(scope="module")
def formulas(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what the page defines, after all of its own examples hold."""
    folder = tmp_path_factory.mktemp("arithmetic")
    names: dict[str, Any] = {}
    for block in blocks(PAGE, "python"):
        names = run_python(PAGE, folder, names, block)
    return names


class Tick(NamedTuple):
    """What one update with everything that is due after it left and wrote."""

    runs: int
    written: float  # records per record admitted
    latest: int  # ticks since the expiry of the oldest expired record that is still in the table
    cells: int


def ticks(grid: Grid, p: int, strategy: Strategy, lag: int) -> Iterator[Tick]:
    """Play updates whose batches have one record for each lifetime, for ever; keys know nothing of lifetimes."""
    store, slot, rng = FileStore(grid, part_records=10**9), 0, random.Random(2006)
    while True:
        slot += 1
        numbers = rng.sample(range(slot * p, (slot + 1) * p), p)
        batch = [Record(number, slot, slot + life) for life, number in enumerate(numbers, start=1)]
        arriving = store.stage(batch)
        live = store.live
        plan = plan_update(strategy, grid, clock=slot - 1, slot=slot, live=live, arriving=arriving, lag=lag)
        written = sum(_applied(store, commit) for commit in plan.commits.values())
        if strategy is RETIRE:
            written += _applied(store, plan_seal(grid, clock=slot, live=store.live))
        written += _applied(store, plan_purge(clock=slot, live=store.live, lag=max(1, lag)))
        oldest = min((record.expires for record in store.expired(slot)), default=slot + 1)
        yield Tick(sum(map(len, store.runs().values())), written / p, slot + 1 - oldest, len(plan.cells_touched))


def _applied(store: FileStore, plan: Plan) -> int:
    """Carry a plan out and return how many records it wrote."""
    before = {file.path for file in store.live}
    store.apply(plan)
    return len(store.records_of(file for file in store.live if file.path not in before))


def steady(grid: Grid, p: int, strategy: Strategy, lag: int) -> list[Tick]:
    """Return the ticks of some whole cycles, once the table has filled."""
    v, w = grid.groups.run, grid.cohorts.run
    cycle = v * w if strategy is RETIRE else grid.groups.count * grid.cohorts.count
    played = ticks(grid, p, strategy, lag)
    for _ in range(2 * p + v * grid.groups.count):
        next(played)
    return [next(played) for _ in range(2 * cycle)]


@pytest.mark.parametrize(("p", "v", "w"), RETIRED)
def test_files_and_bytes_of_retire(formulas: dict[str, Any], p: int, v: int, w: int) -> None:
    groups, cohorts = formulas["groups_and_cohorts"](p, v, w)
    grid = Grid(Ring(groups, v), Ring(cohorts, w))

    played = steady(grid, p, RETIRE, lag=w)

    assert grid.has_exclusive_cohorts(p)
    assert grid.has_exclusive_groups(p)
    assert not Grid(Ring(groups - 1, v), Ring(cohorts, w)).has_exclusive_groups(p)
    assert not Grid(Ring(groups, v), Ring(cohorts - 1, w)).has_exclusive_cohorts(p)
    assert statistics.mean(t.runs for t in played) == pytest.approx(formulas["live_files_retire"](p, v, w), rel=0.03)
    assert statistics.mean(t.written for t in played) == pytest.approx(formulas["written_retire"](p, v), rel=0.02)
    assert max(t.cells for t in played) <= formulas["cells_touched"](groups, cohorts)
    # An expired record stays for less than w ticks after the update that hides it.
    assert max(t.latest for t in played) == w - 1


@pytest.mark.parametrize(("p", "v", "w"), RETIRED[:-1])
def test_create_reckons_with_about_as_many_files(formulas: dict[str, Any], p: int, v: int, w: int) -> None:
    assert expected_files(p, v, w) == pytest.approx(formulas["live_files_retire"](p, v, w), rel=0.15)


@pytest.mark.parametrize(("p", "groups", "cohorts"), SQUARES)
def test_files_and_bytes_of_rebuild(formulas: dict[str, Any], p: int, groups: int, cohorts: int) -> None:
    played = steady(Grid(Ring(groups), Ring(cohorts)), p, REBUILD, lag=10**9)

    assert {t.runs for t in played} == {formulas["live_files_rebuild"](groups, cohorts)}
    expected = formulas["written_rebuild"](p, groups, cohorts)
    assert statistics.mean(t.written for t in played) == pytest.approx(expected, rel=0.03)
    assert max(t.cells for t in played) == formulas["cells_touched"](groups, cohorts)


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
@pytest.mark.parametrize(("p", "groups", "cohorts"), SQUARES)
def test_files_and_bytes_of_norebuild(formulas: dict[str, Any], p: int, groups: int, cohorts: int, turns: int) -> None:
    lag = turns * cohorts

    played = steady(Grid(Ring(groups), Ring(cohorts)), p, NOREBUILD, lag=lag)

    expected = formulas["written_norebuild"](p, cohorts, lag=lag)
    assert statistics.mean(t.written for t in played) == pytest.approx(expected, rel=0.01)
    assert max(t.latest for t in played) <= lag
    if not turns:
        assert {t.runs for t in played} == {formulas["live_files_norebuild"](groups, cohorts)}


@pytest.mark.parametrize("bound", range(3, 40))
def test_the_bound_is_the_one_that_create_demands_and_chooses_by(formulas: dict[str, Any], bound: int) -> None:
    line = Timeline(kind=TimeKind.INTEGER, origin=0, tick=1, span=36)
    w = min(36, formulas["longest_run"](bound, 1, 1))

    choice = choose(line, bound=bound, reader_time=1, strategy=RETIRE)

    assert choice.grid.cohorts.run == w
    assert declared_bound(RETIRE, choice.grid, line, 1) == formulas["shortest_bound"](w, 1, 1) <= bound
    groups, cohorts = formulas["groups_and_cohorts"](36, 6, w)
    assert choice.grid == Grid(Ring(groups, 6), Ring(cohorts, w))
    assert lag_ticks(bound, line, 1) == max(0, bound - 1 - 2)


def test_the_log_takes_what_was_measured_and_what_the_page_reckons_with(formulas: dict[str, Any]) -> None:
    path = f"u492323-{'0' * 12}/0/_g=3/_e=5/part-{'0' * 32}-{'0' * 16}.parquet"
    slots = {"_ins_slot": 492323, "_exp_slot": 492359}
    stats = json.dumps({"numRecords": 2317, "minValues": slots, "maxValues": slots, "nullCount": slots})
    cell = {"_gen": "0", "_g": "3", "_e": "5"}
    added = encoded([add_action(path, 2_240_000, cell, 10**12, data_change=True, statistics=stats)])
    removed = encoded([remove_action(path, 2_240_000, cell, 10**12, data_change=True)])
    measured = log_bytes(rows_of(RESULTS / "constants.jsonl")[1:])

    assert {name: formulas[name] for name in measured if name in formulas} == {
        name: pytest.approx(size, rel=0.1) for name, size in measured.items() if name in formulas
    }
    assert len(added) == pytest.approx(formulas["ADD"], rel=0.15)
    assert len(removed) == pytest.approx(formulas["REMOVE"], rel=0.15)
