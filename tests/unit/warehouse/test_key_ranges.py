"""Key ranges on real tables of many files: a cold probe looks into few of them, and objects die with what they tell of."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ebb import OpenTable, Warehouse
from ebb.index.ranges import FEW_FILES
from ebb.warehouse.ranges import read_ranges
from ebb.warehouse.settings import Settings
from ebb.warehouse.store.paths import side_file
from tests.model import Model, Record

PER_UPDATE = 6  # records, of one key each
UPDATES = 40
WISHES: dict[str, dict[str, Any]] = {
    "norebuild": {"strategy": "norebuild", "grid": "3x2", "deletion_bound": "90"},
    "retire": {"strategy": "retire", "policy": "25x30", "deletion_bound": "40"},
}


def made(root: Path, wish: str) -> OpenTable:
    declared = {
        "schema": "id BIGINT, key STRING, inserted BIGINT, expires BIGINT",
        "key": ["key"],
        "tick": 1,
        "span": 90,
    }
    columns = {"inserted": "inserted", "expires": "expires", "reader_time": "1"}
    return Warehouse(Settings(warehouse=root)).create("t", **(declared | columns | WISHES[wish]))


def batch(slot: int) -> list[Record]:
    """Return records whose keys say when they came: the files of different updates have different keys."""
    return [Record(100 * slot + n, f"canary-{slot:04}-{n}", slot, slot + 5 + 13 * n) for n in range(PER_UPDATE)]


def apply(table: OpenTable, model: Model, slot: int) -> None:
    records = batch(slot)
    columns = {name: [getattr(record, name) for record in records] for name in ("id", "key", "inserted", "expires")}
    table.update(pa.table(columns), at=slot)
    model.apply(slot, records)


def cold(table: OpenTable) -> OpenTable:
    """Return the table as a process finds it that has never seen it."""
    return Warehouse(Settings(warehouse=table.warehouse.root)).table("t")


def on_disk(table: OpenTable) -> set[str]:
    return set(os.listdir(table.table.ranges)) if table.table.ranges.exists() else set()


def check_objects(table: OpenTable) -> int:
    """Check that objects are those on disk and tell of live files, each once; return of how many."""
    snapshot = table.table.snapshot()
    objects = snapshot.ledger.ranges
    assert on_disk(table) == {found.name for found in objects}
    live = {file.path: file for file in snapshot.files}
    told = []
    for found in objects:
        ranges, _ = read_ranges(table.table, found.name)
        assert len(ranges) == found.files
        assert {live[one.path].cell.cohort for one in ranges} == {found.cohort}
        told += [one.path for one in ranges]
    assert len(told) == len(set(told))
    return len(told)


def ids(found: pa.Table) -> list[int]:
    return sorted(found["id"].to_pylist())


@pytest.fixture(params=WISHES)
def filled(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[OpenTable, Model]:
    """Return a table after many updates, and what it should hold."""
    table = made(tmp_path, request.param)
    model = Model(table.table.snapshot().spec.timeline)
    most = 0
    for slot in range(1, UPDATES + 1):
        apply(table, model, slot)
        most = max(most, check_objects(table))
    assert most >= FEW_FILES, "there were never enough files for an object"
    return table, model


def test_probes_of_every_key_are_right_and_look_into_few_files(filled: tuple[OpenTable, Model]) -> None:
    table, model = filled
    window = model.window()
    live = len(table.at_latest().visible_files())
    for slot in range(1, UPDATES + 1, 3):
        key = f"canary-{slot:04}-4"
        at_latest = cold(table).at_latest()
        assert ids(at_latest.probe(key)) == sorted(record.id for record in window if record.key == key)
        assert at_latest.cost.files == live
        unknown = live - at_latest.cost.files_passed
        assert unknown < live / 2, (unknown, live)
    assert ids(cold(table).probe(low="canary")) == sorted(record.id for record in window)


def test_side_files_of_files_that_a_key_misses_are_not_read(filled: tuple[OpenTable, Model]) -> None:
    table, _ = filled
    told = {
        one.path for found in table.table.snapshot().ledger.ranges for one in read_ranges(table.table, found.name)[0]
    }
    for path in told:
        (table.table.folder / side_file(path)).unlink()
    at_latest = cold(table).at_latest()

    at_latest.probe("canary-zzzz")

    assert at_latest.cost.files_passed == len(told & {file.path for file in at_latest.visible_files()})
    assert not [path for path in told if (table.table.folder / side_file(path)).exists()], "one was written again"


@pytest.mark.parametrize("damage", ["missing", "flipped", "of another"])
def test_an_object_that_is_lost_or_damaged_changes_no_answer(damage: str, filled: tuple[OpenTable, Model]) -> None:
    table, model = filled
    names = sorted(on_disk(table))
    contents = {name: (table.table.ranges / name).read_bytes() for name in names}
    for name, other in zip(names, [*names[1:], names[0]], strict=True):
        place = table.table.ranges / name
        if damage == "missing":
            place.unlink()
        else:
            flipped = contents[name][:20] + bytes([contents[name][20] ^ 1]) + contents[name][21:]
            place.write_bytes(flipped if damage == "flipped" else contents[other])

    key = "canary-0030-4"
    assert ids(cold(table).probe(key)) == [record.id for record in model.window() if record.key == key]
    for slot in range(UPDATES + 1, UPDATES + 12):
        apply(table, model, slot)
    table.purge()
    assert ids(cold(table).scan().read_all()) == sorted(record.id for record in model.window())


def test_no_key_outlives_its_records_in_an_object(filled: tuple[OpenTable, Model]) -> None:
    table, model = filled
    for slot in range(UPDATES + 1, UPDATES + 60):
        table.update(at=slot)
        model.apply(slot, [])
    table.purge()
    check_objects(table)
    live = {str(record.key) for record in model.window()}
    held = b"".join((table.table.ranges / name).read_bytes() for name in on_disk(table))
    told = [one for found in table.table.snapshot().ledger.ranges for one in read_ranges(table.table, found.name)[0]]
    for key in (str(record.key).encode() for record in model.kept if record.key not in live):
        assert key not in held
        assert not [one for one in told if key in one.start + (one.stop or b"")]


def test_what_a_killed_writer_left_is_gone_after_the_next_commit(filled: tuple[OpenTable, Model]) -> None:
    table, model = filled
    (table.table.ranges / "0-0-feedfeedfeed").write_bytes(b"half")

    apply(table, model, UPDATES + 1)

    check_objects(table)


def test_a_full_disk_costs_an_object_and_no_update(tmp_path: Path) -> None:
    """Here a file stands where the folder of the objects would be."""
    table = made(tmp_path, "norebuild")
    model = Model(table.table.snapshot().spec.timeline)
    apply(table, model, 1)
    table.table.ranges.touch()
    for slot in range(2, UPDATES + 1):
        apply(table, model, slot)

    assert table.table.snapshot().ledger.ranges == ()
    assert ids(cold(table).scan().read_all()) == sorted(record.id for record in model.window())
