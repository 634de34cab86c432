"""Laws of CSV and JSON lines: whole columns are written as their values are, one by one, to the byte."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebb.cli.output import render
from ebb.cli.output.columns import csv_lines, data_of, json_lines, lines_of, portions
from ebb.cli.output.records import Format, write_records
from ebb.cli.output.values import csv_field, json_value
from ebb.index.errors import UsageError

_SIGNS = ["", '"', '""', ",", "\r", "\n", "\r\n", "\t", "\0", "\x1b[2J", "\x7f", "\x85", "\x9b", "\u202e", "\u2066x", "\\", "\\u0041",
          "=1+1", "+1", "-1", "@a", "'", "a", "é", "\U0001f600", "\ufeff", "\u2028", "null", "a, b", 'say "a"', " a ", "a" * 300]  # fmt: skip
_FLOATS = [0.0, -0.0, 1.0, -1.0, 1e-4, 9.999e-5, 1e-5, 1e9, 1e10, 9999999999.5, 1e15, 1e16, 123456789012.25, 0.1 + 0.2, 5e-324,
           1.7976931348623157e308, math.nan, math.inf, -math.inf, 1e22, 2.0**53]  # fmt: skip
_ENDS = ("0001-01-01", "9999-12-31T23:59:59.999999", "1969-12-31T23:59:59.000001", "1970-01-01")
_MOMENTS = [datetime.fromisoformat(text) for text in _ENDS]
texts = st.sampled_from(_SIGNS) | st.text() | st.lists(st.sampled_from(_SIGNS), max_size=4).map("".join)
moments = st.sampled_from(_MOMENTS) | st.datetimes() | st.datetimes().map(lambda moment: moment.replace(microsecond=0))


def _decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal]:
    numbers = st.integers(-(10**digits) + 1, 10**digits - 1) | st.sampled_from([0, 1, -1])
    return numbers.map(lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale)))


def _integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "text": (pa.string(), texts), "large text": (pa.large_string(), texts), "text view": (pa.string_view(), texts),
    "tinyint": (pa.int8(), _integers(8)), "int": (pa.int32(), _integers(32)), "bigint": (pa.int64(), _integers(64)),
    "unsigned": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "half": (pa.float16(), st.floats(width=16)), "float": (pa.float32(), st.floats(width=32)),
    "double": (pa.float64(), st.sampled_from(_FLOATS) | st.floats() | st.floats(-1e12, 1e12) | st.integers(-10**17, 10**17).map(float)),
    "price": (pa.decimal128(10, 2), _decimals(10, 2)), "share": (pa.decimal128(38, 20), _decimals(38, 20)), "units": (pa.decimal128(12, -3), _decimals(12, -3)),
    "wide": (pa.decimal256(50, 9), _decimals(50, 9)),
    "flag": (pa.bool_(), st.booleans()), "blob": (pa.binary(), st.binary(max_size=5)), "day": (pa.date32(), st.dates()),
    "moment": (pa.timestamp("us", "UTC"), moments.map(lambda m: m.replace(tzinfo=UTC))), "naive": (pa.timestamp("us"), moments),
    "seconds": (pa.timestamp("s"), moments.map(lambda m: m.replace(microsecond=0))),
    "millis": (pa.timestamp("ms", "UTC"), moments.map(lambda m: m.replace(microsecond=m.microsecond // 1000 * 1000, tzinfo=UTC))),
    "elsewhere": (pa.timestamp("us", "Europe/Berlin"), st.datetimes(_MOMENTS[3], datetime.fromisoformat("2100-01-01")).map(lambda m: m.replace(tzinfo=UTC))),
    "hour": (pa.time64("us"), st.times()), "wait": (pa.duration("us"), st.timedeltas(timedelta(days=-999), timedelta(days=999))),
    "list": (pa.list_(pa.string()), st.lists(st.none() | texts, max_size=2)), "struct": (pa.struct([("a", pa.float64())]), st.fixed_dictionaries({"a": st.floats()})),
    "map": (pa.map_(pa.string(), pa.int32()), st.lists(st.tuples(texts, _integers(32)), max_size=2)), "nothing": (pa.null(), st.none()),
    "coded": (pa.dictionary(pa.int32(), pa.string()), texts),
}  # fmt: skip


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    names = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=4))
    count = draw(st.integers(0, 6))
    has_nulls = draw(st.booleans())
    columns = []
    for name in names:
        kind, values = KINDS[name]
        cell = st.none() | values if has_nulls else values
        columns.append(pa.array(draw(st.lists(cell, min_size=count, max_size=count)), kind))
    # Names as users write them, and one column may be there twice.
    batch = pa.RecordBatch.from_arrays(columns, names=[f'{name} "%" {place}' for place, name in enumerate(names)])
    return batch.slice(draw(st.integers(0, count)), draw(st.integers(0, count)))


def rows_of(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def slow_csv(batch: pa.RecordBatch, *, guard_formulas: bool = False) -> list[str]:
    fields = [[csv_field(value, guard_formulas=guard_formulas) or "" for value in row] for row in rows_of(batch)]
    return [(",".join(row) or '""') + "\n" for row in fields]


def slow_json(batch: pa.RecordBatch) -> list[str]:
    names = [render.json_text(name) for name in batch.schema.names]
    written = ([f"{name}: {json_value(v)}" for name, v in zip(names, row, strict=True)] for row in rows_of(batch))
    return ["{" + ", ".join(row) + "}\n" for row in written]


@settings(deadline=None, max_examples=600)
@given(batch=batches(), guard_formulas=st.booleans())
def test_columns_are_written_as_csv_as_their_values_are(batch: pa.RecordBatch, guard_formulas: bool) -> None:  # noqa: FBT001
    expected = slow_csv(batch, guard_formulas=guard_formulas)

    lines = csv_lines(batch, guard_formulas=guard_formulas)

    assert lines.to_pylist() == expected
    assert bytes(data_of(lines)).decode() == "".join(expected)


@settings(deadline=None, max_examples=600)
@given(batch=batches())
def test_columns_are_written_as_json_as_their_values_are(batch: pa.RecordBatch) -> None:
    lines = json_lines(batch)

    assert lines.to_pylist() == slow_json(batch)
    for line in lines.to_pylist():
        json.loads(line, parse_constant=pytest.fail)


@pytest.mark.parametrize("name", sorted(KINDS))
def test_every_type_is_written_with_and_without_nulls(name: str) -> None:
    """What a random draw of columns meets seldom: one type alone, with nothing but nulls, with none, and with no record."""
    kind, values = KINDS[name]
    samples = {"text": _SIGNS, "double": _FLOATS, "naive": _MOMENTS}.get(name, [])

    @settings(deadline=None, max_examples=25)
    @given(st.lists(st.none() | values, max_size=5))
    def check(cells: list[Any]) -> None:
        for some in (cells, [cell for cell in cells if cell is not None], [None] * len(cells), samples):
            batch = pa.RecordBatch.from_arrays([pa.array(some, kind)], names=["a"])
            assert csv_lines(batch).to_pylist() == slow_csv(batch)
            assert csv_lines(batch, guard_formulas=True).to_pylist() == slow_csv(batch, guard_formulas=True)
            assert json_lines(batch).to_pylist() == slow_json(batch)

    check()


@settings(deadline=None, max_examples=60)
@given(batch=batches())
def test_a_terminal_sees_the_same_lines_without_control_characters(batch: pa.RecordBatch) -> None:
    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    sink = io.BytesIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", Terminal(sink, encoding="utf-8"))
        write_records([pa.Table.from_batches([batch])], batch.schema, form=Format.csv, output=None)
        told = sink.getvalue().decode().split("\n")

    assert told[1:] == [*(render.visible(line[:-1]) for line in slow_csv(batch)), ""]


def test_wide_records_come_in_small_portions_and_none_is_lost() -> None:
    narrow = pa.table({"n": pa.array(range(200_000))})
    wide = pa.table({"s": pa.array(["x" * 1_000_000] * 40)})

    assert [batch.num_rows for batch in portions(narrow)] == [32768] * 6 + [3392]
    assert max(batch.num_rows for batch in portions(wide)) <= 9
    assert sum(batch.num_rows for batch in portions(wide)) == 40


def test_portions_are_written_in_their_order_and_a_part_before_the_next_is_read() -> None:
    read: list[int] = []

    def parts() -> Iterator[pa.Table]:
        for place in range(3):
            read.append(place)
            yield pa.table({"n": pa.array(range(place * 100_000, (place + 1) * 100_000))})

    written: list[str] = []
    for lines in lines_of(parts(), csv_lines):
        written += lines.to_pylist()
        assert len(read) <= (len(written) - 1) // 100_000 + 1

    assert written == [f"{n}\n" for n in range(300_000)]


@pytest.mark.parametrize("form", [Format.csv, Format.jsonl, Format.table])
@pytest.mark.parametrize(
    "column",
    [
        pa.array([2**62], pa.timestamp("us", "UTC")),
        pa.array([10**8], pa.int32()).cast(pa.date32()),
        pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")]),
    ],
    ids=["moment", "day", "no text"],
)
def test_a_value_that_has_no_text_is_told_in_every_form(form: Format, column: pa.Array, tmp_path: Path) -> None:
    table = pa.table({"a": column})

    with pytest.raises(UsageError, match=r"a value cannot be written .*; cast it to text in the query"):
        write_records([table], table.schema, form=form, output=tmp_path / "out")


def test_what_today_writes_stays_as_it_is() -> None:
    """Examples by hand, in case both ways were wrong in the same way."""
    batch = pa.RecordBatch.from_pydict(
        {
            "x": pa.array([1.0, 1e16, 1e-5, -0.0, math.nan]), "t": pa.array([0, 1, 10**6, -1, None], pa.timestamp("us", "UTC")),
            "m": pa.array([Decimal("0.00"), Decimal("-1.50"), Decimal("100.00"), None, Decimal("7.10")], pa.decimal128(5, 2)),
            "s": pa.array(["", None, 'a"b', "\x7f", "-1"]), "b": pa.array([b"\xff", b"", None, b"a", b"ab"]), "d": pa.array([date(1, 2, 3)] * 5),
            "h": pa.array([time(1, 2)] * 5, pa.time64("us")),
        }
    )  # fmt: skip

    assert "".join(csv_lines(batch, guard_formulas=True).to_pylist()) == (
        '1.0,1970-01-01T00:00:00Z,0.00,"",/w==,0001-02-03,01:02:00\n'
        '1e+16,1970-01-01T00:00:00.000001Z,\'-1.50,,"",0001-02-03,01:02:00\n'
        '1e-05,1970-01-01T00:00:01Z,100.00,"a""b",,0001-02-03,01:02:00\n'
        "-0.0,1969-12-31T23:59:59.999999Z,,\x7f,YQ==,0001-02-03,01:02:00\n"
        "nan,,7.10,'-1,YWI=,0001-02-03,01:02:00\n"
    )
    assert json_lines(batch.slice(3, 2)).to_pylist() == [
        '{"x": -0.0, "t": "1969-12-31T23:59:59.999999Z", "m": null, "s": "\\u007f", "b": "YQ==", "d": "0001-02-03", "h": "01:02:00"}\n',
        '{"x": "NaN", "t": null, "m": "7.10", "s": "-1", "b": "YWI=", "d": "0001-02-03", "h": "01:02:00"}\n',
    ]
