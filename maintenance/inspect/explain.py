"""The plan of the next update, as far as it can be told without its batch."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from ebb.index.errors import NotDueError, UsageError
from ebb.index.ledger import next_slot
from ebb.maintenance.plan.update import UpdatePlan, plan_update
from ebb.maintenance.plan.upkeep import plan_seal
from ebb.maintenance.upkeep import is_sealing
from ebb.maintenance.values import counted
from ebb.warehouse.table.snapshot import Snapshot

__all__ = ["CellRemoval", "CellRewrite", "Explanation", "explain"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRemoval:
    """How many files of a cell would be removed."""

    group: int
    cohort: int
    files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRewrite:
    """What of a cell would be read and written again."""

    group: int
    cohort: int
    files: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The plan of the next update.  ``slot`` is None, and the rest says nothing, if the table has no clock yet."""

    name: str
    slot: int | None
    time: str | None = None
    is_due: bool = False
    strategy: str
    group: int | None = None  # that takes in the batch
    cohorts: tuple[int, ...] = ()  # that lose what expires
    cells_bound: int | None = None  # cells that may be touched
    cells_in_grid: int
    expires: int = 0
    live_records: int = 0
    removes: tuple[CellRemoval, ...] = ()
    rewrites: tuple[CellRewrite, ...] = ()
    seals_after: bool = False
    words: tuple[str, ...]  # all of this for people, a line each


def explain(snapshot: Snapshot, now: datetime) -> Explanation:
    """Return the plan of the next update, as far as it can be told without its batch."""
    spec, ledger, line = snapshot.spec, snapshot.ledger, snapshot.spec.timeline
    cells_in_grid = spec.grid.groups.count * spec.grid.cohorts.count
    moment = line.kind.from_datetime(now) if line.kind.has_wall_clock else None
    is_due = True
    try:
        slot = next_slot(ledger, line, at=None, now=moment, catch_up=False)
    except NotDueError as error:
        slot, is_due = error.args[0], False
    except UsageError:
        words = ("the table has no clock yet",)
        return Explanation(
            name=spec.name, slot=None, strategy=spec.strategy.value, cells_in_grid=cells_in_grid, words=words
        )
    clock = slot - 1 if ledger.clock is None else ledger.clock
    plan = plan_update(spec.strategy, spec.grid, clock=clock, slot=slot, live=snapshot.files, arriving=(), lag=spec.lag)
    seals = is_sealing(snapshot) and spec.grid.groups.end_of_run(slot) == slot and spec.grid.groups.run > 1
    return Explanation(
        name=spec.name,
        slot=slot,
        time=line.show_slot(slot),
        is_due=is_due,
        strategy=spec.strategy.value,
        group=spec.grid.groups.partition(slot),
        cohorts=tuple(sorted(spec.grid.cohorts_expiring(clock, slot))),
        cells_bound=len(plan.within),
        cells_in_grid=cells_in_grid,
        expires=ledger.expired_by(slot),
        live_records=ledger.live_records,
        removes=_removals(plan),
        rewrites=tuple(
            CellRewrite(group=r.cell.group, cohort=r.cell.cohort, files=len(r.inputs), bytes=r.size_bytes)
            for r in plan.rewrites
        ),
        seals_after=seals,
        words=_words(snapshot, plan, slot=slot, is_due=is_due, seals=seals),
    )


def _removals(plan: UpdatePlan) -> tuple[CellRemoval, ...]:
    files = Counter(f.cell for f in plan.removes)
    return tuple(CellRemoval(group=cell.group, cohort=cell.cohort, files=n) for cell, n in sorted(files.items()))


def _words(snapshot: Snapshot, plan: UpdatePlan, *, slot: int, is_due: bool, seals: bool) -> tuple[str, ...]:
    spec, line = snapshot.spec, snapshot.spec.timeline
    grid = spec.grid
    when = f"update to slot {slot} ({line.show_slot(slot)}), {'due now' if is_due else 'not due yet'}"
    rewritten = {f for r in plan.rewrites for f in r.inputs}
    dropped = [f for f in plan.removes if f not in rewritten]
    commits = len(plan.commits)
    lines = [
        when,
        f"admits its batch into group {grid.groups.partition(slot)}: at most {counted(grid.cohorts.count, 'cell')}",
        f"expires {counted(snapshot.ledger.expired_by(slot), 'record')}, all in cohort {grid.cohorts.partition(slot)}: at most {counted(grid.groups.count, 'cell')}",
        f"removes {counted(len(dropped), 'dead file')} by metadata alone",
        f"rewrites {counted(len(plan.rewrites), 'cell')} ({counted(sum(r.size_bytes for r in plan.rewrites), 'byte')} to read)",
        f"touches at most {len(plan.within)} of {counted(grid.groups.count * grid.cohorts.count, 'cell')} in {'one commit' if commits == 1 else f'{commits} commits'}",
    ]
    made = ((spec.inserted, spec.inserted_as), (spec.expires, spec.expires_as))
    lines += [f"computes {column} of its records: {expression}" for column, expression in made if expression]
    if seals:
        merged = plan_seal(grid, clock=slot, live=snapshot.files)
        lines.append(
            f"then seals group {grid.groups.partition(slot)}: {counted(len(merged.removes), 'file')} so far become {counted(len(merged.rewrites), 'run')}"
        )
    return tuple(lines)
