"""Pruning: which row groups cannot hold a record that a predicate wants, by the extents of their columns.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ebb.index.predicate.like import Wild, like_pieces, like_prefix
from ebb.index.predicate.syntax import (
    OPPOSITES,
    And,
    Compare,
    In,
    IsNull,
    Like,
    Literal,
    Name,
    Not,
    Operand,
    Or,
    Predicate,
)

__all__ = ["Extent", "may_match"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """What is known of the values of one column in some records."""

    low: Any = None  # no value is less; None is open
    high: Any = None  # no value is greater, and NaN is greater than every other; None is open
    has_nulls: bool = True  # false if no value is null
    has_values: bool = True  # false if every value is null


def may_match(predicate: Predicate, ranges: Mapping[str, Extent], value: Callable[[Literal, str], Any]) -> bool:
    """Whether records with values inside these extents can match; of a column that is left out nothing is known.

    False is certain, true is not. ``value`` gives a literal the type of the column it is compared with.

    >>> from ebb.index.predicate.syntax import parse_predicate
    >>> may_match(parse_predicate("delay > 10"), {"delay": Extent(low=1, high=9)}, lambda literal, _: int(literal.text))
    False
    """
    return _Bounds(ranges, value).allow(predicate, answer=True)


@dataclass(frozen=True, slots=True)
class _Bounds:
    ranges: Mapping[str, Extent]
    value: Callable[[Literal, str], Any]

    def allow(self, predicate: Predicate, *, answer: bool) -> bool:
        """Whether a predicate can be true, or can be false: a comparison with null is neither."""
        match predicate:
            case Not(inner):
                return self.allow(inner, answer=not answer)
            case And(left, right) | Or(left, right):
                sides = (self.allow(side, answer=answer) for side in (left, right))
                return all(sides) if isinstance(predicate, And) is answer else any(sides)
            case IsNull(name):
                extent = self.extent(name, name)
                return extent.has_nulls if answer else extent.has_values
            case In(name, values):
                sides = (self.allow(Compare(name, "=", literal), answer=answer) for literal in values)
                return any(sides) if answer else all(sides)
            case Like():
                return self.match(predicate, answer=answer)
        return self.compare(predicate.left, predicate.sign if answer else OPPOSITES[predicate.sign], predicate.right)

    def match(self, like: Like, *, answer: bool) -> bool:
        """Whether values that are not null can match a pattern, or can differ from it: by what they begin with."""
        extent, pieces = self.extent(like.name, like.name), like_pieces(like.pattern, like.escape)
        if not extent.has_values:
            return False
        text = like_prefix(pieces)
        if pieces == (text,):
            return self.compare(like.name, "=" if answer else "!=", Literal(text, is_text=True))
        if extent.low is None or extent.high is None:
            return answer or pieces != (Wild.ANY,)
        prefix = self.value(Literal(text, is_text=True), like.name.name)
        first, last = (end[: len(prefix)] for end in (extent.low, extent.high))
        if answer:
            return bool(first <= prefix <= last)
        # Whatever lies between two texts with one beginning has it too.
        return not (first == last == prefix and pieces in ((Wild.ANY,), (text, Wild.ANY)))

    def compare(self, left: Operand, sign: str, right: Operand) -> bool:
        """Whether values that are not null can compare so."""
        first, second = self.extent(left, right), self.extent(right, left)
        if not (first.has_values and second.has_values):
            return False
        is_of_columns = isinstance(left, Name) and isinstance(right, Name)
        return (is_of_columns and not _is_alike(first, second)) or _is_possible(first, sign, second)

    def extent(self, operand: Operand, other: Operand) -> Extent:
        """Return the extent of one side of a comparison; the other side gives a literal its type."""
        if isinstance(operand, Name):
            return self.ranges.get(operand.name, Extent())
        if isinstance(other, Literal):
            return Extent()  # two literals have no type, and whoever checks predicates refuses them
        point = self.value(operand, other.name)
        return Extent(low=point, high=point, has_nulls=False)


def _is_alike(left: Extent, right: Extent) -> bool:
    """Whether all known ends are of one type: an engine may round numbers of two types before it compares them."""
    return len({type(end) for end in (left.low, left.high, right.low, right.high) if end is not None}) <= 1


def _is_possible(left: Extent, sign: str, right: Extent) -> bool:
    """Whether a value inside one extent and one inside another can compare so."""
    match sign:
        case "=":
            return _is_possible(left, "<=", right) and _is_possible(right, "<=", left)
        case "!=":
            return _is_possible(left, "<", right) or _is_possible(right, "<", left)
        case ">" | ">=":
            return _is_possible(right, sign.replace(">", "<"), left)
    if left.low is None or right.high is None:
        return True
    return _is_less(left.low, right.high) if sign == "<" else not _is_less(right.high, left.low)


def _is_less(left: Any, right: Any) -> bool:
    """Whether a value comes before another; NaN, which alone differs from itself, comes after every other."""
    return bool(left < right or (right != right and left == left))  # noqa: PLR0124
