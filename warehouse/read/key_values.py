"""Keys given as values: checked against the key's columns."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal, Inexact, InvalidOperation
from typing import Any

import pyarrow as pa

from ebb.index.columns import Column
from ebb.index.errors import UsageError
from ebb.index.keys import Key
from ebb.index.types import exact_decimal
from ebb.index.values import parse_value
from ebb.warehouse.parquet.arrow import arrow_type

__all__ = ["key_value", "key_values"]

_MANY = 64  # keys


def key_value(columns: Sequence[Column], value: Any) -> Key:
    """Return a key given as one value or a sequence, checked against the key's columns."""
    parts = tuple(value) if isinstance(value, tuple | list) else (value,)
    if not 1 <= len(parts) <= len(columns):
        msg = f"key {value!r} has {len(parts)} parts; the key is {', '.join(c.name for c in columns)}"
        raise UsageError(msg)
    checked = []
    for column, part in zip(columns, parts, strict=False):
        kind = column.scalar
        if part is None:
            msg = f"key {column.name} is null, and no record has a null key; leave it out"
            raise UsageError(msg)
        if isinstance(part, str) and column.type != "string":
            checked.append(parse_value(column, part))
            continue
        if isinstance(part, datetime) and part.tzinfo is None:
            part = part.replace(tzinfo=UTC)  # noqa: PLW2901 - naive times are UTC everywhere
        try:
            if kind is not None and kind.name.startswith("decimal") and isinstance(part, int | Decimal):
                checked.append(exact_decimal(Decimal(part), kind.digits, kind.scale))
            else:
                checked.append(pa.scalar(part, arrow_type(column)).as_py())
        except (pa.ArrowException, TypeError, OverflowError, UnicodeError, InvalidOperation, Inexact) as error:
            msg = f"key {part!r} does not fit column {column.name} of type {column.type}; pass a {column.type}"
            raise UsageError(msg) from error
    return tuple(part + 0.0 if isinstance(part, float) else part for part in checked)


def key_values(columns: Sequence[Column], values: Sequence[Any]) -> list[Key]:
    """Return keys checked against the key's columns; many of them are checked column by column."""
    rows = [tuple(value) if isinstance(value, tuple | list) else (value,) for value in values]
    widths = {len(row) for row in rows}
    width = max(widths, default=0)
    if len(rows) < _MANY or len(widths) > 1 or not 1 <= width <= len(columns):
        return [key_value(columns, row) for row in rows]
    kinds = [arrow_type(column) for column in columns[:width]]
    try:
        if any(pa.types.is_decimal(kind) or pa.types.is_timestamp(kind) or pa.types.is_binary(kind) for kind in kinds):
            raise pa.ArrowInvalid  # these take more than a cast
        checked = [pa.array(part, kind) for part, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
    except (pa.ArrowException, TypeError, OverflowError, UnicodeError):
        return [key_value(columns, row) for row in rows]  # says which one
    if any(part.null_count for part in checked):
        return [key_value(columns, row) for row in rows]
    return list(zip(*(part.to_pylist() for part in checked), strict=True))
