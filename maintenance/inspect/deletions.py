"""What an evidence report tells, and what it is made of beside the lines of the journal.  Values, no rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ebb.index.timeline import TimeKind, Timeline

__all__ = [
    "EARLIEST",
    "LATEST",
    "ExpiredTick",
    "Findings",
    "Given",
    "Missing",
    "OtherCommit",
    "RemovedFiles",
    "Request",
    "given_of",
]

EARLIEST, LATEST = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a report is made of beside the lines of the journal.  Times and durations as the time columns have them."""

    name: str
    table_id: str
    kind: str  # of the time columns: timestamp, date or integer
    origin: int
    tick: int
    span: int
    strategy: str
    bound: int  # the deletion bound when the lines begin
    bound_now: int
    reader_time: int
    quarantine_time: int
    clock: int | None
    version: int
    made_ms: int  # when the report was made, in milliseconds since 1970
    first_slot: int | None  # of the period; null for all that there is
    last_slot: int | None
    is_cut: bool  # older lines of the journal were dropped after their retention
    expired_files: int  # live files with expired records at the time
    expired_since: int | None  # since when the oldest of these records has been due to go
    expired_slots: tuple[tuple[int, int], ...]  # least and greatest expiration slot in each
    held_slots: tuple[tuple[int, int], ...] = ()  # the same of files with expired records that are held

    @property
    def line(self) -> Timeline:
        """Return the table's timeline."""
        return Timeline(kind=TimeKind(self.kind), origin=self.origin, tick=self.tick, span=self.span)

    def covers(self, slot: int | None) -> bool:
        """Whether a slot belongs to the period."""
        first, last = self.period
        return first == EARLIEST if slot is None else first <= slot <= last

    @property
    def period(self) -> tuple[int, int]:
        """Return the first and the last slot of the period."""
        first = EARLIEST if self.first_slot is None else self.first_slot
        return first, LATEST if self.last_slot is None else self.last_slot


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredTick:
    """A commit that moved the clock: what expired with it, and what became of the bytes."""

    version: int
    committed: str
    slot: int
    time: str
    ticks: int
    admitted: int
    expired_on_arrival: int  # never stored
    quarantined: int
    expired: int  # records of the window
    removed_by: tuple[int, ...]  # commits that removed files in which they may have been
    erased_by: int | None  # the first commit before which all of these files were gone
    erased: str | None  # when that was; null: not yet
    held: bool  # whether a hold keeps some of them on disk; the bound leaves these out
    delay: str | None  # at most this long after the expiry; until now if they are not erased; null: nothing expired
    delay_seconds: float | None
    kept: bool | None  # the deletion bound; null: the journal cannot tell


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedFiles:
    """A commit that removed files, and when they were gone from the disk."""

    version: int
    op: str
    committed: str
    files: int
    bytes: int
    due: str | None  # since when the oldest expired record in them was due to go; null: nobody knows
    held_expired: bool  # whether any had expired when they were removed; otherwise some may have by ``due``
    erased_by: int | None
    erased: str | None
    delay: str | None
    delay_seconds: float | None
    kept: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A commit that changed what was promised about records, because somebody asked for it."""

    version: int
    op: str  # amend, forget, hold or release
    committed: str
    by: str | None  # who asked
    case: str | None
    records: int | None  # live ones
    copies: int  # a forget: records that had expired or were refused, and landed files, which went too
    asked: str | None  # a salted hash of what was asked; never keys or conditions
    to: str | None  # an amendment: when the records expire now
    erase_by: str | None  # a forget: when the bytes must be gone, if there were any in the table's files
    erased_by: int | None
    erased: str | None
    kept: bool | None  # a forget: whether they were gone by then; null for others, and if it is not decided yet


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherCommit:
    """A commit of another tool."""

    version: int
    operation: str
    committed: str
    files_added: int
    files_removed: int
    adopted_by: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """What the journal cannot tell."""

    what: str  # gap: the log had lost the entries; replaced: the log was taken back; dropped: their retention was over
    first: int | None  # version
    last: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What follows from the lines of a period."""

    ticks: tuple[ExpiredTick, ...]
    removals: tuple[RemovedFiles, ...]
    requests: tuple[Request, ...]
    foreign: tuple[OtherCommit, ...]
    missing: tuple[Missing, ...]
    expired: int  # records, in all ticks
    erased_files: int
    erased_bytes: int
    waiting_files: int  # removed, and not erased yet
    longest: str | None  # delay of all, those that still wait and those in live files among them
    longest_seconds: float | None
    longest_removed_by: int | None  # null: it is still in a live file
    bound: str
    bound_seconds: float | None
    kept: bool  # the deletion bound, and every time of a forget, as far as the journal can tell
    complete: bool  # the journal can tell about everything in the period


def given_of(value: Mapping[str, Any]) -> Given:
    """Read back what a report was made of."""
    slots = {name: tuple((low, high) for low, high in value[name]) for name in ("expired_slots", "held_slots")}
    return Given(**{**value, **slots})
