"""ebb changes: what it prints, what it keeps, how it ends, and what it refuses."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ebb import OpenTable
from tests.builders import arrow_batch, integer_table, open_warehouse
from tests.crash.processes import Process, until
from tests.model import Record
from tests.unit.cli.command import Command


@pytest.fixture
def ebb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(tmp_path / "w", capsys)


@pytest.fixture
def table(ebb: Command) -> OpenTable:
    """Return a table with a record in each of four slots, of which two have expired."""
    found = integer_table(open_warehouse(ebb.root), reader_time="30", deletion_bound="40")
    for slot in range(1, 5):
        found.update(arrow_batch([Record(slot, f"k{slot}", slot, slot + 2)]), at=slot)
    return found


def lines(text: str) -> list[tuple[Any, ...]]:
    rows = [json.loads(line) for line in text.splitlines()]
    return [(row["_change"], row["_slot"], row["id"]) for row in rows]


EVERYTHING = [
    ("admitted", 1, 1), ("admitted", 2, 2), ("expired", 3, 1), ("admitted", 3, 3), ("expired", 4, 2), ("admitted", 4, 4),
]  # fmt: skip
ADMITTED = [row for row in EVERYTHING if row[0] == "admitted"]


def test_a_table_for_people_is_the_default(ebb: Command, table: OpenTable) -> None:
    out = ebb.right("changes", "t", "--since", "start", "--expiries", "--columns", "id,key").out

    assert out.splitlines()[0].split() == ["_change", "_version", "_slot", "id", "key"]
    assert out.endswith("(6 records)\n")


def test_every_format_has_the_same_records_in_order(ebb: Command, table: OpenTable, tmp_path: Path) -> None:
    assert lines(ebb.right("changes", "t", "--since", 0, "--expiries", "--format", "jsonl").out) == EVERYTHING
    for suffix in ("csv", "jsonl", "parquet", "arrow"):
        file = tmp_path / f"changes.{suffix}"
        assert ebb.right("changes", "t", "--since", 0, "--expiries", "--output", file).out == ""
        match suffix:
            case "csv":
                rows = [line.split(",")[0] for line in file.read_text(encoding="utf-8").splitlines()[1:]]
            case "jsonl":
                rows = [row[0] for row in lines(file.read_text(encoding="utf-8"))]
            case "parquet":
                rows = pq.read_table(file)["_change"].to_pylist()
            case _:
                rows = pa.ipc.open_stream(file.read_bytes()).read_all()["_change"].to_pylist()
        assert rows == [row[0] for row in EVERYTHING]


def test_a_limit_stops_reading(ebb: Command, table: OpenTable) -> None:
    assert lines(ebb.right("changes", "t", "--since", 0, "--limit", 3, "--format", "jsonl").out) == ADMITTED[:3]


def test_a_token_is_kept_and_gone_on_after(ebb: Command, table: OpenTable, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    first = ebb.right("changes", "t", "--since", "slot:1", "--resume", kept).out
    token = kept.read_text(encoding="ascii").strip()
    table.update(arrow_batch([Record(5, "k", 5, 8)]), at=5)
    second = ebb.right("changes", "t", "--since", "start", "--resume", kept).out

    assert lines(first) == ADMITTED[1:]
    assert lines(second) == [("admitted", 5, 5)], "--since is for the first time only"
    assert lines(ebb.right("changes", "t", "--since", token, "--format", "jsonl").out) == [("admitted", 5, 5)]
    assert kept.read_text(encoding="ascii").strip().split("-")[1] == token.split("-")[1]
    assert not list(tmp_path.glob(".kept*"))


def test_a_file_of_changes_is_complete_before_its_token_is_kept(ebb: Command, table: OpenTable, tmp_path: Path) -> None:
    kept, file = tmp_path / "kept", tmp_path / "no" / "changes.csv"
    message = ebb.wrong("changes", "t", "--since", 0, "--resume", kept, "--output", file, code=1)

    assert "there is no folder" in message
    assert kept.read_text(encoding="ascii").startswith("0-")
    file.parent.mkdir()
    ebb.right("changes", "t", "--resume", kept, "--output", file)
    assert file.read_text(encoding="utf-8").count("\n") == 1 + len(ADMITTED)
    assert kept.read_text(encoding="ascii").startswith(f"{table.table.snapshot().version}-")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["t"], "changes needs to know where to start; pass --since, for example --since start"),
        (["t", "--since", "x"], "'x' is no position in a table; pass a version, slot:N, time:N, start, or a token"),
        (["t", "--since", "2026-01-01"], "'2026-01-01' is no position"),
        (["t", "--since", "slot:"], "'slot:' is no position"),
        (["t", "--since", "time:x"], "time 'x' is not an integer"),
        (["t", "--since=-1"], "'-1' is no position"),
        (["t", "--since", ""], "'' is no position"),
        (["t", "--since", "1", "--columns", "nope"], "has no column 'nope'"),
        (["t", "--since", "1", "--follow", "--format", "parquet"], "--format parquet is complete only at the end"),
        (["t", "--since", "1", "--follow", "--format", "table"], "--format table is complete only at the end"),
        (["t", "--since", "1", "--follow", "--output", "x.csv"], "--output is complete only at the end"),
        (["t", "--since", "1", "--resume", "k", "--limit", "1"], "--limit may leave some of it out"),
        (["t", "--since", "1", "--resume", "k", "--format", "table"], "--format table may leave some of it out"),
        (["t", "--since", "1", "--resume", "k", "--format", "parquet"], "pass --output FILE"),
        (["t", "--since", "1", "--output", "x.odd"], "the name x.odd tells no format"),
    ],
)
def test_wrong_usage_is_refused(ebb: Command, table: OpenTable, arguments: list[str], message: str) -> None:
    assert message in ebb.wrong("changes", *arguments, code=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope", "--since", "1"], "there is no table nope"),
        (["t", "--since", "999"], "version 999 is after the newest version"),
        (["t", "--since", "slot:9"], "slot 9 (9) of table t has not come: its clock is at 4, 4"),
        (["t", "--since", "1-" + "a" * 32], "the token is of another table, or of one called t that was dropped since; pass --since start"),
        (["t", "--since", "0", "--resume", "no/such/folder/k"], "the token cannot be kept in no/such/folder/k"),
        (["t", "--since", "0", "--resume", "."], "the token cannot be read"),
    ],
)  # fmt: skip
def test_what_the_table_does_not_have_is_refused(
    ebb: Command, table: OpenTable, arguments: list[str], message: str
) -> None:
    assert message in ebb.wrong("changes", *arguments, code=1)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", 2),
        (b"nonsense", 2),
        (b"\xff\x00", 2),
        (b"12", 2),
        (b"1-" + b"b" * 32 + b" more", 2),
        (b"1-" + b"b" * 32, 1),
    ],
)
def test_a_file_that_holds_no_token_of_the_table_is_refused(
    ebb: Command, table: OpenTable, tmp_path: Path, content: bytes, code: int
) -> None:
    kept = tmp_path / "kept"
    kept.write_bytes(content)

    said = ebb.wrong("changes", "t", "--since", "start", "--resume", kept, code=code)
    assert f"{kept} holds no token" in said if code == 2 else "the token is of another table" in said
    assert kept.read_bytes() == content


def test_a_token_that_was_kept_with_other_changes_is_refused(ebb: Command, table: OpenTable, tmp_path: Path) -> None:
    """A service that lost --expiries in an edit of its unit missed every expiry, in silence."""
    kept = tmp_path / "kept"
    ebb.right("changes", "t", "--since", "start", "--expiries", "--resume", kept)
    said = ebb.wrong("changes", "t", "--resume", kept, code=2)

    assert said.startswith(
        f"{kept} was kept with --expiries, and going on without them would leave some out in silence; pass"
    )
    assert ebb.right("changes", "t", "--expiries", "--resume", kept, "--columns", "id").out == ""
    kept.unlink()
    ebb.right("changes", "t", "--since", "start", "--resume", kept)
    assert "was kept without --expiries" in ebb.wrong("changes", "t", "--expiries", "--resume", kept, code=2)


def test_a_file_that_goes_on_replaces_none(ebb: Command, table: OpenTable, tmp_path: Path) -> None:
    """The file of the first run was replaced by that of the second, and its changes were in neither."""
    kept, file = tmp_path / "kept", tmp_path / "changes.csv"
    ebb.right("changes", "t", "--since", "start", "--resume", kept, "--output", file)
    first, token = file.read_bytes(), kept.read_bytes()
    table.update(at=5)

    assert f"{file} is there" in ebb.wrong("changes", "t", "--resume", kept, "--output", file, code=2)
    assert (file.read_bytes(), kept.read_bytes()) == (first, token)
    ebb.right("changes", "t", "--resume", kept, "--output", "/dev/null", "--format", "csv")


def test_whoever_comes_too_late_is_told_the_oldest_version(ebb: Command, tmp_path: Path) -> None:
    table = integer_table(
        open_warehouse(ebb.root), policy="2x1", strategy="retire", deletion_bound="6", reader_time="1"
    )
    for slot in range(1, 9):
        table.update(arrow_batch([Record(slot, "k", slot, slot + 2)]), at=slot)

    message = ebb.wrong("changes", "t", "--since", 0, "--format", "csv", code=1)

    oldest = message.rsplit("--since ", 1)[1].split(";")[0]
    assert message.startswith("the changes of table t after version 0 are no longer all there; those after version ")
    assert message.endswith("what is live is in ebb scan t")
    assert ebb.right("changes", "t", "--since", oldest).out
    assert "the changes and expiries of table t after version 0" in ebb.wrong(
        "changes", "t", "--since", 0, "--expiries", code=1
    )

    kept = tmp_path / "kept"
    kept.write_text(table.changes("start").token.replace(f"{table.changes('start').version}-", "0-"), encoding="ascii")
    said = ebb.wrong("changes", "t", "--resume", kept, "--since", oldest, code=1)
    assert f"are: remove {kept}, or pass to --resume a file that is not there yet, and pass --since {oldest};" in said
    kept.unlink()
    assert ebb.right("changes", "t", "--resume", kept, "--since", oldest).out


def follow(root: Path, *more: str) -> Process:
    return Process(["-m", "ebb.cli.main", "--warehouse", str(root), "changes", "t", "--follow", *more])


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_follower_prints_what_comes_and_ends_quietly(
    table: OpenTable, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    process = follow(table.warehouse.root, "--since", "slot:3", "--expiries", "--resume", str(tmp_path / "kept"))
    assert process.heard('{"_change": "admitted"').count('"id": 4')
    table.update(arrow_batch([Record(5, "k", 5, 8)]), at=5)
    process.lines.clear()
    assert '"id": 3' in process.heard('{"_change": "expired"')
    assert '"id": 5' in process.heard('{"_change": "admitted"')
    updated = next(commit.version for commit in table.history() if commit.op == "update")
    until(
        lambda: (tmp_path / "kept").read_text(encoding="ascii").startswith(f"{updated}-"), seconds=20, what="the token"
    )
    process.process.send_signal(number)

    assert process.end() == code
    assert process.errors == []


def test_a_follower_whose_reader_is_gone_ends(table: OpenTable) -> None:
    command = [sys.executable, "-m", "ebb.cli.main", "--warehouse", str(table.warehouse.root)]
    with subprocess.Popen([*command, "changes", "t", "--since", "0", "--follow"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        table.update(arrow_batch([Record(5, "k", 5, 8)]), at=5)

        assert process.wait(30) == 0


def test_a_pipe_can_be_read_as_an_arrow_stream(table: OpenTable) -> None:
    command = [sys.executable, "-m", "ebb.cli.main", "--warehouse", str(table.warehouse.root)]
    arrow = ["changes", "t", "--since", "0", "--format", "arrow"]
    done = subprocess.run([*command, *arrow], capture_output=True, check=True)

    assert pa.ipc.open_stream(io.BytesIO(done.stdout)).read_all()["id"].to_pylist() == [1, 2, 3, 4]
