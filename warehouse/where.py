"""What a predicate means for records: evaluated over Arrow tables, or written as SQL for engines that read the same files.

One rule everywhere, that of Spark and DuckDB: a comparison with null is neither true nor false; NaN equals NaN and is
greater than every other number; -0.0 equals 0.0; texts compare bytewise. Nothing depends on how an engine converts
types: every literal has one, and columns of two types are cast.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from index.errors import UsageError
from index.predicate import And, Compare, In, IsNull, Not, Or, Predicate
from warehouse.schema import Column
from warehouse.typed import ToColumn, ToList, ToValue, Typed, check, column_named, digits, names, typed, value

__all__ = ["Dialect", "check", "mask", "names", "to_sql", "value"]

Dialect = typing.Literal["spark", "duckdb"]

_DAY_US = 86_400_000_000
# Texts that every engine reads as they are, within quotes. Not among them: quotes, backslashes, and the dollar signs
# that Spark replaces before it parses.
_PLAIN = re.compile(r"[A-Za-z0-9 _.,:/+@-]*")


def mask(table: pa.Table | pa.RecordBatch, predicate: Predicate, columns: Sequence[Column]) -> Any:
    """Return for each record true, false or null, as SQL would.  Requires: the predicate was checked."""
    match predicate:
        case Not(inner):
            return pc.invert(mask(table, inner, columns))
        case And(left, right):
            return pc.and_kleene(mask(table, left, columns), mask(table, right, columns))
        case Or(left, right):
            return pc.or_kleene(mask(table, left, columns), mask(table, right, columns))
        case IsNull(name):
            return pc.is_null(table[name.name])
        case Compare() | In():
            return _leaf_mask(table, typed(predicate, tuple(columns)))


def to_sql(predicate: Predicate, columns: Sequence[Column], dialect: Dialect) -> str:
    r"""Return the predicate as the text of an SQL condition that holds where :func:`mask` is true.

    Whatever a literal says, it is a literal there: it stands as plain characters or as hexadecimal digits.

    >>> from index.predicate import parse_predicate
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
        case Compare() | In():
            return f"({_leaf_sql(typed(predicate, tuple(columns)), dialect)})"


def _leaf_mask(table: pa.Table | pa.RecordBatch, leaf: Typed) -> Any:
    match leaf:
        case ToValue(column, sign, value):
            array = table[column.name]
            return _compared(array, sign, pa.scalar(value, array.type))
        case ToColumn(left, sign, right, type):
            return _compared(_cast(table[left.name], left, type), sign, _cast(table[right.name], right, type))
        case ToList(column, values):
            return _found(table[column.name], values)


def _compared(left: Any, sign: str, right: Any) -> Any:
    match sign:
        case "!=":
            return pc.invert(_compared(left, "=", right))
        case ">" | ">=":
            return _compared(right, sign.replace(">", "<"), left)
    is_floating = pa.types.is_floating(left.type)
    # Arrow says false wherever NaN stands; what is added is null where a side is null, and so is the whole.
    match sign:
        case "=":
            answer = pc.equal(left, right)
            return pc.or_(answer, pc.and_(pc.is_nan(left), pc.is_nan(right))) if is_floating else answer
        case "<":
            answer = pc.less(left, right)
            return pc.or_(answer, pc.and_not(pc.is_nan(right), pc.is_nan(left))) if is_floating else answer
        case _:
            answer = pc.less_equal(left, right)
            return pc.or_(answer, pc.is_nan(right)) if is_floating else answer


def _found(array: Any, values: Sequence[Any]) -> Any:
    is_floating = pa.types.is_floating(array.type)
    options = pa.array([option for option in values if option == option], array.type)  # noqa: PLR0124 - not NaN
    found = pc.is_in(pc.add(array, pa.scalar(0.0, array.type)) if is_floating else array, value_set=options)
    if len(options) < len(values):
        found = pc.or_(found, pc.is_nan(array))
    # An unknown value is neither in nor out of a list.
    return pc.if_else(pc.is_null(array), pa.scalar(None, pa.bool_()), found)


def _cast(array: Any, column: Column, type: str) -> Any:
    """Return the values of a column as those of the type they are compared as."""
    match type:
        case "double" if column.type.startswith("decimal"):
            return array.cast(pa.string()).cast(pa.float64())  # the other way is not always the nearest double
        case "double":
            return pc.cast(array, pa.float64(), safe=False)
        case "binary":
            return array.cast(pa.binary())
        case "moments" if column.type == "date":
            return pc.multiply(array.cast(pa.int32()).cast(pa.decimal128(10, 0)), pa.scalar(Decimal(_DAY_US)))
        case "moments":
            return array.cast(pa.timestamp("us", "UTC")).cast(pa.int64()).cast(pa.decimal128(19, 0))
        case _ if type.startswith("decimal"):
            return array.cast(pa.decimal128(*digits(type)))
        case _:
            return array  # Arrow widens integers


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
            return f"CAST(CAST({days} AS DECIMAL(10,0)) * CAST('{_DAY_US}' AS DECIMAL(11,0)) AS DECIMAL(22,0))"
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
