"""Random files (P25, P30): one line or an answer, never a traceback, nothing changed by what was refused, no value in a message."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ebb.cli.main import main
from tests.hostile import peak_bytes
from tests.inputs import CANARY, bad_file
from tests.seeds import drawn_seed, rounds
from tests.unit.cli.command import state_of
from tests.unit.cli.conftest import DECLARED, TIMES

_MOST_SECONDS = 20
_MOST_BYTES = 500 * 1024 * 1024
_CREATE = ("--key", "key", *TIMES, "--tick", "1", "--span", "6")


def _run(*arguments: str) -> tuple[int, str, str]:
    written = io.BytesIO()
    out = io.TextIOWrapper(written, encoding="utf-8", errors="backslashreplace")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()) as told:
        code = main(list(arguments))
    out.flush()
    return code, written.getvalue().decode(), told.getvalue()


def test_random_files_never_give_a_traceback_and_change_nothing_when_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    dice = random.Random(drawn_seed())
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("EBB_WAREHOUSE", str(tmp_path / "w"))
    codes, count, slot = {0: 0, 1: 0, 2: 0}, rounds(50), 0
    assert _run("create", "t", *DECLARED)[0] == 0
    for number in range(count):
        bad = bad_file(dice, slot + 1, number)
        print(number, bad.what, repr(bad.name))
        Path(bad.name).write_bytes(bad.data)
        command: tuple[str, ...] = ("update", "t", "--at", str(slot + 1))
        if dice.random() < 0.25:
            _run("drop", "u", "--yes")
            command = (
                ("create", "u", *_CREATE, "--like") if dice.random() < 0.5 else ("load", "u", "--at", str(slot + 1))
            )
            if command[0] == "load":
                assert _run("create", "u", *DECLARED)[0] == 0
        options = () if command[0] == "create" else ("--engine", "direct", "--json", "--")
        assert _run("erase", "t")[0] == 0  # which an update does first, whatever comes of the batch
        before, started, memory = state_of(tmp_path / "w"), time.monotonic(), peak_bytes()

        code, out, told = _run(*command, *options, f"./{bad.name}" if command[0] == "create" else bad.name)

        assert code in codes, (number, bad.what, told)
        assert "Traceback" not in told
        assert "inside Ebb" not in told, (number, bad.what, told)
        assert time.monotonic() - started < _MOST_SECONDS, (number, bad.what)
        assert peak_bytes() - memory < _MOST_BYTES, (number, bad.what)
        assert CANARY not in told or not bad.has_header, (number, bad.what, told)
        codes[code] += 1
        if code:
            assert told.startswith("ebb: ")
            assert told.count("\n") == 1, told
            assert state_of(tmp_path / "w") == before, (number, bad.what, told)
        elif command[0] != "create":
            report = json.loads(out)
            assert report["received"] == report["admitted"] + report["expired_on_arrival"] + report["quarantined"]
            slot += command[0] == "update"
        os.unlink(bad.name)
    assert codes[0]
    assert codes[1]
    live = json.loads(_run("status", "t", "--json")[1])["live_records"]
    shown = _run("scan", "t", "--format", "jsonl")[1].splitlines()
    assert len(shown) == live
    record_property("figures", f"fuzzed files: {count}, tracebacks 0")
