"""Restored tables: what comes back, who may write to them, and what they are told apart by."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ebb import OpenTable, Warehouse
from ebb.index.errors import (
    CorruptionError,
    InputError,
    RestoredError,
    TableExistsError,
    UpgradeError,
    UsageError,
    WarehouseError,
)
from ebb.index.manifest import MANIFEST_FORMAT, Manifest, byte_hash
from ebb.maintenance.landing.run import Outcome
from ebb.warehouse.settings import Settings
from tests.backups import LAZY, RETIRE, apply_batch, batch_of_slot, canaries_below, digest_of
from tests.builders import (
    NOW,
    arrow_batch,
    gauge,
    integer_table,
    open_warehouse,
    refused_records,
    scanned_ids,
    timestamp_table,
    write_batch,
)
from tests.faults import Interruption, armed, full_disk
from tests.model import Record
from tests.seeds import drawn_seed, rounds


@pytest.fixture
def table(tmp_path: Path) -> OpenTable:
    """Return a table with three batches, and their backup in ``b``."""
    made = integer_table(open_warehouse(tmp_path / "w"), **LAZY)
    for slot in (1, 2, 3):
        apply_batch(made, slot)
    made.backup(tmp_path / "b")
    return made


def test_a_restored_table_refuses_to_go_on_until_it_is_adopted(table: OpenTable, tmp_path: Path) -> None:
    again = open_warehouse(tmp_path / "again")

    done = again.restore(tmp_path / "b", "t")

    copy = again.table("t")
    assert scanned_ids(copy) == scanned_ids(table)
    assert copy.probe("canary-2-4-x")["id"].to_pylist() == [204]
    assert [record.record for record in refused_records(copy.table)] == [
        record.record for record in refused_records(table.table)
    ]
    assert (done.records, done.is_confirmed) == (len(scanned_ids(table)), False)
    works = (copy.update, copy.seal, copy.purge, copy.erase, lambda: copy.alter(deletion_bound=20))
    for work in (*works, lambda: copy.backup(tmp_path / "c"), lambda: copy.load(arrow_batch([]))):
        with pytest.raises(RestoredError, match=r"table t was restored from a backup of version \d+, and nothing is"):
            work()
    assert [type(found) for found in copy.status().findings] == [RestoredError]
    assert gauge(copy, "ebb_table_writable") == 0
    assert copy.status().bound_missed_at is not None, "no update will remove what expires"
    assert copy.adopt(dry_run=True).restored_version == done.version
    with pytest.raises(RestoredError):
        copy.update(at=4)

    assert copy.adopt().restored_version == done.version

    assert copy.adopt().restored_version is None
    assert copy.status().findings == ()
    assert gauge(copy, "ebb_table_writable") == 1
    assert copy.status().bound_missed_at is None
    assert copy.update(arrow_batch(batch_of_slot(3))).already_applied
    table.update(at=4)
    copy.update(at=4)
    assert scanned_ids(copy) == scanned_ids(table)


def test_a_copy_is_not_repaired_before_it_is_adopted(table: OpenTable, tmp_path: Path) -> None:
    again = open_warehouse(tmp_path / "again")
    again.restore(tmp_path / "b", "t")
    copy = again.table("t")
    stray = copy.table.folder / "u9-0123456789abcdef" / "0" / "left.parquet"
    stray.parent.mkdir(parents=True)
    stray.write_bytes(b"left")
    before = digest_of(copy.table.folder)

    assert [found.code for found in copy.repair(dry_run=True).fixed] == ["stray-file"]
    with pytest.raises(RestoredError):
        copy.repair()

    assert digest_of(copy.table.folder) == before
    copy.adopt()
    copy.repair()
    assert not stray.exists()


def test_a_run_leaves_the_landing_folder_of_the_original_alone(table: OpenTable, tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    table.alter(landing=str(landing))
    table.backup(tmp_path / "b")
    good = write_batch(landing / "4-good.parquet", batch_of_slot(4))
    bad = landing / "4-bad.parquet"
    bad.write_bytes(b"not Parquet")
    again = Warehouse(Settings(warehouse=tmp_path / "again", engine="direct"), now=lambda: NOW)
    again.restore(tmp_path / "b", "t")
    before = digest_of(landing)

    for dry_run in (True, False):
        (told,) = [event for event in again.run(dry_run=dry_run) if isinstance(event, Outcome)]

        assert isinstance(told.cause, RestoredError)
        assert told.is_stopped
    assert {name: hash for name, hash in digest_of(landing).items() if not name.startswith(".")} == before
    assert set(before) == {good.name, bad.name}

    again.table("t").adopt()
    outcomes = [event for event in again.run() if isinstance(event, Outcome)]
    assert [(o.set_aside is not None, o.report is not None) for o in outcomes] == [(True, False), (False, True)]


def test_a_batch_that_came_after_the_backup_counts_as_new_and_one_before_it_does_not(
    table: OpenTable, tmp_path: Path
) -> None:
    apply_batch(table, 4)
    again = open_warehouse(tmp_path / "again")
    again.restore(tmp_path / "b", "t")
    copy = again.table("t")
    copy.adopt()

    for slot in (1, 2, 3):
        assert copy.update(arrow_batch(batch_of_slot(slot))).already_applied
    assert not copy.update(arrow_batch(batch_of_slot(4)), at=4).already_applied
    assert copy.update(arrow_batch(batch_of_slot(4))).already_applied

    assert scanned_ids(copy) == scanned_ids(table)


def test_under_another_name_it_is_a_table_of_its_own(table: OpenTable, tmp_path: Path) -> None:
    table.alter(landing=str(tmp_path / "landing"))
    table.backup(tmp_path / "b")

    done = table.warehouse.restore(tmp_path / "b", "t", new_name="u")

    other = table.warehouse.table("u")
    assert (done.is_confirmed, done.landing_left) == (True, str(tmp_path / "landing"))
    assert other.describe().landing is None
    assert table.describe().landing == str(tmp_path / "landing")
    other.update(at=4)
    assert (other.status().clock, table.status().clock) == (4, 3)
    assert other.backup(tmp_path / "b").place == f"{tmp_path}/b/u"


def test_a_copy_has_an_id_of_its_own_so_that_a_follower_of_the_original_notices(
    table: OpenTable, tmp_path: Path
) -> None:
    feed = table.changes("start")
    feed_of_all = feed.reader().read_all()
    token = feed.token
    again = open_warehouse(tmp_path / "again")
    again.restore(tmp_path / "b", "t")
    copy = again.table("t")
    copy.adopt()

    with pytest.raises(InputError, match="another table"):
        copy.changes(token)

    assert copy.changes("start").reader().read_all().num_rows <= feed_of_all.num_rows
    since = copy.table.snapshot().version
    apply_batch(copy, 4)
    assert sorted(copy.changes(since).reader().read_all()["id"].to_pylist()) == [400, 401, 402, 403, 404, 405]


def test_the_backup_of_a_copy_goes_on_where_that_of_the_original_ended(table: OpenTable, tmp_path: Path) -> None:
    again = open_warehouse(tmp_path / "again")
    again.restore(tmp_path / "b", "t")
    copy = again.table("t")
    copy.adopt()
    apply_batch(copy, 4)

    done = copy.backup(tmp_path / "b")

    assert 0 < done.files_copied < done.files
    with pytest.raises(InputError, match="holds the backup of another table"):
        table.backup(tmp_path / "b")
    warnings: list[str] = []
    for slot in range(4, 12):
        warnings += table.update(at=slot).warnings
    assert any("holds another table of this name now" in text for text in warnings)
    assert open_warehouse(tmp_path / "third").restore(tmp_path / "b", "t", dry_run=True).slot == 4


def test_an_adopted_copy_looks_after_the_backup_that_it_came_from(table: OpenTable, tmp_path: Path) -> None:
    again = open_warehouse(tmp_path / "again")
    again.restore(tmp_path / "b", "t")
    copy = again.table("t")
    assert copy.status().backups == ()
    assert again.drop("t", dry_run=True).backups == (), "nobody says that it goes on in place of the original"
    before = canaries_below(tmp_path / "b")

    copy.adopt()

    assert [(one.place, one.version) for one in copy.status().backups] == [(f"{tmp_path}/b/t", 3)]
    assert copy.status().findings == ()
    assert canaries_below(tmp_path / "b") == before != set()
    for slot in range(4, 15):
        assert copy.update(at=slot).warnings == ()
    assert canaries_below(tmp_path / "b") == set()
    assert again.drop("t", dry_run=True).backups == (f"{tmp_path}/b/t",)


def test_what_an_adopted_copy_forgets_leaves_the_backup_that_it_came_from(table: OpenTable, tmp_path: Path) -> None:
    again = open_warehouse(tmp_path / "again")
    again.restore(tmp_path / "b", "t")
    apply_batch(table, 4)
    table.backup(tmp_path / "b")  # the original goes on until the copy is adopted
    copy = again.table("t")
    copy.adopt()
    assert copy.status().backups[0].slot == 4

    assert copy.forget("canary-3-5-x").warnings == ()

    assert "canary-3-5-x" not in canaries_below(tmp_path / "b")
    again.restore(tmp_path / "b", "t", new_name="u")
    assert scanned_ids(again.table("u")) == scanned_ids(copy)


def test_a_table_of_another_name_leaves_the_backup_that_it_came_from_alone(table: OpenTable, tmp_path: Path) -> None:
    table.warehouse.restore(tmp_path / "b", "t", new_name="u")

    assert table.warehouse.table("u").status().backups == ()


def test_what_has_expired_by_now_does_not_come_back(tmp_path: Path) -> None:
    table = timestamp_table(open_warehouse(tmp_path / "w", NOW), deletion_bound="4h")
    kind = pa.timestamp("us", "UTC")
    schema = pa.schema([("id", pa.int64()), ("key", pa.string()), ("inserted", kind), ("expires", kind)])
    rows: list[dict[str, Any]] = [
        {"id": hours, "key": f"canary-{hours}-x", "inserted": NOW, "expires": NOW + timedelta(hours=hours)}
        for hours in range(1, 7)
    ]
    table.update(pa.Table.from_pylist(rows, schema), at=NOW)
    table.backup(tmp_path / "b")
    later = open_warehouse(tmp_path / "again", NOW + timedelta(hours=3))

    with pytest.raises(UsageError, match="is over: what has expired by now does not come back"):
        later.restore(tmp_path / "b", "t", at=NOW)
    done = later.restore(tmp_path / "b", "t")

    copy = later.table("t")
    assert (done.records, done.expired) == (3, 3)
    assert scanned_ids(copy) == [4, 5, 6]
    assert canaries_below(later.root) == {f"canary-{hours}-x" for hours in (4, 5, 6)}
    told = copy.status()
    assert (told.live_records, told.expired_files_on_disk, told.deletion_bound_kept) == (3, 0, True)
    copy.adopt()
    report = copy.update(at=NOW + timedelta(hours=4), catch_up=True)
    assert (report.expired, report.live) == (1, 2)


def test_times_that_are_over_are_refused(table: OpenTable, tmp_path: Path) -> None:
    again = open_warehouse(tmp_path / "again")

    with pytest.raises(UsageError, match="time 2 is before 3"):
        again.restore(tmp_path / "b", "t", at=2)

    assert again.restore(tmp_path / "b", "t", at=5).records == len(
        [i for i in scanned_ids(table) if i % 100 > 4 - i // 100]
    )


def test_nothing_takes_the_place_of_a_table(table: OpenTable, tmp_path: Path) -> None:
    before = digest_of(table.table.root)

    with pytest.raises(TableExistsError):
        table.warehouse.restore(tmp_path / "b", "t")
    with pytest.raises(UsageError, match="table name"):
        table.warehouse.restore(tmp_path / "b", "../t")
    with pytest.raises(UsageError, match="table name"):
        table.warehouse.restore(tmp_path / "b", "t", new_name="../u")
    with pytest.raises(InputError, match="there is no backup of table u"):
        table.warehouse.restore(tmp_path / "b", "u")

    assert digest_of(table.table.root) == before


def test_a_quarantine_without_its_table_is_not_overwritten(table: OpenTable, tmp_path: Path) -> None:
    again = open_warehouse(tmp_path / "again")
    shutil.copytree(table.table.quarantine, tmp_path / "again" / "t.quarantine")

    with pytest.raises(InputError, match="is there without its table"):
        again.restore(tmp_path / "b", "t")


@pytest.mark.parametrize("error", [Interruption(), full_disk()])
def test_a_restore_that_is_broken_off_anywhere_brings_back_all_or_nothing(
    error: BaseException, table: OpenTable, tmp_path: Path
) -> None:
    with armed(tmp_path / "again", error) as watched:
        open_warehouse(tmp_path / "again").restore(tmp_path / "b", "t")
    rng = random.Random(drawn_seed())
    last = range(len(watched.seen) - 12, len(watched.seen))  # where it gets its name
    for at in sorted({*rng.sample(range(len(watched.seen)), rounds(8)), *last}):
        shutil.rmtree(tmp_path / "again")
        again = open_warehouse(tmp_path / "again")
        with armed(tmp_path / "again", error, at), contextlib.suppress(Interruption, WarehouseError):
            again.restore(tmp_path / "b", "t")

        if not (tmp_path / "again" / "t").exists():
            assert again.root.exists() is False or again.tables() == []
            again.restore(tmp_path / "b", "t")
        assert scanned_ids(again.table("t")) == scanned_ids(table), watched.seen[at]
        assert len(refused_records(again.table("t").table)) == 3
        left = [path for path in again.root.iterdir() if path.name not in ("t", "t.quarantine")]
        assert [list(path.iterdir()) for path in left] in ([], [[]]), "an empty folder at most"


def test_a_table_with_checkpoints_states_and_many_files_comes_back_with_its_history(tmp_path: Path) -> None:
    table = integer_table(
        open_warehouse(tmp_path / "w"), span="60", grid="1x1", strategy="norebuild", deletion_bound="80"
    )
    for slot in range(1, 61):
        table.update(arrow_batch([Record(slot, f"k{slot}", slot, slot + 50)]), at=slot)
    table.backup(tmp_path / "b")
    again = open_warehouse(tmp_path / "again")
    again.restore(tmp_path / "b", "t")
    copy = again.table("t")

    assert [c.op for c in copy.history()][1:] == [c.op for c in table.history()]
    assert copy.history(1)[0].op == "restore"
    assert copy.table.snapshot().ledger.ranges, "so that a probe looks into few files"
    assert scanned_ids(copy) == scanned_ids(table)
    assert copy.probe("k33")["id"].to_pylist() == [33]
    assert {path.with_suffix("") for path in copy.table.folder.rglob("*.keys")} == {
        copy.table.folder / Path(file.path).with_suffix("") for file in copy.table.snapshot().files
    }
    copy.adopt()
    copy.update(at=61)
    assert scanned_ids(copy) == [*range(12, 61)]


def test_a_table_without_records_comes_back(tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"), **RETIRE)
    table.backup(tmp_path / "b")
    again = open_warehouse(tmp_path / "again")

    done = again.restore(tmp_path / "b", "t")

    assert (done.records, done.slot, done.expired_through) == (0, None, None)
    again.table("t").adopt()
    apply_batch(again.table("t"), 1)


def _rewritten(tmp_path: Path, change: Any) -> None:
    """Change the manifest and give it a hash that fits: whoever does that is hostile, or a newer Ebb."""
    place = tmp_path / "b/t/manifest"
    value = json.loads(place.read_bytes().split(b"\n")[0])
    change(value)
    text = json.dumps(value).encode()
    place.write_bytes(text + b"\n" + byte_hash(text).encode() + b"\n")


@pytest.mark.parametrize(
    "path", ["../w/t/x", "/etc/passwd", "_delta_log/x.json", "a//b", "s3://bucket/x", "u1/%2e%2e/../x"]
)
def test_a_hostile_manifest_leads_nowhere(path: str, table: OpenTable, tmp_path: Path) -> None:
    before = digest_of(table.table.root)
    for field in ("files", "others", "refused"):
        shutil.copytree(tmp_path / "b", tmp_path / "whole", dirs_exist_ok=True)

        def change(value: Any, field: str = field) -> None:
            if field == "files":
                value["files"][0][0] = path
            else:
                value[field][0]["path"] = path if path != "_delta_log/x.json" else "_ebb/x"

        _rewritten(tmp_path, change)
        for work in (
            lambda: table.backup(tmp_path / "b"),
            lambda: table.warehouse.restore(tmp_path / "b", "t", new_name="u"),
        ):
            with pytest.raises(CorruptionError, match="outside"):
                work()
        shutil.rmtree(tmp_path / "b")
        (tmp_path / "whole").rename(tmp_path / "b")

    assert digest_of(table.table.root) == before


def test_the_backup_of_a_newer_ebb_is_refused(table: OpenTable, tmp_path: Path) -> None:
    _rewritten(tmp_path, lambda value: value.update(format=MANIFEST_FORMAT + 1))

    with pytest.raises(UpgradeError, match="install a newer Ebb"):
        table.warehouse.restore(tmp_path / "b", "t", new_name="u")


def test_files_that_were_exchanged_are_noticed(table: OpenTable, tmp_path: Path) -> None:
    """Each is whole, and they do not belong together."""
    apply_batch(table, 4)
    older = Manifest.loads((tmp_path / "b/t/manifest").read_bytes())
    table.backup(tmp_path / "c")

    def change(value: Any) -> None:
        value["files"] = value["files"][1:]

    _rewritten(tmp_path, change)
    with pytest.raises(CorruptionError, match="contradicts itself"):
        table.warehouse.restore(tmp_path / "b", "t", new_name="u")
    _rewritten(tmp_path, lambda value: value.update(version=older.version - 1))
    with pytest.raises(CorruptionError, match="is not that of its manifest"):
        table.warehouse.restore(tmp_path / "b", "t", new_name="u")
    assert {table.name for table in table.warehouse.tables()} == {"t"}


def test_a_restore_changes_nothing_in_the_backup(table: OpenTable, tmp_path: Path) -> None:
    before = digest_of(tmp_path / "b")

    table.warehouse.restore(tmp_path / "b", "t", new_name="u")
    table.warehouse.restore(tmp_path / "b", "t", new_name="v", at=6)

    assert digest_of(tmp_path / "b") == before
