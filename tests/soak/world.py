"""The tables of a soak, the model beside each, and what has to be true at any time.

A story is one table to which everything is done, step by step, and what is known about it: the model, what was acknowledged,
and, for the readers beside it, when each update may have happened. After every step the table is opened afresh and compared.
"""

from __future__ import annotations

import json
import random
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from ebb import OpenTable
from ebb.index.errors import NotDueError
from ebb.maintenance.inspect.findings import Severity
from tests.builders import (
    NOW,
    integer_table,
    open_warehouse,
    refused_records,
    scanned_ids,
    timestamp_table,
    write_batch,
)
from tests.crash.processes import Process
from tests.crash.reader import WAYS_AND_SQL, Seen, asked_for, judged
from tests.crash.worker import key_of
from tests.isolation import Read, Update, check
from tests.model import Model, Record

__all__ = ["Story", "World"]

LONGEST = 8  # ticks that a record lives
READERS = 2
DEEP = 0.1  # of the checks
WISHES = (
    {"strategy": "retire", "policy": "2x2"},
    {"strategy": "rebuild", "grid": "3x3"},
    {"strategy": "norebuild", "grid": "3x3", "policy": "chronological"},
)


@dataclass
class World:
    """Where a soak happens, and what it has counted."""

    folder: Path
    rng: random.Random
    with_java: bool
    figures: Counter[str] = field(default_factory=Counter)
    running: list[Process] = field(default_factory=list)
    landed: dict[int, int] = field(default_factory=dict)  # expiration slots of the records that have landed, by id
    landed_slot: int = 0
    last: str = "nothing yet"  # what was done last
    wall: datetime = NOW  # of the table that is updated by the clock on the wall

    @property
    def root(self) -> Path:
        """Return the warehouse."""
        return self.folder / "w"

    @property
    def batches(self) -> Path:
        """Return the folder of the batches."""
        return self.folder / "batches"

    @property
    def backups(self) -> Path:
        """Return the folder of the backups."""
        return self.folder / "backups"

    def told(self, seconds: float) -> str:
        """Return the figures."""
        counts = ", ".join(f"{what} {count:,}" for what, count in sorted(self.figures.items()))
        return f"soak of {seconds:.0f} s: {counts}"

    def process(self, *command: str, env: dict[str, str] | None = None) -> Process:
        """Start a process of Python that ends with the soak."""
        self.running = [process for process in self.running if process.process.poll() is None]
        process = Process(["-m", *command], env=env)
        self.running.append(process)
        return process

    def command(self, *words: str) -> Process:
        """Start a command."""
        return self.process("ebb.cli.main", "--warehouse", str(self.root), *words, env={"EBB_ENGINE": "direct"})

    def landing(self) -> Path:
        """Return the landing folder of the table beside, which is made the first time."""
        folder = self.folder / "landing"
        if not folder.exists():
            integer_table(open_warehouse(self.root), "landed", landing=str(folder), quarantine_time="3")
        return folder

    def check_landed(self) -> None:
        """Compare the table with a landing folder with what has landed."""
        found = scanned_ids(open_warehouse(self.root).table("landed"))
        assert found == sorted(id for id, expires in self.landed.items() if expires > self.landed_slot)

    def check_wall(self) -> None:
        """Set the wall clock anywhere, and update by it: the table's clock goes on to it, waits for it, or asks first."""
        ahead = self.rng.choice((-86400, -3600, -1, 0, 1, 3600, 3600, 5400, 7200, 86400, 366 * 86400))
        self.wall += timedelta(seconds=ahead)
        warehouse = open_warehouse(self.root, self.wall)
        names = {table.name for table in warehouse.tables()}
        table = warehouse.table("wall") if "wall" in names else timestamp_table(warehouse, "wall")
        line, before = table.table.snapshot().spec.timeline, table.table.snapshot().ledger.clock
        now = line.clock_at(line.kind.from_datetime(self.wall))
        catches_up = self.rng.random() < 0.5
        if before is not None and now <= before:
            with pytest.raises(NotDueError):
                table.update(catch_up=catches_up)
            expected = before
        else:
            expected = now if before is None or catches_up else before + 1
            assert table.update(catch_up=catches_up).slot == expected
        assert open_warehouse(self.root).table("wall").table.snapshot().ledger.clock == expected
        self.figures["wall clock moved"] += 1

    def close(self) -> None:
        """End what is running."""
        for process in self.running:
            process.kill("both")
            process.end()


