"""Spark and a table of another layout generation, and tables that need a newer Ebb."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ebb
from ebb import OpenTable
from ebb.maintenance.upkeep import purge
from ebb.warehouse.sql.spark import window_sql
from tests.builders import arrow_batch, integer_table, open_warehouse, scanned, scanned_ids, write_batch
from tests.contract import declared_by_newer, table_of_generation
from tests.foreign import WAYS, filled
from tests.model import Model, Record
from tests.runs import SMALL

USER = ["id", "key", "inserted", "expires", "pay"]


@pytest.fixture
def table(tmp_path: Path) -> OpenTable:
    return table_of_generation(open_warehouse(tmp_path / "w"), 3, reader_time="1", **WAYS["norebuild"])


def test_spark_s_tasks_write_files_of_the_generation_that_the_table_names(
    table: OpenTable, spark: Any, tmp_path: Path
) -> None:
    model = Model(table.table.snapshot().spec.timeline)
    batches = {
        slot: [Record(10 * slot + n, f"k{n % 5}", slot, slot + 1 + n % 6) for n in range(9)] for slot in range(1, 7)
    }
    for slot, batch in batches.items():
        model.apply(slot, batch)
        if slot % 2:
            table.update(write_batch(tmp_path / f"{slot}.csv", batch), at=slot, engine="spark")
        else:  # of a size that is not known: judged, sorted and written by different tasks
            frame = spark.createDataFrame(arrow_batch(batch).to_pylist(), "id BIGINT, key STRING, inserted BIGINT, expires BIGINT, pay STRING")  # fmt: skip
            table.update(frame, at=slot)
    by_spark = replace(table.warehouse.context(), sizes=replace(SMALL, in_process_bytes=0))
    with table.table.lock():
        done = purge(table.table.snapshot(), by_spark)[1]

    assert done.files_added > 0
    assert {file.cell.generation for file in table.table.snapshot().files} == {3}
    assert scanned_ids(table) == sorted(record.id for record in model.window())


def test_spark_reads_it_and_views_show_the_user_s_columns_only(table: OpenTable, spark: Any) -> None:
    filled(table)
    rows = scanned(table)
    clock = table.table.snapshot().ledger.clock

    frame = spark.read.format("delta").load(str(table.table.folder)).where(f"_exp_slot > {clock}")
    assert {row["_gen"] for row in frame.select("_gen").distinct().collect()} == {3}
    assert frame.where("_gen = 3").count() == len(rows)
    assert frame.where("_gen = 0").count() == 0
    table.warehouse.register(spark)
    for shown in (spark.sql("SELECT * FROM t"), spark.sql(window_sql(table.table.snapshot()))):
        assert shown.columns == USER
        assert [row.asDict() for row in shown.orderBy("id").collect()] == rows


def test_spark_answers_about_the_tables_that_this_ebb_knows(table: OpenTable, spark: Any) -> None:
    filled(table)
    filled(integer_table(table.warehouse, "other"))
    declared_by_newer(table, {"ebb.readerFeatures": "amends"})

    answer = table.warehouse.sql("SELECT count(*) AS n FROM other", engine="spark").read_all()
    assert answer["n"].to_pylist() == [len(scanned(table.warehouse.table("other")))]
    with pytest.raises(ebb.FeatureError, match=r"table t has reader feature amends, which Ebb .* install a newer Ebb"):
        table.warehouse.sql("SELECT * FROM t", engine="spark")
