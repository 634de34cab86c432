"""Applying what has arrived in one table's landing folder: tick by tick, in order, each batch exactly once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from ebb.index.errors import AppliedSlotError, ExpiredBatchError, InputError, UnreadableInputError, WarehouseError
from ebb.maintenance.context import Context
from ebb.maintenance.landing.folder import (
    arrived,
    erase_old,
    keep_applied,
    locked_folder,
    put_back,
    refuse_file,
    settle,
    slot_of,
    take,
    taken_batches,
)
from ebb.maintenance.landing.steps import Step, due_slot, steps
from ebb.maintenance.update import Report, update
from ebb.warehouse.intake.batch import Files
from ebb.warehouse.intake.faults import at_place, bad_files
from ebb.warehouse.intake.source import InputFile, check_inputs, find_inputs
from ebb.warehouse.table.snapshot import Snapshot, Table
from ebb.warehouse.table.spec import TableSpec

__all__ = ["Outcome", "files_waiting", "finish_applied", "has_work", "run_table"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one step or file."""

    table: str
    slot: int | None
    files: int
    report: Report | None = None
    error: str | None = None
    set_aside: str | None = None
    cause: WarehouseError | None = field(default=None, compare=False, repr=False)  # of the error, for its hint

    @property
    def is_stopped(self) -> bool:
        """Whether the table has to wait: what failed may succeed later, and order matters."""
        return self.error is not None and self.set_aside is None


def has_work(snapshot: Snapshot, until: datetime) -> bool:
    """Whether anything is due in a table's landing folder.  Looks at the names and times of its files, at no log."""
    folder = _folder(snapshot)
    return folder is not None and bool(taken_batches(folder) or _steps(snapshot, folder, until))


def files_waiting(snapshot: Snapshot) -> int:
    """Return how many files have arrived in a table's landing folder."""
    folder = _folder(snapshot)
    return len(arrived(folder, snapshot.spec.timeline)) if folder is not None else 0


def run_table(
    snapshot: Snapshot, context: Context, *, until: datetime, yes: bool = False, allow_repeats: bool = False
) -> Iterator[Outcome]:
    """Apply what has arrived for a table, if it has a landing folder; yields an outcome per update and per refusal.

    Ticks that are over at ``until`` are due: now, or an earlier moment to replay the past. One run at a time works on a
    landing folder: another waits for it as long as the context says, and raises LockedError. If nobody may write to the
    table, no file of the folder is touched, which may be that of the table's original, and the reason is raised.
    """
    folder = _folder(snapshot)
    if folder is None:
        return
    snapshot.check_own()
    if context.dry_run:
        yield from _planned(snapshot, folder, until)
        return
    with locked_folder(folder, wait=context.wait):
        snapshot = snapshot.table.snapshot()
        if _folder(snapshot) != folder:  # altered meanwhile: another lock counts now
            return
        snapshot.check_own()
        for outcome in _applied(snapshot, folder, context, until=until, yes=yes, allow_repeats=allow_repeats):
            yield outcome
            if outcome.is_stopped:
                return


def finish_applied(snapshot: Snapshot, folder: Path, context: Context) -> None:
    """Finish what a run took and did not finish although its tick was applied, with it or without it.

    Nothing is applied here: the ledger tells what became of the batch. Requires the folder's lock.
    """
    clock = snapshot.ledger.clock
    if clock is None:
        return
    work = _Work(snapshot.table, snapshot.spec, folder, context, yes=False, allow_repeats=False, last=clock)
    for batch in taken_batches(folder):
        if slot_of(batch) > clock:
            continue
        for outcome in work.apply(slot_of(batch), batch):
            if outcome.is_stopped and outcome.cause is not None:
                raise outcome.cause


def _folder(snapshot: Snapshot) -> Path | None:
    return Path(snapshot.spec.landing) if snapshot.spec.landing else None


def _steps(snapshot: Snapshot, folder: Path, until: datetime) -> list[Step]:
    """Return the updates that are due for the files that have arrived."""
    line = snapshot.spec.timeline
    landed = arrived(folder, line, snapshot.spec.label)
    due = steps(snapshot.ledger.clock, due_slot(line, until), landed)
    if landed and not due and snapshot.ledger.clock is None and not line.kind.has_wall_clock:
        msg = f"table {snapshot.table.name} has no clock yet, and no file in {folder} is named after its tick, like 40-cars.csv"
        raise InputError(msg, "rename one, or load the table first")
    return due


def _planned(snapshot: Snapshot, folder: Path, until: datetime) -> Iterator[Outcome]:
    """Yield what would be done."""
    name = snapshot.table.name
    for batch in taken_batches(folder):
        yield Outcome(table=name, slot=slot_of(batch), files=len(find_inputs([str(batch)])))
    for step in _steps(snapshot, folder, until):
        fit = [path for path in step.files if _unfit(path, snapshot.spec) is None]
        yield Outcome(table=name, slot=step.slot, files=len(fit))


