"""Predicates with types: every comparison checked against the columns it looks at, without any data.

A literal takes the type of the column it is compared with. Columns of two types are compared exactly, except that
beside a float or double both become doubles. A date beside a timestamp is its first moment in UTC.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, assert_never

from ebb.index.columns import Column
from ebb.index.errors import UsageError
from ebb.index.predicate.like import Piece, like_pieces
from ebb.index.predicate.syntax import And, Compare, In, IsNull, Like, Literal, Name, Not, Or, Predicate
from ebb.index.types import scalar_type
from ebb.index.values import parse_value

__all__ = ["ToColumn", "ToList", "ToPattern", "ToValue", "Typed", "check", "column_named", "names", "typed", "value"]

_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_MOST_DIGITS = 38
_NUMBER = re.compile(r" *[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)? *")
# A number that no integer is written like, though it may be one.
_FRACTIONAL = re.compile(r" *[+-]?(?=[0-9]*[.eE])(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)? *")


@dataclass(frozen=True, slots=True)
class ToValue:
    """``column sign value``; the value is of the column's type."""

    column: Column
    sign: str
    value: Any


@dataclass(frozen=True, slots=True)
class ToColumn:
    """``left sign right``, compared as values of ``type``; ``moments`` are microseconds since 1970."""

    left: Column
    sign: str
    right: Column
    type: str


@dataclass(frozen=True, slots=True)
class ToList:
    """``column in values``; the values are of the column's type."""

    column: Column
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ToPattern:
    """``column like pattern``; the column holds texts, and something is left open."""

    column: Column
    pieces: tuple[Piece, ...]


Typed = ToValue | ToColumn | ToList | ToPattern


def names(predicate: Predicate | None) -> set[str]:
    """Return the columns that a predicate looks at."""
    match predicate:
        case None:
            return set()
        case Compare(left, _, right):
            return {side.name for side in (left, right) if isinstance(side, Name)}
        case In(name, _) | Like(name, _) | IsNull(name):
            return {name.name}
        case Not(inner):
            return names(inner)
        case And(left, right) | Or(left, right):
            return names(left) | names(right)
        case _:
            assert_never(predicate)


def check(predicate: Predicate, columns: Sequence[Column]) -> None:
    """Refuse a predicate that does not fit a table with these columns; it takes no data to say so."""
    for name in sorted(names(predicate)):
        column_named(name, columns)
    for leaf in _leaves(predicate):
        typed(leaf, tuple(columns))


@lru_cache(maxsize=1024)
def value(literal: Literal, column: Column) -> Any:
    """Return a literal as a value of the column it is compared with.

    A number with a point or an exponent beside an integer column stays a Decimal, and so does one that does not fit the
    column: it compares with what the column holds all the same.

    >>> [value(Literal(text), Column("id", "bigint")) for text in ("7", "7.5", "1e7")]
    [7, Decimal('7.5'), Decimal('1E+7')]
    """
    _check_sortable(column)
    if column.type == "string" and not literal.is_text:
        msg = (
            f"the condition compares column {column.name} of type string with {literal.text}; write it '{literal.text}'"
        )
        raise UsageError(msg)
    kind = column.scalar
    assert kind is not None  # noqa: S101 - it has an order
    try:
        if column.type == "string":
            return literal.text.encode().decode()
        if kind.is_integer and _FRACTIONAL.fullmatch(literal.text):
            return Decimal(literal.text)
    except (UnicodeEncodeError, InvalidOperation):
        msg = f"value {literal.text!r} does not fit column {column.name} of type {column.type}; write a {column.type}"
        raise UsageError(msg) from None
    try:
        read = parse_value(column, literal.text)
    except UsageError:
        if not (kind.is_exact_number and _NUMBER.fullmatch(literal.text)):
            raise
        with suppress(InvalidOperation):  # an exponent of more than 18 digits
            return Decimal(literal.text)
        raise
    return _as_float32(read) if column.type == "float" else read


def _as_float32(number: float) -> float:
    """Return the nearest number that a float column can hold; infinity beyond all of them."""
    nearest: float = struct.unpack("f", struct.pack("f", number))[0]
    return nearest


def column_named(name: str, columns: Sequence[Column]) -> Column:
    """Return the column that a predicate names."""
    for column in columns:
        if column.name == name:
            return column
    there = ", ".join(column.name for column in columns)
    msg = f"the condition names {name!r}, which is not a column: there are {there}, and a text is written '{name}'"
    raise UsageError(msg)


def _leaves(predicate: Predicate) -> Iterator[Compare | In | Like]:
    match predicate:
        case Compare() | In() | Like():
            yield predicate
        case Not(inner):
            yield from _leaves(inner)
        case And(left, right) | Or(left, right):
            yield from _leaves(left)
            yield from _leaves(right)


