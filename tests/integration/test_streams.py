"""Spark Structured Streaming over our tables: what a Delta source sees of each commit."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from ebb import OpenTable, Warehouse
from tests.builders import arrow_batch, integer_table
from tests.model import Record
from tests.seeds import drawn_seed

STRATEGIES: dict[str, dict[str, str]] = {
    "norebuild": {"strategy": "norebuild", "grid": "3x3", "policy": "chronological"},
    "retire": {"strategy": "retire", "policy": "2x2"},
}


def followed(spark: Any, table: OpenTable, place: Path) -> list[int]:
    """Let a stream take what it has not seen yet, as a new query on its old checkpoint; return all that it ever took."""
    source = spark.readStream.format("delta").option("ignoreDeletes", "true").option("startingVersion", "0")
    query = (
        source.load(str(table.table.folder))
        .select("id")
        .writeStream.format("parquet")
        .option("path", str(place / "taken"))
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return sorted(row.id for row in spark.read.parquet(str(place / "taken")).collect())


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_stream_that_ignores_deletes_gets_every_record_once_across_restarts(
    strategy: str, warehouse: Warehouse, spark: Any, tmp_path: Path
) -> None:
    rng = random.Random(drawn_seed())
    table = integer_table(warehouse, reader_time="4", deletion_bound="14", **STRATEGIES[strategy])
    admitted: list[int] = []
    for slot in range(1, 31):
        batch = [Record(slot * 100 + i, f"k{rng.randrange(9)}", slot, slot + rng.randint(1, 6)) for i in range(20)]
        report = table.update(arrow_batch(batch if slot % 5 else []), at=slot)
        admitted += [record.id for record in batch] if slot % 5 else []
        assert report.warnings == ()
        if slot % 7 == 0:
            table.purge()
        if slot % 4 == 0:
            assert followed(spark, table, tmp_path) == sorted(admitted)

    assert followed(spark, table, tmp_path) == sorted(admitted)
    ops = [commit.op for commit in table.history()]
    assert {"update", "retire", "purge"} <= set(ops)
    assert strategy != "retire" or "seal" in ops
    assert any(commit.erased_files for commit in table.history())


def test_a_stream_cannot_follow_rebuild(warehouse: Warehouse, spark: Any, tmp_path: Path) -> None:
    """The guide says so: its one commit adds and removes."""
    table = integer_table(warehouse, strategy="rebuild", grid="2x2")
    for slot in range(1, 5):
        table.update(arrow_batch([Record(slot, "k", slot, slot + 3)]), at=slot)

    with pytest.raises(Exception, match="DELTA_SOURCE_TABLE_IGNORE_CHANGES"):
        followed(spark, table, tmp_path)


def test_a_stream_that_comes_too_late_fails_and_leaves_nothing_out(
    warehouse: Warehouse, spark: Any, tmp_path: Path
) -> None:
    table = integer_table(warehouse, strategy="retire", policy="2x1", deletion_bound="6", reader_time="1")
    for slot in range(1, 13):
        table.update(arrow_batch([Record(slot, "k", slot, slot + 2)]), at=slot)
        if slot == 2:
            assert followed(spark, table, tmp_path) == [1, 2]

    with pytest.raises(Exception, match=r"FILE_NOT_EXIST|does not exist"):
        followed(spark, table, tmp_path)


def test_a_stream_goes_on_when_records_are_amended_and_forgotten(
    warehouse: Warehouse, spark: Any, tmp_path: Path
) -> None:
    """That is why these commits say that no data changed: one that adds and removes would end the stream, as rebuild does."""
    table = integer_table(warehouse, reader_time="20", deletion_bound="30", **STRATEGIES["retire"])
    for slot in (1, 2, 3):
        table.update(arrow_batch([Record(10 * slot + n, f"k{n}", slot, slot + 4) for n in range(3)]), at=slot)
    assert len(followed(spark, table, tmp_path)) == 9
    table.amend("k0", expires=7)
    table.forget("k1")
    table.update(arrow_batch([Record(40, "k0", 4, 9)]), at=4)
    table.amend("k0", expires=6)

    assert followed(spark, table, tmp_path) == [10, 11, 12, 20, 21, 22, 30, 31, 32, 40]
    left = spark.read.format("delta").load(str(table.table.folder)).where("_exp_slot > 4")
    assert sorted(row.id for row in left.collect()) == [10, 12, 20, 22, 30, 32, 40]
