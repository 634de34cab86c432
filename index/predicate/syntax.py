"""The language of ``--where``: comparisons, ``in``, ``between``, ``like``, ``is null``, ``and``, ``or``, ``not``.  Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from ebb.index.errors import UsageError
from ebb.index.predicate.like import like_pieces

__all__ = [
    "OPPOSITES",
    "And",
    "Compare",
    "In",
    "IsNull",
    "Like",
    "Literal",
    "Name",
    "Not",
    "Operand",
    "Or",
    "Predicate",
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


OPPOSITES = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


_DEPTH = 100


_PATTERN_LENGTH = 1000


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
class Like:
    """``name like 'pattern'``, and ``escape 'c'``."""

    name: Name
    pattern: str
    escape: str | None = None


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


Predicate = Compare | In | Like | IsNull | Not | And | Or


def parse_predicate(text: str) -> Predicate:
    """Read a predicate.

    >>> parse_predicate("delay > 10 and origin in ('JFK', 'EWR')").left
    Compare(left=Name(name='delay'), sign='>', right=Literal(text='10', is_text=False))
    """
    return _Parser(text).whole()


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
        place, end = 0, len(text.rstrip())
        while place < end:
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
        msg = f"condition {self.text!r}: {why}; it takes comparisons, and, or, not, in (...), between, like, is null"
        raise UsageError(msg)

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.at] if self.at < len(self.tokens) else ("end", "")

    def accept(self, *values: str) -> bool:
        kind, value = self.peek()
        if kind in ("keyword", "sign") and value in values:
            self.at += 1
            return True
        return False

    def accept_word(self, word: str) -> bool:
        """Take a word that means something here only: a column may be called so."""
        kind, value = self.peek()
        if kind == "word" and value.lower() == word:
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
            is_in: Predicate = In(self.column(left), tuple(values))
            return Not(is_in) if negated else is_in
        if self.accept("between"):
            low = self.operand()
            self.expect("and")
            within = And(Compare(left, ">=", low), Compare(left, "<=", self.operand()))
            return Not(within) if negated else within
        if self.accept_word("like"):
            like = self.like(self.column(left))
            return Not(like) if negated else like
        kind, sign = self.peek()
        if negated or kind != "sign" or sign not in _COMPARISONS:
            self.fail(f"{sign or 'the end'!r} stands where a comparison should be")
        self.at += 1
        return Compare(left, _COMPARISONS[sign], self.operand())

    def like(self, name: Name) -> Like:
        pattern, escape = self.written("a pattern"), None
        if self.accept_word("escape"):
            escape = self.written("a character")
            if len(escape) != 1:
                self.fail(f"escape {escape!r} is not one character")
        if len(pattern) > _PATTERN_LENGTH:
            self.fail(f"a pattern of {len(pattern):,} characters is longer than {_PATTERN_LENGTH:,}")
        try:
            like_pieces(pattern, escape)
        except ValueError as error:
            self.fail(str(error))
        return Like(name, pattern, escape)

    def written(self, what: str) -> str:
        kind, value = self.peek()
        if kind != "text":
            self.fail(f"{value or 'the end'!r} stands where {what} should be; texts are written 'so'")
        operand = self.operand()
        assert isinstance(operand, Literal)  # noqa: S101 - it is a text
        return operand.text

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
