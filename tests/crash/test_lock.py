"""One writer per table (P13): refused with the holder named, or waiting; a dead holder never blocks; readers never wait."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ebb import OpenTable
from ebb.cli.main import main
from tests.builders import integer_table, open_warehouse
from tests.crash.processes import Process

_HOLD = """
import sys
from pathlib import Path
from ebb.warehouse.table.catalog import find_table

with find_table(Path(sys.argv[1]), "t").lock():
    print("HELD", flush=True)
    sys.stdin.readline()
"""
_WRITE = """
import sys
from ebb.cli.main import main

print("READY", flush=True)
for line in sys.stdin:
    code = main(["--warehouse", sys.argv[1], "update", "t", "--at", line.strip(), "--json"])
    print(f"EXIT {code}", flush=True)
"""
_ROUNDS = 25


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OpenTable:
    monkeypatch.setenv("EBB_WAREHOUSE", str(tmp_path / "w"))
    return integer_table(open_warehouse(tmp_path / "w"))


@pytest.fixture
def holder(table: OpenTable) -> Iterator[Process]:
    """Return a process that holds the lock until it is told to let go."""
    process = Process(["-c", _HOLD, str(table.table.root)])
    assert process.heard("HELD") == "HELD", process.errors
    yield process
    process.end()


@pytest.mark.parametrize(
    "command",
    [["update", "t", "--at", "1"], ["alter", "t", "--deletion-bound", "9"], ["erase", "t"], ["drop", "t", "--yes"]],
    ids=lambda command: command[0],
)
def test_a_second_writer_is_refused_within_a_second_and_told_who_holds_the_lock(
    command: list[str], holder: Process, table: OpenTable, capsys: pytest.CaptureFixture[str]
) -> None:
    started = time.monotonic()
    code = main(command)
    seconds = time.monotonic() - started

    assert code == 1
    assert seconds < 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"ebb: table t is being written by process {holder.process.pid} on ")
    assert "--wait" in printed.err
    assert table.table.snapshot().version == 0


def test_a_writer_that_may_wait_goes_on_when_the_lock_is_free(holder: Process, table: OpenTable) -> None:
    release = threading.Timer(0.5, holder.tell, args=["let go"])
    release.start()

    code = main(["update", "t", "--at", "1", "--wait", "20s"])

    assert code == 0
    assert table.table.snapshot().version == 1


def test_a_writer_that_has_waited_long_enough_gives_up(
    holder: Process, capsys: pytest.CaptureFixture[str], table: OpenTable
) -> None:
    started = time.monotonic()
    code = main(["update", "t", "--at", "1", "--wait", "300ms"])

    assert code == 1
    assert 0.3 <= time.monotonic() - started < 2
    assert "waited 0.3 s" in capsys.readouterr().err


def test_a_killed_holder_never_blocks(holder: Process, table: OpenTable) -> None:
    assert (table.table.hidden / "lock").read_text(encoding="utf-8")

    holder.kill("python")
    holder.process.wait(10)

    assert main(["update", "t", "--at", "1"]) == 0


def test_readers_need_no_lock(holder: Process, table: OpenTable, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (
        ["status"],
        ["status", "t"],
        ["history", "t"],
        ["explain", "t"],
        ["scan", "t"],
        ["probe", "t", "a"],
    ):
        assert main(command) == 0, capsys.readouterr().err
    assert main(["quarantine", "t"]) == 0


def test_of_four_writers_at_once_exactly_one_applies_each_slot(table: OpenTable) -> None:
    writers = [Process(["-c", _WRITE, str(table.table.root)]) for _ in range(4)]
    try:
        for writer in writers:
            assert writer.heard("READY") == "READY", writer.errors
        for slot in range(1, _ROUNDS + 1):
            for writer in writers:
                writer.lines.clear()
                writer.errors.clear()
            for writer in writers:
                writer.tell(slot)
            fates = [_fate(writer) for writer in writers]

            assert fates.count("applied") == 1, (slot, fates)
            assert table.table.snapshot().ledger.clock == slot
    finally:
        for writer in writers:
            writer.end()
    assert table.table.snapshot().version == _ROUNDS


def _fate(writer: Process) -> str:
    code = writer.heard("EXIT", seconds=20)
    if code == "EXIT 0":
        return "already" if json.loads(writer.lines[0])["already_applied"] else "applied"
    assert code == "EXIT 1"
    assert writer.lines == ["EXIT 1"]
    deadline = time.monotonic() + 5
    while not writer.errors and time.monotonic() < deadline:
        time.sleep(0.001)
    assert len(writer.errors) == 1
    assert writer.errors[0].startswith("ebb: table t is being written by "), writer.errors
    return "refused"


def test_the_lock_file_is_private(table: OpenTable) -> None:
    table.update(at=1)

    assert os.stat(table.table.hidden / "lock").st_mode & 0o777 == 0o600
    assert os.stat(table.table.hidden).st_mode & 0o777 == 0o700
