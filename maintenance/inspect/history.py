"""The commits of a table as the log tells them."""

from __future__ import annotations

from typing import Any

from ebb.maintenance.inspect.status import iso_time
from ebb.warehouse.table.snapshot import Snapshot

__all__ = ["history"]


def history(snapshot: Snapshot, limit: int | None = None) -> list[dict[str, Any]]:
    """Return the commits, newest first, as the log tells them."""
    line = snapshot.spec.timeline
    rows: list[dict[str, Any]] = []
    for entry in snapshot.table.entries(snapshot.version):
        if limit is not None and len(rows) >= limit:
            break
        row: dict[str, Any] = {
            "version": entry.version,
            "committed": iso_time(entry.timestamp_ms),
            "op": entry.ebb.get("op", entry.operation.lower()),
            "files_added": len(entry.added),
            "files_removed": len(entry.removed),
            "bytes_written": entry.bytes_added,
        }
        row |= {k: v for k, v in entry.ebb.items() if k not in ("ledger", "op", "exposed_since", *row)}
        if row.get("slot") is not None:
            row["time"] = line.show_slot(row["slot"])
        rows.append(row)
    return rows
