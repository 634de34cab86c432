"""Processes that write: one to be killed, and one to be watched.

    python -m tests.crash.worker ROOT BATCHES
    python -m tests.crash.worker ROOT BATCHES direct
    python -m tests.crash.worker ROOT BATCHES SEED [direct]

The first applies the batches it is told to, one after the other, and says so after each. It reads slots from standard
input, a line each. Prints ``READY`` once Spark is there, then ``ACK slot applied|already`` or ``FAILED type: message``
per slot, and lives on: after a failure it can be asked again. The second does the same without a JVM. Instead of a slot
they take ``seal``, ``purge`` and ``erase``; a number behind it says before which change of a file to kill themselves.

The third makes up its own batches, drawn from SEED, and works until standard input ends: updates with and without
records, some of them over two ticks at once, and now and then a purge or an erase. After ``READY`` it prints one JSON
object per commit, with the moments before and after it, and at last, as with each update, how many files it has erased. ``direct``: it
starts no Spark.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from ebb import OpenTable, Warehouse
from ebb.index.errors import WarehouseError
from ebb.warehouse.settings import Engine, Settings
from ebb.warehouse.table.snapshot import Snapshot, Table
from tests.builders import NOW
from tests.faults import watched

__all__ = ["Commit", "WatchedTable", "input_ended", "key_of", "say"]

KEYS = 9
_RECORDS = 40  # per batch, at most
_LONGEST = 6  # ticks that a record lives; the table's span is longer, because records come late


def say(text: str) -> None:
    """Tell the parent, at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def input_ended() -> threading.Event:
    """Return what is set once standard input has ended."""
    ended = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=listen, daemon=True).start()
    return ended


def key_of(id: int) -> str:
    """Return the key of a record that a writer made up."""
    return f"k{id % KEYS}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit, with the monotonic nanoseconds before and after it."""

    op: str
    slot: int  # the clock after it
    began: int
    committed: int
    files_added: int
    files_removed: int


@dataclass(frozen=True)
class WatchedTable(Table):
    """A table whose commits are noted as they happen, so that nobody has to take a whole update for one moment."""

    commits: list[Commit] = field(default_factory=list, compare=False)

    def snapshot(self, *, is_rollback_fine: bool = False) -> Snapshot:
        found = super().snapshot(is_rollback_fine=is_rollback_fine)
        return _WatchedSnapshot(**{each.name: getattr(found, each.name) for each in fields(found)})

    def taken(self) -> list[Commit]:
        """Return the commits since the last call."""
        found = list(self.commits)
        self.commits.clear()
        return found


class _WatchedSnapshot(Snapshot):
    __slots__ = ()

    def commit(self, **what: Any) -> Snapshot:
        began = time.monotonic_ns()
        after = super().commit(**what)
        committed = time.monotonic_ns()
        assert isinstance(self.table, WatchedTable)
        noted = Commit(
            op=what["report"]["op"],
            slot=what["change"].clock,
            began=began,
            committed=committed,
            files_added=len(what["adds"]),
            files_removed=len(what["removes"]),
        )
        self.table.commits.append(noted)
        return after