@lru_cache(maxsize=256)
def typed(leaf: Compare | In | Like, columns: tuple[Column, ...]) -> Typed:
    """Give everything in a comparison its type, or refuse it."""
    match leaf:
        case In(name, values):
            column = column_named(name.name, columns)
            options = tuple(value(literal, column) for literal in values)
            if not _is_exact(column):
                return ToList(column, options)
            held = tuple(
                option for option in (_held(Decimal(option), column) for option in options) if option is not None
            )
            return ToList(column, held) if held else ToValue(column, "<", _of_units(_limits(column)[0], column))
        case Like(name, pattern, escape):
            return _to_pattern(column_named(name.name, columns), pattern, escape)
        case Compare(left, sign, right):
            if isinstance(left, Name):
                column = column_named(left.name, columns)
                if isinstance(right, Name):
                    return _to_column(column, sign, column_named(right.name, columns))
                return _to_value(column, sign, right)
            if isinstance(right, Name):
                return _to_value(column_named(right.name, columns), _MIRRORED[sign], left)
            msg = f"the condition compares two values, {left.text!r} and {right.text!r}; name a column"
            raise UsageError(msg)
        case _:
            assert_never(leaf)


def _check_sortable(column: Column) -> None:
    if not column.is_sortable:
        msg = f"the condition cannot compare column {column.name} of type {column.type}; it can test it with is null"
        raise UsageError(msg)


def _to_column(left: Column, sign: str, right: Column) -> ToColumn:
    _check_sortable(left)
    _check_sortable(right)
    type = _common(left.type, right.type)
    if type is None:
        shown = f"{left.name} is {left.type}, {right.name} is {right.type}"
        msg = f"the condition compares columns of types that do not compare: {shown}; compare each with a value"
        raise UsageError(msg)
    return ToColumn(left, sign, right, type)


def _to_pattern(column: Column, pattern: str, escape: str | None) -> ToPattern | ToValue:
    if column.type != "string":
        msg = f"the condition matches column {column.name} of type {column.type} with a pattern, and like is for strings; compare it with a value"
        raise UsageError(msg)
    value(Literal(pattern, is_text=True), column)  # tells a text that is none
    pieces = like_pieces(pattern, escape)
    only = pieces[0] if len(pieces) == 1 else None
    return ToValue(column, "=", only) if isinstance(only, str) else ToPattern(column, pieces)


def _to_value(column: Column, sign: str, literal: Literal) -> ToValue:
    number = value(literal, column)
    if not _is_exact(column) or isinstance(number, int):
        return ToValue(column, sign, number)
    low, high = _limits(column)
    held = _held(number, column)
    if held is not None and (sign in ("=", "!=") or isinstance(held, Decimal)):
        return ToValue(column, sign, held)
    if sign in ("=", "!="):
        return ToValue(column, "<" if sign == "=" else ">=", _of_units(low, column))
    # x < 1.5 and x <= 1.5 are x <= 1; x > 1.5 and x >= 1.5 are x > 1.
    near = _in_units(number, column)
    bound = math.floor(near) if sign in ("<=", ">") else math.ceil(near) - 1
    if bound < low:
        return ToValue(column, "<" if sign.startswith("<") else ">=", _of_units(low, column))
    return ToValue(column, "<=" if sign.startswith("<") else ">", _of_units(min(bound, high), column))


def _is_exact(column: Column) -> bool:
    return column.scalar is not None and column.scalar.is_exact_number


def _limits(column: Column) -> tuple[int, int]:
    """Return the least and the greatest value, in units of the last digit."""
    assert column.scalar is not None  # noqa: S101 - the caller looked
    most = 10**column.scalar.digits - 1
    return column.scalar.limits if column.scalar.is_integer else (-most, most)


def _in_units(number: Decimal, column: Column) -> Decimal:
    """Return a number in units of the column's last digit, or one just beyond the limits: all of those compare alike."""
    assert column.scalar is not None  # noqa: S101 - the caller looked
    exactly = Context(prec=max(1, len(number.as_tuple().digits)), Emax=MAX_EMAX, Emin=MIN_EMIN)
    low, high = _limits(column)
    return min(max(number.scaleb(column.scalar.scale, exactly), Decimal(low - 1)), Decimal(high + 1))


def _of_units(units: int, column: Column) -> Any:
    """Return so many units as a value of the column."""
    assert column.scalar is not None  # noqa: S101 - the caller looked
    if column.scalar.is_integer:
        return units
    return Decimal(units).scaleb(-column.scalar.scale, Context(prec=_MOST_DIGITS))


def _held(number: Decimal, column: Column) -> Any:
    """Return a number as a value of the column; None if the column cannot hold it."""
    units = _in_units(number, column)
    low, high = _limits(column)
    return _of_units(int(units), column) if low <= units <= high and units == int(units) else None


def _common(left: str, right: str) -> str | None:
    """Return as what values of two types are compared, if they can be."""
    types = {left, right}
    if left == right:
        return left
    if types in ({"string", "binary"}, {"date", "timestamp"}):
        return "binary" if "binary" in types else "moments"
    one, other = scalar_type(left), scalar_type(right)
    assert one is not None  # noqa: S101 - both have an order
    assert other is not None  # noqa: S101
    if not all(kind.is_exact_number or kind.is_floating for kind in (one, other)):
        return None
    if one.is_floating or other.is_floating:
        return "double"
    if one.is_integer and other.is_integer:
        return max(one, other, key=lambda kind: kind.bits).name
    fraction = max(one.scale, other.scale)
    all_digits = max(one.digits - one.scale, other.digits - other.scale) + fraction
    return f"decimal({all_digits},{fraction})" if all_digits <= _MOST_DIGITS else None
