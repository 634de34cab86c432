"""Records as lines of CSV and JSON, whole columns at a time.

Arrow turns a column into text, and the few values that Arrow writes differently are written one by one. What comes out
is, to the byte, what :mod:`ebb.cli.output.values` says of each value; so are columns that Arrow has no text for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ebb.cli.output import render
from ebb.cli.output.values import csv_field, json_value

__all__ = ["csv_lines", "data_of", "json_lines", "lines_of", "portions"]

_TEXT = pa.large_string()
_PORTION_ROWS = 32_768
_PORTION_BYTES = 8 * 1024 * 1024  # what is held as text at a time is a few times this
_UNITS = {"s": 1, "ms": 1000, "us": 1_000_000}
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799  # of the years that Python can write
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_PLAIN_FROM, _PLAIN_TO = 1e-4, 1e10  # between these, Arrow and Python write a number with the same digits
_QUOTED = '[",\r\n]'
_QUOTED_BYTES = (b'"', b",", b"\r", b"\n")
_FORMULA = "^[=+\\-@\t\r]"
_ESCAPED = '["\\\\\\x00-\\x1f\\x7f-\\x{9f}\\x{200e}\\x{200f}\\x{202a}-\\x{202e}\\x{2066}-\\x{2069}]'
_LOOKED_AT = bytes([*range(0x20), ord('"'), ord("\\"), *range(0x7F, 0x100)])  # JSON may escape these, and nothing else


def lines_of(parts: Iterable[pa.Table], write: Callable[[pa.RecordBatch], pa.Array]) -> Iterator[pa.Array]:
    """Yield what ``write`` makes of each portion of the records, in order; several portions of a part at a time.

    A part is handed on before the next one is read.
    """
    threads = os.cpu_count() or 1
    with ThreadPoolExecutor(threads) as pool:
        for part in parts:
            cut = portions(part)
            for first in range(0, len(cut), threads):
                some = cut[first : first + threads]
                yield from pool.map(write, some) if len(some) > 1 else map(write, some)


def portions(part: pa.Table) -> list[pa.RecordBatch]:
    """Cut records into portions that are turned into text at once."""
    rows = part.num_rows * _PORTION_BYTES // max(part.nbytes, 1)
    return part.to_batches(max_chunksize=max(1, min(rows, _PORTION_ROWS)))


def csv_lines(batch: pa.RecordBatch, *, guard_formulas: bool = False) -> pa.Array:
    """Return each record as a line of CSV, with its end.  Requires a column."""
    fields = [_csv_fields(column, guard_formulas=guard_formulas) for column in batch.columns]
    if len(fields) == 1:  # a line with nothing in it would be no record
        fields = [pc.fill_null(fields[0], pa.scalar('""', _TEXT))]
    fields[-1] = _joined(fields[-1], "\n")
    return _joined(*fields, by=",")


def json_lines(batch: pa.RecordBatch) -> pa.Array:
    """Return each record as a line of JSON, with its end.  Requires a column."""
    parts: list[Any] = []
    between = "{"
    for field, column in zip(batch.schema, batch.columns, strict=True):
        texts, in_quotes = _json_texts(column)
        if in_quotes and texts.null_count:
            mark = pa.scalar('"', _TEXT)
            texts, in_quotes = pc.binary_join_element_wise(mark, texts, mark, pa.scalar("", _TEXT)), False
        quote = '"' if in_quotes else ""
        parts += [f"{between}{render.json_text(field.name)}: {quote}", texts]
        between = f"{quote}, "
    return _joined(*parts, between.removesuffix(", ") + "}\n", nothing="null")


def data_of(texts: pa.Array) -> memoryview:
    """Return the bytes of all texts of an array, one after the other."""
    _, offsets, data = texts.buffers()
    if data is None or not len(texts):
        return memoryview(b"")
    ends = memoryview(offsets).cast("q")
    return memoryview(data)[ends[texts.offset] : ends[texts.offset + len(texts)]]


def _joined(*parts: Any, by: str = "", nothing: str = "") -> pa.Array:
    values = [pa.scalar(part, _TEXT) if isinstance(part, str) else part for part in (*parts, by)]
    return pc.binary_join_element_wise(*values, null_handling="replace", null_replacement=nothing)


def _csv_fields(column: pa.Array, *, guard_formulas: bool) -> pa.Array:
    def one(value: Any) -> str | None:
        return csv_field(value, guard_formulas=guard_formulas)

    if _is_text(column.type):
        return _csv_texts(_checked(column), guard_formulas=guard_formulas)
    if _is_float(column.type):
        return _floats(column, one)
    texts = _texts(column)
    if texts is None:
        return _one_by_one(column, one)
    if guard_formulas and pa.types.is_decimal(column.type):  # of these texts, only theirs may begin with a sign
        return _corrected(texts, pc.match_substring_regex(texts, _FORMULA), column, one)
    return texts


def _csv_texts(texts: pa.Array, *, guard_formulas: bool) -> pa.Array:
    if guard_formulas:
        guarded = pc.binary_join_element_wise(pa.scalar("'", _TEXT), texts, pa.scalar("", _TEXT))
        texts = pc.if_else(pc.match_substring_regex(texts, _FORMULA), guarded, texts)
    quoted = pc.equal(pc.binary_length(texts), 0)
    data = bytes(data_of(texts))
    if any(sign in data for sign in _QUOTED_BYTES):
        quoted = pc.or_(quoted, pc.match_substring_regex(texts, _QUOTED))
    quoted = pc.fill_null(quoted, fill_value=False)
    if not pc.any(quoted).as_py():
        return texts
    inner = pc.replace_substring(texts.filter(quoted), '"', '""')
    return pc.replace_with_mask(texts, quoted, _joined('"', inner, '"'))


def _json_texts(column: pa.Array) -> tuple[pa.Array, bool]:
    """Return values as JSON shows them, and whether the quotes around them are left out."""
    if _is_text(column.type):
        texts = _checked(column)
        data = bytes(data_of(texts))
        if len(data.translate(None, _LOOKED_AT)) < len(data):
            texts = _corrected(texts, pc.match_substring_regex(texts, _ESCAPED), texts, lambda v: json_value(v)[1:-1])
        return texts, True
    if _is_float(column.type):
        return _floats(column, json_value), False
    texts = _texts(column)
    if texts is None:
        return _one_by_one(column, json_value), False
    return texts, not (pa.types.is_integer(column.type) or pa.types.is_boolean(column.type))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_float(kind: pa.DataType) -> bool:
    return bool(pa.types.is_float32(kind) or pa.types.is_float64(kind))


def _checked(column: pa.Array) -> pa.Array:
    """Return texts as texts, or raise what Python raises on bytes that are none."""
    texts = column.cast(_TEXT)
    if not bytes(data_of(texts)).isascii():
        texts.validate(full=True)
    return texts


def _texts(column: pa.Array) -> pa.Array | None:
    """Return values as Arrow writes them, if Python writes all of them so, with neither quotes nor commas in them."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal128(kind):
        return column.cast(_TEXT)
    if pa.types.is_date32(kind):
        return column.cast(_TEXT) if _is_between(column.cast(pa.int32()), _FIRST_DAY, _LAST_DAY) else None
    if pa.types.is_timestamp(kind) and kind.unit in _UNITS and kind.tz in (None, "UTC"):
        unit = _UNITS[kind.unit]
        if _is_between(column.cast(pa.int64()), _FIRST_SECOND * unit, _LAST_SECOND * unit + unit - 1):
            return _moments(column)
    return None


