"""How many live records expire in each slot: as cheap for a year of minutes as for a day of hours.

Counts of slots that lie close together are an array, others a map. A histogram never changes: what comes later is kept
beside it and merged into a new one from time to time. Pure.
"""

from __future__ import annotations

import sys
import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ebb.index.stored import number, unpacked

__all__ = ["Histogram", "sum_between"]

_CODES = ("B", "H", "I", "Q")  # arrays of unsigned integers, from narrow to wide
_SPREAD = 8  # an array has at most this many places for each slot that is not empty
_LEVEL = 1  # of compression: the fastest
_MOST_BYTES = 128 * 1024 * 1024  # of counts when they are unpacked; those of the longest span have half of that


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts per slot, either close together from ``start`` on, or scattered."""

    start: int = 0
    close: array[int] = field(default_factory=lambda: array("B"))
    scattered: Mapping[int, int] = field(default_factory=dict)

    @staticmethod
    def of(counts: Mapping[int, int]) -> Histogram:
        """Return the histogram of some counts; zeros do not count.

        >>> Histogram.of({7: 2, 9: 1}).between(6, 8)
        2
        """
        slots = [slot for slot, count in counts.items() if count]
        if not slots:
            return Histogram()
        start, stop = min(slots), max(slots) + 1
        if stop - start > _SPREAD * len(slots):
            return Histogram(scattered={slot: counts[slot] for slot in slots})
        close = array("Q", bytes(8 * (stop - start)))
        for slot in slots:
            close[slot - start] = counts[slot]
        return Histogram(start=start, close=close)

    def items(self) -> Iterator[tuple[int, int]]:
        """Yield the slots that are not empty, and their counts."""
        yield from ((self.start + place, count) for place, count in enumerate(self.close) if count)
        yield from self.scattered.items()

    def between(self, after: int, through: int) -> int:
        """Return how many records expire in ``(after, through]``.  O(slots in it), or less."""
        low, high = max(0, after + 1 - self.start), max(0, through + 1 - self.start)
        return sum(self.close[low:high]) + sum_between(self.scattered, after, through)

    def merged(self, after: int, arrivals: Sequence[Mapping[int, int]]) -> Histogram:
        """Return the counts of the slots after one, with what has come since."""
        if not self.close:
            counts = {slot: count for slot, count in self.scattered.items() if slot > after}
            return Histogram.of(_added(counts, after, arrivals))
        kept = array("Q", self.close[max(0, after + 1 - self.start) :])
        start = max(self.start, after + 1)
        added = _added({}, after, arrivals)
        if not added or (min(added) >= start and max(added) - start <= _SPREAD * (len(kept) + len(added))):
            stop = max(added, default=start - 1) + 1
            kept.extend(array("Q", bytes(8 * max(0, stop - start - len(kept)))))
            for slot, count in added.items():
                kept[slot - start] += count
            return Histogram(start=start, close=kept)
        for place, count in enumerate(kept):
            if count:
                added[start + place] = added.get(start + place, 0) + count
        return Histogram.of(added)

    def dumps(self) -> tuple[str, bytes]:
        """Return how it is written, and the bytes."""
        if self.scattered:
            pairs = sorted(self.scattered.items())
            slots, counts = array("q", [slot for slot, _ in pairs]), array("Q", [count for _, count in pairs])
            return "scattered", zlib.compress(_little(slots) + _little(counts), _LEVEL)
        widest = max(self.close, default=0)
        code = next(code for code in _CODES if widest < 1 << (8 * array(code).itemsize))
        return f"close:{code}:{self.start}", zlib.compress(_little(array(code, self.close)), _LEVEL)

    @staticmethod
    def loads(how: str, data: bytes) -> Histogram:
        """Read what :meth:`dumps` wrote; ValueError if it is something else.

        >>> Histogram.loads(*Histogram.of({7: 300, 9: 1}).dumps()) == Histogram.of({7: 300, 9: 1})
        True
        """
        raw = unpacked(data, _MOST_BYTES)
        if how == "scattered":
            half = len(raw) // 2
            return Histogram(scattered=dict(zip(_read("q", raw[:half]), _read("Q", raw[half:]), strict=True)))
        _, code, start = how.split(":")
        if code not in _CODES:
            msg = f"counts are not written as {code!r}"
            raise ValueError(msg)
        return Histogram(start=number(int(start)), close=_read(code, raw))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Histogram) and dict(self.items()) == dict(other.items())

    def __hash__(self) -> int:
        return hash(frozenset(self.items()))


def sum_between(counts: Mapping[int, int], after: int, through: int) -> int:
    """Return the sum of the counts in ``(after, through]``."""
    if through - after < len(counts):
        return sum(counts.get(slot, 0) for slot in range(after + 1, through + 1))
    return sum(count for slot, count in counts.items() if after < slot <= through)


def _added(counts: dict[int, int], after: int, arrivals: Sequence[Mapping[int, int]]) -> dict[int, int]:
    for some in arrivals:
        for slot, count in some.items():
            if slot > after:
                counts[slot] = counts.get(slot, 0) + count
    return counts


def _little(numbers: array[int]) -> bytes:
    if sys.byteorder == "big":
        numbers = array(numbers.typecode, numbers)
        numbers.byteswap()
    return numbers.tobytes()


def _read(code: str, data: bytes) -> array[int]:
    numbers = array(code)
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
