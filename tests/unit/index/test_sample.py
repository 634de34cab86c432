"""Types that are told from sample records."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from ebb.index.columns import Column
from ebb.index.errors import SchemaDriftError
from ebb.index.sample import Sample


def told(*values: Any) -> str:
    sample = Sample({})
    for line, value in enumerate(values, start=1):
        sample.add(f"line {line}", {"a": value})
    return sample.columns()[0].type


@pytest.mark.parametrize(
    ("values", "type"),
    [
        ([1, None, -(2**63)], "bigint"),
        ([1, 2**63], "double"),
        ([1, Decimal("1.5")], "double"),
        ([float("nan"), 1], "double"),
        ([True, None, False], "boolean"),
        ([None], "string"),
        (["2026-03-01T08:00:00Z", "2026-03-01 08:00:00.5+01:00", None], "timestamp"),
        (["2026-03-01", "2026-12-31"], "date"),
        (["2026-03-01", "2026-03-01T08:00"], "timestamp"),
        (["2026-03-01T08:00:00Z", "noon"], "string"),
        (["2026-02-30"], "string"),
        ([""], "string"),
        ([[], [1], [None, 2.5]], "array<double>"),
        ([[]], "array<string>"),
        ([{"x": 1}, {"y": [True]}, {"x": 1.5}, {}], "struct<x:double,y:array<boolean>>"),
        ([{}], "string"),
    ],
)
def test_the_type_takes_all_values(values: list[Any], type: str) -> None:
    assert told(*values) == type


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([1, "1"], "line 2: column a holds string, and bigint before; declare its type"),
        ([True, 1], "line 2: column a holds bigint, and boolean before"),
        ([None, [1, "x"]], "line 2: column a holds string, and bigint before"),
        ([[1], [{"x": 1}]], "line 2: column a holds struct<x:bigint>, and bigint before"),
        ([{"x": 1}, [1]], "line 2: column a holds array<bigint>, and struct<x:bigint> before"),
        ([{"x": 1}, {"x": "2026-03-01"}], "line 2: column a holds date, and bigint before"),
    ],
)
def test_types_that_no_type_takes_both_of_are_refused(values: list[Any], said: str) -> None:
    with pytest.raises(SchemaDriftError) as caught:
        told(*values)

    assert str(caught.value).startswith(said)


def test_a_declared_column_is_as_it_was_declared() -> None:
    sample = Sample({"b": Column("b", "decimal(4,2)"), "c": Column("c", "int")})
    sample.add("line 1", {"a": 1, "b": 1})
    sample.add("line 2", {"b": "x", "a": 2})

    assert sample.columns() == (Column("a", "bigint"), Column("b", "decimal(4,2)"))
