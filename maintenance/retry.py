"""What becomes of refused records: they are judged once more, or removed before their time."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

from ebb.index.errors import InputError
from ebb.maintenance.context import Context
from ebb.maintenance.update import Report, update
from ebb.warehouse.intake.batch import Refusals
from ebb.warehouse.intake.quarantine import Refused, RefusedFile, clear_refused, read_refused
from ebb.warehouse.table.snapshot import Snapshot, Table

__all__ = ["Cleared", "clear", "retry"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleared:
    """What was removed from a quarantine, or would be."""

    name: str
    cleared: int


def retry(table: Table, context: Context, *, reason: str | None = None, at: int | None = None) -> Report:
    """Apply the refused records that are records now as an update; they leave the quarantine, the others stay.

    Records that could not be read at all cannot be judged again: they have to be repaired in a file. Whoever is killed
    in between may start again: records that were applied are recognised.
    """
    snapshot = table.snapshot()
    files = [
        replace(file, records=tuple(record for record in file.records if _is_retried(record, snapshot, reason)))
        for file in _known(snapshot)
    ]
    batch = Refusals(tuple(file for file in files if file.records))
    if not batch.files:
        msg = f"the quarantine of {table.name} holds no record that can be applied as it is"
        raise InputError(msg, "write the records to a file, repair them, and apply that")
    report = update(table, batch, context, at=at)
    if not context.dry_run:
        retried = {(file.path, record) for file in batch.files for record in file.records}
        _clear(table, context, lambda path, record: (path, record) in retried)
    return report


def clear(table: Table, context: Context, *, reason: str | None = None) -> Cleared:
    """Remove refused records from the quarantine and from the disk: all, or those whose reason holds a text."""
    if context.dry_run:
        count = sum(_has(record, reason) for file in _known(table.snapshot()) for record in file.records)
    else:
        count = _clear(table, context, lambda _, record: _has(record, reason))
    return Cleared(name=table.name, cleared=count)


def _clear(table: Table, context: Context, is_cleared: Callable[[str, Refused], bool]) -> int:
    with table.lock(wait=context.wait):
        return sum(
            clear_refused(
                table,
                [file],
                lambda record, path=file.path: is_cleared(path, record),  # type: ignore[misc]
                now_ms=context.now_ms(),
            )
            for file in _known(table.snapshot())
        )


def _known(snapshot: Snapshot) -> list[RefusedFile]:
    """Return what is in quarantine, without what an unfinished update left."""
    clock = snapshot.ledger.clock
    return [file for file in read_refused(snapshot.table) if clock is not None and file.slot <= clock]


def _has(record: Refused, reason: str | None) -> bool:
    return reason is None or reason in record.reason


def _is_retried(record: Refused, snapshot: Snapshot, reason: str | None) -> bool:
    try:
        fields = json.loads(record.record)
    except ValueError:
        return False
    known = {column.name for column in snapshot.spec.columns}
    return isinstance(fields, dict) and known.issuperset(fields) and _has(record, reason)
