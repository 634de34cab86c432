"""Judging records: which are admitted, expired on arrival or refused, and which cell each goes to.

A pure function from an Arrow table to an Arrow table, so that it can be tested without Spark and runs the same in
every task. Times are integers here; whatever would overflow is refused, never wrapped.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ebb.index.columns import EXPIRES_SLOT, INSERTED_SLOT, Column
from ebb.index.grid import Axis, Ring
from ebb.index.timeline import Timeline
from ebb.warehouse.intake.received import COLUMN, FILE, LINE, RAW, REASON, texts_of
from ebb.warehouse.intake.staged import Survey
from ebb.warehouse.table.spec import TableSpec

__all__ = ["OVER", "judge", "survey"]

OVER = "_over"
_NEVER = 2**63 - 1  # a clock after which nothing is in the future
_FAR = 9.2e18  # beyond this, a difference of two times does not fit 64 bits


def judge(table: pa.Table, spec: TableSpec, slot: int, *, own_slots: bool, came: pa.Table | None = None) -> pa.Table:
    """Return received records with slots, cell (``_g``, ``_e``), reason and text if refused, and whether over.

    ``own_slots``: each record keeps the slot of its own insertion time (load) instead of the update's. ``came``: the
    records before the table computed anything, for the text of those that are refused.
    """
    line = spec.timeline
    table = _zeros_made_one(table, spec)
    inserted, expires = (_times(table[name], spec.column(name)) for name in (spec.inserted, spec.expires))
    own, until = _slots(inserted, line), _slots(expires, line)
    reason = _reasons(table, spec, slot, inserted, expires, own)
    good = pc.is_null(reason).to_numpy(zero_copy_only=False)
    groups = _partitions(own if own_slots else np.full(len(own), slot), spec.grid.groups, good)
    cohorts = _partitions(until, spec.grid.cohorts, good)
    raw = _refused_text(table if came is None else came, spec, good)
    columns = [table[column.name] for column in spec.columns]
    names = [column.name for column in spec.columns]
    return pa.table(
        [
            *columns,
            pa.array(own if own_slots else np.full(len(own), slot), pa.int64()),
            pa.array(until, pa.int64()),
            pa.array(groups, pa.int32()),
            pa.array(cohorts, pa.int32()),
            reason,
            table[COLUMN],
            raw,
            table[FILE],
            table[LINE],
            pa.array(good & (until <= slot), pa.bool_()),
        ],
        names=[*names, INSERTED_SLOT, EXPIRES_SLOT, "_g", "_e", REASON, COLUMN, RAW, FILE, LINE, OVER],
    )


def survey(table: pa.Table, spec: TableSpec) -> Survey:
    """Return the last insertion slot: where the clock of an integer table goes that is loaded without a time.

    Records that will be refused have no say: the clock never goes back.
    """
    inserted, expires = (_times(table[name], spec.column(name)) for name in (spec.inserted, spec.expires))
    own = _slots(inserted, spec.timeline)
    good = pc.is_null(_reasons(table, spec, _NEVER, inserted, expires, own)).to_numpy(zero_copy_only=False)
    return Survey(int(own[good].max()) if good.any() else None, table.num_rows)


def _zeros_made_one(table: pa.Table, spec: TableSpec) -> pa.Table:
    """Negative zero and zero are one key, on every path."""
    for name in spec.key:
        if spec.column(name).is_floating:
            column = table[name]
            zero = pa.scalar(0.0, column.type)
            table = table.set_column(
                table.column_names.index(name), name, pc.if_else(pc.equal(column, zero), zero, column)
            )
    return table


def _times(column: pa.ChunkedArray, declared: Column) -> tuple[Any, Any]:
    """Return times as 64-bit integers and which of them are null."""
    if declared.type == "date":
        column = column.cast(pa.int32())
    numbers = column.cast(pa.int64())
    return pc.fill_null(numbers, 0).to_numpy(), pc.is_null(column).to_numpy()


def _slots(times: tuple[Any, Any], line: Timeline) -> Any:
    """Return slots: division rounded up.  Times too far from the origin give nonsense and are refused elsewhere."""
    return -((line.origin - times[0]) // line.tick)


def _is_far(times: Any, line: Timeline) -> Any:
    return np.abs(times.astype(np.float64) - float(line.origin)) > _FAR


def _reasons(table: pa.Table, spec: TableSpec, slot: int, inserted: Any, expires: Any, own: Any) -> pa.Array:
    """Return why each record cannot be kept; null if it can.  The first reason counts."""
    line = spec.timeline
    span = line.kind.show_duration(line.span)
    (ins, ins_null), (exp, exp_null) = inserted, expires
    # Where the table stamps the insertion itself, a record that came too late has expired on arrival.
    is_short = (exp <= ins) & (_slots(expires, line) > slot) if spec.inserted_as else exp <= ins
    lifetime = exp.astype(np.float64) - ins.astype(np.float64)
    tests: list[tuple[Any, str]] = []
    for name in spec.key:
        tests.append((pc.is_null(table[name]).to_numpy(), f"key {name} is null"))
        if spec.column(name).is_floating:
            finite = pc.fill_null(pc.is_finite(table[name]), True)  # noqa: FBT003 - null has a reason of its own
            tests.append((pc.invert(finite).to_numpy(), f"key {name} is not finite"))
    tests += [
        (ins_null, f"insertion time {spec.inserted} is null"),
        (exp_null, f"expiration time {spec.expires} is null"),
        (is_short, "expires at or before its insertion"),
        ((lifetime > _FAR) | (exp - ins > line.span), f"lives longer than the span {span}"),
        (_is_far(ins, line) | _is_far(exp, line), "its time is out of range"),
        (own > slot, "inserted in the future"),
    ]
    number = np.select([test for test, _ in tests], range(len(tests)), default=-1)
    found = pa.array([reason for _, reason in tests]).take(pa.array(number, mask=number < 0))
    return pc.coalesce(table[REASON].combine_chunks(), found)  # what could not be read has its reason already


def _partitions(slots: Any, axis: Axis, good: Any) -> Any:
    """Return the partition of each slot; -1 for refused records."""
    if isinstance(axis, Ring):
        found = (slots - 1) // axis.run % axis.count
    else:
        distinct, place = np.unique(np.where(good, slots, 1), return_inverse=True)
        found = np.array([axis.partition(int(s)) for s in distinct], dtype=np.int64)[place]
    return np.where(good, found, -1)


def _refused_text(table: pa.Table, spec: TableSpec, good: Any) -> pa.Array:
    """Return the text of each refused record: as it came, or as JSON without what the table computed."""
    raw = table[RAW].combine_chunks()
    silent = np.flatnonzero(~good & pc.is_null(raw).to_numpy(zero_copy_only=False))
    if not len(silent):
        return raw
    rows = table.take(pa.array(silent))
    made = spec.input_schema.computed
    columns = {c.name: rows[c.name].combine_chunks() for c in spec.columns if c.name not in made}
    text = np.full(table.num_rows, None, object)
    text[silent] = texts_of(columns)(range(len(silent)))
    return pc.coalesce(raw, pa.array(text, pa.string()))
