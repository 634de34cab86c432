"""What is chosen where nothing was declared, and what is refused."""

from __future__ import annotations

import pytest

from ebb.index.cost.choose import choose, default_bound, default_reader_time, expected_files
from ebb.index.errors import UsageError
from ebb.index.grid import Grid, Ring, Shuffle
from ebb.index.policy import MAX_CELLS
from ebb.index.strategy import Strategy
from ebb.index.timeline import TimeKind, Timeline

REBUILD, NOREBUILD, RETIRE = Strategy
HOUR = 3_600_000_000


def ticks(span: int, tick: int = 1) -> Timeline:
    return Timeline(kind=TimeKind.INTEGER, origin=0, tick=tick, span=span)


@pytest.mark.parametrize(
    ("kind", "tick", "wait"),
    [
        (TimeKind.TIMESTAMP, 60_000_000, 60_000_000),
        (TimeKind.TIMESTAMP, 24 * HOUR, HOUR),
        (TimeKind.DATE, 7, 7),
        (TimeKind.INTEGER, 10 * HOUR, 10 * HOUR),
    ],
)
def test_readers_have_a_tick_but_not_over_an_hour(kind: TimeKind, tick: int, wait: int) -> None:
    assert default_reader_time(Timeline(kind=kind, origin=0, tick=tick, span=tick)) == wait


@pytest.mark.parametrize(("span", "bound"), [(36, 9), (400, 100), (8, 4), (1, 4)])
def test_the_default_bound_is_a_quarter_of_the_span_and_at_least_four_ticks(span: int, bound: int) -> None:
    assert default_bound(ticks(span)) == bound


@pytest.mark.parametrize(("p", "v", "w", "files"), [(36, 6, 6, 36.0), (36, 6, 1, 216.0), (4, 2, 3, 2 + 16 / 12)])
def test_the_expected_files_are_those_that_wait_and_those_that_are_sealed(p: int, v: int, w: int, files: float) -> None:
    assert expected_files(p, v, w) == pytest.approx(files)


def test_files_are_fewest_when_a_group_lasts_for_the_square_root_of_the_span() -> None:
    assert min(range(1, 37), key=lambda v: expected_files(36, v, 6)) == 6


def test_the_bound_buys_longer_cohorts() -> None:
    choice = choose(ticks(36), bound=9, reader_time=1)

    assert choice.strategy is RETIRE
    assert choice.grid == Grid(Ring(8, 6), Ring(7, 7))
    assert "retire with cohorts of 7 ticks: the bound of 9 leaves that much room" in choice.reason


def test_the_shortest_bound_buys_cohorts_of_one_tick() -> None:
    choice = choose(ticks(36), bound=3, reader_time=1)

    assert choice.grid == Grid(Ring(7, 6), Ring(37, 1))
    assert "cohorts of 1 tick:" in choice.reason


def test_as_many_files_as_a_probe_can_bear_are_still_retired() -> None:
    choice = choose(ticks(64), bound=4, reader_time=1)

    assert expected_files(64, 8, 2) == 256
    assert (choice.strategy, choice.grid) == (RETIRE, Grid(Ring(10, 8), Ring(33, 2)))
    assert "cohorts of 2 ticks:" in choice.reason


def test_a_span_of_one_tick_has_groups_of_one_tick() -> None:
    assert choose(ticks(1), bound=3, reader_time=1).grid == Grid(Ring(2, 1), Ring(2, 1))


def test_a_cohort_is_never_longer_than_the_span() -> None:
    assert choose(ticks(4), bound=1000, reader_time=1).grid.cohorts == Ring(2, 4)


def test_where_retiring_would_leave_too_many_files_a_square_is_rewritten() -> None:
    choice = choose(ticks(1000), bound=3, reader_time=1)

    assert (choice.grid, choice.strategy) == (Grid(Ring(4), Ring(4)), NOREBUILD)
    assert choice.reason.startswith("norebuild on 4x4: within the bound of 3 retiring would keep about 3")


def test_a_span_of_few_ticks_has_no_more_partitions_than_ticks() -> None:
    assert choose(ticks(3), bound=9, reader_time=1, strategy=REBUILD).grid == Grid(Ring(3), Ring(3))


@pytest.mark.parametrize("strategy", [REBUILD, NOREBUILD])
def test_a_declared_strategy_that_rewrites_gets_the_square(strategy: Strategy) -> None:
    choice = choose(ticks(36), bound=9, reader_time=1, strategy=strategy)

    assert (choice.grid, choice.strategy) == (Grid(Ring(4), Ring(4)), strategy)
    assert choice.reason == f"{strategy.value} on 4x4: as declared"


def test_retire_is_kept_when_it_was_declared_even_if_files_are_many() -> None:
    choice = choose(ticks(90), bound=3, reader_time=1, strategy=RETIRE)

    assert expected_files(90, 9, 1) > 256
    assert (choice.strategy, choice.grid.cohorts) == (RETIRE, Ring(91))


