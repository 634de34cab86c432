"""Which updates are due for the files that have arrived.  Pure: time is an argument.

A file belongs to the tick that its name starts with (``2013-01-02T0600Z-anything.csv``, the time as for ``--at``; a
number for integer columns), otherwise to the tick in which it was last modified. Files for a tick that has been
applied are late and join the next one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ebb.index.timeline import TimeKind, Timeline

__all__ = ["Landed", "Step", "due_slot", "label_time", "slot_of_file", "steps"]

_LABEL = re.compile(r"(\d{4})-?(\d{2})-?(\d{2})(?:[T_](\d{2})[-:.]?(\d{2})?(?:[-:.]?(\d{2}))?Z?)?(?=[._-]|$)")
_NUMBER = re.compile(r"(\d{1,18})(?=[._-]|$)")


@dataclass(frozen=True, slots=True)
class Landed:
    """A file that has arrived, and the slot it belongs to; None: the next one."""

    path: Path
    slot: int | None


@dataclass(frozen=True, slots=True)
class Step:
    """One update to make: the slot and the files of its batch."""

    slot: int
    files: tuple[Path, ...]


def label_time(name: str, kind: TimeKind) -> int | None:
    """Return the time that a file name starts with.

    >>> TimeKind.TIMESTAMP.show_time(label_time("2013-01-02T0600Z.csv", TimeKind.TIMESTAMP))
    '2013-01-02T06:00:00Z'
    """
    if kind is TimeKind.INTEGER:
        number = _NUMBER.match(name)
        return int(number[1]) if number else None
    match = _LABEL.match(name)
    if not match:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups())
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    return kind.from_datetime(moment)


def slot_of_file(name: str, modified_us: int, line: Timeline, label: str = "end") -> int | None:
    """Return the slot that a file belongs to by its name or by when it was last modified; None: the next one.

    ``label``: whether its name says the end of its tick or the start.

    >>> hours = Timeline(kind=TimeKind.TIMESTAMP, origin=0, tick=3600_000_000, span=86400_000_000)
    >>> slot_of_file("1970-01-01T0500Z.csv", 0, hours), slot_of_file("cars.csv", 4 * 3600_000_000 + 1, hours)
    (5, 5)
    """
    time = label_time(name, line.kind)
    if time is not None:
        return line.clock_at(time) + (label == "start")
    return line.slot_of(line.kind.from_micros(modified_us)) if line.kind.has_wall_clock else None


def due_slot(line: Timeline, moment: datetime) -> int | None:
    """Return the last tick that is over at a moment; None for integer columns, where files alone move the clock."""
    return line.clock_at(line.kind.from_datetime(moment)) if line.kind.has_wall_clock else None


def steps(clock: int | None, due: int | None, landed: Sequence[Landed]) -> list[Step]:
    """Return the updates to make, in order: each tick that has files, then ``due``, the last tick that is over."""
    first = clock + 1 if clock is not None else min((f.slot for f in landed if f.slot is not None), default=due)
    if first is None or (due is not None and first > due):
        return []
    by_slot: dict[int, list[Path]] = {}
    for file in landed:
        slot = first if file.slot is None else max(first, file.slot)
        if due is None or slot <= due:
            by_slot.setdefault(slot, []).append(file.path)
    if due is not None:
        by_slot.setdefault(due, [])
    return [Step(slot, tuple(sorted(files))) for slot, files in sorted(by_slot.items())]
