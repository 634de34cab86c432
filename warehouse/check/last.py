"""When a table was checked last, at which version, and what was found: a note beside the table, not part of it."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from ebb.index.stored import members, number
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

    @property
    def time(self) -> datetime:
        """Return when it was made."""
        return datetime.fromtimestamp(self.checked_ms / 1000, tz=UTC)

    @property
    def is_fine(self) -> bool:
        """Whether nothing was found that has to be mended."""
        return not self.damages


def last_check(table: Table, *, deep: bool = False) -> LastCheck | None:
    """Return the last check of a table, or the last one that was ``deep``; None if there is none that anybody noted."""
    found = _noted(table)
    return found.get("deep") if deep else max(found.values(), key=lambda one: one.checked_ms, default=None)


def note_check(table: Table, made: LastCheck) -> None:
    """Note a check, if we may write there: whoever checks need not be allowed to."""
    notes = _noted(table) | {"deep" if made.deep else "quick": made}
    with suppress(OSError):
        text = json.dumps({kind: asdict(one) for kind, one in notes.items()}, separators=(",", ":"))
        replace_file(table.hidden / CHECKED, text.encode() + b"\n", table.disk, for_owner=True)


def _noted(table: Table) -> dict[str, LastCheck]:
    # With indulgence: whoever only wants to know when that was must not fail because of what else is said there.
    with suppress(OSError, ValueError, TypeError, OverflowError, RecursionError):
        notes = members(json.loads(read_file(f"{table.hidden}/{CHECKED}")))
        return {kind: _restored(one) for kind, one in notes.items()}
    return {}


def _restored(note: object) -> LastCheck:
    made = LastCheck(**members(note))
    for counted in (made.checked_ms, made.version, made.damages, made.warnings):
        number(counted)
    _ = made.time  # understood now or never
    return made
