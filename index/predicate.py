"""The small language of ``--where``: comparisons, and/or/not, in, between, is null.

There are no functions, so there is nothing to call: a predicate can only look at columns. It is parsed into small
values here; what they mean for a table of records is decided where the records are. What can be decided here is
whether records can match at all whose values lie between known bounds: :func:`may_match`. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from index.errors import UsageError

__all__ = [
    "And",
    "Compare",
    "Extent",
    "In",
    "IsNull",
    "Literal",
    "Name",
    "Not",
    "Operand",
    "Or",
    "Predicate",
    "may_match",
    "parse_predicate",
]

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>-?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][+-]?[0-9]+)?)
      | (?P<text>'(?:[^']|'')*')
      | (?P<quoted>"[^"]+"|`[^`]+`)
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<sign><=|>=|<>|!=|==|=|<|>|\(|\)|,)
    )""",
    re.VERBOSE,
)
_KEYWORDS = {"and", "or", "not", "in", "between", "is", "null", "true", "false"}
_COMPARISONS = {"=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_OPPOSITES = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_DEPTH = 100


@dataclass(frozen=True, slots=True)
class Name:
    """A column."""

    name: str


@dataclass(frozen=True, slots=True)
class Literal:
    """A value as it was written; the column it is compared with gives it a type."""

    text: str
    is_text: bool = False


Operand = Name | Literal


@dataclass(frozen=True, slots=True)
class Compare:
    """``left sign right``."""

    left: Operand
    sign: str
    right: Operand


@dataclass(frozen=True, slots=True)
class In:
    """``name in (...)``."""

    name: Name
    values: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """``name is null``."""

    name: Name


@dataclass(frozen=True, slots=True)
class Not:
    """``not inner``."""

    inner: Predicate


@dataclass(frozen=True, slots=True)
class And:
    """``left and right``."""

    left: Predicate
    right: Predicate


@dataclass(frozen=True, slots=True)
class Or:
    """``left or right``."""

    left: Predicate
    right: Predicate


Predicate = Compare | In | IsNull | Not | And | Or


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """What is known of the values of one column in some records."""

    low: Any = None  # no value is less; None is open
    high: Any = None  # no value is greater, and NaN is greater than every other; None is open
    has_nulls: bool = True  # false if no value is null
    has_values: bool = True  # false if every value is null


def parse_predicate(text: str) -> Predicate:
    """Read a predicate.

    >>> parse_predicate("delay > 10 and origin in ('JFK', 'EWR')").left
    Compare(left=Name(name='delay'), sign='>', right=Literal(text='10', is_text=False))
    """
    return _Parser(text).whole()


def may_match(predicate: Predicate, ranges: Mapping[str, Extent], value: Callable[[Literal, str], Any]) -> bool:
    """Whether records with values inside these extents can match; of a column that is left out nothing is known.

    False is certain, true is not. ``value`` gives a literal the type of the column it is compared with.

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
        return self.compare(predicate.left, predicate.sign if answer else _OPPOSITES[predicate.sign], predicate.right)

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


def _balanced(join: type[And | Or], terms: list[Predicate]) -> Predicate:
    """Join terms into a tree that is flat enough to be walked by recursion, however many there are."""
    if len(terms) == 1:
        return terms[0]
    middle = (len(terms) + 1) // 2
    return join(_balanced(join, terms[:middle]), _balanced(join, terms[middle:]))


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str]] = []
        self.at = 0
        self.depth = 0
        place = 0
        while text[place:].strip():
            match = _TOKEN.match(text, place)
            if not match:
                self.fail(f"cannot read {text[place:].strip()[:20]!r}")
            kind = str(match.lastgroup)
            value = match[kind]
            if kind == "word" and value.lower() in _KEYWORDS:
                kind, value = "keyword", value.lower()
            self.tokens.append((kind, value))
            place = match.end()

    def fail(self, why: str) -> NoReturn:
        msg = f"--where {self.text!r}: {why}; it takes comparisons, and, or, not, in (...), between, is null"
        raise UsageError(msg)

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.at] if self.at < len(self.tokens) else ("end", "")

    def accept(self, *values: str) -> bool:
        kind, value = self.peek()
        if kind in ("keyword", "sign") and value in values:
            self.at += 1
            return True
        return False

    def expect(self, value: str) -> None:
        if not self.accept(value):
            self.fail(f"{self.peek()[1] or 'the end'!r} stands where {value!r} should be")

    def whole(self) -> Predicate:
        predicate = self.disjunction()
        if self.at < len(self.tokens):
            self.fail(f"{self.peek()[1]!r} is left over")
        return predicate

    def disjunction(self) -> Predicate:
        terms = [self.conjunction()]
        while self.accept("or"):
            terms.append(self.conjunction())
        return _balanced(Or, terms)

    def conjunction(self) -> Predicate:
        terms = [self.negation()]
        while self.accept("and"):
            terms.append(self.negation())
        return _balanced(And, terms)

    def negation(self) -> Predicate:
        self.depth += 1
        if self.depth > _DEPTH:
            self.fail(f"it is nested deeper than {_DEPTH}")
        try:
            if self.accept("not"):
                return Not(self.negation())
            if self.accept("("):
                inner = self.disjunction()
                self.expect(")")
                return inner
            return self.comparison()
        finally:
            self.depth -= 1

    def comparison(self) -> Predicate:
        left = self.operand()
        if self.accept("is"):
            negated = self.accept("not")
            self.expect("null")
            test = IsNull(self.column(left))
            return Not(test) if negated else test
        negated = self.accept("not")
        if self.accept("in"):
            self.expect("(")
            values = [self.literal()]
            while self.accept(","):
                values.append(self.literal())
            self.expect(")")
            found: Predicate = In(self.column(left), tuple(values))
            return Not(found) if negated else found
        if self.accept("between"):
            low = self.operand()
            self.expect("and")
            within = And(Compare(left, ">=", low), Compare(left, "<=", self.operand()))
            return Not(within) if negated else within
        kind, sign = self.peek()
        if negated or kind != "sign" or sign not in _COMPARISONS:
            self.fail(f"{sign or 'the end'!r} stands where a comparison should be")
        self.at += 1
        return Compare(left, _COMPARISONS[sign], self.operand())

    def column(self, operand: Operand) -> Name:
        if isinstance(operand, Literal):
            self.fail(f"{operand.text!r} stands where a column should be")
        return operand

    def literal(self) -> Literal:
        operand = self.operand()
        if isinstance(operand, Name):
            self.fail(f"column {operand.name!r} stands where a value should be; texts are written 'so'")
        return operand

    def operand(self) -> Operand:
        kind, value = self.peek()
        self.at += 1
        if kind == "number":
            return Literal(value)
        if kind == "text":
            return Literal(value[1:-1].replace("''", "'"), is_text=True)
        if kind == "keyword" and value in ("true", "false"):
            return Literal(value)
        if kind == "quoted":
            return Name(value[1:-1])
        if kind != "word":
            self.fail(f"{value or 'the end'!r} stands where a column or value should be")
        return Name(value)
