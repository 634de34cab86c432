"""Laws of the plans, checked on a naive store of records in files.

Whatever the strategy does: the window is the same bag as before without what expired and with what arrived, no
other cell is touched than the grid allows, and expired records leave when the strategy says so.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebb.index.grid import Cell, Grid, Ring
from ebb.index.policy import make_grid
from ebb.index.strategy import Strategy
from ebb.maintenance.plan.update import UpdatePlan, plan_update
from ebb.maintenance.plan.upkeep import plan_purge, plan_seal
from tests.filestore import FileStore, Record
from tests.histories import MOST_PARTITIONS, History, Step, histories, play, stocked_stores

REBUILD, NOREBUILD, RETIRE = Strategy
SHAPES = list(product(range(1, MOST_PARTITIONS + 1), repeat=2))
CLOCK = 20
strategies = st.sampled_from(Strategy)
lifetimes = st.lists(st.integers(1, 10), max_size=8)
laws = settings(deadline=None, max_examples=40)


def planned(
    store: FileStore, strategy: Strategy, *, slot: int, lives: list[int], lag: int = 0
) -> tuple[UpdatePlan, list[Record]]:
    """Return the plan of an update that brings records with these lifetimes, and those records."""
    batch = [Record(1000 + i, slot, slot + life) for i, life in enumerate(lives)]
    arriving = store.stage(batch)
    plan = plan_update(strategy, store.grid, clock=CLOCK, slot=slot, live=store.live, arriving=arriving, lag=lag)
    return plan, batch


@laws
@given(stocked_stores(clock=CLOCK, with_expired=True), strategies, st.integers(1, 12), lifetimes, st.integers(0, 9))
def test_the_commits_of_an_update_touch_only_the_cells_of_its_group_and_cohorts(
    store: FileStore, strategy: Strategy, ticks: int, lives: list[int], lag: int
) -> None:
    """Cohorts that a killed update left behind are cohorts of this one: it covers their slots too."""
    slot, grid = CLOCK + ticks, store.grid
    plan, _ = planned(store, strategy, slot=slot, lives=lives, lag=lag)

    late = {file.cell.cohort for file in (*plan.retire.removes, *plan.purge.removes)}
    cohorts = grid.cohorts_expiring(CLOCK, slot) | late
    assert all(commit.cells_touched <= commit.within for commit in plan.commits.values())
    assert plan.within == grid.cells_admitting(slot) | grid.cells_of_cohorts(cohorts)
    assert len(plan.cells_touched) <= len(plan.within) == grid.cohorts.count + len(cohorts) * (grid.groups.count - 1)


@laws
@given(stocked_stores(clock=CLOCK, with_expired=True), st.integers(1, 12), lifetimes, st.integers(0, 9))
def test_a_stream_can_follow_every_commit_of_retire_and_norebuild(
    store: FileStore, ticks: int, lives: list[int], lag: int
) -> None:
    """The first commit only adds, the second only removes what nobody sees, and the third keeps every visible record."""
    for strategy in (NOREBUILD, RETIRE):
        slot = CLOCK + ticks
        plan, batch = planned(store, strategy, slot=slot, lives=lives, lag=lag)

        assert (plan.update.removes, plan.update.rewrites) == ((), ())
        assert store.records_of(plan.update.adds) == sorted(batch)
        assert (plan.retire.adds, plan.retire.rewrites) == ((), ())
        assert all(record.expires <= slot for record in store.records_of(plan.retire.removes))
        assert plan.purge.adds == ()
        rewritten = [file for rewrite in plan.purge.rewrites for file in rewrite.inputs]
        assert sorted(rewritten, key=lambda f: f.path) == sorted(plan.purge.removes, key=lambda f: f.path)


@laws
@given(histories(exclusive=True, most_ticks=3, steps=(4, 20)), st.data())
def test_what_a_killed_update_did_not_remove_the_next_one_removes(history: History, data: st.DataObject) -> None:
    for strategy in (NOREBUILD, RETIRE):
        for moment in play(history, strategy, killed=lambda: data.draw(st.booleans())):
            if not moment.was_killed:
                assert not [file for file in moment.store.live if file.is_dead(moment.slot)]
            assert moment.store.visible(moment.slot) == moment.expected


@laws
@given(stocked_stores(clock=CLOCK, with_expired=True), strategies, st.integers(1, 12), lifetimes, st.integers(0, 9))
def test_an_update_of_any_files_keeps_every_live_record_once_and_adds_the_batch(
    store: FileStore, strategy: Strategy, ticks: int, lives: list[int], lag: int
) -> None:
    slot = CLOCK + ticks
    before = store.visible(slot)
    plan, batch = planned(store, strategy, slot=slot, lives=lives, lag=lag)

    store.apply_all(plan)

    assert store.visible(slot) == sorted(before + batch)


@laws
@given(stocked_stores(clock=CLOCK, with_expired=True), st.integers(1, 12), lifetimes)
def test_rebuild_leaves_one_run_per_touched_cell_and_nothing_expired_in_the_expiring_cohorts(
    store: FileStore, ticks: int, lives: list[int]
) -> None:
    slot = CLOCK + ticks
    plan, _ = planned(store, REBUILD, slot=slot, lives=lives)

    store.apply_all(plan)

    runs = store.runs()
    cohorts = store.grid.cohorts_expiring(CLOCK, slot)
    assert all(len(runs.get(cell, ())) <= 1 for cell in plan.cells_touched)
    assert not [r for r in store.expired(slot) if store.grid.cohorts.partition(r.expires) in cohorts]


@laws
@given(stocked_stores(clock=CLOCK, with_expired=False), st.integers(1, 12), lifetimes)
def test_norebuild_without_lag_leaves_no_expired_record(store: FileStore, ticks: int, lives: list[int]) -> None:
    slot = CLOCK + ticks
    plan, _ = planned(store, NOREBUILD, slot=slot, lives=lives)

    store.apply_all(plan)

    assert store.expired(slot) == []


@laws
@given(stocked_stores(clock=CLOCK, with_expired=False), st.integers(1, 12), lifetimes)
def test_a_file_that_retire_removes_holds_no_live_record(store: FileStore, ticks: int, lives: list[int]) -> None:
    slot = CLOCK + ticks
    plan, _ = planned(store, RETIRE, slot=slot, lives=lives)

    assert plan.rewrites == ()
    assert all(record.expires <= slot for record in store.records_of(plan.removes))


@laws
@given(histories(most_ticks=4), strategies, st.integers(0, 12))
def test_after_every_update_of_a_history_the_window_is_what_the_model_says(
    history: History, strategy: Strategy, lag: int
) -> None:
    for moment in play(history, strategy, lag=lag):
        assert moment.store.visible(moment.slot) == moment.expected
        assert len(moment.plan.cells_touched) <= len(history.grid.cells_touched(moment.clock, moment.slot))


@laws
@given(histories(most_ticks=4))
def test_a_table_that_is_always_rebuilt_has_one_run_per_cell_and_no_expired_record(history: History) -> None:
    for moment in play(history, REBUILD):
        assert all(len(folders) == 1 for folders in moment.store.runs().values())
        assert moment.store.expired(moment.slot) == []


@laws
@given(histories(steps=(20, 30)), st.integers(0, 12))
def test_norebuild_keeps_no_record_that_expired_as_many_ticks_ago_as_its_lag(history: History, lag: int) -> None:
    for moment in play(history, NOREBUILD, lag=lag):
        assert all(moment.slot - record.expires < lag for record in moment.store.expired(moment.slot))


@laws
@given(histories(most_ticks=4), st.integers(0, 12))
def test_norebuild_keeps_its_lag_when_it_catches_up(history: History, lag: int) -> None:
    for moment in play(history, NOREBUILD, lag=lag):
        assert all(moment.slot - record.expires < lag for record in moment.store.expired(moment.slot))


@laws
@given(histories(exclusive=True, most_ticks=3, steps=(1, 30)), st.booleans())
def test_under_retire_a_record_waits_for_the_rest_of_its_cohort_and_no_longer(
    history: History,
    is_sealing: bool,  # noqa: FBT001 - drawn
) -> None:
    longest_wait = history.grid.cohorts.run - 1
    for moment in play(history, RETIRE, is_sealing=is_sealing):
        left = moment.store.expired(moment.slot)

        assert moment.plan.rewrites == ()
        assert all(moment.slot - record.expires < longest_wait for record in left)
        assert moment.store.visible(moment.slot) == moment.expected


@laws
@given(histories(exclusive=True, most_ticks=3, steps=(1, 30)), st.booleans())
def test_under_retire_no_cohort_holds_records_of_two_runs(
    history: History,
    is_sealing: bool,  # noqa: FBT001 - drawn
) -> None:
    cohorts = history.grid.cohorts
    for moment in play(history, RETIRE, is_sealing=is_sealing):
        runs = {cohorts.run_of(record.expires) for record in moment.store.records()}

        assert len({cohorts.partition(cohorts.run * run + 1) for run in runs}) == len(runs)


@pytest.mark.parametrize("strategy", [REBUILD, NOREBUILD])
def test_the_bound_of_cells_is_reached_for_each_shape(strategy: Strategy) -> None:
    for groups, cohorts in SHAPES:
        grid, p = make_grid("round-robin", groups, cohorts, 1), max(groups, cohorts)
        every_lifetime = Step(1, tuple(range(1, p + 1)))

        *_, last = play(History(grid, p, (every_lifetime,) * (p + 1)), strategy)

        assert len(last.plan.cells_touched) == groups + cohorts - 1


@pytest.mark.parametrize("groups", range(1, MOST_PARTITIONS + 1))
def test_the_bound_of_cells_is_reached_by_retire(groups: int) -> None:
    p = MOST_PARTITIONS
    every_lifetime = Step(1, tuple(range(1, p + 1)))

    *_, last = play(History(Grid(Ring(groups), Ring(p + 1)), p, (every_lifetime,) * (p + 1)), RETIRE)

    assert len(last.plan.cells_touched) == groups + (p + 1) - 1


def wave_changes(grid: Grid, p: int, updates: int) -> list[frozenset[Cell]]:
    """Return the cells that each update of a full window changes when all lifetimes are p."""
    history = History(grid, p, (Step(1, (p,)),) * (p + updates))
    return [moment.plan.cells_touched for moment in play(history, REBUILD)][p:]


@pytest.mark.parametrize(("groups", "cohorts"), [(4, 1), (1, 4)])
def test_figure_2_6_a_wave_index_of_equal_lifetimes_changes_one_sub_index_per_update(groups: int, cohorts: int) -> None:
    """A window of 16 minutes, updated every 2: I1 changes at 18 and 20, I2 at 22 and 24, and so on."""
    changes = wave_changes(make_grid("chronological", groups, cohorts, 8), p=8, updates=8)

    numbers = [{max(cell) for cell in cells} for cells in changes]
    assert numbers == [{0}, {0}, {1}, {1}, {2}, {2}, {3}, {3}]


@pytest.mark.parametrize("n", range(1, MOST_PARTITIONS + 1))
@pytest.mark.parametrize("p", [8, 12, 13])
def test_a_wave_index_of_equal_lifetimes_changes_one_sub_index_or_two_if_n_does_not_divide_p(p: int, n: int) -> None:
    for shape in ((n, 1), (1, n)):
        changed = {len(cells) for cells in wave_changes(make_grid("chronological", *shape, p), p, updates=2 * p)}

        assert changed == {1} if p % n == 0 else changed <= {1, 2}


@pytest.mark.parametrize("n", range(1, MOST_PARTITIONS + 1))
def test_a_wave_index_of_mixed_lifetimes_changes_every_sub_index(n: int) -> None:
    every_lifetime = Step(1, tuple(range(1, 9)))
    for shape in ((n, 1), (1, n)):
        *_, last = play(History(make_grid("round-robin", *shape, 8), 8, (every_lifetime,) * 9), REBUILD)

        assert len(last.plan.cells_touched) == n


@laws
@given(histories(most_ticks=3), st.sampled_from([NOREBUILD, RETIRE]))
def test_sealing_merges_complete_groups_only_and_once_and_keeps_the_answer(
    history: History, strategy: Strategy
) -> None:
    groups = history.grid.groups
    for moment in play(history, strategy, lag=3):
        store, clock = moment.store, moment.slot
        runs_before = store.runs()
        plan = plan_seal(store.grid, clock=clock, live=store.live)

        store.apply(plan)

        assert all(groups.end_of_run(file.max_ins) <= clock for file in plan.removes)
        assert all(len(runs_before[cell]) > 1 for cell in plan.cells_touched)
        assert store.visible(clock) == moment.expected


@laws
@given(histories(exclusive=True, most_ticks=3))
def test_sealing_leaves_one_run_per_cell_and_turn_of_a_complete_group_and_nothing_to_seal(history: History) -> None:
    groups = history.grid.groups
    for moment in play(history, RETIRE, is_sealing=True):
        folders: dict[tuple[Cell, int], set[str]] = {}
        for file in moment.store.live:
            if groups.end_of_run(file.max_ins) <= moment.slot:
                folders.setdefault((file.cell, groups.run_of(file.max_ins)), set()).add(file.folder)

        assert all(len(found) == 1 for found in folders.values())
        assert plan_seal(history.grid, clock=moment.slot, live=moment.store.live).is_empty


@laws
@given(stocked_stores(clock=CLOCK, with_expired=True), st.integers(0, 4))
def test_a_purge_gets_out_all_that_expired_its_lag_ago_and_keeps_the_answer(store: FileStore, lag: int) -> None:
    before = store.visible(CLOCK)

    store.apply(plan_purge(clock=CLOCK, live=store.live, lag=lag))

    assert store.visible(CLOCK) == before
    assert all(record.expires + lag > CLOCK for record in store.records())


@laws
@given(stocked_stores(clock=CLOCK, with_expired=True))
def test_a_purge_without_lag_leaves_no_expired_record_and_nothing_to_purge(store: FileStore) -> None:
    store.apply(plan_purge(clock=CLOCK, live=store.live))

    assert store.expired(CLOCK) == []
    assert plan_purge(clock=CLOCK, live=store.live).is_empty


@laws
@given(stocked_stores(clock=CLOCK, with_expired=True), strategies, st.integers(1, 12), lifetimes, st.integers(0, 9))
def test_generations_never_mix(store: FileStore, strategy: Strategy, ticks: int, lives: list[int], lag: int) -> None:
    """A grid does not know when cells of another one expire or are complete; and no run holds files of both."""
    slot = CLOCK + ticks
    other = FileStore(replace(store.grid, generation=store.grid.generation + 1))
    arriving = other.stage(Record(1000 + i, slot, slot + life) for i, life in enumerate(lives))
    twins = [
        replace(f, path=f"twin/{f.path}", cell=f.cell._replace(generation=other.grid.generation)) for f in store.live
    ]

    plan = plan_update(
        strategy, other.grid, clock=CLOCK, slot=slot, live=[*store.live, *twins], arriving=arriving, lag=lag
    )
    alone = plan_update(strategy, other.grid, clock=CLOCK, slot=slot, live=twins, arriving=arriving, lag=lag)
    assert plan == alone
    assert {cell.generation for cell in plan.cells_touched} <= {other.grid.generation}
    seal = plan_seal(other.grid, clock=slot, live=[*store.live, *twins])
    assert seal == plan_seal(other.grid, clock=slot, live=twins)
    assert seal.cells_touched <= seal.within
    purge = plan_purge(clock=slot, live=[*store.live, *twins])
    assert all({file.cell for file in rewrite.inputs} == {rewrite.cell} for rewrite in purge.rewrites)
    assert len(purge.rewrites) == 2 * len(plan_purge(clock=slot, live=store.live).rewrites)
