"""Cutting time into slots.

Slot j covers ``(origin + (j-1)*tick, origin + j*tick]``: a time on a boundary belongs to the earlier slot,
because the update at that boundary covers it. Times are integers whose unit depends on the kind of the
table's time columns: microseconds since 1970 UTC for timestamps, days since 1970 for dates, the number itself
for integers. Pure: no Spark, no clock, no I/O.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum

from ebb.index.errors import UsageError

__all__ = ["TimeKind", "Timeline", "moment_us"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION = re.compile(r"([0-9]{1,15})(ms|us|[smhdw])")
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_MOMENT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[Tt ]([0-9]{2})(?::([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,9}))?)?)? ?([Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_DAY_SECONDS = 86400
_MICROS = 1_000_000


class TimeKind(StrEnum):
    """What the time columns hold, and with it the unit of all times and durations of a table."""

    TIMESTAMP = "timestamp"
    DATE = "date"
    INTEGER = "integer"

    @property
    def has_wall_clock(self) -> bool:
        """Integers count what the user wants them to count: no wall clock moves them."""
        return self is not TimeKind.INTEGER

    def time(self, text: str) -> int:
        """Read a time: ISO 8601 (UTC unless it says otherwise), or an integer for integer columns.

        >>> TimeKind.TIMESTAMP.time("1970-01-01T01:00:00+01:00")
        0
        >>> TimeKind.DATE.time("1970-02-01"), TimeKind.INTEGER.time("42")
        (31, 42)
        """
        text = text.strip()
        if self is TimeKind.INTEGER:
            if not _INTEGER.fullmatch(text):
                msg = f"time {text!r} is not an integer of at most 18 digits, as the time columns of this table are"
                raise UsageError(msg)
            return int(text)
        try:
            return self.from_micros(moment_us(text))
        except ValueError:
            msg = f"time {text!r} is not ISO 8601; write it like 2013-01-01T05:00:00Z or 2013-01-01"
            raise UsageError(msg) from None

    def from_datetime(self, moment: datetime) -> int:
        """Return the time of an aware ``moment``; for dates the day that holds it."""
        return self.from_micros((moment - _EPOCH) // timedelta(microseconds=1))

    def from_micros(self, micros: int) -> int:
        """Return the time of a moment in microseconds since 1970; for dates the day that holds it."""
        return micros // (_DAY_SECONDS * _MICROS) if self is TimeKind.DATE else micros

    def duration(self, text: str) -> int:
        """Read a duration: ``90s 5m 1h 7d``, or a plain integer for integer columns.

        >>> TimeKind.TIMESTAMP.duration("5m"), TimeKind.DATE.duration("1w"), TimeKind.INTEGER.duration("10")
        (300000000, 7, 10)
        """
        text = text.strip()
        if self is TimeKind.INTEGER:
            if not _INTEGER.fullmatch(text) or int(text) <= 0:
                msg = f"duration {text!r} is not a positive integer, as the time columns of this table are integers"
                raise UsageError(msg)
            return int(text)
        match = _DURATION.fullmatch(text)
        if not match or int(match[1]) == 0:
            msg = f"duration {text!r} is not a positive number with a unit; write it like 90s, 5m, 1h or 7d"
            raise UsageError(msg)
        number, unit = int(match[1]), match[2]
        micros = number * {"us": 1, "ms": 1000}.get(unit, 0) or number * _SECONDS[unit] * _MICROS
        if self is TimeKind.DATE:
            days, rest = divmod(micros, _DAY_SECONDS * _MICROS)
            if rest:
                msg = f"duration {text!r} is not a whole number of days, as the time columns of this table are dates"
                raise UsageError(msg)
            return days
        return micros

    def seconds(self, duration: int) -> float:
        """Return a duration in seconds of wall time.  Integers have none: they count as ticks elsewhere."""
        return float(duration) * _DAY_SECONDS if self is TimeKind.DATE else duration / _MICROS

    def show_time(self, time: int) -> str:
        """Write a time the way :meth:`time` reads it.

        >>> TimeKind.TIMESTAMP.show_time(0), TimeKind.DATE.show_time(31), TimeKind.INTEGER.show_time(42)
        ('1970-01-01T00:00:00Z', '1970-02-01', '42')
        """
        if self is TimeKind.INTEGER:
            return str(time)
        try:
            if self is TimeKind.DATE:
                return (date(1970, 1, 1) + timedelta(days=time)).isoformat()
            return (_EPOCH + timedelta(microseconds=time)).isoformat().replace("+00:00", "Z")
        except OverflowError:
            return f"{time} {'days' if self is TimeKind.DATE else 'us'} since 1970"

    def show_duration(self, duration: int) -> str:
        """Write a duration the way :meth:`duration` reads it, in the largest unit that divides it.

        >>> TimeKind.TIMESTAMP.show_duration(5400_000_000), TimeKind.DATE.show_duration(2)
        ('90m', '2d')
        """
        if self is TimeKind.INTEGER:
            return str(duration)
        if self is TimeKind.DATE:
            return f"{duration}d"
        for unit in "dhms":
            if duration % (_SECONDS[unit] * _MICROS) == 0:
                return f"{duration // (_SECONDS[unit] * _MICROS)}{unit}"
        return f"{duration // 1000}ms" if duration % 1000 == 0 else f"{duration}us"


def moment_us(text: str) -> int:
    """Read a moment in ISO 8601, UTC unless it says otherwise, as microseconds since 1970; ValueError if it is none.

    A nanosecond past a slot's end belongs to the next slot, so what is finer than a microsecond is rounded up.

    >>> moment_us("1970-01-01 00:00:01+00"), moment_us("1970-01-01T01:00:00.0000001+01:00")
    (1000000, 1)
    """
    match = _MOMENT.fullmatch(text)
    if not match:
        raise ValueError(text)
    day, hour, minute, second, fraction, zone = match.groups()
    moment = datetime.fromisoformat(f"{day}T{hour or '00'}:{minute or '00'}:{second or '00'}+00:00")
    finer = -(-int((fraction or "0").ljust(9, "0")) // 1000)
    return (moment - _EPOCH) // timedelta(microseconds=1) + finer - _offset_us(zone)


def _offset_us(zone: str | None) -> int:
    if zone is None or zone in "Zz":
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > 23 or minutes > 59:
        raise ValueError(zone)
    return (1 if zone[0] == "+" else -1) * (hours * 60 + minutes) * 60 * _MICROS


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Origin, tick and span of a table, in the unit of its time columns."""

    kind: TimeKind
    origin: int  # slot 1 starts right after it
    tick: int  # the time between two updates
    span: int  # the longest lifetime a record may have

    def __post_init__(self) -> None:
        if self.tick <= 0:
            msg = f"tick {self.tick} is not positive; choose a longer tick"
            raise UsageError(msg)
        if self.span < self.tick:
            show = self.kind.show_duration
            msg = f"span {show(self.span)} is shorter than the tick {show(self.tick)}; choose a longer span"
            raise UsageError(msg)

    @property
    def ticks_per_span(self) -> int:
        """Return p: after p updates everything that is present now has expired."""
        return -(-self.span // self.tick)

    def slot_of(self, time: int) -> int:
        """Return the slot that holds ``time``: the first update that covers it.

        >>> Timeline(kind=TimeKind.INTEGER, origin=0, tick=10, span=30).slot_of(10)
        1
        """
        return -((self.origin - time) // self.tick)

    def clock_at(self, time: int) -> int:
        """Return the last slot that is over at ``time``.

        >>> Timeline(kind=TimeKind.INTEGER, origin=0, tick=10, span=30).clock_at(19)
        1
        """
        return (time - self.origin) // self.tick

    def end_of(self, slot: int) -> int:
        """Return the last time of a slot; its update is due from then on."""
        return self.origin + slot * self.tick

    def show_slot(self, slot: int) -> str:
        """Write the end of a slot as a time."""
        return self.kind.show_time(self.end_of(slot))
