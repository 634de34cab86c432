"""Three followers of one table, side by side (P35): Spark Structured Streaming, ``ebb changes``, and polars.

A writer makes 300 updates with seals, purges and erasures, as fast as it can. The stream is started again and again on its
checkpoint, the process is killed in the middle and started again with its token, and the poller knows nothing but a
version and a clock. In the end each has every record once.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable

from ebb import OpenTable, Warehouse
from tests.builders import arrow_batch, integer_table
from tests.crash.processes import Process, until
from tests.integration.test_streams import STRATEGIES, followed
from tests.model import Model, Record
from tests.seeds import drawn_seed

UPDATES = 300
KILLS = (110, 190)  # updates after which the process dies
LARGE = 20_000  # records of those updates: it takes a moment to print them


class ChangesProcess:
    """``ebb changes --follow --resume`` and what a careful reader of its output does when it dies."""

    def __init__(self, table: OpenTable, place: Path) -> None:
        self.root, self.kept = table.warehouse.root, place / "token"
        self.rows: list[dict[str, Any]] = []
        self.dropped = 0
        self.process = self._started()

    def _started(self) -> Process:
        command = ["-m", "ebb.cli.main", "--warehouse", str(self.root), "changes", "t", "--since", "0", "--expiries"]
        return Process([*command, "--follow", "--resume", str(self.kept)])

    def position(self) -> int:
        """Return the version that is kept."""
        return int(self.kept.read_text(encoding="ascii").split("-")[0]) if self.kept.exists() else 0

    def wait_for_more(self, version: int) -> None:
        """Wait until it prints something, and with that is in the middle of what it does, or has printed everything."""
        heard = len(self.process.lines)
        until(lambda: len(self.process.lines) > heard or self.position() >= version, what="a record")

    def kill_and_restart(self) -> None:
        """Kill it; what it printed of commits after its token is dropped, because it comes again."""
        self.process.process.kill()
        self._take()
        self.process = self._started()

    def end(self, version: int) -> None:
        """Wait until it has everything, and end it."""
        until(lambda: self.position() >= version, what=f"version {version}")
        self.process.process.terminate()
        self._take()
        assert self.process.errors == []

    def _take(self) -> None:
        self.process.end()
        whole = [line for line in self.process.lines if line.endswith("}")]
        rows = [json.loads(line) for line in whole]
        taken = [row for row in rows if row["_version"] <= self.position()]
        self.dropped += len(self.process.lines) - len(taken)
        self.rows += taken


class Poller:
    """Reads the Delta table version by version with polars, and remembers a version and a clock."""

    def __init__(self, table: OpenTable) -> None:
        self.folder = str(table.table.folder)
        self.version, self.clock = 0, -1
        self.ids: list[int] = []

    def poll(self) -> None:
        """Take what the versions since the last time have brought."""
        for version in range(self.version + 1, DeltaTable(self.folder).version() + 1):
            clock = DeltaTable(self.folder, version=version).transaction_version("ebb")
            if clock is not None and clock > self.clock:
                frame = pl.scan_delta(self.folder, version=version).filter(pl.col("_ins_slot") > self.clock)
                self.ids += frame.select("id").collect()["id"].to_list()
                self.clock = clock
            self.version = version


@pytest.fixture
def processes() -> Iterator[list[ChangesProcess]]:
    """Collect the processes of a test and end them, whatever happens."""
    started: list[ChangesProcess] = []
    yield started
    for each in started:
        each.process.process.kill()
        each.process.end()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_three_followers_get_every_record_of_300_updates_once(
    strategy: str,
    warehouse: Warehouse,
    spark: Any,
    tmp_path: Path,
    processes: list[ChangesProcess],
    record_property: Any,
) -> None:
    rng = random.Random(drawn_seed())
    table = integer_table(warehouse, reader_time="90", deletion_bound="93", **STRATEGIES[strategy])
    model = Model(table.table.snapshot().spec.timeline)
    admitted: list[int] = []
    expired: Counter[tuple[int, int]] = Counter()  # id and slot
    process, poller = ChangesProcess(table, tmp_path), Poller(table)
    processes.append(process)
    slot, first = 0, 0
    for number in range(1, UPDATES + 1):
        ticks = 2 if rng.random() < 0.05 else 1
        slot += ticks
        size = LARGE if number in KILLS else rng.choice([0, 1, 20, 40])
        ids = range(first, first := first + size)
        batch = [Record(id, f"k{rng.randrange(9)}", slot, slot + rng.randint(1, 6)) for id in ids]
        before = {record.id: record.expires or 0 for record in model.window()}
        model.apply(slot, batch)
        admitted += [record.id for record in batch]
        left = {record.id for record in model.window()}
        expired.update((id, over) for id, over in before.items() if id not in left)
        report = table.update(arrow_batch(batch), at=slot, catch_up=ticks > 1, yes=True)
        assert report.warnings == ()
        match rng.randrange(12):
            case 0:
                table.purge()
            case 1:
                table.erase()
            case 2:
                table.seal()
        if number % 10 == 0:
            poller.poll()
        if number % 75 == 0:
            assert followed(spark, table, tmp_path) == sorted(admitted)
        if number in KILLS:
            process.wait_for_more(report.version)
            process.kill_and_restart()

    poller.poll()
    last = next(commit.version for commit in table.history() if commit.op == "update")
    process.end(last)

    told = Counter((row["_change"], row["id"]) for row in process.rows)
    assert told == Counter([("admitted", id) for id in admitted] + [("expired", id) for id, _ in expired])
    assert Counter((row["id"], row["_slot"]) for row in process.rows if row["_change"] == "expired") == expired
    versions = [row["_version"] for row in process.rows]
    assert versions == sorted(versions)
    assert sorted(poller.ids) == sorted(admitted)
    ops = Counter(commit.op for commit in table.history())
    erased = sum(commit.erased_files or 0 for commit in table.history())
    assert min(ops["update"] - UPDATES + 1, ops["retire"], ops["seal"], ops["purge"], erased) > 0, ops
    counts = ", ".join(f"{op} {count}" for op, count in sorted(ops.items()))
    record_property(
        "figures",
        f"followers of {strategy}: {len(admitted):,} records, {process.dropped} dropped after kills; {counts}",
    )
