"""Columns written as DDL, in Delta's JSON, and checked for drift."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebb.index.columns import Column, columns_of_delta, delta_fields, parse_columns, time_kind
from ebb.index.errors import UsageError
from ebb.index.timeline import TimeKind
from ebb.index.types import TYPES

laws = settings(deadline=None)

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,9}", fullmatch=True)
decimals = st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: f"decimal({p},{s})"))
scalars = st.sampled_from(sorted(TYPES)) | decimals


def nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    fields = st.lists(st.tuples(names, inner), min_size=1, max_size=3)
    return (
        inner.map("array<{}>".format)
        | st.tuples(inner, inner).map(lambda two: "map<{},{}>".format(*two))
        | fields.map(lambda some: "struct<" + ",".join(f"{name}:{kind}" for name, kind in some) + ">")
    )


types = st.recursive(scalars, nested, max_leaves=6)
columns = st.lists(st.builds(Column, names, types), min_size=1, max_size=5).map(tuple)


@laws
@given(columns, st.sampled_from([" ", "  ", "\n"]), st.booleans())
def test_columns_are_read_as_they_are_written(some: tuple[Column, ...], space: str, is_upper: bool) -> None:  # noqa: FBT001
    written = f",{space}".join(
        f"{c.name}{space}{c.type.upper() if is_upper and '<' not in c.type else c.type}" for c in some
    )

    assert parse_columns(f"{space}{written}{space}") == some


@laws
@given(columns)
def test_delta_keeps_columns_as_they_are(some: tuple[Column, ...]) -> None:
    hidden = [Column(name, "bigint") for name in ("_ins_slot", "_exp_slot", "_gen", "_g", "_e")]
    shown = tuple(c for c in some if c.name not in {h.name for h in hidden})

    assert columns_of_delta(json.dumps({"type": "struct", "fields": delta_fields([*hidden, *some])})) == shown


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("x LONG", "bigint"), ("x integer", "int"), ("x short", "smallint"), ("x BYTE", "tinyint"), ("x real", "float"),
        ("x DEC", "decimal(10,0)"), ("x numeric(4)", "decimal(4,0)"), ("x decimal ( 4 , 2 )", "decimal(4,2)"),
        ("x varchar", "string"), ("x TEXT", "string"), ("x timestamp_ltz", "timestamp"), ("x: int", "int"),
        ("x array < struct < a : int , `b c` string > >", "array<struct<a:int,b c:string>>"),
    ],
)  # fmt: skip
def test_other_spellings_mean_the_same(text: str, kind: str) -> None:
    assert parse_columns(text) == (Column("x", kind),)


@pytest.mark.parametrize(
    "text",
    [
        "", "   ", "x", "x int,", ", x int", "x int y int", "x int;", "x blob", "x array<int", "x array int", "x map<int>",
        "x struct<>", "x decimal(39)", "x decimal(4,5)", "x decimal(0)", "x decimal(a)", "x 'int'", "1 int,", "x int)",
    ],
)  # fmt: skip
def test_what_is_no_ddl_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="write it like"):
        parse_columns(text)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("timestamp", TimeKind.TIMESTAMP),
        ("date", TimeKind.DATE),
        ("bigint", TimeKind.INTEGER),
        ("int", TimeKind.INTEGER),
    ],
)
def test_times_are_of_three_kinds(kind: str, expected: TimeKind) -> None:
    assert time_kind(Column("x", kind)) is expected


@pytest.mark.parametrize("kind", ["string", "double", "smallint", "array<int>"])
def test_other_types_hold_no_times(kind: str) -> None:
    with pytest.raises(UsageError, match="must be timestamp, date, bigint or int"):
        time_kind(Column("x", kind))
