"""The driver of an update: intake, exactly-once, plan, rewrite, the commit that moves the clock, then what is due.

Everything that decides is elsewhere and pure (the ledger and the plans); here it is done, in this order:

1. take the writer's lock, pin the newest version, erase what killed runs and removed versions left;
2. stage the batch as files in a folder of its own (by Spark, or by Arrow in this process), without touching the table;
3. ask the ledger whether this batch or files of it were applied before: those are left out;
4. plan over the live files and the staged ones, and rewrite what the plan says;
5. record refused records, then commit files, clock, digest and counts in one entry;
6. remove what is dead, rewrite, seal and purge what is due, each in a commit of its own.

A process that dies before the first commit leaves folders that no commit names; the next run removes them. One that dies
after it leaves files for the next update to remove: the records in them are hidden already.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ebb.index.cellfile import CellFile
from ebb.index.errors import EngineError, InputError, NotDueError, UsageError
from ebb.index.ledger import Change, next_slot
from ebb.index.timeline import Timeline
from ebb.maintenance.carry_out import carry_out, remove_uncommitted, warned
from ebb.maintenance.context import Context
from ebb.maintenance.phases import Phases
from ebb.maintenance.plan.change import Plan
from ebb.maintenance.plan.erase import exposed_since
from ebb.maintenance.plan.repeats import Repeats, check_arrival, likely_causes
from ebb.maintenance.plan.update import UpdatePlan, plan_load, plan_update
from ebb.maintenance.stage import Staging, check_read_again, fingerprints_of
from ebb.maintenance.upkeep import Erasure, Upkeep, commit_upkeep, erase, is_sealing, purge, seal
from ebb.warehouse.intake.batch import Batch, is_nothing, without_engine
from ebb.warehouse.intake.quarantine import commit_refused
from ebb.warehouse.intake.staged import Staged
from ebb.warehouse.store.errors import memory_errors
from ebb.warehouse.store.lock import Lock
from ebb.warehouse.table.snapshot import Snapshot, Table

__all__ = ["Report", "load", "next_tick", "update"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What an update did.  Cells, files and bytes are those of all its commits together, without seals and forced purges."""

    slot: int
    time: str
    ticks: int
    version: int  # of the commit that moved the clock
    versions: tuple[int, ...] = ()  # of its commits, seals and purges too, the oldest first
    received: int = 0
    admitted: int = 0
    expired_on_arrival: int = 0
    quarantined: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    expired: int = 0
    live: int = 0
    cells_touched: int = 0
    cells_bound: int = 0
    files_added: int = 0
    files_removed: int = 0
    bytes_written: int = 0
    already_applied: bool = False  # all of it, or its tick is over and it has no records: nothing changed
    repeated: int = 0  # records that were applied before, and left out
    repeated_of: int | None = None  # the slot under which they were applied; the last one if there are several
    repeated_files: tuple[str, ...] = ()  # files that were left out
    dry_run: bool = False
    sealed_cells: int = 0
    sealed_bytes: int = 0
    purged_files: int = 0
    erased_files: int = 0
    seconds: float = 0.0
    phases: Mapping[str, float] = field(default_factory=dict)  # what took how many seconds
    warnings: tuple[str, ...] = ()


