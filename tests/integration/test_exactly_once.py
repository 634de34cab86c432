"""Exactly once (P9, P20): a batch has one effect however often and in whatever shape it comes; the clock only goes on."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ebb import OpenTable
from ebb.index.errors import AppliedSlotError, InputError, JumpError, NotDueError, OverDeletionError, UsageError
from tests.builders import (
    NOW,
    SCHEMA,
    arrow_batch,
    data_files,
    integer_table,
    open_warehouse,
    records,
    refused_records,
    scanned_ids,
    timestamp_table,
    version_of,
    write_batch,
)
from tests.model import Record

FIRST = records((1, "a", 5, 8), (2, "b", 5, 9), (3, "a", 4, 7), (4, "ü", 5, 11), (5, "", 5, 10), (6, None, 5, 10))
SECOND = records((11, "a", 6, 9), (12, "c", 6, 12), (13, "c", 6, 6))


@dataclass(frozen=True)
class Applied:
    """A table to which FIRST was applied at slot 5 and SECOND at slot 6; nothing in this module may change it."""

    table: OpenTable
    version: int
    ids: list[int]
    files: list[str]

    def is_unchanged(self) -> bool:
        now = open_warehouse(self.table.warehouse.root).table("t")
        return (version_of(now), scanned_ids(now), data_files(now)) == (self.version, self.ids, self.files)


@pytest.fixture(scope="module")
def applied(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> Applied:
    folder = tmp_path_factory.mktemp("applied")
    table = integer_table(open_warehouse(folder / "w"))
    table.update(write_batch(folder / "first.parquet", FIRST), at=5)
    table.update(write_batch(folder / "second.parquet", SECOND), at=6)
    return Applied(table, version_of(table), scanned_ids(table), data_files(table))


def _split(folder: Path, spark: Any) -> list[Path]:
    return [write_batch(folder / f"part{i}.parquet", FIRST[i::3]) for i in range(3)]


def _mixed(folder: Path, spark: Any) -> Path:
    for i, name in enumerate(("a.parquet", "b.csv", "c.jsonl", "d.csv.gz")):
        write_batch(folder / "mixed" / name, FIRST[i::4])
    return folder / "mixed"


def _frame(folder: Path, spark: Any) -> Any:
    rows = [(r.id, r.key, r.inserted, r.expires, f"p{r.id}") for r in reversed(FIRST)]
    return spark.createDataFrame(rows, SCHEMA)


SHAPES: dict[str, Callable[[Path, Any], Any]] = {
    "the same file": lambda folder, _: write_batch(folder / "again.parquet", FIRST),
    "in another order": lambda folder, _: write_batch(folder / "turned.parquet", FIRST[::-1]),
    "split in three files": _split,
    "as CSV": lambda folder, _: write_batch(folder / "again.csv", FIRST),
    "as JSON lines": lambda folder, _: write_batch(folder / "again.jsonl", FIRST),
    "as packed JSON lines": lambda folder, _: write_batch(folder / "again.jsonl.gz", FIRST),
    "split in four formats": _mixed,
    "as a DataFrame": _frame,
    "as Arrow": lambda _, __: arrow_batch(FIRST[::-1]),
}


# A batch is recognised under every slot that was applied; one shape is enough for those where it was not.
@pytest.mark.parametrize(
    ("shape", "at"),
    [*((shape, at) for shape in SHAPES for at in (None, 5)), ("as CSV", 6)],
)
def test_the_same_records_again_are_recognised_in_any_shape_and_change_nothing(
    applied: Applied, shape: str, at: int | None, tmp_path: Path, spark: Any
) -> None:
    report = applied.table.update(SHAPES[shape](tmp_path, spark), at=at)

    assert report.already_applied
    assert (report.slot, report.ticks, report.received, report.admitted) == (5, 0, len(FIRST), 0)
    assert report.version == applied.version
    assert report.live == len(applied.ids)
    assert applied.is_unchanged()


def test_a_repeat_does_not_fill_the_quarantine_again(applied: Applied, tmp_path: Path) -> None:
    before = refused_records(applied.table.table)
    applied.table.update(write_batch(tmp_path / "again.csv", FIRST))

    assert [refused.reason for refused in before] == ["key key is null", "expires at or before its insertion"]
    assert refused_records(applied.table.table) == before


def test_a_repeat_is_recognised_after_a_restart(applied: Applied, tmp_path: Path) -> None:
    again = open_warehouse(applied.table.warehouse.root).table("t")

    assert again.update(write_batch(tmp_path / "again.jsonl", SECOND)).already_applied
    assert again.load(write_batch(tmp_path / "again.jsonl", FIRST)).already_applied
    assert applied.is_unchanged()


def _changed(at: int, **values: Any) -> list[Record]:
    return [replace(record, **values) if i == at else record for i, record in enumerate(FIRST)]


MUTATIONS: dict[str, Sequence[Record]] = {
    "a record less": FIRST[1:],
    "a record more": [*FIRST, Record(7, "x", 5, 8)],
    "a record twice": [*FIRST, FIRST[0]],
    "another id": _changed(0, id=99),
    "another key": _changed(0, key="A"),
    "another insertion time": _changed(2, inserted=5),
    "another expiration time": _changed(0, expires=9),
    "a null for a value": _changed(3, key=None),
    "a value for a null": _changed(5, key="null"),
    "an empty text for a null": _changed(5, key=""),
    "two expirations swapped": [*_changed(0, expires=9)[:1], *_changed(1, expires=8)[1:]],
    "the other batch's records too": [*FIRST, *SECOND],
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_other_content_for_a_slot_that_was_applied_is_refused(applied: Applied, mutation: str, tmp_path: Path) -> None:
    file = write_batch(tmp_path / "other.parquet", MUTATIONS[mutation])
    for slot in (5, 6, 1, -3) if mutation == "another key" else (5,):
        with pytest.raises(AppliedSlotError) as caught:
            applied.table.update(file, at=slot)

        assert caught.value.args[0] == slot
        assert caught.value.args[2] == 6
    assert applied.is_unchanged()


def test_an_empty_batch_for_a_slot_that_had_records_is_refused(applied: Applied, tmp_path: Path) -> None:
    batches: list[Any] = [None, [], write_batch(tmp_path / "header.csv", [])]
    for batch in batches:
        with pytest.raises(AppliedSlotError, match="other records were applied there"):
            applied.table.update(batch, at=5)
    assert applied.is_unchanged()


def test_a_value_that_moves_to_another_column_makes_another_batch(tmp_path: Path) -> None:
    """Spark's hash skips nulls: (x, null) and (null, x) had one digest, and the second batch was taken for the first."""
    schema = "key STRING, a STRING, b STRING, n ARRAY<INT>, s STRUCT<p:INT,q:INT>, inserted BIGINT, expires BIGINT"
    table = integer_table(open_warehouse(tmp_path / "w"), schema=schema)
    base = {"key": "k", "a": None, "b": None, "n": [1], "s": {"p": 1, "q": 1}, "inserted": 5, "expires": 9}
    batches: list[dict[str, Any]] = [
        base | {"a": "x"},
        base | {"b": "x"},
        base | {"n": [None, 1]},
        base | {"n": [1, None]},
        base | {"s": {"p": 1, "q": None}},
        base | {"s": {"p": None, "q": 1}},
        base | {"s": None},
    ]
    for number, row in enumerate(batches):
        file = tmp_path / f"b{number}.jsonl"
        file.write_text(json.dumps(row) + "\n")
        report = table.update(file, at=5 + number)

        assert (report.already_applied, report.received) == (False, 1), row


