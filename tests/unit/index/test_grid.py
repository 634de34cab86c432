"""Axes and cells, with the thesis's figures 4.1 and 4.2 and theorem 4.1 as goldens."""

from __future__ import annotations

import pytest

from ebb.index.errors import UsageError
from ebb.index.grid import Axis, Cell, Grid, Ring, Shuffle
from ebb.index.policy import make_grid
from ebb.index.timeline import TimeKind, Timeline

I1, I2, I3, I4 = Cell(0, 0), Cell(0, 1), Cell(1, 0), Cell(1, 1)
MINUTES = Timeline(kind=TimeKind.INTEGER, origin=0, tick=2, span=16)
TURNS_OF_2006 = [1, 2, 0, 3, 1, 0, 2, 3, 2, 3, 1, 0]


def pairs_alive(ticks_per_span: int, clock: int) -> list[tuple[int, int]]:
    """Return each (insertion slot, expiration slot) that a record alive at ``clock`` can have."""
    return [
        (inserted, expires)
        for inserted in range(clock - ticks_per_span + 1, clock + 1)
        for expires in range(clock + 1, inserted + ticks_per_span + 1)
    ]


def sizes(grid: Grid, ticks_per_span: int, clock: int) -> dict[Cell, int]:
    """Return the size of each cell, with one unit for each pair of slots."""
    found = {Cell(g, e): 0 for g in range(grid.groups.count) for e in range(grid.cohorts.count)}
    for pair in pairs_alive(ticks_per_span, clock):
        found[grid.cell_of(*pair)] += 1
    return found


def squared_deviations(grid: Grid, ticks_per_span: int) -> float:
    """Return the sum of squared deviations of the sizes from their mean, on average over p updates."""
    p = ticks_per_span
    found = sizes(grid, p, clock=p)
    mean = sum(found.values()) / len(found)
    total = 0.0
    for slot in range(p + 1, 2 * p + 1):
        for ticks in range(1, p + 1):
            found[grid.cell_of(slot - ticks, slot)] -= 1
            found[grid.cell_of(slot, slot + ticks)] += 1
        total += sum((size - mean) ** 2 for size in found.values())
    return total / p


def divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]


@pytest.mark.parametrize(
    ("time", "inserting", "expiring"),
    [(t, {I1, I2}, {I1, I3}) for t in (18, 20, 22, 24)] + [(t, {I3, I4}, {I2, I4}) for t in (26, 28, 30, 32)],
)
def test_figure_4_1_chronological(time: int, inserting: set[Cell], expiring: set[Cell]) -> None:
    grid = make_grid("chronological", 2, 2, MINUTES.ticks_per_span)
    slot = MINUTES.clock_at(time)

    assert grid.cells_admitting(slot) == inserting
    assert grid.cells_expiring(slot - 1, slot) == expiring
    assert grid.cells_touched(slot - 1, slot) == inserting | expiring


@pytest.mark.parametrize(
    ("time", "inserting", "expiring"),
    [(t, {I1, I2}, {I1, I3}) for t in (18, 22, 26)] + [(t, {I3, I4}, {I2, I4}) for t in (20, 24, 28)],
)
def test_figure_4_2_round_robin(time: int, inserting: set[Cell], expiring: set[Cell]) -> None:
    grid = make_grid("round-robin", 2, 2, MINUTES.ticks_per_span)
    slot = MINUTES.clock_at(time)

    assert grid.cells_admitting(slot) == inserting
    assert grid.cells_expiring(slot - 1, slot) == expiring
    assert grid.cells_touched(slot - 1, slot) == inserting | expiring


@pytest.mark.parametrize(
    ("inserted", "expires", "cell"),
    [(1, 17, I1), (8, 24, I1), (1, 25, I2), (8, 32, I2), (9, 17, I3), (16, 24, I3), (9, 25, I4), (16, 32, I4)],
)
def test_figure_4_1_gives_each_sub_index_its_ranges_of_minutes(inserted: int, expires: int, cell: Cell) -> None:
    grid = make_grid("chronological", 2, 2, MINUTES.ticks_per_span)

    assert grid.cell_of(MINUTES.slot_of(inserted), MINUTES.slot_of(expires)) == cell