def update(
    table: Table,
    batch: Batch,
    context: Context,
    *,
    at: int | None = None,
    catch_up: bool = False,
    yes: bool = False,
    allow_repeats: bool = False,
    inputs: Mapping[str, Any] | None = None,
    is_sent_again: bool = False,
) -> Report:
    """Advance the clock: admit a batch, expire what is over, in one moment; then remove the files that are dead.

    A batch that was applied before is left out, and so are files of it. With an explicit time its tick is applied all
    the same; without one nothing changes. ``yes``: also if no record is left, or none of the batch is kept. ``allow_repeats``: admit them again. ``inputs``: what is otherwise in this
    batch than in the table's rules. ``is_sent_again``: whoever sends the batch would send it for ever if it was refused as a
    whole, so that none of it is kept with a warning.
    """
    with memory_errors("the update failed"), table.lock(wait=context.wait) as lock:
        started, phases = time.monotonic(), Phases(table.disk)
        was_in_order = lock.is_in_order
        snapshot = table.snapshot()
        spec, ledger = snapshot.spec, snapshot.ledger
        slot, not_due = next_tick(snapshot, context, at=at, catch_up=catch_up)
        if not_due is not None and is_nothing(batch):
            raise not_due  # a repeated batch is answered with what happened to it, not with the time of the next tick
        ledger.check_jump(slot, catch_up=catch_up, yes=yes)
        is_new = not_due is None and (ledger.clock is None or slot > ledger.clock)
        if is_new and ledger.holds:
            from ebb.maintenance.keep import keep_arrivals  # reads files, which few ticks have to

            snapshot = keep_arrivals(snapshot, context)
        with phases.timed("erase"):
            erased, warnings = _erased(snapshot, context, lock)
        if not is_new:
            batch = without_engine(batch)  # it will not be applied: only what became of it is looked up
        spec = replace(spec, inputs=spec.inputs.changed(**(inputs or {})))
        work = Staging(snapshot, spec, context, phases, slot, allow_repeats=allow_repeats and is_new)
        staged, repeats = work.stage(batch)
        try:
            if (staged.received or repeats.slot is None) and not (allow_repeats and is_new):
                repeated = ledger.check_repeat(slot, staged.digest, spec.timeline, spec.remembered_ticks)
                if repeated is not None:
                    repeats = repeats.and_all(staged.received, repeated)
            if repeats.is_everything(staged.received):
                if not is_new or at is None:
                    return _repeated(snapshot, repeats, started)
                lock.is_in_order = remove_uncommitted(snapshot, staged.folder) and lock.is_in_order
                staged = Staged()
            if not_due is not None:
                raise not_due
            if not yes:
                arrived = (staged.admitted, staged.expired_on_arrival, staged.quarantined)
                warnings += check_arrival(*arrived, slot, spec.timeline, is_sent_again=is_sent_again)
            after, report, plan = _apply(work, staged, repeats, started=started, op="update", erased=erased)
        finally:
            is_removed = remove_uncommitted(snapshot, staged.folder) and not work.left_behind
            lock.is_in_order = is_removed and lock.is_in_order
        warnings += _rounded(spec.timeline, at, slot)
        report = replace(report, erased_files=erased.files_erased, warnings=(*warnings, *report.warnings))
        if not context.dry_run:
            report, is_done = _run_what_is_due(after, report, plan, context, phases, was_in_order=was_in_order)
            lock.is_in_order = lock.is_in_order and is_done
        return replace(report, seconds=_since(started), phases=phases.rounded())


def next_tick(
    snapshot: Snapshot, context: Context, *, at: int | None = None, catch_up: bool = False
) -> tuple[int, NotDueError | None]:
    """Return the slot of the next update, and that it is not due yet if so."""
    line = snapshot.spec.timeline
    now = line.kind.from_datetime(context.now) if line.kind.has_wall_clock else None
    try:
        return next_slot(snapshot.ledger, line, at=at, now=now, catch_up=catch_up), None
    except NotDueError as error:
        return error.args[0], error


def load(
    table: Table,
    batch: Batch,
    context: Context,
    *,
    at: int | None = None,
    yes: bool = False,
    inputs: Mapping[str, Any] | None = None,
) -> Report:
    """Bring in the first records, each into the cell of its own slots, and set the clock."""
    with memory_errors("the load failed"), table.lock(wait=context.wait) as lock:
        started, phases = time.monotonic(), Phases(table.disk)
        snapshot = table.snapshot()
        spec, ledger = snapshot.spec, snapshot.ledger
        if is_nothing(batch):
            msg = f"load {spec.name} names no file with records; pass at least one"
            raise UsageError(msg)
        with phases.timed("erase"):
            erased, warnings = _erased(snapshot, context, lock)
        if ledger.clock is not None:
            batch = without_engine(batch)
        spec = replace(spec, inputs=spec.inputs.changed(**(inputs or {})))
        work = Staging(snapshot, spec, context, phases, slot=0, own_slots=True)
        slot, survey = work.load_slot(batch, at)
        work = replace(work, slot=slot)
        staged, repeats = work.stage(batch)
        try:
            check_read_again(staged, repeats, survey)
            applied = ledger.slot_applied(staged.digest, spec.remembered_ticks) if staged.digest else repeats.slot
            if applied is not None and (at is None or slot == applied):
                return _repeated(snapshot, repeats.and_all(staged.received, applied), started)
            if ledger.clock is not None:
                shown = spec.timeline.show_slot(ledger.clock)
                msg = f"table {spec.name} has been loaded already, its clock is at {shown}"
                raise InputError(msg, "update it instead", spec.name, hint="update")
            if not yes:
                check_arrival(staged.admitted, staged.expired_on_arrival, staged.quarantined, slot, spec.timeline)
            _, report, _ = _apply(work, staged, repeats, started=started, op="load", erased=erased)
        finally:
            lock.is_in_order = remove_uncommitted(snapshot, staged.folder) and lock.is_in_order
        warned_of = (*warnings, *report.warnings)
        return replace(report, warnings=warned_of, seconds=_since(started), phases=phases.rounded())


