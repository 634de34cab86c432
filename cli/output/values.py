"""One value as text: the slow way to write records, which is the truth that whole columns are compared with."""

from __future__ import annotations

import json
from typing import Any

from ebb.cli.output import render
from ebb.maintenance.values import plain

__all__ = ["csv_field", "json_value", "shown"]

_FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # what makes a spreadsheet take a text for a formula


def shown(value: Any) -> str:
    """Return a value as people and CSV files see it."""
    value = plain(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else str(value)


def csv_field(value: Any, *, guard_formulas: bool = False) -> str | None:
    """Return a value for CSV; the empty text is quoted, nothing is not, as the intake reads them.

    >>> csv_field("a, b"), csv_field(""), csv_field("=1", guard_formulas=True)
    ('"a, b"', '""', "'=1")
    """
    if value is None:
        return None
    text = shown(value)
    if guard_formulas and isinstance(plain(value), str) and text[:1] in _FORMULAS:
        text = f"'{text}"
    if text and not any(sign in text for sign in '",\r\n'):
        return text
    return '"' + text.replace('"', '""') + '"'


def json_value(value: Any) -> str:
    """Return a value as JSON shows it.

    >>> json_value(b"ebb"), json_value(float("nan")), json_value(None)
    ('"ZWJi"', '"NaN"', 'null')
    """
    if type(value) is int:
        return str(value)
    return render.json_string(value) if type(value) is str else render.json_text(plain(value))
