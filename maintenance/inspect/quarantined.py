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
    record: str  # as JSON, or the line as it came if it could not be read


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """The refused records of a table, oldest first, and how many there are for each reason, most first."""

    name: str
    reasons: Mapping[str, int]
    records: tuple[Quarantined, ...]


def quarantined(snapshot: Snapshot, reason: str | None = None) -> Quarantine:
    """Return the refused records: all, or those whose reason holds a text.

    What an unfinished update left, after the clock, is not among them: the next try replaces it.
    """
    clock, show = snapshot.ledger.clock, snapshot.spec.timeline.show_slot
    records = tuple(
        Quarantined(slot=r.slot, time=show(r.slot), reason=r.reason, record=r.record)
        for r in read_refused(snapshot.table)
        if clock is not None and r.slot <= clock and (reason is None or reason in r.reason)
    )
    reasons = dict(Counter(r.reason for r in records).most_common())
    return Quarantine(name=snapshot.table.name, reasons=reasons, records=records)
