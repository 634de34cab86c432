"""Amending records: from now on they expire at another time.

It is one commit: their files are written again without them, and they into the cells of their new expiration slot. They
are the records that they were, admitted when they were, so whoever follows the table's log leaves the commit out, and
``ebb changes`` tells what they are now. What has expired is not brought back.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ebb.index.cellfile import CellFile, Chosen
from ebb.index.errors import InputError, UsageError
from ebb.index.ledger import Change
from ebb.maintenance.ask import Ask, check_share
from ebb.maintenance.backup_care import tended_after
from ebb.maintenance.backup_place import mark_stale
from ebb.maintenance.carry_out import carry_out
from ebb.maintenance.context import Context
from ebb.maintenance.keep import check_not_held, opened_window
from ebb.maintenance.plan.change import Plan
from ebb.maintenance.plan.erase import exposed_since
from ebb.maintenance.plan.records import counts_of, plan_amend
from ebb.warehouse.read.choose import choose
from ebb.warehouse.table.snapshot import Snapshot, Table

__all__ = ["Amended", "amend"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Amended:
    """What was amended, or would be.  Without a commit there was nothing."""

    name: str
    op: str = "amend"
    slot: int
    to_slot: int
    expires: str
    case: str | None
    by: str
    records: int = 0
    shortened: int = 0  # of these, how many expire in an earlier slot than before
    cells_touched: int = 0
    files_removed: int = 0
    files_added: int = 0
    bytes_written: int = 0
    exposed_since: int | None = None
    is_committed: bool = False
    version: int
    seconds: float = 0.0
    dry_run: bool = False
    warnings: tuple[str, ...] = ()

    def entry(self) -> Mapping[str, Any]:
        """Return what the commit says about itself."""
        names = (
            "slot", "to_slot", "records", "cells_touched", "files_removed", "files_added", "bytes_written", "exposed_since",
            "seconds",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}


def amend(table: Table, ask: Ask, context: Context, *, expires: int, yes: bool = False) -> Amended:
    """Let live records expire at another time, at most a span after they were inserted and not before the next tick ends.

    Records that expire then already are left as they are, so that nothing is done twice. ``yes``: also shorten the lives
    of more than half of the live records by a condition.
    """
    with table.lock(wait=context.wait):
        started = time.monotonic()
        snapshot = table.snapshot()
        clock, slot = _checked(snapshot, expires)
        window = opened_window(snapshot)
        context.progress("looking for the records")
        choice = replace(ask.choice(window), live_at=clock, new_expiry=expires)
        chosen = choose(window, snapshot.files, choice)
        check_not_held("amended", window, chosen)
        _check_span(snapshot, chosen, expires)
        plan = plan_amend(snapshot.spec.grid, chosen, clock=clock, expires=(snapshot.spec.expires, expires, slot))
        counts = counts_of(chosen)
        planned = Amended(
            name=table.name,
            slot=clock,
            to_slot=slot,
            expires=snapshot.spec.timeline.kind.show_time(expires),
            case=ask.case,
            by=ask.by,
            records=counts.total(),
            shortened=sum(count for before, count in counts.items() if before > slot),
            cells_touched=len(plan.cells_touched),
            files_removed=len(plan.removes),
            files_added=len(plan.rewrites),
            exposed_since=exposed_since(plan.removes, snapshot.spec.timeline, clock=clock),
            version=snapshot.version,
            dry_run=context.dry_run,
        )
        if context.dry_run or plan.is_empty:
            return planned
        check_share("shorten the lives of", planned.shortened, snapshot, is_asked=yes or ask.where is None)
        return _committed(snapshot, plan, context, planned, counts, ask, started)


def _checked(snapshot: Snapshot, expires: int) -> tuple[int, int]:
    """Return the clock, and the slot of a new expiration time, if records of the table may expire then."""
    spec, clock = snapshot.spec, snapshot.ledger.clock
    slot, shown = spec.timeline.slot_of(expires), spec.timeline.kind.show_time(expires)
    if spec.expires in spec.key:
        msg = f"{spec.expires} is part of the key of table {spec.name}, and a key does not change"
        raise UsageError(msg, "forget the records, and bring them again")
    if spec.column(spec.expires).type == "int" and not -(2**31) <= expires < 2**31:
        msg = f"{spec.expires} of table {spec.name} is an int and cannot be {shown}"
        raise UsageError(msg, "choose another time")
    if clock is None:
        msg = f"table {spec.name} has not been loaded, so no record can be amended"
        raise InputError(msg, "load it first")
    if slot <= clock:
        msg = f"records cannot expire at {shown}: the clock of table {spec.name} is at {spec.timeline.show_slot(clock)}"
        raise InputError(msg, "choose a later time, or forget them", hint="forget")
    return clock, slot


def _check_span(snapshot: Snapshot, chosen: Sequence[Chosen], expires: int) -> None:
    """Refuse a lifetime above the span: no cell and no count has a place for it."""
    line = snapshot.spec.timeline
    first = min((some.first_inserted for some in chosen if some.first_inserted is not None), default=expires)
    if expires - first > line.span:
        show = line.kind
        msg = (
            f"a chosen record that was inserted at {show.show_time(first)} would live longer than the span "
            f"{show.show_duration(line.span)} if it expired at {show.show_time(expires)}"
        )
        raise InputError(msg, f"choose a time up to {show.show_time(first + line.span)}, or choose other records")


def _committed(
    snapshot: Snapshot,
    plan: Plan,
    context: Context,
    planned: Amended,
    counts: Counter[int],
    ask: Ask,
    started: float,
) -> Amended:
    """Make the commit."""

    def written(adds: Sequence[CellFile]) -> Amended:
        size_bytes, seconds = sum(file.size_bytes for file in adds), round(time.monotonic() - started, 3)
        return replace(planned, files_added=len(adds), bytes_written=size_bytes, seconds=seconds)

    def said(adds: Sequence[CellFile]) -> Mapping[str, Any]:
        report = written(adds)
        return {**ask.said("amend", expires=planned.expires), **report.entry(), "phases": {"rewrite": report.seconds}}

    moved = Counter({planned.to_slot: counts.total()})
    moved.subtract(counts)
    done = carry_out(
        snapshot,
        plan,
        context,
        clock=planned.slot,
        change=Change(clock=planned.slot, arrivals={slot: count for slot, count in moved.items() if count}),
        data_change=False,
        report=said,
        # The backups would keep them for as long as they were to live before.
        prepare=lambda: mark_stale(snapshot.table, snapshot.version + 1) if planned.shortened else None,
    )
    warnings = (*done.warnings, *tended_after(done.snapshot, context))
    return replace(written(done.added), version=done.snapshot.version, is_committed=True, warnings=warnings)
