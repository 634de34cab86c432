"""What a predicate means for Arrow tables: for each record true, false or null.

One rule everywhere, that of Spark and DuckDB: a comparison with null is neither true nor false; NaN equals NaN and is
greater than every other number; -0.0 equals 0.0; texts compare bytewise. Nothing depends on how an engine converts
types: every literal has one, and columns of two types are cast.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ebb.index.columns import Column
from ebb.index.predicate.like import Piece, Wild
from ebb.index.predicate.syntax import And, Compare, In, IsNull, Like, Not, Or, Predicate
from ebb.index.predicate.typed import ToColumn, ToList, ToPattern, ToValue, Typed, typed
from ebb.index.types import scalar_type

__all__ = ["DAY_US", "mask"]

DAY_US = 86_400_000_000


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
        case Compare() | In() | Like():
            return _leaf_mask(table, typed(predicate, tuple(columns)))


def _leaf_mask(table: pa.Table | pa.RecordBatch, leaf: Typed) -> Any:
    match leaf:
        case ToValue(column, sign, value):
            array = table[column.name]
            return _compared(array, sign, pa.scalar(value, array.type))
        case ToColumn(left, sign, right, type):
            return _compared(_cast(table[left.name], left, type), sign, _cast(table[right.name], right, type))
        case ToList(column, values):
            return _is_in(table[column.name], values)
        case ToPattern(column, pieces):
            return _is_like(table[column.name], pieces)


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


def _is_in(array: Any, values: Sequence[Any]) -> Any:
    is_floating = pa.types.is_floating(array.type)
    options = pa.array([option for option in values if option == option], array.type)  # noqa: PLR0124 - not NaN
    is_in = pc.is_in(pc.add(array, pa.scalar(0.0, array.type)) if is_floating else array, value_set=options)
    if len(options) < len(values):
        is_in = pc.or_(is_in, pc.is_nan(array))
    # An unknown value is neither in nor out of a list.
    return pc.if_else(pc.is_null(array), pa.scalar(None, pa.bool_()), is_in)


def _is_like(array: Any, pieces: Sequence[Piece]) -> Any:
    match pieces:
        case (Wild.ANY,):
            return pc.starts_with(array, "")
        case (str(text), Wild.ANY):
            return pc.starts_with(array, text)
        case (Wild.ANY, str(text)):
            return pc.ends_with(array, text)
        case (Wild.ANY, str(text), Wild.ANY):
            return pc.match_substring(array, text)
    wild = {Wild.ONE: ".", Wild.ANY: ".*"}
    shape = "".join(wild[piece] if isinstance(piece, Wild) else _literally(piece) for piece in pieces)
    return pc.match_substring_regex(array, rf"(?s)\A{shape}\z")


def _literally(text: str) -> str:
    """Return the regular expression that matches a text and nothing else."""
    return "".join(sign if sign.isalnum() and sign.isascii() else f"\\x{{{ord(sign):x}}}" for sign in text)


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
            return pc.multiply(array.cast(pa.int32()).cast(pa.decimal128(10, 0)), pa.scalar(Decimal(DAY_US)))
        case "moments":
            return array.cast(pa.timestamp("us", "UTC")).cast(pa.int64()).cast(pa.decimal128(19, 0))
        case _ if type.startswith("decimal"):
            kind = scalar_type(type)
            assert kind is not None  # noqa: S101 - it is a decimal
            return array.cast(pa.decimal128(kind.digits, kind.scale))
        case _:
            return array  # Arrow widens integers
