"""Policies, strategies and what a deletion bound buys."""

from __future__ import annotations

import re

import pytest

from ebb.index.errors import UsageError
from ebb.index.grid import Grid, Ring, Shuffle
from ebb.index.policy import MAX_CELLS, make_grid, parse_pair
from ebb.index.strategy import Strategy, check_strategy, lag_ticks, shortest_bound
from ebb.index.timeline import TimeKind, Timeline

REBUILD, NOREBUILD, RETIRE = Strategy
TENS = Timeline(kind=TimeKind.INTEGER, origin=0, tick=10, span=80)


@pytest.mark.parametrize(
    ("text", "pair"),
    [("4x8", (4, 8)), (" 4X8 ", (4, 8)), ("4×8", (4, 8)), ("1x999999", (1, 999_999)), ("007x1", (7, 1))],
)
def test_a_pair_is_read(text: str, pair: tuple[int, int]) -> None:
    assert parse_pair(text, "grid") == pair


@pytest.mark.parametrize("text", ["", "4", "4x", "x4", "0x4", "4x0", "-1x4", "4x4x4", "4 x 4", "1234567x1", "٤x٤"])
def test_a_pair_of_anything_but_two_positive_numbers_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"grid {text!r} is not two positive numbers; write it like 4x4")):
        parse_pair(text, "grid")


@pytest.mark.parametrize(
    ("policy", "grid"),
    [
        ("round-robin", Grid(Ring(4), Ring(6))),
        ("chronological", Grid(Ring(4, 9), Ring(6, 6))),
        ("random", Grid(Shuffle(4, 2006), Shuffle(6, 2007))),
        ("3x2", Grid(Ring(4, 3), Ring(6, 2))),
    ],
)
def test_a_policy_and_two_counts_make_a_grid(policy: str, grid: Grid) -> None:
    assert make_grid(policy, 4, 6, 36) == grid


def test_chronological_runs_are_rounded_up_so_that_they_cover_the_span() -> None:
    assert make_grid("chronological", 5, 50, 36) == Grid(Ring(5, 8), Ring(50, 1))


@pytest.mark.parametrize("policy", ["", "Round-Robin", "x4", "²"])
def test_an_unknown_policy_is_refused(policy: str) -> None:
    with pytest.raises(UsageError, match="is not round-robin, chronological, random or runs like 6x6"):
        make_grid(policy, 4, 4, 36)


def test_runs_of_no_slots_are_refused_as_a_policy() -> None:
    with pytest.raises(UsageError, match="policy '0x4' is not two positive numbers"):
        make_grid("0x4", 4, 4, 36)


def test_a_grid_may_have_as_many_cells_as_the_limit_and_no_more() -> None:
    assert make_grid("round-robin", 100, MAX_CELLS // 100, 36).cohorts.count == MAX_CELLS // 100
    with pytest.raises(UsageError, match="grid 100x101 has 10100 cells; the limit is 10000, choose a smaller grid"):
        make_grid("round-robin", 100, 101, 36)


@pytest.mark.parametrize(
    ("strategy", "shortest"), [(REBUILD, 2 * 10 + 5), (NOREBUILD, 2 * 10 + 5), (RETIRE, (4 + 1) * 10 + 5)]
)
def test_the_shortest_bound_is_a_run_a_tick_and_the_readers_time(strategy: Strategy, shortest: int) -> None:
    assert shortest_bound(strategy, Grid(Ring(3, 5), Ring(3, 4)), TENS, reader_time=5) == shortest


@pytest.mark.parametrize(("bound", "lag"), [(0, 0), (24, 0), (25, 0), (34, 0), (35, 1), (55, 3)])
def test_what_is_left_of_the_bound_is_how_long_an_expired_record_may_stay(bound: int, lag: int) -> None:
    assert lag_ticks(bound, TENS, reader_time=5) == lag


@pytest.mark.parametrize("run", [1, 2, 5])
def test_the_shortest_bound_of_retire_leaves_the_lag_that_a_cohort_needs(run: int) -> None:
    bound = shortest_bound(RETIRE, Grid(Ring(1), Ring(10, run)), TENS, reader_time=5)

    assert lag_ticks(bound, TENS, reader_time=5) == run - 1


@pytest.mark.parametrize(
    ("strategy", "grid"),
    [
        (REBUILD, Grid(Ring(4), Ring(4))),
        (NOREBUILD, Grid(Shuffle(4, 1), Shuffle(4, 2))),
        (RETIRE, Grid(Ring(4), Ring(9))),
        (RETIRE, Grid(Shuffle(4, 1), Ring(5, 2))),
    ],
)
def test_a_strategy_that_its_grid_carries_within_the_bound_is_accepted(strategy: Strategy, grid: Grid) -> None:
    check_strategy(strategy, grid, TENS, bound=shortest_bound(strategy, grid, TENS, 10), reader_time=10)


def test_retire_is_refused_on_random_cohorts() -> None:
    with pytest.raises(UsageError, match="which policy random does not give; use rebuild or norebuild"):
        check_strategy(RETIRE, Grid(Ring(4), Shuffle(99, 1)), TENS, bound=1000, reader_time=10)


@pytest.mark.parametrize(("cohorts", "run"), [(2, 1), (2, 7), (3, 3), (4, 1), (4, 2), (7, 1), (8, 1)])
def test_retire_on_mixed_cohorts_is_refused_with_counts_and_runs_that_would_do(cohorts: int, run: int) -> None:
    grid = Grid(Ring(4), Ring(cohorts, run))

    with pytest.raises(UsageError, match=f"needs E\\*w >= p \\+ w, and {cohorts}\\*{run} < 8 \\+ {run}") as caught:
        check_strategy(RETIRE, grid, TENS, bound=1000, reader_time=10)

    found = re.search(r"at least (\d+) cohorts, runs of at least (\d+) slots", str(caught.value))
    assert found is not None
    enough_cohorts, enough_run = int(found[1]), int(found[2])
    assert Grid(Ring(4), Ring(enough_cohorts, run)).has_exclusive_cohorts(8)
    assert not Grid(Ring(4), Ring(enough_cohorts - 1, run)).has_exclusive_cohorts(8)
    assert Grid(Ring(4), Ring(cohorts, enough_run)).has_exclusive_cohorts(8)
    assert not Grid(Ring(4), Ring(cohorts, enough_run - 1)).has_exclusive_cohorts(8)


def test_retire_on_a_single_cohort_is_refused_without_the_advice_to_change_the_run() -> None:
    with pytest.raises(UsageError) as caught:
        check_strategy(RETIRE, Grid(Ring(4), Ring(1, 8)), TENS, bound=1000, reader_time=10)

    assert "take at least 2 cohorts" in str(caught.value)
    assert "runs of at least" not in str(caught.value)


@pytest.mark.parametrize(("strategy", "bound", "shortest"), [(REBUILD, 29, 30), (NOREBUILD, 29, 30), (RETIRE, 39, 40)])
def test_a_bound_that_cannot_be_kept_is_refused_with_the_shortest_that_can(
    strategy: Strategy, bound: int, shortest: int
) -> None:
    grid = Grid(Ring(4), Ring(5, 2))

    with pytest.raises(UsageError, match=f"deletion bound {bound} is shorter .* take a bound of {shortest} or"):
        check_strategy(strategy, grid, TENS, bound=bound, reader_time=10)
    check_strategy(strategy, grid, TENS, bound=shortest, reader_time=10)