def _since(started: float) -> float:
    return round(time.monotonic() - started, 3)


def _rounded(line: Timeline, at: int | None, slot: int) -> list[str]:
    """Say that a time was not the end of a tick: records after that end are not due yet."""
    if at is None or at == line.end_of(slot):
        return []
    start = line.kind.show_time(line.origin)
    return [f"{line.kind.show_time(at)} is not the end of a tick; {line.show_slot(slot)} is, counted from {start}"]


def _erased(snapshot: Snapshot, context: Context, lock: Lock) -> tuple[Erasure, list[str]]:
    """Erase first, which may make the room that the batch needs; a file that will not go stops no update."""
    if context.dry_run:
        return Erasure(), []
    try:
        done = erase(snapshot, now=context.wall(), lock=lock)
        return replace(done, erased_ms=context.now_ms()), list(done.warnings)
    except EngineError as error:
        return Erasure(), [str(error)]


def _apply(
    work: Staging, staged: Staged, repeats: Repeats, *, started: float, op: str, erased: Erasure
) -> tuple[Snapshot, Report, UpdatePlan]:
    """Plan everything; rewrite for the first commit and make it."""
    snapshot, context, slot = work.snapshot, work.context, work.slot
    spec, ledger = snapshot.spec, snapshot.ledger
    clock = slot - 1 if ledger.clock is None else ledger.clock
    if op == "load":
        whole = plan_load(spec.strategy, spec.grid, slot=slot, arriving=staged.files)
    else:
        live, arriving = snapshot.files, staged.files
        whole = plan_update(
            spec.strategy, spec.grid, clock=clock, slot=slot, live=live, arriving=arriving, lag=spec.lag
        )
    plan = whole.update
    planned = _report(snapshot, staged, repeats, clock=clock, slot=slot, cells_bound=len(whole.within))
    if context.dry_run:
        return snapshot, replace(_with_plans(planned, whole.commits.values()), dry_run=True), whole
    planned = _with_plans(planned, [plan])
    begun = work.phases.clock()

    def written(adds: Sequence[CellFile]) -> Report:
        size_bytes = sum(f.size_bytes for f in adds)
        return replace(
            planned,
            files_added=len(adds),
            bytes_written=size_bytes,
            seconds=_since(started),
            phases=work.phases.rounded(),
        )

    def said(adds: Sequence[CellFile]) -> dict[str, Any]:
        if plan.rewrites:
            work.phases.add("rewrite", work.phases.clock() - begun)
        return _entry(written(adds), plan, op, spec.timeline) | dict(erased.entry())

    def quarantine() -> None:
        # Also without refused records: what an unfinished try of a later slot left must go.
        commit_refused(snapshot.table, staged.quarantine_files, slot=slot, clock=ledger.clock, now_ms=context.now_ms())

    done = carry_out(
        snapshot,
        plan,
        context,
        clock=slot,
        change=Change(
            clock=slot,
            arrivals=staged.expirations,
            digest=staged.digest,
            files=fingerprints_of(staged, repeats),
            erased_version=erased.erased_version,
        ),
        data_change=True,
        report=said,
        prepare=quarantine,
    )
    work.phases.add("commit", work.phases.clock() - begun - work.phases.seconds.get("rewrite", 0.0))
    version = done.snapshot.version
    warnings = (*planned.warnings, *done.warnings)
    return done.snapshot, replace(written(done.added), version=version, versions=(version,), warnings=warnings), whole


def _with_plans(report: Report, plans: Iterable[Plan]) -> Report:
    """Return a report with what is known of commits before they are made."""
    plans = list(plans)
    return replace(
        report,
        cells_touched=len({cell for plan in plans for cell in plan.cells_touched}),
        files_added=sum(len(plan.adds) + len(plan.rewrites) for plan in plans),
        files_removed=sum(len(plan.removes) for plan in plans),
        bytes_written=sum(file.size_bytes for plan in plans for file in plan.adds),
    )


