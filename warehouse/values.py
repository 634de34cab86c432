"""Values of records as JSON and CSV show them."""

from __future__ import annotations

import base64
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

__all__ = ["plain"]


def plain(value: Any) -> Any:
    """Return a value as JSON shows it: times in ISO 8601 UTC, decimals as text, binary in base 64.

    >>> plain(Decimal("1.50")), plain(b"ebb")
    ('1.50', 'ZWJi')
    """
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
        return moment.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
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
