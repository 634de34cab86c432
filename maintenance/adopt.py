"""Adopting what another tool did to a table: checked, counted anew, brought into shape, and recorded in one commit.

Until then writers refuse the table, because the ledger no longer counts what is there. What does not fit is refused with
its reason, and nothing is changed. A log that was rolled back, or whose head record is lost, is adopted in the same way
once somebody has confirmed that it is meant: the clock of the head record is the least that the table then has, so that
nothing comes back that had expired, and the table has another id, so that nobody follows it who saw what is lost.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ebb.index.cellfile import CellFile
from ebb.index.errors import AdoptionError, RolledBackError
from ebb.index.foreign import ForeignCommit
from ebb.index.ledger import Change
from ebb.maintenance.carry_out import carry_out, warned
from ebb.maintenance.context import Context
from ebb.maintenance.inspect.exposure import exposed_by_others
from ebb.maintenance.phases import Phases
from ebb.maintenance.plan.adopt import correction, plan_adoption
from ebb.maintenance.plan.change import Plan
from ebb.maintenance.plan.erase import exposed_since
from ebb.warehouse.store.paths import LOG
from ebb.warehouse.table.log import new_table_id
from ebb.warehouse.table.snapshot import Snapshot, Table

__all__ = ["Adoption", "adopt"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """What was adopted, or would be; without commits there was nothing to adopt."""

    op: str = "adopt"
    commits: tuple[ForeignCommit, ...] = ()
    slot: int | None = None
    live_before: int = 0  # records, as the ledger had them
    live: int = 0  # records, as they were counted
    cells_touched: int = 0
    files_removed: int = 0
    files_added: int = 0
    bytes_written: int = 0
    exposed_since: int | None = None  # since when the oldest expired record in the removed files has been due to go
    confirmed: str | None = None  # what the head record said against the log, if that was accepted
    lost_versions: int = 0  # commits that the head record knew and the log does not have
    seconds: float = 0.0
    version: int
    dry_run: bool = False
    warnings: tuple[str, ...] = ()
    restored_version: int | None = None  # of the backup that the table was restored from, if that is what was confirmed

    def entry(self) -> Mapping[str, Any]:
        """Return what the commit says about itself."""
        names = (
            "op", "slot", "live_before", "live", "cells_touched", "files_removed", "files_added", "bytes_written",
            "exposed_since", "seconds",
        )  # fmt: skip
        return {
            **{name: getattr(self, name) for name in names},
            **({"confirmed": self.confirmed, "lost_versions": self.lost_versions} if self.confirmed else {}),
            "adopted_versions": [commit.version for commit in self.commits],
            "adopted_operations": [commit.operation for commit in self.commits],
        }


def adopt(table: Table, context: Context, *, yes: bool = False) -> Adoption:
    """Make what other tools did since the last commit of Ebb part of the table, in one commit.

    A table that was restored from a backup goes on in place of the original from then on. ``yes``: also if the log was
    rolled back or nothing tells whether it is whole; otherwise that is raised.
    """
    with table.lock(wait=context.wait, is_foreign_fine=True):
        started, phases = time.monotonic(), Phases(table.disk)
        snapshot = table.snapshot(is_rollback_fine=True)
        snapshot.check_features()
        unsettled = snapshot.unsettled
        if unsettled is not None and not yes and not context.dry_run:
            raise unsettled
        snapshot, restored_version = _confirmed(snapshot, context)
        clock, known = _floor(snapshot), snapshot.ledger.live_records
        nothing = Adoption(
            slot=clock,
            live_before=known,
            live=known,
            version=snapshot.version,
            dry_run=context.dry_run,
            restored_version=restored_version,
        )
        if not snapshot.foreign and unsettled is None:
            return nothing
        context.progress("looking into the files")
        with phases.timed("examine"):
            plan, counted = _planned(snapshot, clock or 0)
        due = [file for file in plan.removes if not file.cell.is_held]
        planned = replace(
            nothing,
            commits=snapshot.foreign,
            live=sum(counted.values()),
            cells_touched=len(plan.cells_touched),
            files_removed=len(plan.removes),
            files_added=len(plan.rewrites),
            exposed_since=exposed_since(due, snapshot.spec.timeline, clock=clock or 0),
            confirmed=None if unsettled is None else unsettled.facts,
            lost_versions=max(0, snapshot.head.version - snapshot.version) if snapshot.head and unsettled else 0,
        )
        if context.dry_run:
            return planned

        def written(adds: Sequence[CellFile]) -> Adoption:
            size_bytes, seconds = sum(f.size_bytes for f in adds), round(time.monotonic() - started, 3)
            return replace(planned, files_added=len(adds), bytes_written=size_bytes, seconds=seconds)

        begun = phases.clock()

        def said(adds: Sequence[CellFile]) -> Mapping[str, Any]:
            if plan.rewrites:
                phases.add("rewrite", phases.clock() - begun)
            former = {"former_table": snapshot.table_id} if is_rolled_back else {}
            return {**written(adds).entry(), **former, "exposed": others, "phases": phases.rounded()}

        is_rolled_back = isinstance(unsettled, RolledBackError)
        others = {str(version): since for version, since in exposed_by_others(snapshot).items()}
        done = carry_out(
            snapshot,
            plan,
            context,
            clock=clock or 0,
            change=Change(clock=clock, arrivals=correction(counted, _live_after(snapshot, clock))),
            data_change=False,
            report=said,
            metadata={**snapshot.metadata, "id": new_table_id()} if is_rolled_back else None,
        )
        kept = _arrivals_kept(done.snapshot, context) if done.snapshot.ledger.holds else []
        return replace(written(done.added), version=done.snapshot.version, warnings=(*done.warnings, *kept))


def _confirmed(snapshot: Snapshot, context: Context) -> tuple[Snapshot, int | None]:
    """Confirm a table that was restored; returns it then, and the version of its backup if it had to be confirmed."""
    copied = snapshot.spec.copied
    if copied is None or copied.is_confirmed or snapshot.unsettled is not None or snapshot.foreign:
        return snapshot, None
    from ebb.maintenance.restore import confirm_restored

    after = snapshot if context.dry_run else confirm_restored(snapshot, context.now_ms())
    return after, copied.version


def _floor(snapshot: Snapshot) -> int | None:
    """Return the clock that an adoption sets: that of the log, or of the head record if it was further."""
    head = snapshot.head
    if head is None:
        return snapshot.ledger.clock
    if head.table != snapshot.table_id and snapshot.unsettled is not None:
        raise AdoptionError(snapshot.table.name, LOG, "it is the log of another table", 0)
    return max((clock for clock in (snapshot.ledger.clock, head.clock) if clock is not None), default=None)


def _live_after(snapshot: Snapshot, clock: int | None) -> dict[int, int]:
    """Return what the ledger counts of the slots after a clock."""
    return {slot: count for slot, count in snapshot.ledger.live.items() if clock is None or slot > clock}


def _arrivals_kept(snapshot: Snapshot, context: Context) -> list[str]:
    """Move what has arrived and a case holds; returns what went wrong."""
    from ebb.maintenance.keep import keep_arrivals  # with Arrow, which a tick without a batch has no use for

    return warned(lambda: keep_arrivals(snapshot, context))


def _planned(snapshot: Snapshot, clock: int) -> tuple[Plan, Counter[int]]:
    """Look into every live file; return what has to be done to them, and how many live records expire in each slot."""
    from ebb.warehouse.examine import examine, is_ours

    entries = [snapshot.table.entry(commit.version) for commit in snapshot.foreign]
    added = {path for entry in entries if entry is not None for path in entry.added}
    strange = {file.path for file in snapshot.files if not is_ours(file.path) or not file.has_slots}
    files = examine(snapshot, snapshot.files, strange | added)
    misfits = [found for found in files if found.problem]
    if misfits:
        first = misfits[0]
        raise AdoptionError(snapshot.table.name, first.file.path, first.problem, len(misfits) - 1)
    counted: Counter[int] = Counter()
    for found in files:
        counted.update({slot: count for slot, count in found.expirations.items() if slot > clock})
    live = [found.file for found in files]
    return plan_adoption(snapshot.spec.grid, clock=clock, live=live, strange=strange, returned=added), counted
