"""What a seal, a retirement or a purge does to the files: none of them changes an answer.  Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ebb.index.cellfile import CellFile
from ebb.index.grid import Cell, Grid
from ebb.maintenance.plan.change import Plan, rewrites_of

__all__ = ["plan_purge", "plan_retire", "plan_seal"]


def plan_seal(grid: Grid, *, clock: int, live: Sequence[CellFile]) -> Plan:
    """Merge, per cell, the runs that were added to a group while it was filling, once it is complete.

    A cell whose records all came in one commit is one sorted run already and is left alone. So are files of another
    generation: this grid does not know when their groups are complete.
    """
    by_run: dict[tuple[Cell, int], list[CellFile]] = defaultdict(list)
    for file in _not_held(live):
        is_complete = file.cell.generation == grid.generation and grid.groups.end_of_run(file.max_ins) <= clock
        if is_complete and not file.is_dead(clock):
            by_run[file.cell, grid.groups.run_of(file.max_ins)].append(file)
    stale = [file for files in by_run.values() if len({f.folder for f in files}) > 1 for file in files]
    completed = {grid.groups.partition(file.max_ins) for file in stale}
    return Plan(removes=tuple(stale), rewrites=rewrites_of(stale, clock), within=grid.cells_of(completed))


def plan_retire(*, clock: int, live: Sequence[CellFile]) -> Plan:
    """Remove the files in which every record has expired, by metadata alone."""
    dead = [f for f in _not_held(live) if f.is_dead(clock)]
    return Plan(removes=tuple(dead), within=frozenset(f.cell for f in dead))


def plan_purge(*, clock: int, live: Sequence[CellFile], lag: int = 0, turns: Grid | None = None) -> Plan:
    """Get every record out that expired at least ``lag`` ticks ago, and what expired since from the same files.

    ``turns``: nobody looks at a file again before the next turn of its cohort, so what will be overdue by then goes too.
    """

    def next_look(file: CellFile) -> int:
        return clock + 1 if turns is None else turns.next_turn(file.cell.cohort, clock)

    due = [f for f in _not_held(live) if f.has_expired(clock) and f.min_exp + lag < next_look(f)]
    rewrites = rewrites_of([f for f in due if not f.is_dead(clock)], clock)
    return Plan(removes=tuple(due), rewrites=rewrites, within=frozenset(f.cell for f in due))


def _not_held(live: Sequence[CellFile]) -> list[CellFile]:
    """Return the files without held records: those stay as they are until they are released."""
    return [file for file in live if not file.cell.is_held]
