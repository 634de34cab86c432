"""Names of files that somebody else chose (P27): each is applied or set aside alone, and told without obeying it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ebb.cli.main import main
from ebb.maintenance.landing_place import kept_files
from tests.builders import integer_table, open_warehouse, scanned_ids

_GOOD = b"id,key,inserted,expires,pay\n%d,a,1,5,x\n"
NAMES = [
    b"plain.csv", b"-rf.csv", b"--at.csv", b"a b.csv", b"a\nb.csv", b"a\r\x1b]0;owned\x07.csv", b"\x7f.csv", "é\u202e.csv".encode(),
    b"\xff\xfe.csv", b"\xc3(.csv", b"x" * 251 + b".csv", b"y" * 247 + b".csv.gz", b"$(id).csv", b"'\"`;.csv", b"%s{0}.csv", b"*.csv", b"[a].csv",
    b"~.csv", b"a:b.csv", b"99999999999999999999.csv", b"1-a.csv", b"-1.csv", b".hidden.csv", b"_taken.csv", b"a.csv.part",
    b"a.exe", b"noend", b"..csv", b"...csv", b"a.CSV", b"a\\b.csv",
]  # fmt: skip


def test_every_name_is_applied_or_set_aside_and_none_is_obeyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    landing = tmp_path / "landing"
    table = integer_table(open_warehouse(tmp_path / "w"), landing=str(landing), quarantine_time="3")
    for number, name in enumerate(NAMES):
        with open(os.fsencode(landing) + b"/" + name, "wb") as file:
            file.write(_GOOD % number)
    os.mkfifo(landing / "pipe.csv")
    (landing / "loop.csv").symlink_to("loop.csv")
    (landing / "device.csv").symlink_to("/dev/zero")
    monkeypatch.setenv("EBB_WAREHOUSE", str(tmp_path / "w"))
    monkeypatch.setenv("EBB_ENGINE", "direct")

    code = main(["run", "--once"])

    told = capsys.readouterr()
    assert code in (0, 1)
    assert "Traceback" not in told.err
    assert "inside Ebb" not in told.err
    for sign in ("\x1b", "\x07", "\u202e", "\x7f", "\r"):
        assert sign not in told.out + told.err
    kept = kept_files(str(landing))
    assert kept is not None
    left = {b".hidden.csv", b"_taken.csv", b"a.csv.part", b"pipe.csv", b"loop.csv", b"device.csv", b"..csv", b"...csv"}
    there = {name for name in os.listdir(os.fsencode(landing)) if not name.startswith(b"_") or name == b"_taken.csv"}
    assert there - {b"99999999999999999999.csv"} <= left, "the rest has been taken"
    assert len(scanned_ids(table)) == kept.applied
    assert kept.applied + kept.refused + len(there - {b"pipe.csv", b"loop.csv", b"device.csv"}) == len(NAMES)
    assert kept.taken == 0
    assert kept.applied > 15
    assert main(["status", "t", "--json"]) == 0
    assert main(["run", "--once", "--json"]) in (0, 1)
    assert "inside Ebb" not in capsys.readouterr().err
