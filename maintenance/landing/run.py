"""Applying what has arrived in landing folders: tick by tick, in order, each batch exactly once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from ebb.index.errors import AppliedSlotError, EngineError, InputError, OverDeletionError, RetryError, WarehouseError
from ebb.maintenance.context import Context
from ebb.maintenance.landing.folder import (
    batches,
    erase_old,
    give_back,
    landed_files,
    move,
    set_aside,
    slot_of,
    store,
    take,
    write_reason,
)
from ebb.maintenance.landing.steps import Step, steps
from ebb.maintenance.update import Report, update
from ebb.warehouse.intake.batch import Files
from ebb.warehouse.intake.source import check_inputs, find_inputs
from ebb.warehouse.table.snapshot import Table
from ebb.warehouse.table.spec import TableSpec

__all__ = ["Outcome", "due_steps", "run_all", "run_table"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one step or file."""

    table: str
    slot: int | None
    files: int
    report: Report | None = None
    error: str | None = None
    set_aside: str | None = None

    @property
    def is_stopped(self) -> bool:
        """Whether the table has to wait: what failed may succeed later, and order matters."""
        return self.error is not None and self.set_aside is None


def run_table(table: Table, context: Context, *, until: datetime, yes: bool = False) -> Iterator[Outcome]:
    """Apply what has arrived for one table; yields an outcome per update made and per batch set aside.

    Ticks that are over at ``until`` are due: now, or an earlier moment to replay the past.
    """
    spec = table.snapshot().spec
    if spec.landing is None:
        return
    folder = Path(spec.landing)
    if not folder.is_dir():
        yield Outcome(table=table.name, slot=None, files=0, error=f"landing folder {folder} does not exist; create it")
        return
    if not context.dry_run:
        give_back(folder)
    for batch in batches(folder / "_taken"):
        outcome = _apply(table, spec, folder, context, slot=slot_of(batch), taken=batch, yes=yes)
        if outcome is not None:
            yield outcome
            if outcome.is_stopped:
                return
    for step in due_steps(table, until):
        good: list[Path] = []
        for path in step.files:
            reason = _unfit(path, spec)
            if reason is None:
                good.append(path)
            elif not context.dry_run:
                aside = set_aside([path], folder, step.slot, reason)
                yield Outcome(table=table.name, slot=step.slot, files=1, error=reason, set_aside=str(aside))
        if context.dry_run:
            yield Outcome(table=table.name, slot=step.slot, files=len(good))
            continue
        taken = take(good, folder, step.slot) if good else None
        outcome = _apply(table, spec, folder, context, slot=step.slot, taken=taken, yes=yes)
        if outcome is not None:
            yield outcome
            if outcome.is_stopped:
                return
    if not context.dry_run:
        erase_old(folder, spec, table.snapshot().ledger.clock)


def due_steps(table: Table, until: datetime) -> list[Step]:
    """Return the updates that are due for the files that have arrived."""
    snapshot = table.snapshot()
    line = snapshot.spec.timeline
    due = line.clock_at(line.kind.from_datetime(until)) if line.kind.has_wall_clock else None
    return steps(snapshot.ledger.clock, due, landed_files(Path(snapshot.spec.landing or "."), line))


def _unfit(path: Path, spec: TableSpec) -> str | None:
    """Return why a file cannot be part of a batch, as far as its header tells."""
    try:
        check_inputs(find_inputs([str(path)]), spec.columns)
    except InputError as error:
        return str(error)
    return None


def _apply(
    table: Table, spec: TableSpec, folder: Path, context: Context, *, slot: int, taken: Path | None, yes: bool
) -> Outcome | None:
    files = find_inputs([str(taken)]) if taken else []
    clock = table.snapshot().ledger.clock
    if not files and clock is not None and slot <= clock:
        return None
    outcome = Outcome(table=table.name, slot=slot, files=len(files))
    try:
        batch = Files(tuple(files), context.engine)
        report = update(table, batch, context, at=spec.timeline.end_of(slot), catch_up=True, yes=yes)
    except AppliedSlotError:
        # The clock went past the tick while its batch waited: the files are late and join the next one.
        if taken is not None:
            move(sorted(taken.iterdir()), folder)
            taken.rmdir()
        return None
    except (OverDeletionError, RetryError, EngineError) as error:
        return replace(outcome, error=str(error))
    except WarehouseError as error:
        if taken is None:
            return replace(outcome, error=str(error))
        aside = store(taken, folder / "_refused")
        write_reason(aside, [file.path.name for file in files], str(error))
        return replace(outcome, error=str(error), set_aside=str(aside))
    if taken is not None and not context.dry_run:
        store(taken, folder / "_applied")
    return replace(outcome, report=report)


def run_all(
    tables: Sequence[Table], context: Context, *, until: datetime | None = None, yes: bool = False
) -> Iterator[Outcome]:
    """Apply what has arrived for every table; what fails for one does not stop the others."""
    for table in tables:
        try:
            yield from run_table(table, context, until=until or context.now, yes=yes)
        except WarehouseError as error:
            yield Outcome(table=table.name, slot=None, files=0, error=str(error))
