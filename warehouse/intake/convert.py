"""Bringing the columns of a batch to the types of the table, whole columns at a time.

What ``index/conversion.py`` says of one value holds here: a value that does not fit is null and marked. Most values go
through Arrow at once, those that it cannot tell for sure one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ebb.index.columns import Column
from ebb.index.conversion import NUMBER, converted
from ebb.warehouse.parquet.arrow import arrow_type

__all__ = ["Converted", "convert", "convert_values"]

_WHOLE = r"^[+-]?[0-9]{1,18}$"
_DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
_TEXTS = (
    pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view,
)  # fmt: skip

Converted = tuple[pa.Array, Any]  # the values, null where they do not fit; and which do not: None if all do


def convert(array: pa.Array, column: Column) -> Converted:
    """Return an array as a column holds it."""
    target = arrow_type(column)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), target), None
    if any(is_text(array.type) for is_text in _TEXTS):
        return _from_text(_short(array), column, target)
    return _from_values(array, column, target)


def _short(array: pa.Array) -> pa.Array:
    """Return texts with short offsets."""
    try:
        return array if array.type == pa.string() else array.cast(pa.string())
    except pa.ArrowInvalid:
        # Arrow refuses a slice whose values lie more than 2 GB behind its start: a copy of it starts anew.
        return array.take(pa.array(range(len(array)), pa.int64())).cast(pa.string())


def convert_values(values: Sequence[Any], column: Column) -> Converted:
    """Return Python values, as JSON has them, as a column holds them."""
    kinds = set(map(type, values)) - {type(None)}
    if column.is_floating and Decimal in kinds and kinds <= {int, float, Decimal}:
        return _floats(values, column)
    source = _SOURCES.get(next(iter(kinds))) if len(kinds) == 1 else None
    if source is not None:
        try:
            return convert(pa.array(values, source), column)
        except (pa.ArrowException, OverflowError, UnicodeError):
            pass  # numbers of too many digits, or halves of characters
    return _one_by_one(values, column, arrow_type(column)) if kinds else convert(pa.nulls(len(values)), column)


def _floats(values: Sequence[Any], column: Column) -> Converted:
    """Return numbers of which some have kept their digits."""
    try:
        numbers = [None if value is None else float(value) for value in values]
    except OverflowError:
        numbers = [math.inf]
    if any(map(math.isinf, (number for number in numbers if number is not None))):
        return _one_by_one(values, column, arrow_type(column))
    return convert(pa.array(numbers, pa.float64()), column)


_SOURCES: dict[type, pa.DataType] = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


def _one_by_one(values: Sequence[Any], column: Column, target: pa.DataType) -> Converted:
    found: list[Any] = []
    bad = np.zeros(len(values), np.bool_)
    for place, value in enumerate(values):
        try:
            found.append(converted(value, column.type))
        except ValueError:
            found.append(None)
            bad[place] = True
    return pa.array(found, target), bad if bad.any() else None


def _slowly(array: pa.Array, column: Column, target: pa.DataType) -> Converted:
    """Convert values one by one, equal ones once."""
    if pa.types.is_nested(array.type):
        return _one_by_one(_python(array), column, target)
    encoded = array.dictionary_encode()
    values, bad = _one_by_one(_python(encoded.dictionary), column, target)
    places = pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False)
    wrong = None if bad is None else bad[places] & pc.is_valid(array).to_numpy(zero_copy_only=False)
    return values.take(encoded.indices), wrong if wrong is not None and wrong.any() else None


def _python(array: pa.Array) -> list[Any]:
    try:
        return array.to_pylist()
    except (OverflowError, ValueError):  # Python has no such time
        return [_python_value(value) for value in array]


def _python_value(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        return ...  # fits nowhere


def _partly(
    array: pa.Array, is_sure: pa.Array, fast: Callable[[pa.Array], pa.Array], column: Column, target: pa.DataType
) -> Converted:
    """Convert what is sure at once and the rest one by one; if Arrow refuses one of the first, all one by one."""
    sure = pc.fill_null(is_sure, True)  # noqa: FBT003 - null is null
    if pc.all(sure).as_py() in (True, None):
        try:
            return fast(array), None
        except pa.ArrowInvalid:
            return _slowly(array, column, target)
    mask = sure.to_numpy(zero_copy_only=False)
    parts = [_slowly(array.filter(pa.array(~mask)), column, target)]
    if mask.any():
        parts.insert(0, _partly(array.filter(sure), pa.array(np.ones(mask.sum(), np.bool_)), fast, column, target))
    return _spread(parts, [mask, ~mask][2 - len(parts) :])


def _spread(parts: Sequence[Converted], masks: Sequence[Any]) -> Converted:
    """Put the parts of a column back to their places."""
    order = np.concatenate([np.flatnonzero(mask) for mask in masks])
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    values = pa.concat_arrays([values for values, _ in parts]).take(pa.array(places))
    bad = np.zeros(len(order), np.bool_)
    for (_, wrong), mask in zip(parts, masks, strict=True):
        if wrong is not None:
            bad[np.flatnonzero(mask)] = wrong
    return values, bad if bad.any() else None


def _from_text(array: pa.Array, column: Column, target: pa.DataType) -> Converted:
    if column.type == "string":
        return array, None
    scalar = column.scalar
    if scalar is None or column.type in ("boolean", "binary") or (scalar.is_exact_number and not scalar.is_integer):
        return _slowly(array, column, target)
    if scalar.is_integer:
        return _partly(array, _matches(array, _WHOLE), lambda some: _in_range(some, target), column, target)
    if scalar.is_floating:
        return _partly(array, _matches(array, f"^{NUMBER}$"), lambda some: _finite(some, target), column, target)
    if column.type == "date":
        return _partly(array, _matches(array, _DAY), lambda some: some.cast(target), column, target)
    return _moments(array, column, target)


def _matches(array: pa.Array, pattern: str) -> pa.Array:
    return pc.match_substring_regex(array, pattern)


def _in_range(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return integers as a column holds them; ArrowInvalid if one does not fit."""
    return pc.utf8_ltrim(array, "+").cast(pa.int64()).cast(target)


