"""Batches and files that come again: recognised, left out, reported, and never in the way of the clock (B2, B4)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ebb import AppliedSlotError, InputError, JumpError, NotDueError, OpenTable, Warehouse
from ebb.maintenance.plan.repeats import Repeats, likely_causes, repeated_files, without
from tests.builders import arrow_batch, integer_table, records, scanned_ids, timestamp_table, version_of, write_batch

A, B, C = records((1, "a", 5, 9)), records((2, "b", 5, 9), (3, "b", 5, 10)), records((4, "c", 5, 9))


@pytest.fixture
def table(warehouse: Warehouse) -> OpenTable:
    return integer_table(warehouse, span="20")


def apply(table: OpenTable, *files: Path, at: int | None = None, **options: bool) -> object:
    return table.update(list(files), at=at, engine="direct", **options)  # type: ignore[arg-type]


def test_a_repeated_batch_moves_the_clock_if_its_tick_is_named(table: OpenTable, tmp_path: Path) -> None:
    """A producer that is stuck and sends its last file for ever stopped expiry, in silence."""
    file = write_batch(tmp_path / "a.csv", A)
    table.update(file, at=5, engine="direct")
    for slot in (6, 7, 8, 9):
        report = table.update(file, at=slot, engine="direct")
        assert (report.slot, report.ticks, report.received, report.admitted) == (slot, 1, 0, 0)
        assert (report.already_applied, report.repeated, report.repeated_of) == (False, 1, 5)
        assert report.repeated_files == ("a.csv",)

    assert scanned_ids(table) == []
    updates = [commit for commit in table.history() if commit.op == "update"]
    assert [commit.repeated_of for commit in updates[:4]] == [5, 5, 5, 5]


def test_without_a_time_a_repeated_batch_changes_nothing(table: OpenTable, tmp_path: Path) -> None:
    file = write_batch(tmp_path / "a.csv", A)
    table.update(file, at=5, engine="direct")
    version = version_of(table)
    for again in (file, write_batch(tmp_path / "again.jsonl", A), arrow_batch(A)):
        report = table.update(again, engine="direct")
        assert (report.already_applied, report.slot, report.ticks, report.repeated_of) == (True, 5, 0, 5)

    assert version_of(table) == version


def test_a_file_that_comes_again_beside_a_new_one_is_left_out(table: OpenTable, tmp_path: Path) -> None:
    """The batch of both equals no earlier batch, and the records of the first were there twice."""
    first, second = write_batch(tmp_path / "a.csv", A), write_batch(tmp_path / "b.parquet", B)
    table.update(first, at=5, engine="direct")
    again = write_batch(tmp_path / "20-a.jsonl.gz", A)
    report = table.update([again, second], at=6, engine="direct")

    assert (report.received, report.admitted, report.repeated, report.repeated_of) == (2, 2, 1, 5)
    assert report.repeated_files == ("20-a.jsonl.gz",)
    assert scanned_ids(table) == [1, 2, 3]
    # After a crash the same command says that all of it was applied.
    retried = table.update([again, second], at=6, engine="direct")
    assert (retried.already_applied, retried.repeated_of, retried.repeated) == (True, 6, 3)
    assert scanned_ids(table) == [1, 2, 3]


def test_a_batch_of_which_a_file_was_left_out_is_known_as_a_whole_too(table: OpenTable, tmp_path: Path) -> None:
    table.update(write_batch(tmp_path / "a.csv", A), at=5, engine="direct")
    table.update([write_batch(tmp_path / "x.csv", A), write_batch(tmp_path / "b.csv", B)], at=6, engine="direct")

    assert table.update(arrow_batch([*A, *B])).already_applied
    assert scanned_ids(table) == [1, 2, 3]


def test_files_of_one_name_in_several_folders_are_told_apart(warehouse: Warehouse, tmp_path: Path) -> None:
    table = integer_table(warehouse, "other", span="20")
    files = [write_batch(tmp_path / folder / "same.csv", A) for folder in ("x", "y", "z")]
    report = table.load(files, engine="direct")

    assert (report.admitted, report.repeated, report.repeated_files) == (1, 2, ("same.csv", "same.csv"))


def test_two_equal_files_in_one_batch_count_once(table: OpenTable, tmp_path: Path) -> None:
    files = [write_batch(tmp_path / name, B) for name in ("1.csv", "2.parquet", "3.jsonl")]
    report = table.update([*files, write_batch(tmp_path / "4.csv", C)], at=5, engine="direct")

    assert (report.received, report.repeated, report.repeated_of) == (3, 4, None)
    assert report.repeated_files == ("2.parquet", "3.jsonl")
    assert scanned_ids(table) == [2, 3, 4]


def test_repeats_are_admitted_if_that_is_meant(table: OpenTable, tmp_path: Path) -> None:
    file, twin = write_batch(tmp_path / "a.csv", A), write_batch(tmp_path / "twin.csv", A)
    table.update([file, twin], at=5, engine="direct", allow_repeats=True)
    table.update(file, at=6, engine="direct", allow_repeats=True)
    assert scanned_ids(table) == [1, 1, 1]
    # Not for a tick that was applied: that is a retry.
    assert table.update(file, at=6, engine="direct", allow_repeats=True).already_applied
    assert scanned_ids(table) == [1, 1, 1]


def test_other_files_for_a_tick_that_was_applied_are_refused(table: OpenTable, tmp_path: Path) -> None:
    file, other = write_batch(tmp_path / "a.csv", A), write_batch(tmp_path / "b.csv", B)
    table.update(file, at=5, engine="direct")
    for batch in ([file, other], [other]):
        with pytest.raises(AppliedSlotError):
            table.update(batch, at=5, engine="direct")

    assert scanned_ids(table) == [1]


def test_files_are_remembered_for_as_long_as_declared(warehouse: Warehouse, tmp_path: Path) -> None:
    short, long = (
        integer_table(warehouse, name, span="6", **wish) for name, wish in (("s", {}), ("l", {"remember": 200}))
    )
    file = write_batch(tmp_path / "a.csv", A)
    for table in (short, long):
        table.update(file, at=5, engine="direct")
        table.update(at=100, catch_up=True, yes=True)

    late = write_batch(tmp_path / "late.csv", records((1, "a", 5, 9)))
    assert short.update(late, at=101, engine="direct").repeated_of is None
    assert long.update(late, at=101, engine="direct").repeated_of == 5
    assert long.alter(remember="64").after.remember == "64"
    assert long.update(late, at=102, engine="direct").repeated_of is None


def test_a_loaded_table_is_not_loaded_again_under_another_time(table: OpenTable, tmp_path: Path) -> None:
    file = write_batch(tmp_path / "a.csv", A)
    table.load(file, at=5, engine="direct")
    assert table.load(file, engine="direct").already_applied
    assert table.load(file, at=5, engine="direct").already_applied
    with pytest.raises(InputError, match="has been loaded already"):
        table.load(file, at=500, engine="direct")


def test_refusals_that_need_only_the_clock_look_at_no_batch(table: OpenTable, tmp_path: Path) -> None:
    table.update(write_batch(tmp_path / "a.csv", A), at=5, engine="direct")
    (tmp_path / "bad.csv").write_text("nothing of ours\n1\n")
    with pytest.raises(JumpError):
        table.update(tmp_path / "bad.csv", at=9)  # by Spark, which is not started


def test_a_batch_that_was_applied_is_recognised_before_the_next_tick_is_over(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    """It will not be applied, so no JVM is started to find out."""
    table = timestamp_table(warehouse)
    file = tmp_path / "a.csv"
    file.write_text("id,key,inserted,expires\n1,a,2026-01-01T11:30:00Z,2026-01-01T14:00:00Z\n")
    assert table.update(file, engine="direct").admitted == 1
    assert table.update(file).already_applied
    file.write_text(file.read_text().replace("1,a", "2,a"))
    with pytest.raises(NotDueError):
        table.update(file)


def test_what_is_left_out_is_added_up() -> None:
    repeats = Repeats().and_files([("a", 3, "0.0.a"), ("b", None, "0.0.1")]).and_files([("a", 2, "0.0.2")])

    assert (repeats.records, repeats.slot, repeats.files) == (13, 3, ("a", "b", "a"))
    assert repeats.whole("1.2.1") == "0000000000000001.0000000000000002.e"
    assert (repeats.whole(None), Repeats().whole("1.2.1")) == (None, None)
    assert repeats.is_everything(0)
    assert not repeats.is_everything(1)
    assert not Repeats().is_everything(0)
    assert repeats.and_all(5, 9) == replace(repeats, records=18, slot=9, is_whole=True)
    assert repeats.and_all(5, 1).slot == 3
    assert Repeats().and_all(5, 1).is_everything(5)
    assert repeated_files({}, lambda _: None) == {}
    assert without("abc", {1}) == ("a", "c")


def test_a_batch_of_which_most_is_refused_is_told_with_the_likely_cause(table: OpenTable) -> None:
    early = [(i, "a", 6, 9) for i in range(3)]
    report = table.update(arrow_batch(records((9, "a", 5, 9), *early)), at=5)

    assert len(report.warnings) == 1
    assert "3 of 4 records were refused, most often because: inserted in the future" in report.warnings[0]
    assert "the end of a tick" in report.warnings[0]
    assert list(likely_causes(0, {})) == []
    assert list(likely_causes(4, {"key k is null": 2})) == []


def test_a_tick_that_is_over_and_has_no_records_is_no_repeat(table: OpenTable) -> None:
    """A tick before the first was said to have been applied."""
    table.update(arrow_batch(A), at=5)
    for slot in (4, -5):
        report = table.update(at=slot)
        assert (report.already_applied, report.repeated, report.repeated_of, report.slot) == (True, 0, None, slot)
