"""The same scan three ways: record by record in Python, without a JVM, and through Spark, on random tables."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from ebb import OpenTable, Warehouse
from ebb.index.columns import Column
from ebb.index.predicate.typed import names
from ebb.warehouse.parquet.arrow import arrow_schema
from ebb.warehouse.read.request import Read
from ebb.warehouse.sql.condition import to_sql
from ebb.warehouse.sql.spark import scan_by_spark
from tests.predicates import COLUMNS, Record, predicates, records, typed
from tests.seeds import drawn_seed
from tests.truth import truth

OURS = tuple(column for column in COLUMNS if column.name not in ("z z", "far`"))  # names that Delta refuses
SHAPES = {
    "retire": {"policy": "2x2", "strategy": "retire"},
    "norebuild": {"grid": "2x3", "strategy": "norebuild", "deletion_bound": "9"},
    "rebuild": {"grid": "3x2", "strategy": "rebuild"},
}
SLOTS = 4


def _examples(strategy: st.SearchStrategy[Any], count: int, number: int) -> list[Any]:
    """Return random examples at once: asking Spark for each of them would take minutes."""
    found: list[Any] = []

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(example: Any) -> None:
        found.append(example)

    collect()
    return found


def _fill(table: OpenTable, folder: Path, batch: list[Record], rng: random.Random) -> list[Record]:
    """Spread records over a few updates and return those that are live then."""
    columns = (Column("id", "bigint"), *OURS, Column("ins", "bigint"), Column("exp", "bigint"))
    schema = pa.schema([field for field in arrow_schema(columns) if not field.name.startswith("_")])
    rows = [
        {**record, "id": number, "ins": slot, "exp": slot + rng.randrange(1, 7)}
        for number, record in enumerate(batch)
        for slot in [number % SLOTS + 1]
    ]
    for slot in range(1, SLOTS + 1):
        part = [{field.name: row[field.name] for field in schema} for row in rows if row["ins"] == slot]
        pq.write_table(pa.Table.from_pylist(part, schema=schema), folder / f"{slot}.parquet")
        table.update(str(folder / f"{slot}.parquet"), at=slot)
    return [row for row in rows if row["exp"] > SLOTS]


@pytest.mark.parametrize("strategy", sorted(SHAPES))
def test_the_slow_truth_the_direct_path_and_spark_agree_on_random_predicates(
    strategy: str, warehouse: Warehouse, tmp_path: Path, spark: Any
) -> None:
    number = drawn_seed()
    asked = [p for p in _examples(predicates, 150, number) if not names(p) & {"z z", "far`"}]
    batch = _examples(records, 200, number)
    declared = ", ".join(f"`{column.name}` {column.type}" for column in OURS)
    table = warehouse.create(
        "t", schema=f"id BIGINT, {declared}, ins BIGINT, exp BIGINT", key=["id"], inserted="ins", expires="exp", tick="1",
        span="6", **SHAPES[strategy],
    )  # fmt: skip
    live = _fill(table, tmp_path, batch, random.Random(number))
    expected = [sorted(row["id"] for row in live if truth(predicate, row, typed)) for predicate in asked]
    assert sum(map(bool, expected)) > len(asked) // 4, "hardly any predicate finds anything"

    window = table.at_latest()
    for predicate, ids in zip(asked, expected, strict=True):
        found = [i for part in window.tables(Read(("id",), where=predicate)) for i in part["id"].to_pylist()]
        assert sorted(found) == ids, predicate
    # One query for all of them, then some as conditions of their own, which Spark pushes down to the files.
    warehouse.register(spark)
    conditions = [to_sql(predicate, OURS, "spark") for predicate in asked]
    answers = spark.table("t").selectExpr("id", *(f"{text} as p{i}" for i, text in enumerate(conditions))).toArrow()
    for place, (predicate, ids) in enumerate(zip(asked, expected, strict=True)):
        assert sorted(answers.filter(answers[f"p{place}"])["id"].to_pylist()) == ids, (predicate, conditions[place])
    for predicate, text, ids in list(zip(asked, conditions, expected, strict=True))[:12]:
        filtered = spark.table("t").where(text).select("id").toArrow()
        assert sorted(filtered["id"].to_pylist()) == ids, (predicate, text)


def test_scans_and_probes_are_the_same_through_both_engines_to_the_last_record(
    warehouse: Warehouse, tmp_path: Path, spark: Any
) -> None:
    number = drawn_seed()
    declared = ", ".join(f"`{column.name}` {column.type}" for column in OURS)
    table = warehouse.create(
        "t", schema=f"id BIGINT, {declared}, ins BIGINT, exp BIGINT", key=["id"], inserted="ins", expires="exp", tick="1",
        span="6", **SHAPES["retire"],
    )  # fmt: skip
    _fill(table, tmp_path, _examples(records, 120, number), random.Random(number))

    for as_of in (None, 5, 7):
        window = table.at_latest(as_of)
        for columns, where in ((None, None), (["blob", "id"], None), (["id"], "id >= 30 and tiny is not null")):
            direct = window.scan(columns, where).read_all()
            spark_says = scan_by_spark(spark, window, columns, where).read_all()
            assert direct.schema == spark_says.schema
            assert _bag(direct) == _bag(spark_says), (as_of, columns, where)


def _bag(table: pa.Table) -> list[str]:
    return sorted(repr(row) for row in table.to_pylist())