def _finite(array: pa.Array, target: pa.DataType) -> pa.Array:
    numbers = pc.utf8_ltrim(array, "+").cast(pa.float64())
    return _no_new_infinities(numbers, numbers.cast(target, safe=False), allowed=False)


def _no_new_infinities(before: pa.Array, after: pa.Array, *, allowed: bool = True) -> pa.Array:
    """Return numbers; ArrowInvalid if one is infinite that was not."""
    new = pc.is_inf(after)
    if allowed:
        new = pc.and_(new, pc.invert(pc.is_inf(before)))
    if pc.any(new).as_py():
        msg = "too large"
        raise pa.ArrowInvalid(msg)
    return after


def _moments(array: pa.Array, column: Column, target: pa.DataType) -> Converted:
    """Return timestamps: with a zone, without one (UTC), and what is written otherwise."""
    zoned = pc.fill_null(_matches(array, _MOMENT + r"(?:Z|[+-][0-9]{2}:[0-9]{2})$"), False)  # noqa: FBT003
    plain = pc.fill_null(_matches(array, _MOMENT + "$"), False)  # noqa: FBT003

    def with_zone(some: pa.Array) -> pa.Array:
        return some.cast(pa.timestamp("us", "UTC")).cast(target)

    def without(some: pa.Array) -> pa.Array:
        return some.cast(pa.timestamp("us")).cast(target)

    if pc.all(pc.or_(zoned, pc.is_null(array))).as_py():
        return _partly(array, pc.or_(zoned, pc.is_null(array)), with_zone, column, target)
    if pc.all(pc.or_(plain, pc.is_null(array))).as_py():
        return _partly(array, pc.or_(plain, pc.is_null(array)), without, column, target)
    mask = zoned.to_numpy(zero_copy_only=False)
    first = array.filter(pa.array(mask))
    rest = array.filter(pa.array(~mask))
    parts = [
        _partly(first, pa.array(np.ones(len(first), np.bool_)), with_zone, column, target),
        _partly(rest, plain.filter(pa.array(~mask)), without, column, target),
    ]
    return _spread(parts, [mask, ~mask])


def _from_values(array: pa.Array, column: Column, target: pa.DataType) -> Converted:
    """Convert what is not text: Arrow's own conversions lose nothing or refuse."""
    kind = array.type
    if kind == target:
        return array, None
    scalar = column.scalar
    if pa.types.is_timestamp(kind) and column.type == "timestamp":
        return _whole_micros(array, column, target)
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if scalar is not None and scalar.is_floating and is_number:
        try:
            whole = array.cast(pa.string()) if pa.types.is_decimal(kind) else array  # else not always the nearest
            numbers = whole.cast(pa.float64(), safe=False)
            return _no_new_infinities(numbers, numbers.cast(target, safe=False)), None
        except pa.ArrowInvalid:
            return _slowly(array, column, target)
    if pa.types.is_floating(kind) and not (scalar is not None and scalar.is_integer):
        return _slowly(array, column, target)
    is_alike = (
        (is_number and scalar is not None and scalar.is_exact_number)
        or (column.type == "binary" and not pa.types.is_primitive(kind))
        or (pa.types.is_date(kind) and column.type == "timestamp")
        or (scalar is None and _is_same(kind, target))
    )
    if is_alike:
        try:
            return array.cast(target), None
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            pass
    return _slowly(array, column, target)


def _is_same(kind: pa.DataType, target: pa.DataType) -> bool:
    """Whether a nested type differs from another in nothing that values could lose."""
    if pa.types.is_struct(target):
        return (
            pa.types.is_struct(kind)
            and [field.name for field in kind] == [field.name for field in target]
            and all(_is_same(one.type, other.type) for one, other in zip(kind, target, strict=True))
        )
    if pa.types.is_map(target):
        return (
            pa.types.is_map(kind)
            and _is_same(kind.key_type, target.key_type)
            and _is_same(kind.item_type, target.item_type)
        )
    if pa.types.is_list(target):
        return (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and _is_same(kind.value_type, target.value_type)
    if pa.types.is_string(target):
        return any(is_text(kind) for is_text in _TEXTS)
    if pa.types.is_signed_integer(target):
        return pa.types.is_signed_integer(kind) and kind.bit_width <= target.bit_width
    return bool(kind == target)


def _whole_micros(array: pa.Array, column: Column, target: pa.DataType) -> Converted:
    """Return timestamps in microseconds; a nanosecond past a slot's end belongs to the next slot, so round up."""
    if array.type.unit != "ns":
        try:
            return array.cast(pa.timestamp("us", array.type.tz)).cast(target), None
        except pa.ArrowInvalid:
            return _slowly(array, column, target)
    numbers = pc.fill_null(array.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    rounded = numbers // 1000 + (numbers % 1000 > 0)
    missing = pc.is_null(array).to_numpy(zero_copy_only=False) if array.null_count else None
    return pa.array(rounded.astype(np.int64), pa.timestamp("us"), mask=missing).cast(target), None
