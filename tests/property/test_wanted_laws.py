"""Laws of finding wanted records in what was read: the same as a filter, and runs that are the same as places."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from ebb.index.keys import Wanted, code, wanted_keys, wanted_prefix, wanted_range
from ebb.warehouse.read.order import runs_of, wanted_places

laws = settings(deadline=None, max_examples=150)

numbers = st.integers(-2, 12)
texts = st.sampled_from(["", "a", "ab", "b", "é", "a\0", "z"])
KINDS: dict[tuple[str, ...], tuple[list[pa.DataType], st.SearchStrategy[Any]]] = {
    ("number",): ([pa.int64()], st.tuples(numbers)),
    ("text",): ([pa.string()], st.tuples(texts)),
    ("float",): ([pa.float64()], st.tuples(numbers.map(float))),
    ("text", "number"): ([pa.string(), pa.int64()], st.tuples(texts, numbers)),
}


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[pa.DataType], list[list[tuple[Any, ...]]], Wanted]:
    """Draw sorted parts of a table with keys of some kind, and what is wanted of them."""
    kinds, keys = KINDS[draw(st.sampled_from(list(KINDS)))]
    row = st.tuples(keys, st.integers(1, 4)).map(lambda pair: (*pair[0], pair[1]))
    # The expirations of one key may be in any order.
    parts = [
        sorted(rows, key=lambda row: code(row[:-1]))
        for rows in draw(st.lists(st.lists(row, max_size=25), min_size=1, max_size=4))
    ]
    match draw(st.sampled_from(["keys", "leading parts", "range", "prefix"])):
        case "keys":
            wanted = wanted_keys(draw(st.lists(keys, min_size=1, max_size=20)))
        case "leading parts":
            wanted = wanted_keys([key[:1] for key in draw(st.lists(keys, min_size=1, max_size=3))])
        case "range":
            wanted = wanted_range(draw(st.none() | keys), draw(st.none() | keys))
        case _:
            wanted = (
                wanted_prefix(draw(st.sampled_from([("a",), ("",)])))
                if kinds[0] == pa.string()
                else wanted_range(None, None)
            )
    return kinds, parts, wanted


def holds(wanted: Wanted, row: tuple[Any, ...]) -> bool:
    return any(interval.holds(code(row)) for interval in wanted.intervals)


@laws
@given(tables())
def test_the_wanted_records_are_those_that_a_filter_lets_through(
    drawn: tuple[list[pa.DataType], list[list[tuple[Any, ...]]], Wanted],
) -> None:
    kinds, parts, wanted = drawn
    rows = [row for part in parts for row in part]
    names = [f"k{place}" for place in range(len(kinds))]
    columns = [pa.array([row[place] for row in rows], kind) for place, kind in enumerate(kinds)]
    table = pa.table(columns, names=names)

    found = wanted_places(table, names, wanted, [len(part) for part in parts])

    assert found.tolist() == [place for place, row in enumerate(rows) if holds(wanted, row)]


@laws
@given(st.lists(st.lists(st.booleans(), max_size=12), min_size=1, max_size=6))
def test_runs_are_the_places_part_by_part(is_wanted: list[list[bool]]) -> None:
    places = np.flatnonzero([one for part in is_wanted for one in part] or [False])
    if not len(places):
        return

    runs = runs_of(places, [len(part) for part in is_wanted])

    for part, found in zip(is_wanted, runs, strict=True):
        assert [place for low, high in found for place in range(low, high)] == np.flatnonzero(part).tolist()
        assert all(low < high for low, high in found)
        assert all(first[1] < second[0] for first, second in itertools.pairwise(found)), "runs that touch are one"


def test_an_interval_over_everything_is_one_run() -> None:
    assert runs_of(np.arange(10), [4, 6]) == [[(0, 4)], [(0, 6)]]
