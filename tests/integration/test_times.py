"""Times (P6, P15): UTC everywhere, exact between ticks, and no wall clock revives, hides or loses a record."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from ebb import Warehouse
from ebb.index.errors import InputError, NotDueError, OverDeletionError
from tests.builders import (
    NOW,
    data_files,
    integer_table,
    open_warehouse,
    records,
    scanned,
    scanned_ids,
    timestamp_table,
    version_of,
    write_batch,
)
from tests.integration.zones import START, story

HEAD = "id,key,inserted,expires\n"


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> dict[str, Any]:
    return story(tmp_path_factory.mktemp("here"), spark)


def test_hours_go_on_as_hours_over_a_change_to_summer_time(told: dict[str, Any]) -> None:
    first = (START - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(hours=1)
    hours = told["hours"]
    reports = [hours[i : i + 6] for i in range(0, 36, 6)]
    for hour, (slot, time, admitted, expired, reasons, shown) in enumerate(reports):
        assert slot == first + hour
        assert time == (START + timedelta(hours=hour)).isoformat().replace("+00:00", "Z")
        assert admitted == 3
        assert expired == (3 if hour > 1 else 0)
        assert reasons == {"inserted in the future": 1}
        assert [row["id"] for row in shown] == sorted(10 * h + i for h in (hour - 1, hour) if h >= 0 for i in (0, 1, 3))
    # Of the hours that end at 08:00 and 09:00, as of 10:30 only what was inserted after 8:30 is left.
    assert [row["id"] for row in hours[36]] == [50, 51]
    assert hours[36][1]["inserted"] == "2013-03-10T08:59:59.999999Z"
    assert told["sql"][0] == ["40", "2013-03-10 08:00:00", "10", "2013-03-10"]


def test_days_are_days_of_utc(told: dict[str, Any]) -> None:
    days = told["days"]
    assert [days[i] for i in (1, 6, 11)] == ["2013-03-09", "2013-03-10", "2013-03-11"]
    assert [days[i] for i in (2, 7, 12)] == [3, 3, 3]
    assert days[-2:] == [[101, 102], [110, 111, 112]]


@pytest.mark.parametrize(
    ("zone", "language", "seed"), [("America/New_York", "de_DE.UTF-8", "1"), ("Asia/Kathmandu", "C", "4711")]
)
def test_the_zone_language_and_hash_seed_of_a_process_change_nothing(
    zone: str, language: str, seed: str, told: dict[str, Any], tmp_path: Path
) -> None:
    environment = os.environ | {"TZ": zone, "LANG": language, "LC_ALL": language, "PYTHONHASHSEED": seed}
    command = [sys.executable, "-m", "tests.integration.zones", str(tmp_path / "there")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == json.loads(json.dumps(told))


def test_as_of_hides_exactly_by_expiration_time_and_never_goes_before_the_clock(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    table = timestamp_table(warehouse)
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    ends = [noon + timedelta(microseconds=n) for n in (1, 2, 1_800_000_000, 3_600_000_000, 3_600_000_001)]
    lines = [f"{i},k,2026-01-01 11:30:00,{end.isoformat()}\n" for i, end in enumerate(ends)]
    (tmp_path / "b.csv").write_text(HEAD + "".join(lines))
    table.update(tmp_path / "b.csv", at=noon)

    assert scanned_ids(table) == scanned_ids(table, as_of=noon) == [0, 1, 2, 3, 4]
    for i, end in enumerate(ends):
        for moment, first in ((end, i + 1), (end - timedelta(microseconds=1), i)):
            wanted = [n for n, other in enumerate(ends) if other > moment]
            assert wanted == list(range(first, 5))
            shapes: list[Any] = [moment, moment.isoformat(), moment.replace(tzinfo=None)]
            shapes.append(moment.astimezone(timezone(timedelta(hours=-5))))
            for shape in shapes:
                assert scanned_ids(table, as_of=shape) == wanted
                assert sorted(table.probe("k", as_of=shape)["id"].to_pylist()) == wanted
    with pytest.raises(InputError, match="is before the clock"):
        table.at_latest(noon - timedelta(microseconds=1))
    assert version_of(table) == 1


def test_as_of_is_exact_for_integers_and_dates_too(warehouse: Warehouse, tmp_path: Path) -> None:
    numbers = integer_table(warehouse, "numbers", tick="10", span="60")
    numbers.update(write_batch(tmp_path / "n.csv", records(*((i, "k", 50, 51 + i) for i in range(15)))), at=50)
    for moment in range(50, 70):
        assert scanned_ids(numbers, as_of=moment) == [i for i in range(15) if 51 + i > moment]
    with pytest.raises(InputError):
        numbers.at_latest(49)

    wish = {"key": ["key"], "inserted": "inserted", "expires": "expires", "tick": "7d", "span": "28d"}
    weeks = warehouse.create("weeks", schema="id INT, key STRING, inserted DATE, expires DATE", **wish)
    lines = [f"{i},k,2026-01-01,{date(2026, 1, 2) + timedelta(days=i)}\n" for i in range(10)]
    (tmp_path / "d.csv").write_text(HEAD + "".join(lines))
    assert weeks.update(tmp_path / "d.csv", at="2026-01-01").time == "2026-01-01"
    for day in range(10):
        shown = scanned_ids(weeks, as_of=date(2026, 1, 1) + timedelta(days=day))
        assert shown == [i for i in range(10) if i + 1 > day]


@pytest.mark.parametrize("kind", ["INT", "DATE", "TIMESTAMP"])
def test_sql_over_a_window_of_a_moment_hides_what_has_expired_by_then(
    warehouse: Warehouse, tmp_path: Path, kind: str
) -> None:
    """SQL ignored the moment, although its cache of windows knew it."""
    unit = "" if kind == "INT" else "d"
    wish = {"key": ["key"], "inserted": "inserted", "expires": "expires", "tick": f"7{unit}", "span": f"28{unit}"}
    table = warehouse.create("t", schema=f"id INT, key STRING, inserted {kind}, expires {kind}", **wish)

    def day(number: int) -> int | date:
        return number if kind == "INT" else date(2026, 1, 1) + timedelta(days=number)

    lines = [f"{i},k,{day(0)},{day(i + 1)}\n" for i in range(10)]
    (tmp_path / "d.csv").write_text(HEAD + "".join(lines))
    table.update(tmp_path / "d.csv", at=day(0))
    moment: int | date = day(0)
    session = warehouse.sql_session(lambda _: table.at_latest(as_of=moment))

    for number in range(10):
        moment = day(number)
        shown = session.answer("SELECT id FROM t WHERE id < 9 ORDER BY id").read_all()["id"].to_pylist()
        assert shown == [i for i in range(9) if i + 1 > number]


def _hourly(folder: Path, *hours: int) -> list[Path]:
    files = []
    for hour in hours:
        file = folder / f"{hour}.csv"
        file.write_text(f"{HEAD}{hour},k,2026-01-01 {hour - 1:02}:30:00,2026-01-01 {hour + 4}:00:00\n")
        files.append(file)
    return files


def test_a_wall_clock_set_back_neither_revives_nor_hides_nor_updates(tmp_path: Path) -> None:
    table = timestamp_table(open_warehouse(tmp_path / "w"))
    files = _hourly(tmp_path, 7, 8, 12, 13)
    table.update(files[0], at="2026-01-01T07:00:00Z")
    table.update(files[1], at="2026-01-01T08:00:00Z")
    table.update(files[2], catch_up=True, yes=True)
    before = (version_of(table), scanned(table), data_files(table))
    assert scanned_ids(table) == [12]

    for back in (timedelta(0), timedelta(microseconds=1), timedelta(hours=1), timedelta(days=1), timedelta(days=4000)):
        earlier = open_warehouse(tmp_path / "w", NOW - back).table("t")
        for batch in (None, files[3]):
            with pytest.raises(NotDueError):
                earlier.update(batch)
            with pytest.raises(NotDueError):
                earlier.update(batch, catch_up=True, yes=True)
        assert earlier.update(files[2]).already_applied
        assert earlier.erase().files_erased == 0
        assert (version_of(earlier), scanned(earlier), data_files(earlier)) == before
        assert earlier.status().ticks_behind == 0


def test_a_wall_clock_set_forward_moves_one_tick_at_a_time_and_empties_nothing_unasked(tmp_path: Path) -> None:
    table = timestamp_table(open_warehouse(tmp_path / "w"))
    files = _hourly(tmp_path, 12, 13, 14)
    table.update(files[0])
    later = open_warehouse(tmp_path / "w", NOW + timedelta(days=365)).table("t")
    version = version_of(later)

    assert scanned_ids(later) == [12]
    assert later.status().ticks_behind == 365 * 24
    with pytest.raises(OverDeletionError) as caught:
        later.update(files[1], catch_up=True)
    assert caught.value.args[1:] == (365 * 24, 1)
    assert version_of(later) == version

    assert later.update(files[1]).time == "2026-01-01T13:00:00Z"
    assert scanned_ids(later) == [12, 13]
    # The clock on the wall is right again: it is noon, the table is an hour ahead and waits.
    with pytest.raises(NotDueError):
        table.update(files[2])
    assert scanned_ids(table) == [12, 13]
    assert open_warehouse(tmp_path / "w", NOW + timedelta(hours=2)).table("t").update(files[2]).admitted == 1


def test_the_same_instant_twice_is_one_tick(tmp_path: Path) -> None:
    table = timestamp_table(open_warehouse(tmp_path / "w"))
    assert table.update().ticks == 1
    with pytest.raises(NotDueError):
        table.update()
    assert table.update(at=NOW).already_applied
    assert table.update(at=NOW + timedelta(minutes=59, seconds=59, microseconds=999999)).already_applied
    assert table.update(at=NOW + timedelta(hours=1)).ticks == 1
