"""What a table changed, read from its log and files: positions, tokens, and what happens to those who come too late."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import ebb
from ebb import OpenTable, Warehouse
from tests.builders import arrow_batch, integer_table, open_warehouse, timestamp_table
from tests.foreign import append, delta, filled
from tests.model import Record

WAYS: dict[str, dict[str, str]] = {
    "retire": {"strategy": "retire", "policy": "2x2", "deletion_bound": "40", "reader_time": "30"},
    "norebuild": {"strategy": "norebuild", "grid": "3x3", "deletion_bound": "40", "reader_time": "30"},
    "rebuild": {"strategy": "rebuild", "grid": "3x3", "deletion_bound": "40", "reader_time": "30"},
}
Row = tuple[str, int, int, int]  # change, version, slot, id


@pytest.fixture(params=sorted(WAYS))
def table(request: pytest.FixtureRequest, warehouse: Warehouse) -> OpenTable:
    """Return a table of each strategy at slot 6: five records in each of four slots, then two ticks without any."""
    found = integer_table(warehouse, **WAYS[request.param])
    filled(found)
    found.update(at=5)
    found.update(at=6)
    return found


def short(warehouse: Warehouse, slots: int = 9) -> OpenTable:
    """Return a table that erases what it removed two ticks ago."""
    table = integer_table(warehouse, strategy="retire", policy="2x1", deletion_bound="6", reader_time="1")
    for slot in range(1, slots):
        table.update(arrow_batch([Record(slot, "k", slot, slot + 2)]), at=slot)
    return table


def rows(table: OpenTable, since: Any, **how: Any) -> list[Row]:
    found = table.changes(since, **how).reader().read_all()
    names = ("_change", "_version", "_slot", "id")
    return sorted(zip(*(found[name].to_pylist() for name in names), strict=True))


def versions(table: OpenTable) -> dict[int, int]:
    """Return the version of the update to each slot."""
    return {c.slot: c.version for c in table.history() if c.op == "update" and c.slot is not None}


def test_every_strategy_tells_the_same_of_the_same_updates(table: OpenTable) -> None:
    of = versions(table)
    admitted = [("admitted", of[slot], slot, 10 * slot + n) for slot in range(1, 5) for n in range(5)]
    lives = {10 * slot + n: slot + 2 + n for slot in range(1, 5) for n in range(5)}
    expired = [("expired", of[slot], slot, id) for id, slot in lives.items() if slot <= 6]

    assert rows(table, "start") == rows(table, 0) == sorted(admitted)
    assert rows(table, "start", expiries=True) == sorted(admitted + expired)


def test_what_comes_after_a_version_a_slot_a_time_and_a_token_is_the_same(table: OpenTable) -> None:
    version = versions(table)[4]
    everything = rows(table, 0, expiries=True)
    wanted = [row for row in everything if row[1] >= version]

    feed = table.changes(0, expiries=True)
    tokens = {commit.slot: commit.token for commit in feed}
    for since in (version - 1, str(version - 1), "slot:3", "time:3", tokens[3]):
        assert rows(table, since, expiries=True) == wanted
    assert feed.token == f"{table.table.snapshot().version}-{tokens[3].split('-')[1]}"
    assert rows(table, feed.token) == []


def test_times_of_the_wall_clock_are_positions_too(tmp_path: Path) -> None:
    table = timestamp_table(open_warehouse(tmp_path), tick="1h", span="6h")
    for hour in (1, 2, 3):
        moment = datetime(2026, 1, 1, hour, tzinfo=UTC)
        one = {"id": hour, "key": "k", "inserted": moment, "expires": moment.replace(hour=hour + 5)}
        table.update(pa.Table.from_pylist([one]), at=moment)

    for since in ("2026-01-01T02:59:00Z", datetime(2026, 1, 1, 2, 30, tzinfo=UTC), "time:2026-01-01T02:00:00Z"):
        assert [row[3] for row in rows(table, since)] == [3]


def test_an_expired_record_comes_before_the_new_one_of_its_key(warehouse: Warehouse) -> None:
    table = integer_table(warehouse)
    table.update(arrow_batch([Record(1, "k", 1, 2)]), at=1)
    table.update(arrow_batch([Record(2, "k", 2, 4)]), at=2)

    last = list(table.changes(1, expiries=True))[-1]

    assert (last.slot, last.time, last.admitted, last.expired) == (2, "2", 1, 1)
    assert [tuple(row.values())[:4] for row in last.records.read_all().to_pylist()] == [
        ("expired", 2, 2, 1), ("admitted", 2, 2, 2),
    ]  # fmt: skip


def test_a_catch_up_tells_the_exact_slot_of_each_expiry(table: OpenTable) -> None:
    before = table.table.snapshot().version
    report = table.update(at=9, catch_up=True)

    told = rows(table, before, expiries=True)

    assert {(row[0], row[1]) for row in told} == {("expired", report.version)}
    assert {row[2] for row in told} == {7, 8, 9}
    assert len(told) == report.expired
    assert rows(table, "slot:7", expiries=True) == told, "the commit is after slot 7, with all that it tells"


def test_columns_are_chosen_and_the_marks_stay(table: OpenTable) -> None:
    feed = table.changes(0, columns=["pay", "id"])

    assert feed.schema.names == ["_change", "_version", "_slot", "pay", "id"]
    assert feed.reader().read_all().schema == feed.schema
    with pytest.raises(ebb.UsageError, match="no column 'nope'"):
        table.changes(0, columns=["nope"])


def test_columns_that_were_added_later_are_null_in_older_records(table: OpenTable) -> None:
    table.alter(add_column="more BIGINT")
    batch = arrow_batch([Record(99, "k", 7, 9)]).append_column("more", pa.array([5], pa.int64()))
    table.update(batch, at=7)

    told = table.changes(0).reader().read_all()

    assert dict(zip(told["id"].to_pylist(), told["more"].to_pylist(), strict=True))[99] == 5
    assert told["more"].null_count == told.num_rows - 1


@pytest.mark.parametrize("work", ["seal", "purge", "erase"])
def test_upkeep_tells_nothing_and_hides_nothing(table: OpenTable, work: str) -> None:
    before = rows(table, 0, expiries=True)
    version = table.table.snapshot().version
    getattr(table, work)()

    assert rows(table, 0, expiries=True) == before
    assert rows(table, version, expiries=True) == []


def test_a_table_without_updates_has_no_changes(warehouse: Warehouse) -> None:
    table = integer_table(warehouse)

    assert rows(table, "start", expiries=True) == rows(table, 0) == []
    with pytest.raises(ebb.InputError, match=r"slot 3 .* has not come: it has no clock yet"):
        table.changes("slot:3")


@pytest.mark.parametrize(
    ("since", "message"),
    [
        (99, "version 99 is after the newest version .* of table t"),
        ("slot:7", r"slot 7 \(7\) of table t has not come: its clock is at 6, 6"),
        ("time:70", r"slot 70 \(70\) of table t has not come"),
        ("7-" + "0" * 32, "the token is of another table, or of one called t that was dropped since"),
    ],
)
def test_a_position_that_the_table_does_not_have_is_refused(table: OpenTable, since: Any, message: str) -> None:
    with pytest.raises(ebb.InputError, match=message):
        table.changes(since)


def test_a_token_of_a_table_that_was_dropped_is_refused(table: OpenTable) -> None:
    token, wish = table.changes(0).token, WAYS[table.describe().strategy]
    table.warehouse.drop("t")
    again = integer_table(table.warehouse, **wish)
    filled(again)
    again.update(at=5)
    again.update(at=6)

    with pytest.raises(ebb.InputError, match="of another table"):
        again.changes(token)


def test_a_table_that_is_made_anew_while_it_is_followed_ends_the_feed(table: OpenTable) -> None:
    def made_anew(_: float) -> None:
        table.warehouse.drop("t")
        integer_table(table.warehouse)

    with pytest.raises(ebb.InputError, match="table t was dropped and created again while it was followed"):
        list(table.changes(0, follow=True, sleep=made_anew))


def test_a_follower_gets_what_is_committed_while_it_waits(table: OpenTable) -> None:
    slots = iter((7, 8))

    def another_update(_: float) -> None:
        slot = next(slots)
        table.update(arrow_batch([Record(100 + slot, "k", slot, slot + 3)]), at=slot)

    feed = table.changes(table.table.snapshot().version, follow=True, sleep=another_update)
    commits = iter(feed)

    assert [next(commits).records.read_all()["id"].to_pylist() for _ in range(2)] == [[107], [108]]
    assert feed.version == versions(table)[8] - 1, "nobody has asked for more than the last"


def test_a_follower_in_a_thread_of_its_own_keeps_up(table: OpenTable) -> None:
    got: list[int] = []
    other = ebb.Warehouse(table.warehouse.settings).table("t")

    def follow() -> None:
        for commit in other.changes(start, follow=True, sleep=lambda _: time.sleep(0.001)):
            got.extend(commit.records.read_all()["id"].to_pylist())
            if commit.slot == 19:
                return

    start = table.table.snapshot().version
    thread = threading.Thread(target=follow)
    thread.start()
    for slot in range(7, 20):
        table.update(arrow_batch([Record(100 + slot, "k", slot, slot + 3)]), at=slot)
    thread.join(60)

    assert got == [100 + slot for slot in range(7, 20)]


# Too late


def oldest_of(error: pytest.ExceptionInfo[ebb.TooLateError]) -> int:
    assert error.value.exit_code == 1
    return int(error.value.args[2])


@pytest.mark.parametrize("expiries", [False, True])
def test_a_follower_whose_files_were_erased_is_told_where_it_can_go_on(warehouse: Warehouse, *, expiries: bool) -> None:
    table = short(warehouse)
    for since in (0, 1, "slot:1"):
        with pytest.raises(ebb.TooLateError, match="are no longer all there; those after version") as late:
            table.changes(since, expiries=expiries)
    oldest = oldest_of(late)
    told = rows(table, oldest, expiries=expiries)

    assert 1 < oldest < table.table.snapshot().version
    assert rows(table, "start", expiries=expiries) == told
    wanted = [row for row in truth(table) if row[1] > oldest and (expiries or row[0] == "admitted")]
    assert told == sorted(wanted)
    with pytest.raises(ebb.TooLateError):
        table.changes(oldest - 1, expiries=expiries)


def truth(table: OpenTable) -> list[Row]:
    """Return what updates did that brought one record each, which lives for two slots."""
    of = versions(table)
    admitted = [("admitted", of[slot], slot, slot) for slot in of]
    return admitted + [("expired", of[slot + 2], slot + 2, slot) for slot in of if slot + 2 in of]


def test_a_follower_whose_commits_left_the_log_is_told_where_it_can_go_on(warehouse: Warehouse) -> None:
    table = integer_table(warehouse, strategy="retire", policy="2x1", deletion_bound="8", log_retention="10")
    for slot in range(1, 130):
        table.update(at=slot)
    oldest = table.oldest_version()
    assert oldest > 1

    for since in (0, oldest - 2, "slot:1"):
        with pytest.raises(ebb.TooLateError) as late:
            table.changes(since)
        assert oldest_of(late) == oldest - 1
    with pytest.raises(ebb.TooLateError) as late:
        table.changes(oldest - 1, expiries=True)
    assert oldest_of(late) == oldest
    assert rows(table, oldest - 1) == rows(table, oldest, expiries=True) == rows(table, "start") == []
    assert table.changes("slot:129").version == table.table.snapshot().version


@pytest.mark.parametrize("expiries", [False, True])
def test_the_changes_of_every_version_that_is_left_can_be_read(warehouse: Warehouse, *, expiries: bool) -> None:
    """Checkpoints lie between them, and the log has been cleaned."""
    table = integer_table(
        warehouse, strategy="retire", policy="2x2", deletion_bound="150", reader_time="120", log_retention="60"
    )
    for slot in range(1, 150):
        table.update(arrow_batch([Record(slot, "k", slot, slot + 2)]), at=slot)
    oldest = table.changes("start", expiries=expiries).version
    everything = truth(table)

    for since in range(oldest, table.table.snapshot().version, 7):
        wanted = [row for row in everything if row[1] > since and (expiries or row[0] == "admitted")]
        assert rows(table, since, expiries=expiries) == sorted(wanted)


def test_a_file_that_is_erased_while_it_is_read_is_noticed(warehouse: Warehouse) -> None:
    table = short(warehouse)
    commit = next(iter(table.changes("start")))
    for file in set(table.table.data_files()) - {file.path for file in table.table.snapshot().files}:
        (table.table.folder / file).unlink()

    with pytest.raises(ebb.TooLateError):
        commit.records.read_all()


def test_a_live_file_that_is_lost_is_no_reason_to_go_on_elsewhere(warehouse: Warehouse) -> None:
    table = short(warehouse)
    before = table.table.snapshot().version - 1
    while not rows(table, before):
        before -= 1
    commit = next(iter(table.changes(before)))
    for file in table.table.snapshot().files:
        (table.table.folder / file.path).unlink()

    with pytest.raises(ebb.CorruptionError, match="a data file is missing"):
        commit.records.read_all()
    for since in (before, "start"):
        with pytest.raises(ebb.CorruptionError, match="a data file is missing"):
            table.changes(since)


def test_a_file_that_is_damaged_is_no_reason_to_go_on_elsewhere(table: OpenTable) -> None:
    for path in list(table.table.data_files()):
        data = bytearray((table.table.folder / path).read_bytes())
        data[20] ^= 1
        (table.table.folder / path).write_bytes(data)

    with pytest.raises(ebb.CorruptionError):
        table.changes(0, expiries=True).reader().read_all()


def test_records_are_counted_against_the_log(table: OpenTable) -> None:
    entry = table.table.log / f"{versions(table)[2]:020}.json"
    text = entry.read_text(encoding="utf-8")
    entry.write_text(text.replace('\\"admitted\\":5', '\\"admitted\\":6'), encoding="utf-8")

    with pytest.raises(ebb.CorruptionError, match="5 records admitted and 0 expired instead of 6 and 0"):
        rows(OpenTable(table.warehouse, type(table.table)(table.table.root, "t")), 0)


# Other tools


def test_what_another_tool_did_is_in_no_feed(table: OpenTable) -> None:
    before = rows(table, 0, expiries=True)
    version = table.table.snapshot().version
    append(table, [Record(900, "k9", 4, 8)])
    delta(table).delete("id = 43")
    opened = ebb.Warehouse(table.warehouse.settings).table("t")
    with pytest.warns(ebb.ForeignCommitWarning):
        assert rows(opened, version, expiries=True) == []
    opened.adopt()
    opened.update(at=7)
    opened.update(at=8)

    told = rows(opened, version, expiries=True)

    assert ("expired", 8, 900) in {(row[0], row[2], row[3]) for row in told}, "it is part of the table now"
    assert 43 not in {row[3] for row in told}
    assert {row[0] for row in told} == {"expired"}
    assert rows(opened, 0, expiries=True) == sorted(before + told)


@pytest.mark.parametrize("name", ["_change", "_Version", "_slot"])
def test_the_names_of_the_marks_are_reserved(warehouse: Warehouse, name: str) -> None:
    schema = f"id BIGINT, key STRING, inserted BIGINT, expires BIGINT, {name} STRING"

    with pytest.raises(ebb.UsageError, match=name):
        integer_table(warehouse, schema=schema)


def test_a_reader_of_a_large_commit_holds_a_part_of_it(warehouse: Warehouse) -> None:
    """Batches come as they are read; nobody waits for the whole."""
    table = integer_table(warehouse)
    count = 200_000
    columns: dict[str, Callable[[int], Any]] = {
        "id": int, "key": lambda i: f"k{i % 999}", "inserted": lambda _: 1, "expires": lambda i: 2 + i % 4, "pay": str,
    }  # fmt: skip
    table.update(pa.table({name: [make(i) for i in range(count)] for name, make in columns.items()}), at=1)

    batches = list(next(iter(table.changes(0))).records)

    assert sum(batch.num_rows for batch in batches) == count
    assert len(batches) > 2
