"""Which tick a landed file belongs to, and which updates are due: tables of cases, no files."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from ebb.index.timeline import TimeKind, Timeline
from ebb.maintenance.landing.steps import Landed, Step, due_slot, label_time, slot_of_file, steps
from ebb.warehouse.store.paths import numbered_file

HOUR = 3_600_000_000
HOURS = Timeline(kind=TimeKind.TIMESTAMP, origin=0, tick=HOUR, span=6 * HOUR)
DAYS = Timeline(kind=TimeKind.DATE, origin=0, tick=1, span=6)
NUMBERS = Timeline(kind=TimeKind.INTEGER, origin=0, tick=10, span=60)


@pytest.mark.parametrize(
    ("name", "time"),
    [
        ("2013-01-02T0600Z-anything.csv", "2013-01-02T06:00:00Z"),
        ("20130102T06.csv", "2013-01-02T06:00:00Z"),
        ("20130102_0630.csv", "2013-01-02T06:30:00Z"),
        ("2013-01-02T06:30:15Z.csv", "2013-01-02T06:30:15Z"),
        ("2013-01-02T06.30.15-cars.parquet", "2013-01-02T06:30:15Z"),
        ("2013-01-02", "2013-01-02T00:00:00Z"),
        ("2013-01-02-cars.csv", "2013-01-02T00:00:00Z"),
        ("2013-01-02.csv.gz", "2013-01-02T00:00:00Z"),
        ("cars-2013-01-02.csv", None),
        ("2013-13-02.csv", None),
        ("2013-02-30T0600Z.csv", None),
        ("2013-01-02T2500Z.csv", None),
        ("2013-01-02T0660Z.csv", None),
        ("20130102x.csv", None),
        ("0000-01-02.csv", None),
        ("2013.csv", None),
        ("", None),
    ],
)
def test_a_label_is_the_time_that_a_name_starts_with(name: str, time: str | None) -> None:
    found = label_time(name, TimeKind.TIMESTAMP)

    assert (None if found is None else TimeKind.TIMESTAMP.show_time(found)) == time


@pytest.mark.parametrize(
    ("name", "time"),
    [("40-cars.csv", 40), ("40.csv", 40), ("40", 40), ("007_x", 7), ("cars-40.csv", None), ("40x.csv", None),
     ("-40.csv", None), ("9" * 18 + ".csv", int("9" * 18)), ("9" * 19 + ".csv", None)],
)  # fmt: skip
def test_the_label_of_integers_is_a_number(name: str, time: int | None) -> None:
    assert label_time(name, TimeKind.INTEGER) == time


def test_the_label_of_dates_is_a_day() -> None:
    assert label_time("1970-01-05-cars.csv", TimeKind.DATE) == 4
    assert label_time("1970-01-05T2300Z.csv", TimeKind.DATE) == 4


@pytest.mark.parametrize(
    ("line", "name", "modified_us", "slot"),
    [
        (HOURS, "1970-01-01T0500Z.csv", 0, 5),  # the end of its tick
        (HOURS, "1970-01-01T0530Z.csv", 0, 5),  # rounded down, as --at is
        (HOURS, "cars.csv", 5 * HOUR, 5),
        (HOURS, "cars.csv", 5 * HOUR + 1, 6),
        (HOURS, "cars.csv", -1, 0),
        (DAYS, "cars.csv", 5 * 24 * HOUR + 1, 5),
        (NUMBERS, "40.csv", 0, 4),
        (NUMBERS, "49.csv", 0, 4),
        (NUMBERS, "cars.csv", 99 * HOUR, None),
    ],
)
def test_a_file_belongs_to_the_tick_of_its_name_or_of_its_last_change(
    line: Timeline, name: str, modified_us: int, slot: int | None
) -> None:
    assert slot_of_file(name, modified_us, line) == slot


def test_a_file_with_an_absurd_time_of_change_waits_instead_of_stopping_everything() -> None:
    """The year 292,277 has no datetime: the whole run ended with a ValueError."""
    assert slot_of_file("cars.csv", 2**63, HOURS) == -(-(2**63) // HOUR)


def test_the_tick_that_is_over_is_due_and_integers_wait_for_files() -> None:
    moment = datetime(1970, 1, 1, 5, 59, tzinfo=UTC)

    assert (due_slot(HOURS, moment), due_slot(DAYS, moment), due_slot(NUMBERS, moment)) == (5, 0, None)


def landed(**slots: int | None) -> list[Landed]:
    return [Landed(Path(name), slot) for name, slot in slots.items()]


def step(slot: int, *names: str) -> Step:
    return Step(slot, tuple(Path(name) for name in names))


@pytest.mark.parametrize(
    ("clock", "due", "files", "wanted"),
    [
        (None, None, {}, []),
        (None, None, {"a": None}, []),  # integers: no clock yet, and no label to set it by
        (None, None, {"a": None, "b": 7}, [step(7, "a", "b")]),
        (None, 5, {}, [step(5)]),
        (None, 5, {"a": 3}, [step(3, "a"), step(5)]),
        (None, 5, {"a": 9}, []),
        (4, None, {}, []),
        (4, None, {"a": None}, [step(5, "a")]),
        (4, None, {"a": 9, "b": 2, "c": 6}, [step(5, "b"), step(6, "c"), step(9, "a")]),
        (4, 4, {"a": 2}, []),  # late, but the next tick is not over
        (4, 3, {"a": 2}, []),  # the wall clock was set back
        (4, 5, {}, [step(5)]),
        (4, 8, {"b": 6, "a": 6, "c": 9}, [step(6, "a", "b"), step(8)]),
        (4, 8, {"a": 8}, [step(8, "a")]),
    ],
)
def test_each_tick_with_files_is_due_and_the_last_one_that_is_over(
    clock: int | None, due: int | None, files: dict[str, int | None], wanted: list[Step]
) -> None:
    assert steps(clock, due, landed(**files)) == wanted


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("cars.csv", "cars.n1.csv"),
        ("cars.csv.gz", "cars.n1.csv.gz"),
        ("cars.JSONL.GZ", "cars.n1.JSONL.GZ"),
        ("2013-01-02T06.csv", "2013-01-02T06.n1.csv"),
        ("40", "40.n1"),
        ("x.gz", "x.n1.gz"),
    ],
)
def test_a_second_file_of_one_name_gets_a_number(name: str, other: str) -> None:
    assert (numbered_file(name, 0), numbered_file(name, 1)) == (name, other)
