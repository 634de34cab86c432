"""Carrying out a plan: rewrite, check the cells, commit, clean up.  The one way files of a table change.

Every plan says which cells it may touch, and nothing is committed that touches another: for an update that is the
promise of at most G + E - 1. Files that were written for a plan are deleted only if the log could be read and its next
entry does not name them. What follows the commit (checkpoints) can fail without harm, and is a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ebb.index.cellfile import CellFile
from ebb.index.errors import EngineError, WarehouseError
from ebb.index.journal import Line
from ebb.index.ledger import Change
from ebb.index.timeline import Timeline
from ebb.maintenance.context import Context
from ebb.maintenance.plan.change import Plan
from ebb.maintenance.values import counted
from ebb.warehouse.holds import remove_other_holds
from ebb.warehouse.intake.quarantine import checkpoint_quarantine
from ebb.warehouse.ranges import changed_ranges, remove_other_ranges
from ebb.warehouse.store.errors import disk_errors
from ebb.warehouse.store.files import names_in, remove_all_but
from ebb.warehouse.store.modes import fit_files
from ebb.warehouse.store.paths import CHECKPOINTING, quarantine_file
from ebb.warehouse.table.checkpoint import checkpoint_if_due, clean_log
from ebb.warehouse.table.head import keep_from
from ebb.warehouse.table.journal import bring_up_to_date
from ebb.warehouse.table.log import LogEntry
from ebb.warehouse.table.snapshot import Snapshot
from ebb.warehouse.table.states import remove_old_states

__all__ = ["Done", "carry_out", "follow_up", "keep_evidence", "remove_uncommitted", "warned"]


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a plan."""

    snapshot: Snapshot  # the table after the commit
    added: tuple[CellFile, ...]
    warnings: tuple[str, ...] = ()


def carry_out(
    snapshot: Snapshot,
    plan: Plan,
    context: Context,
    *,
    clock: int,
    change: Change,
    data_change: bool,
    report: Callable[[Sequence[CellFile]], Mapping[str, Any]],
    prepare: Callable[[], None] = lambda: None,
    metadata: Mapping[str, Any] | None = None,
) -> Done:
    """Make one commit of a plan.

    ``clock``: what has expired at it is left out of what is rewritten. ``report``: what the commit says about itself,
    given the files that it adds, also of what the files say otherwise. ``prepare`` is called when everything but the commit is done. ``metadata``: what the
    table says about itself from then on, if that changes.
    """
    folder, adds = "", plan.adds
    try:
        _check_cells(plan)
        if plan.rewrites:
            from ebb.warehouse.spark.rewrite import rewrite

            context.progress(f"rewriting {counted(len(plan.rewrites), 'cell')}")
            folder, written = rewrite(snapshot, plan.rewrites, clock=clock, spark=context.spark, sizes=context.sizes)
            adds = (*adds, *written.files)
        prepare()
        ranges = changed_ranges(snapshot, adds=adds, removes=plan.removes)
        after = snapshot.commit(
            adds=adds,
            removes=plan.removes,
            change=replace(change, ranges_added=ranges.added, ranges_dropped=ranges.dropped),
            report={**_slots_of(plan.removes, snapshot.spec.timeline, clock), **report(adds)},
            data_change=data_change,
            now_ms=context.now_ms(),
            metadata=metadata,
        )
    except BaseException:
        remove_uncommitted(snapshot, folder)
        raise
    return Done(after, adds, tuple(follow_up(after, context.wall())))


def _slots_of(removes: Sequence[CellFile], timeline: Timeline, clock: int) -> Mapping[str, Any]:
    """Return which expiration slots the records in removed files have, and from when on the first of them is due to go.

    That is what the log knows no more once they are removed. What has expired in held files had to be there.
    """
    if not removes:
        return {}
    slots = {"removed_slots": [min(file.min_exp for file in removes), max(file.max_exp for file in removes)]}
    due = [file for file in removes if not (file.cell.is_held and file.has_expired(clock))]
    is_known = bool(due) and all(file.has_slots for file in due)
    return {**slots, **({"due_from": min(file.due_from(timeline) for file in due)} if is_known else {})}


def _check_cells(plan: Plan) -> None:
    strange = sorted(plan.cells_touched - plan.within)
    if strange:
        touched = f"it would touch cell {strange[0]}, and may touch {len(plan.within)} others"
        raise EngineError("the plan leaves its cells", touched, "nothing was changed; report this")


