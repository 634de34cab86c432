"""Forgetting records: nobody reads them any more, nothing of them is left when the time is over, nobody else loses any."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ebb import MassDeletionError, OpenTable, TooLateError, UsageError, Warehouse
from ebb.index.asked import is_asked
from ebb.warehouse.settings import Settings
from tests.builders import (
    NOW,
    arrow_batch,
    integer_table,
    open_warehouse,
    records,
    refused_records,
    scanned_ids,
    timestamp_table,
    version_of,
)
from tests.canaries import canaries_on_disk
from tests.faults import Interruption, armed
from tests.model import Record

WAYS = {
    "retire": {"strategy": "retire", "policy": "2x2"},
    "norebuild": {"strategy": "norebuild", "grid": "3x3"},
    "rebuild": {"strategy": "rebuild", "grid": "2x2"},
}
KEYS = ("canary-ann", "bob", "eve", "dan")


@pytest.fixture(params=sorted(WAYS))
def table(request: pytest.FixtureRequest, warehouse: Warehouse) -> OpenTable:
    """Return a table of each strategy with a record of each of four keys in each of four slots."""
    found = integer_table(warehouse, **WAYS[request.param])
    return filled(found)


def filled(table: OpenTable) -> OpenTable:
    for slot in range(1, 5):
        batch = [Record(10 * slot + n, key, slot, slot + 2 + n) for n, key in enumerate(KEYS)]
        table.update(arrow_batch(batch), at=slot)
    return table


def hashes(table: OpenTable) -> dict[str, str]:
    folder = table.table.folder
    return {f.path: hashlib.sha256((folder / f.path).read_bytes()).hexdigest() for f in table.table.snapshot().files}


def holding(table: OpenTable, key: str) -> set[str]:
    """Return the live files that hold a key."""
    paths = [file.path for file in table.table.snapshot().files]
    return {path for path in paths if key in pq.read_table(table.table.folder / path)["key"].to_pylist()}


def test_a_key_is_forgotten_in_one_commit_that_rewrites_only_the_files_that_hold_it(table: OpenTable) -> None:
    before, version, files = scanned_ids(table), version_of(table), hashes(table)
    held = holding(table, KEYS[0])
    gone = table.probe(KEYS[0])["id"].to_pylist()

    done = table.forget(KEYS[0], case="gdpr-7", actor="ann@office")

    assert scanned_ids(table) == sorted(set(before) - set(gone))
    assert table.probe(KEYS[0]).num_rows == 0
    assert table.status().live_records == len(before) - len(gone) == table.table.snapshot().ledger.live_records
    assert (done.records, done.version, version_of(table)) == (len(gone), version + 1, version + 1)
    assert holding(table, KEYS[0]) == set()
    entry = table.table.entry(version + 1)
    assert entry is not None
    assert set(entry.removed) == held
    assert {path: files[path] for path in files if path not in held}.items() <= hashes(table).items()
    assert not any(add["dataChange"] for add in (*entry.adds, *entry.removes))
    newest = table.history(1)[0]
    assert (newest.op, newest.case, newest.by, newest.records) == ("forget", "gdpr-7", "ann@office", len(gone))
    assert newest.asked is not None
    assert is_asked({"keys": [[KEYS[0]]]}, newest.asked)
    assert "canary" not in json.dumps(entry.ebb)
    for slot in range(5, 12):
        table.update(at=slot, yes=True)
        assert scanned_ids(table) == [id for id in before if id not in gone and id // 10 + 2 + id % 10 > slot]


def test_what_is_forgotten_again_is_not_there_and_makes_no_commit(table: OpenTable) -> None:
    table.forget("bob", "eve")
    version = version_of(table)

    again = table.forget("bob", "eve", "nobody")

    assert (again.records, again.is_committed, again.is_nothing, version_of(table)) == (0, False, True, version)


def test_what_has_expired_and_is_still_in_a_file_is_forgotten_too(warehouse: Warehouse) -> None:
    table = integer_table(warehouse, strategy="retire", policy="6x6", deletion_bound="12")
    table.update(arrow_batch(records((1, "canary", 1, 2), (2, "bob", 1, 4))), at=1)
    table.update(at=2)
    assert canaries_on_disk(warehouse.root) == {"canary"}

    done = table.forget("canary", within=0)

    assert (done.records, done.expired_records) == (0, 1)
    assert canaries_on_disk(warehouse.root) == set()
    assert scanned_ids(table) == [2]


def test_a_dry_run_says_what_would_be_done_and_does_nothing(table: OpenTable) -> None:
    files, version = hashes(table), version_of(table)

    planned = table.forget("bob", dry_run=True)

    assert (planned.dry_run, planned.files_removed) == (True, len(holding(table, "bob")))
    assert planned.records == table.probe("bob").num_rows
    assert (hashes(table), version_of(table)) == (files, version)


def test_a_condition_chooses_records_and_needs_consent_for_more_than_half(table: OpenTable) -> None:
    live = scanned_ids(table)
    few = [id for id in live if id >= 42]

    with pytest.raises(MassDeletionError) as refused:
        table.forget(where="id < 42")
    assert refused.value.args == ("forget", len(live) - len(few), len(live))
    assert table.forget(where="id >= 42").records == len(few)
    assert table.forget(where="id > 0", yes=True).records == len(live) - len(few)
    assert scanned_ids(table) == []
    assert table.forget(where="id > 0").is_nothing


def test_leading_parts_of_a_key_forget_all_that_they_lead(warehouse: Warehouse) -> None:
    table = integer_table(warehouse, key=["key", "id"])
    filled(table)

    assert table.forget(("bob", 41)).records == 1
    assert table.forget("bob").records == table.table.snapshot().ledger.live_records * 0 + 2
    assert table.probe("bob").num_rows == 0


@pytest.mark.parametrize("keys", [(), ("bob",)])
def test_it_takes_keys_or_a_condition(keys: tuple[str, ...], warehouse: Warehouse) -> None:
    table = integer_table(warehouse)

    with pytest.raises(UsageError, match="keys or a condition"):
        table.forget(*keys, where="id = 1" if keys else None)


def test_a_table_without_a_clock_has_nothing_to_forget(warehouse: Warehouse) -> None:
    assert integer_table(warehouse).forget("bob").is_nothing


# --- nothing is left ------------------------------------------------------------------------------------------------


def landed(folder: Path) -> Path:
    """Return a landing folder with batches for two ticks, a file that cannot be applied, and one that has not come yet."""
    folder.mkdir()
    head = "id,key,inserted,expires,pay\n"
    (folder / "1-a.csv").write_text(f"{head}1,canary-ann,1,6,p\n2,bob,1,6,p\n3,canary-ann,1,1,p\n4,bob,1,1,p\n")
    (folder / "1-b.jsonl").write_text(
        '{"id": 5, "key": "bob", "inserted": 1, "expires": 5, "pay": "about canary-ann"}\n'
    )
    (folder / "2-c.csv").write_text(f"{head}6,bob,2,6,p\n")
    (folder / "2-d.csv").write_text("id,key\n7,canary-ann\n")
    (folder / "2-e.csv").write_text("id,key\n8,bob\n")
    return folder


def without_spark(root: Path) -> Warehouse:
    return Warehouse(Settings(warehouse=root, engine="direct"), now=lambda: NOW)


@pytest.mark.parametrize("within", [None, 0, 1])
def test_after_the_time_given_no_byte_of_a_forgotten_key_is_left_anywhere(within: int | None, tmp_path: Path) -> None:
    """In data, side files, key ranges, quarantine, applied and refused landing files, and what a killed update left."""
    place, root = landed(tmp_path / "in"), tmp_path / "w"
    warehouse = without_spark(root)
    wish = {"span": "60", "grid": "1x1", "strategy": "norebuild", "quarantine_time": "100"}
    table = integer_table(warehouse, landing=str(place), **wish)
    list(warehouse.run("t"))
    for slot in range(3, 24):  # enough files of one cohort for an object with key ranges
        table.update(arrow_batch([Record(100 + slot, "canary-ann", slot, slot + 50)]), at=slot)
        if slot == 20:
            assert list(table.table.ranges.iterdir())
    table.seal()
    killed = next(path for path in table.table.folder.iterdir() if path.name.startswith("u23-"))
    shutil.copytree(killed, killed.with_name("u24-0123456789ab"))  # what a process leaves that is killed
    (table.table.hidden / "lock").write_text("{}")
    assert {"canary-ann"} <= canaries_on_disk(tmp_path)
    live = len(table.probe("canary-ann"))

    done = table.forget("canary-ann", within=within)

    assert done.records == live > 0
    assert (done.quarantined_records, sorted(done.landed_files)) == (1, ["1-a.csv", "2-d.csv"])
    assert [json.loads(record.record)["key"] for record in refused_records(table.table)] == ["bob"]
    if within is None:
        assert "canary-ann" in canaries_on_disk(root), "readers have their grace period"
    clock = table.status().clock or 0
    for slot in range(clock + 1, clock + (1 if within is None else within) + 2):
        table.update(at=slot, yes=True)
    kept = {path.name: path for path in place.rglob("*") if path.is_file()}
    assert "canary-ann" in kept.pop("1-b.jsonl").read_text(), "its key is another one"
    assert {"2-c.csv", "2-e.csv"} <= kept.keys()
    assert [path for path in kept.values() if "canary" in path.read_text()] == []
    assert canaries_on_disk(root) == set()


def test_older_files_that_were_removed_before_go_as_soon_as_the_forgotten_ones(warehouse: Warehouse) -> None:
    """They may hold the forgotten records as well: what a seal removed waited for readers as long as before."""
    table = integer_table(warehouse, strategy="rebuild", grid="1x1", reader_time="20", deletion_bound="30")
    for slot in (1, 2, 3):
        table.update(arrow_batch(records((slot, "canary", slot, 6), (9 + slot, "bob", slot, 6))), at=slot)
    assert len(table.table.snapshot().removals()) == 2

    table.forget("canary", within=0)

    assert canaries_on_disk(warehouse.root) == set()
    assert scanned_ids(table) == [10, 11, 12]


def test_records_that_left_the_table_already_go_from_the_disk_in_time(warehouse: Warehouse) -> None:
    """Nobody found them in a live file, and their bytes waited for readers for as long as before."""
    table = integer_table(warehouse, strategy="norebuild", grid="1x1", reader_time="20", deletion_bound="30")
    table.update(arrow_batch(records((1, "canary", 1, 2), (2, "bob", 1, 5))), at=1)
    table.update(at=2)
    table.purge()
    assert canaries_on_disk(warehouse.root) == {"canary"}
    assert table.forget("canary").is_nothing, "they go before, after their grace period"

    done = table.forget("canary", within=3)
    again = table.forget("canary", within=3)

    assert (done.removed_records, done.files_removed, done.is_committed, done.erase_by) == (1, 0, True, "5")
    assert again.is_nothing
    for slot in (3, 4, 5):
        assert canaries_on_disk(warehouse.root) == {"canary"}
        table.update(at=slot)
    assert canaries_on_disk(warehouse.root) == set()


def test_bytes_that_should_be_gone_are_a_finding(tmp_path: Path) -> None:
    hour = timedelta(hours=1)
    table = timestamp_table(open_warehouse(tmp_path / "w", NOW), reader_time="3h", deletion_bound="9h")
    batch = {"id": [1], "key": ["ann"], "inserted": [NOW - hour], "expires": [NOW + 4 * hour]}
    table.update(pa.table(batch), at=NOW)
    table.forget("ann", within="2h")

    def findings(after: timedelta) -> list[str]:
        return [str(finding) for finding in open_warehouse(tmp_path / "w", NOW + after).table("t").status().findings]

    assert findings(hour) == []
    assert findings(3 * hour) == [
        "bytes of records that table t forgot should be gone since 2026-01-01T14:00:00Z; erase them"
    ]
    open_warehouse(tmp_path / "w", NOW + 3 * hour).table("t").erase()
    assert findings(3 * hour) == []


def test_refused_records_that_cannot_be_read_go_if_the_key_stands_in_them(warehouse: Warehouse, tmp_path: Path) -> None:
    table = integer_table(warehouse)
    table.update(arrow_batch(records((1, "bob", 1, 6))), at=1)
    (tmp_path / "odd.csv").write_text(
        "id,key,inserted,expires,pay\n2,canary-ann,1\n3,canary-anna,1\nx,canary-ann,2,6,p\n"
    )
    table.update(tmp_path / "odd.csv", at=2, engine="direct")
    assert table.status().quarantined == 3

    done = table.forget("canary-ann")

    assert (done.records, done.quarantined_records, done.is_committed) == (0, 2, True)
    assert [record.record for record in refused_records(table.table)] == ["3,canary-anna,1"]
    assert table.forget("canary-ann").is_nothing


def test_a_condition_is_asked_of_refused_records_and_landed_files_too(tmp_path: Path) -> None:
    place = landed(tmp_path / "in")
    warehouse = without_spark(tmp_path / "w")
    table = integer_table(warehouse, landing=str(place), quarantine_time="100")
    list(warehouse.run("t"))

    done = table.forget(where="key like 'canary%'", within=0)

    assert (done.records, done.quarantined_records, done.landed_files) == (1, 1, ("1-a.csv",))
    assert scanned_ids(table) == [2, 5, 6]


def test_batches_that_a_killed_run_had_taken_go_if_they_were_applied_and_arrive_again_if_not(tmp_path: Path) -> None:
    place = landed(tmp_path / "in")
    warehouse = without_spark(tmp_path / "w")
    table = integer_table(warehouse, landing=str(place), quarantine_time="100")
    list(warehouse.run("t"))
    (place / "_applied" / "1").rename(place / "_taken" / "1")  # killed after the commit
    late, next_tick = place / "_taken" / "2.1", place / "_taken" / "3"
    for batch in (late, next_tick):  # killed before it; the tick of the first was then applied by hand
        batch.mkdir()
        (batch / "x.csv").write_text("id,key,inserted,expires,pay\n9,canary-ann,2,9,p\n10,bob,2,9,p\n")

    done = table.forget("canary-ann", within=0)

    assert sorted(done.landed_files) == ["1-a.csv", "2-d.csv"]
    assert not (place / "_taken" / "1").exists()
    assert sorted(path.relative_to(place).as_posix() for path in place.rglob("x.csv")) == [
        "_taken/2.part/x.csv",
        "_taken/3/x.csv",
    ]
    assert sorted(path.name for path in (place / "_applied" / "1").iterdir()) == ["1-b.jsonl"]


@pytest.mark.parametrize("way", sorted(WAYS))
def test_whatever_stops_it_the_records_are_there_or_forgotten_and_the_next_try_finishes(
    way: str, tmp_path: Path, record_property: Any
) -> None:
    steps = len(list(attempts(tmp_path, way, -1)))
    stopped = 0
    for at in range(0, steps, max(1, steps // 12)):
        table = open_warehouse(next(attempts(tmp_path, way, at))).table("t")
        whole = [10 * slot + n for slot in (1, 2, 3, 4) for n in range(4) if slot + 2 + n > 4]
        left = [id for id in whole if id % 10]
        assert scanned_ids(table) in (whole, left)
        is_done = scanned_ids(table) == left
        stopped += not is_done
        again = table.forget(KEYS[0], within=0)
        assert again.is_nothing == is_done
        assert scanned_ids(table) == left
        table.erase()
        assert canaries_on_disk(table.warehouse.root) == set()
        assert table.table.snapshot().ledger.live_records == len(left)
    assert stopped > 0
    record_property("figures", f"forgetting stopped under {way}: {len(range(0, steps, max(1, steps // 12)))}, torn 0")


def attempts(tmp_path: Path, way: str, at: int) -> Iterator[Any]:
    """Forget a key and be stopped at a step; yields the warehouse, or every step if nothing stops it."""
    root = tmp_path / f"{way}{at}"
    table = filled(integer_table(open_warehouse(root), **WAYS[way]))
    with armed(root, Interruption(), at) as fault:
        try:
            table.forget(KEYS[0], within=0)
        except Interruption:
            yield root
            return
    yield from fault.seen if at < 0 else [root]


# --- readers and followers ------------------------------------------------------------------------------------------


def test_a_window_that_was_pinned_before_still_shows_them_within_the_grace_period(table: OpenTable) -> None:
    pinned = table.at_latest()
    before = pinned.probe("bob")

    table.forget("bob")

    assert pinned.probe("bob").equals(before)


def test_a_follower_is_told_each_forgotten_record_once_and_of_nobody_else(table: OpenTable) -> None:
    version = version_of(table)
    gone = table.probe("bob")["id"].to_pylist()
    table.forget("bob")
    table.forget(where="id = 43")
    table.seal()
    table.update(at=5)

    told = table.changes(version, expiries=True).reader().read_all().to_pylist()

    changes = [(row["_change"], row["id"]) for row in told if row["_change"] == "forgotten"]
    assert sorted(changes) == sorted([("forgotten", id) for id in gone] + [("forgotten", 43)])
    assert {row["_slot"] for row in told if row["_change"] == "forgotten"} == {4}
    expired = [row["id"] for row in told if row["_change"] == "expired"]
    assert sorted(expired) == sorted(
        10 * slot + n for slot in range(1, 5) for n in (0, 2, 3) if slot + 2 + n == 5 and 10 * slot + n != 43
    )
    first = next(iter(table.changes(version)))
    assert (first.forgotten, first.admitted, first.amended, first.version) == (len(gone), 0, 0, version + 1)


def test_a_follower_that_comes_after_the_bytes_are_gone_is_told_so(warehouse: Warehouse) -> None:
    table = filled(integer_table(warehouse, reader_time="30", deletion_bound="40"))
    version = version_of(table)
    table.forget("bob", within=0)

    with pytest.raises(TooLateError) as late:
        table.changes(version)
    assert late.value.args[2] == version + 1
    with pytest.raises(TooLateError):
        table.changes(0)
    assert list(table.changes("start")) == []


def test_the_latest_window_does_not_show_what_was_forgotten_while_it_was_read(warehouse: Warehouse) -> None:
    table = filled(integer_table(warehouse, **WAYS["norebuild"]))
    other = open_warehouse(warehouse.root).table("t")
    latest = table.up_to_date()
    reopen, turns = latest.reopen, []

    def forget_meanwhile() -> Any:
        turns.append(1)
        if len(turns) == 1:
            other.forget("bob")
        if len(turns) == 2:
            other.update(arrow_batch(records((50, "bob", 5, 9))), at=5)
        return reopen()

    object.__setattr__(latest, "reopen", forget_meanwhile)
    found = latest.scan(["id", "key"]).read_all()

    assert sorted(found["id"].to_pylist()) == scanned_ids(table)
    assert [row["id"] for row in found.to_pylist() if row["key"] == "bob"] == [50]
    assert len(turns) == 3
