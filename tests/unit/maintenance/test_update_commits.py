"""The commits of one update: what each of them does, what its entry says, and what a kill between them costs."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from ebb import OpenTable, Warehouse
from ebb.index.grid import Cell
from ebb.maintenance.update import update
from ebb.warehouse.intake.batch import Files
from ebb.warehouse.table.log import LogEntry
from tests.builders import NOW, arrow_batch, integer_table, open_warehouse, scanned_ids, timestamp_table
from tests.faults import Interruption, armed
from tests.model import Record

WAYS: dict[str, dict[str, str]] = {
    "retire": {"strategy": "retire", "policy": "2x1"},
    "norebuild": {"strategy": "norebuild", "grid": "3x3", "deletion_bound": "3"},
    "rebuild": {"strategy": "rebuild", "grid": "3x3"},
}


def batch_of(slot: int, most: int = 6) -> list[Record]:
    """Return one record for each lifetime, under one key: every file of a cell has them side by side."""
    return [Record(slot * 100 + life, "k", slot, slot + life) for life in range(1, most + 1)]


def filled(table: OpenTable, slots: int) -> OpenTable:
    for slot in range(1, slots + 1):
        assert table.update(arrow_batch(batch_of(slot)), at=slot).warnings == ()
    return table


def window(clock: int, batches: int) -> list[int]:
    records = [record for slot in range(1, batches + 1) for record in batch_of(slot)]
    return sorted(record.id for record in records if (record.expires or 0) > clock)


def entries(table: OpenTable, versions: tuple[int, ...]) -> list[LogEntry]:
    return [entry for version in versions if (entry := table.table.entry(version)) is not None]


def flags(table: OpenTable, version: int, action: str) -> set[bool]:
    """Return what a commit says of its adds or removes: are they changes of data?"""
    text = (table.table.log / f"{version:020}.json").read_text(encoding="utf-8")
    actions = [json.loads(line) for line in text.splitlines()]
    return {found[action]["dataChange"] for found in actions if action in found}


def cell_of(path: str) -> Cell:
    parts = dict(part.split("=") for part in path.split("/") if "=" in part)
    return Cell(int(parts["_g"]), int(parts["_e"]))


@pytest.mark.parametrize(
    ("way", "ops"), [("retire", ["update", "retire"]), ("norebuild", ["update", "retire", "purge"]), ("rebuild", ["update"])]
)  # fmt: skip
def test_an_update_admits_first_then_removes_and_then_rewrites(warehouse: Warehouse, way: str, ops: list[str]) -> None:
    table = filled(integer_table(warehouse, **WAYS[way]), 8)

    report = table.update(arrow_batch(batch_of(9)), at=9)

    made = entries(table, report.versions)
    of = {entry.ebb["op"]: entry for entry in made}
    assert [entry.ebb["op"] for entry in made][: len(ops)] == ops
    assert report.version == report.versions[0]
    assert report.versions[-1] == table.table.snapshot().version
    assert all(entry.ebb["slot"] == 9 for entry in made)
    assert (of["update"].ebb["files_removed"], of["update"].ebb["exposed_since"]) == (0, None) or way == "rebuild"
    if "retire" in of:
        assert (len(of["update"].removed), len(of["retire"].added)) == (0, 0)
        assert of["retire"].ebb["exposed_since"] is not None
        assert (of["retire"].ebb["files_removed"], of["retire"].ebb["phases"]) == (len(of["retire"].removed), {})
        assert (flags(table, report.version, "add"), flags(table, of["retire"].version, "remove")) == ({True}, {True})
    if way == "norebuild":
        assert flags(table, of["purge"].version, "add") == flags(table, of["purge"].version, "remove") == {False}
    assert scanned_ids(table) == window(9, 9)


@pytest.mark.parametrize("way", WAYS)
def test_the_report_is_about_all_commits_of_the_update_together(warehouse: Warehouse, way: str) -> None:
    table = filled(integer_table(warehouse, **WAYS[way]), 8)
    planned = table.update(arrow_batch(batch_of(9)), at=9, dry_run=True)
    report = table.update(arrow_batch(batch_of(9)), at=9)

    own = [entry for entry in entries(table, report.versions) if entry.ebb["op"] != "seal"]
    touched = {cell_of(path) for entry in own for path in (*entry.added, *entry.removed)}
    assert len(touched) == report.cells_touched == planned.cells_touched
    assert report.files_removed == sum(len(entry.removed) for entry in own) == planned.files_removed
    assert report.files_added == sum(len(entry.added) for entry in own)
    assert report.bytes_written == sum(entry.bytes_added for entry in own)
    assert report.cells_touched <= report.cells_bound == planned.cells_bound == own[0].ebb["cells_bound"]
    assert planned.versions == ()


@pytest.mark.parametrize("way", WAYS)
def test_the_bound_of_cells_is_reached_by_real_updates(warehouse: Warehouse, way: str) -> None:
    """Every lifetime in every batch: all cells of the group, and all of the cohort."""
    table = integer_table(warehouse, **WAYS[way])
    reports = [table.update(arrow_batch(batch_of(slot)), at=slot) for slot in range(1, 25)]

    grid = table.table.snapshot().spec.grid
    bound = grid.groups.count + grid.cohorts.count - 1
    assert {report.cells_bound for report in reports} == {bound}
    assert max(report.cells_touched for report in reports) == bound


def test_an_empty_tick_makes_one_commit_and_a_second_one_only_if_something_is_dead(warehouse: Warehouse) -> None:
    table = integer_table(warehouse, strategy="retire", policy="1x2", deletion_bound="8")
    table.update(arrow_batch([Record(1, "k", 1, 4)]), at=1)

    reports = [table.update(at=slot) for slot in (2, 3, 4, 5)]

    assert [len(report.versions) for report in reports] == [1, 1, 2, 1]
    assert [report.expired for report in reports] == [0, 0, 1, 0]


@pytest.mark.parametrize("way", ["retire", "norebuild"])
def test_an_update_that_is_killed_after_its_first_commit_costs_nothing(
    warehouse: Warehouse, way: str, tmp_path: Path
) -> None:
    table = filled(integer_table(warehouse, **WAYS[way]), 8)
    clean = table.table.snapshot()
    at, opened = _second_commit(table, tmp_path), open_warehouse(warehouse.root).table("t")

    with armed(table.table.log, Interruption(), at), pytest.raises(Interruption):
        opened.update(arrow_batch(batch_of(9)), at=9)

    killed = open_warehouse(warehouse.root).table("t")
    assert killed.table.snapshot().version == clean.version + 1
    assert scanned_ids(killed) == window(9, 9)
    assert [file for file in killed.table.snapshot().files if file.is_dead(9)], "the next update has work to do"
    report = killed.update(arrow_batch(batch_of(10)), at=10)

    grid, files = clean.spec.grid, killed.table.snapshot().files
    assert not [file for file in files if file.is_dead(10)]
    assert report.cells_bound == grid.cohorts.count + 2 * grid.groups.count - 2, "of the two cohorts"
    assert report.cells_touched <= report.cells_bound
    assert scanned_ids(killed) == window(10, 10)
    assert killed.update(at=11).cells_bound == grid.groups.count + grid.cohorts.count - 1


def _second_commit(table: OpenTable, tmp_path: Path) -> int:
    """Return which event in the log's folder is the second commit of the next update, tried on a copy: that of a table just opened."""
    shutil.copytree(table.warehouse.root, tmp_path / "copy")
    copy = open_warehouse(tmp_path / "copy").table("t")
    with armed(copy.table.log, Interruption()) as counted:
        copy.update(arrow_batch(batch_of(9)), at=9)
    commits = [place for place, event in enumerate(counted.seen) if event.startswith("os.link")]
    shutil.rmtree(tmp_path / "copy")
    return commits[1]


