"""The ledger: what a table remembers of its batches, carried from commit to commit.

The clock, how many live records expire in each slot, fingerprints of the batches that were applied, and up to which
commit removed files were erased. It answers, without reading any data: how many records does this update expire, has
this batch been applied, may the clock go there. A commit carries only what it changes; the whole is written down from
time to time, as a state that later commits name. Pure.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ebb.index.cellfile import HoldName, RangesObject
from ebb.index.errors import AppliedSlotError, JumpError, NotDueError, OverDeletionError, UsageError
from ebb.index.fingerprints import Fingerprints, Segment, fingerprint
from ebb.index.histogram import Histogram, sum_between
from ebb.index.stored import items, members, number, number_or_none, text, unpacked
from ebb.index.timeline import Timeline

__all__ = ["MAX_TICKS", "Change", "Ledger", "State", "check_span", "next_slot", "remembered_ticks"]

MAX_TICKS = 4_000_000  # of a span: a state has about 6 MB then, and is written every 50 commits
_LEAST_TICKS = 64  # a repeat is recognised for this many ticks at least
_MAGIC = b"EBBLEDG1"
_PLAIN_ARRIVALS = 64  # more expiration slots than this are stored compressed
_MOST_BYTES = 16 * MAX_TICKS  # of arrivals when they are unpacked: as many slots as a span can have, and their counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What one commit does to the ledger."""

    clock: int | None
    arrivals: Mapping[int, int] = field(default_factory=dict)  # expiration slot -> records admitted
    digest: str | None = None  # of the batch, if there was one
    files: tuple[int, ...] = ()  # fingerprints of its files
    erased_version: int | None = None  # removed files were erased up to what this commit removed
    ranges_added: tuple[RangesObject, ...] = ()  # objects with key ranges of files
    ranges_dropped: tuple[str, ...] = ()  # the names of those that no longer count
    holds_added: tuple[HoldName, ...] = ()
    holds_dropped: tuple[str, ...] = ()  # the names of those that were released

    def stored(self) -> dict[str, Any]:
        """Return it as a commit carries it."""
        value: dict[str, Any] = {"clock": self.clock}
        if self.arrivals:
            flat = [number for pair in sorted(self.arrivals.items()) for number in pair]
            value["arrivals"] = flat if len(self.arrivals) <= _PLAIN_ARRIVALS else _packed(flat)
        if self.digest is not None:
            value["digest"] = self.digest
        if self.files:
            value["files"] = base64.b85encode(struct.pack(f"<{len(self.files)}Q", *self.files)).decode()
        if self.erased_version is not None:
            value["erased_version"] = self.erased_version
        if self.ranges_added:
            value["ranges_added"] = [list(added) for added in self.ranges_added]
        if self.ranges_dropped:
            value["ranges_dropped"] = list(self.ranges_dropped)
        if self.holds_added:
            value["holds_added"] = [list(added) for added in self.holds_added]
        if self.holds_dropped:
            value["holds_dropped"] = list(self.holds_dropped)
        return value

    @staticmethod
    def restored(value: Mapping[str, Any]) -> Change:
        """Read what :meth:`stored` returned; ValueError if it is something else, KeyError if something is left out.

        >>> change = Change(clock=4, arrivals={7: 2}, digest="ab", files=(5, 2**63))
        >>> Change.restored(change.stored()) == change
        True
        """
        value = members(value)
        flat, digest = value.get("arrivals", []), value.get("digest")
        numbers = list(map(number, _unpacked(flat) if isinstance(flat, str) else items(flat)))
        packed = base64.b85decode(text(value.get("files", "")))
        if len(packed) % 8:
            msg = f"fingerprints of files have {len(packed)} bytes, and each takes 8"
            raise ValueError(msg)
        return Change(
            clock=number_or_none(value["clock"]),
            arrivals=dict(zip(numbers[::2], numbers[1::2], strict=True)),
            digest=None if digest is None else text(digest),
            files=struct.unpack(f"<{len(packed) // 8}Q", packed),
            erased_version=number_or_none(value.get("erased_version")),
            ranges_added=tuple(map(_ranges_object, items(value.get("ranges_added", [])))),
            ranges_dropped=tuple(map(text, items(value.get("ranges_dropped", [])))),
            holds_added=tuple(map(_hold_name, items(value.get("holds_added", [])))),
            holds_dropped=tuple(map(text, items(value.get("holds_dropped", [])))),
        )