def _report(snapshot: Snapshot, staged: Staged, repeats: Repeats, *, clock: int, slot: int, cells_bound: int) -> Report:
    spec, ledger = snapshot.spec, snapshot.ledger
    expired = ledger.expired_by(slot)
    return Report(
        slot=slot,
        time=spec.timeline.show_slot(slot),
        ticks=slot - clock,
        version=snapshot.version,
        received=staged.received,
        admitted=staged.admitted,
        expired_on_arrival=staged.expired_on_arrival,
        quarantined=staged.quarantined,
        reasons=dict(sorted(staged.reasons.items())),
        expired=expired,
        live=ledger.live_records - expired + staged.admitted,
        cells_bound=cells_bound,
        repeated=repeats.records,
        repeated_of=repeats.slot,
        repeated_files=repeats.files,
        warnings=tuple(likely_causes(staged.received, staged.reasons)),
    )


def _entry(report: Report, plan: Plan, op: str, timeline: Timeline) -> dict[str, Any]:
    """Return what the commit says about itself."""
    names = (
        "slot", "ticks", "received", "admitted", "expired_on_arrival", "quarantined", "reasons", "expired", "live",
        "cells_touched", "cells_bound", "files_added", "files_removed", "bytes_written", "seconds", "phases",
        *(("repeated", "repeated_of") if report.repeated else ()),
    )  # fmt: skip
    since = exposed_since(plan.removes, timeline, clock=report.slot)
    return {"op": op, **{n: getattr(report, n) for n in names}, "exposed_since": since}


def _repeated(snapshot: Snapshot, repeats: Repeats, started: float) -> Report:
    """Return the report for a batch that was applied before: nothing changes."""
    slot = snapshot.ledger.clock or 0 if repeats.slot is None else repeats.slot
    return Report(
        slot=slot,
        time=snapshot.spec.timeline.show_slot(slot),
        ticks=0,
        version=snapshot.version,
        received=repeats.records,
        live=snapshot.ledger.live_records,
        already_applied=True,
        repeated=repeats.records,
        repeated_of=repeats.slot if repeats.records else None,  # without records nothing came again
        repeated_files=repeats.files,
        seconds=_since(started),
    )


def _run_what_is_due(
    snapshot: Snapshot, report: Report, plan: UpdatePlan, context: Context, phases: Phases, *, was_in_order: bool
) -> tuple[Report, bool]:
    """Make the rest of the update's commits, seal and purge; returns the report with that, and whether it was done.

    The update is committed: what goes wrong here is a warning, and is tried again next time.
    """
    groups = snapshot.spec.grid.groups
    completes = groups.run_of(report.slot + 1) != groups.run_of(report.slot - report.ticks + 1)

    followed: dict[str, Upkeep] = {}  # the update's own commits after the first
    seals: list[Upkeep] = []
    purges: list[Upkeep] = []

    def work() -> None:
        after = snapshot
        for op, rest in plan.commits.items():
            if op != "update":
                with phases.timed(op):
                    after, followed[op] = commit_upkeep(after, rest, context, op=op)
        if is_sealing(after) and (completes or not was_in_order):
            context.progress("sealing")
            with phases.timed("seal"):
                after, sealed = seal(after, context)
            seals.append(sealed)
        lag = after.spec.lag
        if any(f.min_exp <= report.slot - lag and not f.cell.is_held for f in after.files):
            with phases.timed("purge"):
                after, purged = purge(after, context, lag=lag)
            purges.append(purged)

    failures = warned(work)
    made = [*followed.values(), *seals, *purges]
    cells = plan.update.cells_touched.union(*(plan.commits[op].cells_touched for op in followed))
    report = replace(
        report,
        versions=(*report.versions, *(done.version for done in made if done.files_removed)),
        cells_touched=len(cells),
        files_added=report.files_added + sum(done.files_added for done in followed.values()),
        files_removed=report.files_removed + sum(done.files_removed for done in followed.values()),
        bytes_written=report.bytes_written + sum(done.bytes_written for done in followed.values()),
        sealed_cells=sum(done.cells_touched for done in seals),
        sealed_bytes=sum(done.bytes_written for done in seals),
        purged_files=sum(done.files_removed for done in purges),
        warnings=(*report.warnings, *(text for done in made for text in done.warnings), *failures),
    )
    return report, not failures