@pytest.mark.parametrize("way", ["retire", "norebuild"])
def test_what_fails_after_the_first_commit_is_a_warning_and_is_done_next_time(
    warehouse: Warehouse, way: str, tmp_path: Path
) -> None:
    at = _second_commit(filled(integer_table(warehouse, **WAYS[way]), 8), tmp_path)
    table = open_warehouse(warehouse.root).table("t")

    with armed(table.table.log, RuntimeError("strange"), at):
        report = table.update(arrow_batch(batch_of(9)), at=9)

    assert [("strange" in warning) for warning in report.warnings] == [True]
    assert (report.versions, report.files_removed) == ((report.version,), 0)
    assert scanned_ids(table) == window(9, 9)
    again = table.update(arrow_batch(batch_of(10)), at=10)
    assert (again.warnings, len(again.versions) > 1) == ((), True)
    assert not [file for file in table.table.snapshot().files if file.is_dead(10)]
    assert scanned_ids(table) == window(10, 10)


def test_what_may_be_erased_is_judged_when_the_lock_is_there(tmp_path: Path) -> None:
    hour = timedelta(hours=1)
    early = timestamp_table(open_warehouse(tmp_path / "w", NOW), strategy="rebuild", grid="1x1", deletion_bound="4h")
    moment = pa.timestamp("us", "UTC")
    schema = pa.schema([("id", pa.int64()), ("key", pa.string()), ("inserted", moment), ("expires", moment)])
    for back in (3, 2):
        now = NOW - back * hour
        row = {"id": back, "key": "k", "inserted": now, "expires": now + 4 * hour}
        early.update(pa.Table.from_pylist([row], schema), at=now)
    assert early.status().files_waiting_for_erase == 1
    later = open_warehouse(tmp_path / "w", NOW + 3 * hour)
    has_waited = replace(later.context(), now=NOW)
    time = later.table("t").table.snapshot().spec.timeline.kind.from_datetime(NOW - hour)

    report = update(later.table("t").table, Files(), has_waited, at=time)

    assert report.erased_files == 1
