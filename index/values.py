"""Values of columns: read from text, and shown as JSON shows them.  Pure."""

from __future__ import annotations

import base64
from datetime import UTC, date, datetime
from decimal import Decimal, Inexact, InvalidOperation
from typing import Any

from ebb.index.columns import Column
from ebb.index.errors import UsageError

__all__ = ["parse_value", "plain"]


def parse_value(column: Column, text: str) -> Any:
    """Read a value of a column from text.

    >>> parse_value(Column("price", "decimal(4,2)"), "1.5")
    Decimal('1.50')
    """
    kind = column.scalar
    try:
        if kind is not None:
            return kind.parse(text)
    except (ValueError, KeyError, InvalidOperation, Inexact, UsageError, OverflowError):
        pass
    expected = kind.expected if kind else f"a {column.type}"
    msg = f"value {text!r} does not fit column {column.name} of type {column.type}; write {expected}"
    raise UsageError(msg)


def plain(value: Any) -> Any:
    """Return a value as JSON shows it: times in ISO 8601 UTC, decimals as text, binary in base 64.

    >>> plain(Decimal("1.50")), plain(b"ebb")
    ('1.50', 'ZWJi')
    """
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value
