"""A process that reads, again and again, until standard input ends.

    python -m tests.crash.reader ROOT SEED [slow|follow]

Levels and ways of reading are drawn from SEED, and so are pauses, within reads and between them, so that updates have
somewhere to fall into. Prints ``READY``, then one JSON object per read: what it saw, and the moments it began, looked
at the log for the last time, and ended. That its version was erased is told, too, and the read is given up.

``slow``: several updates fall into most reads. ``follow``: it follows the changes of the table, slowly, and prints one
JSON object per commit: the slot, and the ids that were admitted.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa

from ebb import OpenTable, Warehouse
from ebb.index.errors import ErasedError
from ebb.warehouse.read.window import Window
from tests.crash.worker import input_ended, key_of, say
from tests.isolation import Level, Read, Update

__all__ = ["WAYS", "WAYS_AND_SQL", "Seen", "asked_for", "is_asked_for", "judged", "read", "stream"]

WAYS = ("scan", "where", "range", "keys")
WAYS_AND_SQL = (*WAYS, "sql")  # the last of a window that is pinned, as the shell does
_PAUSES = {"read": (0.1, 0.03), "slow": (0.6, 0.06)}  # seconds at most before a read, and after each part of it
_SOME = ("k1", "k4", "k7")  # the keys that two of the ways ask for
_COLUMNS = ("id", "key", "expires")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What one read saw."""

    level: Level
    way: str
    began: int
    checked: int  # just before it looked at the log for the last time
    ended: int
    rounds: int  # looks at the log after the first one
    clock: int | None
    ids: list[int]
    is_ordered: bool = True  # by key and expiration
    missing: str = ""  # the error, if its version was erased
    outdated: int = 0  # files of the window that it began with, and that the table has no more


def is_asked_for(way: str, id: int) -> bool:
    """Whether a way of reading asks for a record."""
    return way in ("scan", "range", "sql") or key_of(id) in _SOME


def asked_for(way: str, updates: Sequence[Update]) -> list[Update]:
    """Return the updates as one sees them who asks for some keys only."""
    return [
        replace(update, admitted={id: slot for id, slot in update.admitted.items() if is_asked_for(way, id)})
        for update in updates
    ]


def judged(reader: str, one: Seen) -> Read:
    """Return a read as the checker takes it."""
    return Read(
        reader=reader,
        began=one.began,
        checked=one.checked,
        ended=one.ended,
        level=one.level,
        clock=one.clock,
        ids=tuple(one.ids),
    )


def stream(window: Window, way: str) -> pa.RecordBatchReader:
    """Begin to read a window."""
    match way:
        case "scan":
            return window.scan(_COLUMNS)
        case "where":
            return window.scan(_COLUMNS, f"key in ({', '.join(repr(key) for key in _SOME)})")
        case "range":
            return window.read(window.wanted((), low="k", high="l"), _COLUMNS)
        case _:
            return window.read(window.wanted(_SOME), _COLUMNS)


def read(table: OpenTable, level: Level, way: str, pauses: tuple[float, float] = (0.0, 0.0)) -> Seen:
    """Read once, waiting some seconds between the first look at the log and reading, and after each part that comes."""
    looks: list[int] = []
    rows: list[dict[str, Any]] = []
    missing = ""
    began = time.monotonic_ns()
    window = _window(table, level, looks)
    try:
        time.sleep(pauses[0])
        for part in _by_sql(table, window) if way == "sql" else stream(window, way):
            rows += part.to_pylist()
            time.sleep(pauses[1])
    except ErasedError as error:
        missing = str(error)
    ended = time.monotonic_ns()
    newest = {file.path for file in table.table.snapshot().files}
    order = [(row["key"], row["expires"]) for row in rows]
    return Seen(
        level=level,
        way=way,
        began=began,
        checked=looks[-1] if looks else began,
        ended=ended,
        rounds=len(looks),
        clock=window.clock if way == "sql" else window.cost.clock,
        ids=[row["id"] for row in rows],
        is_ordered=order == sorted(order),
        missing=missing,
        outdated=sum(file.path not in newest for file in window.snapshot.files),
    )


def _by_sql(table: OpenTable, window: Window) -> pa.RecordBatchReader:
    names = ", ".join(_COLUMNS)
    return table.warehouse.sql_session(lambda _: window).answer(f"SELECT {names} FROM {table.name}")  # noqa: S608


def _window(table: OpenTable, level: Level, looks: list[int]) -> Window:
    if level == "window":
        return table.at_latest()
    window = table.up_to_date()

    def look() -> Window:
        looks.append(time.monotonic_ns())
        return window.reopen()

    return replace(window, reopen=look)


def main(root: str, seed: str, what: str = "read") -> None:
    """Read until standard input ends."""
    rng = random.Random(int(seed))
    table = Warehouse.open(root).table("t")
    ended = input_ended()
    say("READY")
    if what == "follow":
        _follow(table, ended, rng)
        return
    before, within = _PAUSES[what]
    while not ended.is_set():
        level: Level = rng.choice(("window", "latest"))
        way = rng.choice(WAYS_AND_SQL if level == "window" else WAYS)
        pauses = (rng.choice((0.0, rng.uniform(0, before))), rng.choice((0.0, rng.uniform(0, within))))
        say(json.dumps(asdict(read(table, level, way, pauses))))
        time.sleep(rng.uniform(0, 0.05))


class _EndedError(Exception):
    """Nobody listens any more."""


def _follow(table: OpenTable, ended: threading.Event, rng: random.Random) -> None:
    def wait(_: float) -> None:
        if ended.is_set():
            raise _EndedError
        time.sleep(0.01)

    with suppress(_EndedError):
        for commit in table.changes("start", follow=True, columns=["id"], sleep=wait):
            ended.wait(rng.uniform(0, 0.2))  # after it was found to be there, and before it is read
            say(json.dumps({"slot": commit.slot, "ids": sorted(commit.records.read_all()["id"].to_pylist())}))


if __name__ == "__main__":
    main(*sys.argv[1:])
