"""The head record: what the log of a table must hold at least, kept outside the log.

Whoever commits says afterwards, in one small file of the hidden folder, which entry is the newest, with a hash of its
bytes and the clock. Each entry of Ebb names the hash of the one before it, so the head record vouches for the whole log.
A log that goes on after the head is one whose writer died before it wrote the head, or another tool's work: commit ids
settle that as ever. A log that ends before the head, or has another entry in its place, was rolled back.

The file has two places, and each commit overwrites the one that does not hold the newest head record: if that fails half-way,
the one before is still there, which is as good as a crash before it. To put a new file in place of the old one would cost a
hundred times as much on some file systems. Pure.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import asdict, dataclass
from typing import NamedTuple

from ebb.index.errors import LostHeadError, RolledBackError
from ebb.index.stored import members, parsed

__all__ = ["Head", "LostHeadWarning", "Places", "entry_hash", "lost", "new_file", "places", "rolled_back"]

_MAGIC = "EBBHEAD1"
_PLACE_BYTES = 512  # a sector: a disk writes all of it or nothing
_TEXTS, _NUMBERS = ("table", "entry"), ("version", "oldest", "serial")


class LostHeadWarning(UserWarning):
    """A read answers from a table without a head record.  Argument: the error that a writer would get."""


def entry_hash(data: bytes) -> str:
    """Return the hash of a log entry's bytes."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The newest commit of a table, as its writer knew it."""

    table: str  # the id of the Delta table
    version: int
    commit: str | None  # its id; None if another tool made it
    entry: str  # the hash of its entry's bytes
    clock: int | None  # after it
    oldest: int = 0  # the log has every entry from this one on
    serial: int = 0  # of head records of a table: one more each time

    def dumps(self) -> bytes:
        """Return it as it is kept in its place.

        >>> head = Head(table="t", version=7, commit="ab", entry="cd", clock=3)
        >>> Head.loads(head.dumps()) == head, len(head.dumps())
        (True, 512)
        """
        text = json.dumps(asdict(self), separators=(",", ":"))
        line = f"{_MAGIC} {zlib.crc32(text.encode()):08x} {text}"
        return line.ljust(_PLACE_BYTES - 1).encode() + b"\n"

    @staticmethod
    def loads(data: bytes) -> Head:
        """Read what :meth:`dumps` wrote; ValueError if it is something else."""
        magic, checksum, text = data.decode().rstrip().split(" ", 2)
        if magic != _MAGIC or f"{zlib.crc32(text.encode()):08x}" != checksum:
            msg = "its checksum is wrong"
            raise ValueError(msg)
        value = members(parsed(text))
        known = {name: value.get(name) for name in (*_TEXTS, *_NUMBERS, "commit", "clock")}
        is_sound = all(isinstance(known[name], str) for name in _TEXTS)
        if not is_sound or not all(isinstance(known[name], int) for name in _NUMBERS):
            msg = "it is of another version"
            raise ValueError(msg)
        return Head(**known)  # type: ignore[arg-type]  # just looked at


class Places(NamedTuple):
    """What the file of a table's head record holds."""

    head: Head | None  # the newest that can be read
    next_at: int  # where the next one goes
    is_whole: bool  # whether all of it can be read


def places(data: bytes) -> Places:
    """Read the file of a head record.

    >>> one, two = (Head(table="t", version=v, commit=None, entry="cd", clock=3, serial=v) for v in (7, 8))
    >>> places(new_file(one)).next_at, places(one.dumps() + two.dumps()).head == two, places(b"").head
    (512, True, None)
    """
    found: list[tuple[Head, int]] = []
    is_whole = len(data) == 2 * _PLACE_BYTES
    for at in (0, _PLACE_BYTES):
        place = data[at : at + _PLACE_BYTES]
        try:
            found.append((Head.loads(place), at))
        except ValueError:
            is_whole = is_whole and not place.strip()
    if not found:
        return Places(None, 0, is_whole=False)
    head, at = max(found, key=lambda one: one[0].serial)
    return Places(head, _PLACE_BYTES - at, is_whole)


def new_file(head: Head) -> bytes:
    """Return the file of the first head record of a table."""
    return head.dumps() + b"\n".rjust(_PLACE_BYTES)


def rolled_back(name: str, head: Head, *, table: str, newest: int, entry: str | None) -> RolledBackError | None:
    """Return why a log is not the one that the head record tells of; None if it is, and perhaps goes on.

    ``table`` and ``newest``: the id of the Delta table and the newest version, as the log has them. ``entry``: the hash
    of its entry of the head's version; None if there is none.

    >>> head = Head(table="t", version=7, commit="ab", entry="cd", clock=3)
    >>> rolled_back("cars", head, table="t", newest=8, entry="cd") is None
    True
    >>> rolled_back("cars", head, table="t", newest=5, entry=None).facts
    'the log of table cars ends at version 5, and version 7 was committed: it was rolled back, truncated or replaced'
    """
    if table != head.table:
        found = "is that of another table"
    elif newest < head.version:
        found = f"ends at version {newest}"
    elif entry is None:
        found = f"has no entry {head.version}"
    elif entry != head.entry:
        found = f"has another entry {head.version} than the one committed"
    else:
        return None
    return RolledBackError(name, head.version, newest, found)


def lost(name: str, why: str) -> LostHeadError:
    """Return the error for a table whose head record ``is missing`` or ``is damaged``."""
    return LostHeadError(name, why)
