"""The written rule: which values go into which columns, and as what."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from ebb.index.conversion import converted, is_convertible

DAY_US = 86_400_000_000

FIT: list[tuple[Any, str, Any]] = [
    (None, "int", None),
    ("x", "string", "x"),
    ("", "string", ""),
    ("7", "int", 7), (" +7\t", "int", 7), ("7.0", "int", 7), ("1e3", "smallint", 1000), (7, "tinyint", 7),
    (7.0, "int", 7), (Decimal("7.00"), "bigint", 7), ("-128", "tinyint", -128), (2**63 - 1, "bigint", 2**63 - 1),
    ("1.5", "decimal(4,2)", Decimal("1.50")), (1.5, "decimal(4,2)", Decimal("1.50")), (0.1, "decimal(3,1)", Decimal("0.1")),
    (7, "decimal(4,2)", Decimal("7.00")), ("1e1", "decimal(4,2)", Decimal("10.00")),
    ("0.1", "double", 0.1), (1, "double", 1.0), ("NaN", "double", "nan"), ("-Infinity", "float", float("-inf")),
    (Decimal("0.5"), "float", 0.5), (".5", "float", 0.5), (float("inf"), "float", float("inf")),
    (True, "boolean", True), (" FALSE ", "boolean", False),
    (b"ab", "binary", b"ab"), ("YWI=", "binary", b"ab"), ("", "binary", b""),
    ("1970-01-02", "date", 1), (date(1970, 1, 2), "date", 1), ("1970-01-02T00:00:00Z", "date", 1),
    (datetime(1970, 1, 2), "date", 1),  # noqa: DTZ001
    ("1970-01-02", "timestamp", DAY_US), ("1970-01-01 00:00:01.5", "timestamp", 1_500_000),
    ("1970-01-01T01:00+01:00", "timestamp", 0), ("1970-01-01T00:00:00,0000000001"[:-1], "timestamp", 0),
    ("1970-01-01T00:00:00.000000001", "timestamp", 1), ("1970-01-01T00:00:00-0130", "timestamp", 5_400_000_000),
    (datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "timestamp", 0), (date(1970, 1, 2), "timestamp", DAY_US),
    ([1, "2", None], "array<int>", [1, 2, None]), ("[1, 2]", "array<int>", [1, 2]), ("null", "array<int>", None),
    ({"a": 1}, "map<string,int>", [("a", 1)]), ([("a", "1")], "map<string,int>", [("a", 1)]),
    ({"a": "1"}, "struct<a:int,b:string>", {"a": 1, "b": None}),
    ('{"a": {"b": ["1970-01-02"]}}', "struct<a:struct<b:array<date>>>", {"a": {"b": [1]}}),
]  # fmt: skip

REFUSED: list[tuple[Any, str]] = [
    (1, "string"), (True, "string"), ({"a": 1}, "string"), ("\ud800", "string"),
    ("x", "int"), ("", "int"), ("7.5", "int"), (7.5, "int"), (True, "int"), ("1_000", "int"), ("٧", "int"), ([1], "int"),
    (2**31, "int"), ("128", "tinyint"), ("1e99999", "int"), ("NaN", "int"), (float("nan"), "bigint"), (float("inf"), "bigint"),
    ("1.239", "decimal(4,2)"), ("100", "decimal(4,2)"), ("NaN", "decimal(4,2)"), (True, "decimal(4,2)"), (0.123, "decimal(4,2)"),
    ("1e400", "double"), ("1e39", "float"), (1e39, "float"), (True, "double"), ("one", "double"), (10**400, "double"),
    ("yes", "boolean"), (1, "boolean"), ("", "boolean"),
    ("not base 64!", "binary"), (1, "binary"),
    ("1970-01-02T00:00:01Z", "date"), ("2013-02-30", "date"), ("02/01/2013", "date"), (1, "date"), ("", "date"),
    ("2013-01-01T24:00:00", "timestamp"), ("2013-01-01T00:00:60", "timestamp"), ("2013-1-1", "timestamp"), (0, "timestamp"),
    ("2013-01-01T00:00:00+24:00", "timestamp"), ("2013-01-01T00:00:00+01:60", "timestamp"), ("now", "timestamp"),
    (1, "array<int>"), ([True], "array<int>"), ("{}", "array<int>"), ("[", "array<int>"),
    ({"a": "x"}, "map<string,int>"), ([(None, 1)], "map<string,int>"), (5, "map<string,int>"),
    ("[" * 200_000, "array<int>"), ("[0.123456]", "array<decimal(4,2)>"),
    ({"c": 1}, "struct<a:int,b:string>"), (5, "struct<a:int>"), ("5", "struct<a:int>"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "type", "wanted"), FIT, ids=lambda value: repr(value)[:30])
def test_what_fits_is_kept_without_loss(value: Any, type: str, wanted: Any) -> None:
    found = converted(value, type)

    assert repr(found) == repr(wanted) if wanted != "nan" else found != found  # noqa: PLR0124


@pytest.mark.parametrize(("value", "type"), REFUSED, ids=lambda value: repr(value)[:30])
def test_what_would_lose_anything_is_refused(value: Any, type: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - callers say which column it is
        converted(value, type)


@pytest.mark.parametrize(
    ("found", "wanted", "answer"),
    [
        ("int", "bigint", True), ("bigint", "tinyint", True), ("double", "int", True), ("decimal(9,2)", "float", True),
        ("string", "int", True), ("string", "array<int>", True), ("date", "timestamp", True), ("timestamp", "date", True),
        ("boolean", "int", False), ("int", "string", False), ("int", "date", False), ("binary", "string", False),
        ("int", "boolean", False), ("array<int>", "array<bigint>", True), ("array<boolean>", "array<int>", False),
        ("map<string,int>", "map<string,bigint>", True), ("struct<b:int,a:int>", "struct<a:int,b:bigint>", True),
        ("struct<c:int>", "struct<a:int>", False), ("struct<a:boolean>", "struct<a:int>", False),
        ("map<string,int>", "struct<a:int>", True), ("int", "array<int>", False),
    ],
)  # fmt: skip
def test_whether_a_type_can_go_into_another_is_known_before_a_record_is_read(
    found: str,
    wanted: str,
    answer: bool,  # noqa: FBT001 - a table of cases
) -> None:
    assert is_convertible(found, wanted) is answer
