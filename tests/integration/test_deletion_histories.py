"""The deletion bound (P17, P18, P19) under refusals, repeats, jumps and housekeeping at random moments."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ebb import Warehouse
from ebb.index.errors import AppliedSlotError, JumpError, LeaseEndedError, SchemaDriftError
from tests.builders import data_files, integer_table, open_warehouse, records, scanned_ids, timestamp_table, write_batch
from tests.canaries import canaries_on_disk
from tests.model import Model, Record

WAYS: dict[str, dict[str, str]] = {
    "retire": {"policy": "3x2", "strategy": "retire", "deletion_bound": "6"},
    "retire at once": {"policy": "1x1", "strategy": "retire", "deletion_bound": "3"},
    "norebuild": {"grid": "2x3", "strategy": "norebuild", "deletion_bound": "3"},
    "lazy norebuild": {"grid": "3x2", "strategy": "norebuild", "deletion_bound": "9", "policy": "random"},
    "rebuild": {"grid": "2x2", "strategy": "rebuild", "deletion_bound": "4", "policy": "chronological"},
}


@pytest.mark.parametrize("way", WAYS)
def test_the_bound_holds_through_a_random_history_and_every_answer_is_the_models(
    way: str, warehouse: Warehouse, tmp_path: Path
) -> None:
    table = integer_table(warehouse, **WAYS[way])
    bound, rng = int(WAYS[way]["deletion_bound"]), random.Random(way)
    model = Model(table.table.snapshot().spec.timeline)
    expires: dict[str, int] = {}
    slots: list[int] = []
    slot = 0
    for step in range(14):
        jump = rng.choice([1, 1, 1, 1, 2, 3])
        slot += jump
        slots.append(slot)
        batch = [Record(100 * step + i, f"canary{step}-{i}", slot, slot + rng.randint(1, 6)) for i in range(5)]
        batch.append(Record(100 * step + 50, f"canary{step}-over", slot - 3, slot))
        refused = Record(100 * step + 60, f"canary{step}-refused", slot, slot)
        file = write_batch(tmp_path / f"{step}.parquet", [*batch, refused])
        table.update(file if step % 5 else None, at=slot, catch_up=jump > 1, yes=True)
        if step % 5:
            expires |= {str(record.key): record.expires or 0 for record in (*batch, refused)}
        model.apply(slot, [*batch, refused] if step % 5 else [])
        works: list[Callable[[], Any]] = [table.seal, table.purge, table.erase]
        for work in rng.sample(works, rng.randint(0, 3)):
            work()

        assert scanned_ids(table) == sorted(record.id for record in model.window()), f"step {step}"
        found = canaries_on_disk(warehouse.root)
        # An update that was skipped can erase nothing: what counts is the updates since the one that expired a record.
        late = {word for word in found if sum(s > expires[word] for s in slots) - (expires[word] not in slots) >= bound}
        assert late == set(), f"step {step}"
        assert not [word for word in found if word.endswith("-over")]
    assert table.status().deletion_bound_kept


def test_nothing_of_a_batch_that_was_not_applied_stays_on_disk(warehouse: Warehouse, tmp_path: Path) -> None:
    table = integer_table(warehouse)
    first = write_batch(tmp_path / "5.csv", records((1, "canary-live", 5, 11)))
    table.update(first, at=5)
    before = data_files(table)
    other = write_batch(tmp_path / "other.csv", records((2, "canary-other", 5, 11), (3, "canary-bad", 5, 5)))
    strange = tmp_path / "strange.jsonl"
    strange.write_text('{"id":4,"key":"canary-strange","inserted":5,"expires":9,"pay":"p","more":1}\n')

    with pytest.raises(AppliedSlotError):
        table.update(other, at=5)
    with pytest.raises(JumpError):
        table.update(other, at=8)
    with pytest.raises(SchemaDriftError):
        table.update([strange, first], at=6)
    table.update(other, at=6, dry_run=True)
    assert table.update(first).already_applied

    assert canaries_on_disk(warehouse.root) == {"canary-live"}
    assert data_files(table) == before


@pytest.mark.parametrize("way", ["rebuild", "lazy norebuild"])
def test_a_pinned_reader_reads_to_its_end_until_the_bound_is_reached_and_never_gets_a_short_answer(
    way: str, warehouse: Warehouse, tmp_path: Path
) -> None:
    table = integer_table(warehouse, **(WAYS[way] | {"reader_time": "2", "deletion_bound": "9"}))
    for slot in (1, 2, 3):
        batch = [Record(10 * slot + i, f"k{i}", slot, slot + 1 + i) for i in range(6)]
        table.update(write_batch(tmp_path / f"{slot}.parquet", batch), at=slot)
    wanted, pinned = scanned_ids(table), table.at_latest()
    table.purge()

    def read() -> list[int]:
        return sorted(i for part in pinned.scan(["id"]) for i in part["id"].to_pylist())

    erased: list[int] = []
    for slot in range(4, 16):
        table.update(at=slot)
        table.erase()
        try:
            assert read() == wanted, slot
        except LeaseEndedError:
            erased.append(slot)
        assert table.status().deletion_bound_kept
        assert scanned_ids(table) == [i for i in wanted if (i // 10) + 1 + i % 10 > slot]
    assert erased == list(range(erased[0], 16))
    assert 3 + 2 + 1 < erased[0] <= 3 + 9, "after the grace period, and before the bound of what expires next"


def test_erase_counts_the_readers_time_of_a_timestamp_table_on_the_wall(tmp_path: Path) -> None:
    """Commits carry the real time, so now is real here."""
    now = datetime.now(UTC)
    hour = now.replace(minute=0, second=0, microsecond=0)
    wish = {"strategy": "rebuild", "grid": "1x1", "reader_time": "10m", "deletion_bound": "4h"}
    table = timestamp_table(open_warehouse(tmp_path / "w", now), **wish)
    for number in (1, 2, 3):
        came, goes = hour - timedelta(hours=3 - number), hour + timedelta(hours=number)
        file = tmp_path / f"{number}.csv"
        file.write_text(f"id,key,inserted,expires\n{number},k,{came:%FT%TZ},{goes:%FT%TZ}\n")
        table.update(file, at=came)
    old = set(data_files(table)) - {file.path for file in table.table.snapshot().files}
    assert len(old) == 2

    for minutes, is_there in ((0, True), (9, True), (11, False)):
        later = open_warehouse(tmp_path / "w", datetime.now(UTC) + timedelta(minutes=minutes)).table("t")
        told = later.erase()
        assert (set(data_files(later)) >= old) == is_there, minutes
        assert (told.files_erased > 0) != is_there
    assert scanned_ids(table) == [1, 2, 3]
