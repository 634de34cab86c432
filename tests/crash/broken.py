"""Five readers, each with one fault, to show that the checker of histories would notice.

Each reads a real table in the way that ours do, and lets a writer in when it suits the fault least: ``gap`` commits the
next update.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ebb import OpenTable
from ebb.index.grid import Cell
from ebb.warehouse.read.request import Read
from ebb.warehouse.read.window import Window
from tests.isolation import Level, Rule

__all__ = ["BROKEN", "Answer", "Reader"]

_NEVER = -(2**62)  # a clock at which nothing has expired


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a reader says that it saw."""

    level: Level = "window"
    checked: int | None = None  # when it looked at the log for the last time; None: when it began
    clock: int | None
    ids: list[int]


Reader = Callable[[OpenTable, Callable[[], None]], Answer]


def no_pin(table: OpenTable, gap: Callable[[], None]) -> Answer:
    """Keep the clock of the first look, and take the files of each cell from a new one."""
    clock = table.at_latest().clock
    return _cell_by_cell(table, gap, lambda window: _at(window, clock))


def pin_per_cell(table: OpenTable, gap: Callable[[], None]) -> Answer:
    """Read each cell as a window of its own."""
    return _cell_by_cell(table, gap, lambda window: window)


def no_validation(table: OpenTable, gap: Callable[[], None]) -> Answer:
    """Look at the log for the last time, and see what was kept of the first."""
    window = table.up_to_date()
    looks: list[int] = []

    def look() -> Window:
        gap()
        looks.append(time.monotonic_ns())
        return window

    stale = replace(window, reopen=look)
    ids = stale.scan(["id"]).read_all()["id"].to_pylist()
    return Answer(level="latest", checked=looks[-1], clock=stale.cost.clock, ids=ids)


def expired_shown(table: OpenTable, gap: Callable[[], None]) -> Answer:
    """Return what is in the files, whatever the clock says."""
    while not any(file.has_expired(table.at_latest().clock or 0) for file in table.at_latest().snapshot.files):
        gap()  # until there is something to be hidden
    window = table.at_latest()
    ids = [id for cell in _cells(window) for id in _ids(_at(window, _NEVER), cell)]
    return Answer(clock=window.clock, ids=ids)


def lost_cell(table: OpenTable, gap: Callable[[], None]) -> Answer:
    """Leave out one cell."""
    window = table.at_latest()
    gap()
    parts = [ids for cell in _cells(window) if (ids := _ids(window, cell))]
    return Answer(clock=window.clock, ids=[id for ids in parts[1:] for id in ids])


BROKEN: Mapping[Reader, Rule] = {
    no_pin: Rule.ONE_WINDOW,
    pin_per_cell: Rule.ONE_WINDOW,
    no_validation: Rule.NOT_BEFORE_ITS_COMMIT,
    expired_shown: Rule.ONE_WINDOW,
    lost_cell: Rule.ONE_WINDOW,
}


def _cell_by_cell(table: OpenTable, gap: Callable[[], None], seen_as: Callable[[Window], Window]) -> Answer:
    """Look at the log for every cell, with a gap in the middle, and claim the clock of the first look."""
    first = table.at_latest()
    ids: list[int] = []
    cells = _cells(first)
    for number, cell in enumerate(cells):
        if number == len(cells) // 2:
            gap()
        ids += _ids(seen_as(table.at_latest()), cell)
    return Answer(clock=first.clock, ids=ids)


def _cells(window: Window) -> list[Cell]:
    """Return all cells, cohort by cohort: in whatever half of them an update comes, it adds to both."""
    grid = window.snapshot.spec.grid
    return [Cell(group, cohort) for cohort in range(grid.cohorts.count) for group in range(grid.groups.count)]


def _ids(window: Window, cell: Cell) -> list[int]:
    files = [file for file in window.visible_files() if file.cell == cell]
    return [id for table in window.tables(Read(("id",)), files) for id in table["id"].to_pylist()]


def _at(window: Window, clock: int | None) -> Window:
    """Return the files of a window as if its clock were another."""
    return replace(window, snapshot=replace(window.snapshot, ledger=replace(window.snapshot.ledger, clock=clock)))