@dataclass
class Story:
    """One table and what is known about it."""

    world: World
    wish: dict[str, str]
    model: Model
    updates: list[Update] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    version: int = 0  # acknowledged
    worker: Process | None = None  # that applies batches and may be killed
    readers: list[Process] = field(default_factory=list)

    @staticmethod
    def begin(world: World) -> Story:
        """Create the table, and let readers at it."""
        world.figures["stories"] += 1
        world.batches.mkdir(parents=True, exist_ok=True)
        wish = world.rng.choice(WISHES)
        bounds = {"span": str(LONGEST + 2), "reader_time": "40", "deletion_bound": "60", "quarantine_time": "100000"}
        table = integer_table(open_warehouse(world.root), **bounds, **wish)
        story = Story(world, wish, Model(table.table.snapshot().spec.timeline))
        # The readers' checker knows updates alone: where records are changed by request, nobody reads beside it.
        for _ in range(READERS * world.rng.randrange(2)):
            story.add_reader()
        return story

    @property
    def batches(self) -> Path:
        """Return the folder of the batches."""
        return self.world.batches

    def end(self) -> None:
        """Judge what was read until now, and drop the table; what comes after begins anew."""
        self.judge_readers()
        for process in (*self.readers, *filter(None, [self.worker])):
            process.kill("both")
            process.end()
        for case in self.model.holds:
            self.open().release(case)
        open_warehouse(self.world.root).drop("t")
        shutil.rmtree(self.world.backups, ignore_errors=True)
        for batch in self.batches.iterdir():
            batch.unlink()

    def open(self) -> OpenTable:
        """Open the table afresh."""
        return open_warehouse(self.world.root).table("t")

    def next_slot(self, ticks: int = 1) -> int:
        """Return a slot after the clock."""
        return (self.model.clock or 0) + ticks

    def batch(self, slot: int) -> tuple[Path, list[Record]]:
        """Write a batch with every lifetime, late ones, some that are over and some that are refused."""
        rng = self.world.rng
        batch = []
        for number in range(rng.randrange(1, 60)):
            id = slot * 1000 + number
            expires = slot + rng.randrange(LONGEST)
            inserted = min(slot, expires - 1) - rng.randrange(2)
            batch.append(Record(id, None if rng.random() < 0.02 else key_of(id), inserted, expires))
        return write_batch(self.batches / f"b{slot}.parquet", batch), batch

    @contextmanager
    def updating(self, slot: int, batch: list[Record]) -> Iterator[None]:
        """Note an update that is made inside, or is not: the table tells, if whoever makes it cannot."""
        began = time.monotonic_ns()
        yield
        clock = self.open().table.snapshot().ledger.clock
        committed = time.monotonic_ns()
        assert clock in (self.model.clock, slot), (
            f"the clock is {clock} after an update from {self.model.clock} to {slot}"
        )
        if clock == slot and clock != self.model.clock:
            outcome = self.model.apply(slot, batch)
            self.refused += [record.id for record in outcome.quarantined]
            admitted = {record.id: record.expires or 0 for record in outcome.admitted}
            self.updates.append(Update(slot=slot, began=began, committed=committed, admitted=admitted))
            self.world.figures["updates"] += 1

    def acknowledged(self, version: int) -> None:
        """Note that a commit was acknowledged: it must never be gone."""
        self.version = max(self.version, version)

    def look(self) -> None:
        """Compare the table with the model."""
        table = self.open()
        snapshot = table.table.snapshot()
        assert snapshot.version >= self.version, (
            f"version {self.version} was acknowledged and {snapshot.version} is there"
        )
        self.version = snapshot.version
        assert snapshot.ledger.clock == self.model.clock
        window = self.model.window()
        assert scanned_ids(table) == sorted(record.id for record in window)
        assert snapshot.ledger.live_records == len(window)
        key = key_of(self.world.rng.randrange(9))
        assert sorted(table.probe(key)["id"].to_pylist()) == sorted(r.id for r in window if r.key == key)
        assert {record["id"] for part in table.held(columns=["id"]) for record in part.to_pylist()} == self.model.held()
        deep = self.world.rng.random() < DEEP
        found = [found for found in table.check(deep=deep).findings if found.severity is Severity.DAMAGE]
        assert not found, "\n".join(map(str, found))
        self.world.figures["deep checks" if deep else "checks"] += 1
        kept = [one for one in refused_records(table.table) if one.slot <= (self.model.clock or 0)]
        assert sorted(json.loads(one.record)["id"] for one in kept) == sorted(self.refused)
        self.world.figures["looks"] += 1

    def add_reader(self) -> None:
        """Let one more process read, again and again, at both levels."""
        seed = self.world.rng.randrange(2**32)
        self.readers.append(self.world.process("tests.crash.reader", str(self.world.root), str(seed)))

    def judge_readers(self) -> None:
        """Check all that readers have seen so far, and forget it."""
        reads: dict[str, list[Read]] = {way: [] for way in WAYS_AND_SQL}
        for number, reader in enumerate(self.readers):
            assert not reader.errors, reader.errors
            lines = reader.lines[:]
            del reader.lines[: len(lines)]
            for seen in (Seen(**json.loads(line)) for line in lines if line.startswith("{") and line.endswith("}")):
                self.world.figures["reads that met an erased file" if seen.missing else f"reads {seen.level}"] += 1
                assert seen.is_ordered or seen.way not in ("range", "keys")
                if not seen.missing:
                    reads[seen.way].append(judged(f"reader {number} ({seen.way})", seen))
        for way, some in reads.items():
            violations = check(asked_for(way, self.updates), some)
            assert not violations, "\n".join(map(str, violations[:9]))

    def working(self) -> Process:
        """Return a worker that can be told to update and may be killed."""
        if self.worker is None or self.worker.process.poll() is not None:
            self.worker = self.world.process("tests.crash.worker", str(self.world.root), str(self.batches), "direct")
            assert self.worker.heard("READY") == "READY", self.worker.errors
        self.worker.lines.clear()
        return self.worker
