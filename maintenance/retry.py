"""What becomes of refused records: they are judged once more, or removed before their time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ebb.index.errors import InputError, UnreadableInputError, UsageError
from ebb.maintenance.context import Context
from ebb.maintenance.stage import retried_digest
from ebb.maintenance.update import Report, next_tick, update
from ebb.warehouse.intake.batch import Refusals
from ebb.warehouse.intake.quarantine import Refused, RefusedFile, clear_refused, part_refused, read_refused
from ebb.warehouse.intake.source import input_format
from ebb.warehouse.intake.text_input import is_packed, suffix_of
from ebb.warehouse.table.snapshot import Snapshot, Table
from ebb.warehouse.table.spec import TableSpec

__all__ = ["Cleared", "check_written", "clear", "repaired_rules", "retry"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleared:
    """What was removed from a quarantine, or would be."""

    name: str
    cleared: int


def retry(table: Table, context: Context, *, reason: str | None = None, at: int | None = None) -> Report:
    """Apply the refused records that are records now as an update; they leave the quarantine, the others stay.

    Records that could not be read at all cannot be judged again: they have to be repaired in a file. The records that
    are fine now are put into files of their own first, and the update remembers these files: whoever is killed before
    they are cleared may start again, and nothing is admitted twice. The others are not touched, so that they go when
    the time of their first refusal is over.
    """
    snapshot = table.snapshot()
    slot, _ = next_tick(snapshot, context, at=at)
    records = [record for file in _known(snapshot) for record in file.records if _has(record, reason)]
    reasons = _reasons_at(records, snapshot.spec, slot)
    again = Counter(found for found in map(reasons.get, records) if found)

    def is_chosen(record: Refused) -> bool:
        return record in reasons and reasons[record] is None

    chosen = [file for file in _known(snapshot) if any(map(is_chosen, file.records))]
    if not chosen:
        why = f": {', '.join(f'{text} ({count:,})' for text, count in sorted(again.items()))}" if again else ""
        msg = f"the quarantine of {table.name} holds no record that can be applied as it is{why}"
        raise InputError(msg, "write the records to a file, repair them, and apply that")
    if context.dry_run:
        chosen = [replace(file, records=tuple(filter(is_chosen, file.records))) for file in chosen]
    else:
        with table.lock(wait=context.wait):
            done = _applied(table.snapshot(), chosen)  # by somebody who was killed: known as they are
            part_refused(table, [file for file in chosen if file not in done], is_chosen, now_ms=context.now_ms())
        chosen = [file for file in _known(table.snapshot()) if any(map(is_chosen, file.records))]
    report = update(table, Refusals(tuple(chosen)), context, at=at, yes=True)  # they may have waited for too long
    if not context.dry_run:
        gone = {file.path for file in _applied(table.snapshot(), chosen)}
        _clear(table, context, lambda file, _: file.path in gone)
    return replace(
        report,
        received=report.received + again.total(),
        quarantined=report.quarantined + again.total(),
        reasons=dict(sorted((again + Counter(report.reasons)).items())),
    )


def _reasons_at(records: Sequence[Refused], spec: TableSpec, slot: int) -> dict[Refused, str | None]:
    """Return why each record would be refused now, None if it would not be; without those that cannot be judged."""
    from ebb.warehouse.intake.arrow_source import fields_of, reasons_at

    readable = [record for record in records if fields_of(record.record, spec) is not None]
    return dict(zip(readable, reasons_at(readable, spec, slot), strict=True))


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
