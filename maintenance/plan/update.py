"""What an update or a load does to the files.

An update goes from ``clock`` to ``slot`` with the batch already staged as files of its own (``arriving``). Each
strategy turns that into a plan: files to remove, cells to rewrite, files to add as they are. Three functions with
one signature; whatever they decide stays within the cells of one group and of the expiring cohorts. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from ebb.index.cellfile import CellFile, Rewrite
from ebb.index.grid import Grid
from ebb.index.strategy import Strategy
from ebb.maintenance.plan.change import Plan, by_cell, rewrites_of

__all__ = ["plan_load", "plan_update"]


def plan_update(
    strategy: Strategy,
    grid: Grid,
    *,
    clock: int,
    slot: int,
    live: Sequence[CellFile],
    arriving: Sequence[CellFile],
    lag: int = 0,
) -> Plan:
    """Return what the update from ``clock`` to ``slot`` does.

    ``lag`` is for norebuild: how many ticks an expired record may stay in its file.
    """
    within = grid.cells_touched(clock, slot)
    cells = grid.cells_expiring(clock, slot)
    expiring = [f for f in live if f.min_exp <= slot and f.cell in cells]
    match strategy:
        case Strategy.REBUILD:
            plan = _rebuild(slot, live, arriving, expiring)
        case Strategy.NOREBUILD:
            due = [f for f in expiring if f.min_exp + lag < grid.next_turn(f.cell.cohort, slot)]
            plan = _norebuild(slot, arriving, expiring, due)
        case Strategy.RETIRE:
            plan = _norebuild(slot, arriving, expiring, ())
        case _:
            assert_never(strategy)
    return replace(plan, within=within)


def plan_load(strategy: Strategy, grid: Grid, *, slot: int, arriving: Sequence[CellFile]) -> Plan:
    """Return what the first load does: its records have slots of their own, so it may touch every cell."""
    plan = plan_update(strategy, grid, clock=slot - 1, slot=slot, live=(), arriving=arriving)
    return replace(plan, within=grid.cells)


def _rebuild(slot: int, live: Sequence[CellFile], arriving: Sequence[CellFile], expiring: Sequence[CellFile]) -> Plan:
    """Write the survivors of every touched cell and its part of the batch as one sorted run."""
    touched = {f.cell for f in (*expiring, *arriving)}
    old = [f for f in live if f.cell in touched]
    adds: list[CellFile] = []
    rewrites: list[Rewrite] = []
    for cell, files in by_cell((*old, *arriving)).items():
        staying = tuple(f for f in files if not f.is_dead(slot))
        if len({f.folder for f in staying}) == 1 and staying[0] in arriving:
            adds.extend(staying)
        elif staying:
            rewrites.append(Rewrite(cell=cell, inputs=staying, clock=slot))
    return Plan(removes=tuple(old), rewrites=tuple(rewrites), adds=tuple(adds))


def _norebuild(slot: int, arriving: Sequence[CellFile], expiring: Sequence[CellFile], due: Sequence[CellFile]) -> Plan:
    """Remove the files that are all dead, rewrite those that are due, leave the others to be hidden by the clock."""
    dead = [f for f in expiring if f.is_dead(slot)]
    stale = [f for f in due if not f.is_dead(slot)]
    return Plan(removes=(*dead, *stale), rewrites=rewrites_of(stale, slot), adds=tuple(arriving))
