"""What an update, a seal or a purge does to the files: decided here, carried out elsewhere.

An update goes from ``clock`` to ``slot`` with the batch already staged as files of its own (``arriving``). Each
strategy turns that into a plan: files to remove, cells to rewrite, files to add as they are. Three functions with
one signature; whatever they decide stays within the cells of one group and of the expiring cohorts. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn

from index.cellfile import CellFile, Rewrite
from index.grid import Cell, Grid
from index.policy import Strategy

__all__ = ["Plan", "plan_load", "plan_purge", "plan_seal", "plan_update"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One commit: what is removed, what is written anew, what is added as it was staged."""

    removes: tuple[CellFile, ...] = ()
    rewrites: tuple[Rewrite, ...] = ()
    adds: tuple[CellFile, ...] = ()
    # The cells that this kind of plan may touch: checked when it is carried out, no part of what it does.
    within: frozenset[Cell] = field(default=frozenset(), compare=False)

    @property
    def cells_touched(self) -> frozenset[Cell]:
        """Return the cells whose files change."""
        return frozenset([f.cell for f in self.removes] + [r.cell for r in self.rewrites] + [f.cell for f in self.adds])

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.removes or self.rewrites or self.adds)


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
    cohorts = grid.cohorts_expiring(clock, slot)
    expiring = [f for f in live if f.cell.cohort in cohorts and f.has_expired(slot)]
    match strategy:
        case Strategy.REBUILD:
            plan = _rebuild(slot, live, arriving, expiring)
        case Strategy.NOREBUILD:
            due = [f for f in expiring if f.min_exp + lag < grid.next_turn(f.cell.cohort, slot)]
            plan = _norebuild(slot, arriving, expiring, due)
        case Strategy.RETIRE:
            plan = _norebuild(slot, arriving, expiring, ())
        case _:
            return _unknown(strategy)
    return replace(plan, within=within)


def plan_load(strategy: Strategy, grid: Grid, *, slot: int, arriving: Sequence[CellFile]) -> Plan:
    """Return what the first load does: its records have slots of their own, so it may touch every cell."""
    plan = plan_update(strategy, grid, clock=slot - 1, slot=slot, live=(), arriving=arriving)
    return replace(plan, within=grid.cells)


def _unknown(strategy: NoReturn) -> NoReturn:  # the type checker proves that it is never called
    raise AssertionError(strategy)


def _rebuild(slot: int, live: Sequence[CellFile], arriving: Sequence[CellFile], expiring: Sequence[CellFile]) -> Plan:
    """Write the survivors of every touched cell and its part of the batch as one sorted run."""
    touched = {f.cell for f in (*expiring, *arriving)}
    old = [f for f in live if f.cell in touched]
    adds: list[CellFile] = []
    rewrites: list[Rewrite] = []
    for cell, files in _by_cell((*old, *arriving)).items():
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
    return Plan(removes=(*dead, *stale), rewrites=_rewrites(stale, slot), adds=tuple(arriving))


def plan_seal(grid: Grid, *, clock: int, live: Sequence[CellFile]) -> Plan:
    """Merge, per cell, the runs that were added to a group while it was filling, once it is complete.

    A cell whose records all came in one commit is one sorted run already and is left alone.
    """
    by_run: dict[tuple[Cell, int], list[CellFile]] = defaultdict(list)
    for file in live:
        if grid.groups.end_of_run(file.max_ins) <= clock and not file.is_dead(clock):
            by_run[file.cell, grid.groups.run_of(file.max_ins)].append(file)
    stale = [file for files in by_run.values() if len({f.folder for f in files}) > 1 for file in files]
    completed = {grid.groups.partition(file.max_ins) for file in stale}
    within = frozenset(Cell(group, cohort) for group in completed for cohort in range(grid.cohorts.count))
    return Plan(removes=tuple(stale), rewrites=_rewrites(stale, clock), within=within)


def plan_purge(*, clock: int, live: Sequence[CellFile], lag: int = 0) -> Plan:
    """Get every record out that expired at least ``lag`` ticks ago, and what expired since from the same files."""
    overdue = [f for f in live if f.min_exp + lag <= clock]
    rewrites = _rewrites([f for f in overdue if not f.is_dead(clock)], clock)
    return Plan(removes=tuple(overdue), rewrites=rewrites, within=frozenset(f.cell for f in overdue))


def _rewrites(files: Sequence[CellFile], clock: int) -> tuple[Rewrite, ...]:
    """Merge files with live records, cell by cell."""
    cells = _by_cell(files).items()
    return tuple(Rewrite(cell=cell, inputs=tuple(in_cell), clock=clock) for cell, in_cell in cells)


def _by_cell(files: Iterable[CellFile]) -> dict[Cell, list[CellFile]]:
    cells: dict[Cell, list[CellFile]] = defaultdict(list)
    for file in files:
        cells[file.cell].append(file)
    return cells
