"""What a seal or a purge does to the files: it changes no answer.  Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ebb.index.cellfile import CellFile
from ebb.index.grid import Cell, Grid
from ebb.maintenance.plan.change import Plan, rewrites_of

__all__ = ["plan_purge", "plan_seal"]


def plan_seal(grid: Grid, *, clock: int, live: Sequence[CellFile]) -> Plan:
    """Merge, per cell, the runs that were added to a group while it was filling, once it is complete.

    A cell whose records all came in one commit is one sorted run already and is left alone. So are files of another
    generation: this grid does not know when their groups are complete.
    """
    by_run: dict[tuple[Cell, int], list[CellFile]] = defaultdict(list)
    for file in live:
        is_complete = file.cell.generation == grid.generation and grid.groups.end_of_run(file.max_ins) <= clock
        if is_complete and not file.is_dead(clock):
            by_run[file.cell, grid.groups.run_of(file.max_ins)].append(file)
    stale = [file for files in by_run.values() if len({f.folder for f in files}) > 1 for file in files]
    completed = {grid.groups.partition(file.max_ins) for file in stale}
    return Plan(removes=tuple(stale), rewrites=rewrites_of(stale, clock), within=grid.cells_of(completed))


def plan_purge(*, clock: int, live: Sequence[CellFile], lag: int = 0) -> Plan:
    """Get every record out that expired at least ``lag`` ticks ago, and what expired since from the same files."""
    overdue = [f for f in live if f.min_exp + lag <= clock]
    rewrites = rewrites_of([f for f in overdue if not f.is_dead(clock)], clock)
    return Plan(removes=tuple(overdue), rewrites=rewrites, within=frozenset(f.cell for f in overdue))
