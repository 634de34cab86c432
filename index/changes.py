"""Following a table: positions in its log, and what one commit means to whoever follows.  Pure.

A position is a version: what comes after it is delivered. A load or an update is the one commit that moves the clock, in
which records are admitted and expire. An amendment changes when some expire, and forgetting removes some; every other
commit moves files around, and tells a follower nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ebb.index.cellfile import AMENDED, CellFile, Places
from ebb.index.errors import UsageError
from ebb.index.places import load_places
from ebb.index.timeline import Timeline

__all__ = [
    "ADMITTED", "CHANGE", "CHANGE_COLUMNS", "EXPIRED", "FORGOTTEN", "KEEPING", "SLOT", "VERSION", "After", "AfterSlot", "AfterVersion", "Edited", "Moved",
    "Start", "edited", "is_token", "moved", "parse_since", "token_text",
]  # fmt: skip

CHANGE, VERSION, SLOT = CHANGE_COLUMNS = ("_change", "_version", "_slot")  # before the user's columns
ADMITTED, EXPIRED, FORGOTTEN = "admitted", "expired", "forgotten"
EDITS = ("amend", "forget")  # commits that change single records
# Commits after which every record that was in the window, and has not expired, is there as it was.
KEEPING = ("alter", "erase", "hold", "load", "purge", "release", "repair", "retire", "seal", "update")

_VERSION = re.compile(r"[0-9]{1,18}")
_SLOT = re.compile(r"slot:([+-]?[0-9]{1,18})")
_TOKEN = re.compile(r"([0-9]{1,18})-([0-9a-f]{32})")


@dataclass(frozen=True, slots=True)
class Start:
    """Everything that is still there."""


@dataclass(frozen=True, slots=True)
class AfterVersion:
    """What came after a version, of one table if a token names it."""

    version: int
    table: str | None = None  # its id, without hyphens


@dataclass(frozen=True, slots=True)
class AfterSlot:
    """What came after the last commit that had set the clock to this slot or an earlier one."""

    slot: int


After = Start | AfterVersion | AfterSlot


def token_text(table_id: str, version: int) -> str:
    """Return what names a position in one table, and in no other.

    >>> token_text("3f2a9c00-0000-4000-8000-000000000001", 13)
    '13-3f2a9c00000040008000000000000001'
    """
    return f"{version}-{table_id.replace('-', '')}"


def is_token(text: str) -> bool:
    """Whether a text could be a token.

    >>> is_token("13-3f2a9c00000040008000000000000001"), is_token("13")
    (True, False)
    """
    return _TOKEN.fullmatch(text) is not None


def parse_since(text: str, line: Timeline) -> After:
    """Read a position: ``start``, a version, ``slot:N``, a token, or a time, which stands for the last tick over then.

    A plain number is a version, so a time that is a number is written ``time:N``.

    >>> from ebb.index.timeline import TimeKind
    >>> line = Timeline(kind=TimeKind.INTEGER, origin=0, tick=10, span=30)
    >>> parse_since("7", line), parse_since("time:27", line)
    (AfterVersion(version=7, table=None), AfterSlot(slot=2))
    """
    text = text.strip()
    if text == "start":
        return Start()
    if _VERSION.fullmatch(text):
        return AfterVersion(int(text))
    if match := _TOKEN.fullmatch(text):
        return AfterVersion(int(match[1]), match[2])
    if match := _SLOT.fullmatch(text):
        return AfterSlot(int(match[1]))
    is_time = text.startswith("time:")
    if is_time or line.kind.has_wall_clock:
        try:
            return AfterSlot(line.clock_at(line.kind.time(text.removeprefix("time:"))))
        except UsageError as error:
            if is_time:
                raise
            raise _unknown(text, "a time like 2013-01-01T05:00:00Z") from error
    raise _unknown(text, "time:N")


def _unknown(text: str, time: str) -> UsageError:
    msg = f"{text!r} is no position in a table; pass a version, slot:N, {time}, start, or a token"
    return UsageError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A commit that moved the clock: which files hold what it admitted, and which what expired in it."""

    version: int
    before: int | None  # the clock before it; None: there was none
    slot: int  # the clock after it
    admitted: int  # records, as the commit counts them
    expired: int
    adding: tuple[CellFile, ...]  # with the records that were inserted after ``before``, and perhaps others
    expiring: tuple[CellFile, ...] = ()  # with the records that expired after ``before`` and by ``slot``, and others

    @property
    def files(self) -> tuple[CellFile, ...]:
        """Return every file that has to be there to tell what changed."""
        return (*self.adding, *self.expiring)


def moved(
    version: int, said: Mapping[str, Any], added: Iterable[CellFile], live: Iterable[CellFile] = ()
) -> Moved | None:
    """Return what a commit means to a follower; None if it did not move the clock.

    ``said``: what the commit says about itself. ``live``: the files before it, if what expired is asked for.
    """
    if said.get("op") not in ("load", "update"):
        return None
    slot = said["slot"]
    before = None if said["op"] == "load" else slot - said["ticks"]
    return Moved(
        version=version,
        before=before,
        slot=slot,
        admitted=said["admitted"],
        expired=said["expired"],
        # The survivors that rebuild writes again were inserted by the clock before.
        adding=tuple(file for file in added if before is None or file.max_ins > before),
        expiring=tuple(f for f in live if before is not None and f.min_exp <= slot and f.max_exp > before),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """A commit that changed single records, and where they are: as they are now, or as they were if they were forgotten."""

    version: int
    slot: int  # the clock then
    change: str
    records: int  # that had not expired, as the commit counts them
    files: tuple[CellFile, ...]
    places: Mapping[str, Places]  # of forgotten records; those that had expired are among them


def edited(
    version: int, said: Mapping[str, Any], added: Iterable[CellFile], removed: Iterable[CellFile]
) -> Edited | None:
    """Return which records a commit changed; None if it changed none that a follower knows."""
    if said.get("op") not in EDITS or not said["records"]:
        return None
    if said["op"] == "amend":
        files, places, change = tuple(file for file in added if file.part == AMENDED), {}, AMENDED
    else:
        left = tuple(removed)
        places, change = load_places([file.path for file in left], said["places"]), FORGOTTEN
        files = tuple(file for file in left if file.path in places)
    return Edited(
        version=version, slot=said["slot"], change=change, records=said["records"], files=files, places=places
    )
