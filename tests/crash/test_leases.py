"""Readers that sleep for ever, die or are stopped: none keeps anything for longer than the deletion bound (P17, P19)."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from ebb import OpenTable
from ebb.warehouse.table.leases import LEASE_SECONDS
from tests.builders import NOW, arrow_batch, integer_table, open_warehouse
from tests.crash.processes import Process
from tests.model import Record
from tests.seeds import rounds

BOUND = 8
CANARY = "canary-of-a-key-that-must-go"
_READER = """
import sys
from pathlib import Path
from ebb.index.errors import LeaseEndedError
from tests.builders import open_warehouse
from tests.crash.worker import say

table = open_warehouse(Path(sys.argv[1])).table("t")
window = table.at_latest()
stream = {"stream": lambda: window.scan(["id"]), "changes": lambda: table.changes("start").reader()}[sys.argv[2]]()
say(f"PINNED {window.version}")
for line in sys.stdin:
    try:
        say(f"READ {len(stream.read_all())}")
    except Exception as error:
        say(f"{type(error).__name__} {error}")
"""


@pytest.fixture
def table(tmp_path: Path) -> OpenTable:
    wish = {"strategy": "rebuild", "grid": "1x1", "reader_time": "0", "span": "20", "deletion_bound": str(BOUND)}
    found = integer_table(open_warehouse(tmp_path / "w"), **wish)
    update(found, 1, key=CANARY, expires=3)
    return found


def update(table: OpenTable, slot: int, key: str = "k", expires: int | None = None) -> None:
    table.update(arrow_batch([Record(slot, key, slot, expires or slot + 9)]), at=slot)


def canary_is_on_disk(table: OpenTable) -> bool:
    """Search every byte: pages of so few records are not compressed."""
    return any(CANARY.encode() in path.read_bytes() for path in table.table.folder.rglob("*") if path.is_file())


def reader(table: OpenTable, what: str = "stream") -> Process:
    process = Process(["-c", _READER, str(table.warehouse.root), what])
    assert process.heard("PINNED"), process.errors
    return process


@pytest.mark.parametrize("what", ["stream", "changes"])
def test_a_reader_that_sleeps_for_ever_cannot_break_the_bound(
    what: str, table: OpenTable, record_property: Callable[[str, object], None]
) -> None:
    """Its canary expires at 3. Without the reader it would be gone at 4; with it, at 3 plus the bound."""
    assert canary_is_on_disk(table)
    sleeper = reader(table, what)
    try:
        there = []
        for slot in range(2, 3 + BOUND + 2):
            update(table, slot)
            if canary_is_on_disk(table):
                there.append(slot)
            status = table.status()
            assert status.deletion_bound_kept, status
        sleeper.tell("read")
        told = sleeper.heard("LeaseEndedError", "TooLateError", "READ", seconds=30)
    finally:
        sleeper.end()
    record_property(
        "figures", f"a reader that sleeps for ever: canary expired at 3 and found until {there[-1]}, bound {BOUND}"
    )
    assert there == list(range(2, 3 + BOUND))
    assert told.startswith("LeaseEndedError version 1 of table t was erased" if what == "stream" else "TooLateError")


def test_files_of_readers_that_were_killed_go_with_the_next_update(
    table: OpenTable, record_property: Callable[[str, object], None]
) -> None:
    update(table, 2)
    kills = rounds(2)
    for slot in range(3, 3 + kills):
        killed = reader(table)
        before = {file.path for file in table.table.snapshot().files}
        update(table, slot)
        assert table.erase().files_leased == len(before)
        killed.kill("python")
        killed.process.wait(20)
        assert table.erase().files_leased == 0
        assert not any((table.table.folder / path).exists() for path in before)
    record_property("figures", f"readers killed: {kills}, leases left 0")
    assert table.status().leases == ()


def test_a_reader_that_was_stopped_and_goes_on_later_reads_its_window_or_is_told(table: OpenTable) -> None:
    """While it is stopped nothing is renewed: after its time the lease is over, and what it kept may go."""
    stopped = reader(table)
    try:
        os.kill(stopped.process.pid, signal.SIGSTOP)
        update(table, 2)
        assert table.erase().files_leased == 1
        later = open_warehouse(table.warehouse.root, NOW + timedelta(seconds=LEASE_SECONDS)).table("t")
        assert later.erase().files_erased == 1
        os.kill(stopped.process.pid, signal.SIGCONT)
        stopped.tell("read")
        told = stopped.heard("LeaseEndedError", "READ", seconds=30)
    finally:
        os.kill(stopped.process.pid, signal.SIGCONT)
        stopped.end()
    assert told.startswith("LeaseEndedError")
    assert "it was not renewed after" in told
