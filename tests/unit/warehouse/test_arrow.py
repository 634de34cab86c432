"""Arrow's types and ours."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebb.index.columns import Column, parse_columns
from ebb.index.errors import SchemaDriftError
from ebb.index.keys import code
from ebb.warehouse.parquet.arrow import Codes, arrow_schema, columns_of_arrow, conform, key_starts

laws = settings(deadline=None)

ALL = parse_columns(
    "a STRING, b BIGINT, c INT, d SMALLINT, e TINYINT, f FLOAT, g DOUBLE, h BOOLEAN, i BINARY, j DATE, k TIMESTAMP,"
    " l DECIMAL(38,10), m DECIMAL(5,2), n ARRAY<STRING>, o MAP<STRING,BIGINT>, p STRUCT<x:INT,y:ARRAY<DATE>>"
)


def test_columns_are_the_same_after_a_way_through_arrow() -> None:
    schema = arrow_schema(ALL)

    assert columns_of_arrow(schema, "x") == (*ALL, Column("_ins_slot", "bigint"), Column("_exp_slot", "bigint"))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.large_string(), "string"), (pa.string_view(), "string"), (pa.null(), "string"), (pa.large_binary(), "binary"),
        (pa.binary(4), "binary"), (pa.uint8(), "smallint"), (pa.uint16(), "int"), (pa.uint32(), "bigint"),
        (pa.uint64(), "decimal(20,0)"), (pa.timestamp("ms"), "timestamp"), (pa.timestamp("ns", "Europe/Berlin"), "timestamp"),
        (pa.decimal32(5, 1), "decimal(5,1)"), (pa.decimal64(9, 3), "decimal(9,3)"),
        (pa.dictionary(pa.int8(), pa.string()), "string"), (pa.large_list(pa.uint8()), "array<smallint>"),
    ],
    ids=str,
)  # fmt: skip
def test_types_that_spark_reads_as_others_have_their_names(kind: pa.DataType, expected: str) -> None:
    assert columns_of_arrow(pa.schema([("x", kind)]), "f")[0].type == expected


@pytest.mark.parametrize(
    "kind", [pa.time64("us"), pa.duration("s"), pa.float16(), pa.date64(), pa.decimal256(50, 2), pa.list_(pa.time32("s"))],
    ids=str,
)  # fmt: skip
def test_types_that_delta_cannot_hold_are_refused_by_name(kind: pa.DataType) -> None:
    with pytest.raises(SchemaDriftError, match=r"f\.parquet: column x has type .*cast it"):
        columns_of_arrow(pa.schema([("x", kind)]), "f.parquet")


def test_columns_added_later_are_null_and_the_order_is_the_tables() -> None:
    table = pa.table({"b": [1, 2], "a": ["x", "y"]})
    schema = pa.schema([("a", pa.string()), ("late", pa.date32()), ("b", pa.int32())])

    conformed = conform(table, schema)

    assert conformed.schema == schema
    assert conformed.to_pylist() == [{"a": "x", "late": None, "b": 1}, {"a": "y", "late": None, "b": 2}]
    assert conform(conformed, schema) is conformed


@laws
@given(st.lists(st.tuples(st.integers(0, 3), st.text(max_size=1)), min_size=1, max_size=20).map(sorted))
def test_keys_start_where_one_of_their_parts_changes(rows: list[tuple[int, str]]) -> None:
    table = pa.table({"a": [row[0] for row in rows], "b": [row[1] for row in rows]})

    assert key_starts(table, ("a", "b")).tolist() == [n for n in range(len(rows)) if n == 0 or rows[n] != rows[n - 1]]


@laws
@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(1, 9)), min_size=1, max_size=9))
def test_codes_of_times_are_those_of_the_integers_that_they_are(rows: list[tuple[int, int]]) -> None:
    """Also of those for which Python has no value."""
    moments = pa.array([row[0] for row in rows], pa.timestamp("us", "UTC"))
    codes = Codes(pa.table({"k": moments, "_exp_slot": [row[1] for row in rows]}), ["k"])

    assert [codes[place] for place in range(len(codes))] == [code(row) for row in rows]
