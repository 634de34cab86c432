"""Values and keys: read from text, checked against columns, and turned into intervals of codes."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import cached_property
from typing import Any

import pyarrow as pa

from index.errors import UsageError
from index.keys import Interval, code, successor
from index.timeline import TimeKind
from warehouse.schema import EXPIRES_SLOT, Column, arrow_schema

__all__ = [
    "Codes",
    "Key",
    "Wanted",
    "exact_decimal",
    "key_value",
    "key_values",
    "parse_value",
    "wanted_keys",
    "wanted_prefix",
    "wanted_range",
]

_MANY = 64  # keys

Key = tuple[Any, ...]  # the values of all key columns, or of the leading ones


def _arrow_type(column: Column) -> pa.DataType:
    return arrow_schema([column]).field(0).type


def parse_value(column: Column, text: str) -> Any:
    """Read a value of a column from text."""
    try:
        match column.type:
            case "string":
                return text
            case "bigint" | "int" | "smallint" | "tinyint" | "float" | "double" if "_" in text or not text.isascii():
                raise ValueError(text)
            case "bigint" | "int" | "smallint" | "tinyint":
                return pa.scalar(int(text), _arrow_type(column)).as_py()
            case "float" | "double":
                return float(text) + 0.0
            case "boolean":
                return {"true": True, "false": False}[text.strip().lower()]
            case "date":
                return date.fromisoformat(text)
            case "timestamp":
                micros = TimeKind.TIMESTAMP.time(text)
                return pa.scalar(micros, pa.timestamp("us", "UTC")).as_py()
            case "binary":
                return bytes.fromhex(text.removeprefix("0x"))
            case _ if column.type.startswith("decimal"):
                return exact_decimal(Decimal(text), column)
    except (ValueError, KeyError, InvalidOperation, Inexact, UsageError, pa.ArrowException, OverflowError):
        pass
    hint = {
        "binary": "hexadecimal digits",
        "timestamp": "ISO 8601",
        "date": "like 2013-01-31",
        "boolean": "true or false",
    }
    expected = hint.get(column.type, f"a {column.type}")
    msg = f"value {text!r} does not fit column {column.name} of type {column.type}; write {expected}"
    raise UsageError(msg)


def exact_decimal(number: Decimal, column: Column) -> Decimal:
    """Return a number with the digits of a decimal column; Arrow misreads some of many digits, and some end the process.

    Raises InvalidOperation or Inexact if it does not fit.
    """
    if not number.is_finite():
        raise InvalidOperation
    kind = _arrow_type(column)
    exactly = Context(prec=kind.precision, traps=[InvalidOperation, Inexact])
    return number.quantize(Decimal((0, (1,), -kind.scale)), context=exactly)


def key_value(columns: Sequence[Column], value: Any) -> Key:
    """Return a key given as one value or a sequence, checked against the key's columns."""
    parts = tuple(value) if isinstance(value, tuple | list) else (value,)
    if not 1 <= len(parts) <= len(columns):
        msg = f"key {value!r} has {len(parts)} parts; the key is {', '.join(c.name for c in columns)}"
        raise UsageError(msg)
    checked = []
    for column, part in zip(columns, parts, strict=False):
        if part is None:
            msg = f"key {column.name} is null, and no record has a null key; leave it out"
            raise UsageError(msg)
        if isinstance(part, str) and column.type != "string":
            checked.append(parse_value(column, part))
            continue
        if isinstance(part, datetime) and part.tzinfo is None:
            part = part.replace(tzinfo=timezone.utc)  # noqa: PLW2901 - naive times are UTC everywhere
        try:
            if column.type.startswith("decimal") and isinstance(part, int | Decimal):
                checked.append(exact_decimal(Decimal(part), column))
            else:
                checked.append(pa.scalar(part, _arrow_type(column)).as_py())
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
    kinds = [_arrow_type(column) for column in columns[:width]]
    try:
        if any(pa.types.is_decimal(kind) or pa.types.is_timestamp(kind) or pa.types.is_binary(kind) for kind in kinds):
            raise pa.ArrowInvalid  # these take more than a cast
        checked = [pa.array(part, kind) for part, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
    except (pa.ArrowException, TypeError, OverflowError, UnicodeError):
        return [key_value(columns, row) for row in rows]  # says which one
    if any(part.null_count for part in checked):
        return [key_value(columns, row) for row in rows]
    return list(zip(*(part.to_pylist() for part in checked), strict=True))


@dataclass(frozen=True)
class Wanted:
    """What a probe asks for: sorted intervals of codes that do not overlap."""

    intervals: tuple[Interval, ...]
    keys: tuple[Key, ...] = ()  # one per interval, if keys or leading parts are asked for

    @cached_property
    def starts(self) -> list[bytes]:
        """Return where the intervals start."""
        return [interval.start for interval in self.intervals]

    def between(self, start: bytes, stop: bytes | None) -> Wanted:
        """Return what of it can be met from a code up to another."""
        first = max(0, bisect.bisect_right(self.starts, start) - 1)
        last = len(self.starts) if stop is None else bisect.bisect_left(self.starts, stop)
        return Wanted(self.intervals[first:last], self.keys[first:last])


def wanted_keys(keys: Sequence[Key]) -> Wanted:
    """Ask for keys, or for all keys with leading parts; what is asked for twice is answered once."""
    found = sorted({code(key): key for key in keys}.items())
    kept: list[tuple[Interval, Key]] = []
    for start, key in found:
        if not kept or not kept[-1][0].holds(start):  # otherwise led by what was asked for already
            kept.append((Interval(start, successor(start)), key))
    return Wanted(tuple(interval for interval, _ in kept), tuple(key for _, key in kept))


def wanted_range(low: Key | None, high: Key | None) -> Wanted:
    """Ask for the keys from ``low`` to ``high``, both included; None is open."""
    interval = Interval.of_range(low, high)
    is_empty = interval.stop is not None and interval.stop <= interval.start
    return Wanted(() if is_empty else (interval,))


def wanted_prefix(start: Key) -> Wanted:
    """Ask for the keys that start with these values, the last of them being the start of a text."""
    return Wanted((Interval.of_prefix(start),))


class Codes(Sequence[bytes]):
    """The codes of a sorted table's records, each its key and expiration slot, computed when asked for."""

    def __init__(self, table: pa.Table, key: Sequence[str]) -> None:
        self._columns = [_comparable(table[name]) for name in (*key, EXPIRES_SLOT)]
        self._records = table.num_rows

    def __len__(self) -> int:
        return self._records

    def __getitem__(self, place: Any) -> Any:
        return code([column[place].as_py() for column in self._columns])


def _comparable(column: Any) -> Any:
    """Return a column as one array, times as the integers that they are."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_timestamp(whole.type):
        return whole.cast(pa.int64())
    return whole.cast(pa.int32()) if pa.types.is_date32(whole.type) else whole
