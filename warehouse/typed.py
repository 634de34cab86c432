"""Predicates with types: every comparison checked against the columns it looks at, without any data.

A literal takes the type of the column it is compared with. Columns of two types are compared exactly, except that
beside a float or double both become doubles. A date beside a timestamp is its first moment in UTC.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, Inexact, InvalidOperation
from functools import lru_cache
from typing import Any

import pyarrow as pa

from index.errors import UsageError
from index.predicate import And, Compare, In, IsNull, Literal, Name, Not, Or, Predicate
from warehouse.keys import exact_decimal, parse_value
from warehouse.schema import Column

__all__ = ["ToColumn", "ToList", "ToValue", "Typed", "check", "column_named", "digits", "names", "typed", "value"]

_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_MOST_DIGITS = 38


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


Typed = ToValue | ToColumn | ToList


def names(predicate: Predicate | None) -> set[str]:
    """Return the columns that a predicate looks at."""
    match predicate:
        case None:
            return set()
        case Compare(left, _, right):
            return {side.name for side in (left, right) if isinstance(side, Name)}
        case In(name, _) | IsNull(name):
            return {name.name}
        case Not(inner):
            return names(inner)
        case And(left, right) | Or(left, right):
            return names(left) | names(right)


def check(predicate: Predicate, columns: Sequence[Column]) -> None:
    """Refuse a predicate that does not fit a table with these columns; it takes no data to say so."""
    for name in sorted(names(predicate)):
        column_named(name, columns)
    for leaf in _leaves(predicate):
        typed(leaf, tuple(columns))


@lru_cache(maxsize=1024)
def value(literal: Literal, column: Column) -> Any:
    """Return a literal as a value of the column it is compared with.

    A number with a point beside an integer column stays a Decimal.

    >>> value(Literal("7"), Column("id", "bigint")), value(Literal("7.5"), Column("id", "bigint"))
    (7, Decimal('7.5'))
    """
    _check_sortable(column)
    if column.type == "string" and not literal.is_text:
        msg = f"--where compares column {column.name} of type string with {literal.text}; write it '{literal.text}'"
        raise UsageError(msg)
    try:
        if column.type == "string":
            return literal.text.encode().decode()
        if column.type.startswith("decimal"):
            return exact_decimal(Decimal(literal.text), column)
        if column.type in _BITS and "." in literal.text:
            return Decimal(literal.text)
    except (UnicodeEncodeError, InvalidOperation, Inexact):
        msg = f"value {literal.text!r} does not fit column {column.name} of type {column.type}; write a {column.type}"
        raise UsageError(msg) from None
    found = parse_value(column, literal.text)
    return pa.scalar(found, pa.float32()).as_py() if column.type == "float" else found


def column_named(name: str, columns: Sequence[Column]) -> Column:
    """Return the column that a predicate names."""
    for column in columns:
        if column.name == name:
            return column
    known = ", ".join(column.name for column in columns)
    msg = f"--where names {name!r}, which is not a column: there are {known}, and a text is written '{name}'"
    raise UsageError(msg)


def _leaves(predicate: Predicate) -> Iterator[Compare | In]:
    match predicate:
        case Compare() | In():
            yield predicate
        case Not(inner):
            yield from _leaves(inner)
        case And(left, right) | Or(left, right):
            yield from _leaves(left)
            yield from _leaves(right)


@lru_cache(maxsize=256)
def typed(leaf: Compare | In, columns: tuple[Column, ...]) -> Typed:
    """Give everything in a comparison its type, or refuse it."""
    match leaf:
        case In(name, values):
            column = column_named(name.name, columns)
            options = tuple(value(literal, column) for literal in values)
            if column.type not in _BITS:
                return ToList(column, options)
            low, high = _limits(column)
            whole = tuple(int(number) for number in options if low <= number <= high and number == int(number))
            return ToList(column, whole) if whole else ToValue(column, "<", low)
        case Compare(left, sign, right):
            if isinstance(left, Name):
                column = column_named(left.name, columns)
                if isinstance(right, Name):
                    return _to_column(column, sign, column_named(right.name, columns))
                return _to_value(column, sign, right)
            if isinstance(right, Name):
                return _to_value(column_named(right.name, columns), _MIRRORED[sign], left)
            msg = f"--where compares two values, {left.text!r} and {right.text!r}; name a column"
            raise UsageError(msg)


def _check_sortable(column: Column) -> None:
    if not column.is_sortable:
        msg = f"--where cannot compare column {column.name} of type {column.type}; it can test it with is null"
        raise UsageError(msg)


def _to_column(left: Column, sign: str, right: Column) -> ToColumn:
    _check_sortable(left)
    _check_sortable(right)
    type = _common(left.type, right.type)
    if type is None:
        shown = f"{left.name} is {left.type}, {right.name} is {right.type}"
        msg = f"--where compares columns of types that do not compare: {shown}; compare each with a value"
        raise UsageError(msg)
    return ToColumn(left, sign, right, type)


def _to_value(column: Column, sign: str, literal: Literal) -> ToValue:
    number = value(literal, column)
    if column.type not in _BITS or isinstance(number, int):
        return ToValue(column, sign, number)
    low, high = _limits(column)
    near = min(max(number, Decimal(low - 1)), Decimal(high + 1))  # beyond these, all integers compare alike
    if sign in ("=", "!="):
        if low <= near <= high and near == int(near):
            return ToValue(column, sign, int(near))
        return ToValue(column, "<" if sign == "=" else ">=", low)
    # x < 1.5 and x <= 1.5 are x <= 1; x > 1.5 and x >= 1.5 are x > 1.
    bound = math.floor(near) if sign in ("<=", ">") else math.ceil(near) - 1
    if bound < low:
        return ToValue(column, "<" if sign.startswith("<") else ">=", low)
    return ToValue(column, "<=" if sign.startswith("<") else ">", min(bound, high))


def _limits(column: Column) -> tuple[int, int]:
    return -(2 ** (_BITS[column.type] - 1)), 2 ** (_BITS[column.type] - 1) - 1


def digits(type: str) -> tuple[int, int]:
    """Return precision and scale of an integer or decimal type."""
    if type in _DIGITS:
        return _DIGITS[type], 0
    precision, scale = type.removeprefix("decimal(").removesuffix(")").split(",")
    return int(precision), int(scale)


def _common(left: str, right: str) -> str | None:
    """Return as what values of two types are compared, if they can be."""
    types = {left, right}
    if left == right:
        return left
    if types in ({"string", "binary"}, {"date", "timestamp"}):
        return "binary" if "binary" in types else "moments"
    if not all(type in _DIGITS or type in ("float", "double") or type.startswith("decimal") for type in types):
        return None
    if types & {"float", "double"}:
        return "double"
    if types <= set(_DIGITS):
        return max(types, key=_DIGITS.__getitem__)
    (precision, scale), (other_precision, other_scale) = digits(left), digits(right)
    fraction = max(scale, other_scale)
    all_digits = max(precision - scale, other_precision - other_scale) + fraction
    return f"decimal({all_digits},{fraction})" if all_digits <= _MOST_DIGITS else None
