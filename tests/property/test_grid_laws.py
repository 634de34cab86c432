"""Laws of the grid: one cell per record, few cells per update, cohorts and groups that never mix."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebb.index.grid import Axis, Cell, Grid, Ring, Shuffle
from ebb.index.policy import make_grid
from tests.histories import MOST_PARTITIONS, axes, grids

SLOTS = st.integers(-1000, 1000)
SHAPES = list(product(range(1, MOST_PARTITIONS + 1), repeat=2))
laws = settings(deadline=None, max_examples=60)


@laws
@given(grids(), SLOTS, st.integers(1, 50))
def test_a_pair_of_slots_lands_in_the_one_cell_that_both_axes_share(grid: Grid, inserted: int, life: int) -> None:
    expires = inserted + life
    cell = grid.cell_of(inserted, expires)

    assert grid.cells_admitting(inserted) & grid.cells_expiring(expires - 1, expires) == {cell}
    assert cell in grid.cells
    assert {(c.group, c.cohort) for c in grid.cells} == set(
        product(range(grid.groups.count), range(grid.cohorts.count))
    )


@laws
@given(grids(), SLOTS, st.integers(1, 50), st.integers(1, 9))
def test_a_cell_has_the_generation_of_its_grid_and_is_never_one_of_another(
    grid: Grid, inserted: int, life: int, later: int
) -> None:
    other, expires = replace(grid, generation=grid.generation + later), inserted + life

    for some in (grid.cells, grid.cells_touched(inserted - 1, inserted), {grid.cell_of(inserted, expires)}):
        assert {cell.generation for cell in some} == {grid.generation}
        assert not some & other.cells
    assert other.cell_of(inserted, expires)[:2] == grid.cell_of(inserted, expires)[:2]


@laws
@given(grids(), SLOTS)
def test_an_update_of_one_tick_touches_exactly_g_plus_e_minus_1_cells(grid: Grid, clock: int) -> None:
    bound = grid.groups.count + grid.cohorts.count - 1

    assert len(grid.cells_touched(clock, clock + 1)) == bound


@pytest.mark.parametrize("policy", ["round-robin", "chronological", "random", "3x2"])
def test_no_update_of_any_shape_touches_more_cells_than_the_bound(policy: str) -> None:
    for (groups, cohorts), slot in product(SHAPES, range(1, 40)):
        grid = make_grid(policy, groups, cohorts, ticks_per_span=12)

        assert len(grid.cells_touched(slot - 1, slot)) == groups + cohorts - 1


@laws
@given(grids(), SLOTS, st.integers(1, 120))
def test_catching_up_touches_the_admitting_group_and_each_cohort_it_passes(grid: Grid, clock: int, ticks: int) -> None:
    slot = clock + ticks
    cohorts = {grid.cohorts.partition(s) for s in range(clock + 1, slot + 1)}
    c, g, e = len(cohorts), grid.groups.count, grid.cohorts.count

    assert grid.cohorts_expiring(clock, slot) == cohorts
    assert len(grid.cells_touched(clock, slot)) == e + c * g - c <= g * e


@laws
@given(axes(), st.integers(-50, 50))
def test_in_each_cycle_every_partition_has_one_run(axis: Axis, cycle: int) -> None:
    first = cycle * axis.count * axis.run + 1
    turns = [axis.partition(slot) for slot in range(first, first + axis.count * axis.run)]

    assert sorted(turns) == sorted(list(range(axis.count)) * axis.run)
    assert all(len(set(turns[start : start + axis.run])) == 1 for start in range(0, len(turns), axis.run))


@laws
@given(axes(), SLOTS)
def test_a_run_is_a_stretch_of_slots_of_one_partition(axis: Axis, slot: int) -> None:
    end = axis.end_of_run(slot)
    run = range(end - axis.run + 1, end + 1)

    assert slot in run
    assert {axis.run_of(s) for s in run} == {axis.run_of(slot)}
    assert {axis.partition(s) for s in run} == {axis.partition(slot)}
    assert axis.run_of(end + 1) == axis.run_of(slot) + 1


@laws
@given(grids(), SLOTS, st.data())
def test_the_next_turn_is_the_first_slot_of_the_cohort(grid: Grid, after: int, data: st.DataObject) -> None:
    cohort = data.draw(st.integers(0, grid.cohorts.count - 1))
    turn = grid.next_turn(cohort, after)

    assert turn > after
    assert grid.cohorts.partition(turn) == cohort
    assert cohort not in {grid.cohorts.partition(slot) for slot in range(after + 1, turn)}


@pytest.mark.parametrize("n", range(1, MOST_PARTITIONS + 1))
def test_wave_indices_are_grids_with_one_axis(n: int) -> None:
    by_insertion, by_expiration = make_grid("chronological", n, 1, 24), make_grid("chronological", 1, n, 24)
    run = -(-24 // n)

    for inserted, life in product(range(1, 60), range(1, 25)):
        assert by_insertion.cell_of(inserted, inserted + life) == Cell((inserted - 1) // run % n, 0)
        assert by_expiration.cell_of(inserted, inserted + life) == Cell(0, (inserted + life - 1) // run % n)
    assert len(by_insertion.cells_touched(9, 10)) == len(by_expiration.cells_touched(9, 10)) == n


def cohorts_mix(cohorts: Ring, p: int) -> bool:
    """Whether, in an update, a cohort's files that are still there and files that arrive are of two runs."""
    held: set[int] = set()
    for slot in range(1, 2 * cohorts.count * cohorts.run + 2 * p):
        held |= set(range(slot + 1, slot + p + 1))
        runs = {cohorts.run_of(expires) for expires in held}
        if len(runs) > len({cohorts.partition(expires) for expires in held}):
            return True
        held = {expires for expires in held if cohorts.end_of_run(expires) > slot}
    return False


