"""Readers of a table, as ``ebb status`` tells of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ebb.cli.output import render

if TYPE_CHECKING:
    from ebb.maintenance.inspect.status import Status

__all__ = ["readers"]


def readers(table: Status) -> dict[str, str]:
    """Return how many leases there are, which is the oldest, and what is kept for them; nothing if there is none."""
    if not table.leases:
        return {}
    first = table.leases[0]
    who = f"{first.what}, process {first.pid} of {first.user} on {first.host}"
    oldest = f"the oldest on version {first.version} since {first.since} ({who})"
    kept = f"; {render.counted(table.files_leased, 'removed file')} kept for them" if table.files_leased else ""
    return {"readers": render.visible(f"{render.counted(len(table.leases), 'lease')}, {oldest}{kept}")}
