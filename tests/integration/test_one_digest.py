"""One digest: the same records, in every format, split and order, by Spark and without, are one batch.

Also through every path of Spark's job: one task, several tasks, cells brought together, key ranges cut.
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ebb import OpenTable, Warehouse
from ebb.index.errors import SchemaDriftError
from ebb.index.values import plain
from ebb.maintenance.update import Report, update
from ebb.warehouse.intake.batch import batch_of
from ebb.warehouse.intake.sizes import IntakeSizes
from ebb.warehouse.parquet.arrow import arrow_schema
from tests.builders import integer_table
from tests.seeds import drawn_seed

FLAT = (
    "id BIGINT, key STRING, inserted BIGINT, expires BIGINT, text STRING, money DECIMAL(38,10), day DATE, moment TIMESTAMP, "
    "flag BOOLEAN, tiny TINYINT, small SMALLINT, whole INT, single FLOAT, real DOUBLE"
)
NESTED = f"{FLAT}, bytes BINARY, list ARRAY<STRING>, tree STRUCT<n:INT,t:TIMESTAMP,d:ARRAY<DECIMAL(9,2)>>, lookup MAP<STRING,DOUBLE>"


TIMES = [(5, 8), (4, 5), (5, 99), (5, 9), (None, 8), (3, 6), (6, 7), (5, None), (4, 7)]
SCALE = Context(prec=50)


def value_of(kind: pa.DataType, rng: random.Random) -> Any:
    """Return a value, among them all that are often told wrong; a null now and then."""
    if rng.random() < 0.15:
        return None
    if pa.types.is_list(kind):
        return [value_of(kind.value_type, rng) for _ in range(rng.randrange(4))]
    if pa.types.is_map(kind):
        return [(f"k{i}", value_of(kind.item_type, rng)) for i in range(rng.randrange(3))]
    if pa.types.is_struct(kind):
        return {field.name: value_of(field.type, rng) for field in kind}
    if pa.types.is_decimal(kind):
        digits = kind.precision - 1
        return Decimal(rng.randrange(-(10**digits), 10**digits)).scaleb(-kind.scale, SCALE)
    if pa.types.is_floating(kind):
        return rng.choice([0.0, -0.0, 1.5, -2.25, float("inf"), 1e30 if kind == pa.float32() else 5e-324])
    if pa.types.is_timestamp(kind):
        return datetime(2013, 1, 1, tzinfo=UTC) + timedelta(microseconds=rng.randrange(-(10**16), 10**16))
    if pa.types.is_date(kind):
        return date(1600, 1, 1) + timedelta(days=rng.randrange(200_000))
    if pa.types.is_boolean(kind):
        return rng.random() < 0.5
    if pa.types.is_integer(kind):
        limit = 2 ** (kind.bit_width - 1)
        return rng.choice([0, -1, limit - 1, -limit, rng.randrange(-limit, limit)])
    if pa.types.is_binary(kind):
        return rng.randbytes(rng.randrange(20))
    return rng.choice(["", "a", 'q"q', "a,b", "line\nbreak", "ünï \U0001f600", "x" * rng.randrange(100), " space "])


def make(table: OpenTable, rng: random.Random) -> pa.Table:
    columns = table.table.snapshot().spec.columns
    schema = pa.schema(list(arrow_schema(columns))[: len(columns)])
    rows = []
    for i in range(60):
        inserted, expires = TIMES[i % len(TIMES)]
        key = None if i % 10 == 0 else rng.choice(["a", "b", "ü", ""])
        row = {field.name: value_of(field.type, rng) for field in schema}
        rows.append(row | {"id": i, "key": key, "inserted": inserted, "expires": expires})
    return pa.Table.from_pylist(rows, schema=schema)


def parts(table: pa.Table, rng: random.Random) -> Iterator[pa.Table]:
    """Shuffle the records and cut them into some parts."""
    order = list(range(table.num_rows))
    rng.shuffle(order)
    cuts = sorted(rng.randrange(table.num_rows + 1) for _ in range(rng.randrange(3)))
    for low, high in zip([0, *cuts], [*cuts, table.num_rows], strict=True):
        yield table.take(pa.array(order[low:high], pa.int64()))


def as_csv(path: Path, table: pa.Table) -> None:
    def text(value: Any) -> str:
        if isinstance(value, float):
            return repr(value).replace("inf", "Infinity")
        return str(value).lower() if isinstance(value, bool) else str(plain(value))

    with path.open("w", encoding="utf-8", newline="") as out:
        out.write(",".join(table.column_names) + "\n")
        for row in table.to_pylist():
            flat = [json.dumps(plain(v)) if isinstance(v, list | dict) else v for v in row.values()]
            flat = [plain(v) if isinstance(v, bytes) else v for v in flat]
            quoted = ['"' + v.replace('"', '""') + '"' if isinstance(v, str) else v for v in flat]
            out.write(",".join("" if v is None else v if isinstance(v, str) else text(v) for v in quoted) + "\n")
    assert len(list(csv.reader(path.open(encoding="utf-8", newline="")))) == table.num_rows + 1


def as_json(path: Path, table: pa.Table) -> None:
    def shown(value: Any, kind: pa.DataType) -> Any:
        if pa.types.is_map(kind) and value is not None:
            return {k: shown(v, kind.item_type) for k, v in value}
        if pa.types.is_list(kind) and value is not None:
            return [shown(v, kind.value_type) for v in value]
        if pa.types.is_struct(kind) and value is not None:
            return {field.name: shown(value[field.name], field.type) for field in kind}
        if isinstance(value, float) and value in (float("inf"), float("-inf")):
            return "Infinity" if value > 0 else "-Infinity"
        return plain(value)

    rows = ({field.name: shown(row[field.name], field.type) for field in table.schema} for row in table.to_pylist())
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def files_of(write: Callable[[Path, pa.Table], Any], form: str) -> Callable[..., Any]:
    def files(table: pa.Table, folder: Path, rng: random.Random, _: Any) -> list[Path]:
        paths = []
        for number, part in enumerate(parts(table, rng)):
            paths.append(folder / f"{number}.{form}")
            write(paths[-1], part)
        return paths

    return files


def in_stream(table: pa.Table, _: Path, rng: random.Random, __: Any) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(
        table.schema, (batch for part in parts(table, rng) for batch in part.combine_chunks().to_batches())
    )


parquet = files_of(lambda path, table: pq.write_table(table, path, row_group_size=7), "parquet")
MANY_TASKS = {"one_task_bytes": 0}
KEY_RANGES = {"one_task_bytes": 0, "task_bytes": 500}
# how records are handed over, by which engine, with which sizes
WAYS: dict[str, tuple[Callable[..., Any], str, dict[str, int]]] = {
    "Parquet by Spark": (parquet, "spark", {}),
    "Parquet by several tasks": (parquet, "spark", MANY_TASKS),
    "Parquet by key ranges": (parquet, "spark", KEY_RANGES),
    "CSV": (files_of(as_csv, "csv"), "spark", {}),
    "CSV by key ranges": (files_of(as_csv, "csv"), "spark", KEY_RANGES),
    "JSON lines": (files_of(as_json, "jsonl"), "spark", {}),
    "JSON lines by several tasks": (files_of(as_json, "jsonl"), "spark", MANY_TASKS),
    "a DataFrame": (lambda table, folder, rng, spark: spark.read.parquet(*map(str, parquet(table, folder, rng, spark))), "spark", {}),
    "Parquet without Spark": (parquet, "direct", {}),
    "Parquet in portions": (parquet, "direct", {"portion_bytes": 500}),
    "an Arrow stream": (in_stream, "spark", {}),
    "an Arrow stream in portions": (in_stream, "spark", {"portion_bytes": 500}),
    "polars": (lambda table, _, rng, __: pl.from_arrow(pa.concat_tables(parts(table, rng))), "spark", {}),
    "pandas": (lambda table, *_: table.to_pandas(types_mapper=pd.ArrowDtype), "spark", {}),
}  # fmt: skip


def apply(table: OpenTable, batch: Any, engine: Any, sizes: dict[str, int], at: int | None) -> Report:
    found = batch_of(batch, engine)
    context = replace(table.warehouse.context(batch=found), intake=IntakeSizes(**sizes))
    return update(table.table, found, context, at=at)


@pytest.mark.parametrize("schema", [FLAT, NESTED], ids=["flat", "nested"])
def test_the_same_records_are_one_batch_whichever_way_they_come(
    schema: str, warehouse: Warehouse, tmp_path: Path, spark: Any
) -> None:
    rng = random.Random(drawn_seed())
    records = make(integer_table(warehouse, "sample", schema=schema), rng)
    first: tuple[int, OpenTable, Report] | None = None
    for number, (name, (hand_over, engine, sizes)) in enumerate(WAYS.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        table = integer_table(warehouse, f"t{number}", schema=schema)
        report = apply(table, hand_over(records, folder, rng, spark), engine, sizes, 5)

        digest = table.table.snapshot().ledger.fingerprints.recent[0][1]  # those of the files follow
        assert report.received == records.num_rows == report.admitted + report.expired_on_arrival + report.quarantined
        if first is None:
            first = (digest, table, report)
            assert min(report.admitted, report.expired_on_arrival, report.quarantined) > 0
            continue
        assert digest == first[0], name
        assert report.reasons == first[2].reasons, name
        assert table.scan().read_all().sort_by("id").equals(first[1].scan().read_all().sort_by("id")), name
        again = tmp_path / f"again{number}"
        again.mkdir()
        assert apply(first[1], hand_over(records, again, rng, spark), engine, sizes, None).already_applied, name


@pytest.mark.parametrize("sizes", [{}, MANY_TASKS, KEY_RANGES], ids=["one task", "several tasks", "key ranges"])
def test_unreadable_records_and_foreign_fields_are_told_on_every_path_of_the_job(
    sizes: dict[str, int], warehouse: Warehouse, tmp_path: Path
) -> None:
    row = {"id": 1, "key": "a", "inserted": 5, "expires": 8, "pay": "x"}
    lines = [json.dumps(row | {"id": i}) for i in range(20)] + ["{broken", "[1]"]
    (tmp_path / "a.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "b.jsonl").write_text("\n".join(lines[::-1]), encoding="utf-8")
    (tmp_path / "c.jsonl").write_text("\n".join([*lines[:-1], "{broken!"]), encoding="utf-8")
    (tmp_path / "d.jsonl").write_text("\n".join([*lines, json.dumps(row | {"zoo": 1, "more": 2})]), encoding="utf-8")
    table = integer_table(warehouse)
    report = apply(table, tmp_path / "a.jsonl", "spark", sizes, 5)

    assert (report.received, report.admitted, report.reasons) == (
        22,
        20,
        {"it is not JSON": 1, "it is not a JSON object": 1},
    )
    assert apply(table, tmp_path / "b.jsonl", "spark", sizes, None).already_applied
    assert not apply(table, tmp_path / "c.jsonl", "spark", sizes, None).already_applied
    with pytest.raises(SchemaDriftError) as caught:
        apply(table, tmp_path / "d.jsonl", "spark", sizes, 7)
    assert caught.value.args[0] == f"{tmp_path / 'd.jsonl'}, line 23"
    assert caught.value.args[1] == "zoo"


def test_a_load_by_spark_sets_the_clock_by_what_will_be_kept(warehouse: Warehouse, tmp_path: Path) -> None:
    """A record near the end of 64 bits is refused, and still set the clock there."""
    rows = [(1, "a", 5, 8), (2, "b", 7, 9), (3, None, 90, 91), (4, "c", 80, 80), (5, "e", 2**63 - 2, 2**63 - 1)]
    file = tmp_path / "b.csv"
    file.write_text("id,key,inserted,expires,pay\n" + "".join(f"{i},{k or ''},{a},{b},x\n" for i, k, a, b in rows))
    report = integer_table(warehouse).load(file)

    assert (report.slot, report.admitted, report.quarantined) == (7, 2, 3)