@pytest.mark.parametrize("p", range(1, 13))
def test_cohorts_mix_two_runs_exactly_when_the_ring_is_shorter_than_a_span_and_a_run(p: int) -> None:
    for count, run in product(range(1, 14), range(1, 6)):
        cohorts = Ring(count, run)

        assert cohorts_mix(cohorts, p) is not Grid(Ring(1), cohorts).has_exclusive_cohorts(p)


def groups_mix(grid: Grid, p: int) -> bool:
    """Whether, in an update, a group's files that are still there and files that arrive are of two runs.

    Records stay until the run of their cohort is over, as under retire.
    """
    held: set[tuple[int, int]] = set()
    alignments = math.lcm(grid.groups.run, grid.cohorts.run)
    for slot in range(1, 2 * alignments + 2 * grid.groups.count * grid.groups.run + 2 * p):
        held |= {(slot, slot + life) for life in range(1, p + 1)}
        runs = {grid.groups.run_of(inserted) for inserted, _ in held}
        if len(runs) > len({grid.groups.partition(inserted) for inserted, _ in held}):
            return True
        held = {(inserted, expires) for inserted, expires in held if grid.cohorts.end_of_run(expires) > slot}
    return False


@pytest.mark.parametrize("p", range(1, 7))
def test_groups_mix_two_runs_when_records_that_wait_for_their_cohort_meet_the_next_turn(p: int) -> None:
    """The formula supposes the worst alignment of group and cohort runs, which some pairs of runs never have."""
    for count, v, w in product(range(1, 8), range(1, 4), range(1, 4)):
        grid = Grid(Ring(count, v), Ring(-(-p // w) + 1, w))
        is_aligned = (p - 1) % math.gcd(v, w) == 0

        if grid.has_exclusive_groups(p):
            assert not groups_mix(grid, p)
        elif is_aligned:
            assert groups_mix(grid, p)


@pytest.mark.parametrize("count", range(2, 10))
def test_shuffled_cohorts_mix_two_runs_whatever_their_number(count: int) -> None:
    """Two turns of a partition can be close together: the last of a cycle and the first of the next."""
    shuffle = Shuffle(count, seed=1)
    gaps = []
    for partition in range(count):
        turns = [slot for slot in range(1, 50 * count) if shuffle.partition(slot) == partition]
        gaps += [later - earlier for earlier, later in pairwise(turns)]

    assert min(gaps) < count
