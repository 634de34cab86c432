"""Laws of --where: what is written is what is read, nothing ends in a crash, and no matching record is ruled out."""

from __future__ import annotations

import math
from contextlib import suppress
from decimal import Decimal
from functools import cmp_to_key
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ebb.index.errors import UsageError
from ebb.index.predicate.pruning import Extent, may_match
from ebb.index.predicate.syntax import (
    And,
    Compare,
    In,
    IsNull,
    Like,
    Literal,
    Name,
    Not,
    Or,
    Predicate,
    parse_predicate,
)
from tests.predicates import likes
from tests.truth import compare, truth

laws = settings(deadline=None, max_examples=60)
names = st.text(st.characters(codec="utf-8", exclude_characters='"'), min_size=1, max_size=8).map(Name)
literals = st.one_of(
    st.integers().map(lambda number: Literal(str(number))),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda number: Literal(repr(number))),
    st.text(max_size=8).map(lambda text: Literal(text, is_text=True)),
    st.sampled_from([Literal("true"), Literal("false")]),
)
operands = names | literals
signs = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
leaves: st.SearchStrategy[Predicate] = st.one_of(
    st.builds(Compare, operands, signs, operands),
    st.builds(In, names, st.lists(literals, min_size=1, max_size=3).map(tuple)),
    st.builds(IsNull, names),
    likes(["a", "z z"], ["a", "'", "\\"]),
)
predicates = st.recursive(
    leaves, lambda inner: st.builds(Not, inner) | st.builds(And, inner, inner) | st.builds(Or, inner, inner)
)
words = st.sampled_from(
    [*"()=<>,'\"`-.;", "and", "or", "not", "in", "between", "is", "null", "like", "escape", "a", "1", "'x'", " "]
)


def written(predicate: Predicate | Name | Literal) -> str:
    """Write a predicate the long way, with brackets around everything."""
    match predicate:
        case Name(name):
            return f'"{name}"'
        case Literal(text, is_text):
            return "'" + text.replace("'", "''") + "'" if is_text else text
        case Compare(left, sign, right):
            return f"{written(left)} {sign} {written(right)}"
        case In(name, values):
            return f"{written(name)} in ({', '.join(map(written, values))})"
        case IsNull(name):
            return f"{written(name)} is null"
        case Like(name, pattern, escape):
            texts = [written(Literal(text, is_text=True)) for text in (pattern, escape) if text is not None]
            return f"{written(name)} like {' escape '.join(texts)}"
        case Not(inner):
            return f"not ({written(inner)})"
        case And(left, right):
            return f"({written(left)}) and ({written(right)})"
        case Or(left, right):
            return f"({written(left)}) or ({written(right)})"


@laws
@given(predicates)
def test_a_predicate_that_is_written_is_read_back(predicate: Predicate) -> None:
    assert parse_predicate(written(predicate)) == predicate


@laws
@given(st.text() | st.lists(words, max_size=30).map(" ".join) | st.lists(words, max_size=30).map("".join))
def test_any_text_is_a_predicate_or_refused(text: str) -> None:
    with suppress(UsageError):
        parse_predicate(text)


Record = dict[str, Any]
TYPES: dict[str, Any] = {
    "a": st.integers(-3, 3), "b": st.integers(-3, 3), "f": st.sampled_from([-1.5, -0.0, 0.0, 1.0, 2.5, math.inf, math.nan]),
    "g": st.sampled_from([-0.0, 1.0, math.nan]), "s": st.text("ab", max_size=2), "t": st.text("ab", max_size=2),
}  # fmt: skip
records = st.lists(st.fixed_dictionaries({name: st.none() | kind for name, kind in TYPES.items()}), max_size=6)


def typed(literal: Literal, name: str) -> Any:
    if name in "st":
        return literal.text
    return float(literal.text) if name in "fg" else Decimal(literal.text) if "." in literal.text else int(literal.text)


def values_of(name: str) -> st.SearchStrategy[Literal]:
    halves = st.sampled_from(["-9.5", "-0.5", "1.5"]) if name in "ab" else st.nothing()
    return (TYPES[name].map(str) | halves).map(lambda text: Literal(text, is_text=True))


@st.composite
def leaves_of_records(draw: st.DrawFn) -> Predicate:
    name = draw(st.sampled_from(sorted(TYPES)))
    match draw(st.integers(0, 5)):
        case 5:
            return draw(likes(["s", "t"], ["a", "b", "ab"]))
        case 0:
            return IsNull(Name(name))
        case 1:
            return In(Name(name), tuple(draw(st.lists(values_of(name), min_size=1, max_size=3))))
        case 2:
            other = draw(st.sampled_from("st" if name in "st" else "abfg"))
            return Compare(Name(name), draw(signs), Name(other))
        case 3:
            return Compare(draw(values_of(name)), draw(signs), Name(name))
        case _:
            return Compare(Name(name), draw(signs), draw(values_of(name)))


questions = st.recursive(
    leaves_of_records(),
    lambda inner: st.builds(Not, inner) | st.builds(And, inner, inner) | st.builds(Or, inner, inner),
    max_leaves=6,
)


def extent_of(values: list[Any]) -> Extent:
    """Return what statistics would say; they leave NaN out, so that the upper end is open."""
    present = [value for value in values if value is not None]
    order = cmp_to_key(lambda x, y: -1 if compare(x, "<", y) else int(compare(x, ">", y)))
    numbers = sorted((value for value in present if value == value), key=order)  # noqa: PLR0124
    return Extent(
        low=numbers[0] if numbers else None,
        high=numbers[-1] if numbers and len(numbers) == len(present) else None,
        has_nulls=len(present) < len(values),
        has_values=bool(present),
    )


@settings(deadline=None, max_examples=400)
@given(predicate=questions, batch=records, hidden=st.sets(st.sampled_from(sorted(TYPES)), max_size=2))
def test_records_that_match_are_never_ruled_out(predicate: Predicate, batch: list[Record], hidden: set[str]) -> None:
    ranges = {name: extent_of([record[name] for record in batch]) for name in TYPES if name not in hidden}

    assert may_match(predicate, ranges, typed) or not any(truth(predicate, record, typed) for record in batch)


@laws
@given(
    leaf=st.builds(Compare, st.just(Name("a")), signs, values_of("a"))
    | st.builds(In, st.just(Name("a")), st.lists(values_of("a"), min_size=1, max_size=3).map(tuple)),
    low=st.integers(-4, 4),
    span=st.integers(0, 3),
    has_nulls=st.booleans(),
)
def test_records_are_ruled_out_if_no_value_between_the_ends_matches(
    leaf: Predicate,
    low: int,
    span: int,
    has_nulls: bool,  # noqa: FBT001
) -> None:
    ranges = {"a": Extent(low=low, high=low + span, has_nulls=has_nulls)}
    halves = [{"a": Decimal(2 * low + step) / 2} for step in range(2 * span + 1)]

    assert may_match(leaf, ranges, typed) is any(truth(leaf, record, typed) for record in halves)