def _applied(
    snapshot: Snapshot, folder: Path, context: Context, *, until: datetime, yes: bool, allow_repeats: bool
) -> Iterator[Outcome]:
    """Finish what a run before has taken, apply what is due, erase what has been kept for long enough."""
    line = snapshot.spec.timeline
    batches = taken_batches(folder)
    due = due_slot(line, until)
    arriving = [file.slot for file in arrived(folder, line, snapshot.spec.label) if file.slot is not None]
    slots = [*map(slot_of, batches), *(slot for slot in arriving if due is None or slot <= due), due]
    last = max(slot for slot in (*slots, snapshot.ledger.clock, 0) if slot is not None)
    work = _Work(snapshot.table, snapshot.spec, folder, context, yes=yes, allow_repeats=allow_repeats, last=last)
    for batch in batches:
        yield from work.apply(slot_of(batch), batch)
    snapshot = snapshot.table.snapshot()
    for step in _steps(snapshot, folder, until):
        fit: list[Path] = []
        for path in step.files:
            fault = _unfit(path, snapshot.spec)
            if fault is None:
                fit.append(path)
            else:
                yield from work.set_aside(step.slot, {str(path): fault})
        yield from work.apply(step.slot, take(folder, step.slot, fit) if fit else None)
    snapshot = snapshot.table.snapshot()
    if snapshot.ledger.clock is not None:
        erase_old(folder, snapshot.spec.quarantined_until(snapshot.ledger.clock))


def _unfit(path: Path, spec: TableSpec) -> InputError | None:
    """Return why a file cannot be part of a batch, as far as its header tells."""
    if path.is_symlink() and not path.readlink().is_absolute():
        reason = "it is a relative symbolic link, which would lead nowhere once it is moved"
        return UnreadableInputError(path, reason, "put the file itself there")
    try:
        check_inputs(find_inputs([str(path)]), spec.input_schema)
    except InputError as error:
        return error
    return None


@dataclass(frozen=True, slots=True)
class _Work:
    """What one run does to one table."""

    table: Table
    spec: TableSpec
    folder: Path
    context: Context
    yes: bool
    allow_repeats: bool
    last: int  # where the clock will be: what is refused is kept from then on, however long ago its tick was

    def apply(self, slot: int, batch: Path | None) -> Iterator[Outcome]:
        """Make one update; its batch is then applied, late, or still taken because the table has to wait.

        A file that cannot be read is set aside alone, and the tick is applied with the others.
        """
        outcome = Outcome(table=self.table.name, slot=slot, files=0)
        if batch is not None:
            settle(self.folder, batch, self.table.disk)
        while True:
            try:
                files = find_inputs([str(batch)]) if batch else []
                outcome = replace(outcome, files=len(files))
                report = self._updated(slot, files)
            except AppliedSlotError:  # somebody else has moved the clock: the files are late and join the next tick
                if batch is not None:
                    put_back(self.folder, batch)
                return
            except InputError as error:
                landed = {str(path.resolve()): str(path) for path in batch.iterdir()} if batch else {}
                faults = {landed[path]: fault for path, fault in bad_files(error).items() if path in landed}
                if isinstance(error, ExpiredBatchError):  # nobody can tell which of them has wrong times
                    faults = dict.fromkeys(landed.values(), error)
                if not faults:
                    yield replace(outcome, error=str(error), cause=error)
                    return
                yield from self.set_aside(slot, faults)
            except WarehouseError as error:
                yield replace(outcome, error=str(error), cause=error)
                return
            else:
                if files or not report.already_applied:
                    yield replace(outcome, report=report)
                if batch is not None:
                    keep_applied(self.folder, batch)
                return

    def _updated(self, slot: int, files: Sequence[InputFile]) -> Report:
        batch, at = Files(tuple(files), self.context.engine), self.spec.timeline.end_of(slot)
        return update(
            self.table, batch, self.context, at=at, catch_up=True, yes=self.yes, allow_repeats=self.allow_repeats
        )

    def set_aside(self, slot: int, faults: Mapping[str, InputError]) -> Iterator[Outcome]:
        """Set files aside that cannot be read, each with its reason."""
        for path, fault in faults.items():
            reason = str(at_place(fault, path, Path(path).name))
            if aside := refuse_file(self.folder, Path(path), self.last, reason):
                told = at_place(fault, path, str(aside))
                place = str(aside.parent)
                yield Outcome(table=self.table.name, slot=slot, files=1, error=str(told), set_aside=place, cause=told)
