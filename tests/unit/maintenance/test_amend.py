"""Amending records: they expire when they are told to, once, and nothing else about them changes."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ebb import InputError, MassDeletionError, OpenTable, UsageError, Warehouse
from ebb.index.grid import Cell
from tests.builders import arrow_batch, integer_table, open_warehouse, records, scanned, scanned_ids, version_of
from tests.model import Record

WAYS = {
    "retire": {"strategy": "retire", "policy": "2x2"},
    "norebuild": {"strategy": "norebuild", "grid": "3x3"},
    "rebuild": {"strategy": "rebuild", "grid": "2x2"},
}


@pytest.fixture(params=sorted(WAYS))
def table(request: pytest.FixtureRequest, warehouse: Warehouse) -> OpenTable:
    """Return a table of each strategy with records of two keys in each of three slots, which expire after 2 and 3 ticks."""
    return filled(integer_table(warehouse, **WAYS[request.param]))


def filled(table: OpenTable) -> OpenTable:
    for slot in (1, 2, 3):
        batch = [Record(10 * slot, "ann", slot, slot + 2), Record(10 * slot + 1, "bob", slot, slot + 3)]
        table.update(arrow_batch(batch), at=slot)
    return table


def expiries(table: OpenTable) -> dict[int, int]:
    return {row["id"]: row["expires"] for row in scanned(table)}


def test_records_expire_when_they_are_told_to(table: OpenTable) -> None:
    assert expiries(table) == {11: 4, 20: 4, 21: 5, 30: 5, 31: 6}

    done = table.amend("bob", expires=7)

    assert (done.records, done.to_slot, done.shortened) == (3, 7, 0)
    assert expiries(table) == {11: 7, 20: 4, 21: 7, 30: 5, 31: 7}
    for slot, left in ((4, [11, 21, 30, 31]), (5, [11, 21, 31]), (6, [11, 21, 31]), (7, [])):
        report = table.update(at=slot, yes=True)
        assert scanned_ids(table) == left
        assert report.live == len(left)
    assert table.status().deletion_bound_kept


def test_lives_are_shortened_to_the_next_tick_at_the_earliest(table: OpenTable) -> None:
    done = table.amend("bob", expires=4)

    assert (done.records, done.shortened) == (2, 2), "one of them expires then already"
    assert scanned_ids(table) == [11, 20, 21, 30, 31]
    table.update(at=4)
    assert scanned_ids(table) == [30]


def test_it_is_one_commit_in_the_cells_of_the_files_and_of_the_new_slot_and_done_once(table: OpenTable) -> None:
    version, before = version_of(table), table.table.snapshot()

    table.amend("ann", expires=8, case="c-9", actor="judge")
    table.amend("ann", expires=8)

    after = table.table.snapshot()
    assert after.version == version + 1
    entry = table.table.entry(version + 1)
    assert entry is not None
    assert not any(action["dataChange"] for action in (*entry.adds, *entry.removes))
    grid = after.spec.grid
    amended = [file for file in after.files if file.part == "amended"]
    assert {file.cell.cohort for file in amended} == {grid.cohorts.partition(8)}
    assert {(file.min_exp, file.max_exp) for file in amended} == {(8, 8)}
    for file in after.files:
        assert file.cell in {
            Cell(grid.groups.partition(ins), grid.cohorts.partition(exp))
            for ins in range(file.min_ins, file.max_ins + 1)
            for exp in range(file.min_exp, file.max_exp + 1)
        }
    assert after.ledger.live_records == before.ledger.live_records
    newest = table.history(1)[0]
    assert (newest.op, newest.case, newest.by, newest.to_slot, newest.records) == ("amend", "c-9", "judge", 8, 2)


def test_amended_records_survive_seals_and_purges_and_are_admitted_no_second_time(table: OpenTable) -> None:
    table.amend(where="id >= 20", expires=8)
    found = expiries(table)

    table.purge()
    table.seal()
    assert expiries(table) == found
    assert {row["inserted"] for row in scanned(table) if row["id"] >= 30} == {3}
    batch = [Record(30, "ann", 3, 5), Record(31, "bob", 3, 6)]
    assert table.update(arrow_batch(batch), at=3).already_applied
    assert expiries(table) == found


def test_what_has_expired_is_not_brought_back(warehouse: Warehouse) -> None:
    table = integer_table(warehouse, strategy="retire", policy="6x6", deletion_bound="12")
    table.update(arrow_batch(records((1, "ann", 1, 2), (2, "ann", 1, 4))), at=1)
    table.update(at=2)

    assert table.amend("ann", expires=5).records == 1
    assert expiries(table) == {2: 5}


@pytest.mark.parametrize(
    ("expires", "error", "told"),
    [
        (3, InputError, "records cannot expire at 3: the clock of table t is at 3"),
        (9, InputError, "a chosen record that was inserted at 2 would live longer than the span 6"),
        ("soon", UsageError, "time 'soon' is not an integer"),
    ],
)
def test_a_time_that_no_record_can_have_is_refused(expires: Any, error: type, told: str, table: OpenTable) -> None:
    version = version_of(table)

    with pytest.raises(error, match=told):
        table.amend("ann", expires=expires)

    assert version_of(table) == version


def test_a_condition_that_shortens_most_lives_needs_consent(table: OpenTable) -> None:
    with pytest.raises(MassDeletionError):
        table.amend(where="id > 0", expires=4)

    assert table.amend(where="id > 20", expires=7).shortened == 0
    assert table.amend(where="id > 0", expires=4, yes=True).shortened == 3


def test_a_dry_run_changes_nothing(table: OpenTable) -> None:
    found, version = expiries(table), version_of(table)

    planned = table.amend("bob", expires=7, dry_run=True)

    assert (planned.records, planned.dry_run, planned.is_committed) == (3, True, False)
    assert (expiries(table), version_of(table)) == (found, version)


def test_the_key_does_not_change(warehouse: Warehouse) -> None:
    table = integer_table(warehouse, key=["key", "expires"])

    with pytest.raises(UsageError, match="expires is part of the key"):
        table.amend("ann", expires=5)


def test_a_table_that_was_never_loaded_has_nothing_to_amend(warehouse: Warehouse) -> None:
    with pytest.raises(InputError, match="has not been loaded"):
        integer_table(warehouse).amend("ann", expires=5)


@pytest.mark.parametrize(
    ("kind", "tick", "span", "came", "old", "new"),
    [
        ("timestamp", "1h", "1d", datetime(2026, 1, 1, 9, 30, tzinfo=UTC), datetime(2026, 1, 1, 15, tzinfo=UTC), "2026-01-01T13:00:00.000001Z"),
        ("date", "1d", "9d", datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 5, tzinfo=UTC), "2026-01-08"),
        ("int", "10", "90", 55, 100, "145"),
    ],
)  # fmt: skip
def test_every_kind_of_time_is_kept_exactly(
    kind: str, tick: str, span: str, came: Any, old: Any, new: str, tmp_path: Path
) -> None:
    warehouse = open_warehouse(tmp_path / "w", datetime(2026, 1, 3, tzinfo=UTC))
    schema = f"who STRING, came {kind}, until {kind}"
    table = warehouse.create("t", schema=schema, key="who", inserted="came", expires="until", tick=tick, span=span)
    arrow = {"timestamp": pa.timestamp("us", "UTC"), "date": pa.date32(), "int": pa.int32()}[kind]
    times = [value.date() if kind == "date" else value for value in (came, old)]
    batch = pa.table({"who": ["ann"], "came": pa.array([times[0]], arrow), "until": pa.array([times[1]], arrow)})
    at = {"timestamp": "2026-01-01T10:00", "date": "2026-01-02", "int": "60"}[kind]
    table.update(batch, at=at)

    table.amend("ann", expires=new)

    line = table.table.snapshot().spec.timeline
    (row,) = scanned(table)
    until = pa.scalar(row["until"], arrow)
    width = pa.int32() if kind in ("date", "int") else pa.int64()
    assert until.cast(width).as_py() == line.kind.time(new)
    assert table.table.snapshot().ledger.live == {line.slot_of(line.kind.time(new)): 1}


def test_a_time_that_the_table_computed_is_replaced_and_not_computed_again(warehouse: Warehouse) -> None:
    table = warehouse.create(
        "t", schema="key STRING, came BIGINT", key="key", inserted="came", lifetime="3", tick="1", span="9"
    )
    table.update(pa.table({"key": ["ann"], "came": [1]}), at=1)

    table.amend("ann", expires=9)
    table.seal()

    assert [row["expires"] for row in scanned(table)] == [9]


@pytest.mark.parametrize("way", sorted(WAYS))
def test_a_follower_is_told_the_new_times_and_each_expiry_once(way: str, warehouse: Warehouse) -> None:
    table = filled(integer_table(warehouse, reader_time="30", deletion_bound="40", **WAYS[way]))
    version = version_of(table)
    table.amend("bob", expires=7)
    table.amend("ann", expires=5)
    for slot in range(4, 9):
        table.update(at=slot, yes=True)

    told = table.changes(version, expiries=True).reader().read_all().to_pylist()

    rows = [(row["_change"], row["_slot"], row["id"], row["expires"]) for row in told]
    assert sorted(rows) == sorted(
        [("amended", 3, id, 7) for id in (11, 21, 31)]
        + [("amended", 3, 20, 5)]
        + [("expired", 7, id, 7) for id in (11, 21, 31)]
        + [("expired", 5, id, 5) for id in (20, 30)]
    )
    assert [(commit.amended, commit.expired) for commit in table.changes(version, expiries=True)][:2] == [
        (3, 0),
        (1, 0),
    ]
    assert "amended" in {row["_change"] for row in table.changes(version).reader().read_all().to_pylist()}


def test_the_latest_window_has_the_new_times_once(warehouse: Warehouse) -> None:
    table = integer_table(warehouse, **WAYS["norebuild"])
    table.update(arrow_batch(records((1, "ann", 1, 3), (2, "bob", 1, 6))), at=1)
    other, latest, turns = open_warehouse(warehouse.root).table("t"), table.up_to_date(), []
    reopen = latest.reopen

    def amend_meanwhile() -> Any:
        turns.append(1)
        if len(turns) == 1:
            other.amend("ann", expires=7)
            other.update(at=2)
            other.update(at=3)
        return reopen()

    object.__setattr__(latest, "reopen", amend_meanwhile)

    assert sorted(latest.probe("ann", "bob")["expires"].to_pylist()) == [6, 7]