def _is_between(numbers: pa.Array, low: int, high: int) -> bool:
    ends = pc.min_max(numbers)
    return ends["min"].as_py() is None or (low <= ends["min"].as_py() and ends["max"].as_py() <= high)


def _moments(column: pa.Array) -> pa.Array:
    """Return times in ISO 8601; a fraction is written if it is not zero."""
    exact = column.cast(pa.timestamp("us"))
    whole = pc.cast(exact, pa.timestamp("s"), safe=False)
    texts = whole.cast(_TEXT)
    is_whole = pc.equal(whole.cast(pa.timestamp("us")), exact)
    if not pc.all(is_whole).as_py():
        texts = pc.if_else(is_whole, texts, exact.cast(_TEXT))
    texts = pc.binary_replace_slice(texts, 10, 11, "T")
    return pc.binary_join_element_wise(texts, pa.scalar("Z", _TEXT), pa.scalar("", _TEXT))


def _floats(column: pa.Array, one: Callable[[Any], str | None]) -> pa.Array:
    doubles = column.cast(pa.float64())
    size = pc.abs(doubles)
    is_plain = pc.or_(
        pc.and_(pc.greater_equal(size, _PLAIN_FROM), pc.less(size, _PLAIN_TO)), pc.equal(doubles, pa.scalar(0.0))
    )
    texts = doubles.cast(_TEXT)
    is_whole = pc.equal(pc.floor(doubles), doubles)
    if pc.any(is_whole).as_py():
        ended = pc.binary_join_element_wise(texts, pa.scalar(".0", _TEXT), pa.scalar("", _TEXT))
        texts = pc.if_else(is_whole, ended, texts)
    return _corrected(texts, pc.invert(is_plain), column, one)


def _corrected(texts: pa.Array, is_odd: pa.Array, column: pa.Array, one: Callable[[Any], str | None]) -> pa.Array:
    """Return texts in which odd values are written one by one."""
    is_odd = pc.fill_null(is_odd, fill_value=False)
    if not pc.any(is_odd).as_py():
        return texts
    return pc.replace_with_mask(texts, is_odd, _one_by_one(column.filter(is_odd), one))


def _one_by_one(column: pa.Array, one: Callable[[Any], str | None]) -> pa.Array:
    return pa.array([one(value) for value in column.to_pylist()], _TEXT)
