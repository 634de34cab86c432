"""Laws of keys: codes sort as keys do, and intervals hold what a naive definition says."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ebb.index.keys import Interval, Part, code, successor, wanted_keys

laws = settings(deadline=None, max_examples=150)

Key = tuple[Part, ...]

whole = st.integers(-(2**63), 2**63 - 1)
odd_bytes = st.lists(st.sampled_from([0, 1, 2, 0x61, 0xFE, 0xFF]), max_size=4).map(bytes)
zones = st.sampled_from([timezone(timedelta(hours=hours)) for hours in (-12, 0, 5, 14)])
KINDS: dict[str, st.SearchStrategy[Part]] = {
    "boolean": st.booleans(),
    "bigint": whole | st.integers(-2, 2) | st.sampled_from([-(2**63), -256, 255, 2**63 - 1]),
    "double": st.floats() | st.sampled_from([0.0, -0.0, 5e-324, -5e-324, math.inf, -math.inf, math.nan, -math.nan]),
    "string": st.text(max_size=4) | st.text("\x00\x01\x02a\x7f\x80ÿ\uffff\U00010000\U0010ffff", max_size=4),
    "binary": st.binary(max_size=4) | odd_bytes,
    # All values of a column have the same exponent.
    "decimal": (st.integers(1 - 10**38, 10**38 - 1) | st.integers(-2, 2)).map(lambda n: Decimal(f"{n}E-5")),
    "date": st.dates(),
    "timestamp": st.builds(datetime.replace, st.datetimes(), tzinfo=zones),
}
TEXTS = ("string", "binary")


def naive(parts: Sequence[Part]) -> tuple[Any, ...]:
    """Return a key as something that Python compares as keys are compared."""
    return tuple(_naive(part) for part in parts)


def _naive(part: Part) -> Any:
    if isinstance(part, float):
        return (1, 0.0) if math.isnan(part) else (0, part)
    return part.encode() if isinstance(part, str) else part


@st.composite
def keys(draw: st.DrawFn, last: Sequence[str] = tuple(KINDS)) -> list[Key]:
    """Draw four keys of one to three columns, likely to share parts; the type of the last column is one of some."""
    kinds = [*draw(st.lists(st.sampled_from(tuple(KINDS)), max_size=2)), draw(st.sampled_from(last))]
    pools = [draw(st.lists(KINDS[kind], min_size=1, max_size=3)) for kind in kinds]
    return draw(st.lists(st.tuples(*(st.sampled_from(pool) for pool in pools)), min_size=4, max_size=4))


def stored(key: Key, slot: int | None) -> bytes:
    """Return the code of a key as it is asked for, or as blocks know it: with an expiration slot after it."""
    return code(key) if slot is None else code((*key, slot))


slots = st.none() | whole
lengths = st.integers(0, 3)


@laws
@given(keys(), lengths)
def test_codes_compare_as_keys_and_their_leading_parts_do(drawn: list[Key], length: int) -> None:
    for one, other in itertools.product([*drawn, *(key[:length] for key in drawn)], repeat=2):
        assert (code(one) < code(other)) == (naive(one) < naive(other))
        assert (code(one) == code(other)) == (naive(one) == naive(other))
        assert code(other).startswith(code(one)) == (naive(one) == naive(other[: len(one)]))


@laws
@given(keys(), st.lists(whole, min_size=4, max_size=4))
def test_records_sorted_by_code_are_sorted_by_key_and_then_by_expiration(drawn: list[Key], expires: list[int]) -> None:
    records: list[Key] = [(*key, slot) for key, slot in zip(drawn, expires, strict=True)]

    assert [naive(r) for r in sorted(records, key=code)] == [naive(r) for r in sorted(records, key=naive)]


@laws
@given(keys(), lengths, slots)
def test_the_interval_of_leading_parts_holds_the_keys_that_have_them(
    drawn: list[Key], length: int, slot: int | None
) -> None:
    asked = drawn[0][:length]
    held = [Interval.of_key(asked).holds(stored(key, slot)) for key in drawn]

    assert held == [naive(key[:length]) == naive(asked) for key in drawn]


@laws
@given(keys(), st.none() | lengths, st.none() | lengths, slots)
def test_a_range_holds_the_keys_between_its_ends_and_those_that_the_ends_lead(
    drawn: list[Key], low_length: int | None, high_length: int | None, slot: int | None
) -> None:
    low = None if low_length is None else drawn[0][:low_length]
    high = None if high_length is None else drawn[1][:high_length]
    for key in drawn:
        is_above = low is None or naive(low) <= naive(key[: len(low)])
        is_below = high is None or naive(key[: len(high)]) <= naive(high)

        assert Interval.of_range(low, high).holds(stored(key, slot)) == (is_above and is_below)


@laws
@given(keys(last=TEXTS), st.integers(0, 4), st.lists(whole, max_size=2))
def test_a_prefix_holds_the_keys_whose_text_starts_with_it_whatever_parts_follow(
    drawn: list[Key], length: int, following: list[int]
) -> None:
    *leading, text = drawn[0]
    assert isinstance(text, str | bytes)
    start = text[:length]
    interval = Interval.of_prefix((*leading, start))
    for key in drawn:
        expected = naive(key[:-1]) == naive(leading) and naive(key)[-1].startswith(_naive(start))

        assert interval.holds(code((*key, *following))) == expected


@laws
@given(keys())
def test_intervals_of_different_keys_do_not_overlap_and_lie_in_the_order_of_the_keys(drawn: list[Key]) -> None:
    for low, high in itertools.pairwise(sorted(drawn, key=naive)):
        before, after = Interval.of_key(low), Interval.of_key(high)

        assert before == after if naive(low) == naive(high) else (before.stop or b"") <= after.start
        assert before.stop is not None or naive(low) == naive(high)


@laws
@given(odd_bytes, odd_bytes)
def test_only_what_begins_with_a_text_lies_between_it_and_its_successor(start: bytes, other: bytes) -> None:
    assert Interval(start, successor(start)).holds(other) == other.startswith(start)


@laws
@given(st.lists(st.integers(0, 30), min_size=1), st.integers(-1, 31), st.integers(0, 32) | st.none())
def test_what_can_be_met_between_two_codes_is_not_left_out(asked: list[int], low: int, size: int | None) -> None:
    wanted = wanted_keys([(key,) for key in asked])
    start, stop = code((low,)), None if size is None else code((low + size,))

    near = wanted.between(start, stop)

    there = [key for key in range(31) if low <= key and (size is None or key < low + size)]
    assert {key for (key,) in near.keys} >= set(there) & set(asked)
    assert [(Interval.of_key(key), key) for key in near.keys] == list(zip(near.intervals, near.keys, strict=True))
    assert len(near.keys) <= len(set(there) & set(asked)) + 1  # one that starts before may reach into it
