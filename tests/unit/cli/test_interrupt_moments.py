"""Ctrl-C and SIGTERM at any moment of a command without a JVM: the table is whole, what is said is true, work goes on."""

from __future__ import annotations

import contextlib
import io
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from ebb import OpenTable
from ebb.cli.main import main
from tests.builders import NOW, integer_table, open_warehouse, scanned_ids, write_batch
from tests.model import Record
from tests.seeds import drawn_seed, rounds

ROOT = Path(__file__).parents[3]
FILLED = 6
COMMANDS = {
    "update": ["update", "t", "next.parquet", "--at", str(FILLED + 1), "--engine", "direct"],
    "tick": ["update", "t", "--at", str(FILLED + 1)],
    "seal": ["seal", "t"],
    "purge": ["purge", "t"],
    "erase": ["erase", "t"],
    "alter": ["alter", "t", "--quarantine-time", "3"],
}


def _batch(slot: int) -> list[Record]:
    return [Record(slot * 100 + n, f"k{n % 7}", slot, slot + 1 + n % 5) for n in range(40)]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filled")
    table = integer_table(
        open_warehouse(folder / "w"), grid="3x2", strategy="norebuild", deletion_bound="6", reader_time="1"
    )
    for slot in range(1, FILLED + 1):
        table.update(write_batch(folder / f"{slot}.parquet", _batch(slot)), at=slot, engine="direct")
    write_batch(folder / "next.parquet", _batch(FILLED + 1))
    return folder


def _window(clock: int, *, with_next: bool) -> list[int]:
    last = FILLED + with_next
    return sorted(r.id for slot in range(1, last + 1) for r in _batch(slot) if (r.expires or 0) > clock)


def _check(root: Path, command: str, version: int, said: str) -> bool:
    """Check what an interrupted command has left; returns whether it had made its commit."""
    table: OpenTable = open_warehouse(root).table("t")
    snapshot = table.table.snapshot()
    clock = snapshot.ledger.clock or 0
    is_moved = clock > FILLED
    assert scanned_ids(table) == _window(clock, with_next=command == "update" and is_moved)
    if match := re.search(r"is as it was, at version (\d+)", said):
        assert snapshot.version == version == int(match[1])
    elif match := re.search(r"is at version (\d+), slot (\d+)", said):
        assert (snapshot.version, clock) == (int(match[1]), int(match[2]))
    later = open_warehouse(root, NOW + timedelta(days=1)).table("t")
    later.update(at=clock + 1)
    later.update(at=clock + 2)
    entries = list(later.table.entries(later.table.snapshot().version))
    named = {path.removesuffix(".parquet") for entry in entries for path in entry.added}
    assert {path.rsplit(".", 1)[0] for path in later.table.all_files()} <= named, "everything is named by the log"
    assert not list(later.table.log.glob("_commit_*"))
    assert scanned_ids(later) == _window(clock + 2, with_next=command == "update" and is_moved)
    return snapshot.version > version


# Where a finaliser is interrupted, Python can only say so.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_at_any_moment_leaves_a_whole_table(
    filled: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    """The system sends the signal, at a moment that nobody chose."""
    dice = random.Random(drawn_seed())
    monkeypatch.chdir(filled)
    longest = dict.fromkeys(COMMANDS, 0.0)
    count, interrupted, made = rounds(40), 0, 0
    version = open_warehouse(filled / "w").table("t").table.snapshot().version
    previous = signal.signal(signal.SIGALRM, lambda _number, _frame: signal.raise_signal(signal.SIGINT))
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background ignores it
    try:
        for number in range(-len(COMMANDS), count):
            command, root = list(COMMANDS)[number % len(COMMANDS)], tmp_path / "w"
            shutil.copytree(filled / "w", root)
            told, code, started = io.StringIO(), None, time.perf_counter()
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(told):
                try:
                    if number >= 0:
                        signal.setitimer(signal.ITIMER_REAL, dice.uniform(0.0005, longest[command]))
                    code = main(["--warehouse", str(root), *COMMANDS[command]])
                except KeyboardInterrupt:  # before the command had begun, or after it had ended
                    interrupted += 1
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            longest[command] = max(longest[command], (time.perf_counter() - started) * (number < 0))
            print(number, command, code, told.getvalue())
            assert code in (None, 0, 130), told.getvalue()
            assert "inside Ebb" not in told.getvalue()
            interrupted += code == 130
            made += _check(root, command, version, told.getvalue())
            shutil.rmtree(root)
    finally:
        signal.signal(signal.SIGALRM, previous)
        signal.signal(signal.SIGINT, handler)
    assert interrupted
    record_property("figures", f"Ctrl-C at any moment: {count}, {interrupted} interrupted, 0 torn")


def test_sigterm_at_any_moment_leaves_a_whole_table(
    filled: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    dice = random.Random(drawn_seed())
    version = open_warehouse(filled / "w").table("t").table.snapshot().version
    count, codes = rounds(5), {0: 0, 143: 0, -signal.SIGTERM: 0}
    started, whole = time.perf_counter(), 0.0
    for number in range(count + 1):
        root = tmp_path / "w"
        shutil.copytree(filled / "w", root)
        child = subprocess.Popen(
            [sys.executable, "-m", "ebb.cli.main", "--warehouse", str(root), *COMMANDS["update"]],
            cwd=filled, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        if number:  # the first one shows how long it takes
            time.sleep(dice.uniform(0.2, 1) * whole)
            child.send_signal(signal.SIGTERM)
        _, said = child.communicate(timeout=60)
        whole = whole or time.perf_counter() - started
        print(number, child.returncode, said)
        assert child.returncode in codes, said
        assert "Traceback" not in said
        codes[child.returncode] += 1
        _check(root, "update", version, said)
        shutil.rmtree(root)
    record_property("figures", f"SIGTERM at any moment: {count}, {count - codes[0] + 1} ended by it, 0 torn")
