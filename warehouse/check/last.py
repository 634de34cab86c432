"""When a table was checked last, at which version, and what was found: a note beside the table, not part of it."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass

from ebb.warehouse.store.files import read_file, replace_file
from ebb.warehouse.store.paths import CHECKED
from ebb.warehouse.table.snapshot import Table

__all__ = ["LastCheck", "last_check", "note_check"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCheck:
    """One check that was made."""

    checked_ms: int  # when, since 1970
    version: int  # of the table
    deep: bool
    damages: int  # findings
    warnings: int


def last_check(table: Table, *, deep: bool = False) -> LastCheck | None:
    """Return the last check of a table, or the last one that was ``deep``; None if there is none that anybody noted."""
    found = _noted(table)
    return found.get("deep") if deep else max(found.values(), key=lambda one: one.checked_ms, default=None)


def note_check(table: Table, made: LastCheck) -> None:
    """Note a check, if we may write there: whoever checks need not be allowed to."""
    notes = _noted(table) | {"deep" if made.deep else "quick": made}
    with suppress(OSError):
        text = json.dumps({kind: asdict(one) for kind, one in notes.items()}, separators=(",", ":"))
        replace_file(table.hidden / CHECKED, text.encode() + b"\n")


def _noted(table: Table) -> dict[str, LastCheck]:
    with suppress(OSError, ValueError, TypeError, AttributeError):
        return {kind: LastCheck(**one) for kind, one in json.loads(read_file(f"{table.hidden}/{CHECKED}")).items()}
    return {}
