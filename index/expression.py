"""Times that a table computes: ``came + 30d``, ``coalesce(until, came + 7d)``, ``case when kind = 'vip' then … end``.

Columns, durations, ``now``, ``+`` and ``-``, ``least``, ``greatest``, ``coalesce`` and ``case``. Times and durations are
integers in the unit of the table's time columns. A column of whole numbers counts seconds beside timestamps, days beside
dates, and itself beside integers. ``now`` is the end of the slot of the update. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal as OneOf
from typing import NoReturn

from ebb.index.columns import Column
from ebb.index.errors import UsageError
from ebb.index.predicate.syntax import Predicate, parse_predicate
from ebb.index.predicate.typed import check, names
from ebb.index.timeline import TimeKind

__all__ = [
    "Amount", "Call", "Case", "Expression", "Field", "Now", "Sum", "adds_to", "columns_of", "is_name", "least_after", "parse_expression", "split_name",
]  # fmt: skip

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<duration>[0-9]+(?:ms|us|[smhdw])\b)
      | (?P<number>[0-9]+\b)
      | (?P<quoted>"[^"]+"|`[^`]+`)
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<sign>[-+(),])
      | (?P<other>\S)
    )""",
    re.VERBOSE,
)
_NAME = re.compile(r'(?:[A-Za-z_]\w*|"[^"]+"|`[^`]+`)')
_NAMED = re.compile(rf"(.*\S)\s+as\s+({_NAME.pattern})\s*", re.IGNORECASE | re.DOTALL)
_FUNCTIONS = ("coalesce", "greatest", "least")
_WORDS = {*_FUNCTIONS, "case", "when", "then", "else", "end", "now"}
_DEPTH = 50
_TOKENS = 300

Kind = OneOf["time", "duration", "any"]  # any: an integer, where times are integers


@dataclass(frozen=True, slots=True)
class Field:
    """A column."""

    name: str


@dataclass(frozen=True, slots=True)
class Amount:
    """A duration, in the unit of the time columns."""

    amount: int


@dataclass(frozen=True, slots=True)
class Now:
    """The end of the slot of the update."""


@dataclass(frozen=True, slots=True)
class Sum:
    """``left + right`` or ``left - right``."""

    left: Expression
    sign: int  # 1 or -1
    right: Expression


@dataclass(frozen=True, slots=True)
class Call:
    """``coalesce``, ``least`` or ``greatest``: the last two leave nulls out."""

    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """``case when condition then value … else value end``."""

    branches: tuple[tuple[Predicate, Expression], ...]
    otherwise: Expression | None


Expression = Field | Amount | Now | Sum | Call | Case


def is_name(text: str) -> bool:
    """Whether a text is the name of a column and no expression.

    >>> is_name("until"), is_name("now"), is_name("came + 30d")
    (True, False, False)
    """
    return _NAME.fullmatch(text.strip()) is not None and text.strip().lower() != "now"


def split_name(text: str, default: str) -> tuple[str, str]:
    """Return an expression and the name of the column that keeps it.

    >>> split_name("came + 30d as until", "expires"), split_name("came + 30d", "expires")
    (('came + 30d', 'until'), ('came + 30d', 'expires'))
    """
    match = _NAMED.fullmatch(text)
    return (match[1].strip(), match[2].strip('`"')) if match else (text.strip(), default)


def parse_expression(text: str, columns: Sequence[Column], kind: TimeKind) -> Expression:
    """Read an expression over some columns whose value is a time of a kind.

    >>> parse_expression("came + 30d", [Column("came", "date")], TimeKind.DATE)
    Sum(left=Field(name='came'), sign=1, right=Amount(amount=30))
    """
    return _Parser(text, {column.name: column for column in columns}, kind).whole()


def columns_of(expression: Expression) -> set[str]:
    """Return the columns that an expression looks at."""
    match expression:
        case Field(name):
            return {name}
        case Sum(left, _, right):
            return columns_of(left) | columns_of(right)
        case Call(_, arguments):
            return set().union(*(columns_of(argument) for argument in arguments))
        case Case(branches, otherwise):
            values = [*(value for _, value in branches), *([otherwise] if otherwise else [])]
            looked_at = set().union(*(names(condition) for condition, _ in branches))
            return looked_at.union(*(columns_of(value) for value in values))
        case _:
            return set()


