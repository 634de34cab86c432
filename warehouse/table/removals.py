"""What commits removed from a table and is still on disk, as the log tells it."""

from __future__ import annotations

from collections.abc import Iterable

from ebb.index.cellfile import Removal
from ebb.index.ledger import Ledger
from ebb.warehouse.store.paths import is_inside
from ebb.warehouse.table.log import LogEntry

__all__ = ["is_removal", "removal_by", "removals_in"]

_DEADLINES = {"erase_by_ms", "erase_by_slot"}  # of what a commit and those before it have removed


def removals_in(entries: Iterable[LogEntry], ledger: Ledger) -> list[Removal]:
    """Return what was removed and not erased yet, the oldest first; ``entries`` are the newest first."""
    recent: list[Removal] = []
    slot = ledger.clock
    exposed: dict[str, int] = {}  # in what other tools removed, as adoptions tell
    for entry in entries:
        if entry.version <= ledger.erased_version:
            break
        slot = entry.ebb.get("slot", slot)  # another tool's commit counts as made with the one that followed it
        exposed.update(entry.ebb.get("exposed", {}))
        if is_removal(entry):
            recent.append(removal_by(entry, slot, exposed.get(str(entry.version))))
    return recent[::-1]


def is_removal(entry: LogEntry) -> bool:
    """Whether a commit removed files, or says when those of earlier ones must be gone."""
    return bool(entry.removed or _DEADLINES & entry.ebb.keys())


def removal_by(entry: LogEntry, slot: int | None, exposed_since: int | None = None) -> Removal:
    """Return what one commit removed; ``exposed_since`` counts if it does not say itself."""
    return Removal(
        version=entry.version,
        committed_ms=entry.timestamp_ms,
        slot=slot,
        paths=tuple(path for path in entry.removed if is_inside(path)),  # others are not ours to delete
        size_bytes=entry.bytes_removed,
        exposed_since=entry.ebb.get("exposed_since", exposed_since),
        due_from=entry.ebb.get("due_from"),
        erase_by=entry.ebb.get("erase_by_ms", entry.ebb.get("erase_by_slot")),
    )