@dataclass(frozen=True, slots=True)
class State:
    """Where the whole ledger was written down last: the version it stands for and the name of the file."""

    version: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The state of a table between two commits."""

    clock: int | None = None
    live_records: int = 0  # how many records the window holds
    base: Histogram = field(default_factory=Histogram)  # of expirations, when the state was written
    arrivals: tuple[Mapping[int, int], ...] = ()  # and what came since
    fingerprints: Fingerprints = field(default_factory=Fingerprints)
    erased_version: int = -1  # files that commits up to this one removed are gone from the disk
    ranges: tuple[RangesObject, ...] = ()  # objects with key ranges of live files
    holds: tuple[HoldName, ...] = ()  # the oldest first

    @property
    def live(self) -> dict[int, int]:
        """Return how many records of the window expire in each slot.  O(slots)."""
        after = -(2**63) if self.clock is None else self.clock
        return dict(self.base.merged(after, self.arrivals).items())

    def expired_by(self, slot: int) -> int:
        """Return how many records of the window expire when the clock moves to ``slot``.  O(ticks × commits)."""
        if self.clock is None:
            return 0
        later = sum(sum_between(some, self.clock, slot) for some in self.arrivals)
        return self.base.between(self.clock, slot) + later

    def slot_applied(self, digest: str, ticks: int) -> int | None:
        """Return the slot under which a batch or file with this digest was applied within the last ``ticks``."""
        return self.fingerprints.slot_of(fingerprint(digest), since=self.remembered_since(ticks))

    def remembered_since(self, ticks: int) -> int:
        """Return the first slot whose batch is remembered for sure, if batches are for so many ticks."""
        return -(2**63) if self.clock is None else self.clock - ticks + 1

    def advanced(self, change: Change) -> Ledger:
        """Return the ledger after a commit.

        >>> ledger = Ledger(clock=1, live_records=6, base=Histogram.of({2: 5, 3: 1}))
        >>> ledger.advanced(Change(clock=2, arrivals={3: 2})).live
        {3: 3}
        """
        expired = 0 if change.clock is None else self.expired_by(change.clock)
        prints = dict.fromkeys([*([] if change.digest is None else [fingerprint(change.digest)]), *change.files])
        seen = [] if change.clock is None else [(change.clock, number) for number in prints]
        return Ledger(
            clock=change.clock,
            live_records=self.live_records - expired + sum(change.arrivals.values()),
            base=self.base,
            arrivals=(*self.arrivals, change.arrivals) if change.arrivals else self.arrivals,
            fingerprints=self.fingerprints.added(seen),
            erased_version=self.erased_version if change.erased_version is None else change.erased_version,
            ranges=self._changed_ranges(change),
            holds=(*(hold for hold in self.holds if hold.name not in change.holds_dropped), *change.holds_added),
        )

    def _changed_ranges(self, change: Change) -> tuple[RangesObject, ...]:
        if not change.ranges_added and not change.ranges_dropped:
            return self.ranges
        kept = [found for found in self.ranges if found.name not in change.ranges_dropped]
        return (*kept, *change.ranges_added)

    def settled(self, segments: Sequence[Segment]) -> Ledger:
        """Return the same ledger without anything beside the state: these segments hold all fingerprints."""
        after = -(2**63) if self.clock is None else self.clock
        return replace(
            self,
            base=self.base.merged(after, self.arrivals),
            arrivals=(),
            fingerprints=Fingerprints(tuple(segments)),
        )

    def dumps(self) -> bytes:
        """Write a settled ledger as a state."""
        how, counts = self.base.dumps()
        value = {
            "clock": self.clock,
            "live_records": self.live_records,
            "counts": how,
            "segments": [segment.name for segment in self.fingerprints.segments],
            "erased_version": self.erased_version,
            "ranges": [list(found) for found in self.ranges],
            **({"holds": [list(hold) for hold in self.holds]} if self.holds else {}),
        }
        head = json.dumps(value, separators=(",", ":")).encode()
        body = struct.pack("<I", len(head)) + head + counts
        return _MAGIC + struct.pack("<I", zlib.crc32(body)) + body

    @staticmethod
    def loads(data: bytes) -> tuple[Ledger, list[str]]:
        """Read what :meth:`dumps` wrote: the ledger without its segments, and their names; ValueError if it is damaged."""
        if data[:8] != _MAGIC or len(data) < 16 or struct.unpack_from("<I", data, 8)[0] != zlib.crc32(data[12:]):
            msg = "its checksum is wrong"
            raise ValueError(msg)
        end = 16 + struct.unpack_from("<I", data, 12)[0]
        value = members(json.loads(data[16:end]))
        ledger = Ledger(
            clock=number_or_none(value["clock"]),
            live_records=number(value["live_records"]),
            base=Histogram.loads(text(value["counts"]), data[end:]),
            erased_version=number(value["erased_version"]),
            ranges=tuple(map(_ranges_object, items(value["ranges"]))),
            holds=tuple(map(_hold_name, items(value.get("holds", [])))),
        )
        return ledger, list(map(text, items(value["segments"])))

    @staticmethod
    def segment_names(data: bytes) -> list[str]:
        """Return the segments that a state names.  O(1): nothing else of it is read."""
        end = 16 + struct.unpack_from("<I", data, 12)[0]
        names: list[str] = json.loads(data[16:end])["segments"]
        return names

    def check_repeat(self, slot: int, digest: str | None, timeline: Timeline, ticks: int) -> int | None:
        """Return the slot under which this batch was applied before, or None if ``slot`` may be applied now.

        The same content is recognised wherever it comes again; other content for a slot that is over is refused.
        """
        applied = None if digest is None else self.slot_applied(digest, ticks)
        if applied is not None or self.clock is None or slot > self.clock:
            return applied
        is_remembered = slot >= self.remembered_since(ticks)
        had_batch = self.fingerprints.has(slot)
        if digest is None and is_remembered and not had_batch:
            return slot  # an empty tick again
        there = "other records were applied there" if had_batch else "no records were"
        there = there if had_batch or is_remembered else "that batch is no longer remembered"
        raise AppliedSlotError(slot, timeline.show_slot(slot), self.clock, there)

    def check_jump(self, slot: int, *, catch_up: bool, yes: bool) -> None:
        """Refuse more than one tick ahead without ``catch_up``, and a jump that empties the table without ``yes``."""
        if self.clock is None or slot <= self.clock + 1:
            return
        if not catch_up:
            raise JumpError(slot, slot - self.clock, self.clock)
        live = self.live_records
        if live and not yes and self.expired_by(slot) == live:
            raise OverDeletionError(slot, slot - self.clock, live)


def _ranges_object(value: object) -> RangesObject:
    generation, cohort, name, files = items(value)
    return RangesObject(number(generation), number(cohort), text(name), number(files))


def _hold_name(value: object) -> HoldName:
    case, name = items(value)
    return HoldName(text(case), text(name))


def _packed(numbers: Sequence[int]) -> str:
    """Return slots and counts as text: gaps and counts are small, and compress well."""
    gaps = [slot - before for before, slot in zip((0, *numbers[:-2:2]), numbers[::2], strict=True)]
    written = json.dumps([gaps, numbers[1::2]], separators=(",", ":"))
    return base64.b85encode(zlib.compress(written.encode(), 6)).decode()


def _unpacked(packed: str) -> list[int]:
    gaps, counts = map(items, items(json.loads(unpacked(base64.b85decode(packed), _MOST_BYTES))))
    numbers: list[int] = []
    slot = 0
    for gap, count in zip(gaps, counts, strict=True):
        slot += number(gap)
        numbers += (slot, count)
    return numbers


def check_span(timeline: Timeline) -> None:
    """Refuse a span of more ticks than a ledger can count."""
    ticks, show = timeline.ticks_per_span, timeline.kind.show_duration
    if ticks > MAX_TICKS:
        msg = f"span {show(timeline.span)} has {ticks:,} ticks of {show(timeline.tick)}, and a table counts {MAX_TICKS:,} at most"
        raise UsageError(msg, "choose a longer tick or a shorter span")


def remembered_ticks(timeline: Timeline, remember: int | None = None) -> int:
    """Return for how many ticks batches are recognised: a declared time, or a span."""
    remembered = timeline.span if remember is None else remember
    return max(_LEAST_TICKS, -(-remembered // timeline.tick))


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
