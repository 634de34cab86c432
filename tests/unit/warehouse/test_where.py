"""What --where means: the same over Arrow, in SQL and record by record."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebb.index.columns import Column
from ebb.index.errors import UsageError
from ebb.index.predicate.pruning import Extent, may_match
from ebb.index.predicate.syntax import Compare, IsNull, Literal, Name, Or, Predicate, parse_predicate
from ebb.index.predicate.typed import check, names, value
from ebb.warehouse.parquet.arrow import arrow_schema
from ebb.warehouse.read.mask import mask
from ebb.warehouse.sql.condition import Dialect, to_sql
from tests.builders import arrow_batch, integer_table, open_warehouse
from tests.builders import records as batch_of
from tests.predicates import COLUMNS, INF, NAN, TEXTS, TYPES, UTC, Record, predicates, records, single, typed
from tests.truth import truth

SCHEMA = pa.schema([field for field in arrow_schema(COLUMNS) if field.name in TYPES])


def table_of(*batch: Record) -> pa.Table:
    rows = [{name: record.get(name) for name in TYPES} for record in batch]
    return pa.table({field.name: pa.array([row[field.name] for row in rows], field.type) for field in SCHEMA})


@cache
def database() -> Any:
    return duckdb.connect()


def asked_of_duckdb(table: pa.Table, predicate: Predicate) -> list[bool | None]:
    condition = to_sql(predicate, COLUMNS, "duckdb")
    database().register("t", table)
    try:
        return [row[0] for row in database().execute(f"SELECT {condition} FROM t").fetchall()]  # noqa: S608 - the text under test
    finally:
        database().unregister("t")


def answer(where: str, *values: Any, name: str = "d") -> list[bool | None]:
    """Return the mask over records with these values in one column, after asking DuckDB for it too."""
    table, predicate = table_of(*({name: found} for found in values)), parse_predicate(where)
    check(predicate, COLUMNS)
    found: list[bool | None] = mask(table, predicate, COLUMNS).to_pylist()
    assert asked_of_duckdb(table, predicate) == found
    return found


@settings(deadline=None, max_examples=300)
@given(predicate=predicates, batch=st.lists(records, max_size=6))
def test_arrow_sql_and_the_slow_truth_agree(predicate: Predicate, batch: list[Record]) -> None:
    table = table_of(*batch)
    expected = [truth(predicate, record, typed) for record in batch]
    check(predicate, COLUMNS)

    assert mask(table, predicate, COLUMNS).to_pylist() == expected
    assert asked_of_duckdb(table, predicate) == expected
    for part in table.to_batches(max_chunksize=2):
        kept = part.filter(mask(part, predicate, COLUMNS))
        assert kept.num_rows <= part.num_rows


@settings(deadline=None, max_examples=300)
@given(predicate=predicates, batch=st.lists(records, min_size=1, max_size=3))
def test_what_the_mask_keeps_is_never_ruled_out_by_the_ends(predicate: Predicate, batch: list[Record]) -> None:
    table = table_of(*batch)
    ranges = {}
    for name, type in TYPES.items():
        found = [cell for cell in table[name].to_pylist() if cell is not None]
        is_open = type in ("float", "double") or not found
        low = None if is_open or type.startswith("array") else min(found)
        high = None if is_open or type.startswith("array") else max(found)
        ranges[name] = Extent(low=low, high=high, has_nulls=len(found) < len(batch), has_values=bool(found))

    def fitted(literal: Literal, name: str) -> Any:
        return value(literal, Column(name, TYPES[name]))

    assert may_match(predicate, ranges, fitted) or True not in mask(table, predicate, COLUMNS).to_pylist()


@pytest.mark.parametrize(
    ("where", "expected"),
    # of NaN, infinity, 1, -0.0, null
    [
        ("d = 'NaN'", [True, False, False, False, None]), ("d != 'NaN'", [False, True, True, True, None]),
        ("d > 5", [True, True, False, False, None]), ("d >= 1", [True, True, True, False, None]),
        ("d < 'NaN'", [False, True, True, True, None]), ("d <= 'NaN'", [True, True, True, True, None]),
        ("d > 'Infinity'", [True, False, False, False, None]), ("d > 'NaN'", [False, False, False, False, None]),
        ("'NaN' <= d", [True, False, False, False, None]), ("d = 0", [False, False, False, True, None]),
        ("d < 0", [False, False, False, False, None]), ("d in ('nan', 0)", [True, False, False, True, None]),
        ("d in (-0.0, 1)", [False, False, True, True, None]), ("d not in (5)", [True, True, True, True, None]),
        ("d = d", [True, True, True, True, None]), ("d < d", [False, False, False, False, None]),
        ("d is null", [False, False, False, False, True]), ("not d > 5", [False, False, True, True, None]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["d", "f"])
def test_nan_equals_nan_and_is_the_greatest(name: str, where: str, expected: list[bool | None]) -> None:
    assert answer(re.sub(r"\bd\b", name, where), NAN, INF, 1.0, -0.0, None, name=name) == expected


def test_a_nan_with_other_bits_is_nan_too() -> None:
    bits = struct.pack("<QQ", 0xFFF8000000000001, 0x7FF8000000000000)
    column = pa.Array.from_buffers(pa.float64(), 2, [None, pa.py_buffer(bits)])
    table = pa.table({"d": column, 'd"2': pa.array([NAN, 1.0])})

    for where in ("d = 'nan'", "d in ('nan')", "d > 5", 'd >= `d"2`'):
        assert mask(table, parse_predicate(where), COLUMNS).to_pylist() == [True, True], where


@pytest.mark.parametrize(
    ("where", "expected"),
    # of -99999999.99, 1.25, 1.26, 99999999.99, null
    [
        ("dec > 1.255", [False, False, True, True, None]), ("dec >= 1.255", [False, False, True, True, None]),
        ("dec < 1.255", [True, True, False, False, None]), ("dec <= 1.255", [True, True, False, False, None]),
        ("dec = 1.255", [False, False, False, False, None]), ("dec != 1.255", [True, True, True, True, None]),
        ("dec < 1.250", [True, False, False, False, None]), ("dec = 125e-2", [False, True, False, False, None]),
        ("dec < 123456789", [True, True, True, True, None]), ("dec > 1e999999", [False, False, False, False, None]),
        ("dec >= -1e300", [True, True, True, True, None]), ("dec > -99999999.991", [True, True, True, True, None]),
        ("dec > 1e-999999999", [False, True, True, True, None]), ("dec = 1e-77", [False, False, False, False, None]),
        ("dec in (1.255, 1.26, 1e30)", [False, False, True, False, None]), ("dec not in (1.255)", [True, True, True, True, None]),
        ("1.255 > dec", [True, True, False, False, None]), ("dec between 1.249 and 1.259", [False, True, False, False, None]),
    ],
)  # fmt: skip
def test_decimals_compare_with_numbers_that_they_cannot_hold(where: str, expected: list[bool | None]) -> None:
    held = [Decimal(text) for text in ("-99999999.99", "1.25", "1.26", "99999999.99")]
    assert answer(where, *held, None, name="dec") == expected


@pytest.mark.parametrize(
    ("where", "expected"),
    # of -128, 1, 2, 127, null
    [
        ("tiny < 1.5", [True, True, False, False, None]), ("tiny <= 1.5", [True, True, False, False, None]),
        ("tiny > 1.5", [False, False, True, True, None]), ("tiny >= 1.5", [False, False, True, True, None]),
        ("tiny = 1.5", [False, False, False, False, None]), ("tiny != 1.5", [True, True, True, True, None]),
        ("tiny = 2.0", [False, False, True, False, None]), ("tiny != 2.", [True, True, False, True, None]),
        ("tiny < 2.0", [True, True, False, False, None]), ("tiny >= 2.0", [False, False, True, True, None]),
        ("tiny < 1000.0", [True, True, True, True, None]), ("tiny > 1.0e999999", [False, False, False, False, None]),
        ("tiny >= -128.5", [True, True, True, True, None]), ("tiny > -128.0", [False, True, True, True, None]),
        ("tiny < -128.0", [False, False, False, False, None]), ("tiny <= -128.0", [True, False, False, False, None]),
        ("tiny > 127.0", [False, False, False, False, None]), ("tiny >= 127.0", [False, False, False, True, None]),
        ("tiny > 1.0e-999999", [False, True, True, True, None]), ("1.5 > tiny", [True, True, False, False, None]),
        ("tiny in (1.5, 2.0, 999.0)", [False, False, True, False, None]), ("tiny in (1.5)", [False, False, False, False, None]),
        ("tiny not in (1.5)", [True, True, True, True, None]),
        ("tiny > 128", [False, False, False, False, None]), ("tiny < 128", [True, True, True, True, None]),
        ("tiny = 128", [False, False, False, False, None]), ("tiny >= -129", [True, True, True, True, None]),
        ("tiny in (2, 99999999999999999999)", [False, False, True, False, None]),
    ],
)  # fmt: skip
def test_integers_compare_with_fractions_exactly(where: str, expected: list[bool | None]) -> None:
    assert answer(where, -128, 1, 2, 127, None, name="tiny") == expected


@pytest.mark.parametrize(
    ("where", "record", "expected"),
    [
        ("big = d", {"big": 2**53 + 1, "d": 2.0**53}, True), ("big > d", {"big": 1, "d": NAN}, False),
        ("dec = d", {"dec": Decimal("0.35"), "d": 0.35}, True), ('"far`" = d', {"far`": Decimal("0.3"), "d": 0.3}, True),
        ('"far`" = d', {"far`": Decimal("8.1234567890123456789012345678901234567"), "d": 8.1234567890123456789012345678901234567}, True),
        ("f = d", {"f": single(0.1), "d": 0.1}, False),
        ("f = 0.1", {"f": single(0.1)}, True), ("f = 1e300", {"f": INF}, True), ("dec >= big", {"dec": Decimal("2.99"), "big": 3}, False),
        ("tiny < big", {"tiny": 5, "big": 2**40}, True), ("day = ts", {"day": date(2013, 6, 1), "ts": datetime(2013, 6, 1, tzinfo=UTC)}, True),
        ("ts > day", {"day": date(2013, 6, 1), "ts": datetime(2013, 6, 1, 0, 0, 0, 1, tzinfo=UTC)}, True),
        ("ts > day", {"day": date(9999, 12, 31), "ts": datetime(1, 1, 1, tzinfo=UTC)}, False),
        ("s = blob", {"s": "é", "blob": b"\xc3\xa9"}, True), ("s < blob", {"s": "\uffff", "blob": b"\xff"}, True),
        ("s > 'b'", {"s": "é"}, True), ("blob > 'ff'", {"blob": b"\xff\x00"}, True), ("flag > false", {"flag": True}, True),
        ("flag = `AND`", {"flag": True, "AND": None}, None), ('"z z" = s', {"s": "a", "z z": "a"}, True),
        ("ts = '2013-06-01T02:00+02:00'", {"ts": datetime(2013, 6, 1, tzinfo=UTC)}, True),
    ],
)  # fmt: skip
def test_values_of_two_types(where: str, record: Record, expected: bool | None) -> None:  # noqa: FBT001
    table, predicate = table_of(record), parse_predicate(where)
    check(predicate, COLUMNS)

    assert mask(table, predicate, COLUMNS).to_pylist() == [expected]
    assert asked_of_duckdb(table, predicate) == [expected]


def test_days_and_moments_that_python_cannot_write_still_compare() -> None:
    far = pa.table(
        {
            "day": pa.array([2**31 - 1, -(2**31), 0], pa.int32()).cast(pa.date32()),
            "ts": pa.array([2**63 - 1, -(2**63), 0], pa.timestamp("us", "UTC")),
        }
    )

    assert mask(far, parse_predicate("ts < day"), COLUMNS).to_pylist() == [True, False, False]
    assert mask(far, parse_predicate("ts = day"), COLUMNS).to_pylist() == [False, False, True]


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("nope > 1 and s = 5", "the condition names 'nope', which is not a column: there are s, z z, tiny"),
        ("s = nope", "and a text is written 'nope'"), ("S = 'a'", "the condition names 'S', which is not a column"),
        ("nope is null", "names 'nope'"), ("nope in (1)", "names 'nope'"), ("not (i = 1 or nope = 1)", "names 'nope'"),
        ("tags = 1", "the condition cannot compare column tags of type array<int>; it can test it with is null"),
        ("tags in (1)", "cannot compare column tags"), ("tags = tags", "cannot compare column tags"), ("i < tags", "cannot compare column tags"),
        ("i = 'x'", "value 'x' does not fit column i of type int; write a int"), ("i = '1.2.3'", "value '1.2.3' does not fit"),
        ("tiny = '1x'", "value '1x' does not fit column tiny"), ("i in (1, 'x')", "value 'x' does not fit"),
        ("day = '2013-02-30'", "write like 2013-01-31"), ("ts > 'noon'", "write ISO 8601"), ("flag = 1", "write true or false"),
        ("blob = 'xyz'", "write hexadecimal digits"), ("d = 'abc'", "does not fit column d of type double"),
        ("dec = '0.12x'", "value '0.12x' does not fit column dec of type decimal(10,2); write a decimal(10,2)"),
        ("dec = 'NaN'", "value 'NaN' does not fit"), ("dec = 'Infinity'", "value 'Infinity' does not fit"),
        ("dec < 1e9999999999999999999", "does not fit"), ("big < '1_0'", "value '1_0' does not fit"),
        ("s = 5", "the condition compares column s of type string with 5; write it '5'"), ("s in ('a', true)", "write it 'true'"),
        ("1 = 1", "the condition compares two values, '1' and '1'; name a column"), ("s = 'a' or 'x' < 'y'", "compares two values, 'x' and 'y'"),
        ("s > i", "the condition compares columns of types that do not compare: s is string, i is int; compare each with a value"),
        ("flag = i", "types that do not compare"), ("day < i", "types that do not compare"), ("blob = d", "types that do not compare"),
        ("i like '1%'", "the condition matches column i of type int with a pattern, and like is for strings; compare it with a value"),
        ("blob not like '1%'", "column blob of type binary with a pattern"), ("tags like ''", "column tags of type array<int> with a pattern"),
        ("nope like 'a'", "names 'nope'"), ("big = `far`", "names 'far'"), ('big = "far`"', "types that do not compare: big is bigint, far` is decimal(38,37)"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_without_data(where: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        check(parse_predicate(where), COLUMNS)

    assert says in str(caught.value)


def test_a_text_that_is_not_unicode_is_refused() -> None:
    with pytest.raises(UsageError, match="does not fit column s of type string"):
        check(Compare(Name("s"), "=", Literal("\udc80", is_text=True)), COLUMNS)


def test_decimals_of_many_digits_are_read_exactly() -> None:
    """Arrow reads this one as zero."""
    assert value(Literal("1." + "0" * 77), Column("dec", "decimal(10,2)")) == 1


def test_the_columns_of_a_predicate() -> None:
    assert names(None) == set()
    assert names(parse_predicate("a = b or not (c in (1) and 5 < d) or e is null")) == {"a", "b", "c", "d", "e"}


@pytest.mark.parametrize(
    ("where", "spark", "duck"),
    [
        ("i < 5", "(`i` < CAST('5' AS INT))", "(\"i\" < CAST('5' AS INT))"),
        ("5 < i", "(`i` > CAST('5' AS INT))", "(\"i\" > CAST('5' AS INT))"),
        ("tiny <= 1.5", "(`tiny` <= CAST('1' AS TINYINT))", "(\"tiny\" <= CAST('1' AS TINYINT))"),
        ("dec = 1.5", "(`dec` = CAST('1.50' AS DECIMAL(10,2)))", "(\"dec\" = CAST('1.50' AS DECIMAL(10,2)))"),
        ("s = 'JFK'", "(`s` = 'JFK')", "(\"s\" = 'JFK')"),
        ("s = 'it''s'", "(`s` = CAST(X'69742773' AS STRING))", "(\"s\" = decode(from_hex('69742773')))"),
        ("s = '${x}'", "(`s` = CAST(X'247b787d' AS STRING))", "(\"s\" = decode(from_hex('247b787d')))"),
        ("blob = '00ff'", "(`blob` = X'00ff')", "(\"blob\" = from_hex('00ff'))"),
        ("flag = true", "(`flag` = TRUE)", '("flag" = TRUE)'),
        ("day >= '0033-04-03'", "(`day` >= DATE '0033-04-03')", "(\"day\" >= DATE '0033-04-03')"),
        ("ts = '2013-06-01T02:00+02:00'", "(`ts` = TIMESTAMP '2013-06-01 00:00:00.000000+00:00')", "(\"ts\" = TIMESTAMPTZ '2013-06-01 00:00:00.000000+00:00')"),
        ("ts < day", "(CAST(unix_micros(`ts`) AS DECIMAL(22,0)) < CAST(CAST(unix_date(`day`) AS DECIMAL(10,0)) * CAST('86400000000' AS DECIMAL(11,0)) AS DECIMAL(22,0)))", None),
        ("d in ('nan', '-inf', 1)", "((CASE WHEN isnan(`d`) THEN CAST('NaN' AS DOUBLE) ELSE `d` + CAST('0' AS DOUBLE) END) IN (CAST('NaN' AS DOUBLE), CAST('-Infinity' AS DOUBLE), CAST('1.0' AS DOUBLE)))", None),
        ("dec < d", "(CAST(`dec` AS DOUBLE) < (CASE WHEN isnan(`d`) THEN CAST('NaN' AS DOUBLE) ELSE `d` + CAST('0' AS DOUBLE) END))", None),
        ("big = dec", "(CAST(`big` AS DECIMAL(21,2)) = CAST(`dec` AS DECIMAL(21,2)))", '(CAST("big" AS DECIMAL(21,2)) = CAST("dec" AS DECIMAL(21,2)))'),
        ("s = blob", "(CAST(`s` AS BINARY) = `blob`)", '(encode("s") = "blob")'),
        ("s like 'JF%'", "(`s` LIKE 'JF%' ESCAPE '!')", "(\"s\" LIKE 'JF%' ESCAPE '!')"),
        ("s not like '50^%!_' escape '^'", "NOT (`s` LIKE '50!%!!_' ESCAPE '!')", None),
        ("s like 'a''b_'", "(`s` LIKE CAST(X'6127625f' AS STRING) ESCAPE '!')", "(\"s\" LIKE decode(from_hex('6127625f')) ESCAPE '!')"),
        ("s like 'JFK'", "(`s` = 'JFK')", "(\"s\" = 'JFK')"),
        ('"far`" is null', "(`far``` IS NULL)", '("far`" IS NULL)'),
        ('`d"2` is null', '(`d"2` IS NULL)', '("d""2" IS NULL)'),
        ("not (i is null or i = 1 or i = 2) and not flag = true", "(NOT ((`i` IS NULL) OR (`i` = CAST('1' AS INT)) OR (`i` = CAST('2' AS INT))) AND NOT (`flag` = TRUE))", None),
    ],
)  # fmt: skip
def test_the_text_of_conditions(where: str, spark: str, duck: str | None) -> None:
    assert to_sql(parse_predicate(where), COLUMNS, "spark") == spark
    assert duck is None or to_sql(parse_predicate(where), COLUMNS, "duckdb") == duck


@settings(deadline=None, max_examples=200)
@given(predicate=predicates, text=st.text() | st.sampled_from(TEXTS), dialect=st.sampled_from(["spark", "duckdb"]))
def test_whatever_a_literal_says_the_condition_is_made_of_these_parts(
    predicate: Predicate, text: str, dialect: Dialect
) -> None:
    """Quoted texts hold no quote, no backslash and no dollar sign; outside of quotes stand our own words only."""
    hostile = Or(predicate, Compare(Name("s"), "=", Literal(text, is_text=True)))
    quoted = "`(?:[^`]|``)*`" if dialect == "spark" else '"(?:[^"]|"")*"'
    outside = re.sub(rf"{quoted}|X?'[A-Za-z0-9 _.,:/+@%!-]*'", "", to_sql(hostile, COLUMNS, dialect))

    words = (
        "CAST AS AND OR NOT IN IS NULL TRUE FALSE DATE TIMESTAMP TIMESTAMPTZ DECIMAL DOUBLE INT BIGINT SMALLINT TINYINT"
    )
    words += (
        " STRING LIKE ESCAPE BINARY CASE WHEN THEN ELSE END isnan decode encode from_hex unix_micros unix_date epoch_us"
    )
    assert re.fullmatch(rf"(?:(?:{words.replace(' ', '|')})\b|[0-9]+|[ ()<>=!,*+-])*", outside)


@pytest.mark.parametrize("name", ["${env:HOME}", "a\0b"])
def test_a_column_name_that_sql_cannot_hold_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="rename it"):
        to_sql(IsNull(Name(name)), [Column(name, "int")], "spark")


def test_a_column_name_is_quoted() -> None:
    columns = [Column('a`"; --', "int")]

    assert to_sql(IsNull(Name('a`"; --')), columns, "spark") == '(`a``"; --` IS NULL)'
    assert to_sql(IsNull(Name('a`"; --')), columns, "duckdb") == '("a`""; --" IS NULL)'


def test_statistics_that_leave_nan_out_do_not_hide_it_from_sql(tmp_path: Path) -> None:
    """DuckDB believes what the file says of its greatest value, and Spark does too."""
    table = table_of({"d": 1.0, "f": 1.0}, {"d": NAN, "f": NAN}, {"d": None}, {"d": -0.0, "f": -0.0})
    pq.write_table(table, tmp_path / "f.parquet")
    assert (
        pq.ParquetFile(tmp_path / "f.parquet").metadata.row_group(0).column(SCHEMA.get_field_index("d")).statistics.max
        == 1.0
    )

    for where in (
        "d > 5",
        "d = 'nan'",
        "d in ('nan', 7)",
        "not d < 9",
        "f > 5",
        "d = f and d != 1",
        "d = 0",
        "f in (0)",
    ):
        predicate = parse_predicate(where)
        condition = to_sql(predicate, COLUMNS, "duckdb")
        count = f"SELECT count(*) FROM read_parquet('{tmp_path / 'f.parquet'}') WHERE {condition}"  # noqa: S608
        expected = mask(table, predicate, COLUMNS).to_pylist().count(True)
        assert expected
        assert database().execute(count).fetchall() == [(expected,)], where


@pytest.mark.parametrize(
    ("where", "expected"),
    # of '', a, ab, A, a%, a_, a\\b, é😀, a, line break, b, null
    [
        ("s like '%'", [True] * 9), ("s like ''", [True] + [False] * 8), ("s like 'a'", [False, True] + [False] * 7),
        ("s like 'a%'", [False, True, True, False, True, True, True, False, True]), ("s like '_'", [False, True, False, True] + [False] * 5),
        ("s like '%b'", [False, False, True, False, False, False, True, False, True]), ("s like '__'", [False, False, True, False, True, True, False, True, False]),
        ("s like '%a%'", [False, True, True, False, True, True, True, False, True]), ("s like 'a_b'", [False] * 6 + [True, False, True]),
        ("s like 'a!%' escape '!'", [False] * 4 + [True] + [False] * 4), ("s like 'a!_' escape '!'", [False] * 5 + [True] + [False] * 3),
        ("s like 'a\\b'", [False] * 6 + [True, False, False]), ("s like '%\\%' escape '\\'", [False] * 4 + [True] + [False] * 4),
        ("s like '%%_%%'", [False] + [True] * 8), ("s like 'é_'", [False] * 7 + [True, False]), ("s like '%😀'", [False] * 7 + [True, False]),
    ],
)  # fmt: skip
def test_patterns_match_whole_texts_and_tell_case(where: str, expected: list[bool]) -> None:
    values = ("", "a", "ab", "A", "a%", "a_", "a\\b", "é😀", "a\nb")

    assert answer(where, *values, None, name="s") == [*expected, None]
    assert answer(where.replace(" like ", " not like "), *values, None, name="s") == [*(not e for e in expected), None]


def test_the_longest_pattern_is_matched() -> None:
    for pattern in ("_" * 1000, "_%" * 500, "é%" * 500, "%a" * 500):
        assert answer(f"s like '{pattern}'", "é" * 999, "é" * 1000, "a" * 1000, name="s")[0] in (True, False)


@pytest.mark.parametrize("word", ["and", "or"])
def test_a_long_chain_is_one_flat_condition(word: str) -> None:
    predicate = parse_predicate(f" {word} ".join(f"i != {number}" for number in range(2000)))
    table = table_of({"i": 5}, {"i": 5000})

    expected = [word == "or", True]
    assert mask(table, predicate, COLUMNS).to_pylist() == expected
    assert asked_of_duckdb(table, predicate) == expected
    assert "((" not in to_sql(predicate, COLUMNS, "spark")[2:]


def test_a_table_without_records_has_an_empty_mask() -> None:
    for where in ("d > 5", "d in (1)", "s = 'a'", "day < ts", "dec = d", "not d is null"):
        assert mask(SCHEMA.empty_table(), parse_predicate(where), COLUMNS).to_pylist() == []


def test_evaluating_does_not_import_datasets() -> None:
    code = (
        "import sys, pyarrow as pa\n"
        "from ebb.index.predicate.syntax import parse_predicate\n"
        "from ebb.index.columns import Column\n"
        "from ebb.warehouse.read.mask import mask\n"
        "table = pa.table({'d': [1.0, None]})\n"
        "found = mask(table, parse_predicate('d > 0 and d in (1) or d is null'), [Column('d', 'double')])\n"
        "assert table.filter(found).num_rows == 2\n"
        "sys.exit({'pyarrow.dataset', 'pyspark'} & set(sys.modules) and 1 or 0)\n"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_scan_leaves_out_row_groups_by_the_beginning_of_a_pattern(tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path), grid="2x3", strategy="norebuild")
    for slot, sign in enumerate("abcde", start=1):
        batch = batch_of(*((10 * slot + n, f"{sign}{n}", slot, slot + 6) for n in range(10)))
        table.update(arrow_batch(batch), at=slot)
    for where, ids, groups in (
        ("key like 'c%'", range(30, 40), 1),
        ("key like 'c_' and key not like '%5'", [i for i in range(30, 40) if i != 35], 1),
        ("key not like 'c%'", [i for i in range(10, 60) if i // 10 != 3], 4),
        ("key like '%1'", [11, 21, 31, 41, 51], 5),
        ("key like 'x%'", [], 0),
    ):
        window = table.at_latest()
        found = [i for part in window.scan(["id"], where) for i in part["id"].to_pylist()]
        assert sorted(found) == list(ids)
        assert (window.cost.groups_read, window.cost.groups) == (groups, 5)
