"""Keeping held records: which records cases hold, and moving those that arrive where nothing takes them away.

Held records lie in held files, cells of their own that no update, seal, purge or retirement looks at. What arrives later and
is held too is moved there before the next update, which is the first that could let it go.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ebb.index.cellfile import CellFile, Chosen
from ebb.index.errors import HeldError
from ebb.index.holds import Hold
from ebb.index.ledger import Change
from ebb.maintenance.carry_out import Done, carry_out
from ebb.maintenance.context import Context
from ebb.maintenance.plan.change import Plan
from ebb.maintenance.plan.erase import exposed_since
from ebb.maintenance.plan.records import plan_hold
from ebb.warehouse.holds import read_holds
from ebb.warehouse.read.choose import Choice, choose
from ebb.warehouse.read.finder import Finder
from ebb.warehouse.read.window import Window
from ebb.warehouse.table.snapshot import Snapshot

__all__ = ["check_not_held", "commit_move", "covered", "has_arrivals", "hold_choice", "keep_arrivals", "opened_window"]


def opened_window(snapshot: Snapshot) -> Window:
    """Return a window to look for records in."""
    key = [snapshot.spec.column(name) for name in snapshot.spec.key]
    return Window(snapshot, Finder(str(snapshot.table.folder), key))


def hold_choice(window: Window, hold: Hold) -> Choice:
    """Return which records a hold is about, whenever they were inserted."""
    return Choice(wanted=hold.wanted, where=window.predicate(hold.where))


def covered(window: Window, hold: Hold, files: Sequence[CellFile]) -> list[Chosen]:
    """Return the records of files that a hold keeps: in held files, and such as have arrived and were not moved yet."""
    choice = hold_choice(window, hold)
    held = [file for file in files if file.cell.is_held]
    found = choose(window, held, replace(choice, arrived_by=None if hold.arrivals else hold.slot))
    if hold.arrivals:
        new = [file for file in files if not file.cell.is_held]
        found += choose(window, new, replace(choice, arrived_after=hold.slot, live_at=window.clock))
    return found


def check_not_held(what: str, window: Window, chosen: Sequence[Chosen]) -> None:
    """Refuse to do something to records that a case holds, and name the cases."""
    places = {some.file.path: some.places for some in chosen}
    files = [some.file for some in chosen]
    held: dict[str, dict[int, Any]] = {}
    cases = []
    for found, hold in read_holds(window.snapshot):
        for some in covered(window, hold, files):
            both = {
                number: np.intersect1d(there, places[some.file.path].get(number, ()))
                for number, there in some.places.items()
            }
            if any(map(len, both.values())):
                cases.append(found.case)
                mine = held.setdefault(some.file.path, {})
                mine.update({number: np.union1d(mine.get(number, ()), there) for number, there in both.items()})
    if cases:
        count = sum(len(there) for mine in held.values() for there in mine.values())
        raise HeldError(window.snapshot.table.name, what, count, tuple(dict.fromkeys(cases)))


def keep_arrivals(snapshot: Snapshot, context: Context) -> Snapshot:
    """Move what has arrived since a hold was made and it holds; returns the table after it.

    This was done before each update, so only what was written since the last one that brought something need be looked
    into: its batch, and what was amended. What was live then nobody was able to let go since, also if an adoption moved
    the clock.
    """
    if context.dry_run or snapshot.ledger.clock is None:
        return snapshot
    for _, hold in read_holds(snapshot):
        clock = snapshot.ledger.clock or 0
        if chosen := _arrived(snapshot, hold):
            plan, change = plan_hold(chosen, clock=clock), Change(clock=clock)
            entry = {"op": "hold", "case": hold.case, "by": hold.by, "records": sum(some.records for some in chosen)}
            snapshot = commit_move(snapshot, plan, context, change, entry).snapshot
    return snapshot


def has_arrivals(snapshot: Snapshot) -> bool:
    """Whether something was admitted that a case holds and that was not moved yet."""
    return any(_arrived(snapshot, hold) for _, hold in read_holds(snapshot))


def _arrived(snapshot: Snapshot, hold: Hold) -> list[Chosen]:
    """Return what arrived after a case began, is held by it, and lies in no held file yet."""
    if not hold.arrivals:
        return []
    window, since = opened_window(snapshot), max(_last_brought(snapshot), hold.slot)
    files = [file for file in snapshot.files if not file.cell.is_held]
    new = [file for file in files if file.written is None or file.written[0] >= since]
    return choose(window, new, replace(hold_choice(window, hold), arrived_after=hold.slot, live_at=since))


def _last_brought(snapshot: Snapshot) -> int:
    """Return the slot of the last update that brought something, or of an earlier one if nobody can tell."""
    written = [file.written for file in snapshot.files if file.written is not None]
    return max((slot for slot, is_brought in written if is_brought), default=-(2**63))


def commit_move(
    snapshot: Snapshot,
    plan: Plan,
    context: Context,
    change: Change,
    entry: Mapping[str, Any],
    *,
    due: Mapping[str, Any] | None = None,
    prepare: Callable[[], None] = lambda: None,
) -> Done:
    """Make the commit of a plan that moves records between their cells and the held ones; no answer changes.

    ``due``: from when on records that leave are due to go, as the commit says it, if not from their expiry on.
    """
    started, clock = time.monotonic(), snapshot.ledger.clock or 0
    since = exposed_since(plan.removes, snapshot.spec.timeline, clock=clock)

    def said(adds: Sequence[CellFile]) -> Mapping[str, Any]:
        seconds = round(time.monotonic() - started, 3)
        return {
            **entry,
            "slot": snapshot.ledger.clock,
            "cells_touched": len(plan.cells_touched),
            "files_removed": len(plan.removes),
            "files_added": len(adds),
            "bytes_written": sum(file.size_bytes for file in adds),
            "exposed_since": since,
            "seconds": seconds,
            **(due or {}),
        }

    return carry_out(
        snapshot, plan, context, clock=clock, change=change, data_change=False, report=said, prepare=prepare
    )
