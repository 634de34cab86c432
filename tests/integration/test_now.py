"""Spark reads as of the present, as every other read does."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ebb import InputError, OpenTable, UsageError, Warehouse
from ebb.warehouse.settings import Settings
from tests.builders import NOW, integer_table, timestamp_table

MINUTES = range(0, 300, 20)


@pytest.fixture
def table(tmp_path: Path) -> OpenTable:
    """A table whose clock is 3 hours ago, and whose record i expires i minutes after it."""
    table = timestamp_table(Warehouse(Settings(warehouse=tmp_path / "w"), now=lambda: NOW))
    start, times = NOW - timedelta(hours=3), pa.timestamp("us", "UTC")
    came = pa.array([start - timedelta(minutes=5)] * len(MINUTES), times)
    dies = pa.array([start + timedelta(minutes=minute) for minute in MINUTES], times)
    table.load(
        pa.table({"id": list(MINUTES), "key": ["k"] * len(MINUTES), "inserted": came, "expires": dies}), at=start
    )
    return table


def _ids(found: Any) -> list[int]:
    return sorted(row for part in found for row in part["id"].to_pylist())


def test_spark_and_duckdb_hide_the_same_as_of_now(table: OpenTable, spark: Any) -> None:
    warehouse, expected = table.warehouse, [i for i in MINUTES if i > 180]
    integer_table(warehouse, "numbers")

    assert _ids(warehouse.sql("SELECT id FROM t", engine="spark", as_of="now")) == expected
    assert _ids(warehouse.sql("SELECT id FROM t", as_of="now")) == expected
    assert _ids(table.scan_by_spark(as_of="now")) == expected
    assert _ids(warehouse.sql("SELECT id FROM t", engine="spark")) == [i for i in MINUTES if i > 0]
    later = NOW + timedelta(minutes=30)
    assert _ids(warehouse.sql("SELECT id FROM t", engine="spark", as_of=later)) == [i for i in MINUTES if i > 210]


def test_views_are_registered_as_of_now(table: OpenTable, spark: Any) -> None:
    table.warehouse.register(spark, as_of="now")
    assert _ids(spark.table("t").toArrow().to_batches()) == [i for i in MINUTES if i > 180]
    integer_table(table.warehouse, "numbers")
    with pytest.raises(UsageError, match="table numbers counts time in integers"):
        table.warehouse.register(spark, as_of="now")
    table.warehouse.register(spark, "t")
    assert spark.table("t").count() == len(MINUTES) - 1


def test_a_query_about_integers_as_of_now_is_refused_by_both_engines(table: OpenTable, spark: Any) -> None:
    integer_table(table.warehouse, "numbers")
    table.warehouse.register(spark)  # a view that a query without a moment left behind is not taken for an answer

    for engine in ("duckdb", "spark"):
        with pytest.raises(UsageError) as caught:
            table.warehouse.sql("SELECT count(*) FROM numbers", engine=engine, as_of="now")
        assert "table numbers counts time in integers" in str(caught.value)
        with pytest.raises(InputError, match="is before the clock"):
            table.warehouse.sql("SELECT id FROM t", engine=engine, as_of="2025-01-01")
