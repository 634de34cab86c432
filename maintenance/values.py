"""Values as users give and see them: times as text, numbers or dates, waiting times, records as JSON shows them.  Pure."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from ebb.index.errors import UsageError
from ebb.index.timeline import TimeKind
from ebb.index.values import plain

__all__ = [
    "Duration", "Time", "Wait", "age_text", "counted", "is_now", "plain", "read_duration", "read_moment", "read_seconds", "read_time",
]  # fmt: skip

Time = str | int | date | datetime
Wait = float | str | timedelta | None
Duration = str | int | timedelta


def counted(count: int, noun: str) -> str:
    """Return how many there are of something.

    >>> counted(1, "file"), counted(1200, "expired record")
    ('1 file', '1,200 expired records')
    """
    return f"{count:,} {noun}{'s' * (count != 1)}"


def age_text(kind: TimeKind, age: int) -> str:
    """Return an age without fractions of a second, in at most two units.

    >>> age_text(TimeKind.TIMESTAMP, 5_400_000_000), age_text(TimeKind.INTEGER, 20)
    ('1h 30m', '20')
    """
    if kind is not TimeKind.TIMESTAMP:
        return kind.show_duration(age)
    seconds = age // 1_000_000
    for size, unit, smaller, rest in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if seconds >= size:
            return f"{seconds // size}{unit} {seconds % size // smaller}{rest}"
    return f"{seconds}s"


def read_time(kind: TimeKind, value: Time) -> int:
    """Return a time given as text, number, date or datetime; naive ones are UTC.

    >>> read_time(TimeKind.TIMESTAMP, datetime(1970, 1, 1, 0, 0, 1))
    1000000
    """
    if isinstance(value, datetime):
        return kind.from_datetime(value if value.tzinfo else value.replace(tzinfo=UTC))
    if isinstance(value, date):
        return kind.time(value.isoformat())
    if isinstance(value, int) and kind.has_wall_clock:
        msg = f"time {value} is a number, and the time columns of this table are {kind.value}s; pass ISO 8601"
        raise UsageError(msg)
    return kind.time(str(value))


def read_duration(kind: TimeKind, value: Duration) -> int:
    """Return a duration given as text, as a number for integer columns, or as a timedelta for others.

    >>> read_duration(TimeKind.TIMESTAMP, timedelta(minutes=5)), read_duration(TimeKind.INTEGER, 10)
    (300000000, 10)
    """
    if isinstance(value, timedelta):
        value = f"{value // timedelta(microseconds=1)}us"
    elif isinstance(value, int) and kind.has_wall_clock:
        msg = f"duration {value} is a number, and the time columns of this table are {kind.value}s; write it like 90s, 5m or 7d, or pass a timedelta"
        raise UsageError(msg)
    return kind.duration(str(value))


def is_now(value: Time | None) -> bool:
    """Whether a time is given as the word for the present.

    >>> is_now("now"), is_now("2013-01-01")
    (True, False)
    """
    return isinstance(value, str) and value.strip().lower() == "now"


def read_seconds(wait: Wait) -> float:
    """Return a waiting time given in seconds or as text.

    >>> read_seconds("5m"), read_seconds(1.5), read_seconds(None)
    (300.0, 1.5, 0.0)
    """
    if isinstance(wait, timedelta):
        return wait.total_seconds()
    if isinstance(wait, str):
        return TimeKind.TIMESTAMP.seconds(TimeKind.TIMESTAMP.duration(wait))
    return wait or 0.0


def read_moment(text: str) -> datetime:
    """Return a moment on the wall clock.

    >>> read_moment("2013-01-02T06:00").isoformat()
    '2013-01-02T06:00:00+00:00'
    """
    return datetime.fromtimestamp(TimeKind.TIMESTAMP.time(text) / 1_000_000, tz=UTC)
