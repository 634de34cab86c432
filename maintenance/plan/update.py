"""What an update or a load does to the files.

An update goes from ``clock`` to ``slot`` with the batch already staged as files of its own (``arriving``). Each
strategy turns that into plans, one per commit: files to remove, cells to rewrite, files to add as they are. Whatever
they decide, together they stay within the cells of one group and of the expiring cohorts. Pure.

A stream can follow a table only if a commit with records adds files and nothing else, so retire and norebuild take three
steps: the first admits the batch and moves the clock, the next removes what is dead, and the last, which changes no
answer, rewrites what is due. Whoever is killed in between loses nothing: the next update finds what is dead or due by
looking at all files, not only at those of its own cohorts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from ebb.index.cellfile import CellFile, Rewrite
from ebb.index.grid import Cell, Grid
from ebb.index.strategy import Strategy
from ebb.maintenance.plan.change import Plan, by_cell
from ebb.maintenance.plan.upkeep import plan_purge, plan_retire

__all__ = ["UpdatePlan", "plan_load", "plan_update"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatePlan:
    """The commits of one update, in this order.  Empty ones but the first are not made."""

    update: Plan  # moves the clock, whatever else it does
    retire: Plan = field(default_factory=Plan)
    purge: Plan = field(default_factory=Plan)

    @property
    def commits(self) -> Mapping[str, Plan]:
        """Return the plans of all commits that are made, by what each does."""
        followers = {"retire": self.retire, "purge": self.purge}
        return {"update": self.update} | {op: plan for op, plan in followers.items() if not plan.is_empty}

    @property
    def removes(self) -> tuple[CellFile, ...]:
        """Return the files that leave the table, over all commits."""
        return (*self.update.removes, *self.retire.removes, *self.purge.removes)

    @property
    def rewrites(self) -> tuple[Rewrite, ...]:
        """Return what is written anew, over all commits."""
        return (*self.update.rewrites, *self.purge.rewrites)

    @property
    def cells_touched(self) -> frozenset[Cell]:
        """Return the cells whose files change, over all commits."""
        return self.update.cells_touched | self.retire.cells_touched | self.purge.cells_touched

    @property
    def within(self) -> frozenset[Cell]:
        """Return the cells that all commits together may touch: E + c*G - c for c cohorts, G + E - 1 for one tick."""
        return self.update.within | self.retire.within | self.purge.within


def plan_update(
    strategy: Strategy,
    grid: Grid,
    *,
    clock: int,
    slot: int,
    live: Sequence[CellFile],
    arriving: Sequence[CellFile],
    lag: int = 0,
) -> UpdatePlan:
    """Return what the update from ``clock`` to ``slot`` does.

    ``lag`` is for norebuild: how many ticks an expired record may stay in its file.
    """
    # Each generation has a grid, and so a plan, of its own; held records have no turn.
    live = [f for f in live if f.cell.generation == grid.generation and not f.cell.is_held]
    match strategy:
        case Strategy.REBUILD:
            plan = _rebuild(grid, clock, slot, live, arriving)
            return UpdatePlan(update=replace(plan, within=grid.cells_touched(clock, slot)))
        case Strategy.NOREBUILD:
            staying = [f for f in live if not f.is_dead(slot)]
            purge = plan_purge(clock=slot, live=staying, lag=lag, turns=grid)
        case Strategy.RETIRE:
            purge = Plan()
        case _:
            assert_never(strategy)
    retire = plan_retire(clock=slot, live=live)
    late = {file.cell.cohort for file in (*retire.removes, *purge.removes)}  # whose turn was before, too, after a kill
    expiring = grid.cells_of_cohorts(grid.cohorts_expiring(clock, slot) | late)
    return UpdatePlan(
        update=Plan(adds=tuple(arriving), within=grid.cells_admitting(slot)),
        retire=replace(retire, within=expiring),
        purge=replace(purge, within=expiring),
    )


def plan_load(strategy: Strategy, grid: Grid, *, slot: int, arriving: Sequence[CellFile]) -> UpdatePlan:
    """Return what the first load does: its records have slots of their own, so it may touch every cell."""
    plan = plan_update(strategy, grid, clock=slot - 1, slot=slot, live=(), arriving=arriving)
    return UpdatePlan(update=replace(plan.update, within=grid.cells))


def _rebuild(grid: Grid, clock: int, slot: int, live: Sequence[CellFile], arriving: Sequence[CellFile]) -> Plan:
    """Write the survivors of every touched cell and its part of the batch as one sorted run."""
    cohorts = grid.cohorts_expiring(clock, slot)
    expiring = [f for f in live if f.has_expired(slot) and f.cell.cohort in cohorts]
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
