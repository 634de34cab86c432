"""Computing the times that a table declares as expressions, over whole columns.

What does not fit 64 bits is null, and a record without a time is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ebb.index.expression import Amount, Call, Case, Expression, Field, Now, Sum
from ebb.index.timeline import TimeKind
from ebb.warehouse.parquet.arrow import arrow_type
from ebb.warehouse.read.mask import mask
from ebb.warehouse.table.spec import TableSpec

__all__ = ["computed", "evaluated"]

_FAR = 9.2e18  # beyond this, numbers do not fit 64 bits
_SECOND_US = 1_000_000
_DAY_US = 86_400 * _SECOND_US

Values = tuple[Any, Any]  # integers, and which of them are null


def computed(table: pa.Table, spec: TableSpec, slot: int) -> pa.Table:
    """Return received records with the times that the table computes; the insertion time first."""
    for name, expression in spec.computed:
        values, missing = evaluated(expression, table, spec, slot)
        column = spec.column(name)
        numbers = pa.array(values, mask=missing)
        if column.type in ("date", "int"):
            is_small = (values >= -(2**31)) & (values < 2**31)
            numbers = pa.array(np.where(is_small, values, 0).astype(np.int32), mask=missing | ~is_small)
        place = table.column_names.index(name)
        table = table.set_column(place, name, numbers.cast(arrow_type(column)))
    return table


def evaluated(expression: Expression, table: pa.Table, spec: TableSpec, slot: int) -> Values:
    """Return the value of an expression for each record."""
    return _Evaluation(table, spec, spec.timeline.end_of(slot)).of(expression)


class _Evaluation:
    """Expressions over some records."""

    def __init__(self, table: pa.Table, spec: TableSpec, now: int) -> None:
        self.table, self.spec, self.now = table, spec, now

    def of(self, expression: Expression) -> Values:
        """Return the value of an expression for each record."""
        match expression:
            case Field(name):
                return self._column(name)
            case Amount(amount):
                return self._constant(amount)
            case Now():
                return self._constant(self.now)
            case Sum(left, sign, right):
                return _sum(self.of(left), sign, self.of(right))
            case Call(name, arguments):
                values = [self.of(argument) for argument in arguments]
                return _first(values) if name == "coalesce" else _extreme(values, least=name == "least")
            case Case(branches, otherwise):
                found = self._constant(0)
                found = self.of(otherwise) if otherwise is not None else (found[0], ~found[1])
                for condition, value in reversed(branches):
                    holds = pc.fill_null(mask(self.table, condition, self.spec.columns), False)  # noqa: FBT003
                    found = _chosen(holds.to_numpy(zero_copy_only=False), self.of(value), found)
                return found

    def _constant(self, value: int) -> Values:
        count = self.table.num_rows
        return np.full(count, value, np.int64), np.zeros(count, np.bool_)

    def _column(self, name: str) -> Values:
        column, kind = self.table[name], self.spec.timeline.kind
        declared = self.spec.column(name)
        missing = pc.is_null(column).to_numpy(zero_copy_only=False)
        if declared.type == "date":
            column = column.cast(pa.int32())
        numbers = pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
        unit = 1
        if kind is TimeKind.TIMESTAMP and declared.type != "timestamp":
            unit = _DAY_US if declared.type == "date" else _SECOND_US
        return _fitting(numbers.astype(np.float64) * unit, numbers * unit, missing)


def _fitting(about: Any, values: Any, missing: Any) -> Values:
    """Return values; those that are too large for their bits are null."""
    missing = missing | (np.abs(about) > _FAR)
    return np.where(missing, 0, values), missing


def _sum(left: Values, sign: int, right: Values) -> Values:
    about = left[0].astype(np.float64) + sign * right[0].astype(np.float64)
    with np.errstate(over="ignore"):
        return _fitting(about, left[0] + sign * right[0], left[1] | right[1])


def _chosen(holds: Any, one: Values, other: Values) -> Values:
    return np.where(holds, one[0], other[0]), np.where(holds, one[1], other[1])


def _first(values: list[Values]) -> Values:
    found = values[-1]
    for value in reversed(values[:-1]):
        found = _chosen(~value[1], value, found)
    return found


def _extreme(values: list[Values], *, least: bool) -> Values:
    found = values[0]
    for value in values[1:]:
        is_better = value[0] < found[0] if least else value[0] > found[0]
        found = _chosen(~value[1] & (found[1] | is_better), value, found)
    return found
