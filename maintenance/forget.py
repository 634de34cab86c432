"""Forgetting records: they leave the table now, and the disk within a time.

It is one commit that changes no other record: whoever follows the table's log leaves it out, and ``ebb changes`` tells it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from ebb.index.cellfile import CellFile, Chosen
from ebb.index.ledger import Change
from ebb.index.places import dump_places
from ebb.index.timeline import TimeKind, Timeline
from ebb.maintenance.ask import Ask, check_share
from ebb.maintenance.backup_care import tended_after
from ebb.maintenance.backup_place import mark_stale
from ebb.maintenance.carry_out import carry_out, warned
from ebb.maintenance.context import Context
from ebb.maintenance.copies import Found, opened_copies
from ebb.maintenance.keep import check_not_held, keep_arrivals, opened_window
from ebb.maintenance.plan.change import Plan
from ebb.maintenance.plan.erase import exposed_since, gone_later
from ebb.maintenance.plan.records import counts_of, plan_forget
from ebb.maintenance.upkeep import Erasure, erase, erase_and_record, erase_plan
from ebb.warehouse.read.choose import choose
from ebb.warehouse.store.errors import disk_errors
from ebb.warehouse.store.files import is_there
from ebb.warehouse.table.cellfiles import file_on_disk
from ebb.warehouse.table.leases import live_leases
from ebb.warehouse.table.snapshot import Snapshot, Table

__all__ = ["Forgotten", "forget"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """What was forgotten, or would be.  Without a commit there was nothing."""

    name: str
    op: str = "forget"
    slot: int | None
    case: str | None
    by: str
    records: int = 0  # that were live
    expired_records: int = 0  # that had expired and were still in a file of the table
    removed_records: int = 0  # in files that had been removed from the table, and now go sooner from the disk
    quarantined_records: int = 0
    landed_files: tuple[str, ...] = ()  # copies in the landing folder, applied and refused ones
    cells_touched: int = 0
    files_removed: int = 0
    files_added: int = 0
    bytes_written: int = 0
    exposed_since: int | None = None
    erase_by: str | None = None  # when every byte is gone, if the table is updated every tick
    erased_files: int = 0
    is_committed: bool = False
    version: int
    seconds: float = 0.0
    dry_run: bool = False
    warnings: tuple[str, ...] = field(default=())

    @property
    def is_nothing(self) -> bool:
        """Whether nothing was found anywhere."""
        found = (self.records, self.expired_records, self.removed_records, self.quarantined_records, self.landed_files)
        return not any(found)

    def entry(self) -> Mapping[str, Any]:
        """Return what the commit says about itself."""
        names = (
            "slot", "records", "expired_records", "removed_records", "quarantined_records", "cells_touched", "files_removed", "files_added",
            "bytes_written", "exposed_since", "seconds",
        )  # fmt: skip
        return {**{name: getattr(self, name) for name in names}, "landed_files": len(self.landed_files)}


def forget(table: Table, ask: Ask, context: Context, *, within: int | None = None, yes: bool = False) -> Forgotten:
    """Remove records now: reads hide them from this commit on, and their bytes go within a time.

    Whatever else holds them goes too, before the commit: refused records, and files that a landing folder keeps. So
    who finds the commit in the log finds nothing else. ``within``: in the unit of the time columns; by default the grace
    period and a tick, so that no reader loses a file. ``yes``: also more than half of the live records by a condition.
    """
    with ExitStack() as held:
        copies = held.enter_context(opened_copies(table, context))
        lock = held.enter_context(table.lock(wait=context.wait))
        work = _Forgetting(table.snapshot(), ask, context, within, time.monotonic())
        # What killed processes left may hold the records, and what is due to go may wait for a request that was killed.
        erased = Erasure() if context.dry_run else erase(work.snapshot, now=context.wall(), lock=lock)
        erased = erased if context.dry_run else replace(erased, erased_ms=context.now_ms())
        context.progress("looking for the records")
        chosen, found = work.chosen(), copies.holding(work.snapshot, ask.choice(opened_window(work.snapshot)))
        planned = work.planned(chosen, found)
        if context.dry_run or planned.is_nothing:
            return planned
        check_share("forget", planned.records, work.snapshot, is_asked=yes or ask.where is None)

        def remove() -> None:
            mark_stale(table, work.snapshot.version + 1)
            copies.remove(found, context.now_ms())

        after, done = work.committed(chosen, planned, erased, remove)
        done = _erased_at_once(after, done, context)
        kept = warned(lambda: keep_arrivals(table.snapshot(), context))  # so that backups can be made anew
        return replace(done, warnings=(*done.warnings, *kept, *tended_after(after, context)))


@dataclass(frozen=True, slots=True)
class _Forgetting:
    """One request to forget records."""

    snapshot: Snapshot
    ask: Ask
    context: Context
    within: int | None
    started: float

    def chosen(self) -> list[Chosen]:
        """Return where the records are in live files, whether they have expired or not."""
        window = opened_window(self.snapshot)
        chosen = choose(window, self.snapshot.files, self.ask.choice(window))
        check_not_held("forgotten", window, chosen)
        return chosen

    def removed(self) -> int:
        """Return how many of them are in files that were removed before and would be erased too late."""
        spec, table = self.snapshot.spec, self.snapshot.table
        is_read = bool(live_leases(table, self.context.now))  # then they may be kept for longer
        if (self.within is None or self.within >= spec.reader_time + spec.timeline.tick) and not is_read:
            return 0  # these go before, after their grace period
        window, by = opened_window(self.snapshot), min(self.deadline().values())
        late = gone_later(erase_plan(self.snapshot, self.context.now).kept, by)
        with disk_errors(f"removed files of table {table.name} cannot be looked into"):
            paths = (path for removal in late for path in removal.paths if is_there(table.folder / path))
            files = [file_on_disk(table.folder, path) for path in paths]
        return sum(some.records for some in choose(window, files, self.ask.choice(window)))

    def deadline(self) -> dict[str, int]:
        """Return when the bytes of what has been removed must be gone, as the commit says it."""
        spec, line = self.snapshot.spec, self.snapshot.spec.timeline
        span = spec.reader_time + line.tick if self.within is None else self.within
        if line.kind.has_wall_clock:
            return {"erase_by_ms": self.context.now_ms() + int(line.kind.seconds(span) * 1000)}
        return {"erase_by_slot": (self.snapshot.ledger.clock or 0) - (-span // line.tick)}

    def plan(self, chosen: Sequence[Chosen]) -> Plan:
        """Return what becomes of the files."""
        return plan_forget(chosen, clock=self.snapshot.ledger.clock or 0)

    def planned(self, chosen: Sequence[Chosen], found: Found) -> Forgotten:
        """Return the report before anything is done."""
        plan, clock = self.plan(chosen), self.snapshot.ledger.clock
        return Forgotten(
            name=self.snapshot.table.name,
            slot=clock,
            case=self.ask.case,
            by=self.ask.by,
            records=counts_of(chosen).total(),
            expired_records=sum(some.expired for some in chosen),
            removed_records=self.removed(),
            quarantined_records=found.quarantined,
            landed_files=tuple(path.name for path in found.landed),
            cells_touched=len(plan.cells_touched),
            files_removed=len(plan.removes),
            files_added=len(plan.rewrites),
            exposed_since=exposed_since(plan.removes, self.snapshot.spec.timeline, clock=clock or 0),
            version=self.snapshot.version,
            dry_run=self.context.dry_run,
        )

    def committed(
        self,
        chosen: Sequence[Chosen],
        planned: Forgotten,
        erased: Erasure,
        remove: Callable[[], None],
    ) -> tuple[Snapshot, Forgotten]:
        """Make the commit; ``remove`` removes the copies just before it."""
        plan, clock, line = self.plan(chosen), self.snapshot.ledger.clock, self.snapshot.spec.timeline
        places = {some.file.path: some.places for some in chosen}
        where = {"places": dump_places([file.path for file in plan.removes], places)} if places else {}
        deadline = self.deadline() if places or planned.removed_records else {}
        planned = replace(planned, erase_by=_shown(line, deadline) if deadline else None)

        def written(adds: Sequence[CellFile]) -> Forgotten:
            size_bytes, seconds = sum(file.size_bytes for file in adds), round(time.monotonic() - self.started, 3)
            return replace(planned, files_added=len(adds), bytes_written=size_bytes, seconds=seconds)

        def said(adds: Sequence[CellFile]) -> Mapping[str, Any]:
            report = written(adds)
            phases = {"phases": {"rewrite": report.seconds}} if plan.rewrites else {}
            return {**self.ask.said("forget"), **report.entry(), **deadline, **where, **phases, **erased.entry()}

        arrivals = {slot: -count for slot, count in counts_of(chosen).items()}
        done = carry_out(
            self.snapshot,
            plan,
            self.context,
            clock=clock or 0,
            change=Change(clock=clock, arrivals=arrivals, erased_version=erased.erased_version),
            data_change=False,
            report=said,
            prepare=remove,
        )
        version, warnings = done.snapshot.version, done.warnings
        return done.snapshot, replace(written(done.added), version=version, is_committed=True, warnings=warnings)


def _shown(line: Timeline, deadline: Mapping[str, int]) -> str:
    slot = deadline.get("erase_by_slot")
    return line.show_slot(slot) if slot is not None else TimeKind.TIMESTAMP.show_time(deadline["erase_by_ms"] * 1000)


def _erased_at_once(after: Snapshot, done: Forgotten, context: Context) -> Forgotten:
    """Erase what may be late when somebody looks next; what fails is a warning, because the commit is made."""
    late = replace(context, now=context.wall())
    erased: list[Erasure] = []

    def work() -> None:
        plan = erase_plan(after, late.now)
        if plan.through == after.version:
            erased.append(erase_and_record(after, late))

    failures = warned(work)
    files = sum(one.files_erased for one in erased)
    return replace(done, erased_files=files, warnings=(*done.warnings, *failures))
