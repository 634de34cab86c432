"""Keys as byte strings that sort as the keys do, and what a probe asks for.

The parts of a key are encoded one after the other so that comparing bytes compares keys, part by part: texts
bytewise, numbers by value, -0.0 as 0.0, every NaN as one and last. Everything that a probe can ask for, a key, its
leading parts, a range or the start of a text, is then one interval of byte strings. Pure.
"""

from __future__ import annotations

import bisect
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any

__all__ = ["Interval", "Key", "Part", "Wanted", "code", "successor", "wanted_keys", "wanted_prefix", "wanted_range"]

Part = bool | int | float | str | bytes | Decimal | date | datetime


_SIGN = 1 << 63


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


_EPOCH_DAY = _EPOCH.toordinal()


_MICROSECOND = timedelta(microseconds=1)


_DECIMAL_BYTES = 16  # 38 digits


_DECIMAL_SIGN = 1 << (8 * _DECIMAL_BYTES - 1)


@dataclass(frozen=True, slots=True)
class Interval:
    """The codes from ``start`` up to but not including ``stop``; None is open."""

    start: bytes
    stop: bytes | None

    @staticmethod
    def of_key(parts: Sequence[Part]) -> Interval:
        """Return the interval of all keys with these leading parts.

        >>> code((7, "a")) >= Interval.of_key((7,)).start
        True
        """
        start = code(parts)
        return Interval(start, successor(start))

    @staticmethod
    def of_range(low: Sequence[Part] | None, high: Sequence[Part] | None) -> Interval:
        """Return the interval from ``low`` to ``high``, both included with everything they lead; None is open."""
        return Interval(b"" if low is None else code(low), None if high is None else successor(code(high)))

    @staticmethod
    def of_prefix(parts: Sequence[Part]) -> Interval:
        """Return the interval of the keys with these leading parts of which the last is the start of a text.

        >>> Interval.of_prefix(("N1",)) == Interval(b"N1", b"N2")
        True
        """
        start = code(parts[:-1]) + _escaped(parts[-1])
        return Interval(start, successor(start))

    def holds(self, encoded: bytes) -> bool:
        """Whether a code lies in it."""
        return self.start <= encoded and (self.stop is None or encoded < self.stop)


def code(parts: Sequence[Part]) -> bytes:
    """Return the bytes of a key.

    >>> code((2,)) < code((10,)) and code(("a", 9)) < code(("ab", 1)) and code((-0.0,)) == code((0.0,))
    True
    """
    return b"".join([_code(part) for part in parts])


def successor(start: bytes) -> bytes | None:
    r"""Return the least byte string that is greater than every one that begins with ``start``.

    >>> successor(b"a"), successor(b"a\xff"), successor(b"\xff")
    (b'b', b'b', None)
    """
    head = start.rstrip(b"\xff")
    return head[:-1] + bytes([head[-1] + 1]) if head else None


def _code(part: Part) -> bytes:
    match part:
        case bool():
            return b"\x01" if part else b"\x00"
        case int():
            return (part + _SIGN).to_bytes(8, "big")
        case str() | bytes():
            # 00 01 ends a text, and no text goes on with a byte below: a shorter text comes before a longer one.
            return _escaped(part) + b"\x00\x01"
        case float():
            bits: int = struct.unpack(">Q", struct.pack(">d", math.nan if math.isnan(part) else part + 0.0))[0]
            ordered: int = bits ^ (2**64 - 1) if bits & _SIGN else bits | _SIGN
            return ordered.to_bytes(8, "big")
        case Decimal():
            sign, digits, _ = part.as_tuple()  # all values of a column have the same exponent
            number = int("".join(map(str, digits)))
            return (_DECIMAL_SIGN + (-number if sign else number)).to_bytes(_DECIMAL_BYTES, "big")
        case datetime():
            return _code((part - _EPOCH) // _MICROSECOND)
        case date():
            return _code(part.toordinal() - _EPOCH_DAY)


def _escaped(part: Part) -> bytes:
    text = part.encode() if isinstance(part, str) else part
    assert isinstance(text, bytes)  # noqa: S101 - only texts have beginnings
    return text.replace(b"\x00", b"\x00\xff")


Key = tuple[Any, ...]  # the values of all key columns, or of the leading ones


@dataclass(frozen=True)
class Wanted:
    """What a probe asks for: sorted intervals of codes that do not overlap."""

    intervals: tuple[Interval, ...]
    keys: tuple[Key, ...] = ()  # one per interval, if keys or leading parts are asked for

    @cached_property
    def starts(self) -> list[bytes]:
        """Return where the intervals start."""
        return [interval.start for interval in self.intervals]

    def between(self, start: bytes, stop: bytes | None) -> Wanted:
        """Return what of it can be met from a code up to another."""
        first = max(0, bisect.bisect_right(self.starts, start) - 1)
        last = len(self.starts) if stop is None else bisect.bisect_left(self.starts, stop)
        return Wanted(self.intervals[first:last], self.keys[first:last])


def wanted_keys(keys: Sequence[Key]) -> Wanted:
    """Ask for keys, or for all keys with leading parts; what is asked for twice is answered once."""
    pairs: list[tuple[Interval, Key]] = []
    for start, key in sorted({code(key): key for key in keys}.items()):
        if not pairs or not pairs[-1][0].holds(start):  # otherwise led by the one before
            pairs.append((Interval(start, successor(start)), key))
    return Wanted(tuple(interval for interval, _ in pairs), tuple(key for _, key in pairs))


def wanted_range(low: Key | None, high: Key | None) -> Wanted:
    """Ask for the keys from ``low`` to ``high``, both included; None is open."""
    interval = Interval.of_range(low, high)
    is_empty = interval.stop is not None and interval.stop <= interval.start
    return Wanted(() if is_empty else (interval,))


def wanted_prefix(start: Key) -> Wanted:
    """Ask for the keys that start with these values, the last of them being the start of a text."""
    return Wanted((Interval.of_prefix(start),))
