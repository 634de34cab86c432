"""Landing folders: batches that arrive as files, applied tick by tick, in order, each exactly once.

A file belongs to the tick that its name starts with (``2013-01-02T0600Z-anything.csv``, the time as for ``--at``; a
number for integer columns), otherwise to the tick in which it was last modified. Files for a tick that has been
applied are late and join the next one. Before a tick is applied its files are moved together into
``_taken/SLOT``: whatever dies afterwards, the next run finds the very same batch and the ledger tells whether it
was applied. Then they go to ``_applied/SLOT`` (erased with the quarantine's time) or, with a reason, to
``_refused/SLOT``. What to do is decided by a pure function; time is an argument.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from index.errors import InputError, RetryError, UsageError, WarehouseError
from index.timeline import TimeKind, Timeline
from maintenance.context import Context
from maintenance.update import Report, update
from warehouse.source import check_inputs, find_inputs
from warehouse.spec import TableSpec
from warehouse.table import Table

__all__ = ["Landed", "Outcome", "Step", "label_time", "run_table", "steps"]

_LABEL = re.compile(r"(\d{4})-?(\d{2})-?(\d{2})(?:[T_](\d{2})[-:.]?(\d{2})?(?:[-:.]?(\d{2}))?Z?)?(?=[._-]|$)")
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


def run_table(table: Table, context: Context, *, yes: bool = False) -> Iterator[Outcome]:
    """Apply what has arrived for one table; yields an outcome per update made and per batch set aside."""
    snapshot = table.snapshot()
    spec = snapshot.spec
    if spec.landing is None:
        return
    folder = Path(spec.landing)
    if not folder.is_dir():
        yield Outcome(table=table.name, slot=None, files=0, error=f"landing folder {folder} does not exist; create it")
        return
    yield from _finish_taken(table, spec, folder, context, yes=yes)
    clock = table.snapshot().ledger.clock
    line = spec.timeline
    due = line.clock_at(line.kind.from_datetime(context.now)) if line.kind.has_wall_clock else None
    for step in steps(clock, due, _landed(folder, line)):
        good: list[Path] = []
        for path in step.files:
            reason = _unfit(path, spec)
            if reason is None:
                good.append(path)
            else:
                aside = _move([path], folder / "_refused" / str(step.slot))
                _write_reason(aside, reason)
                yield Outcome(table=table.name, slot=step.slot, files=1, error=reason, set_aside=str(aside))
        taken = _move(good, folder / "_taken" / str(step.slot)) if good else None
        outcome = _apply(table, spec, folder, context, slot=step.slot, taken=taken, yes=yes)
        if outcome is not None:
            yield outcome
            if outcome.error and not outcome.set_aside:
                return
    _expire_applied(folder, spec, table.snapshot().ledger.clock)


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


def _finish_taken(table: Table, spec: TableSpec, folder: Path, context: Context, *, yes: bool) -> Iterator[Outcome]:
    """Apply, or recognise as applied, the batches that an earlier run took and did not finish."""
    taken = sorted((folder / "_taken").glob("*"), key=lambda p: int(p.name))
    for batch in taken:
        outcome = _apply(table, spec, folder, context, slot=int(batch.name), taken=batch, yes=yes)
        if outcome is not None:
            yield outcome


def _apply(
    table: Table, spec: TableSpec, folder: Path, context: Context, *, slot: int, taken: Path | None, yes: bool
) -> Outcome | None:
    files = find_inputs([str(taken)]) if taken else []
    clock = table.snapshot().ledger.clock
    if not files and clock is not None and slot <= clock:
        return None
    try:
        report = update(table, files, context, at=spec.timeline.end_of(slot), catch_up=True, yes=yes)
    except (InputError, UsageError) as error:
        if taken is None:
            return Outcome(table=table.name, slot=slot, files=0, error=str(error))
        aside = _move(sorted(taken.iterdir()), folder / "_refused" / str(slot))
        taken.rmdir()
        _write_reason(aside, str(error))
        return Outcome(table=table.name, slot=slot, files=len(files), error=str(error), set_aside=str(aside))
    except (RetryError, WarehouseError) as error:
        return Outcome(table=table.name, slot=slot, files=len(files), error=str(error))
    if taken is not None:
        _move(sorted(taken.iterdir()), folder / "_applied" / str(slot))
        taken.rmdir()
    return Outcome(table=table.name, slot=slot, files=len(files), report=report)


def _move(files: Sequence[Path], target: Path) -> Path:
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    for file in files:
        file.rename(target / file.name)
    return target


def _write_reason(folder: Path, reason: str) -> None:
    (folder / "_reason.json").write_text(json.dumps({"reason": reason}) + "\n", encoding="utf-8")


def _expire_applied(folder: Path, spec: TableSpec, clock: int | None) -> None:
    """Erase applied files with the quarantine's time: the deletion bound would mean little if they stayed."""
    if clock is None:
        return
    through = clock - max(0, spec.quarantine_time // spec.timeline.tick - 1)
    for batch in (folder / "_applied").glob("*"):
        if int(batch.name) <= through:
            shutil.rmtree(batch)


def run_all(
    tables: Sequence[Table], context: Context, *, now: Callable[[], datetime], yes: bool = False
) -> Iterator[Outcome]:
    """Apply what has arrived for every table; what fails for one does not stop the others."""
    for table in tables:
        try:
            yield from run_table(table, replace(context, now=now()), yes=yes)
        except WarehouseError as error:
            yield Outcome(table=table.name, slot=None, files=0, error=str(error))
