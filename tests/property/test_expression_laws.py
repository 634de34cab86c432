"""Expressions over whole columns are what they are for one record at a time."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from ebb.index.columns import Column, parse_columns
from ebb.index.expression import Amount, Call, Case, Expression, Field, Now, Sum, least_after
from ebb.index.grid import Grid, Ring
from ebb.index.predicate.syntax import Compare, Literal, Name
from ebb.index.strategy import Strategy
from ebb.index.timeline import TimeKind, Timeline
from ebb.warehouse.intake.compute import evaluated
from ebb.warehouse.table.spec import TableSpec

COLUMNS = parse_columns("a BIGINT, b BIGINT, n INT, word STRING")
SPEC = TableSpec(
    name="t", columns=COLUMNS, key=("word",), inserted="a", expires="b",
    timeline=Timeline(kind=TimeKind.INTEGER, origin=0, tick=10, span=100), grid=Grid(Ring(1, 1), Ring(1, 1)),
    strategy=Strategy.REBUILD, bound=100, reader_time=10, quarantine_time=100, log_retention=100,
)  # fmt: skip
SLOT = 7
LIMIT = 9.2e18

conditions = st.builds(
    lambda name, sign, number: Compare(Name(name), sign, Literal(str(number))),
    st.sampled_from(["a", "n"]), st.sampled_from(["<", "=", ">="]), st.integers(-5, 5),
)  # fmt: skip


def leaves(most: int) -> st.SearchStrategy[Expression]:
    return st.one_of(st.sampled_from([Field("a"), Field("b"), Field("n"), Now()]), st.integers(1, most).map(Amount))


def expressions(most: int) -> st.SearchStrategy[Expression]:
    """Return expressions whose durations are at most so long."""
    return st.recursive(
        leaves(most),
        lambda inner: st.one_of(
            st.builds(Sum, inner, st.sampled_from([1, -1]), inner),
            st.builds(
                lambda name, some: Call(name, tuple(some)),
                st.sampled_from(["coalesce", "least", "greatest"]),
                st.lists(inner, min_size=1, max_size=3),
            ),
            st.builds(
                lambda branches, otherwise: Case(tuple(branches), otherwise),
                st.lists(st.tuples(conditions, inner), min_size=1, max_size=2),
                st.none() | inner,
            ),
        ),
        max_leaves=8,
    )


numbers = st.none() | st.integers(-5, 5) | st.integers(-(2**62), 2**62)
records = st.lists(st.tuples(numbers, numbers, st.none() | st.integers(-5, 5)), min_size=1, max_size=6)


def slow(expression: Expression, record: dict[str, Any]) -> int | None:
    match expression:
        case Field(name):
            return record[name]
        case Amount(amount):
            return amount
        case Now():
            return SLOT * 10
        case Sum(left, sign, right):
            one, other = slow(left, record), slow(right, record)
            total = None if one is None or other is None else one + sign * other
            return total if total is not None and abs(float(total)) <= LIMIT else None
        case Call(name, arguments):
            values = [value for value in (slow(argument, record) for argument in arguments) if value is not None]
            chosen: Any = {"coalesce": lambda some: some[0], "least": min, "greatest": max}[name]
            return chosen(values) if values else None
        case Case(branches, otherwise):
            for condition, value in branches:
                assert isinstance(condition, Compare)
                assert isinstance(condition.left, Name)
                assert isinstance(condition.right, Literal)
                found, number = record[condition.left.name], int(condition.right.text)
                if (
                    found is not None
                    and {"<": found < number, "=": found == number, ">=": found >= number}[condition.sign]
                ):
                    return slow(value, record)
            return None if otherwise is None else slow(otherwise, record)


@given(expression=expressions(2**62), rows=records)
@settings(deadline=None, max_examples=400)
def test_whole_columns_give_what_single_records_give(expression: Expression, rows: list[tuple[Any, ...]]) -> None:
    kinds = {"a": pa.int64(), "b": pa.int64(), "n": pa.int32()}
    columns = {name: pa.array([row[i] for row in rows], kinds[name]) for i, name in enumerate(kinds)}
    table = pa.table(columns | {"word": pa.nulls(len(rows), pa.string())})
    values, missing = evaluated(expression, table, SPEC, SLOT)

    found = [None if gone else int(value) for value, gone in zip(values, missing, strict=True)]
    assert found == [slow(expression, dict(zip("abn", row, strict=True))) for row in rows]


small = st.integers(-100, SLOT * 10)


@given(expression=expressions(99), a=small, b=st.none() | small, n=st.none() | st.integers(-5, 5))
@settings(max_examples=400)
def test_no_value_is_nearer_than_the_least_that_is_told(
    expression: Expression, a: int, b: int | None, n: int | None
) -> None:
    least, value = least_after(expression, "a"), slow(expression, {"a": a, "b": b, "n": n})

    assert least is None or (value is not None and value >= a + least)


def test_units_of_numbers_beside_dates_and_timestamps() -> None:
    for kind, type, unit in ((TimeKind.TIMESTAMP, "timestamp", 1_000_000), (TimeKind.DATE, "date", 1)):
        columns = (Column("came", type), Column("until", type), Column("ttl", "bigint"), Column("word", "string"))
        line = Timeline(kind=kind, origin=0, tick=10, span=100)
        spec = TableSpec(
            name="t", columns=columns, key=("word",), inserted="came", expires="until", timeline=line, grid=SPEC.grid,
            strategy=Strategy.REBUILD, bound=100, reader_time=10, quarantine_time=100, log_retention=100,
        )  # fmt: skip
        came = pa.array([5, None], pa.int32()).cast(pa.date32())
        table = pa.table({"came": came.cast(pa.timestamp("us")) if type == "timestamp" else came, "ttl": [3, 3]})
        values, missing = evaluated(Sum(Field("came"), 1, Field("ttl")), table, spec, 1)

        start = 5 * 86_400_000_000 if type == "timestamp" else 5
        assert (values.tolist(), missing.tolist()) == ([start + 3 * unit, 0], [False, True])
