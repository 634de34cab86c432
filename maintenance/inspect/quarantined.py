"""The refused records of a table, with their reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ebb.warehouse.intake.quarantine import read_refused
from ebb.warehouse.table.snapshot import Snapshot

__all__ = ["Quarantine", "Quarantined", "quarantined"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """One refused record."""

    slot: int  # of the update that refused it
    time: str
    reason: str
    file: str | None  # the name of the file it came in
    line: int | None  # where it stands there; the number of the record in Parquet
    column: str | None  # that does not fit, if it is one
    record: str  # as JSON, or the line as it came if it could not be read
    is_readable: bool  # whether it can be applied again once its values are right; otherwise it has to be written anew


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """The refused records of a table, oldest first, and how many there are for each reason, most first."""

    name: str
    quarantined: int  # how many there are, whatever their reason
    reasons: Mapping[str, int]
    records: tuple[Quarantined, ...]


def quarantined(snapshot: Snapshot, reason: str | None = None) -> Quarantine:
    """Return the refused records: all, or those whose reason holds a text.

    What an unfinished update left, after the clock, is not among them: the next try replaces it.
    """
    from ebb.warehouse.intake.arrow_source import fields_of

    spec, clock = snapshot.spec, snapshot.ledger.clock
    everything = [
        Quarantined(
            slot=r.slot,
            time=spec.timeline.show_slot(r.slot),
            reason=r.reason,
            file=r.file,
            line=r.line,
            column=r.column,
            record=r.record,
            is_readable=fields_of(r.record, spec) is not None,
        )
        for file in read_refused(snapshot.table)
        if clock is not None and file.slot <= clock
        for r in file.records
    ]
    records = tuple(r for r in everything if reason is None or reason in r.reason)
    reasons = dict(Counter(r.reason for r in records).most_common())
    return Quarantine(name=snapshot.table.name, quarantined=len(everything), reasons=reasons, records=records)