def adds_to(expression: Expression, column: str) -> bool:
    """Whether an expression counts with a column instead of choosing it.

    >>> times = [Column("came", "date"), Column("until", "date")]
    >>> texts = ("until + 1d", "coalesce(until, came + 1d)")
    >>> [adds_to(parse_expression(text, times, TimeKind.DATE), "until") for text in texts]
    [True, False]
    """
    match expression:
        case Sum():
            return column in columns_of(expression)
        case Call(_, arguments):
            return any(adds_to(argument, column) for argument in arguments)
        case Case(branches, otherwise):
            return any(adds_to(value, column) for value in (*(value for _, value in branches), otherwise or Now()))
        case _:
            return False


def least_after(expression: Expression, column: str) -> int | None:
    """Return how long after the time in a column an expression is at least, for every record; None if nobody can tell.

    ``now`` counts as that time: no record is admitted before its insertion time.

    >>> came = Column("came", "date")
    >>> least_after(parse_expression("case when came > '2026-01-01' then came + 9d else now + 7d end", [came], TimeKind.DATE), "came")
    7
    """
    match expression:
        case Field(name):
            return 0 if name == column else None
        case Now():
            return 0
        case Sum(left, sign, right):
            if (amount := _constant(right)) is not None:
                start = least_after(left, column)
            else:
                amount, start = _constant(left), least_after(right, column) if sign > 0 else None
                sign = 1
            return None if amount is None or start is None else start + sign * amount
        case Call("greatest", arguments):
            return max((least for one in arguments if (least := least_after(one, column)) is not None), default=None)
        case Call(_, arguments):
            return _least_of(arguments, column)
        case Case(branches, otherwise) if otherwise is not None:  # else it may be null, and greatest leaves that out
            return _least_of([*(value for _, value in branches), otherwise], column)
        case _:
            return None


def _least_of(choices: Sequence[Expression], column: str) -> int | None:
    """Return the least of what may be chosen, if all of it is known."""
    least = [least_after(choice, column) for choice in choices]
    return None if None in least else min(one for one in least if one is not None)


def _constant(expression: Expression) -> int | None:
    """Return a duration that is the same for every record."""
    match expression:
        case Amount(amount):
            return amount
        case Sum(left, sign, right):
            one, other = _constant(left), _constant(right)
            return None if one is None or other is None else one + sign * other
        case _:
            return None


