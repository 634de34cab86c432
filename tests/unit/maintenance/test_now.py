"""Reads as of the present: by the wall clock of the warehouse, and never before the table's own clock."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ebb import InputError, OpenTable, UsageError, Warehouse
from ebb.cli.main import main
from ebb.warehouse.settings import Settings
from tests.builders import NOW, integer_table, scanned_ids, timestamp_table

START = NOW - timedelta(hours=3)  # where the clock of the tables stands
MINUTES = range(0, 300, 20)


class Wall:
    """A clock on the wall that a test moves."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def table(tmp_path: Path, wall: Wall) -> OpenTable:
    """A table whose record i expires i minutes after its clock."""
    table = timestamp_table(Warehouse(Settings(warehouse=tmp_path / "w"), now=wall))
    batch = {
        "id": list(MINUTES),
        "key": ["k"] * len(MINUTES),
        "inserted": [START - timedelta(minutes=5)] * len(MINUTES),
    }
    times = pa.timestamp("us", "UTC")
    expires = pa.array([START + timedelta(minutes=minute) for minute in MINUTES], times)
    table.load(pa.table(batch).set_column(2, "inserted", pa.array(batch["inserted"], times)).append_column("expires", expires), at=START)  # fmt: skip
    return table


def _ids(found: Any) -> list[int]:
    return sorted(row for part in found for row in part["id"].to_pylist())


def _ways(table: OpenTable) -> Iterator[list[int]]:
    """Yield what every read shows as of now."""
    yield scanned_ids(table, as_of="now")
    yield sorted(table.probe("k", as_of=" NOW ")["id"].to_pylist())
    yield _ids(table.at_latest(as_of="now").scan())
    yield _ids(table.up_to_date(as_of="now").scan())
    yield _ids(table.warehouse.sql("SELECT id FROM t", as_of="now"))
    yield _ids(table.warehouse.sql_session(as_of="now").answer("SELECT id FROM t"))


@pytest.mark.parametrize("minute", [0, 1, 19, 20, 21, 59, 60, 61, 150, 299, 300])
def test_now_hides_what_has_expired_by_the_wall_clock(table: OpenTable, wall: Wall, minute: int) -> None:
    wall.now = START + timedelta(minutes=minute)

    for shown in _ways(table):
        assert shown == [i for i in MINUTES if i > minute]
    assert scanned_ids(table) == [i for i in MINUTES if i > 0], "without it, the clock counts"


def test_now_is_the_clock_where_the_clock_is_ahead_of_it(table: OpenTable, wall: Wall) -> None:
    """As in a table that replays the past with the ticks of the future."""
    wall.now = START - timedelta(days=400)
    for shown in _ways(table):
        assert shown == [i for i in MINUTES if i > 0]
    table.update(at=START + timedelta(hours=1))
    for shown in _ways(table):
        assert shown == [i for i in MINUTES if i > 60]
    with pytest.raises(InputError, match="is before the clock"):
        table.scan(as_of=wall.now)


def test_a_kept_window_that_moves_on_follows_the_clock_past_its_now(table: OpenTable, wall: Wall) -> None:
    window = table.up_to_date(as_of="now")
    table.update(at=START + timedelta(hours=1))

    assert _ids(window.scan()) == [i for i in MINUTES if i > 60]
    explicit = table.up_to_date(as_of=START + timedelta(hours=1))
    table.update(at=START + timedelta(hours=2))
    with pytest.raises(InputError, match="is before the clock"):
        explicit.scan()


def test_dates_expire_with_the_day(tmp_path: Path, wall: Wall) -> None:
    schema = "id BIGINT, key STRING, inserted DATE, expires DATE"
    table = timestamp_table(
        Warehouse(Settings(warehouse=tmp_path / "w"), now=wall),
        schema=schema,
        tick="7d",
        span="28d",
        origin="2025-12-18",
    )
    day = START.date()
    days = [day + timedelta(days=n) for n in range(-3, 5)]
    batch = {"id": list(range(-3, 5)), "key": ["k"] * 8, "inserted": [day - timedelta(days=9)] * 8, "expires": days}
    table.load(pa.table(batch), at=day - timedelta(days=7))

    assert scanned_ids(table) == list(range(-3, 5))
    assert list(_ways(table)) == [[1, 2, 3, 4]] * 6
    wall.now += timedelta(days=1)
    assert list(_ways(table)) == [[2, 3, 4]] * 6


def test_now_means_nothing_to_integers_and_the_table_is_named(table: OpenTable) -> None:
    numbers = integer_table(table.warehouse, "numbers")
    numbers.update(at=1)
    says = "time 'now' is for timestamps and dates, and table numbers counts time in integers; pass a number"

    for read in (numbers.scan, numbers.probe, numbers.at_latest, numbers.up_to_date):
        with pytest.raises(UsageError) as caught:
            read(as_of="now")
        assert str(caught.value) == says
    with pytest.raises(UsageError) as caught:
        table.warehouse.sql("SELECT count(*) FROM numbers, t", as_of="now")
    assert str(caught.value) == says


