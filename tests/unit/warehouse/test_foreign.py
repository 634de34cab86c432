"""Another tool writes to a table: noticed, refused by writers, told to readers, adopted or not.  Real Delta tables."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, TableFeatures, WriterProperties

import ebb
from ebb import OpenTable, Warehouse
from ebb.maintenance.landing.run import Outcome
from ebb.warehouse.settings import Settings
from ebb.warehouse.store.paths import footer_hash_in
from ebb.warehouse.table.snapshot import Table
from tests.builders import NOW, arrow_batch, data_files, integer_table, open_warehouse, scanned_ids, write_batch
from tests.faults import Interruption, armed, full_disk
from tests.foreign import (
    READS,
    WAYS,
    WRITES,
    append,
    append_without_statistics,
    delta,
    filled,
    fresh,
    ids,
    planted,
    set_properties,
)  # fmt: skip
from tests.model import Model, Record
from tests.unit.cli.command import Command, state_of

LATE = [Record(900, "k9", 4, 9), Record(901, "a0", 3, 7), Record(902, "k1", 2, 5)]


@pytest.fixture(params=sorted(WAYS))
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def table(tmp_path: Path) -> OpenTable:
    return integer_table(open_warehouse(tmp_path / "w"), reader_time="1", **WAYS["retire"])


@pytest.fixture
def model(table: OpenTable) -> Model:
    return filled(table)


# Noticed


def delete(table: OpenTable) -> None:
    delta(table).delete("id = 43")


def optimize(table: OpenTable) -> None:
    delta(table).optimize.compact()


def add_late(table: OpenTable) -> None:
    append(table, LATE)


def restore(table: OpenTable) -> None:
    last = next(commit.version for commit in table.history() if commit.op == "update")
    delta(table).restore(last - 1, ignore_missing_files=True)


DEEDS = {"DELETE": delete, "OPTIMIZE": optimize, "WRITE": add_late, "RESTORE": restore}


@pytest.mark.parametrize("operation", sorted(DEEDS))
def test_status_names_what_another_tool_did_and_counts_the_files(
    table: OpenTable, model: Model, operation: str
) -> None:
    """It said -498 expired ones hidden, and nothing about the DELETE before."""
    if operation == "OPTIMIZE":
        append(table, LATE)
        append(table, [Record(903, "k9", 4, 9)])
        table.adopt()
        append(table, [Record(904, "k9", 4, 9)])
    DEEDS[operation](table)

    status = fresh(table).status()

    assert [commit.operation for commit in status.foreign_commits][-1] == operation
    assert [commit.version for commit in status.foreign_commits][-1] == delta(table).version()
    with pytest.warns(ebb.ForeignCommitWarning):
        assert status.live_records == len(scanned_ids(fresh(table)))
    assert status.stored_records >= status.live_records
    assert str(status.findings[-1]).startswith("table t was changed by another tool: ")
    assert table.status() == status, "whoever knew the table before sees the same"


def test_a_table_without_such_commits_has_none(table: OpenTable, model: Model) -> None:
    status = table.status()

    assert (status.foreign_commits, status.findings, status.uncounted_files) == ((), (), ())
    assert status.live_records == len(model.window())
    assert table.adopt().commits == ()


@pytest.mark.parametrize(
    "action",
    [None, {"txn": {"appId": "stream", "version": 3}}],
    ids=["vacuum", "transaction"],
)
def test_a_commit_that_touches_no_file_is_nobody_s_business(
    table: OpenTable, model: Model, action: dict[str, object] | None
) -> None:
    planted(table, *([action] if action else []), operation="VACUUM END")

    assert table.status().foreign_commits == ()
    assert scanned_ids(table) == ids(model)
    assert table.update(at=5).live == len(model.window()) - model.apply(5, []).expired


def test_properties_of_delta_are_nobody_s_business(table: OpenTable, model: Model) -> None:
    delta(table).alter.set_table_properties({"delta.logRetentionDuration": "interval 10 days"})

    assert fresh(table).status().foreign_commits == ()
    assert table.update(at=5).slot == 5


# Refused


@pytest.mark.parametrize("what", sorted(WRITES))
def test_whoever_writes_is_refused_and_changes_nothing(table: OpenTable, model: Model, what: str) -> None:
    delete(table)
    before = state_of(table.table.root)

    for opened in (table, fresh(table)):
        with pytest.raises(ebb.ForeignCommitError, match=r"table t was changed by another tool: DELETE in version 7; "):
            WRITES[what](opened)

    assert state_of(table.table.root) == before
    assert table.table.data_files() is not None


def test_a_commit_that_slips_in_between_is_refused_when_ours_is_made(table: OpenTable, model: Model) -> None:
    with table.table.lock():
        delete(table)
        snapshot = table.table.snapshot()
        with pytest.raises(ebb.ForeignCommitError):
            snapshot.commit_metadata(snapshot.metadata, {"op": "alter"}, 0)


def test_a_table_that_another_tool_wrote_to_can_be_dropped(table: OpenTable, model: Model) -> None:
    delete(table)

    assert table.warehouse.drop("t").live_records == len(model.window())
    assert table.warehouse.tables() == []


def test_a_run_goes_on_with_the_other_tables(tmp_path: Path) -> None:
    warehouse = Warehouse(Settings(warehouse=tmp_path / "w", engine="direct"), now=lambda: NOW)
    for name in ("a", "b"):
        filled(integer_table(warehouse, name, landing=str(tmp_path / name)))
        write_batch(tmp_path / name / "5-x.parquet", [Record(50, "k1", 5, 8)])
    delete(warehouse.table("a"))

    outcomes = {o.table: o for o in warehouse.run() if isinstance(o, Outcome)}

    assert "table a was changed by another tool: DELETE in version" in str(outcomes["a"].error)
    assert outcomes["b"].report is not None
    assert [table.status().clock for table in warehouse.tables()] == [4, 5]
    warehouse.table("a").adopt()
    assert [o.error for o in warehouse.run() if isinstance(o, Outcome)] == [None]
    assert [table.status().clock for table in warehouse.tables()] == [5, 5]


# Told


@pytest.mark.parametrize("read", sorted(READS))
def test_a_read_answers_and_warns(table: OpenTable, model: Model, read: str) -> None:
    delete(table)

    with pytest.warns(ebb.ForeignCommitWarning, match="table t was changed by another tool: DELETE in version 7"):
        READS[read](fresh(table))


def test_an_answer_is_what_the_other_tool_left(table: OpenTable, model: Model) -> None:
    delete(table)
    append(table, LATE)
    expected = sorted({*ids(model), 900, 901, 902} - {43})

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ebb.ForeignCommitWarning)
        assert scanned_ids(table) == expected
        assert sorted(table.probe(low="a", high="zz")["id"].to_pylist()) == expected
        assert sorted(table.probe("k9", "a0")["id"].to_pylist()) == [900, 901]


@pytest.mark.parametrize("is_adopted", [False, True])
def test_the_latest_window_has_what_came_while_it_was_read(table: OpenTable, model: Model, *, is_adopted: bool) -> None:
    """The record is older than the clock, as those of an update never are, and another one is gone."""
    latest = table.up_to_date()
    reopen, turns = latest.reopen, []

    def change_meanwhile() -> object:
        turns.append(1)
        if len(turns) == 1:
            delete(table)
            append(table, LATE)
            if is_adopted:
                fresh(table).adopt()
        return reopen()

    object.__setattr__(latest, "reopen", change_meanwhile)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ebb.ForeignCommitWarning)
        found = latest.scan(["id"]).read_all()

    assert sorted(found["id"].to_pylist()) == sorted({*ids(model), 900, 901, 902} - {43})


def test_a_command_warns_once_on_the_error_output(
    table: OpenTable, model: Model, capsys: pytest.CaptureFixture[str]
) -> None:
    delete(table)
    command = Command(table.table.root, capsys)
    line = (
        "ebb: warning: table t was changed by another tool: DELETE in version 7; "
        "run ebb adopt t, or restore the table from a backup\n"
    )

    for arguments in (
        ("scan", "t", "--limit", "1"),
        ("probe", "t", "k1"),
        ("sql", "SELECT a.id FROM t a, t b LIMIT 1"),
    ):
        told = command(*arguments)
        assert (told.code, told.err) == (0, line)
    assert command("scan", "t", "--isolation", "latest", "--format", "jsonl").err == line
    refused = command.wrong("update", "t", "--at", "5", code=1)
    assert refused == line.removeprefix("ebb: warning: ").rstrip("\n")


# Adopted


def adopted(table: OpenTable, model: Model) -> None:
    """Adopt, and compare everything with the model: windows, counts, ledger, and what later updates make of it."""
    told = fresh(table).adopt()
    snapshot = fresh(table).table.snapshot()

    assert told.version == snapshot.version
    assert snapshot.foreign == ()
    assert told.live == len(model.window()) == snapshot.ledger.live_records == sum(snapshot.ledger.live.values())
    assert table.status().live_records == told.live
    assert all(footer_hash_in(file.path) for file in snapshot.files)
    clock = snapshot.ledger.clock or 0
    for slot in range(clock + 1, clock + 8):
        assert scanned_ids(table) == ids(model)
        assert sorted(table.probe(low="a", high="zz")["id"].to_pylist()) == ids(model)
        batch = [Record(1000 + 10 * slot + n, f"k{n}", slot, slot + 1 + n) for n in range(3)]
        outcome = model.apply(slot, batch)
        report = table.update(arrow_batch(batch), at=slot)
        assert (report.admitted, report.expired, report.live) == (
            len(outcome.admitted), outcome.expired, len(model.window()),
        )  # fmt: skip
        assert report.warnings == ()
        assert table.status().deletion_bound_kept


def test_a_delete_is_adopted(tmp_path: Path, way: str) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"), reader_time="1", **WAYS[way])
    model = filled(table)
    delta(table).delete("id % 3 = 1")
    model.kept = [record for record in model.kept if record.id % 3 != 1]

    adopted(table, model)


def test_an_append_with_the_right_slots_is_adopted(tmp_path: Path, way: str) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"), reader_time="1", **WAYS[way])
    model = filled(table)
    unsorted = [Record(2000 + n, f"z{(37 * n) % 100:03}", 4, 5 + n % 4) for n in range(300)]
    append(table, [*LATE, *unsorted])
    model.kept += [*LATE, *unsorted]

    adopted(table, model)


def test_an_optimize_is_adopted(tmp_path: Path, way: str) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"), reader_time="1", **WAYS[way])
    model = filled(table)
    for number in range(3):
        extra = [Record(3000 + 10 * number + n, f"o{n}", 4, 8) for n in range(5)]
        append(table, extra)
        model.kept += extra
    delta(table).optimize.compact(writer_properties=WriterProperties(max_row_group_size=7))

    adopted(table, model)


def test_a_restore_is_adopted_without_turning_the_clock_back(table: OpenTable) -> None:
    model = filled(table, range(1, 4))
    before = delta(table).version()
    kept = list(model.kept)
    table.update(arrow_batch([Record(77, "k7", 4, 9)]), at=4)
    model.apply(4, [])
    delta(table).restore(before)
    model.kept = kept

    told = table.adopt(dry_run=True)
    assert (told.live_before, told.live) == (len(model.window()) + 1, len(model.window()))
    adopted(table, model)
    assert table.status().clock == 11


def test_a_file_that_was_brought_back_and_removed_again_stays_for_the_grace_period(tmp_path: Path) -> None:
    """It was erased when the grace period of its first removal was over."""
    table = integer_table(open_warehouse(tmp_path / "w"), reader_time="2", **WAYS["norebuild"])
    table.update(arrow_batch([Record(1, "a", 1, 2), Record(2, "b", 1, 5)]), at=1)
    (file,) = table.table.snapshot().files
    for slot in (2, 3):
        table.update(at=slot)  # the first removes the file
    delta(table).restore(1)
    table.adopt()  # removes it again, because a record in it has expired

    for slot in (4, 5):
        table.update(at=slot)
        assert file.path in data_files(table)
    table.update(at=6)
    assert file.path not in data_files(table)


def test_records_that_expired_meanwhile_stay_out(table: OpenTable, model: Model) -> None:
    append(table, [*LATE, Record(950, "k0", 1, 3)])  # that one expired at slot 3
    model.kept += LATE

    adopted(table, model)


def test_files_without_statistics_are_read_counted_and_adopted(table: OpenTable, model: Model) -> None:
    """The log has no slots for a file, said every command."""
    append_without_statistics(table, LATE)
    model.kept += LATE

    status = fresh(table).status()
    with pytest.warns(ebb.ForeignCommitWarning):
        assert scanned_ids(fresh(table)) == ids(model)
    assert (status.live_records, status.uncounted_files) == (len(model.window()), ())
    adopted(table, model)


def test_the_log_of_ebb_itself_must_have_slots(table: OpenTable, model: Model) -> None:
    entry = max(path for path in table.table.log.glob("*.json") if b'"add"' in path.read_bytes())
    lines = [json.loads(line) for line in entry.read_text(encoding="utf-8").splitlines()]
    for action in lines:
        action.get("add", {}).pop("stats", None)
    entry.write_text("".join(json.dumps(action) + "\n" for action in lines), encoding="utf-8")

    with pytest.raises(ebb.CorruptionError, match="the log has no slots for a file"):
        fresh(table).status()


def test_history_shows_an_adoption_with_what_was_adopted(table: OpenTable, model: Model) -> None:
    delete(table)
    append(table, LATE)
    told = table.adopt()

    newest, write, deletion, *_ = table.history()
    assert (newest.op, newest.version, newest.adopted_versions) == ("adopt", 9, (7, 8))
    assert newest.adopted_operations == ("DELETE", "WRITE")
    assert (newest.live_before, newest.live) == (len(model.window()), len(model.window()) + 2)
    assert (newest.files_removed, newest.files_added) == (told.files_removed, told.files_added)
    assert (write.op, write.id, deletion.op, deletion.id) == ("write", None, "delete", None)
    assert [commit.version for commit in told.commits] == [7, 8]


def test_what_others_removed_counts_against_the_bound_until_it_is_erased(table: OpenTable, model: Model) -> None:
    """Files that a DELETE removes lie on disk as before, and what has expired in them is as old as before."""
    exposed = table.status()
    assert exposed.expired_files_on_disk > 0
    delta(table).delete()  # everything

    age = table.status().oldest_expired_age
    assert age == exposed.oldest_expired_age
    table.adopt()
    assert fresh(table).status().oldest_expired_age == age
    table.update(at=5)
    table.update(at=6)
    assert table.status().expired_files_on_disk == 0


def test_a_foreign_history_of_more_slots_than_a_commit_lists_is_counted(tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"), span="400", grid="4x4", strategy="norebuild", reader_time="1")
    model = Model(table.table.snapshot().spec.timeline)
    batch = [Record(n, f"k{n % 7}", 1, 2 + n) for n in range(390)]
    table.update(arrow_batch(batch), at=1)
    model.apply(1, batch)
    delta(table).delete("id % 2 = 1")
    model.kept = [record for record in model.kept if record.id % 2 == 0]

    adopted(table, model)


def test_an_adoption_that_fails_anywhere_changes_nothing_or_is_made(tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path / "original"), reader_time="1", **WAYS["retire"])
    model = filled(table)
    append(table, LATE)
    delete(table)
    expected = sorted({*ids(model), 900, 901, 902} - {43})
    with armed(tmp_path / "original", full_disk()) as fault:
        table.adopt(dry_run=True)
    looks = len(fault.seen)
    outcomes = []
    for at in range(looks, looks + 900, 9):
        root = tmp_path / str(at)
        shutil.copytree(tmp_path / "original", root)
        copy = OpenTable(open_warehouse(root), Table(root, "t"))
        with armed(root, full_disk() if at % 2 else Interruption(), at) as fault:
            try:
                copy.adopt()
                outcomes.append("made")
            except (ebb.EngineError, ebb.InDoubtError, Interruption):
                outcomes.append("failed")
        again = OpenTable(open_warehouse(root), Table(root, "t"))
        again.adopt()
        assert scanned_ids(again) == expected
        again.erase()
        named = {file.path for file in again.table.snapshot().files}
        removed = {path for removal in again.table.snapshot().removals() for path in removal.paths}
        assert named <= set(data_files(again)) <= named | removed
        if at >= len(fault.seen):
            break
    assert "failed" in outcomes
    assert outcomes[-1] == "made"


# Not adopted


def missing(table: OpenTable) -> None:
    delete(table)
    (table.table.folder / table.table.snapshot().files[0].path).unlink()


def truncated(table: OpenTable) -> None:
    delete(table)
    os.truncate(table.table.folder / table.table.snapshot().files[0].path, 100)


def no_slots(table: OpenTable) -> None:
    planted(table, {"add": _added_file(table, pa.table({"id": [1]}))}, operation="WRITE")


def other_types(table: OpenTable) -> None:
    columns = {"_ins_slot": [4], "_exp_slot": [6], "id": ["x"], "key": ["k"], "inserted": [4], "expires": [6]}
    planted(table, {"add": _added_file(table, pa.table(columns))}, operation="WRITE")


def _added_file(table: OpenTable, records: pa.Table) -> dict[str, object]:
    import pyarrow.parquet as pq

    file = table.table.folder / "strange.parquet"
    pq.write_table(records, file)
    cell = {"_gen": "0", "_g": "1", "_e": "2"}
    return {"path": file.name, "partitionValues": cell, "size": file.stat().st_size, "modificationTime": 1, "dataChange": True}  # fmt: skip


MISFITS: dict[str, tuple[Callable[[OpenTable], None], str]] = {
    "null key": (lambda t: append(t, LATE, key=["a", None, "b"]), "a record cannot be kept: key key is null"),
    "null time": (lambda t: append(t, LATE, expires=[9, None, 5]), "expiration time expires is null"),
    "from the future": (lambda t: append(t, [Record(1, "a", 6, 9)]), "inserted in the future"),
    "long life": (lambda t: append(t, [Record(1, "a", 2, 9)]), "lives longer than the span 6"),
    "expiration slot": (lambda t: append(t, LATE, _exp_slot=[9, 7, 6]), "another _exp_slot than that of its expiration"),
    "insertion slot": (lambda t: append(t, LATE, _ins_slot=[3, 3, 2]), "an _ins_slot before that of its insertion time"),
    "insertion slot to come": (lambda t: append(t, LATE, _ins_slot=[5, 3, 2]), "or after the clock"),
    "wrong cell": (lambda t: append(t, LATE, _g=[0, 0, 0], _e=[0, 0, 0]), r"do not all belong to cell \(0, 0\)"),
    "no cell": (lambda t: append(t, LATE, _g=[None] * 3, _e=[None] * 3), r"belong to cell \(-1, -1\)"),
    "null slot": (lambda t: append_without_statistics(t, LATE[:1], _exp_slot=[None], _e=[1]), "a record has no slot"),
    "missing file": (missing, "a data file is missing"),
    "truncated file": (truncated, "bytes, and the log says"),
    "no slot columns": (no_slots, "it has no column _ins_slot"),
    "other types": (other_types, "its columns are not those of the table"),
}  # fmt: skip


@pytest.mark.parametrize("what", sorted(MISFITS))
def test_what_does_not_fit_is_not_adopted(table: OpenTable, model: Model, what: str) -> None:
    deed, reason = MISFITS[what]
    deed(table)
    before = state_of(table.table.root)

    for dry_run in (True, False):
        with pytest.raises(ebb.AdoptionError, match=reason) as refused:
            fresh(table).adopt(dry_run=dry_run)

    assert ".parquet: " in str(refused.value)
    assert str(refused.value).endswith("; nothing was changed; restore the table from a backup")
    assert state_of(table.table.root) == before
    with pytest.raises(ebb.ForeignCommitError):
        table.update(at=5)


@pytest.mark.parametrize("what", ["no slot columns", "null slot"])
def test_status_says_what_it_cannot_count(table: OpenTable, model: Model, what: str) -> None:
    MISFITS[what][0](table)

    status = fresh(table).status()

    assert status.live_records is None
    assert MISFITS[what][1] in status.uncounted_files[0]


def test_nothing_can_be_adopted_before_the_first_update(table: OpenTable) -> None:
    append(table, LATE, _ins_slot=[0, 0, 0])

    assert table.status().live_records == 0
    with pytest.raises(ebb.AdoptionError, match="the table has no clock yet"):
        table.adopt()


# The protocol and the layout


def test_a_layout_that_another_tool_changed_is_refused_until_it_is_set_back(table: OpenTable, model: Model) -> None:
    """With another tick every slot would mean another time."""
    known = table.table.snapshot()
    set_properties(table, known, tick="2", cohorts="ring:9:1")

    for opened in (table, fresh(table)):
        with pytest.raises(ebb.CorruptionError, match=r"the layout of table t in version 7: ebb\.cohorts, ebb\.tick; "):
            opened.scan()
    set_properties(table, known)
    assert scanned_ids(table) == ids(model)
    assert table.update(at=5).slot == 5


def test_what_can_be_altered_may_be_altered_by_others(table: OpenTable, model: Model) -> None:
    set_properties(table, table.table.snapshot(), deletionBound="9")

    assert fresh(table).status().deletion_bound == "9"
    assert table.update(at=5).slot == 5


@pytest.mark.parametrize("feature", [TableFeatures.DeletionVectors, TableFeatures.ColumnMapping])
def test_a_raised_protocol_is_refused_in_one_line(
    table: OpenTable, model: Model, feature: TableFeatures, capsys: pytest.CaptureFixture[str]
) -> None:
    delta(table).alter.add_feature(feature, allow_protocol_versions_increase=True)

    for work in (*WRITES.values(), *READS.values(), OpenTable.status, OpenTable.adopt):
        for opened in (table, fresh(table)):
            with pytest.raises(ebb.ProtocolError, match=r"table t needs reader \d and writer 7 of Delta's protocol \("):
                work(opened)
    assert "and Ebb knows 1 and 2; take it back" in Command(table.table.root, capsys).wrong("scan", "t", code=1)
    assert table.warehouse.drop("t").files is None


# What proves the bound


def proven(table: OpenTable) -> tuple[object, ...]:
    status = fresh(table).status()
    return status.oldest_expired_age, status.expired_files_on_disk, status.deletion_bound_kept, status.files


def test_touch_copy_and_restore_do_not_change_what_proves_the_bound(table: OpenTable, model: Model) -> None:
    """The age was taken from the time of the files, so that a touch made a broken bound look kept."""
    proof = proven(table)
    assert proof[1]

    for path in table.table.folder.rglob("*"):
        os.utime(path, (2_000_000_000, 2_000_000_000))
    assert proven(table) == proof
    copy = table.table.root.with_name("copy")
    shutil.copytree(table.table.root, copy, copy_function=shutil.copyfile)
    assert proven(OpenTable(open_warehouse(copy), Table(copy, "t"))) == proof
    shutil.rmtree(table.table.root)
    shutil.copytree(copy, table.table.root)
    assert proven(table) == proof
    assert DeltaTable(table.table.folder).version() == 6
