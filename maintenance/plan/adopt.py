"""What an adoption does to the files that another tool left, and to the ledger that no longer counts them.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ebb.index.cellfile import CellFile
from ebb.index.grid import Grid
from ebb.maintenance.plan.change import Plan, rewrites_of
from ebb.maintenance.plan.records import NEVER

__all__ = ["correction", "plan_adoption"]


def plan_adoption(
    grid: Grid, *, clock: int, live: Sequence[CellFile], strange: Collection[str], returned: Collection[str]
) -> Plan:
    """Write files that Ebb did not write (``strange``) as sorted runs of their cells, without what has expired.

    Files of Ebb that another tool brought back (``returned``) stay as they are, unless records in them have expired
    meanwhile. Of held files every record is kept.
    """
    returned = {f.path for f in live if f.path in returned and f.has_expired(clock) and not f.cell.is_held}
    stale = [f for f in live if f.path in strange or f.path in returned]
    held = [f for f in stale if f.cell.is_held]
    rewrites = rewrites_of([f for f in stale if not f.cell.is_held and not f.is_dead(clock)], clock)
    rewrites += rewrites_of(held, NEVER)
    return Plan(removes=tuple(stale), rewrites=rewrites, within=grid.cells | {f.cell for f in held})


def correction(counted: Mapping[int, int], known: Mapping[int, int]) -> dict[int, int]:
    """Return what has to be added to the known counts per slot to get those that were counted.

    >>> correction({7: 2, 9: 1}, {7: 5, 8: 1, 9: 1})
    {7: -3, 8: -1}
    """
    slots = sorted({*counted, *known})
    differences = {slot: counted.get(slot, 0) - known.get(slot, 0) for slot in slots}
    return {slot: difference for slot, difference in differences.items() if difference}
