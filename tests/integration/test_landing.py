"""Landing folders: tick by tick, in order, exactly once, and one bad file stops nobody."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ebb import OpenTable, Warehouse
from ebb.maintenance.landing.run import Outcome, run_table
from tests.builders import integer_table, open_warehouse, records, scanned_ids, write_batch


def run(table: OpenTable, *, until: datetime | None = None, yes: bool = False, dry_run: bool = False) -> list[Outcome]:
    context = replace(table.warehouse.context(), dry_run=dry_run)
    return list(run_table(table.table.snapshot(), context, until=until or table.warehouse.now(), yes=yes))


def names(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file() and p.name != "_lock")


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    return tmp_path / "landing"


@pytest.fixture
def numbers(warehouse: Warehouse, landing: Path) -> OpenTable:
    return integer_table(warehouse, landing=str(landing), deletion_bound="4", quarantine_time="3")


def test_labelled_files_are_applied_tick_by_tick_in_order(numbers: OpenTable, landing: Path) -> None:
    write_batch(landing / "2-b.csv", records((3, "c", 2, 6)))
    write_batch(landing / "1-a.csv", records((1, "a", 1, 5)))
    write_batch(landing / "1-b.parquet", records((2, "b", 1, 4)))

    outcomes = run(numbers)

    assert [(o.slot, o.files, o.error) for o in outcomes] == [(1, 2, None), (2, 1, None)]
    assert scanned_ids(numbers) == [1, 2, 3]
    assert names(landing) == ["_applied/1/1-a.csv", "_applied/1/1-b.parquet", "_applied/2/2-b.csv"]
    assert run(numbers) == []


def test_a_late_file_joins_the_next_tick(numbers: OpenTable, landing: Path) -> None:
    numbers.update(at=3)
    write_batch(landing / "2-late.csv", records((1, "a", 2, 7)))

    outcomes = run(numbers)

    assert [o.slot for o in outcomes] == [4]
    assert scanned_ids(numbers) == [1]


def test_a_file_without_a_label_goes_into_the_next_tick(numbers: OpenTable, landing: Path) -> None:
    numbers.update(at=1)
    write_batch(landing / "cars.jsonl", records((1, "a", 2, 7)))

    assert [o.slot for o in run(numbers)] == [2]


def test_a_file_with_other_columns_is_set_aside_and_the_others_go_on(numbers: OpenTable, landing: Path) -> None:
    write_batch(landing / "1-good.csv", records((1, "a", 1, 5)))
    (landing / "1-bad.csv").write_text("id,key,inserted,expires,wrong\n", encoding="utf-8")
    (landing / "1-notes.txt").write_text("hello", encoding="utf-8")
    write_batch(landing / "2-good.csv", records((2, "b", 2, 6)))

    outcomes = run(numbers)

    assert [o.slot for o in outcomes if o.set_aside] == [1, 1]
    assert scanned_ids(numbers) == [1, 2]
    told = [json.loads(line) for line in (landing / "_refused/2/_reasons.jsonl").read_text().splitlines()]
    reasons = {entry["files"][0]: entry["reason"] for entry in told}
    assert "column wrong is not in the table" in reasons["1-bad.csv"]
    assert "format" in reasons["1-notes.txt"]


def test_a_batch_that_was_taken_before_a_crash_is_applied_once(numbers: OpenTable, landing: Path) -> None:
    write_batch(landing / "_taken/1/1-a.csv", records((1, "a", 1, 5)))

    assert [o.slot for o in run(numbers)] == [1]
    assert scanned_ids(numbers) == [1]

    write_batch(landing / "_taken/1/1-a.csv", records((1, "a", 1, 5)))
    again = run(numbers)

    assert [o.report.already_applied for o in again if o.report] == [True]
    assert scanned_ids(numbers) == [1]
    assert not list((landing / "_taken").iterdir())


def test_a_taken_batch_whose_tick_has_passed_joins_the_next_tick(numbers: OpenTable, landing: Path) -> None:
    numbers.update(at=3)
    write_batch(landing / "_taken/2/2-a.csv", records((1, "a", 2, 7)))

    outcomes = run(numbers)

    assert [o.slot for o in outcomes] == [4]
    assert scanned_ids(numbers) == [1]


def test_a_jump_that_would_empty_the_table_waits_with_its_files(numbers: OpenTable, landing: Path) -> None:
    numbers.update(write_batch(landing.parent / "first.csv", records((1, "a", 1, 3))), at=1)
    write_batch(landing / "9-a.csv", records((2, "b", 9, 12)))

    (held,) = run(numbers)
    assert held.error is not None
    assert "would expire the only live record" in held.error
    assert held.set_aside is None
    assert names(landing) == ["_taken/9/9-a.csv"]

    assert [o.error for o in run(numbers, yes=True)] == [None]
    assert scanned_ids(numbers) == [2]


def test_applied_and_refused_files_are_erased_with_the_quarantines_time(numbers: OpenTable, landing: Path) -> None:
    write_batch(landing / "1-a.csv", records((1, "a", 1, 7)))
    (landing / "1-bad.csv").write_text("nothing\n", encoding="utf-8")
    run(numbers)
    assert len(names(landing)) == 3

    for slot in (2, 3, 4):
        write_batch(landing / f"{slot}-a.csv", records((slot, "a", slot, slot + 6)))
        run(numbers)

    assert not [name for name in names(landing) if name.startswith(("_applied/1/", "_refused/1/"))]


def test_a_dry_run_shows_the_ticks_and_moves_nothing(numbers: OpenTable, landing: Path) -> None:
    write_batch(landing / "1-a.csv", records((1, "a", 1, 5)))

    outcomes = run(numbers, dry_run=True)

    assert [(o.slot, o.files, o.report) for o in outcomes] == [(1, 1, None)]
    assert names(landing) == ["1-a.csv"]
    assert numbers.table.snapshot().ledger.clock is None


def test_ticks_without_files_are_caught_up_to_now_and_files_count_by_their_last_change(tmp_path: Path) -> None:
    noon = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
    landing = tmp_path / "landing"
    table = open_warehouse(tmp_path / "w", noon).create(
        "hours", schema="key STRING, came TIMESTAMP, goes TIMESTAMP", key=["key"], inserted="came", expires="goes",
        tick="1h", span="8h", landing=str(landing),
    )  # fmt: skip
    table.update(at=noon - timedelta(hours=4))
    came = noon - timedelta(hours=2, minutes=30)
    file = landing / "cars.csv"
    file.write_text(f"key,came,goes\na,{came:%FT%TZ},{came + timedelta(hours=7):%FT%TZ}\n", encoding="utf-8")
    os.utime(file, (came.timestamp(), came.timestamp()))

    outcomes = run(table)

    assert [o.report.time for o in outcomes if o.report] == ["2026-01-01T10:00:00Z", "2026-01-01T12:00:00Z"]
    assert table.probe("a").num_rows == 1
    assert table.status().ticks_behind == 0


def test_an_earlier_moment_replays_the_past_up_to_it(tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    table = open_warehouse(tmp_path / "w").create(
        "hours", schema="key STRING, came TIMESTAMP, goes TIMESTAMP", key=["key"], inserted="came", expires="goes",
        tick="1h", span="8h", landing=str(landing),
    )  # fmt: skip
    for hour in (1, 2, 3):
        text = f"key,came,goes\nk{hour},2013-01-01T0{hour}:00:00Z,2013-01-01T08:00:00Z\n"
        (landing / f"2013-01-01T0{hour}00Z.csv").write_text(text, encoding="utf-8")

    outcomes = run(table, until=datetime(2013, 1, 1, 2, 30, tzinfo=UTC))

    assert [o.report.time for o in outcomes if o.report] == ["2013-01-01T01:00:00Z", "2013-01-01T02:00:00Z"]
    assert names(landing)[0] == "2013-01-01T0300Z.csv"
