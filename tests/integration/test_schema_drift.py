"""Schema drift (P16): other columns are refused with the column named, and the table does not move."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ebb import OpenTable, Warehouse
from ebb.cli.main import main
from ebb.index.columns import Column, parse_columns
from ebb.index.errors import SchemaDriftError, UsageError
from ebb.index.inputs import InputRules, InputSchema
from ebb.warehouse.intake.source import check_inputs, find_inputs
from ebb.warehouse.parquet.arrow import arrow_schema
from tests.builders import (
    SCHEMA,
    data_files,
    integer_table,
    open_warehouse,
    records,
    scanned,
    scanned_ids,
    version_of,
    write_batch,
)

COLUMNS = parse_columns(
    f"{SCHEMA}, day DATE, moment TIMESTAMP, money DECIMAL(10,2), list ARRAY<INT>, s STRUCT<a:INT,b:INT>"
)
TYPES = [
    "string", "bigint", "int", "smallint", "tinyint", "float", "double", "boolean", "binary", "date", "timestamp",
    "decimal(10,2)", "decimal(10,3)", "decimal(11,2)", "array<int>", "array<bigint>", "struct<a:int,b:int>",
    "struct<b:int,a:int>", "struct<a:int>", "struct<a:int,b:int,c:int>", "map<string,int>",
]  # fmt: skip

STRICT = InputSchema(columns=COLUMNS, rules=InputRules(strict=True))
Mutation = Callable[[list[Column], random.Random], tuple[list[Column], set[str]]]


def _missing(columns: list[Column], rng: random.Random) -> tuple[list[Column], set[str]]:
    gone = rng.sample(columns, rng.randint(1, len(columns) - 1))
    return [c for c in columns if c not in gone], {c.name for c in gone}


def _extra(columns: list[Column], rng: random.Random) -> tuple[list[Column], set[str]]:
    more = Column(rng.choice(["more", "pay2", "_x", "ключ", "with space", "_raw", "_ins_slot"]), rng.choice(TYPES))
    at = rng.randint(0, len(columns))
    return [*columns[:at], more, *columns[at:]], {more.name}


def _retyped(columns: list[Column], rng: random.Random) -> tuple[list[Column], set[str]]:
    at = rng.randrange(len(columns))
    old = columns[at]
    new = Column(old.name, rng.choice([t for t in TYPES if t != old.type]))
    return [*columns[:at], new, *columns[at + 1 :]], {old.name}


def _reordered(columns: list[Column], rng: random.Random) -> tuple[list[Column], set[str]]:
    turned = columns
    while turned == columns:
        turned = rng.sample(columns, len(columns))
    return turned, {c.name for c, d in zip(turned, columns, strict=True) if c != d}


def _case_changed(columns: list[Column], rng: random.Random) -> tuple[list[Column], set[str]]:
    at = rng.randrange(len(columns))
    name = columns[at].name
    new = rng.choice([name.upper(), name.capitalize(), name[:-1] + name[-1].upper()])
    return [*columns[:at], Column(new, columns[at].type), *columns[at + 1 :]], {new}


def _duplicated(columns: list[Column], rng: random.Random) -> tuple[list[Column], set[str]]:
    twin = rng.choice(columns)
    at = rng.randint(0, len(columns))
    return [*columns[:at], twin, *columns[at:]], {twin.name}


MUTATIONS: dict[str, Mutation] = {
    "missing": _missing,
    "extra": _extra,
    "retyped": _retyped,
    "reordered": _reordered,
    "case-changed": _case_changed,
    "duplicated": _duplicated,
}


def _write(path: Path, columns: list[Column]) -> Path:
    """Write a file with these columns and one record of nothing."""
    if path.suffix == ".csv":
        path.write_text(",".join(f'"{c.name}"' for c in columns) + "\n" + "," * (len(columns) - 1) + "\n")
        return path
    fields = [arrow_schema([Column("x", c.type)]).field("x").with_name(c.name) for c in columns]
    arrays = [pa.nulls(1, field.type) for field in fields]
    pq.write_table(pa.Table.from_arrays(arrays, schema=pa.schema(fields)), path)
    return path


@pytest.mark.parametrize("form", ["parquet", "csv"])
@pytest.mark.parametrize("kind", MUTATIONS)
def test_every_mutated_header_is_refused_with_a_column_that_is_wrong(kind: str, form: str, tmp_path: Path) -> None:
    if (kind, form) == ("retyped", "csv"):
        kind = "case-changed"  # a CSV file tells no types
    for seed in range(25):
        rng = random.Random(f"{kind} {form} {seed}")
        mutated, wrong = MUTATIONS[kind](list(COLUMNS), rng)
        file = _write(tmp_path / f"{seed}.{form}", mutated)
        with pytest.raises(SchemaDriftError) as caught:
            check_inputs(find_inputs([str(file)]), STRICT)

        where, column, what, step = caught.value.args[:4]
        assert column in wrong, f"seed {seed}: {caught.value}"
        assert where == str(file)
        assert what
        assert step


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_the_tables_own_header_is_accepted(form: str, tmp_path: Path) -> None:
    check_inputs(find_inputs([str(_write(tmp_path / f"same.{form}", list(COLUMNS)))]), STRICT)


def test_equal_types_of_other_writers_are_accepted(tmp_path: Path) -> None:
    """Arrow spells one Parquet type in many ways; none of them is drift."""
    columns = parse_columns("key STRING, bytes BINARY, moment TIMESTAMP, small SMALLINT, list ARRAY<STRING>")
    kinds: list[tuple[Any, ...]] = [
        (pa.large_string(), pa.large_binary(), pa.timestamp("ms"), pa.int16(), pa.large_list(pa.string())),
        (pa.dictionary(pa.int8(), pa.string()), pa.binary(4), pa.timestamp("ns", "UTC"), pa.uint8(), pa.list_(pa.large_string())),
        (pa.string_view(), pa.binary(), pa.timestamp("s", "Asia/Kathmandu"), pa.int16(), pa.list_(pa.string())),
    ]  # fmt: skip
    for number, row in enumerate(kinds):
        schema = pa.schema([(c.name, kind) for c, kind in zip(columns, row, strict=True)])
        pq.write_table(schema.empty_table(), tmp_path / f"{number}.parquet")
        rules = InputSchema(columns=columns, rules=InputRules(strict=True))
        check_inputs(find_inputs([str(tmp_path / f"{number}.parquet")]), rules)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> OpenTable:
    """Return a table at slot 5 that no test of this module may change."""
    folder = tmp_path_factory.mktemp("drift")
    table = integer_table(open_warehouse(folder / "w"), inputs={"strict": True})
    table.update(write_batch(folder / "5.csv", records((1, "a", 5, 9))), at=5)
    return table


GOOD = {"id": 2, "key": "a", "inserted": 6, "expires": 9, "pay": "x"}
DRIFTS: dict[str, tuple[dict[str, Any], str]] = {
    "missing": ({k: v for k, v in GOOD.items() if k != "pay"}, "pay"),
    "extra": (GOOD | {"more": 1}, "more"),
    "retyped": (GOOD | {"id": "2"}, "id"),
    "reordered": (dict(reversed(GOOD.items())), "pay"),
    "case-changed": ({("Pay" if k == "pay" else k): v for k, v in GOOD.items()}, "Pay"),
}
_DDL = {int: "BIGINT", str: "STRING"}


# A CSV file tells no types.
@pytest.mark.parametrize(
    ("form", "kind"),
    [(f, k) for f in ("parquet", "csv", "DataFrame") for k in DRIFTS if (f, k) != ("csv", "retyped")],
)
def test_drift_is_refused_and_the_table_does_not_move(
    form: str, kind: str, table: OpenTable, tmp_path: Path, spark: Any
) -> None:
    row, column = DRIFTS[kind]
    batch: Any = tmp_path / f"b.{form}"
    if form == "DataFrame":
        batch = spark.createDataFrame([tuple(row.values())], ", ".join(f"{k} {_DDL[type(v)]}" for k, v in row.items()))
    elif form == "csv":
        batch.write_text(",".join(row) + "\n" + ",".join(str(v) for v in row.values()) + "\n")
    else:
        pq.write_table(pa.Table.from_pylist([row]), batch)
    fine = write_batch(tmp_path / "fine.parquet", records((3, "a", 6, 9)))
    before = (version_of(table), data_files(table), scanned_ids(table))

    for batches in (batch,) if form == "DataFrame" else (batch, [fine, batch]):
        with pytest.raises(SchemaDriftError) as caught:
            table.update(batches, at=6)
        assert caught.value.args[1] == column
        with pytest.raises(SchemaDriftError):
            table.load(batches, at=6)
    assert (version_of(table), data_files(table), scanned_ids(table)) == before


def test_a_dataframe_with_a_column_twice_is_refused(table: OpenTable, spark: Any) -> None:
    from pyspark.sql import functions as F

    frame = spark.createDataFrame([tuple(GOOD.values())], SCHEMA).select("*", F.lit(1).alias("id"))
    with pytest.raises(SchemaDriftError) as caught:
        table.update(frame, at=6)

    assert caught.value.args[1:3] == ("id", "stands there 2 times")
    assert version_of(table) == 1


@pytest.mark.parametrize(
    ("line", "column"),
    [
        (json.dumps(GOOD | {"more": None}), "more"),
        (json.dumps(GOOD).replace('"pay"', '"Pay"'), "Pay"),
        (json.dumps(GOOD | {"_ins_slot": 1}), "_ins_slot"),
        (json.dumps(GOOD | {"_raw": "x"}), "_raw"),
    ],
)
def test_one_json_record_with_other_fields_refuses_the_whole_batch(
    line: str, column: str, table: OpenTable, tmp_path: Path
) -> None:
    before = (version_of(table), data_files(table))
    file = tmp_path / "b.jsonl"
    file.write_text("".join(json.dumps(GOOD | {"id": i}) + "\n" for i in range(50)) + line + "\n")
    with pytest.raises(SchemaDriftError) as caught:
        table.update(file, at=6)

    assert caught.value.args[1] == column
    assert (version_of(table), data_files(table)) == before


def test_a_json_record_may_leave_out_what_is_null_and_write_its_fields_in_any_order(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    """Writers of JSON lines leave nulls out, Spark's among them: a field that is not there is null, never drift."""
    table = integer_table(warehouse)
    rows = [dict(reversed(GOOD.items())), {k: v for k, v in GOOD.items() if k != "pay"} | {"id": 3}]
    (tmp_path / "b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    table.update(tmp_path / "b.jsonl", at=6)

    assert scanned(table) == [GOOD, GOOD | {"id": 3, "pay": None}]


def _wide(path: Path, slot: int, note: str) -> Path:
    """Write a batch of one record with the column that was added; its id is its slot."""
    row = {"id": slot, "key": f"k{slot % 3}", "inserted": slot, "expires": slot + 5, "pay": "p", "note": note}
    pq.write_table(pa.Table.from_pylist([row]), path)
    return path


@pytest.mark.parametrize(
    ("strategy", "wish"),
    [
        ("rebuild", {"grid": "2x2"}),
        ("norebuild", {"grid": "2x2", "deletion_bound": "12"}),
        ("retire", {"grid": "4x3", "deletion_bound": "12"}),
    ],
)
def test_a_column_added_later_is_null_before_and_stays_through_every_rewrite(
    strategy: str, wish: dict[str, str], warehouse: Warehouse, tmp_path: Path, spark: Any
) -> None:
    table = integer_table(warehouse, strategy=strategy, **wish)
    for slot in (5, 6):
        batch = records((slot, f"k{slot % 3}", slot, slot + 5), (90 + slot, "x", slot, slot + 2))
        table.update(write_batch(tmp_path / f"{slot}.parquet", batch), at=slot)
    assert main(["--warehouse", str(warehouse.root), "alter", "t", "--add-column", "note STRING"]) == 0
    expires = {5: 10, 6: 11, 95: 7, 96: 8, **{slot: slot + 5 for slot in (7, 8, 9)}}

    def check(clock: int) -> None:
        wanted = {
            i: f"n{i}" if i in (7, 8, 9) else None
            for i, end in expires.items()
            if end > clock and (i <= clock or i > 90)
        }
        assert {row["id"]: row["note"] for row in scanned(table)} == wanted
        found = table.probe("k0", "k1", "k2", "x", columns=["note", "id"]).to_pylist()
        assert {row["id"]: row["note"] for row in found} == wanted

    for slot, work in ((7, table.seal), (8, table.purge), (9, table.erase)):
        table.update(_wide(tmp_path / f"{slot}w.parquet", slot, f"n{slot}"), at=slot)
        check(slot)
        work()
        check(slot)
    warehouse.register(spark)
    answer = {row["id"]: row["note"] for row in spark.sql("SELECT id, note FROM t").collect()}
    assert answer == {row["id"]: row["note"] for row in scanned(table)}


def test_a_batch_from_before_a_column_was_added_is_not_applied_again(warehouse: Warehouse, tmp_path: Path) -> None:
    """Files may leave the new column out: the digest has to be the one that was applied."""
    table = integer_table(warehouse)
    files = [write_batch(tmp_path / f"5.{form}", records((1, "a", 5, 11))) for form in ("jsonl", "parquet", "csv")]
    table.update(files[0], at=5)
    assert main(["--warehouse", str(warehouse.root), "alter", "t", "--add-column", "note STRING"]) == 0
    assert main(["--warehouse", str(warehouse.root), "alter", "t", "--add-column", "tags MAP<STRING,INT>"]) == 0

    for file in files:
        assert table.update(file).already_applied
    assert scanned_ids(table) == [1]


def test_adding_a_column_is_refused_where_it_would_confuse(table: OpenTable) -> None:
    before = version_of(table)
    for text in ("pay STRING", "PAY STRING", "_raw STRING", "a STRING, b STRING", "x NOTYPE", "`a b` INT", ""):
        with pytest.raises(UsageError):
            table.alter(add_column=text) if text else table.alter(deletion_bound="1")
    table.alter(add_column="fine MAP<STRING,INT>", dry_run=True)
    assert version_of(table) == before
    assert [c.name for c in table.table.snapshot().spec.columns] == ["id", "key", "inserted", "expires", "pay"]
