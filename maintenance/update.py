"""The driver of an update: intake, exactly-once, plan, rewrite, one commit, then what is due.

Everything that decides is elsewhere and pure (the ledger and the plans); here it is done, in this order:

1. take the writer's lock, pin the newest version, erase what killed runs and removed versions left;
2. stage the batch as files in a folder of its own (Spark), without touching the table;
3. ask the ledger whether this batch was applied before and whether the clock may go there;
4. plan over the live files and the staged ones, and rewrite what the plan says;
5. record refused records, then commit files, clock, digest and counts in one entry;
6. seal and purge what is due, each in a commit of its own.

A process that dies before the commit leaves folders that no commit names; the next run removes them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from index.cellfile import CellFile
from index.errors import InputError, NotDueError, RetryError, UsageError, WarehouseError
from index.ledger import next_slot
from maintenance.context import Context
from maintenance.housekeeping import erase, is_sealing, oldest_expired, purge, seal
from maintenance.plan import Plan, plan_update
from warehouse.lock import writer_lock
from warehouse.quarantine import commit_refused
from warehouse.source import InputFile
from warehouse.spec import TableSpec
from warehouse.table import Snapshot, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from warehouse.intake import Staged

__all__ = ["Report", "load", "update"]


@dataclass(slots=True, kw_only=True)
class Report:
    """What an update did."""

    slot: int
    time: str
    ticks: int
    version: int
    received: int = 0
    admitted: int = 0
    expired_on_arrival: int = 0
    quarantined: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    expired: int = 0
    live: int = 0
    cells_touched: int = 0
    cells_bound: int = 0
    files_added: int = 0
    files_removed: int = 0
    bytes_written: int = 0
    already_applied: bool = False
    dry_run: bool = False
    sealed_cells: int = 0
    sealed_bytes: int = 0
    purged_files: int = 0
    erased_files: int = 0
    seconds: float = 0.0
    warnings: list[str] = field(default_factory=list)


def update(
    table: Table,
    batch: Sequence[InputFile] | DataFrame | None,
    context: Context,
    *,
    at: int | None = None,
    catch_up: bool = False,
    yes: bool = False,
) -> Report:
    """Advance the clock: admit a batch, expire what is over, in one commit."""
    with writer_lock(table, wait=context.wait):
        started = time.monotonic()
        snapshot = table.snapshot()
        spec, ledger = snapshot.spec, snapshot.ledger
        now = spec.timeline.kind.from_datetime(context.now) if spec.timeline.kind.has_wall_clock else None
        not_due: NotDueError | None = None
        try:
            slot = next_slot(ledger, spec.timeline, at=at, now=now, catch_up=catch_up)
        except NotDueError as error:
            # A repeated batch is answered with what happened to it, not with the time of the next tick.
            if not _has_records(batch):
                raise
            slot, not_due = error.args[0], error
        erased = {} if context.dry_run else erase(snapshot, now=context.now)
        staged = _stage(snapshot, batch, context, slot=slot, own_slots=False)
        try:
            repeated = ledger.check_repeat(slot, staged.digest if staged else None, spec.timeline)
            if repeated is not None:
                return _repeated(snapshot, staged, repeated, started)
            if not_due is not None:
                raise not_due
            ledger.check_jump(slot, catch_up=catch_up, yes=yes)
            report = _apply(snapshot, staged, context, slot=slot, started=started, op="update")
        finally:
            _clean(snapshot, staged)
        report.erased_files = erased.get("files_erased", 0)
        if not context.dry_run:
            _run_what_is_due(table, report, context)
        report.seconds = round(time.monotonic() - started, 3)
        return report


def load(table: Table, batch: Sequence[InputFile] | DataFrame, context: Context, *, at: int | None = None) -> Report:
    """Bring in the first records, each into the cell of its own slots, and set the clock."""
    with writer_lock(table, wait=context.wait):
        started = time.monotonic()
        snapshot = table.snapshot()
        spec, ledger = snapshot.spec, snapshot.ledger
        if not _has_records(batch):
            msg = f"load {spec.name} names no file with records; pass at least one"
            raise UsageError(msg)
        if not context.dry_run:
            erase(snapshot, now=context.now)
        slot = _load_slot(snapshot, batch, context, at)
        staged = _stage(snapshot, batch, context, slot=slot, own_slots=True)
        try:
            repeated = ledger.slot_applied(staged.digest) if staged and staged.digest else None
            if repeated is not None:
                return _repeated(snapshot, staged, repeated, started)
            if ledger.clock is not None:
                shown = spec.timeline.show_slot(ledger.clock)
                msg = f"table {spec.name} has been loaded already, its clock is at {shown}; use ebb update {spec.name}"
                raise InputError(msg)
            report = _apply(snapshot, staged, context, slot=slot, started=started, op="load")
        finally:
            _clean(snapshot, staged)
        report.seconds = round(time.monotonic() - started, 3)
        return report


def _has_records(batch: Sequence[InputFile] | DataFrame | None) -> bool:
    return batch is not None and (not isinstance(batch, Sequence) or len(batch) > 0)


def _load_slot(snapshot: Snapshot, batch: Sequence[InputFile] | DataFrame, context: Context, at: int | None) -> int:
    line = snapshot.spec.timeline
    if at is not None:
        return line.clock_at(at)
    if line.kind.has_wall_clock:
        return line.clock_at(line.kind.from_datetime(context.now))
    from warehouse.intake import last_slot

    slot = last_slot(_frame(snapshot.spec, batch, context), snapshot.spec)
    if slot is None:
        msg = f"load {snapshot.spec.name}: no record has an insertion time to set the clock by; pass --at"
        raise UsageError(msg)
    return slot


def _frame(spec: TableSpec, batch: Sequence[InputFile] | DataFrame, context: Context) -> DataFrame:
    from warehouse.intake import check_frame, read_files

    if isinstance(batch, Sequence):
        from warehouse.source import check_inputs

        check_inputs(batch, spec.columns)
        context.progress("starting Spark")
        return read_files(context.spark(), spec, batch)
    check_frame(batch, spec)
    return batch


def _stage(
    snapshot: Snapshot,
    batch: Sequence[InputFile] | DataFrame | None,
    context: Context,
    *,
    slot: int,
    own_slots: bool,
) -> Staged | None:
    if batch is None or not _has_records(batch):
        return None
    from warehouse.intake import stage

    frame = _frame(snapshot.spec, batch, context)
    context.progress("reading and sorting the batch")
    return stage(
        frame,
        snapshot.spec,
        table=str(snapshot.table.folder),
        slot=slot,
        own_slots=own_slots,
        size_bytes=sum(f.size_bytes for f in batch) if isinstance(batch, Sequence) else None,
    )


def _apply(
    snapshot: Snapshot, staged: Staged | None, context: Context, *, slot: int, started: float, op: str
) -> Report:
    """Plan, rewrite and commit."""
    spec, ledger = snapshot.spec, snapshot.ledger
    clock = slot - 1 if ledger.clock is None else ledger.clock
    arriving: Sequence[CellFile] = staged.files if staged else ()
    plan = plan_update(
        spec.strategy, spec.grid, clock=clock, slot=slot, live=snapshot.files, arriving=arriving, lag=spec.lag
    )
    report = _report(snapshot, staged, plan, clock=clock, slot=slot, op=op)
    report.dry_run = context.dry_run
    if context.dry_run:
        report.seconds = round(time.monotonic() - started, 3)
        return report
    folder, adds = "", list(plan.adds)
    try:
        if plan.rewrites:
            from warehouse.rewrite import rewrite

            context.progress(f"rewriting {len(plan.rewrites)} cells")
            folder, written = rewrite(snapshot, plan.rewrites, clock=slot, spark=context.spark)
            adds += written.files
        now_ms = int(context.now.timestamp() * 1000)
        # Also without refused records: what an unfinished try of a later slot left must go.
        refused = staged.quarantine_files if staged else ()
        commit_refused(snapshot.table, refused, slot=slot, clock=ledger.clock, now_ms=now_ms)
        report.files_added = len(adds)
        report.bytes_written = sum(f.size_bytes for f in adds)
        report.seconds = round(time.monotonic() - started, 3)
        after = ledger.advanced(slot, staged.expirations if staged else {}, staged.digest if staged else None)
        report.version = snapshot.commit(
            adds=adds,
            removes=plan.removes,
            ledger=after,
            report=_entry(report, plan, op, slot),
            data_change=True,
            now_ms=now_ms,
        )
    except BaseException:
        if folder:
            from warehouse.cells import remove_folder

            remove_folder(snapshot.table.folder / folder)
        raise
    return report


def _report(snapshot: Snapshot, staged: Staged | None, plan: Plan, *, clock: int, slot: int, op: str) -> Report:
    spec, ledger = snapshot.spec, snapshot.ledger
    expired = ledger.expired_by(slot)
    cells = spec.grid.groups.count * spec.grid.cohorts.count
    return Report(
        slot=slot,
        time=spec.timeline.show_slot(slot),
        ticks=slot - clock,
        version=snapshot.version,
        received=staged.received if staged else 0,
        admitted=staged.admitted if staged else 0,
        expired_on_arrival=staged.expired_on_arrival if staged else 0,
        quarantined=staged.quarantined if staged else 0,
        reasons=dict(sorted(staged.reasons.items())) if staged else {},
        expired=expired,
        live=ledger.live_records - expired + (staged.admitted if staged else 0),
        cells_touched=len(plan.cells_touched),
        cells_bound=cells if op == "load" else spec.grid.cells_bound(clock, slot),
        files_added=len(plan.adds) + len(plan.rewrites),
        files_removed=len(plan.removes),
        bytes_written=sum(f.size_bytes for f in plan.adds),
    )


def _entry(report: Report, plan: Plan, op: str, slot: int) -> dict[str, Any]:
    """Return what the commit says about itself."""
    names = (
        "slot", "ticks", "received", "admitted", "expired_on_arrival", "quarantined", "reasons", "expired", "live",
        "cells_touched", "cells_bound", "files_added", "files_removed", "bytes_written", "seconds",
    )  # fmt: skip
    return {"op": op, **{n: getattr(report, n) for n in names}, "oldest_expired": oldest_expired(plan.removes, slot)}


def _repeated(snapshot: Snapshot, staged: Staged | None, slot: int, started: float) -> Report:
    """Return the report for a batch that was applied before: nothing changes."""
    return Report(
        slot=slot,
        time=snapshot.spec.timeline.show_slot(slot),
        ticks=0,
        version=snapshot.version,
        received=staged.received if staged else 0,
        live=snapshot.ledger.live_records,
        already_applied=True,
        seconds=round(time.monotonic() - started, 3),
    )


def _clean(snapshot: Snapshot, staged: Staged | None) -> None:
    """Remove staged files that were not committed: all of them, or those that a rewrite has merged."""
    if staged is None:
        return
    from warehouse.cells import remove_folder

    named = {f.path for f in snapshot.table.snapshot().files}
    kept = [f for f in staged.files if f.path in named]
    if not kept:
        remove_folder(snapshot.table.folder / staged.folder)
        return
    for file in staged.files:
        if file.path not in named:
            (snapshot.table.folder / file.path).unlink(missing_ok=True)


def _run_what_is_due(table: Table, report: Report, context: Context) -> None:
    """Seal and purge.  The update is committed: what goes wrong here is a warning, and is tried again next time."""
    try:
        snapshot = table.snapshot()
        if is_sealing(snapshot):
            context.progress("sealing")
            sealed = seal(snapshot, context)
            report.sealed_cells, report.sealed_bytes = sealed["cells_touched"], sealed["bytes_written"]
            snapshot = table.snapshot() if sealed["version"] != snapshot.version else snapshot
        if any(f.min_exp + snapshot.spec.lag <= report.slot for f in snapshot.files):
            purged = purge(snapshot, context, lag=snapshot.spec.lag)
            report.purged_files = purged["files_removed"]
    except (RetryError, WarehouseError) as error:
        report.warnings.append(str(error))
