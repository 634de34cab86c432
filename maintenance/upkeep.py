"""Retire, seal, purge and erase: what keeps files few and the deletion bound true.

Each is chosen by a pure plan and then done. An update runs what is due by itself; the commands run the same functions
on request.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ebb.index.cellfile import CellFile
from ebb.index.errors import EngineError
from ebb.index.ledger import Change
from ebb.index.strategy import Strategy
from ebb.maintenance.backup_care import Tended, tend
from ebb.maintenance.carry_out import carry_out, follow_up
from ebb.maintenance.context import Context
from ebb.maintenance.plan.change import Plan
from ebb.maintenance.plan.erase import ErasePlan, exposed_since, plan_erase
from ebb.maintenance.plan.upkeep import plan_purge, plan_seal
from ebb.warehouse.intake.quarantine import expire_refused
from ebb.warehouse.store.errors import disk_error, memory_errors
from ebb.warehouse.store.files import (
    folders_in,
    nearest_folder,
    refuse_links,
    remove_empty_folders,
    remove_empty_parents,
    remove_file,
    remove_folder,
    remove_tree,
    size_of,
)
from ebb.warehouse.store.lock import Lock
from ebb.warehouse.store.paths import CHECKPOINTING, is_data_file, side_file
from ebb.warehouse.table.catalog import remove_dropped
from ebb.warehouse.table.commit import remove_unfinished
from ebb.warehouse.table.leases import end_leases, live_leases, own_leases
from ebb.warehouse.table.snapshot import Snapshot

__all__ = [
    "Erasure",
    "Upkeep",
    "commit_upkeep",
    "erase",
    "erase_and_record",
    "erase_plan",
    "is_sealing",
    "purge",
    "seal",
]

_WHY_ENDED = "its files could not stay longer within the deletion bound of {}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """What a retirement, a seal or a purge did, or would do."""

    op: str
    slot: int
    cells_touched: int
    files_removed: int
    files_added: int
    bytes_written: int = 0
    exposed_since: int | None = None  # since when the oldest expired record in the removed files has been due to go
    seconds: float = 0.0
    version: int
    warnings: tuple[str, ...] = ()

    def entry(self) -> Mapping[str, Any]:
        """Return what the commit says about itself."""
        names = (
            "op", "slot", "cells_touched", "files_removed", "files_added", "bytes_written", "exposed_since", "seconds",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """What was deleted from disk, or would be.  A commit records it."""

    op: str = "erase"
    files_erased: int = 0
    bytes_erased: int = 0
    files_waiting: int = 0  # removed from the table, and within the grace period of readers
    files_leased: int = 0  # removed before that, and kept for readers with a lease
    leases_ended: int = 0  # that would have kept files beyond the deletion bound
    quarantine_files_erased: int = 0
    erased_version: int | None = None  # the last commit whose removed files are gone
    erased_ms: int | None = None  # when they were, in milliseconds since 1970
    backup_files_erased: int = 0  # from backups, because records in them have expired
    warnings: tuple[str, ...] = ()  # backups from which expired records could not be taken out

    def entry(self) -> Mapping[str, Any]:
        """Return what the commit after it says about it: nothing if nothing that a commit removed was erased."""
        if self.erased_version is None:
            return {}
        return {
            "erased_version": self.erased_version,
            "erased_files": self.files_erased,
            "erased_bytes": self.bytes_erased,
            **({} if self.erased_ms is None else {"erased_ms": self.erased_ms}),
        }


@memory_errors("the rewriting failed")
def commit_upkeep(snapshot: Snapshot, plan: Plan, context: Context, *, op: str) -> tuple[Snapshot, Upkeep]:
    """Carry out a plan that changes no answer as one commit; returns the table after it, and what was done.

    To Delta it is a change of data only if records go and none is written: that of a retirement. The others are left out
    by whoever follows the table.
    """
    started = time.monotonic()
    clock = snapshot.ledger.clock or 0
    planned = Upkeep(
        op=op,
        slot=clock,
        cells_touched=len(plan.cells_touched),
        files_removed=len(plan.removes),
        files_added=len(plan.rewrites),
        exposed_since=exposed_since(plan.removes, snapshot.spec.timeline, clock=clock),
        version=snapshot.version,
    )
    if plan.is_empty or context.dry_run:
        return snapshot, planned

    def written(adds: Sequence[CellFile]) -> Upkeep:
        return replace(
            planned,
            files_added=len(adds),
            bytes_written=sum(f.size_bytes for f in adds),
            seconds=round(time.monotonic() - started, 3),
        )

    def said(adds: Sequence[CellFile]) -> Mapping[str, Any]:
        entry = written(adds).entry()
        return {**entry, "phases": {"rewrite": entry["seconds"]} if plan.rewrites else {}}

    done = carry_out(
        snapshot,
        plan,
        context,
        clock=clock,
        change=Change(clock=snapshot.ledger.clock),
        data_change=op == "retire",
        report=said,
    )
    return done.snapshot, replace(written(done.added), version=done.snapshot.version, warnings=done.warnings)


def seal(snapshot: Snapshot, context: Context) -> tuple[Snapshot, Upkeep]:
    """Merge the runs of completed groups."""
    clock = snapshot.ledger.clock
    plan = Plan() if clock is None else plan_seal(snapshot.spec.grid, clock=clock, live=snapshot.files)
    return commit_upkeep(snapshot, plan, context, op="seal")


def purge(snapshot: Snapshot, context: Context, *, lag: int = 0) -> tuple[Snapshot, Upkeep]:
    """Rewrite the files that hold records expired for at least ``lag`` ticks, without any expired record."""
    clock = snapshot.ledger.clock
    plan = Plan() if clock is None else plan_purge(clock=clock, live=snapshot.files, lag=lag)
    return commit_upkeep(snapshot, plan, context, op="purge")


def is_sealing(snapshot: Snapshot) -> bool:
    """Whether updates of this table seal completed groups by themselves."""
    return snapshot.spec.strategy is Strategy.RETIRE


def erase_plan(snapshot: Snapshot, now: datetime) -> ErasePlan:
    """Return which removed files may be erased now.  Looks for leases after the snapshot was pinned, as it must be."""
    spec = snapshot.spec
    return plan_erase(
        snapshot.removals(),
        spec.timeline,
        grace_period=spec.reader_time,
        bound=spec.bound,
        clock=snapshot.ledger.clock,
        now=now,
        leases=live_leases(snapshot.table, now),
    )


def erase(snapshot: Snapshot, *, now: datetime, lock: Lock | None = None, dry_run: bool = False) -> Erasure:
    """Delete the files that were removed from the table before the grace period and that no lease keeps.

    Requires the writer's lock. If ``lock`` says that its last holder died, or is not given, the whole folder is looked
    through for what was left behind: a batch that is being staged looks like that.
    """
    table, spec = snapshot.table, snapshot.spec
    own_leases().settle(table)
    plan = erase_plan(snapshot, now)
    # Another tool may have brought a removed file back, and it may have been removed once more since.
    needed = {file.path for file in snapshot.files}
    needed.update(path for removal in plan.kept for path in removal.paths)
    doomed = [path for path in plan.paths if path not in needed]
    strays: Sequence[str] = ()
    try:
        if lock is None or not lock.is_in_order:
            strays = _strays(snapshot, plan)
        size_bytes = plan.size_bytes + sum(size_of(table.folder / path) for path in strays if is_data_file(path))
        if not dry_run:
            for path in doomed:
                refuse_links(str(table.folder), path)
            end_leases(table, plan.ended, _WHY_ENDED.format(spec.timeline.kind.show_duration(spec.bound)), now)
            for path in doomed:
                remove_file(table.folder / path)
                remove_file(table.folder / side_file(path))
                remove_empty_parents(table.folder, path)
            # What the next commit says is gone must not come back.
            table.disk.sync(nearest_folder(table.folder, path) for path in doomed)
            if lock is None or not lock.is_in_order:
                _sweep(snapshot, strays)
            remove_dropped(table.root)
    except OSError as error:
        what = f"files of table {table.name} cannot be erased"
        raise disk_error(error, what, note="the next update tries again") from error
    try:
        refused = _expire_refused(snapshot, now=now, dry_run=dry_run)
    except EngineError:
        if lock is not None:
            lock.is_in_order = False  # the quarantine may have a commit that is not on the disk
        raise
    if lock is not None and not dry_run:
        lock.is_in_order = True
    tended = Tended() if dry_run else tend(snapshot, now)
    return Erasure(
        erased_version=plan.through,
        files_erased=len(doomed) + sum(is_data_file(path) for path in strays),
        bytes_erased=size_bytes,
        files_waiting=plan.files_waiting,
        files_leased=plan.files_leased,
        leases_ended=len(plan.ended),
        quarantine_files_erased=refused,
        backup_files_erased=tended.files,
        warnings=tended.warnings,
    )


def _expire_refused(snapshot: Snapshot, *, now: datetime, dry_run: bool) -> int:
    """Remove refused records whose time is over; returns how many files."""
    if snapshot.ledger.clock is None:
        return 0
    through = snapshot.spec.quarantined_until(snapshot.ledger.clock)
    return expire_refused(snapshot.table, through=through, now_ms=int(now.timestamp() * 1000), dry_run=dry_run)


def _strays(snapshot: Snapshot, plan: ErasePlan) -> list[str]:
    """Return the files that no commit names which matters any more."""
    named = {file.path for file in snapshot.files}
    named.update(path for removal in (*plan.kept, *plan.erased) for path in removal.paths)
    named.update([side_file(path) for path in named])
    return [path for path in snapshot.table.all_files() if path not in named]


def _sweep(snapshot: Snapshot, strays: Sequence[str]) -> None:
    """Remove what killed runs left: files, folders, commits that were never finished."""
    folder = snapshot.table.folder
    for path in strays:
        remove_file(folder / path)
    remove_unfinished(snapshot.table.log)
    remove_tree(snapshot.table.hidden / CHECKPOINTING)
    used = {path.split("/", 1)[0] for path in snapshot.table.all_files()}
    for name in folders_in(folder):
        if name in used:
            remove_empty_folders(folder / name)
        elif not name.startswith("_") and not remove_folder(folder / name):
            # A Java process that outlived its killed run may still write there.
            raise OSError(errno.ENOTEMPTY, "a folder that was left behind cannot be removed", name)


def erase_and_record(snapshot: Snapshot, context: Context) -> Erasure:
    """Erase what may go and what was left behind, and record it in a commit of its own."""
    started = time.monotonic()
    done = erase(snapshot, now=context.wall(), dry_run=context.dry_run)
    done = done if context.dry_run else replace(done, erased_ms=context.now_ms())
    if done.erased_version is not None and not context.dry_run:
        change = Change(clock=snapshot.ledger.clock, erased_version=done.erased_version)
        seconds = round(time.monotonic() - started, 3)
        took = {"seconds": seconds, "phases": {"erase": seconds}}
        report = {"op": "erase", "slot": snapshot.ledger.clock, **done.entry(), **took}
        after = snapshot.commit(
            adds=(), removes=(), change=change, report=report, data_change=False, now_ms=context.now_ms()
        )
        follow_up(after, context.wall())
    return done
