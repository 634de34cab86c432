"""What each strategy, sealing and purging decide, file by file."""

from __future__ import annotations

import pytest

from ebb.index.cellfile import CellFile, Rewrite
from ebb.index.grid import Cell, Grid, Ring
from ebb.index.strategy import Strategy
from ebb.maintenance.plan.change import Plan
from ebb.maintenance.plan.update import UpdatePlan, plan_load, plan_update
from ebb.maintenance.plan.upkeep import plan_purge, plan_retire, plan_seal
from tests.filestore import cell_file

REBUILD, NOREBUILD, RETIRE = Strategy
GRID = Grid(Ring(2), Ring(2))
ODD, EVEN = Cell(0, 0), Cell(1, 0)

# At slot 9 group 0 admits and cohort 0 expires.
DEAD = cell_file("a/1", ODD, ins=(1, 3), exp=(9, 9))
STALE = cell_file("b/1", ODD, ins=(3, 3), exp=(9, 13))
FRESH = cell_file("c/1", ODD, ins=(5, 5), exp=(11, 13))
OTHER_GROUP = cell_file("d/1", EVEN, ins=(4, 4), exp=(9, 11))
OTHER_COHORT = cell_file("e/1", Cell(0, 1), ins=(5, 5), exp=(10, 12))
UNTOUCHED = cell_file("f/1", Cell(1, 1), ins=(6, 6), exp=(10, 12))
LIVE = [DEAD, STALE, FRESH, OTHER_GROUP, OTHER_COHORT, UNTOUCHED]
NEW = cell_file("n/1", ODD, ins=(9, 9), exp=(11, 11))
NEW_OTHER = cell_file("n/2", Cell(0, 1), ins=(9, 9), exp=(10, 10))


def update(strategy: Strategy, live: list[CellFile], arriving: list[CellFile], *, lag: int = 0) -> UpdatePlan:
    return plan_update(strategy, GRID, clock=8, slot=9, live=live, arriving=arriving, lag=lag)


def merge(*files: CellFile, clock: int = 9) -> Rewrite:
    return Rewrite(cell=files[0].cell, inputs=files, clock=clock)


def test_a_plan_knows_the_cells_it_touches() -> None:
    plan = Plan(removes=(DEAD,), rewrites=(merge(OTHER_GROUP),), adds=(NEW_OTHER,))

    assert plan.cells_touched == {ODD, EVEN, Cell(0, 1)}


@pytest.mark.parametrize(
    ("plan", "is_empty"),
    [
        (Plan(), True),
        (Plan(removes=(DEAD,)), False),
        (Plan(rewrites=(merge(STALE),)), False),
        (Plan(adds=(NEW,)), False),
    ],
)
def test_a_plan_is_empty_when_it_changes_no_file(plan: Plan, *, is_empty: bool) -> None:
    assert plan.is_empty is is_empty


@pytest.mark.parametrize("strategy", Strategy)
def test_an_update_with_nothing_to_admit_or_expire_does_nothing(strategy: Strategy) -> None:
    plan = update(strategy, [FRESH, OTHER_COHORT, UNTOUCHED], [])

    assert plan.update.is_empty
    assert list(plan.commits) == ["update"], "it moves the clock"


@pytest.mark.parametrize("strategy", Strategy)
def test_a_batch_that_meets_empty_cells_is_added_as_it_was_staged(strategy: Strategy) -> None:
    assert update(strategy, [UNTOUCHED], [NEW, NEW_OTHER]).commits == {"update": Plan(adds=(NEW, NEW_OTHER))}


def test_rebuild_merges_survivors_and_batch_into_one_run_per_touched_cell() -> None:
    plan = update(REBUILD, LIVE, [NEW, NEW_OTHER]).update

    assert set(plan.removes) == {DEAD, STALE, FRESH, OTHER_GROUP, OTHER_COHORT}
    assert plan.rewrites == (merge(STALE, FRESH, NEW), merge(OTHER_GROUP), merge(OTHER_COHORT, NEW_OTHER))
    assert plan.adds == ()


def test_rebuild_adds_the_staged_run_as_it_is_where_everything_else_died() -> None:
    parts = [NEW, cell_file("n/3", ODD, ins=(9, 9), exp=(13, 13))]

    assert update(REBUILD, [DEAD], parts).update == Plan(removes=(DEAD,), adds=tuple(parts))