def test_a_query_that_only_looks_like_one_about_integers_is_answered(table: OpenTable) -> None:
    integer_table(table.warehouse, "n")
    session = table.warehouse.sql_session(as_of="now")

    assert session.answer("SELECT count(*) AS n FROM t").read_all()["n"].to_pylist() == [len(MINUTES) - 1]
    with pytest.raises(UsageError, match="table n counts time in integers"):
        session.answer("SELECT * FROM n")
    assert "t" in session.answer("SELECT table_name AS name FROM information_schema.tables").read_all()["name"].to_pylist()  # fmt: skip


def test_a_moment_holds_for_every_table_of_a_query(table: OpenTable) -> None:
    soon = START + timedelta(minutes=90)

    assert _ids(table.warehouse.sql("SELECT id FROM t", as_of=soon)) == [i for i in MINUTES if i > 90]
    with pytest.raises(InputError, match="is before the clock"):
        table.warehouse.sql("SELECT id FROM t", as_of="2025-01-01")
    with pytest.raises(UsageError, match="'noon' is not ISO 8601"):
        table.warehouse.sql("SELECT id FROM t", as_of="noon")


def test_the_command_line_knows_now(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    present = datetime.now(UTC)
    table = timestamp_table(Warehouse(Settings(warehouse=tmp_path / "w")))
    times = pa.timestamp("us", "UTC")
    came, dies = ([present + timedelta(minutes=m) for m in minutes] for minutes in ((-290, -290), (-20, 60)))
    batch = {"id": [1, 2], "key": ["a", "b"], "inserted": pa.array(came, times), "expires": pa.array(dies, times)}
    table.load(pa.table(batch), at=present - timedelta(hours=3))
    integer_table(table.warehouse, "numbers")

    def ids(*arguments: str) -> list[int]:
        assert main(["--warehouse", str(tmp_path / "w"), *arguments, "--format", "jsonl"]) == 0
        return sorted(json.loads(line)["id"] for line in capsysbinary.readouterr().out.splitlines())

    for command in (
        ["scan", "t"],
        ["probe", "t", "a", "b"],
        ["sql", "SELECT id FROM t"],
        ["scan", "t", "--isolation", "latest"],
    ):
        assert ids(*command) == [1, 2]
        assert ids(*command, "--as-of", "now") == [2]
        assert ids(*command, "--as-of", present.isoformat()) == [2]
    for command in (["scan", "numbers"], ["probe", "numbers", "a"], ["sql", "SELECT * FROM numbers"]):
        assert main(["--warehouse", str(tmp_path / "w"), *command, "--as-of", "now"]) == 2
        assert b"table numbers counts time in integers" in capsysbinary.readouterr().err


def test_the_prompt_reads_as_of_now_or_a_moment(
    tmp_path: Path, table: OpenTable, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command has the real wall clock, by which everything here expired long ago."""
    import io

    lines = [
        ".timing off", ".format csv", ".columns id", ".asof 2026-01-01T13:10:00Z", ".scan", ".window", "select count(*) as n from t",
        ".pin", ".asof 2026-01-01T13:30:00Z", ".scan", ".unpin", ".asof now", ".scan", ".asof off", ".scan id > 260",
    ]  # fmt: skip
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines)))

    assert main(["--warehouse", str(tmp_path / "w"), "shell", "t"]) == 0

    out, err = capsys.readouterr()
    assert err == ""
    assert out.splitlines() == [
        "id", "260", "280",
        "t at 2026-01-01T09:00:00Z, version 1: 14 live records, without what has expired at 2026-01-01T13:10:00Z",
        "n", "2", "id", "280", "id", "id", "280",
    ]  # fmt: skip


def test_the_prompt_takes_another_moment_when_the_clock_has_passed_the_last_one(
    tmp_path: Path, table: OpenTable, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def typed() -> Iterator[str]:
        yield ".asof 2026-01-01T09:30:00Z"
        table.update(at=START + timedelta(hours=1))
        yield from (
            ".scan",
            ".asof off",
            ".timing off",
            ".format csv",
            ".columns id",
            ".scan id < 100",
            ".asof",
            ".asof noon",
        )

    monkeypatch.setattr("sys.stdin", _Lines(typed()))

    assert main(["--warehouse", str(tmp_path / "w"), "shell", "t"]) == 1

    out, err = capsys.readouterr()
    assert out == "id\n80\n"
    assert [line.partition(";")[0] for line in err.splitlines()] == [
        "ebb: time 2026-01-01T09:30:00Z is before the clock 2026-01-01T10:00:00Z of table t",
        "ebb: .asof is not a command",
        "ebb: table t: time 'noon' is not ISO 8601",
    ]


class _Lines:
    """Standard input that is no terminal and comes line by line."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines

    def __iter__(self) -> Iterator[str]:
        return self._lines

    def isatty(self) -> bool:
        return False
