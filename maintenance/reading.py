"""Reads as users ask for them in text: keys, ranges and prefixes."""

from __future__ import annotations

import csv
from collections.abc import Sequence

from ebb.index.changes import is_token
from ebb.index.columns import Column
from ebb.index.errors import UsageError
from ebb.index.keys import Wanted
from ebb.index.values import parse_value
from ebb.warehouse.read.changes import Changes
from ebb.warehouse.read.request import Cost
from ebb.warehouse.read.window import Window
from ebb.warehouse.table.spec import TableSpec

__all__ = ["Changes", "Cost", "Wanted", "Window", "is_token", "read_keys", "read_wanted"]


def read_wanted(
    window: Window,
    keys: Sequence[str] = (),
    *,
    low: str | None = None,
    high: str | None = None,
    prefix: str | None = None,
) -> Wanted:
    """Return what a probe asks for, from text: some keys, or the range from ``low`` to ``high``, or a prefix."""
    spec = window.snapshot.spec
    columns = [spec.column(name) for name in spec.key]
    start, stop, beginning = (None if text is None else _key(text, columns) for text in (low, high, prefix))
    return window.wanted([_key(text, columns) for text in keys], start, stop, beginning)


def read_keys(spec: TableSpec, keys: Sequence[str]) -> list[tuple[object, ...]]:
    """Return keys, or leading parts of some, from text."""
    columns = [spec.column(name) for name in spec.key]
    return [_key(text, columns) for text in keys]


def _key(text: str, columns: Sequence[Column]) -> tuple[object, ...]:
    """Read a key: for composite keys its parts joined by commas, CSV-quoted; leading parts alone are one too."""
    try:
        text.encode()
    except UnicodeEncodeError:
        binary = (
            "" if all(column.type != "binary" for column in columns) else ", and binary parts as hexadecimal digits"
        )
        msg = f"key {text!r} is not UTF-8; write it in UTF-8{binary}"
        raise UsageError(msg) from None
    try:
        parts = next(csv.reader([text], strict=True), []) if len(columns) > 1 else [text]
    except csv.Error as error:
        msg = f"key {text!r} cannot be read ({error}); write parts with commas or quotes in them CSV-quoted"
        raise UsageError(msg) from error
    if not 1 <= len(parts) <= len(columns):
        msg = f"key {text!r} has {len(parts)} parts; the key is {','.join(c.name for c in columns)}"
        raise UsageError(msg)
    return tuple(parse_value(column, part) for column, part in zip(columns, parts, strict=False))