def test_rebuild_removes_a_cell_that_died_as_a_whole() -> None:
    assert update(REBUILD, [DEAD], []).commits == {"update": Plan(removes=(DEAD,))}


def test_rebuild_rewrites_a_single_run_to_get_the_expired_out() -> None:
    assert update(REBUILD, [STALE], []).update == Plan(removes=(STALE,), rewrites=(merge(STALE),))


def test_norebuild_touches_only_files_with_expired_records() -> None:
    plan = update(NOREBUILD, LIVE, [NEW, NEW_OTHER])

    assert plan.commits == {
        "update": Plan(adds=(NEW, NEW_OTHER)),
        "retire": Plan(removes=(DEAD,)),
        "purge": Plan(removes=(STALE, OTHER_GROUP), rewrites=(merge(STALE), merge(OTHER_GROUP))),
    }


def test_norebuild_merges_the_files_with_expired_records_of_one_cell() -> None:
    second = cell_file("g/1", ODD, ins=(7, 7), exp=(9, 11))

    assert update(NOREBUILD, [STALE, second], []).rewrites == (merge(STALE, second),)


@pytest.mark.parametrize(("lag", "is_rewritten"), [(0, True), (1, True), (2, False), (3, False)])
def test_norebuild_waits_for_the_next_turn_if_that_is_within_the_lag(lag: int, *, is_rewritten: bool) -> None:
    """The cohort expires again at slot 11; what expired at 9 may stay until then if the lag is 2 ticks."""
    plan = update(NOREBUILD, [STALE], [], lag=lag)

    assert bool(plan.rewrites) is is_rewritten


def test_norebuild_does_not_wait_unless_it_is_told_to() -> None:
    """With runs of 2 slots the cohort of slot 9 expires again at the next tick."""
    plan = plan_update(NOREBUILD, Grid(Ring(2), Ring(2, 2)), clock=8, slot=9, live=[STALE], arriving=[])

    assert plan.commits == {"update": Plan(), "purge": Plan(removes=(STALE,), rewrites=(merge(STALE),))}


def test_norebuild_removes_dead_files_however_long_the_lag_is() -> None:
    assert update(NOREBUILD, [DEAD, STALE], [], lag=99).commits == {"update": Plan(), "retire": Plan(removes=(DEAD,))}


def test_retire_removes_dead_files_and_rewrites_nothing() -> None:
    plan = update(RETIRE, LIVE, [NEW, NEW_OTHER])

    assert plan.commits == {"update": Plan(adds=(NEW, NEW_OTHER)), "retire": Plan(removes=(DEAD,))}


@pytest.mark.parametrize("strategy", [NOREBUILD, RETIRE])
def test_what_a_killed_update_left_dead_in_another_cohort_goes_with_the_next_one(strategy: Strategy) -> None:
    """Slot 8 belongs to cohort 1: the update to it was killed before it removed what died then."""
    left = cell_file("g/1", Cell(1, 1), ins=(2, 2), exp=(6, 8))
    plan = update(strategy, [DEAD, left, UNTOUCHED], [NEW])

    assert plan.retire == Plan(removes=(DEAD, left))
    assert len(plan.within) == 4 == 2 + 2 * 2 - 2, "E + cG - c for the two cohorts"


def test_what_a_killed_update_left_overdue_in_another_cohort_is_rewritten_by_the_next_one() -> None:
    left = cell_file("g/1", Cell(1, 1), ins=(2, 2), exp=(8, 12))

    assert update(NOREBUILD, [left], []).purge == Plan(removes=(left,), rewrites=(merge(left),))


@pytest.mark.parametrize("strategy", Strategy)
def test_a_load_only_adds_and_may_touch_every_cell(strategy: Strategy) -> None:
    plan = plan_load(strategy, GRID, slot=9, arriving=[NEW, NEW_OTHER])

    assert plan.commits == {"update": Plan(adds=(NEW, NEW_OTHER))}
    assert plan.within == GRID.cells


def test_a_retirement_takes_dead_files_of_any_cohort_and_no_other() -> None:
    late = cell_file("g/1", Cell(1, 1), ins=(2, 2), exp=(6, 8))

    plan = plan_retire(clock=9, live=[*LIVE, late])

    assert plan == Plan(removes=(DEAD, late))
    assert plan.within == {ODD, Cell(1, 1)}


