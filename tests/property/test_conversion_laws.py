"""Converting whole columns is converting value by value."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebb.index.columns import Column
from ebb.index.conversion import converted
from ebb.warehouse.intake.convert import convert, convert_values
from ebb.warehouse.parquet.arrow import arrow_type

TYPES = [
    "string", "tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "binary", "date", "timestamp",
    "decimal(4,2)", "decimal(38,10)", "array<int>", "map<string,double>", "struct<a:int,b:timestamp>",
]  # fmt: skip
laws = settings(deadline=None, max_examples=150)

numbers = st.integers(-(2**70), 2**70) | st.integers(-300, 300)
floats = st.floats(allow_nan=True, allow_infinity=True) | st.sampled_from([0.0, -0.0, 1.5, 7.0, 2.0**53, 1e38, 3.5e38])
decimals = st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**6), max_value=10**6)
moments = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))  # noqa: DTZ001
written = st.sampled_from(
    [
        "",
        " ",
        "7",
        "+7",
        "-0",
        "7.0",
        "007",
        "1e3",
        "1e400",
        "nan",
        "-inf",
        "0x1",
        "true",
        "False",
        "1_0",
        "٧",
        "[1,2]",
        "{}",
    ]
)
texts = (
    written
    | st.text(max_size=6)
    | numbers.map(str)
    | floats.map(repr)
    | decimals.map(str)
    | moments.map(lambda m: m.isoformat().replace("+00:00", "Z"))
    | moments.map(lambda m: m.replace(tzinfo=None).isoformat(" "))
    | moments.map(lambda m: m.date().isoformat())
    | st.tuples(moments, st.integers(-23, 23)).map(lambda p: f"{p[0].replace(tzinfo=None).isoformat()}{p[1]:+03d}:30")
)


def slowly(values: list[Any], type: str) -> tuple[list[Any], list[bool]]:
    found, bad = [], []
    for value in values:
        try:
            found.append(converted(value, type))
            bad.append(False)
        except ValueError:
            found.append(None)
            bad.append(True)
    return found, bad


def check(answer: tuple[pa.Array, Any], values: list[Any], type: str) -> None:
    array, bad = answer
    found, refused = slowly(values, type)
    assert array.type == arrow_type(Column("c", type))
    assert (bad.tolist() if bad is not None else [False] * len(values)) == refused
    wanted = pa.array(found, array.type)
    assert repr(array.to_pylist()) == repr(wanted.to_pylist()) or array.equals(wanted)
    assert array.null_count == sum(value is None for value in found)


@pytest.mark.parametrize("type", TYPES)
@given(values=st.lists(texts | st.none(), max_size=12))
@laws
def test_columns_of_text(type: str, values: list[Any]) -> None:
    check(convert(pa.array(values, pa.string()), Column("c", type)), values, type)


@pytest.mark.parametrize("type", TYPES)
@given(
    values=st.lists(texts | numbers | floats | st.booleans() | st.none() | st.lists(numbers, max_size=2), max_size=8)
)
@laws
def test_values_as_json_has_them(type: str, values: list[Any]) -> None:
    check(convert_values(values, Column("c", type)), values, type)


ARRAYS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "bytes": (pa.int8(), st.integers(-128, 127)),
    "large unsigned": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "longs": (pa.int64(), st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300)),
    "doubles": (pa.float64(), floats),
    "floats": (pa.float32(), st.floats(width=32)),
    "decimals": (pa.decimal128(12, 2), decimals),
    "booleans": (pa.bool_(), st.booleans()),
    "days": (pa.date32(), st.dates(date(1, 1, 1), date(9999, 12, 31))),
    "moments": (pa.timestamp("us", "UTC"), moments),
    "milliseconds": (pa.timestamp("ms"), moments.map(lambda m: m.replace(microsecond=0, tzinfo=None))),
    "words": (pa.dictionary(pa.int8(), pa.string()), texts.filter(lambda t: len(t) < 40)),
    "large texts": (pa.large_string(), texts),
}


@pytest.mark.parametrize("source", ARRAYS)
@pytest.mark.parametrize("type", TYPES[:-3])
@given(data=st.data())
@settings(deadline=None, max_examples=25)
def test_columns_of_other_types(source: str, type: str, data: st.DataObject) -> None:
    kind, values = ARRAYS[source]
    drawn = data.draw(st.lists(values | st.none(), max_size=8))
    array = pa.array(drawn, kind)
    check(convert(array, Column("c", type)), [_as_python(value) for value in array.to_pylist()], type)


NESTED: list[tuple[pa.DataType, list[Any], str]] = [
    (pa.list_(pa.float64()), [[0.123456], [0.5], None], "array<decimal(4,2)>"),
    (pa.list_(pa.float64()), [[1e300], [1.5]], "array<float>"),
    (pa.list_(pa.string()), [["1"], ["true"]], "array<boolean>"),
    (pa.list_(pa.string()), [["YWJj"]], "array<binary>"),
    (pa.large_list(pa.large_string()), [["a", None], []], "array<string>"),
    (pa.list_(pa.int64()), [[1], [2**40]], "array<int>"),
    (pa.struct([("b", pa.int64()), ("a", pa.int32())]), [{"b": 1, "a": 2}, None], "struct<a:int,b:bigint>"),
    (pa.map_(pa.string(), pa.int8()), [[("a", 1)], []], "map<string,int>"),
]


@pytest.mark.parametrize(("kind", "values", "type"), NESTED, ids=lambda value: str(value)[:30])
def test_nested_columns(kind: pa.DataType, values: list[Any], type: str) -> None:
    check(convert(pa.array(values, kind), Column("c", type)), values, type)


def _as_python(value: Any) -> Any:
    return value if not isinstance(value, Decimal) or math.isfinite(value) else str(value)
