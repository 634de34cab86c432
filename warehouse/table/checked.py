"""When a table was last checked, and whether anything was found: what the check leaves in the hidden folder.

Read with indulgence: whoever only wants to know when that was must not fail because of what else is said there.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from ebb.warehouse.store.files import read_file
from ebb.warehouse.store.paths import CHECKED
from ebb.warehouse.table.snapshot import Table

__all__ = ["LastCheck", "last_check"]


@dataclass(frozen=True, slots=True)
class LastCheck:
    """The last check of a table."""

    time: datetime
    is_fine: bool


def last_check(table: Table) -> LastCheck | None:
    """Return the last check of a table; None if there was none, or what it left cannot be understood."""
    try:
        made = json.loads(read_file(str(table.hidden / CHECKED)))
        newest = max(made.values(), key=lambda one: one["checked_ms"])
        moment = datetime.fromtimestamp(newest["checked_ms"] / 1000, tz=UTC)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return None
    return LastCheck(moment, is_fine=not newest.get("damages"))
