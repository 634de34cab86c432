"""What becomes of refused records: they are judged once more, or removed before their time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ebb.index.errors import InputError, UnreadableInputError, UsageError
from ebb.maintenance.context import Context
from ebb.maintenance.stage import retried_digest
from ebb.maintenance.update import Report, update
from ebb.warehouse.intake.batch import Refusals
from ebb.warehouse.intake.quarantine import Refused, RefusedFile, clear_refused, part_refused, read_refused
from ebb.warehouse.intake.source import input_format
from ebb.warehouse.intake.text_input import is_packed, suffix_of
from ebb.warehouse.table.snapshot import Snapshot, Table

__all__ = ["Cleared", "check_written", "clear", "repaired_rules", "retry"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleared:
    """What was removed from a quarantine, or would be."""

    name: str
    cleared: int


def retry(table: Table, context: Context, *, reason: str | None = None, at: int | None = None) -> Report:
    """Apply the refused records that are records now as an update; they leave the quarantine, the others stay.

    Records that could not be read at all cannot be judged again: they have to be repaired in a file. The chosen records
    are put into files of their own first, and the update remembers these files: whoever is killed before they are
    cleared may start again, and nothing is admitted twice. Records that are refused again are in quarantine anew.
    """
    from ebb.warehouse.intake.arrow_source import fields_of

    snapshot = table.snapshot()
    spec = snapshot.spec

    def is_chosen(record: Refused) -> bool:
        return _has(record, reason) and fields_of(record.record, spec) is not None

    chosen = [file for file in _known(snapshot) if any(map(is_chosen, file.records))]
    if context.dry_run:
        chosen = [replace(file, records=tuple(filter(is_chosen, file.records))) for file in chosen]
    else:
        with table.lock(wait=context.wait):
            done = _applied(table.snapshot(), chosen)  # by somebody who was killed: known as they are
            part_refused(table, [file for file in chosen if file not in done], is_chosen, now_ms=context.now_ms())
        chosen = [file for file in _known(table.snapshot()) if any(map(is_chosen, file.records))]
    if not chosen:
        msg = f"the quarantine of {table.name} holds no record that can be applied as it is"
        raise InputError(msg, "write the records to a file, repair them, and apply that")
    report = update(table, Refusals(tuple(chosen)), context, at=at)
    if not context.dry_run:
        gone = {file.path for file in _applied(table.snapshot(), chosen)}
        _clear(table, context, lambda file, _: file.path in gone)
    return report


def check_written(path: Path) -> None:
    """Refuse a name under which records that are written out could not be applied again: they are JSON lines."""
    try:
        is_json = input_format(path) == "json" and not is_packed(path)
    except UnreadableInputError as error:
        raise UsageError(error.facts, "name it like refused.jsonl, so that it can be applied again") from error
    if not is_json:
        msg = f"{path}: refused records are written as JSON lines, and its name says something else"
        raise UsageError(msg, "name it like refused.jsonl")


def repaired_rules(files: Sequence[str]) -> dict[str, str]:
    """Return the rules for files of repaired records: what was written out is UTF-8, whatever the table declares."""
    return {"encoding": ""} if all(suffix_of(Path(file)) in (".jsonl", ".ndjson", ".json") for file in files) else {}


def _applied(snapshot: Snapshot, files: Sequence[RefusedFile]) -> list[RefusedFile]:
    """Return the files of the quarantine that were applied once more, and not cleared."""
    ledger, ticks = snapshot.ledger, snapshot.spec.remembered_ticks
    return [file for file in files if ledger.slot_applied(retried_digest(file), ticks) is not None]


def clear(table: Table, context: Context, *, reason: str | None = None) -> Cleared:
    """Remove refused records from the quarantine and from the disk: all, or those whose reason holds a text."""
    if context.dry_run:
        count = sum(_has(record, reason) for file in _known(table.snapshot()) for record in file.records)
    else:
        count = _clear(table, context, lambda _, record: _has(record, reason))
    return Cleared(name=table.name, cleared=count)


def _clear(table: Table, context: Context, is_cleared: Callable[[RefusedFile, Refused], bool]) -> int:
    with table.lock(wait=context.wait):
        return clear_refused(table, _known(table.snapshot()), is_cleared, now_ms=context.now_ms())


def _known(snapshot: Snapshot) -> list[RefusedFile]:
    """Return what is in quarantine, without what an unfinished update left."""
    clock = snapshot.ledger.clock
    return [file for file in read_refused(snapshot.table) if clock is not None and file.slot <= clock]


def _has(record: Refused, reason: str | None) -> bool:
    return reason is None or reason in record.reason