@pytest.mark.parametrize(
    ("strategy", "removed"),
    [(REBUILD, {DEAD, STALE, FRESH, OTHER_COHORT, UNTOUCHED, OTHER_GROUP}), (RETIRE, {DEAD})],
)
def test_catching_up_expires_from_every_cohort_whose_turn_was_skipped(
    strategy: Strategy, removed: set[CellFile]
) -> None:
    plan = plan_update(strategy, GRID, clock=8, slot=10, live=LIVE, arriving=[])

    assert set(plan.removes) == removed


RUNS = Grid(Ring(3, 2), Ring(2))  # slots 1 and 2 fill group 0
FIRST = cell_file("a/1", (0, 0), ins=(1, 1), exp=(5, 7))
SECOND = cell_file("b/1", (0, 0), ins=(2, 2), exp=(5, 9))


@pytest.mark.parametrize(("clock", "is_sealed"), [(1, False), (2, True), (3, True)])
def test_sealing_waits_until_the_group_is_complete(clock: int, *, is_sealed: bool) -> None:
    plan = plan_seal(RUNS, clock=clock, live=[FIRST] if clock == 1 else [FIRST, SECOND])

    expected = Plan(removes=(FIRST, SECOND), rewrites=(merge(FIRST, SECOND, clock=clock),))
    assert plan == (expected if is_sealed else Plan())


def test_a_group_that_is_filling_is_not_sealed() -> None:
    filling = cell_file("c/1", (1, 0), ins=(3, 3), exp=(7, 7)), cell_file("d/1", (1, 0), ins=(3, 3), exp=(7, 7))

    assert plan_seal(RUNS, clock=3, live=filling).is_empty


def test_the_parts_of_one_run_are_left_alone() -> None:
    parts = [FIRST, cell_file("a/2", (0, 0), ins=(1, 1), exp=(9, 9))]

    assert plan_seal(RUNS, clock=4, live=parts).is_empty


def test_cells_of_one_commit_are_not_merged_with_each_other() -> None:
    other = cell_file("b/2", (0, 1), ins=(2, 2), exp=(6, 6))

    assert plan_seal(RUNS, clock=2, live=[FIRST, other]).is_empty


def test_two_turns_of_one_group_become_one_run_of_their_cell() -> None:
    """One folder and cell are one sorted run, so two merges of one cell in one commit would be a lie."""
    later = [cell_file(f"{name}/1", (0, 0), ins=(slot, slot), exp=(11, 11)) for name, slot in (("g", 7), ("h", 8))]
    live = [FIRST, SECOND, *later]

    plan = plan_seal(RUNS, clock=4, live=live)
    younger = cell_file("i/1", (0, 0), ins=(1, 1), exp=(9, 9))
    both = plan_seal(RUNS, clock=8, live=[SECOND, younger, *later])

    assert plan.rewrites == (merge(FIRST, SECOND, clock=4),)
    assert [set(task.inputs) for task in both.rewrites] == [{SECOND, younger, *later}]


def test_sealing_leaves_what_is_dead_to_its_cohort() -> None:
    dead = cell_file("c/1", (0, 0), ins=(2, 2), exp=(3, 4))

    assert plan_seal(RUNS, clock=4, live=[FIRST, dead]).is_empty
    assert plan_seal(RUNS, clock=9, live=[FIRST, SECOND]).is_empty


@pytest.mark.parametrize(
    ("clock", "lag", "removed"),
    [(4, 0, []), (5, 0, [FIRST, SECOND]), (5, 1, []), (6, 1, [FIRST, SECOND]), (7, 2, [FIRST, SECOND])],
)
def test_a_purge_takes_the_files_whose_first_record_expired_long_enough_ago(
    clock: int, lag: int, removed: list[CellFile]
) -> None:
    assert plan_purge(clock=clock, live=[FIRST, SECOND], lag=lag).removes == tuple(removed)


def test_a_purge_merges_the_survivors_of_a_cell_and_reads_no_dead_file() -> None:
    third = cell_file("c/1", (0, 0), ins=(2, 2), exp=(6, 9))
    fresh = cell_file("d/1", (0, 0), ins=(2, 2), exp=(9, 9))

    plan = plan_purge(clock=7, live=[FIRST, SECOND, third, fresh])

    assert plan == Plan(removes=(FIRST, SECOND, third), rewrites=(merge(SECOND, third, clock=7),))


def test_a_purge_of_fresh_files_does_nothing() -> None:
    assert plan_purge(clock=4, live=[FIRST, SECOND]).is_empty
