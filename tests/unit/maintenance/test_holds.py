"""Holds: expired records stay where nothing takes them away, and nobody sees a difference until they are asked for."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from ebb import CorruptionError, HeldError, InputError, OpenTable, UsageError, Warehouse
from ebb.index.grid import HELD
from ebb.warehouse.store.paths import entry_name
from tests.builders import arrow_batch, integer_table, open_warehouse, records, scanned_ids, version_of
from tests.faults import Interruption, armed
from tests.foreign import delta
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


def held_ids(table: OpenTable, case: str | None = None) -> list[int]:
    return sorted(id for batch in table.held(case) for id in batch["id"].to_pylist())


def pass_time(table: OpenTable, last: int = 9) -> None:
    pass_time_from(table, 4, last)


def pass_time_from(table: OpenTable, first: int, last: int) -> None:
    for slot in range(first, last):
        table.update(at=slot, yes=True)
        table.purge()
        table.seal()
        table.erase()


def test_held_records_expire_for_readers_and_stay_on_disk(table: OpenTable) -> None:
    live, before = scanned_ids(table), table.table.snapshot().ledger.live
    assert live == [11, 20, 21, 30, 31]

    done = table.hold("bob", case="c-1", actor="judge")

    assert (done.records, done.is_committed, done.arrivals) == (3, True, False)
    assert scanned_ids(table) == live
    assert table.table.snapshot().ledger.live == before
    table.update(at=4)
    assert (scanned_ids(table), held_ids(table)) == ([21, 30, 31], [11, 21, 31])
    for slot in range(5, 10):
        table.update(at=slot, yes=True)
    assert (scanned_ids(table), held_ids(table)) == ([], [11, 21, 31])
    assert {file.cell.cohort for file in table.table.snapshot().files} == {HELD}
    status = table.status()
    assert (status.deletion_bound_kept, status.expired_files_on_disk) == (True, 0)
    assert (status.holds, status.held_records, status.cells) == (("c-1",), 3, ())
    (case,) = table.holds()
    assert (case.case, case.by, case.slot, case.keys, case.where) == ("c-1", "judge", 3, 1, None)
    assert (case.live, case.expired) == (0, 3)


def test_no_upkeep_touches_them(table: OpenTable) -> None:
    table.hold(where="id > 0", case="all", arrivals=False)
    pass_time(table)

    assert held_ids(table) == [11, 20, 21, 30, 31]
    assert table.check(deep=True).findings == ()


@pytest.mark.parametrize("last", [4, 12], ids=["while some live", "when all have expired"])
def test_what_another_tool_compacts_stays_held(last: int, table: OpenTable) -> None:
    table.hold("bob", case="c-1")
    table.hold("ann", case="c-2")
    pass_time(table, last)
    live, held = scanned_ids(table), held_ids(table)
    delta(table).optimize.compact(partition_filters=[("_e", "=", str(HELD))])
    assert table.status().foreign_commits

    done = table.adopt()

    assert done.files_removed
    assert (scanned_ids(table), held_ids(table), held_ids(table, "c-1")) == (live, held, [11, 21, 31])
    status = table.status()
    assert (status.held_records, status.deletion_bound_kept, status.bound_missed_at) == (5, True, None)
    for slot in range(last, last + 8):
        table.update(at=slot, yes=True)
        table.purge()
        table.erase()
        assert table.status().deletion_bound_kept
    assert held_ids(table) == held
    assert table.check(deep=True).findings == ()
    table.release("c-1")
    assert held_ids(table) == [20, 30]


def test_what_is_released_leaves_the_table_and_the_disk_within_the_bound(table: OpenTable) -> None:
    table.hold("bob", case="c-1")
    pass_time(table)

    done = table.release("c-1", actor="judge")

    assert (done.records, done.expired, held_ids(table), table.holds()) == (3, 3, [], ())
    assert table.table.snapshot().files == ()
    assert list((table.table.hidden / "holds").iterdir()) == []
    (removal,) = table.table.snapshot().removals()
    assert removal.due_from == removal.exposed_since == table.status().clock, "readers may keep them until the bound"
    bound = table.table.snapshot().spec.bound
    clock = table.status().clock or 0
    for slot in range(clock + 1, clock + bound + 1):
        assert table.status().deletion_bound_kept, "they are due to go since the release"
        table.update(at=slot)
    assert list(table.table.data_files()) == []


def test_what_is_released_alive_goes_back_and_expires_in_its_time(table: OpenTable) -> None:
    before = {file.cell for file in table.table.snapshot().files}
    table.hold(where="id > 0", case="c-1", arrivals=False)
    assert {file.cell.is_held for file in table.table.snapshot().files} == {True}

    done = table.release("c-1")

    assert (done.records, done.expired, scanned_ids(table)) == (5, 0, [11, 20, 21, 30, 31])
    assert {file.cell for file in table.table.snapshot().files} <= before
    table.update(at=4)
    table.update(at=5)
    assert scanned_ids(table) == [31]


def test_what_another_case_still_holds_is_not_late_when_a_record_beside_it_is_released(warehouse: Warehouse) -> None:
    table = integer_table(warehouse, span="60", grid="1x1", strategy="norebuild", deletion_bound="60")
    table.alter(deletion_bound="5")
    table.update(arrow_batch(records((1, "ann", 1, 2), (2, "bob", 1, 60))), at=1)
    table.hold(where="id > 0", case="c-2", arrivals=False)
    table.hold("ann", case="c-1")
    for slot in range(2, 20):
        table.update(at=slot, yes=True)

    done = table.release("c-2")

    assert (done.records, done.expired, held_ids(table), scanned_ids(table)) == (1, 0, [1], [2])
    status, removal = table.status(), table.table.snapshot().removals()[-1]
    assert (removal.due_from, removal.exposed_since) == (60, None)
    assert (status.deletion_bound_kept, status.findings) == (True, ())


def test_what_came_after_a_hold_and_is_amended_so_that_it_holds_for_it_is_kept(table: OpenTable) -> None:
    table.hold(where="id >= 40 and expires <= 8", case="c-1", arrivals=True)
    table.update(arrow_batch(records((40, "ann", 4, 10), (41, "bob", 4, 10))), at=4)
    table.update(arrow_batch(records((50, "eve", 5, 10))), at=5)
    table.update(at=6)
    assert held_ids(table) == []

    table.amend("ann", expires=8)  # also 30 and others, which came before the hold
    table.seal()

    assert held_ids(table) == [40]
    with pytest.raises(HeldError):
        table.forget("ann")
    pass_time_from(table, 7, 13)
    assert (scanned_ids(table), held_ids(table)) == ([], [40])
    assert table.release("c-1").expired == 1


@pytest.mark.parametrize("way", sorted(WAYS))
def test_what_arrived_is_kept_although_an_adoption_moves_the_clock_over_its_expiry(
    way: str, warehouse: Warehouse
) -> None:
    table = filled(integer_table(warehouse, reader_time="4", deletion_bound="9", **WAYS[way]))
    table.hold("eve", case="c-1", arrivals=True)
    table.update(arrow_batch(records((40, "eve", 4, 5), (41, "bob", 4, 9))), at=4)
    version = version_of(table)
    table.update(at=5)
    table.update(at=6)
    assert held_ids(table) == [40]
    for lost in range(version + 1, version_of(table) + 1):
        (table.table.log / entry_name(lost)).unlink()
    rolled_back = open_warehouse(warehouse.root).table("t")

    rolled_back.adopt(yes=True)

    assert (rolled_back.status().clock, held_ids(rolled_back)) == (6, [40])
    pass_time_from(rolled_back, 7, 12)
    assert (scanned_ids(rolled_back), held_ids(rolled_back)) == ([], [40])
    assert rolled_back.check(deep=True).findings == ()


@pytest.mark.parametrize("arrivals", [True, False])
def test_a_hold_says_whether_it_covers_what_arrives_later(*, arrivals: bool, table: OpenTable) -> None:
    table.hold("ann", case="c-1", arrivals=arrivals)
    for slot in range(4, 8):
        table.update(
            arrow_batch(records((10 * slot, "ann", slot, slot + 1), (10 * slot + 1, "bob", slot, slot + 1))), at=slot
        )

    assert held_ids(table) == [20, 30, *([40, 50, 60, 70] if arrivals else [])]
    table.update(at=15, catch_up=True, yes=True)
    table.purge()
    assert held_ids(table) == [20, 30, *([40, 50, 60, 70] if arrivals else [])]


def test_a_record_stays_while_any_case_holds_it(table: OpenTable) -> None:
    table.hold("ann", case="one")
    table.hold(where="id >= 30", case="two", arrivals=False)
    pass_time(table)
    assert (held_ids(table, "one"), held_ids(table, "two"), held_ids(table)) == ([20, 30], [30, 31], [20, 30, 31])

    assert table.release("one").records == 1
    assert held_ids(table) == [30, 31]
    assert table.release("two").records == 2
    assert held_ids(table) == []


def test_what_another_case_holds_can_be_held_after_it_expired(table: OpenTable) -> None:
    table.hold("ann", case="one")
    pass_time(table, 6)
    table.hold(where="id > 0", case="two", arrivals=False)
    assert held_ids(table, "two") == [20, 30, 31]

    table.release("one")

    assert held_ids(table) == [20, 30, 31]


def test_held_records_are_neither_forgotten_nor_amended(table: OpenTable) -> None:
    table.hold("ann", case="one", arrivals=True)
    table.hold(where="id = 30", case="two", arrivals=False)
    table.update(arrow_batch(records((40, "ann", 4, 6))), at=4)
    version = version_of(table)

    for work in (
        lambda: table.forget("ann"),
        lambda: table.forget("ann", dry_run=True),
        lambda: table.amend("ann", expires=6),
    ):
        with pytest.raises(HeldError) as refused:
            work()
        assert refused.value.args[3] == ("one", "two")
    assert version_of(table) == version
    assert table.forget("bob").records > 0


def test_the_same_request_again_finds_it_done_and_another_one_is_refused(table: OpenTable) -> None:
    table.hold("ann", case="one")
    version = version_of(table)

    assert not table.hold("ann", case="one", actor="somebody else").is_committed
    assert version_of(table) == version
    with pytest.raises(InputError, match="case one of table t holds other records already"):
        table.hold("bob", case="one")
    with pytest.raises(InputError, match="has no hold for case two; it has one"):
        table.release("two")
    with pytest.raises(InputError, match="has no hold for case two"):
        table.held("two")


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ({"where": "id > 0"}, "covers what arrives later or does not"),
        ({"everything": True}, "covers what arrives later or does not"),
        ({"arrivals": True}, "it takes keys or a condition"),
        ({"where": "id > 0", "everything": True, "arrivals": True}, "it takes keys or a condition"),
        ({"where": "nope > 0", "arrivals": True}, "not a column"),
    ],
)
def test_a_hold_that_says_too_little_is_refused(what: dict[str, Any], error: str, warehouse: Warehouse) -> None:
    table = filled(integer_table(warehouse))

    with pytest.raises(UsageError, match=error):
        table.hold(case="c", **what)


def test_an_older_ebb_may_read_the_table_and_not_write_to_it(table: OpenTable) -> None:
    assert table.table.snapshot().spec.features.writer == ()

    table.hold("nobody", case="c-1")
    assert table.table.snapshot().spec.features.writer == (), "there was nothing to hold"
    table.hold("ann", case="c-1")

    assert table.table.snapshot().spec.features.writer == ("holds",)
    assert open_warehouse(table.warehouse.root).table("t").table.snapshot().spec.features.writer == ("holds",)


def test_a_backup_keeps_what_is_held_and_a_restored_table_holds_it(tmp_path: Path) -> None:
    warehouse = open_warehouse(tmp_path / "w")
    table = filled(integer_table(warehouse, **WAYS["retire"]))
    table.hold("ann", case="c-1", arrivals=True)
    table.update(at=4)
    table.backup(tmp_path / "backups")
    for slot in (5, 6, 7):
        table.update(at=slot, yes=True)

    warehouse.restore(tmp_path / "backups", "t", new_name="copy", at="6")
    copy = warehouse.table("copy")

    assert (held_ids(copy), [case.case for case in copy.holds()]) == ([20, 30], ["c-1"])
    copy.update(arrow_batch(records((80, "ann", 8, 9))), at=8, catch_up=True, yes=True)
    copy.update(at=9)
    assert (scanned_ids(copy), held_ids(copy)) == ([], [20, 30, 80])
    assert copy.check(deep=True).findings == ()

    table.release("c-1")
    for slot in range(8, 12):
        table.update(at=slot)
    assert not [path for path in (tmp_path / "backups").rglob("*.parquet") if "_e=-2" in str(path)]


def test_a_table_is_not_dropped_while_something_is_held(table: OpenTable) -> None:
    table.hold("ann", case="c-1")

    with pytest.raises(HeldError, match="2 of the records are held and cannot be dropped: case c-1"):
        table.warehouse.drop("t")
    table.release("c-1")
    table.warehouse.drop("t")


def test_neither_log_nor_ledger_holds_what_is_held(table: OpenTable) -> None:
    table.hold("ann", case="c-1")
    table.hold(where="key = 'bob'", case="c-2", arrivals=True)

    for file in [*table.table.log.iterdir(), *(path for path in table.table.hidden.rglob("*") if path.is_file())]:
        text = file.read_bytes()
        assert b"ann" not in text or file.suffix == ".parquet"
        assert b"'bob'" not in text


def test_a_damaged_hold_is_an_error_and_nothing_is_let_go(table: OpenTable) -> None:
    table.hold("ann", case="c-1", arrivals=True)
    (object_,) = (table.table.hidden / "holds").iterdir()
    object_.write_bytes(object_.read_bytes()[:-1])

    for work in (lambda: table.update(at=4), lambda: table.forget("ann"), table.holds, lambda: table.release("c-1")):
        with pytest.raises(CorruptionError, match="hold c-1 is damaged"):
            work()
    (found,) = table.check().findings
    assert (found.code, found.where) == ("hold", f"_ebb/holds/{object_.name}")
    object_.unlink()
    assert [found.code for found in table.check().findings] == ["hold"]
    with pytest.raises(CorruptionError, match="hold c-1 is missing"):
        table.update(at=4)
    assert scanned_ids(table) == [11, 20, 21, 30, 31]


@pytest.mark.parametrize("way", sorted(WAYS))
def test_whatever_stops_a_hold_or_release_it_is_done_or_not_and_the_next_try_finishes(way: str, tmp_path: Path) -> None:
    def attempt(at: int, *, releasing: bool) -> tuple[OpenTable, int]:
        root = tmp_path / f"{way}{at}{releasing}"
        table = filled(integer_table(open_warehouse(root), **WAYS[way]))
        if releasing:
            table.hold("ann", case="c")
            table.update(at=4)
        with armed(root, Interruption(), at) as fault, contextlib.suppress(Interruption):
            _ = table.release("c") if releasing else table.hold("ann", case="c")
        return open_warehouse(root).table("t"), len(fault.seen)

    for releasing in (False, True):
        steps = attempt(-1, releasing=releasing)[1]
        for at in range(0, steps, max(1, steps // 5)):
            table, _ = attempt(at, releasing=releasing)
            live = [21, 30, 31] if releasing else [11, 20, 21, 30, 31]
            assert scanned_ids(table) == live
            assert held_ids(table) in ([20, 30], [])
            if not releasing:
                table.hold("ann", case="c")
                assert held_ids(table) == [20, 30]
            elif table.holds():
                table.release("c")
            table.update(at=5 if releasing else 4)
            assert held_ids(table) == ([] if releasing else [20, 30])
            assert len(list((table.table.hidden / "holds").iterdir())) == len(table.holds())
            assert table.check(deep=True).findings == ()
