"""What becomes of files when records are chosen: decided without looking at any."""

from __future__ import annotations

from ebb.index.cellfile import AMENDED, CellFile, Chosen
from ebb.index.grid import Cell, Grid, Ring
from ebb.maintenance.plan.records import counts_of, plan_amend, plan_forget
from tests.filestore import cell_file


def some(file: CellFile, live: dict[int, int], expired: int = 0) -> Chosen:
    return Chosen(file=file, places={0: [0]}, live=live, expired=expired)


def test_files_of_one_run_are_one_run_again_and_runs_of_a_cell_stay_apart() -> None:
    cell = (0, 0)
    parts = [cell_file(path, cell, exp=(5, 9), records=4) for path in ("a/0/x/y/1", "a/0/x/y/2", "b/0/x/y/1")]
    other = cell_file("a/1/x/y/1", (1, 0), exp=(5, 9), records=4)

    plan = plan_forget([some(file, {7: 1}) for file in (*parts, other)], clock=3)

    assert plan.removes == (*parts, other)
    assert [[file.path for file in rewrite.inputs] for rewrite in plan.rewrites] == [
        ["a/0/x/y/1", "a/0/x/y/2"], ["a/1/x/y/1"], ["b/0/x/y/1"],
    ]  # fmt: skip
    assert len({rewrite.part for rewrite in plan.rewrites}) == 3
    assert plan.cells_touched == plan.within == {parts[0].cell, other.cell}
    assert plan.rewrites[0].without == {"a/0/x/y/1": {0: [0]}, "a/0/x/y/2": {0: [0]}}


def test_amended_records_go_to_the_cell_of_their_new_slot_in_their_own_group() -> None:
    grid = Grid(Ring(2), Ring(3))
    one, two = (
        cell_file("a/0/x/y/1", (0, 0), exp=(4, 4), records=3),
        cell_file("b/0/x/y/1", (0, 1), exp=(5, 5), records=3),
    )
    other = cell_file("b/0/x/y/2", (1, 1), exp=(5, 5))

    plan = plan_amend(grid, [some(one, {4: 1}), some(two, {5: 1}), some(other, {5: 1})], clock=3, expires=("e", 9, 9))

    moved = [rewrite for rewrite in plan.rewrites if rewrite.part == AMENDED]
    assert [(rewrite.cell, [file.path for file in rewrite.inputs]) for rewrite in moved] == [
        (Cell(0, 2), ["a/0/x/y/1", "b/0/x/y/1"]), (Cell(1, 2), ["b/0/x/y/2"]),
    ]  # fmt: skip
    assert moved[0].only == {"a/0/x/y/1": {0: [0]}, "b/0/x/y/1": {0: [0]}}
    assert {rewrite.expires for rewrite in moved} == {("e", 9, 9)}
    assert [rewrite.cell for rewrite in plan.rewrites if rewrite not in moved] == [Cell(0, 0), Cell(0, 1)]
    assert plan.cells_touched <= plan.within == {one.cell, two.cell, other.cell, Cell(0, 2), Cell(1, 2)}


def test_nothing_is_written_for_files_of_which_nothing_is_left() -> None:
    dead, whole = cell_file("a/0/x/y/1", exp=(2, 3), records=4), cell_file("a/0/x/y/2", exp=(5, 5), records=2)

    plan = plan_forget([some(dead, {}, expired=1), some(whole, {5: 2})], clock=3)

    assert plan.removes == (dead, whole)
    assert plan.rewrites == ()


def test_only_what_has_not_expired_is_counted() -> None:
    chosen = [some(cell_file("a", records=9), {5: 2, 6: 1}, expired=3), some(cell_file("b"), {5: 1})]

    assert counts_of(chosen) == {5: 3, 6: 1}
    assert [one.records for one in chosen] == [6, 1]
    assert counts_of([]) == {}


def test_no_chosen_record_leaves_everything_as_it_is() -> None:
    assert plan_forget([], clock=3).is_empty
    assert plan_amend(Grid(Ring(2), Ring(3)), [], clock=3, expires=("e", 9, 9)).is_empty
