"""Repairing a table: only what can be derived again without a guess.

Caches are written anew from the files that they tell of, files that nobody needs are removed, a checkpoint is made again from
the log, and a lost head record is written again once somebody has confirmed that the log is whole. Everything else stays as it
is, with the reason: whoever guesses about records or commits makes a loss look like an answer.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ebb.index.errors import WarehouseError
from ebb.index.ledger import Change
from ebb.maintenance.carry_out import follow_up
from ebb.maintenance.context import Context
from ebb.maintenance.inspect.check import look
from ebb.maintenance.inspect.findings import REPAIRABLE, Finding
from ebb.maintenance.upkeep import erase_and_record
from ebb.warehouse.check.log import look_at_log
from ebb.warehouse.parquet.datafile import DataFile
from ebb.warehouse.ranges import changed_ranges, remove_other_ranges
from ebb.warehouse.store.errors import disk_errors
from ebb.warehouse.store.files import remove_file
from ebb.warehouse.store.paths import CHECKPOINTING, RANGES, side_file
from ebb.warehouse.table.checkpoint import remove_checkpoint, write_checkpoint
from ebb.warehouse.table.snapshot import Snapshot, Table

__all__ = ["Repaired", "repair"]

_ROUNDS = 3  # what is repaired may show more
_HEAD = "head"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """What was repaired, or would be, and what was left."""

    name: str
    version: int | None
    fixed: tuple[Finding, ...]
    left: tuple[Finding, ...]
    dry_run: bool
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()


def repair(table: Table, context: Context, *, confirm_restore: bool = False) -> Repaired:
    """Repair what needs no guess; ``confirm_restore``: somebody says that the log is whole as it is."""
    started = time.monotonic()
    can_be_fixed = REPAIRABLE | ({_HEAD} if confirm_restore else frozenset())
    fixed: list[Finding] = []
    warnings: list[str] = []
    with table.lock(wait=context.wait, is_foreign_fine=True) as lock:
        snapshot, found = look(table, context.now, is_writer=True, progress=context.progress)
        if snapshot is not None:
            snapshot.check_features()
            if not context.dry_run and (refused := snapshot.spec.unconfirmed):
                raise refused
        for _ in range(_ROUNDS):
            todo = [one for one in found if one.code in can_be_fixed and one not in fixed]
            if not todo:
                break
            fixed += todo
            if context.dry_run:
                found = [one for one in found if one not in todo]
                break
            context.progress(f"repairing {len(todo)} findings")
            warnings += _fix(table, snapshot, todo, context)
            snapshot, found = look(table, context.now, is_writer=True, progress=context.progress)
        if not context.dry_run and any(one.code == "stray-file" for one in fixed):
            lock.is_in_order = True
    return Repaired(
        name=table.name,
        version=snapshot.version if snapshot else None,
        fixed=tuple(one for one in fixed if one not in found),
        left=tuple(found),
        dry_run=context.dry_run,
        seconds=round(time.monotonic() - started, 3),
        warnings=tuple(warnings),
    )


def _fix(table: Table, snapshot: Snapshot | None, todo: Sequence[Finding], context: Context) -> list[str]:
    """Repair everything in the order in which one thing needs the other; returns what went wrong on the way."""
    codes = {one.code for one in todo}
    if "checkpoint" in codes:
        _fix_checkpoint(table)
    if snapshot is None:
        return []
    warnings: list[str] = []
    if _HEAD in codes or "head-place" in codes:
        with disk_errors(f"the head record of table {table.name} cannot be written"):
            snapshot = snapshot.with_head(is_confirmed=_HEAD in codes)
    _fix_side_files(snapshot, {one.path for one in todo if one.code == "side-file"})
    if lost := {Path(one.where).name for one in todo if one.code == "key-ranges"}:
        snapshot, warnings = _fix_ranges(snapshot, lost, context)
    if "stray-file" in codes:
        with disk_errors(f"files of table {table.name} cannot be removed"):
            remove_other_ranges(table, snapshot.ledger.ranges)
        if any(not one.where.startswith(f"_ebb/{RANGES}") for one in todo if one.code == "stray-file"):
            erase_and_record(snapshot, context)
    return warnings


def _fix_side_files(snapshot: Snapshot, paths: set[str | None]) -> None:
    folder = str(snapshot.table.folder)
    for file in snapshot.files:
        if file.path in paths:
            with disk_errors(f"the side file of {file.path} cannot be written"):
                remove_file(f"{folder}/{side_file(file.path)}")
            DataFile.look_up(folder, file)  # which writes it again


def _fix_ranges(snapshot: Snapshot, lost: set[str], context: Context) -> tuple[Snapshot, list[str]]:
    """Drop objects with key ranges and write others for their files, in a commit of its own."""
    ranges = changed_ranges(snapshot, adds=(), removes=(), lost=lost)
    clock = snapshot.ledger.clock
    after = snapshot.commit(
        adds=(),
        removes=(),
        change=Change(clock=clock, ranges_added=ranges.added, ranges_dropped=ranges.dropped),
        report={"op": "repair", "slot": clock},
        data_change=False,
        now_ms=context.now_ms(),
    )
    return after, follow_up(after, context.wall())


def _fix_checkpoint(table: Table) -> None:
    """Write a checkpoint from the log; one that cannot be read goes first, if the entries reach behind it."""
    log = look_at_log(table)
    bad = log.damaged_checkpoint
    if bad is not None:
        is_whole = not log.missing and not log.damaged
        before = [0, *(version for version in log.checkpoints if version < bad)]
        if not is_whole or not any(version >= log.oldest for version in before):
            return  # without it the table cannot be opened at all
        remove_checkpoint(table.log, bad)
    with suppress(WarehouseError):  # what is wrong with the table otherwise is told by the next look
        aside = table.hidden / CHECKPOINTING
        write_checkpoint(table.folder, log.newest, aside=aside, disk=table.disk)