def test_a_slot_older_than_what_is_remembered_is_refused(tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"))
    files = [write_batch(tmp_path / f"{slot}.parquet", records((slot, "k", slot, slot + 5))) for slot in range(5, 9)]
    for slot, file in enumerate(files, start=5):
        table.update(file, at=slot)

    table.update(at=8 + 61, catch_up=True, yes=True)  # slot 5 is 64 ticks ago
    for batch in (files[0], None):
        with pytest.raises(AppliedSlotError, match=r"no longer remembered|other records were applied"):
            table.update(batch, at=5)
    assert table.update(files[-1], at=8).already_applied
    assert scanned_ids(table) == []


def test_an_empty_tick_again_changes_nothing(tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"))
    table.update(write_batch(tmp_path / "5.csv", FIRST), at=5)
    first = table.update(at=6)
    version = version_of(table)

    batches: list[Any] = [None, [], write_batch(tmp_path / "empty.parquet", [])]
    for batch in batches:
        report = table.update(batch, at=6)
        assert (report.already_applied, report.slot, report.ticks) == (True, 6, 0)
    assert (first.already_applied, first.ticks, first.version) == (False, 1, version)
    with pytest.raises(AppliedSlotError):
        table.update(write_batch(tmp_path / "6.csv", SECOND), at=6)
    assert version_of(table) == version


def test_a_schedule_that_fires_twice_does_not_push_the_clock_past_the_wall_clock(tmp_path: Path) -> None:
    table = timestamp_table(open_warehouse(tmp_path / "w"))
    files = []
    for hour in (10, 11, 12):
        file = tmp_path / f"{hour}.csv"
        file.write_text(f"id,key,inserted,expires\n{hour},k,2026-01-01T{hour}:00:00Z,2026-01-01T16:00:00Z\n")
        files.append(file)
    table.update(files[0], at="2026-01-01T11:00:00Z")
    assert table.update(files[1]).time == "2026-01-01T12:00:00Z"
    version = version_of(table)

    batches: list[Any] = [files[2], None, []]
    for batch in batches:
        with pytest.raises(NotDueError) as caught:
            table.update(batch)
        assert caught.value.args[1:] == ("2026-01-01T13:00:00Z", "2026-01-01T12:00:00Z")
    for file in files[:2]:
        assert table.update(file).already_applied
    assert version_of(table) == version

    later = open_warehouse(tmp_path / "w", NOW + timedelta(hours=1)).table("t")
    assert later.update(files[2]).time == "2026-01-01T13:00:00Z"
    assert scanned_ids(later) == [10, 11, 12]


def test_more_than_one_tick_ahead_needs_catch_up_and_emptying_the_table_needs_yes(tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"))
    table.update(write_batch(tmp_path / "5.csv", FIRST), at=5)
    late = write_batch(tmp_path / "late.csv", records((7, "k", 19, 25)))
    version = version_of(table)

    for batch in (late, None):
        with pytest.raises(JumpError) as jump:
            table.update(batch, at=20)
        assert jump.value.args == (20, 15, 5)
        with pytest.raises(OverDeletionError) as over:
            table.update(batch, at=20, catch_up=True)
        assert over.value.args == (20, 15, 5)
        with pytest.raises(JumpError):
            table.update(batch, at=20, yes=True)
    assert version_of(table) == version
    assert scanned_ids(table) == [1, 2, 3, 4, 5]

    report = table.update(late, at=20, catch_up=True, yes=True)
    assert (report.ticks, report.expired, report.admitted, report.live) == (15, 5, 1, 1)
    assert scanned_ids(table) == [7]


def test_a_jump_on_a_table_without_live_records_needs_no_yes(tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"))
    table.update(at=5)

    assert table.update(at=500, catch_up=True).ticks == 495


@pytest.mark.parametrize(
    ("strategy", "wish"),
    [
        ("rebuild", {"grid": "3x4"}),
        ("norebuild", {"grid": "4x3", "policy": "random"}),
        ("retire", {"grid": "4x4"}),
    ],
)
def test_catching_up_is_one_commit_within_the_bound_of_its_cohorts(
    strategy: str, wish: dict[str, str], tmp_path: Path
) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"), strategy=strategy, span="8", deletion_bound="8", **wish)
    first = [Record(100 + i, f"k{i}", 10 - i % 4, 11 + i % 4) for i in range(24)]
    table.load(write_batch(tmp_path / "load.parquet", first), at=10)
    before = table.table.snapshot()
    batch = write_batch(tmp_path / "13.parquet", [Record(i, f"k{i}", 13, 14 + i) for i in range(8)])

    report = table.update(batch, at=13, catch_up=True)

    grid = before.spec.grid
    cohorts = len(grid.cohorts_expiring(10, 13))
    updates = [commit for commit in table.history() if commit.op == "update"]
    assert [commit.version for commit in updates] == [before.version + 1] == [report.version]
    assert report.ticks == 3
    assert report.expired == sum(11 + i % 4 <= 13 for i in range(24))
    assert report.cells_bound == grid.cohorts.count + cohorts * grid.groups.count - cohorts
    assert 0 < report.cells_touched <= report.cells_bound
    assert scanned_ids(table) == sorted([*range(8), *(r.id for r in first if r.expires == 14)])


def test_the_clock_never_goes_back(applied: Applied, tmp_path: Path) -> None:
    other = write_batch(tmp_path / "other.csv", records((77, "k", 3, 9)))
    attempts: list[tuple[Any, int]] = [(other, 4), (other, 5), (other, 6), (other, -1000), (None, 4), (None, -1000)]
    for batch, at in attempts:
        with contextlib.suppress(AppliedSlotError):
            assert applied.table.update(batch, at=at, catch_up=True, yes=True).already_applied
        assert applied.table.table.snapshot().ledger.clock == 6
    assert applied.is_unchanged()


def test_a_dry_run_applies_nothing_and_is_not_remembered(tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"))
    table.update(at=4)
    version, file = version_of(table), write_batch(tmp_path / "5.csv", FIRST)
    tried = table.update(file, at=5, dry_run=True)

    assert (tried.dry_run, tried.received, tried.admitted, tried.quarantined) == (True, 6, 5, 1)
    assert (version_of(table), data_files(table), refused_records(table.table)) == (version, [], [])
    assert not table.update(file, at=5).already_applied


def test_a_first_update_needs_no_load_but_a_clock(tmp_path: Path) -> None:
    warehouse = open_warehouse(tmp_path / "w")
    numbers, hours = integer_table(warehouse, "numbers"), timestamp_table(warehouse, "hours")
    with pytest.raises(UsageError, match="no clock yet"):
        numbers.update(write_batch(tmp_path / "5.csv", FIRST))
    assert version_of(numbers) == 0

    assert numbers.update(write_batch(tmp_path / "5.csv", FIRST), at=5).admitted == 5
    assert numbers.update(write_batch(tmp_path / "6.csv", SECOND)).slot == 6
    assert hours.update().time == "2026-01-01T12:00:00Z"


def test_a_table_is_loaded_once(tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"))
    first, second = (write_batch(tmp_path / f"{n}.parquet", b) for n, b in (("a", FIRST), ("b", SECOND)))
    loaded = table.load(first, at=5)
    version = version_of(table)

    assert (loaded.slot, loaded.admitted, loaded.quarantined) == (5, 5, 1)
    assert table.load(first, at=5).already_applied
    assert table.load(first).already_applied
    assert table.update(first).already_applied
    with pytest.raises(InputError, match="has been loaded already"):
        table.load(second, at=6)
    assert version_of(table) == version
    assert table.update(second, at=6).admitted == 2


def test_a_table_that_was_updated_cannot_be_loaded(applied: Applied, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has been loaded already"):
        applied.table.load(write_batch(tmp_path / "other.csv", records((9, "k", 6, 8))))
    with pytest.raises(UsageError, match="no file with records"):
        applied.table.load([])
    assert applied.is_unchanged()


def test_loading_integers_without_at_sets_the_clock_to_the_last_insertion_slot(tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"), tick="10", span="60", origin="3")
    batch = records((1, "a", 13, 60), (2, "b", 24, 60), (3, "c", 34, 60), (4, "d", 1, 14))
    report = table.load(write_batch(tmp_path / "load.csv", batch))

    assert (report.slot, report.time) == (4, "43")
    assert (report.admitted, report.expired_on_arrival) == (3, 1)
    assert scanned_ids(table) == [1, 2, 3]
    assert {(f.min_ins, f.max_ins) for f in table.table.snapshot().files} <= {
        (i, j) for i in (1, 3, 4) for j in (1, 3, 4)
    }


def test_loading_integers_does_not_take_its_clock_from_records_that_are_refused(tmp_path: Path) -> None:
    """One mistyped time would set a clock that never goes back far into the future, and the table would be lost."""
    table = integer_table(open_warehouse(tmp_path / "w"))
    bad = records((2, None, 900, 901), (3, "b", 2**60, 2), (4, "b", 800, 807), (5, "c", 700, None))
    report = table.load(write_batch(tmp_path / "load.csv", [*records((1, "a", 5, 8)), *bad]))

    assert (report.slot, report.admitted, report.quarantined) == (5, 1, 4)


def test_loading_nothing_but_refused_integers_asks_for_a_clock(tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"))
    with pytest.raises(UsageError, match="say which time"):
        table.load(write_batch(tmp_path / "none.csv", []))
    assert version_of(table) == 0
