"""Landing folders: batches that arrive as files, applied tick by tick, in order, each exactly once.

A file belongs to the tick that its name starts with (``2013-01-02T0600Z-anything.csv``, the time as for ``--at``; a
number for integer columns), otherwise to the tick in which it was last modified. Files for a tick that has been
applied are late and join the next one. Before a tick is applied its files are moved together into
``_taken/SLOT``: whatever dies afterwards, the next run finds the very same batch and the ledger tells whether it
was applied. Then they go to ``_applied/SLOT`` or, with a reason, to ``_refused/SLOT``; both are erased with the
quarantine's time. What to do is decided by a pure function; time is an argument.
"""

from __future__ import annotations

import itertools
import json
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from index.errors import AppliedSlotError, EngineError, InputError, OverDeletionError, RetryError, WarehouseError
from index.timeline import TimeKind, Timeline
from maintenance.context import Context
from maintenance.update import Report, update
from warehouse.source import check_inputs, find_inputs
from warehouse.spec import TableSpec
from warehouse.table import Table

__all__ = ["Landed", "Outcome", "Step", "label_time", "run_table", "steps"]

_LABEL = re.compile(r"(\d{4})-?(\d{2})-?(\d{2})(?:[T_](\d{2})[-:.]?(\d{2})?(?:[-:.]?(\d{2}))?Z?)?(?=[._-]|$)")
_SLOT = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")  # the folder of a batch; a second one of the same slot has a number
_NUMBER = re.compile(r"(\d{1,18})(?=[._-]|$)")


@dataclass(frozen=True, slots=True)
class Landed:
    """A file that has arrived, and the slot it says or shows it belongs to; None: the next one."""

    path: Path
    slot: int | None


@dataclass(frozen=True, slots=True)
class Step:
    """One update to make: the slot and the files of its batch."""

    slot: int
    files: tuple[Path, ...]


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


def label_time(name: str, kind: TimeKind) -> int | None:
    """Return the time that a file name starts with.

    >>> TimeKind.TIMESTAMP.show_time(label_time("2013-01-02T0600Z.csv", TimeKind.TIMESTAMP))
    '2013-01-02T06:00:00Z'
    """
    if kind is TimeKind.INTEGER:
        number = _NUMBER.match(name)
        return int(number[1]) if number else None
    match = _LABEL.match(name)
    if not match:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups())
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc)
    except ValueError:
        return None
    return kind.from_datetime(moment)


def steps(clock: int | None, due: int | None, landed: Sequence[Landed]) -> list[Step]:
    """Return the updates to make, in order: each tick that has files, then the last tick that is over.

    ``due`` is the last tick that is over; None for integer columns, where files alone move the clock.
    """
    first = clock + 1 if clock is not None else min((f.slot for f in landed if f.slot is not None), default=due)
    if first is None or (due is not None and first > due):
        return []
    by_slot: dict[int, list[Path]] = {}
    for file in landed:
        slot = first if file.slot is None else max(first, file.slot)
        if due is None or slot <= due:
            by_slot.setdefault(slot, []).append(file.path)
    if due is not None:
        by_slot.setdefault(due, [])
    return [Step(slot, tuple(sorted(files))) for slot, files in sorted(by_slot.items())]


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
        _give_back(folder)
    for batch in _batches(folder / "_taken"):
        outcome = _apply(table, spec, folder, context, slot=_slot_of(batch), taken=batch, yes=yes)
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
                aside = _set_aside([path], folder, step.slot, reason)
                yield Outcome(table=table.name, slot=step.slot, files=1, error=reason, set_aside=str(aside))
        if context.dry_run:
            yield Outcome(table=table.name, slot=step.slot, files=len(good))
            continue
        taken = _take(good, folder, step.slot) if good else None
        outcome = _apply(table, spec, folder, context, slot=step.slot, taken=taken, yes=yes)
        if outcome is not None:
            yield outcome
            if outcome.is_stopped:
                return
    if not context.dry_run:
        _erase_old(folder, spec, table.snapshot().ledger.clock)


def due_steps(table: Table, until: datetime) -> list[Step]:
    """Return the updates that are due for the files that have arrived."""
    snapshot = table.snapshot()
    line = snapshot.spec.timeline
    due = line.clock_at(line.kind.from_datetime(until)) if line.kind.has_wall_clock else None
    return steps(snapshot.ledger.clock, due, _landed(Path(snapshot.spec.landing or "."), line))


