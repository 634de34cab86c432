"""One read of the log per update, states of the ledger, and a log that does not grow for ever.  No JVM is needed."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ebb import OpenTable
from ebb.index.errors import CorruptionError, WarehouseError
from ebb.index.ledger import Change, remembered_ticks
from ebb.maintenance.carry_out import carry_out
from ebb.maintenance.plan.change import Plan
from ebb.warehouse.store.paths import entry_name
from ebb.warehouse.table.checkpoint import CHECKPOINT_INTERVAL
from ebb.warehouse.table.snapshot import Snapshot, Table
from tests.builders import integer_table, open_warehouse
from tests.faults import Interruption, armed
from tests.foreign import planted


def _committed(table: OpenTable, slot: int, **change: Any) -> Snapshot:
    """Make a commit that changes nothing but the ledger."""
    snapshot = table.table.snapshot()
    return snapshot.commit(
        adds=(), removes=(), change=Change(clock=slot, **change), report={"op": "update", "slot": slot},
        data_change=True, now_ms=0,
    )  # fmt: skip


def _same(one: Snapshot, other: Snapshot) -> bool:
    """Whether two ways to a version give the same table."""
    ledgers = [(s.ledger.clock, s.ledger.live, s.ledger.live_records, s.ledger.erased_version) for s in (one, other)]
    return (
        ledgers[0] == ledgers[1]
        and (one.version, set(one.files), one.spec, one.state)
        == (other.version, set(other.files), other.spec, other.state)
        and [r.version for r in one.removals()] == [r.version for r in other.removals()]
    )


def test_an_empty_tick_reads_no_entry_of_the_log_and_looks_for_the_next_once(tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"))
    table.update(at=1)
    table.update(at=2)

    with armed(table.table.folder / "_delta_log", Interruption()) as counted:
        table.update(at=3)

    assert [event for event in counted.seen if event.startswith("open") and event.endswith(".json")] == []


def test_a_table_that_is_moved_forward_is_the_table_that_is_read_anew(tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"), span="300", deletion_bound="100")
    other = Table(table.table.root, "t")  # a reader that follows
    for slot in range(1, 2 * CHECKPOINT_INTERVAL + 20):
        if slot % 17 == 0:
            table.alter(quarantine_time=str(slot))
        if slot % 3 == 0:
            _committed(table, slot, arrivals={slot + 5: 2, slot + slot % 90 + 1: 1}, digest=f"d{slot}")
        else:
            table.update(at=slot)
        if slot % 5 == 0:
            fresh = Table(table.table.root, "t").snapshot()
            assert _same(table.table.snapshot(), fresh)
            assert _same(other.snapshot(), fresh)
    ledger = Table(table.table.root, "t").snapshot().ledger
    line = table.table.snapshot().spec.timeline
    assert [ledger.slot_applied(f"d{slot}", remembered_ticks(line)) for slot in (3, 51, 117)] == [3, 51, 117]


def test_a_large_change_is_a_state_of_its_own(tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"), span="100000", policy="2000x2000", deletion_bound="50000")
    rng = random.Random(1)
    arrivals = {rng.randrange(2, 100_000): rng.randrange(1, 1000) for _ in range(14_000)}

    after = _committed(table, 1, arrivals=arrivals, digest="large")

    assert after.state is not None
    assert after.state.version == after.version
    assert (table.table.log / entry_name(after.version)).stat().st_size < 16_000
    assert after.ledger.live == arrivals
    assert _same(after, Table(table.table.root, "t").snapshot())
    assert after.ledger.slot_applied("large", after.spec.remembered_ticks) == 1


@pytest.mark.parametrize("damage", ["missing", "flipped"])
@pytest.mark.parametrize("kind", ["state-", "seen-"])
def test_a_damaged_state_is_an_error_that_names_it(kind: str, damage: str, tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"))
    for slot in range(1, CHECKPOINT_INTERVAL + 3):
        _committed(table, slot, digest=f"d{slot}")
    file = next(path for path in table.table.states.iterdir() if path.name.startswith(kind))
    if damage == "missing":
        file.unlink()
    else:
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 4
        file.write_bytes(data)

    with pytest.raises(CorruptionError, match=r"a state of the ledger is|seen-"):
        Table(table.table.root, "t").snapshot()


def test_the_log_keeps_what_its_retention_says_and_what_the_table_needs(tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"), log_retention="120", deletion_bound="4")
    for slot in range(1, 12 * CHECKPOINT_INTERVAL + 10):
        table.update(at=slot)
    clock = 12 * CHECKPOINT_INTERVAL + 9
    entries = sorted(path.name for path in table.table.log.glob("*.json"))

    assert 120 <= len(entries) <= 120 + 2 * CHECKPOINT_INTERVAL
    assert (table.history()[-1].slot or 0) <= clock - 120
    assert table.oldest_version() == table.history()[-1].version > 0
    assert _same(table.table.snapshot(), Table(table.table.root, "t").snapshot())
    assert len(list(table.table.states.iterdir())) == 8, "old states are gone"


def test_a_file_that_waits_to_be_erased_keeps_its_commit_in_the_log(tmp_path: Path) -> None:
    table = integer_table(
        open_warehouse(tmp_path / "w"),
        log_retention="1",
        reader_time="1000",
        deletion_bound="2000",
        strategy="norebuild",
        grid="2x2",
    )
    table.update(at=1)
    snapshot = table.table.snapshot()
    change = Change(clock=1, arrivals={3: 1})
    cell = snapshot.spec.grid.cell_of(1, 3)
    from ebb.index.cellfile import CellFile

    path = f"u1-a/0/_g={cell.group}/_e={cell.cohort}/part-a.parquet"
    file = CellFile(path=path, cell=cell, size_bytes=1, records=1, min_ins=1, max_ins=1, min_exp=3, max_exp=3)
    (table.table.folder / path).parent.mkdir(parents=True)
    (table.table.folder / path).write_bytes(b"x")
    snapshot.commit(
        adds=[file], removes=(), change=change, report={"op": "update", "slot": 1}, data_change=True, now_ms=0
    )
    for slot in range(2, 3 * CHECKPOINT_INTERVAL):
        table.update(at=slot)
    removals = Table(table.table.root, "t").snapshot().removals()

    assert [removal.paths for removal in removals] == [(path,)]
    assert table.table.entry(removals[0].version) is not None
    table.update(at=2000, catch_up=True)
    table.update(at=2001)
    assert not (table.table.folder / path).exists()
    newest = table.table.entry(table.table.snapshot().version)
    assert newest is not None
    record = {name: newest.ebb[name] for name in ("erased_version", "erased_files", "erased_bytes")}
    assert record == {"erased_version": removals[0].version, "erased_files": 1, "erased_bytes": 1}
    assert table.table.snapshot().removals() == []


def test_an_update_looks_through_the_folder_only_if_the_last_writer_died(tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"))
    table.update(at=1)
    stray = table.table.folder / "u9-0123456789ab" / "_g=0" / "x.parquet"
    stray.parent.mkdir(parents=True)
    stray.write_bytes(b"left behind")

    table.update(at=2)
    assert stray.exists()
    (table.table.hidden / "lock").write_text(json.dumps({"pid": 1}), encoding="utf-8")
    table.update(at=3)
    assert not stray.exists()


def test_an_erase_that_fails_is_tried_again_by_the_next_update(tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"))
    table.update(at=1)
    stray = table.table.folder / "u9-0123456789ab" / "x.parquet"
    stray.parent.mkdir()
    stray.write_bytes(b"left behind")
    (table.table.hidden / "lock").write_text("{}", encoding="utf-8")

    with armed(stray.parent, OSError(5, "Input/output error"), 0):
        report = table.update(at=2)

    assert any("cannot be erased" in warning for warning in report.warnings)
    assert stray.exists()
    assert table.update(at=3).warnings == ()
    assert not stray.exists()


def test_a_commit_by_another_tool_makes_a_reader_read_anew(tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"))
    table.update(at=1)
    before = table.table.snapshot()
    foreign = {"commitInfo": {"timestamp": 1, "operation": "SET TBLPROPERTIES"}}
    (table.table.log / entry_name(before.version + 1)).write_text(json.dumps(foreign) + "\n", encoding="utf-8")

    after = table.table.snapshot()

    assert after.version == before.version + 1
    assert replace(after, version=0, mark=None, hash="") == replace(before, version=0, mark=None, hash="")
    assert table.update(at=2).version == after.version + 1


@pytest.mark.parametrize("retention", ["1", "1000"])
def test_a_process_for_every_tick_keeps_the_table_open(retention: str, tmp_path: Path) -> None:
    """A state that only the process knew which had written it was removed as old, and so were commits that it stood for."""
    root = tmp_path / "w"
    integer_table(open_warehouse(root), log_retention=retention)
    for slot in range(1, 9 * CHECKPOINT_INTERVAL):
        table = open_warehouse(root).table("t")
        if slot % 7 == 0:
            _committed(table, slot, arrivals={slot + 3: 1}, digest=f"d{slot}")
        else:
            table.update(at=slot)
    snapshot = Table(root, "t").snapshot()

    assert snapshot.state is not None
    assert snapshot.version - snapshot.state.version < CHECKPOINT_INTERVAL
    assert len(list(table.table.states.iterdir())) <= 30
    assert snapshot.ledger.live == {
        slot + 3: 1 for slot in range(7, 9 * CHECKPOINT_INTERVAL, 7) if slot + 3 > (snapshot.ledger.clock or 0)
    }


def test_two_processes_that_take_turns_build_on_the_same_states(tmp_path: Path) -> None:
    root = tmp_path / "w"
    first = integer_table(open_warehouse(root), log_retention="1")
    for slot in range(1, 6 * CHECKPOINT_INTERVAL):
        table = first if slot // 60 % 2 == 0 else open_warehouse(root).table("t")
        _committed(table, slot, arrivals={slot + 2: 1}, digest=f"d{slot}")

        assert Table(root, "t").snapshot().ledger.live_records == min(slot, 2)
    assert _same(first.table.snapshot(), Table(root, "t").snapshot())


def test_commits_that_fail_leave_states_that_harm_nobody(tmp_path: Path) -> None:
    """Eight of them pushed out the state that the newest commit names."""
    table = integer_table(open_warehouse(tmp_path / "w"), span="100000", policy="2000x2000", deletion_bound="50000")
    rng = random.Random(2)

    def large(slot: int) -> dict[int, int]:
        return {rng.randrange(slot + 1, 90_000): rng.randrange(1, 1000) for _ in range(14_000)}

    for slot in range(1, CHECKPOINT_INTERVAL + 3):
        _committed(table, slot)
    for _ in range(10):
        with pytest.raises(WarehouseError):
            _broken(table, CHECKPOINT_INTERVAL + 3, large(CHECKPOINT_INTERVAL + 3))
    after = _committed(table, CHECKPOINT_INTERVAL + 3, arrivals=large(CHECKPOINT_INTERVAL + 3))
    for slot in range(CHECKPOINT_INTERVAL + 4, 3 * CHECKPOINT_INTERVAL):
        table.update(at=slot)

    assert after.state is not None
    assert _same(table.table.snapshot(), Table(table.table.root, "t").snapshot())
    assert len([p for p in table.table.states.iterdir() if p.name.startswith("state-")]) <= 8


def _broken(table: OpenTable, slot: int, arrivals: dict[int, int]) -> None:
    """Try to commit while the next entry of the log cannot be made."""
    entry = table.table.log / entry_name(table.table.snapshot().version + 1)
    entry.mkdir()
    try:
        _committed(table, slot, arrivals=arrivals)
    finally:
        entry.rmdir()


def test_large_commits_do_not_pile_up_states_and_a_reader_that_was_away_goes_on(tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"), span="100000", policy="2000x2000", deletion_bound="50000")
    reader = Table(table.table.root, "t")
    reader.snapshot()
    rng = random.Random(3)
    for slot in range(1, 31):
        snapshot = table.table.snapshot()
        arrivals = {rng.randrange(slot + 1, 90_000): rng.randrange(1, 1000) for _ in range(14_000)}
        carry_out(
            snapshot, Plan(), table.warehouse.context(), clock=slot, change=Change(clock=slot, arrivals=arrivals),
            data_change=True, report=_said(slot),
        )  # fmt: skip

    assert len([p for p in table.table.states.iterdir() if p.name.startswith("state-")]) == 8
    assert _same(reader.snapshot(), table.table.snapshot())


def _said(slot: int) -> Any:
    return lambda _: {"op": "update", "slot": slot}


def test_a_removed_file_that_another_tool_brings_back_is_not_erased(tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"), reader_time="1")
    batch = pa.table({"id": [1], "key": ["a"], "inserted": [1], "expires": [6], "pay": ["p"]})
    table.update(batch, at=1)
    (file,) = table.table.snapshot().files
    entry = table.table.entry(table.table.snapshot().version)
    assert entry is not None
    planted(table, {"remove": {"path": file.path, "dataChange": True, "size": file.size_bytes}})
    planted(table, {"add": dict(entry.adds[0])})

    table.adopt()
    for slot in (2, 3, 4):
        table.update(at=slot)

    assert table.scan().read_all()["id"].to_pylist() == [1]


def test_a_remove_that_names_the_log_erases_nothing_of_it(tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"), reader_time="1")
    table.update(at=1)
    for name in ("_delta_log/00000000000000000001.json", "_ebb/lock"):
        planted(table, {"remove": {"path": name, "dataChange": True, "size": 1}})

    table.adopt()
    for slot in (2, 3, 4):
        table.update(at=slot)

    assert (table.table.log / entry_name(1)).exists()
    assert Table(table.table.root, "t").snapshot().ledger.clock == 4
