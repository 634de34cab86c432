"""Which batches were applied, and when: fingerprints of 64 bits, each with its slot.

Those of the last commits are a short list, older ones lie in segments: sorted, never changed, and merged with newer
ones so that there are few of them. A segment is read where it lies, in memory or in a mapped file: to look one up among
half a million takes microseconds. With that many remembered, the chance that a new batch is taken for an old one
is below 1 in 10¹³. Pure.
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["Fingerprints", "Seen", "Segment", "fingerprint", "merges", "survivors"]

_MAGIC = b"EBBSEEN1"
_HEAD = struct.Struct("<8sQ")
_GROWTH = 4  # a segment is at least this many times as large as the next one

Seen = tuple[int, int]  # a slot, and the fingerprint of what was applied there


def fingerprint(digest: str) -> int:
    """Return the fingerprint of a batch's digest."""
    return int.from_bytes(hashlib.blake2b(digest.encode(), digest_size=8).digest(), "little")


@dataclass(frozen=True, slots=True)
class Segment:
    """Fingerprints in order, and the slot of each."""

    name: str
    prints: Sequence[int]
    slots: Sequence[int]

    def __len__(self) -> int:
        return len(self.prints)

    @staticmethod
    def dumps(seen: Iterable[Seen]) -> bytes:
        """Write a segment."""
        pairs = sorted((number, slot) for slot, number in seen)
        count = len(pairs)
        body = struct.pack(f"<{count}Q", *(number for number, _ in pairs))
        return _HEAD.pack(_MAGIC, count) + body + struct.pack(f"<{count}q", *(slot for _, slot in pairs))

    @staticmethod
    def loads(name: str, data: bytes | memoryview) -> Segment:
        """Read what :meth:`dumps` wrote, without copying it; ValueError if it is something else.

        >>> Segment.loads("s", Segment.dumps([(7, 99), (8, 5)])).slot_of(99)
        7
        """
        view = memoryview(data)
        if len(view) < _HEAD.size or view[:8] != _MAGIC:
            msg = f"{name} is not a segment of fingerprints"
            raise ValueError(msg)
        count = _HEAD.unpack_from(view)[1]
        middle = _HEAD.size + 8 * count
        if len(view) != middle + 8 * count:
            msg = f"{name} has {len(view)} bytes, and {count} fingerprints take {middle + 8 * count}"
            raise ValueError(msg)
        return Segment(name, view[_HEAD.size : middle].cast("Q"), view[middle:].cast("q"))

    def slot_of(self, number: int) -> int | None:
        """Return the last slot that has a fingerprint.  O(log n)."""
        place = bisect.bisect_right(self.prints, number) - 1
        return self.slots[place] if place >= 0 and self.prints[place] == number else None

    def seen(self) -> Iterable[Seen]:
        """Return everything in it."""
        return zip(self.slots, self.prints, strict=True)


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """What a table remembers of its batches: the newest last."""

    segments: tuple[Segment, ...] = ()  # the largest first
    recent: tuple[Seen, ...] = ()

    def slot_of(self, number: int, *, since: int) -> int | None:
        """Return the last slot, not before ``since``, that has a fingerprint."""
        slots = [slot for slot, seen in self.recent if seen == number]
        slots += [slot for segment in self.segments if (slot := segment.slot_of(number)) is not None]
        newest = max(slots, default=None)
        return newest if newest is not None and newest >= since else None

    def has(self, slot: int) -> bool:
        """Whether anything was applied at a slot.  O(n): for a message, not for every update."""
        return any(at == slot for at, _ in self.recent) or any(slot in segment.slots for segment in self.segments)

    def added(self, seen: Iterable[Seen]) -> Fingerprints:
        """Return it with what was applied since."""
        return Fingerprints(self.segments, (*self.recent, *seen))


def merges(sizes: Sequence[int], arriving: int) -> int:
    """Return how many of the last segments the next one takes in, so that each stays much larger than the one after it.

    >>> merges([400, 50, 12], 10), merges([400, 50], 10), merges([], 5)
    (2, 0, 0)
    """
    total, taken = arriving, 0
    for size in reversed(sizes):
        if size >= _GROWTH * total:
            break
        total, taken = total + size, taken + 1
    return taken


def survivors(segments: Iterable[Segment], recent: Iterable[Seen], since: int) -> list[Seen]:
    """Return everything that is remembered of segments and of the last commits."""
    everything = itertools.chain(recent, *(segment.seen() for segment in segments))
    return [(slot, number) for slot, number in everything if slot >= since]