def test_at_time_16_the_second_sub_index_is_empty_under_chronological_only() -> None:
    p, clock = MINUTES.ticks_per_span, MINUTES.clock_at(16)

    chronological = sizes(make_grid("chronological", 2, 2, p), p, clock)
    round_robin = sizes(make_grid("round-robin", 2, 2, p), p, clock)

    assert chronological == {I1: 10, I2: 0, I3: 16, I4: 10}
    assert round_robin == {I1: 10, I2: 6, I3: 10, I4: 10}


@pytest.mark.parametrize(
    ("policy", "total", "smallest", "largest"),
    [("chronological", 13263.75, 0, 81), ("round-robin", 303.75, 36, 45)],
)
def test_theorem_4_1_for_4x4_and_36_ticks(policy: str, total: float, smallest: int, largest: int) -> None:
    grid = make_grid(policy, 4, 4, 36)
    found = sizes(grid, 36, clock=36).values()

    assert squared_deviations(grid, 36) == total
    assert (min(found), max(found)) == (smallest, largest)


@pytest.mark.parametrize("q", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("m", [2, 3, 4, 7])
def test_theorem_4_1_in_closed_form(q: int, m: int) -> None:
    p, n = q * m, q * q

    assert squared_deviations(make_grid("chronological", q, q, p), p) == pytest.approx(
        m**2 * (q - 1) * ((3 * q - 4) * m**2 + 7) / 12
    )
    assert squared_deviations(make_grid("round-robin", q, q, p), p) == pytest.approx(m**2 * (n - 1) / 4)


def test_theorem_4_1_holds_on_rectangles_with_ties_where_a_partition_is_one_slot() -> None:
    shapes = [(p, g, e) for p in (12, 24, 36) for g in divisors(p) for e in divisors(p) if 1 < g * e <= 64]
    ties = set()
    for p, g, e in shapes:
        chronological = squared_deviations(make_grid("chronological", g, e, p), p)
        round_robin = squared_deviations(make_grid("round-robin", g, e, p), p)
        if round_robin == pytest.approx(chronological):
            ties.add((p, g, e))
        else:
            assert round_robin < chronological

    assert len(shapes) == 129
    assert ties == {(p, g, e) for p in (12, 24, 36) for g, e in ((p, 1), (1, p))}


@pytest.mark.parametrize("policy", ["chronological", "round-robin"])
def test_both_policies_touch_the_same_share_of_the_data(policy: str) -> None:
    grid = make_grid(policy, 4, 4, 36)
    shares = []
    for slot in range(37, 73):
        found = sizes(grid, 36, clock=slot - 1)
        shares.append(sum(found[cell] for cell in grid.cells_touched(slot - 1, slot)) / sum(found.values()))

    assert sum(shares) / len(shares) == pytest.approx(0.432, abs=0.0005)


@pytest.mark.parametrize(
    ("axis", "slots", "partitions"),
    [
        (Ring(3), range(-1, 5), [1, 2, 0, 1, 2, 0]),
        (Ring(2, 3), range(-2, 8), [1, 1, 1, 0, 0, 0, 1, 1, 1, 0]),
        (Ring(1, 4), range(1, 6), [0, 0, 0, 0, 0]),
        (Shuffle(1, seed=3), range(1, 4), [0, 0, 0]),
    ],
)
def test_slots_take_their_turns(axis: Axis, slots: range, partitions: list[int]) -> None:
    assert [axis.partition(slot) for slot in slots] == partitions


def test_the_turns_of_a_seed_never_change() -> None:
    """They are part of the layout of every table that was made with them."""
    turns = [Shuffle(4, seed=2006).partition(slot) for slot in range(1, 13)]

    assert turns == TURNS_OF_2006


def test_two_seeds_give_two_orders() -> None:
    one, other = ([Shuffle(8, seed).partition(slot) for slot in range(1, 65)] for seed in (1, 2))

    assert one != other


@pytest.mark.parametrize(
    ("axis", "slot", "run", "end"),
    [(Ring(2, 3), 1, 0, 3), (Ring(2, 3), 3, 0, 3), (Ring(2, 3), 4, 1, 6), (Ring(4), 5, 4, 5), (Ring(2, 3), 0, -1, 0),
     (Shuffle(4, seed=1), 5, 4, 5)],
)  # fmt: skip
def test_a_slot_knows_its_run_and_where_that_ends(axis: Axis, slot: int, run: int, end: int) -> None:
    assert (axis.run_of(slot), axis.end_of_run(slot)) == (run, end)


def test_each_slot_of_a_shuffle_is_a_run_of_its_own() -> None:
    assert Shuffle(4, seed=1).run == 1


@pytest.mark.parametrize(("count", "run"), [(0, 1), (1, 0), (-1, 1)])
def test_a_ring_without_partitions_or_slots_is_refused(count: int, run: int) -> None:
    with pytest.raises(UsageError, match=f"an axis of {count} partitions with runs of {run} slots"):
        Ring(count, run)


def test_a_shuffle_without_partitions_is_refused() -> None:
    with pytest.raises(UsageError, match="an axis of 0 partitions; it must have at least 1"):
        Shuffle(0, seed=1)


def test_a_grid_of_a_negative_generation_is_refused() -> None:
    with pytest.raises(UsageError, match="a grid of generation -1; generations start at 0"):
        Grid(Ring(1), Ring(1), -1)


def test_a_cell_is_shown_with_its_generation_only_if_that_is_not_the_first() -> None:
    assert [f"{cell}" for cell in (Cell(1, 2), Cell(-1, -1), Cell(1, 2, 3))] == [
        "(1, 2)",
        "(-1, -1)",
        "(1, 2) of generation 3",
    ]


def test_a_grid_is_shown_by_its_shape() -> None:
    assert str(Grid(Ring(4, 9), Shuffle(8, seed=1))) == "4x8"


@pytest.mark.parametrize(
    ("clock", "slot", "cohorts"),
    [(0, 1, {0}), (1, 2, {0}), (2, 3, {1}), (1, 3, {0, 1}), (0, 6, {0, 1, 2}), (0, 1_000_000_000, {0, 1, 2})],
)
def test_catching_up_expires_each_cohort_whose_turn_was_skipped(clock: int, slot: int, cohorts: set[int]) -> None:
    grid = Grid(Ring(4), Ring(3, 2))

    assert grid.cohorts_expiring(clock, slot) == cohorts
    assert len(grid.cells_touched(clock, slot)) == 3 + len(cohorts) * 3


def test_a_long_absence_expires_every_shuffled_cohort() -> None:
    grid = Grid(Ring(1), Shuffle(8, seed=1))

    assert {grid.cohorts_expiring(0, slot) for slot in range(100, 140)} == {frozenset(range(8))}


@pytest.mark.parametrize(
    ("cohorts", "ticks_per_span", "exclusive"),
    [(Ring(5, 2), 8, True), (Ring(4, 2), 8, False), (Ring(9), 8, True), (Ring(8), 8, False), (Ring(2, 8), 8, True),
     (Ring(1, 100), 8, False), (Shuffle(9, seed=1), 8, False)],
)  # fmt: skip
def test_cohorts_are_exclusive_when_the_ring_is_longer_than_a_span_by_a_run(
    cohorts: Axis, ticks_per_span: int, *, exclusive: bool
) -> None:
    assert Grid(Ring(1), cohorts).has_exclusive_cohorts(ticks_per_span) is exclusive


@pytest.mark.parametrize(
    ("groups", "exclusive"),
    [(Ring(6, 2), True), (Ring(5, 2), False), (Ring(11), True), (Ring(10), False), (Shuffle(99, seed=1), False)],
)
def test_groups_are_exclusive_when_records_that_wait_for_their_cohort_fit_too(groups: Axis, *, exclusive: bool) -> None:
    assert Grid(groups, Ring(5, 3)).has_exclusive_groups(8) is exclusive


@pytest.mark.parametrize(("cohort", "after", "turn"), [(0, 1, 2), (0, 2, 7), (1, 2, 3), (2, 1, 5), (2, 6, 11)])
def test_a_cohort_waits_for_its_next_turn(cohort: int, after: int, turn: int) -> None:
    assert Grid(Ring(2), Ring(3, 2)).next_turn(cohort, after) == turn


@pytest.mark.parametrize("run", [1, 100_000, 10**15])
def test_the_next_turn_of_a_long_run_is_not_walked_to(run: int) -> None:
    """A file that waited for a run of 100,000 slots cost 84 ms of every plan."""
    axis = Ring(3, run)

    assert axis.next_turn(2, after=0) == 2 * run + 1
    assert axis.next_turn(2, after=3 * run) == 5 * run + 1
    assert axis.next_turn(2, after=2 * run) == 2 * run + 1
    assert axis.next_turn(0, after=0) == 1
