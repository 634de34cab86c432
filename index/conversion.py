"""What becomes of a value on its way into a column: one rule, whatever the format it comes in.

A value is converted only if nothing of it is lost. Text is read as the column's type; a number goes into every column of
numbers that can hold it; a date is the midnight it begins with. Everything else is refused, and its record goes to the
quarantine. This is the slow truth, value by value; ``warehouse/intake/convert.py`` does the same for whole columns. Pure.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import struct
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from ebb.index.columns import Column, inner_columns
from ebb.index.timeline import moment_us
from ebb.index.types import ScalarType, exact_decimal, scalar_type

__all__ = ["NUMBER", "converted", "is_convertible"]

NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?"
_NUMBER = re.compile(NUMBER)
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_US = 86_400_000_000
_FAMILIES = {
    "string": {"string"},
    "boolean": {"boolean", "string"},
    "binary": {"binary", "string"},
    "time": {"time", "string"},
    "number": {"number", "string"},
    "array": {"array", "string"},
    "map": {"map", "struct", "string"},
    "struct": {"struct", "map", "string"},
}  # of a column -> of what may go into it


def _family(type: str) -> str:
    if type in ("string", "boolean", "binary"):
        return type
    if type in ("date", "timestamp"):
        return "time"
    return "number" if scalar_type(type) else type.partition("<")[0]


def is_convertible(found: str, wanted: str) -> bool:
    """Whether values of a type can go into a column of another, each if it fits.

    >>> is_convertible("bigint", "int"), is_convertible("string", "date"), is_convertible("boolean", "int")
    (True, True, False)
    """
    family = _family(wanted)
    if _family(found) not in _FAMILIES[family]:
        return False
    if family == "array" and found.startswith("array<"):
        return is_convertible(inner_columns(found)[0].type, inner_columns(wanted)[0].type)
    if family == "struct" and found.startswith("struct<"):
        fields = {column.name: column.type for column in inner_columns(wanted)}
        return all(
            column.name in fields and is_convertible(column.type, fields[column.name])
            for column in inner_columns(found)
        )
    return True


def converted(value: Any, type: str) -> Any:
    """Return a value as a column of a type holds it: dates as days, timestamps as microseconds since 1970.

    Raises ValueError if it does not fit.

    >>> converted("7.0", "int"), converted("2013-01-31", "timestamp"), converted(1.5, "decimal(4,2)")
    (7, 1359590400000000, Decimal('1.50'))
    """
    if value is None:
        return None
    kind = scalar_type(type)
    try:
        if kind is None:
            return _nested(value, type)
        if kind.is_exact_number or kind.is_floating:
            return _number(value, kind)
        return _OTHERS[type](value)
    except (ArithmeticError, TypeError, KeyError, RecursionError, binascii.Error, UnicodeError) as error:
        raise ValueError(value) from error


def _number(value: Any, kind: ScalarType) -> Any:
    if isinstance(value, str):
        value = value.strip(" \t")
        if kind.is_floating and _NOT_FINITE.fullmatch(value):
            return float(value)
        if not _NUMBER.fullmatch(value):
            raise ValueError(value)
        value = Decimal(value)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise TypeError(value)
    if kind.is_floating:
        return _floating(value, kind.name)
    if not kind.is_integer:  # a decimal is what a float shows, not what it is to the last bit
        shown = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
        return exact_decimal(shown, kind.digits, kind.scale)
    exact = Decimal(value)
    low, high = kind.limits
    if not low <= exact <= high or exact != exact.to_integral_value():
        raise ValueError(value)
    return int(exact)


def _floating(value: Any, name: str) -> float:
    nearest = float(value)
    if name == "float" and math.isfinite(nearest):
        nearest = struct.unpack("f", struct.pack("f", nearest))[0]
    if math.isinf(nearest) and not (isinstance(value, float) and math.isinf(value)):
        raise ValueError(value)
    return nearest


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    value.encode()
    return value


def _boolean(value: Any) -> bool:
    return value if isinstance(value, bool) else {"true": True, "false": False}[_text(value).strip(" \t").lower()]


def _binary(value: Any) -> bytes:
    return value if isinstance(value, bytes) else base64.b64decode(_text(value), validate=True)


def _timestamp(value: Any) -> int:
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (moment - _EPOCH) // timedelta(microseconds=1)
    if isinstance(value, date):
        return (value - _EPOCH.date()).days * _DAY_US
    return moment_us(_text(value).strip(" \t"))


def _date(value: Any) -> int:
    days, rest = divmod(_timestamp(value), _DAY_US)
    if rest:
        raise ValueError(value)
    return days


_OTHERS = {"string": _text, "boolean": _boolean, "binary": _binary, "date": _date, "timestamp": _timestamp}


def _nested(value: Any, type: str) -> Any:
    if isinstance(value, str):
        value = json.loads(value, parse_float=Decimal)
        if value is None:
            return None
    inner = inner_columns(type)
    match _family(type):
        case "array":
            if not isinstance(value, list):
                raise TypeError(value)
            return [converted(item, inner[0].type) for item in value]
        case "map":
            pairs = value.items() if isinstance(value, Mapping) else value
            return [(_key(key, inner[0]), converted(item, inner[1].type)) for key, item in pairs]
        case _:
            fields = dict(value)
            if not fields.keys() <= {column.name for column in inner}:
                raise ValueError(value)
            return {column.name: converted(fields.get(column.name), column.type) for column in inner}


def _key(value: Any, column: Column) -> Any:
    found = converted(value, column.type)
    if found is None:
        raise ValueError(value)
    return found
