"""What has expired is gone from disk when the deletion bound says so, whatever the strategy and whatever happened."""

from __future__ import annotations

import re
import uuid
from datetime import UTC
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ebb import OpenTable, Warehouse
from ebb.warehouse.store.paths import SIDE_SUFFIX
from tests.builders import integer_table, scanned_ids, write_batch
from tests.model import Model, Record

WAYS = {
    "retire": {"policy": "2x2", "strategy": "retire", "deletion_bound": "5"},
    "norebuild": {"grid": "3x3", "strategy": "norebuild", "deletion_bound": "5"},
    "rebuild": {"grid": "3x3", "strategy": "rebuild", "deletion_bound": "3"},
}


def texts_on_disk(table: OpenTable) -> tuple[set[str], bytes]:
    """Return every key and value in any data file and in what lies beside it, and all other bytes."""
    found: set[str] = set()
    rest = b""
    for file in table.table.root.rglob("*"):
        if not file.is_file():
            continue
        if file.suffix == ".parquet" and "_delta_log" not in file.parts:
            data = pq.read_table(file, partitioning=None)
            for name in data.column_names:
                found.update(str(value) for value in data[name].to_pylist())
        elif file.suffix == SIDE_SUFFIX:
            found.update(re.findall(r"canary-[0-9a-f-]{36}", file.read_bytes().decode("latin-1")))
        else:
            rest += file.read_bytes()
    return found, rest


@pytest.mark.parametrize("way", sorted(WAYS))
def test_no_byte_of_a_record_is_on_disk_when_its_bound_has_passed(
    warehouse: Warehouse, tmp_path: Path, way: str
) -> None:
    table = integer_table(warehouse, **WAYS[way])
    bound = int(WAYS[way]["deletion_bound"])
    expiry: dict[str, int] = {}
    for slot in range(1, 16):
        canaries = [Record(100 * slot + i, f"canary-{uuid.uuid4()}", slot, slot + 1 + i) for i in range(6)]
        # A record that is refused: it has to go with the quarantine's time, which is the bound.
        refused = Record(100 * slot + 50, f"canary-{uuid.uuid4()}", slot, slot + 40)
        expiry |= {str(r.key): r.expires or 0 for r in canaries} | {str(refused.key): slot}
        table.update(write_batch(tmp_path / f"{slot}.parquet", [*canaries, refused]), at=slot)

        on_disk, rest = texts_on_disk(table)
        overdue = [key for key, expires in expiry.items() if expires + bound <= slot]
        assert not on_disk & set(overdue)
        assert not [record for record in on_disk if any(key in record for key in overdue)]
        assert not [key for key in expiry if key.encode() in rest], "no key may ever be in the log"
    assert table.status().deletion_bound_kept


@pytest.mark.parametrize("way", sorted(WAYS))
def test_seal_purge_and_erase_change_no_answer(warehouse: Warehouse, tmp_path: Path, way: str) -> None:
    table = integer_table(warehouse, **WAYS[way])
    model = Model(table.table.snapshot().spec.timeline)
    for slot in range(1, 9):
        batch = [Record(10 * slot + i, f"k{i}", slot, slot + 1 + (slot * i) % 6) for i in range(6)]
        table.update(write_batch(tmp_path / f"{slot}.parquet", batch), at=slot)
        model.apply(slot, batch)
        for work in (table.seal, table.erase, table.purge, table.erase):
            work()
            assert scanned_ids(table) == sorted(r.id for r in model.window())


def test_removed_files_wait_for_readers_and_strays_do_not(warehouse: Warehouse, tmp_path: Path) -> None:
    table = integer_table(warehouse, **WAYS["rebuild"])
    table.update(write_batch(tmp_path / "1.parquet", [Record(1, "a", 1, 4), Record(2, "b", 1, 2)]), at=1)
    first = {f.path for f in table.table.snapshot().files}
    stray = table.table.folder / "u9-0123456789ab/_g=0/_e=0/x.parquet"
    stray.parent.mkdir(parents=True)
    stray.write_bytes(b"left behind")
    (table.table.hidden / "lock").write_text('{"pid": 1}')  # of a run that was killed

    table.update(write_batch(tmp_path / "2.parquet", [Record(3, "a", 2, 4)]), at=2)
    removed = first - {f.path for f in table.table.snapshot().files}

    assert removed
    assert not stray.exists()
    assert not (table.table.folder / "u9-0123456789ab").exists()
    assert all((table.table.folder / path).exists() for path in removed), "one tick for readers"
    table.update(at=3)
    table.update(at=4)
    assert not any((table.table.folder / path).exists() for path in removed)


def test_status_says_when_the_bound_is_broken(tmp_path: Path) -> None:
    from datetime import datetime, timedelta

    from tests.builders import open_warehouse

    # The files are written now, so the clock on the wall has to be ahead of now for them to be old.
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    wish = {
        "schema": "key STRING, came TIMESTAMP, goes TIMESTAMP",
        "key": ["key"],
        "inserted": "came",
        "expires": "goes",
    }
    table = open_warehouse(tmp_path / "w", now).create("hours", tick="1h", span="8h", deletion_bound="4h", **wish)
    batch = tmp_path / "b.csv"
    batch.write_text(f"key,came,goes\na,{now:%FT%TZ},{now + timedelta(hours=1):%FT%TZ}\n", encoding="utf-8")
    table.update(batch, at=now)

    for hours, kept in ((2, True), (4, True), (6, False)):
        later = open_warehouse(tmp_path / "w", now + timedelta(hours=hours, minutes=1)).table("hours")
        assert later.status().deletion_bound_kept is kept, hours