def _batches(folder: Path) -> list[Path]:
    """Return the folders that are named after a slot, in order."""
    found = [p for p in folder.glob("*") if p.is_dir() and _SLOT.fullmatch(p.name)]
    return sorted(found, key=_slot_of)


def _slot_of(folder: Path) -> int:
    return int(folder.name.split(".")[0])


def _take(files: Sequence[Path], folder: Path, slot: int) -> Path:
    """Take the files of a batch together: the folder has its name only when all of them are in it."""
    partial = _move(files, folder / "_taken" / f"{slot}.part")
    return partial.rename(folder / "_taken" / str(slot))


def _give_back(folder: Path) -> None:
    """Put back what a run was taking when it died."""
    for partial in (folder / "_taken").glob("*.part"):
        _move(sorted(partial.iterdir()), folder)
        partial.rmdir()


def _store(batch: Path, folder: Path) -> Path:
    """Move a whole batch in one step: a part of it left behind would look like another batch."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for turn in itertools.count():
        target = folder / (f"{_slot_of(batch)}.{turn}" if turn else str(_slot_of(batch)))
        if not target.exists():
            return batch.rename(target)
    raise AssertionError  # there is always a next number


def _landed(folder: Path, line: Timeline) -> list[Landed]:
    files = [
        p
        for p in folder.iterdir()
        if p.is_file() and not p.name.startswith((".", "_")) and p.suffix not in (".tmp", ".part")
    ]
    landed = []
    for path in files:
        time = label_time(path.name, line.kind)
        if time is not None:
            landed.append(Landed(path, line.clock_at(time)))
        elif line.kind.has_wall_clock:
            modified = datetime.fromtimestamp(path.stat().st_mtime, tz=timezone.utc)
            landed.append(Landed(path, line.slot_of(line.kind.from_datetime(modified))))
        else:
            landed.append(Landed(path, None))
    return landed


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
        report = update(table, files, context, at=spec.timeline.end_of(slot), catch_up=True, yes=yes)
    except AppliedSlotError:
        # The clock went past the tick while its batch waited: the files are late and join the next one.
        if taken is not None:
            _move(sorted(taken.iterdir()), folder)
            taken.rmdir()
        return None
    except (OverDeletionError, RetryError, EngineError) as error:
        return replace(outcome, error=str(error))
    except WarehouseError as error:
        if taken is None:
            return replace(outcome, error=str(error))
        aside = _store(taken, folder / "_refused")
        _write_reason(aside, [file.path.name for file in files], str(error))
        return replace(outcome, error=str(error), set_aside=str(aside))
    if taken is not None and not context.dry_run:
        _store(taken, folder / "_applied")
    return replace(outcome, report=report)


def _move(files: Sequence[Path], target: Path) -> Path:
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    for file in files:
        file.rename(target / file.name)
    return target


def _set_aside(files: Sequence[Path], folder: Path, slot: int, reason: str) -> Path:
    """Keep files that cannot be applied, with the reason in a file beside them."""
    aside = _move(files, folder / "_refused" / str(slot))
    _write_reason(aside, [file.name for file in files], reason)
    return aside


def _write_reason(folder: Path, names: Sequence[str], reason: str) -> None:
    with (folder / "_reasons.jsonl").open("a", encoding="utf-8") as text:
        text.write(json.dumps({"files": names, "reason": reason}) + "\n")


def _erase_old(folder: Path, spec: TableSpec, clock: int | None) -> None:
    """Erase files with the quarantine's time: the deletion bound would mean little if they stayed."""
    if clock is None:
        return
    through = clock - max(0, spec.quarantine_time // spec.timeline.tick - 1)
    for batch in (*_batches(folder / "_applied"), *_batches(folder / "_refused")):
        if _slot_of(batch) <= through:
            shutil.rmtree(batch)


def run_all(
    tables: Sequence[Table], context: Context, *, until: datetime | None = None, yes: bool = False
) -> Iterator[Outcome]:
    """Apply what has arrived for every table; what fails for one does not stop the others."""
    for table in tables:
        try:
            yield from run_table(table, context, until=until or context.now, yes=yes)
        except WarehouseError as error:
            yield Outcome(table=table.name, slot=None, files=0, error=str(error))
