"""What an adoption does to files and counts, decided without any."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ebb.index.grid import HELD, Cell, Grid, Ring
from ebb.index.histogram import Histogram
from ebb.index.ledger import Change, Ledger
from ebb.maintenance.plan.adopt import correction, plan_adoption
from ebb.maintenance.plan.records import NEVER
from tests.filestore import cell_file

GRID = Grid(Ring(3), Ring(4))
COUNTS = st.dictionaries(st.integers(11, 200), st.integers(1, 9))


def test_files_that_ebb_wrote_and_nobody_touched_stay() -> None:
    mine = cell_file("a/1", exp=(5, 9))

    assert plan_adoption(GRID, clock=7, live=[mine], strange=(), returned=()).is_empty


def test_a_strange_file_is_written_again_in_its_cell() -> None:
    files = [
        cell_file("x", (1, 2), exp=(8, 9)),
        cell_file("y", (1, 2), exp=(5, 9)),
        cell_file("a/1", (1, 2), exp=(8, 9)),
    ]

    plan = plan_adoption(GRID, clock=7, live=files, strange={"x", "y"}, returned={"x"})

    assert plan.removes == (files[0], files[1])
    assert [(r.cell, r.inputs, r.clock) for r in plan.rewrites] == [(Cell(1, 2), (files[0], files[1]), 7)]
    assert plan.within == GRID.cells


def test_a_file_that_was_brought_back_goes_if_it_is_dead_and_is_purged_if_records_have_expired() -> None:
    dead, stale, whole = (cell_file(f"a/{n}", exp=exp) for n, exp in enumerate([(3, 7), (5, 9), (8, 9)]))

    plan = plan_adoption(GRID, clock=7, live=[dead, stale, whole], strange=(), returned={"a/0", "a/1", "a/2"})

    assert plan.removes == (dead, stale)
    assert [r.inputs for r in plan.rewrites] == [(stale,)]


def test_no_record_of_a_held_file_is_left_out() -> None:
    held = [cell_file(name, (1, HELD), exp=exp) for name, exp in (("x", (3, 5)), ("y", (5, 9)), ("a/1", (3, 5)))]

    plan = plan_adoption(GRID, clock=7, live=held, strange={"x", "y"}, returned={"a/1"})

    assert plan.removes == (held[0], held[1])
    assert [(r.cell, r.inputs, r.clock) for r in plan.rewrites] == [(Cell(1, HELD), (held[0], held[1]), NEVER)]
    assert plan.cells_touched <= plan.within


@given(COUNTS, st.lists(COUNTS, max_size=3), COUNTS, st.integers(0, 20))
def test_a_corrected_ledger_counts_what_was_counted(
    base: dict[int, int], arrivals: list[dict[int, int]], counted: dict[int, int], ticks: int
) -> None:
    ledger = Ledger(clock=10, live_records=sum(base.values()), base=Histogram.of(base))
    for some in arrivals:
        ledger = ledger.advanced(Change(clock=10, arrivals=some))

    change = Change(clock=10, arrivals=correction(counted, ledger.live))
    after = ledger.advanced(Change.restored(change.stored()))

    assert Counter(after.live) == Counter(counted)
    assert after.live_records == sum(counted.values())
    assert after.expired_by(10 + ticks) == sum(n for slot, n in counted.items() if slot <= 10 + ticks)
    settled, _ = Ledger.loads(after.settled([]).dumps())
    assert Counter(settled.live) == Counter(counted)
    assert settled.live_records == after.live_records
