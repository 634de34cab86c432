"""A predicate as the text of an SQL condition, for engines that read the same files; it means what ``read.mask`` does."""

from __future__ import annotations

import re
import typing
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from ebb.index.columns import Column
from ebb.index.errors import UsageError
from ebb.index.predicate.like import like_text
from ebb.index.predicate.syntax import And, Compare, In, IsNull, Like, Not, Or, Predicate
from ebb.index.predicate.typed import ToColumn, ToList, ToPattern, ToValue, Typed, column_named, typed
from ebb.warehouse.read.mask import DAY_US

__all__ = ["Dialect", "to_sql"]

Dialect = typing.Literal["spark", "duckdb"]


# Texts that every engine reads as they are, within quotes. Not among them: quotes, backslashes, and the dollar signs
# that Spark replaces before it parses.
_PLAIN = re.compile(r"[A-Za-z0-9 _.,:/+@%!-]*")
_ESCAPE = "!"  # Spark would take the backslash for one if none were named


def to_sql(predicate: Predicate, columns: Sequence[Column], dialect: Dialect) -> str:
    r"""Return the predicate as the text of an SQL condition that holds where :func:`mask` is true.

    Whatever a literal says, it is a literal there: it stands as plain characters or as hexadecimal digits.

    >>> from ebb.index.predicate.syntax import parse_predicate
    >>> to_sql(parse_predicate("not (id < 5 or id is null)"), [Column("id", "int")], "duckdb")
    'NOT (("id" < CAST(\'5\' AS INT)) OR ("id" IS NULL))'
    """
    match predicate:
        case Not(inner):
            return f"NOT {to_sql(inner, columns, dialect)}"
        case And() | Or():
            join = " AND " if isinstance(predicate, And) else " OR "
            return f"({join.join(to_sql(term, columns, dialect) for term in _terms(predicate, type(predicate)))})"
        case IsNull(name):
            return f"({_quoted(column_named(name.name, columns), dialect)} IS NULL)"
        case Compare() | In() | Like():
            return f"({_leaf_sql(typed(predicate, tuple(columns)), dialect)})"


def _terms(predicate: Predicate, join: type[And | Or]) -> list[Predicate]:
    """Return what a chain of ``and`` or ``or`` joins: engines read a long chain better than a deep nest."""
    if isinstance(predicate, join):
        return [*_terms(predicate.left, join), *_terms(predicate.right, join)]
    return [predicate]


def _quoted(column: Column, dialect: Dialect) -> str:
    if "${" in column.name or "\0" in column.name:
        msg = f"column name {column.name!r} holds '${{' or a null character, which SQL cannot hold; rename it"
        raise UsageError(msg)
    quote = "`" if dialect == "spark" else '"'
    return quote + column.name.replace(quote, quote * 2) + quote


def _leaf_sql(leaf: Typed, dialect: Dialect) -> str:
    match leaf:
        case ToValue(column, sign, value):
            return f"{_operand_sql(column, column.type, dialect)} {sign} {_value_sql(value, column.type, dialect)}"
        case ToColumn(left, sign, right, type):
            return f"{_operand_sql(left, type, dialect)} {sign} {_operand_sql(right, type, dialect)}"
        case ToList(column, values):
            options = ", ".join(_value_sql(value, column.type, dialect) for value in values)
            return f"{_operand_sql(column, column.type, dialect)} IN ({options})"
        case ToPattern(column, pieces):
            pattern = _value_sql(like_text(pieces, _ESCAPE), column.type, dialect)
            return f"{_operand_sql(column, column.type, dialect)} LIKE {pattern} ESCAPE '{_ESCAPE}'"


def _operand_sql(column: Column, type: str, dialect: Dialect) -> str:
    """Return a column as the type that it is compared as."""
    name = _quoted(column, dialect)
    is_spark = dialect == "spark"
    if column.is_floating:
        # The statistics of Parquet files leave NaN out, and engines believe them: keep them from looking there.
        return f"(CASE WHEN isnan({name}) THEN CAST('NaN' AS DOUBLE) ELSE {name} + CAST('0' AS DOUBLE) END)"
    match type:
        case _ if type == column.type:
            return name
        case "binary":
            return f"CAST({name} AS BINARY)" if is_spark else f"encode({name})"
        case "moments" if column.type == "timestamp":
            micros = f"unix_micros({name})" if is_spark else f"epoch_us({name})"
            return f"CAST({micros} AS DECIMAL(22,0))"
        case "moments":
            days = f"unix_date({name})" if is_spark else f"({name} - DATE '1970-01-01')"
            return f"CAST(CAST({days} AS DECIMAL(10,0)) * CAST('{DAY_US}' AS DECIMAL(11,0)) AS DECIMAL(22,0))"
        case _:
            return f"CAST({name} AS {type.upper()})"


def _value_sql(value: Any, type: str, dialect: Dialect) -> str:
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return f"CAST('{value}' AS {type.upper()})"
        case Decimal():
            return f"CAST('{value:f}' AS {type.upper()})"
        case float():
            return f"CAST('{str(value).replace('inf', 'Infinity').replace('nan', 'NaN')}' AS DOUBLE)"
        case bytes():
            return f"X'{value.hex()}'" if dialect == "spark" else f"from_hex('{value.hex()}')"
        case datetime():
            shown = value.isoformat(" ", "microseconds")
            return f"TIMESTAMP '{shown}'" if dialect == "spark" else f"TIMESTAMPTZ '{shown}'"
        case date():
            return f"DATE '{value.isoformat()}'"
    if _PLAIN.fullmatch(value):
        return f"'{value}'"
    octets = value.encode().hex()
    return f"CAST(X'{octets}' AS STRING)" if dialect == "spark" else f"decode(from_hex('{octets}'))"