def remove_uncommitted(snapshot: Snapshot, folder: str) -> bool:
    """Remove what is in a folder of ours and not in the commit after ``snapshot``; returns whether it is gone.

    If the log cannot be read, everything stays: the commit may be there. What stays is found by the next update, if
    the lock says that this one did not end in order.
    """
    if not folder:
        return True
    try:
        entry = snapshot.table.entry(snapshot.version + 1)
        return remove_all_but(snapshot.table.folder, folder, entry.added if entry else ())
    except (WarehouseError, OSError):
        return False


def follow_up(snapshot: Snapshot, now: datetime) -> list[str]:
    """Do what is due after a commit and may fail: checkpoints, old entries and states, modes of what engines wrote."""

    def checkpoint() -> None:
        table = snapshot.table
        if checkpoint_if_due(table.folder, snapshot.version, aside=table.hidden / CHECKPOINTING, disk=table.disk):
            keep_evidence(snapshot, now)  # first: it is made of the entries that may go
            _clean_log(snapshot, now)

    def clean_states() -> None:
        if snapshot.state is not None and snapshot.state.version == snapshot.version:
            remove_old_states(snapshot.table.states, snapshot.state)

    def clean_ranges() -> None:
        remove_other_ranges(snapshot.table, snapshot.ledger.ranges)

    def clean_holds() -> None:
        remove_other_holds(snapshot.table, snapshot.ledger.holds)

    def fit_refused() -> None:
        refused = snapshot.table.quarantine / quarantine_file(snapshot.ledger.clock or 0, "")
        if refused.is_dir():
            fit_files(refused, names_in(refused))

    def head() -> None:
        if snapshot.head is None or snapshot.head.entry != snapshot.hash:  # the commit could not write it
            with disk_errors(f"the head record of table {snapshot.table.name} cannot be written"):
                snapshot.with_head()

    steps = (
        head,
        checkpoint,
        clean_states,
        clean_ranges,
        clean_holds,
        fit_refused,
        lambda: checkpoint_quarantine(snapshot.table),
    )
    return [warning for step in steps for warning in warned(step)]


def keep_evidence(snapshot: Snapshot, now: datetime) -> None:
    """Write down in the evidence journal what the log says; drop what is older than the journal's own retention."""
    spec, kind = snapshot.spec, snapshot.spec.timeline.kind
    retention, clock = spec.evidence_retention, snapshot.ledger.clock

    def is_kept(line: Line) -> bool:
        if retention is None:
            return True
        if kind.has_wall_clock:
            return bool(line.facts["ms"] >= now.timestamp() * 1000 - kind.seconds(retention) * 1000)
        slot = line.facts.get("slot")  # none is before the first, or of another tool
        return clock is None or (slot is not None and slot >= clock - retention // spec.timeline.tick)

    table = snapshot.table
    with disk_errors("the evidence journal cannot be written", note="no log entry was removed"):
        bring_up_to_date(table.evidence, table.log, snapshot.version, disk=table.disk, is_kept=is_kept)


def _clean_log(snapshot: Snapshot, now: datetime) -> None:
    """Remove commits that are older than the log's retention and that the table itself does not need."""
    spec, ledger, kind = snapshot.spec, snapshot.ledger, snapshot.spec.timeline.kind
    if snapshot.state is None:
        return
    waiting = min((removal.version for removal in snapshot.removals()), default=snapshot.version)
    oldest_ms = now.timestamp() * 1000 - kind.seconds(spec.log_retention) * 1000
    oldest_slot = (ledger.clock or 0) - spec.log_retention // spec.timeline.tick

    def is_kept(entry: LogEntry) -> bool:
        if kind.has_wall_clock:
            return entry.timestamp_ms >= oldest_ms
        slot = entry.ebb.get("slot")
        return slot is not None and slot >= oldest_slot

    table = snapshot.table
    clean_log(
        table.log,
        needed_from=min(snapshot.state.version, waiting),
        is_kept=is_kept,
        announce=lambda version: keep_from(table.hidden, version, table.disk),
    )


def warned(work: Callable[[], object]) -> list[str]:
    """Do work that may fail after a commit; return what went wrong, whoever raised it."""
    try:
        work()
    except Exception as error:  # noqa: BLE001 - the commit is made: nothing that follows may make it look undone
        return [str(error) or type(error).__name__]
    return []