@pytest.mark.parametrize(
    ("policy", "grid", "strategy"),
    [
        ("round-robin", Grid(Ring(4), Ring(4)), REBUILD),
        ("chronological", Grid(Ring(4, 9), Ring(4, 9)), REBUILD),
        ("random", Grid(Shuffle(4, 2006), Shuffle(4, 2007)), REBUILD),
        ("6x7", Grid(Ring(8, 6), Ring(7, 7)), RETIRE),
    ],
)
def test_a_policy_alone_gets_a_shape_that_suits_it(policy: str, grid: Grid, strategy: Strategy) -> None:
    choice = choose(ticks(36), bound=9, reader_time=1, policy=policy)

    assert (choice.grid, choice.strategy) == (grid, strategy)


def test_a_shape_alone_is_round_robin_and_rebuilt() -> None:
    choice = choose(ticks(36), bound=9, reader_time=1, shape=(3, 5))

    assert (choice.grid, choice.strategy) == (Grid(Ring(3), Ring(5)), REBUILD)
    assert choice.reason.startswith("rebuild on 3x5: its cohorts mix lifetimes")


def test_a_shape_whose_cohorts_die_as_a_whole_is_retired() -> None:
    choice = choose(ticks(36), bound=9, reader_time=1, shape=(3, 37))

    assert (choice.grid, choice.strategy) == (Grid(Ring(3), Ring(37)), RETIRE)
    assert choice.reason == "retire on 3x37: its cohorts die as a whole"


@pytest.mark.parametrize("strategy", [REBUILD, NOREBUILD])
def test_a_shape_and_a_strategy_are_taken_as_declared(strategy: Strategy) -> None:
    choice = choose(ticks(36), bound=9, reader_time=1, shape=(3, 37), strategy=strategy)

    assert (choice.grid, choice.strategy) == (Grid(Ring(3), Ring(37)), strategy)
    assert choice.reason == f"{strategy.value} on 3x37: as declared"


@pytest.mark.parametrize("cohorts", range(2, 9))
def test_retire_on_a_shape_gets_the_shortest_runs_that_are_exclusive(cohorts: int) -> None:
    for groups in range(2, 9):
        grid = choose(ticks(36), bound=99, reader_time=1, shape=(groups, cohorts), strategy=RETIRE).grid
        v, w = grid.groups.run, grid.cohorts.run

        assert str(grid) == f"{groups}x{cohorts}"
        assert grid.has_exclusive_cohorts(36)
        assert not Grid(grid.groups, Ring(cohorts, w - 1)).has_exclusive_cohorts(36)
        assert grid.has_exclusive_groups(36)
        assert not Grid(Ring(groups, v - 1), grid.cohorts).has_exclusive_groups(36)


def test_retire_with_a_single_group_seals_it_once_per_span() -> None:
    grid = choose(ticks(36), bound=99, reader_time=1, shape=(1, 5), strategy=RETIRE).grid

    assert grid == Grid(Ring(1, 36), Ring(5, 9))


def test_retire_with_a_single_cohort_is_refused() -> None:
    with pytest.raises(UsageError, match="strategy retire needs at least 2 cohorts, and grid 4x1 has 1"):
        choose(ticks(36), bound=9, reader_time=1, shape=(4, 1), strategy=RETIRE)


def test_retire_is_refused_on_a_shape_and_policy_that_cannot_carry_it() -> None:
    with pytest.raises(UsageError, match="strategy retire needs"):
        choose(ticks(36), bound=9, reader_time=1, shape=(4, 4), policy="chronological", strategy=RETIRE)


@pytest.mark.parametrize("strategy", [None, *Strategy])
def test_a_bound_below_two_ticks_and_the_readers_time_is_refused(strategy: Strategy | None) -> None:
    with pytest.raises(UsageError, match="deletion bound 2 is shorter than the 3"):
        choose(ticks(36), bound=2, reader_time=1, strategy=strategy)


@pytest.mark.parametrize("p", [1, 2, 3, 5, 8, 13, 36, 100, 365, 1000, 10_000])
def test_what_is_chosen_unasked_fits_together_and_is_small(p: int) -> None:
    for bound in (3, 4, 10, 100, 1000, 5000):
        choice = choose(ticks(p), bound=bound, reader_time=1)

        assert choice.grid.groups.count * choice.grid.cohorts.count <= MAX_CELLS
        if choice.strategy is RETIRE:
            assert choice.grid.has_exclusive_cohorts(p)
            assert choice.grid.has_exclusive_groups(p)


def test_retire_declared_on_a_long_span_with_a_short_bound_keeps_to_the_limit_of_cells() -> None:
    with pytest.raises(UsageError, match="the limit is 10000"):
        choose(ticks(10_000), bound=3, reader_time=1, strategy=RETIRE)


def test_retire_on_a_shape_takes_a_span_of_many_millions_of_ticks() -> None:
    year_of_seconds = ticks(31_536_000)

    grid = choose(year_of_seconds, bound=2 * 31_536_000, reader_time=1, shape=(4, 4), strategy=RETIRE).grid

    assert grid.has_exclusive_cohorts(31_536_000)


def test_an_empty_policy_is_refused() -> None:
    with pytest.raises(UsageError, match="policy ''"):
        choose(ticks(36), bound=9, reader_time=1, policy="")
