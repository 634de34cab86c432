"""The ledger: what a table remembers of its batches, carried from commit to commit.

The clock, how many live records expire in each slot, and the digests of the last batches. It answers, without
reading any data: how many records does this update expire, has this batch been applied, may the clock go there.
Pure; it is stored as text inside each commit.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from ebb.index.errors import AppliedSlotError, JumpError, NotDueError, OverDeletionError, UsageError
from ebb.index.timeline import Timeline

__all__ = ["KEPT_BATCHES", "Ledger", "next_slot"]

KEPT_BATCHES = 64  # how many batches back a repeat is recognised
_PLAIN_COUNTS = 256  # longer histograms are stored compressed


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The state of a table between two commits."""

    clock: int | None = None
    live: Mapping[int, int] = field(default_factory=dict)  # expiration slot -> live records
    batches: tuple[tuple[int, str], ...] = ()  # (slot, digest) of the last batches, newest last

    @property
    def live_records(self) -> int:
        """Return how many records the window holds."""
        return sum(self.live.values())

    def expired_by(self, slot: int) -> int:
        """Return how many records of the window expire when the clock moves to ``slot``."""
        return sum(count for expires, count in self.live.items() if expires <= slot)

    def slot_applied(self, digest: str) -> int | None:
        """Return the slot under which a batch with this digest was applied, if it is remembered."""
        return next((slot for slot, known in reversed(self.batches) if known == digest), None)

    def advanced(self, slot: int, arrivals: Mapping[int, int], digest: str | None) -> Ledger:
        """Return the ledger after an update to ``slot`` that admits ``arrivals``.

        >>> Ledger(clock=1, live={2: 5, 3: 1}).advanced(2, {3: 2}, None).live
        {3: 3}
        """
        live = {expires: count for expires, count in self.live.items() if expires > slot}
        for expires, count in arrivals.items():
            live[expires] = live.get(expires, 0) + count
        batches = self.batches if digest is None else (*self.batches, (slot, digest))[-KEPT_BATCHES:]
        return Ledger(clock=slot, live=live, batches=batches)

    def dumps(self) -> str:
        """Write the ledger as compact JSON."""
        start = min(self.live, default=0)
        counts = [self.live.get(slot, 0) for slot in range(start, max(self.live, default=-1) + 1)]
        histogram: object = counts
        if len(counts) > _PLAIN_COUNTS:
            histogram = base64.b64encode(zlib.compress(json.dumps(counts).encode(), 6)).decode()
        value = {"clock": self.clock, "from": start, "live": histogram, "batches": self.batches}
        return json.dumps(value, separators=(",", ":"))

    @staticmethod
    def loads(text: str) -> Ledger:
        """Read what :meth:`dumps` wrote.

        >>> Ledger.loads(Ledger(clock=4, live={5: 1, 7: 2}, batches=((4, "ab"),)).dumps()).live
        {5: 1, 7: 2}
        """
        value = json.loads(text)
        counts = value["live"]
        if isinstance(counts, str):
            counts = json.loads(zlib.decompress(base64.b64decode(counts)))
        return Ledger(
            clock=value["clock"],
            live={value["from"] + offset: count for offset, count in enumerate(counts) if count},
            batches=tuple((slot, digest) for slot, digest in value["batches"]),
        )

    def check_repeat(self, slot: int, digest: str | None, timeline: Timeline) -> int | None:
        """Return the slot under which this batch was applied before, or None if ``slot`` may be applied now.

        The same content is recognised wherever it comes again; other content for a slot that is over is refused.
        """
        applied = None if digest is None else self.slot_applied(digest)
        if applied is not None or self.clock is None or slot > self.clock:
            return applied
        is_remembered = len(self.batches) < KEPT_BATCHES or slot > self.batches[0][0]
        if digest is None and is_remembered and not any(known == slot for known, _ in self.batches):
            return slot  # an empty tick again
        there = next((known for at, known in reversed(self.batches) if at == slot), None)
        known = (
            f"there it was {there}, here it is {digest or 'empty'}" if there else _no_batch(is_remembered=is_remembered)
        )
        raise AppliedSlotError(slot, timeline.show_slot(slot), self.clock, known)

    def check_jump(self, slot: int, *, catch_up: bool, yes: bool) -> None:
        """Refuse more than one tick ahead without ``catch_up``, and a jump that empties the table without ``yes``."""
        if self.clock is None or slot <= self.clock + 1:
            return
        if not catch_up:
            raise JumpError(slot, slot - self.clock, self.clock)
        live = self.live_records
        if live and not yes and self.expired_by(slot) == live:
            raise OverDeletionError(slot, slot - self.clock, live)


def _no_batch(*, is_remembered: bool) -> str:
    return "that was an empty tick" if is_remembered else "that batch is no longer remembered"


def next_slot(ledger: Ledger, timeline: Timeline, *, at: int | None, now: int | None, catch_up: bool) -> int:
    """Return the slot that an update is for: the last one over at ``at``, or the next one after the clock.

    ``now`` is None for integer columns, which no wall clock moves.
    """
    if at is not None:
        return timeline.clock_at(at)
    due = None if now is None else timeline.clock_at(now)
    if ledger.clock is None:
        if due is None:
            msg = "the table has no clock yet, and integers have no now"
            raise UsageError(msg, "load it first, or say which time the update is for", hint="no_clock")
        return due
    slot = ledger.clock + 1
    if due is None:
        return slot
    if due < slot and now is not None:
        raise NotDueError(slot, timeline.show_slot(slot), timeline.kind.show_time(now))
    return due if catch_up else slot
