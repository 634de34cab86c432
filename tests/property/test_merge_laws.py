"""A merge is the sorted concatenation of its inputs without what has expired, whatever the keys are."""

from __future__ import annotations

import itertools
import math
import tempfile
from collections import Counter
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebb.index.keys import code
from ebb.warehouse.parquet.chunks import read_row_groups
from ebb.warehouse.parquet.datafile import DataFile
from ebb.warehouse.parquet.statistics import key_interval
from tests.runs import Row, layout_in, merged, ordered, read_back, table_of, written


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) | st.integers(-3, 3)


def exactly(number: int) -> Decimal:
    return Decimal((number < 0, tuple(map(int, str(abs(number)))), -4))


def without_sign_of_zero(number: float) -> float:
    return number + 0.0


KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "string": (pa.string(), st.text(st.characters(codec="utf-8"), max_size=4) | st.just("é" * 40)),
    "binary": (pa.binary(), st.binary(max_size=4) | st.just(b"\xff" * 40)),
    "bigint": (pa.int64(), integers(64)),
    "int": (pa.int32(), integers(32)),
    "tinyint": (pa.int8(), integers(8)),
    "double": (pa.float64(), st.floats().map(without_sign_of_zero)),  # also NaN, which no table admits: it comes last
    "float": (pa.float32(), st.floats(width=32).map(without_sign_of_zero)),
    "boolean": (pa.bool_(), st.booleans()),
    "decimal": (pa.decimal128(38, 4), st.integers(-(10**38) + 1, 10**38 - 1).map(exactly)),
    "small decimal": (pa.decimal128(5, 2), st.decimals(-999, 999, places=2)),
    "date": (pa.date32(), integers(32)),
    "timestamp": (pa.timestamp("us", "UTC"), integers(64)),
}
KEYS = [*((kind,) for kind in KINDS), ("string", "bigint"), ("boolean", "timestamp", "string")]


def runs_of(kinds: tuple[str, ...]) -> st.SearchStrategy[list[list[Row]]]:
    row = st.tuples(*(KINDS[kind][1] for kind in kinds), st.integers(1, 9))
    return st.lists(st.lists(row, min_size=1, max_size=60), min_size=1, max_size=4).map(numbered)


def numbered(runs: list[list[Row]]) -> list[list[Row]]:
    count = itertools.count()
    return [[(*row, next(count)) for row in rows] for rows in runs]


def plain(table: pa.Table, name: str) -> list[Any]:
    """Return the values of a column as rows have them, NaN as one value."""
    column = table[name]
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int64() if pa.types.is_timestamp(column.type) else pa.int32())
    return ["NaN" if isinstance(value, float) and math.isnan(value) else value for value in column.to_pylist()]


def rows_of(table: pa.Table, names: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """Return the records of a table."""
    return list(zip(*(plain(table, name) for name in names), strict=True))


@pytest.mark.parametrize("kinds", KEYS, ids="-".join)
@settings(deadline=None, max_examples=25)
@given(data=st.data(), clock=st.integers(0, 8))
def test_a_merge_is_the_sorted_concatenation_without_what_has_expired(
    kinds: tuple[str, ...], data: st.DataObject, clock: int
) -> None:
    runs = data.draw(runs_of(kinds))
    with tempfile.TemporaryDirectory() as folder:
        layout = layout_in(folder, [KINDS[kind][0] for kind in kinds])
        result = merged(layout, [file for rows in runs for file in written(layout, rows).files], clock)
        found = read_back(layout, result.files)

    live = [row for rows in runs for row in rows if row[-2] > clock]
    expected = table_of(ordered(live), layout.schema)
    for name in layout.key:
        assert plain(found, name) == plain(expected, name)
    # Row groups of one long key are taken over as they are, so that its expirations need not be in order.
    names = (*layout.key, "_exp_slot", "id")
    assert Counter(rows_of(found, names)) == Counter(rows_of(expected, names))
    assert sum(file.records for file in result.files) == len(live)


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=15)
@given(data=st.data())
def test_statistics_give_an_interval_that_holds_every_key(kind: str, data: st.DataObject) -> None:
    rows = [row for rows in data.draw(runs_of(("boolean", kind))) for row in rows]
    rows = [row for row in rows if not (isinstance(row[1], float) and math.isnan(row[1]))]  # no key is
    if not rows:
        return
    with tempfile.TemporaryDirectory() as folder:
        layout = layout_in(folder, [pa.bool_(), KINDS[kind][0]])
        for file in written(layout, rows).files:
            source = DataFile.open(folder, file)
            leaves = [source.leaf(name) for name in (*layout.key, "_exp_slot")]
            for number in range(source.row_groups):
                interval = key_interval(source, number, leaves)
                table = read_row_groups([(source, [number])], layout.schema.names)
                for parts in zip(*(plain(table, name) for name in (*layout.key, "_exp_slot")), strict=True):
                    assert interval.holds(code(parts))


few_keys = st.lists(
    st.lists(st.tuples(st.sampled_from([1, 2, 2, 2, 3]), st.integers(1, 9)), min_size=1, max_size=40),
    min_size=1,
    max_size=3,
).map(numbered)


@settings(deadline=None, max_examples=60)
@given(few_keys, few_keys, st.lists(st.integers(0, 8), min_size=2, max_size=3).map(sorted))
def test_merges_of_merges_know_what_is_in_their_row_groups(
    runs: list[list[Row]], later: list[list[Row]], clocks: list[int]
) -> None:
    """Row groups that were copied bring the expirations of a long key into any order; the directory must know."""
    with tempfile.TemporaryDirectory() as folder:
        layout = layout_in(folder, [pa.int64()])
        files = merged(layout, [file for rows in runs for file in written(layout, rows).files], clocks[0]).files
        files += [file for rows in later for file in written(layout, rows).files]
        for clock in clocks[1:]:
            files = merged(layout, files, clock).files
        found = read_back(layout, files)
        opened = [DataFile.open(folder, file) for file in files]
        for source in opened:
            for number in range(source.row_groups):
                table = read_row_groups([(source, [number])], layout.schema.names)
                codes = [code(row) for row in rows_of(table, ("k0", "_exp_slot"))]
                interval, slots = source.contents.row_group(number).interval, table["_exp_slot"].to_pylist()
                assert all(interval.holds(one) for one in codes)
                assert source.contents.records[number] == len(codes)
                assert (source.contents.min_exp[number], source.contents.max_exp[number]) == (min(slots), max(slots))

    first = [row for rows in runs for row in rows if row[-2] > clocks[0]]
    live = [row for row in [*first, *(row for rows in later for row in rows)] if row[-2] > clocks[-1]]
    names = ("k0", "_exp_slot", "id")
    assert Counter(rows_of(found, names)) == Counter(live)
    assert plain(found, "k0") == sorted(row[0] for row in live)
