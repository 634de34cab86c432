"""Seal, purge and erase: what keeps files few and the deletion bound true.

Each is chosen by a pure plan and then done. An update runs what is due by itself; the commands run the same functions
on request.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ebb.index.cellfile import CellFile
from ebb.index.errors import EngineError
from ebb.index.strategy import Strategy
from ebb.maintenance.carry_out import carry_out
from ebb.maintenance.context import Context
from ebb.maintenance.plan.change import Plan
from ebb.maintenance.plan.upkeep import plan_purge, plan_seal
from ebb.warehouse.intake.quarantine import expire_refused
from ebb.warehouse.store.files import folders_in, remove_empty_folders, remove_file, remove_folder, size_of
from ebb.warehouse.store.paths import side_file
from ebb.warehouse.table.commit import remove_unfinished
from ebb.warehouse.table.snapshot import Snapshot

__all__ = [
    "Erasure",
    "Upkeep",
    "erase",
    "is_sealing",
    "oldest_expired",
    "purge",
    "rewrite_and_commit",
    "seal",
    "waiting_files",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """What a seal or a purge did, or would do."""

    op: str
    slot: int
    cells_touched: int
    files_removed: int
    files_added: int
    bytes_written: int = 0
    oldest_expired: int | None = None  # the first slot whose expired records were in the removed files
    seconds: float = 0.0
    version: int
    warnings: tuple[str, ...] = ()

    def entry(self) -> Mapping[str, Any]:
        """Return what the commit says about itself."""
        names = (
            "op", "slot", "cells_touched", "files_removed", "files_added", "bytes_written", "oldest_expired", "seconds",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """What was deleted from disk, or would be."""

    op: str = "erase"
    files_erased: int
    bytes_erased: int
    files_waiting: int  # removed from the table, and within the grace period of readers
    quarantine_files_erased: int


def rewrite_and_commit(snapshot: Snapshot, plan: Plan, context: Context, *, op: str) -> tuple[Snapshot, Upkeep]:
    """Carry out a plan that changes no answer as one commit; returns the table after it, and what was done."""
    started = time.monotonic()
    clock = snapshot.ledger.clock or 0
    planned = Upkeep(
        op=op,
        slot=clock,
        cells_touched=len(plan.cells_touched),
        files_removed=len(plan.removes),
        files_added=len(plan.rewrites),
        oldest_expired=oldest_expired(plan.removes, clock),
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

    done = carry_out(
        snapshot,
        plan,
        context,
        clock=clock,
        ledger=snapshot.ledger,
        data_change=False,
        report=lambda adds: written(adds).entry(),
    )
    return done.snapshot, replace(written(done.added), version=done.snapshot.version, warnings=done.warnings)


def oldest_expired(files: tuple[CellFile, ...], clock: int) -> int | None:
    """Return the first slot whose expired records are in these files."""
    return min((f.min_exp for f in files if f.has_expired(clock)), default=None)


def seal(snapshot: Snapshot, context: Context) -> tuple[Snapshot, Upkeep]:
    """Merge the runs of completed groups."""
    clock = snapshot.ledger.clock
    plan = Plan() if clock is None else plan_seal(snapshot.spec.grid, clock=clock, live=snapshot.files)
    return rewrite_and_commit(snapshot, plan, context, op="seal")


def purge(snapshot: Snapshot, context: Context, *, lag: int = 0) -> tuple[Snapshot, Upkeep]:
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


def erase(snapshot: Snapshot, *, now: datetime, dry_run: bool = False) -> Erasure:
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
        step = "check the permissions of its folder; the next update tries again"
        raise EngineError(f"files of table {snapshot.table.name} cannot be erased", error, step) from error
    refused = 0
    line = snapshot.spec.timeline
    if snapshot.ledger.clock is not None and not dry_run:
        through = snapshot.ledger.clock - max(0, snapshot.spec.quarantine_time // line.tick - 1)
        refused = expire_refused(snapshot.table, through=through, now_ms=int(now.timestamp() * 1000))
    return Erasure(
        files_erased=len(gone),
        bytes_erased=erased_bytes,
        files_waiting=len(waiting),
        quarantine_files_erased=refused,
    )


def _remove_folders(snapshot: Snapshot, kept: Collection[str]) -> None:
    """Remove the folders of commits that keep no file, and the empty ones in those that do."""
    for name in folders_in(snapshot.table.folder):
        if name in kept:
            remove_empty_folders(snapshot.table.folder / name)
        elif not name.startswith("_"):
            # What a killed run left may still be written to by a Java process that outlived it.
            remove_folder(snapshot.table.folder / name)
