"""Seal, purge and erase: what keeps files few and the deletion bound true.

Each is chosen by a pure plan and then done. An update runs what is due by itself; the commands run the same functions
on request.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from ebb.index.cellfile import CellFile
from ebb.index.strategy import Strategy
from ebb.maintenance.carry_out import carry_out
from ebb.maintenance.context import Context
from ebb.maintenance.plan.change import Plan
from ebb.maintenance.plan.upkeep import plan_purge, plan_seal
from ebb.warehouse.intake.quarantine import expire_refused
from ebb.warehouse.store.errors import disk_error
from ebb.warehouse.store.files import folders_in, remove_empty_folders, remove_file, remove_folder, size_of
from ebb.warehouse.store.paths import side_file
from ebb.warehouse.table.commit import remove_unfinished
from ebb.warehouse.table.snapshot import Snapshot

__all__ = ["erase", "is_sealing", "oldest_expired", "purge", "rewrite_and_commit", "seal", "waiting_files"]


def rewrite_and_commit(snapshot: Snapshot, plan: Plan, context: Context, *, op: str) -> tuple[Snapshot, dict[str, Any]]:
    """Carry out a plan that changes no answer as one commit; returns the table after it, and its report."""
    started = time.monotonic()
    clock = snapshot.ledger.clock or 0
    said: dict[str, Any] = {
        "op": op,
        "slot": clock,
        "cells_touched": len(plan.cells_touched),
        "files_removed": len(plan.removes),
        "files_added": len(plan.rewrites),
        "bytes_written": 0,
        "oldest_expired": oldest_expired(plan.removes, clock),
        "seconds": 0.0,
    }
    if plan.is_empty or context.dry_run:
        return snapshot, said | {"version": snapshot.version, "warnings": []}

    def report(adds: Sequence[CellFile]) -> dict[str, Any]:
        said["files_added"] = len(adds)
        said["bytes_written"] = sum(f.size_bytes for f in adds)
        said["seconds"] = round(time.monotonic() - started, 3)
        return said

    done = carry_out(snapshot, plan, context, clock=clock, ledger=snapshot.ledger, data_change=False, report=report)
    return done.snapshot, said | {"version": done.snapshot.version, "warnings": list(done.warnings)}


def oldest_expired(files: tuple[CellFile, ...], clock: int) -> int | None:
    """Return the first slot whose expired records are in these files."""
    return min((f.min_exp for f in files if f.has_expired(clock)), default=None)


def seal(snapshot: Snapshot, context: Context) -> tuple[Snapshot, dict[str, Any]]:
    """Merge the runs of completed groups."""
    clock = snapshot.ledger.clock
    plan = Plan() if clock is None else plan_seal(snapshot.spec.grid, clock=clock, live=snapshot.files)
    return rewrite_and_commit(snapshot, plan, context, op="seal")


def purge(snapshot: Snapshot, context: Context, *, lag: int = 0) -> tuple[Snapshot, dict[str, Any]]:
    """Rewrite the files that hold records expired for at least ``lag`` ticks, without any expired record."""
    clock = snapshot.ledger.clock
    plan = Plan() if clock is None else plan_purge(clock=clock, live=snapshot.files, lag=lag)
    return rewrite_and_commit(snapshot, plan, context, op="purge")


def is_sealing(snapshot: Snapshot) -> bool:
    """Whether updates of this table seal completed groups by themselves."""
    return snapshot.spec.strategy is Strategy.RETIRE


def waiting_files(snapshot: Snapshot, now: datetime) -> tuple[frozenset[str], frozenset[str]]:
    """Return the files that were removed from the table but not yet for the readers' time, and all others removed."""
    spec, clock = snapshot.spec, snapshot.ledger.clock or 0
    kind = spec.timeline.kind
    reader_ticks = -(-spec.reader_time // spec.timeline.tick)
    recent: set[str] = set()
    for entry in snapshot.table.entries(snapshot.version):
        if kind.has_wall_clock:
            is_over = now.timestamp() - entry.timestamp_ms / 1000 >= kind.seconds(spec.reader_time)
        else:
            is_over = entry.ebb.get("slot", clock) + reader_ticks <= clock
        if is_over:
            break
        recent.update(entry.removed)
    live = {f.path for f in snapshot.files}
    other = {path for path in snapshot.table.data_files() if path not in live}
    return frozenset(other & recent), frozenset(other - recent)


def erase(snapshot: Snapshot, *, now: datetime, dry_run: bool = False) -> dict[str, Any]:
    """Delete the files that no version within the readers' time names, and what killed runs left behind.

    Requires the writer's lock: a batch that is being staged looks like one that was left behind.
    """
    waiting, gone = waiting_files(snapshot, now)
    folder = snapshot.table.folder
    try:
        erased_bytes = sum(size_of(folder / path) for path in gone)
        if not dry_run:
            for path in sorted(gone):
                remove_file(folder / path)
            kept = [*waiting, *(f.path for f in snapshot.files)]
            for path in set(snapshot.table.side_files()) - {side_file(path) for path in kept}:
                remove_file(folder / path)  # what the directory knew of a file goes with the file
            remove_unfinished(snapshot.table.log)
            _remove_folders(snapshot, {path.split("/", 1)[0] for path in kept})
    except OSError as error:
        what, note = f"files of table {snapshot.table.name} cannot be erased", "the next update tries again"
        raise disk_error(error, what, note=note) from error
    refused = 0
    line = snapshot.spec.timeline
    if snapshot.ledger.clock is not None and not dry_run:
        through = snapshot.ledger.clock - max(0, snapshot.spec.quarantine_time // line.tick - 1)
        refused = expire_refused(snapshot.table, through=through, now_ms=int(now.timestamp() * 1000))
    return {
        "op": "erase",
        "files_erased": len(gone),
        "bytes_erased": erased_bytes,
        "files_waiting": len(waiting),
        "quarantine_files_erased": refused,
    }


def _remove_folders(snapshot: Snapshot, kept: Collection[str]) -> None:
    """Remove the folders of commits that keep no file, and the empty ones in those that do."""
    for name in folders_in(snapshot.table.folder):
        if name in kept:
            remove_empty_folders(snapshot.table.folder / name)
        elif not name.startswith("_"):
            # What a killed run left may still be written to by a Java process that outlived it.
            remove_folder(snapshot.table.folder / name)