class _Parser:
    def __init__(self, text: str, columns: Mapping[str, Column], kind: TimeKind) -> None:
        self.text, self.columns, self.kind = text, columns, kind
        self.tokens = list(_tokens(text))
        self.at = self.depth = 0
        if len(self.tokens) > _TOKENS:
            self.fail(f"it has {len(self.tokens)} words and signs, and {_TOKENS} are enough")

    def fail(self, why: str) -> NoReturn:
        msg = f"expression {self.text!r}: {why}; it takes columns, durations like 30d, now, + and -, coalesce, least, greatest, case"
        raise UsageError(msg)

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.at][:2] if self.at < len(self.tokens) else ("end", "")

    def accept(self, *values: str) -> str | None:
        kind, value = self.peek()
        if kind in ("word", "sign") and value.lower() in values:
            self.at += 1
            return value.lower()
        return None

    def expect(self, value: str) -> None:
        if not self.accept(value):
            self.fail(f"{self.peek()[1] or 'the end'!r} stands where {value!r} should be")

    def whole(self) -> Expression:
        found, kind = self.sum()
        if self.at < len(self.tokens):
            self.fail(f"{self.peek()[1]!r} stands where its end should be")
        if kind == "duration":
            self.fail("it is a duration and not a time")
        return found

    def sum(self) -> tuple[Expression, Kind]:
        self.depth += 1
        if self.depth > _DEPTH:
            self.fail("it is nested too deeply")
        left, kind = self.term()
        while sign := self.accept("+", "-"):
            right, other = self.term()
            left, kind = Sum(left, 1 if sign == "+" else -1, right), self.summed(kind, sign, other)
        self.depth -= 1
        return left, kind

    def summed(self, left: Kind, sign: str, right: Kind) -> Kind:
        if "any" in (left, right):
            return "any"
        if (left, right) == ("time", "time"):
            return "duration" if sign == "-" else self.fail("it adds two times")
        if (left, sign, right) == ("duration", "-", "time"):
            self.fail("it takes a time from a duration")
        return "time" if "time" in (left, right) else "duration"

    def term(self) -> tuple[Expression, Kind]:
        kind, value = self.peek()
        start = self.at
        self.at += 1
        if kind == "duration" or (kind == "number" and self.kind is TimeKind.INTEGER):
            return Amount(self.kind.duration(value)), "any" if self.kind is TimeKind.INTEGER else "duration"
        if kind == "quoted":
            return self.column(value[1:-1])
        if kind == "word" and value.lower() not in _WORDS:
            return self.column(value)
        self.at = start
        if self.accept("("):
            found = self.sum()
            self.expect(")")
            return found
        if self.accept("now"):
            return Now(), "any" if self.kind is TimeKind.INTEGER else "time"
        if self.accept("case"):
            return self.case()
        if name := self.accept(*_FUNCTIONS):
            return self.call(name)
        if kind == "number":
            self.fail(f"{value} has no unit; write {value}s, {value}h or {value}d")
        return self.fail(f"{value or 'the end'!r} stands where a value should be")

    def column(self, name: str) -> tuple[Expression, Kind]:
        column = self.columns.get(name)
        if column is None:
            self.fail(f"{name!r} is not a column, there are {', '.join(self.columns)}")
        number = column.scalar is not None and column.scalar.is_integer
        if self.kind is TimeKind.INTEGER and number:
            return Field(name), "any"
        if number:
            return Field(name), "duration"
        if self.kind is not TimeKind.INTEGER and column.type in ("date", self.kind.value):
            return Field(name), "time"
        return self.fail(
            f"column {name} has type {column.type}, which is neither a time of this table nor a whole number"
        )

    def call(self, name: str) -> tuple[Expression, Kind]:
        self.expect("(")
        values = [self.sum()]
        while self.accept(","):
            values.append(self.sum())
        self.expect(")")
        return Call(name, tuple(value for value, _ in values)), self.common([kind for _, kind in values])

    def case(self) -> tuple[Expression, Kind]:
        branches: list[tuple[Predicate, Expression]] = []
        kinds: list[Kind] = []
        while self.accept("when"):
            condition = self.condition()
            value, kind = self.sum()
            branches.append((condition, value))
            kinds.append(kind)
        if not branches:
            self.fail("case has no when")
        otherwise = None
        if self.accept("else"):
            otherwise, kind = self.sum()
            kinds.append(kind)
        self.expect("end")
        return Case(tuple(branches), otherwise), self.common(kinds)

    def condition(self) -> Predicate:
        """Read what stands before ``then``, in the language of ``--where``."""
        first = self.at
        while not self.accept("then"):
            if self.peek()[0] == "end":
                self.fail("when has no then")
            self.at += 1
        start = self.tokens[first][2] if first < len(self.tokens) else len(self.text)
        found = parse_predicate(self.text[start : self.tokens[self.at - 1][2]])
        check(found, tuple(self.columns.values()))
        return found

    def common(self, kinds: Sequence[Kind]) -> Kind:
        if len(set(kinds)) > 1:
            self.fail("it chooses between a time and a duration")
        return kinds[0]


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield kind, text and place of each token; texts in conditions are one."""
    place, end = 0, len(text.rstrip())
    while place < end:
        quoted = re.compile(r"\s*('(?:[^']|'')*')").match(text, place)
        match = quoted or _TOKEN.match(text, place)
        assert match is not None  # noqa: S101 - anything else is a token too
        kind = "other" if quoted else str(match.lastgroup)
        value = match[1] if quoted else match[kind]
        yield kind, value, match.end() - len(value)
        place = match.end()
