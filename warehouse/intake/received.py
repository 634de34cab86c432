"""The records of a batch as they come out of any reader: the table's columns, and five marks.

_reason   why a record could not be read or converted; null if it could
_column   the column that does not fit, if it is one
_raw      the text of such a record, as it came
_file     the number of its file in the batch; -1 if it came from none
_line     where it stands there: its line in JSON, its number in CSV and Parquet; null if nobody knows
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ebb.index.columns import Column
from ebb.index.values import plain
from ebb.warehouse.intake.convert import Converted
from ebb.warehouse.parquet.arrow import arrow_type

__all__ = ["COLUMN", "FILE", "LINE", "MARKS", "NO_FILE", "RAW", "REASON", "Unread", "received", "texts_of", "unread"]

REASON, COLUMN, RAW, FILE, LINE = "_reason", "_column", "_raw", "_file", "_line"
MARKS = (
    pa.field(REASON, pa.string()),
    pa.field(COLUMN, pa.string()),
    pa.field(RAW, pa.string()),
    pa.field(FILE, pa.int32()),
    pa.field(LINE, pa.int64()),
)
NO_FILE = -1


@dataclass(frozen=True, slots=True)
class Unread:
    """A record of which nothing could be read."""

    reason: str
    text: str
    line: int | None


def received(
    found: Mapping[str, Converted],
    columns: Sequence[Column],
    records: int,
    *,
    lines: pa.Array | None,
    texts: Callable[[Sequence[int]], Sequence[str]],
    file: int = NO_FILE,
) -> pa.Table:
    """Put converted columns together.

    ``lines``: of the records; None if they have none. ``texts`` returns the text of the records at some places: it is
    asked for those that do not fit.
    """
    cause = np.full(records, -1, np.int32)
    arrays: list[pa.Array] = []
    for number, column in enumerate(columns):
        values, bad = found.get(column.name, (None, None))
        arrays.append(pa.nulls(records, arrow_type(column)) if values is None else values)
        if bad is not None:
            cause[bad & (cause < 0)] = number
    wrong = np.flatnonzero(cause >= 0)
    raw = pa.nulls(records, pa.string())
    if len(wrong):
        text = np.full(records, None, object)
        text[wrong] = texts(wrong.tolist())
        raw = pa.array(text, pa.string())
    places = pa.array(cause, mask=cause < 0)
    reasons = pa.array([f"{column.name} does not fit {column.type}" for column in columns], pa.string())
    marks = [
        reasons.take(places),
        pa.array([column.name for column in columns], pa.string()).take(places),
        raw,
        pa.array(np.full(records, file, np.int32)),
        pa.nulls(records, pa.int64()) if lines is None else lines,
    ]
    return pa.table([*arrays, *marks], schema=_schema(columns))


def unread(refused: Sequence[Unread], columns: Sequence[Column], file: int) -> pa.Table:
    """Return records of which nothing could be read."""
    count = len(refused)
    arrays = [pa.nulls(count, arrow_type(column)) for column in columns]
    marks = [
        pa.array([record.reason for record in refused], pa.string()),
        pa.nulls(count, pa.string()),
        pa.array([record.text for record in refused], pa.string()),
        pa.array([file] * count, pa.int32()),
        pa.array([record.line for record in refused], pa.int64()),
    ]
    return pa.table([*arrays, *marks], schema=_schema(columns))


def _schema(columns: Sequence[Column]) -> pa.Schema:
    return pa.schema([*(pa.field(column.name, arrow_type(column)) for column in columns), *MARKS])


def texts_of(arrays: Mapping[str, pa.Array]) -> Callable[[Sequence[int]], list[str]]:
    """Return what writes records as JSON, from their columns as they came."""

    def texts(places: Sequence[int]) -> list[str]:
        chosen = {name: _values(array.take(pa.array(places, pa.int64()))) for name, array in arrays.items()}
        rows = zip(*chosen.values(), strict=True) if chosen else iter([()] * len(places))
        return [json.dumps(dict(zip(chosen, row, strict=True)), ensure_ascii=False) for row in rows]

    return texts


def _values(array: pa.Array) -> list[Any]:
    """Return values as JSON shows them; times that Python has no value for as text."""
    try:
        return [plain(value) for value in array.to_pylist()]
    except (OverflowError, ValueError):
        return array.cast(pa.string()).to_pylist()