class Writer:
    """One that makes up what it writes."""

    def __init__(self, table: OpenTable, batches: Path, seed: int) -> None:
        self.table, self.batches = table, batches
        self.rng = random.Random(seed)
        self.slot = 0
        self.erased_files = 0
        self.line = table.table.snapshot().spec.timeline

    def step(self) -> dict[int, int]:
        """Do the next thing and return the expiration slots of what it admitted, by id.

        Latest reads may make a writer wait, and then it does; anything else that goes wrong ends it.
        """
        match self.rng.choices(("batch", "tick", "purge", "erase"), (42, 42, 11, 5))[0]:
            case "batch":
                return self._update(with_records=True)
            case "tick":
                return self._update(with_records=False)
            case "purge":
                self.table.purge(wait=60)
            case _:
                self.erased_files += self.table.erase(wait=60).files_erased
        return {}

    def _update(self, *, with_records: bool) -> dict[int, int]:
        ticks = 2 if self.slot and self.rng.random() < 0.1 else 1
        self.slot += ticks
        admitted, batch = self._batch() if with_records else ({}, None)
        at = self.line.kind.show_time(self.line.end_of(self.slot))
        report = self.table.update(batch, at=at, catch_up=ticks > 1, yes=ticks > 1, wait=60)
        assert (report.admitted, report.quarantined, report.warnings) == (len(admitted), 0, ()), report
        self.erased_files += report.erased_files
        return admitted

    def _batch(self) -> tuple[dict[int, int], Path]:
        """Write a batch with all lifetimes in it; some records come late, some are expired on arrival."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        rows, admitted = [], {}
        for number in range(self.rng.randint(1, _RECORDS)):
            id = self.slot * 1000 + number
            expires = self.slot + self.rng.randint(0, _LONGEST)
            if expires > self.slot:
                admitted[id] = expires
            over = self.line.end_of(expires) - self.rng.randrange(self.line.tick)
            come = min(over, self.line.end_of(self.slot)) - self.rng.randint(1, self.line.tick)
            rows.append({"id": id, "key": key_of(id), "inserted": come, "expires": over})
        time = pa.timestamp("us", "UTC")
        schema = pa.schema([("id", pa.int64()), ("key", pa.string()), ("inserted", time), ("expires", time)])
        file = self.batches / f"b{self.slot}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), file)
        return admitted, file


def _warehouse(root: str, engine: Engine = "spark", **how: Any) -> Warehouse:
    conf = {"spark.driver.memory": "1g"}
    warehouse = Warehouse(Settings(warehouse=Path(root), engine=engine, master="local[2]", conf=conf), **how)
    if engine == "spark":
        warehouse.spark(work_bytes=0)
    return warehouse


def obey(root: str, batches: str, engine: Engine = "spark") -> None:
    """Apply batches until standard input ends."""
    warehouse = _warehouse(root, engine, now=lambda: NOW)
    table = warehouse.table("t")
    say("READY")
    for line in sys.stdin:
        what, _, place = line.partition(" ")
        try:
            with watched(Path(root), _deadly(int(place))) if place else nullcontext():
                told = _done(table, what.strip(), Path(batches))
        except WarehouseError as error:
            say(f"FAILED {type(error).__name__}: {error}")
        else:
            say(f"ACK {what.strip()} {told}")


def _done(table: OpenTable, what: str, batches: Path) -> str:
    if what in ("seal", "purge", "erase"):
        getattr(table, what)()
        return "done"
    report = table.update(batches / f"b{what}.parquet", at=int(what), catch_up=True)
    return "already" if report.already_applied else "applied"


def _deadly(place: int) -> Callable[[str, str], None]:
    """Return what kills this process before it changes the n-th file, and says which one."""
    changes = itertools.count()

    def change(event: str, path: str) -> None:
        if next(changes) == place:
            say(f"KILLED {event} {path}")
            os.kill(os.getpid(), signal.SIGKILL)

    return change


def write(root: str, batches: str, seed: str, engine: Engine = "spark") -> None:
    """Write until standard input ends."""
    warehouse = _warehouse(root, engine)
    watched = WatchedTable(warehouse.root, "t")
    writer = Writer(OpenTable(warehouse, watched), Path(batches), int(seed))
    ended = input_ended()
    say("READY")
    while not ended.is_set():
        admitted = writer.step()
        for commit in watched.taken():
            told = {"admitted": admitted, "erased": writer.erased_files} if commit.op == "update" else {}
            say(json.dumps(asdict(commit) | told))
    say(json.dumps({"op": "erase", "files": writer.erased_files}))


if __name__ == "__main__":
    match sys.argv[1:]:
        case [root, batches]:
            obey(root, batches)
        case [root, batches, "direct"]:
            obey(root, batches, "direct")
        case [root, batches, seed]:
            write(root, batches, seed)
        case [root, batches, seed, "direct"]:
            write(root, batches, seed, "direct")
