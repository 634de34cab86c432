"""Holds: records that a case keeps on disk although they expire, until it is released.

Reads hide them when they expire, as ever. They lie in held files, so that their cohort retires without them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from ebb.index.cellfile import CellFile
from ebb.index.errors import InputError, UsageError
from ebb.index.features import Features
from ebb.index.holds import Hold
from ebb.index.ledger import Change
from ebb.index.timeline import Timeline
from ebb.maintenance.ask import Ask
from ebb.maintenance.backup_care import tended_after
from ebb.maintenance.backup_place import mark_stale
from ebb.maintenance.context import Context
from ebb.maintenance.keep import commit_move, covered, opened_window
from ebb.maintenance.plan.records import Release, counts_of, plan_hold, plan_release
from ebb.warehouse.holds import read_holds, write_hold
from ebb.warehouse.read.choose import choose, expiry_slots, records_at
from ebb.warehouse.read.window import Window
from ebb.warehouse.table.snapshot import Snapshot, Table

__all__ = ["HeldCase", "HeldRecords", "Holding", "held_cases", "held_records", "hold", "release"]

_FEATURE = "holds"  # writers must know that held files are nobody's to seal, purge or retire


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What a case holds from now on, or holds no longer; or would."""

    name: str
    op: str  # hold or release
    case: str
    by: str
    slot: int | None
    arrivals: bool
    records: int = 0  # that it holds; of a release, those that nobody holds any more
    expired: int = 0  # of a release: how many of these have expired, and leave the table
    files_removed: int = 0
    files_added: int = 0
    is_committed: bool = False
    version: int
    dry_run: bool = False
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldCase:
    """A case, and how many records it holds."""

    case: str
    by: str
    slot: int
    time: str  # of the slot: since when
    arrivals: bool
    keys: int  # how many it is about; 0 if it is about a condition, or all
    where: str | None
    live: int
    expired: int  # records that are there for this case, or others, alone


@dataclass(frozen=True, slots=True)
class HeldRecords:
    """The records that a case holds, or all that are held, whether they have expired or not."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


def hold(table: Table, ask: Ask, context: Context, *, arrivals: bool | None) -> Holding:
    """Keep live records on disk until the case is released.

    The same request again finds it done. ``arrivals``: also those that come later; a condition must say so or not.
    """
    if ask.case is None:
        msg = "a hold needs the case that it is for"
        raise UsageError(msg, "name it", hint="case")
    if arrivals is None and not ask.keys:
        msg = "a hold by a condition, or of everything, covers what arrives later or does not"
        raise UsageError(msg, "say which", hint="arrivals")
    with table.lock(wait=context.wait):
        snapshot = table.snapshot()
        clock = snapshot.ledger.clock
        if clock is None:
            msg = f"table {table.name} has not been loaded, so nothing can be held"
            raise InputError(msg, "load it first")
        window = opened_window(snapshot)
        choice = replace(ask.choice(window), live_at=clock)  # checks what is asked
        wish = Hold(
            case=ask.case,
            by=ask.by,
            slot=clock,
            arrivals=bool(arrivals),
            keys=Hold.codes(ask.keys),
            where=ask.where,
        )
        done = Holding(
            name=table.name, op="hold", case=wish.case, by=wish.by, slot=clock, arrivals=wish.arrivals,
            version=snapshot.version, dry_run=context.dry_run,
        )  # fmt: skip
        if (known := _known(snapshot, ask.case)) is not None:
            if known.is_same(wish):
                return done
            msg = f"case {ask.case} of table {table.name} holds other records already"
            raise InputError(msg, "release it, or choose another name")
        context.progress("looking for the records")
        chosen = choose(window, snapshot.files, choice)
        plan = plan_hold(chosen, clock=clock)
        done = replace(
            done,
            records=counts_of(chosen).total(),
            files_removed=len(plan.removes),
            files_added=len(plan.rewrites),
        )
        if context.dry_run or not (chosen or wish.arrivals):
            return done
        snapshot = _with_feature(snapshot, context)
        name = write_hold(table, wish)
        entry = {**ask.said("hold", arrivals=wish.arrivals), "records": done.records}
        made = commit_move(snapshot, plan, context, Change(clock=clock, holds_added=(name,)), entry)
        files, version = len(made.added), made.snapshot.version
        return replace(done, files_added=files, version=version, is_committed=True, warnings=made.warnings)


def _known(snapshot: Snapshot, case: str) -> Hold | None:
    return next((hold for found, hold in read_holds(snapshot) if found.case == case), None)


def _with_feature(snapshot: Snapshot, context: Context) -> Snapshot:
    """Make sure that no older Ebb writes to the table: it would let held records go."""
    spec = snapshot.spec
    if _FEATURE in spec.features.writer:
        return snapshot
    features = Features(reader=spec.features.reader, writer=tuple(sorted({*spec.features.writer, _FEATURE})))
    about = dict(snapshot.metadata)
    about["configuration"] = {**about["configuration"], **replace(spec, features=features).properties()}
    snapshot.commit_metadata(about, {"op": "alter", "slot": snapshot.ledger.clock}, context.now_ms())
    return snapshot.table.snapshot()


def release(table: Table, case: str, context: Context, *, by: str) -> Holding:
    """End a hold: what no other case holds goes back to its cells if it is live, and otherwise leaves the table."""
    with table.lock(wait=context.wait):
        snapshot = table.snapshot()
        holds = read_holds(snapshot)
        mine = next((pair for pair in holds if pair[0].case == case), None)
        if mine is None:
            cases = ", ".join(found.case for found, _ in holds)
            msg = f"table {table.name} has no hold for case {case}"
            raise InputError(msg, f"it has {cases}" if cases else "it has none")
        found, clock = mine[0], snapshot.ledger.clock or 0
        window = opened_window(snapshot)
        context.progress("looking for the records")
        releases = _releases(window, [hold for other, hold in holds if other != found])
        plan = plan_release(snapshot.spec.grid, releases, clock=clock)
        done = Holding(
            name=table.name,
            op="release",
            case=case,
            by=by,
            slot=clock,
            arrivals=mine[1].arrivals,
            records=sum(one.records for one in releases),
            expired=sum(one.expired for one in releases),
            files_removed=len(plan.removes),
            files_added=len(plan.rewrites),
            version=snapshot.version,
            dry_run=context.dry_run,
        )
        if context.dry_run:
            return done
        change = Change(clock=snapshot.ledger.clock, holds_dropped=(found.name,))
        entry = {"op": "release", "case": case, "by": by, "records": done.records, "expired_records": done.expired}
        # Until now they had to be there: they are due to go from now on.
        line = snapshot.spec.timeline
        now = line.kind.from_datetime(context.wall()) if line.kind.has_wall_clock else line.end_of(clock)
        made = commit_move(
            snapshot,
            plan,
            context,
            change,
            entry,
            due=_due(now, releases, line),
            prepare=lambda: mark_stale(table, snapshot.version + 1),  # held records stay in backups until then
        )
        files, version = len(made.added), made.snapshot.version
        warnings = (*made.warnings, *tended_after(made.snapshot, context))
        return replace(done, files_added=files, version=version, is_committed=True, warnings=warnings)


def _due(now: int, releases: Sequence[Release], line: Timeline) -> dict[str, int | None]:
    """Return from when on released records are due to go: now if one has expired, and otherwise when the first expires."""
    exposed = now if any(one.expired for one in releases) else None
    later = min((line.end_of(one.first) for one in releases if one.first is not None), default=now)
    return {"exposed_since": exposed, "due_from": later if exposed is None else exposed}


def _releases(window: Window, others: Sequence[Hold]) -> list[Release]:
    """Return what becomes of the held files with records that none of the other holds keeps."""
    files = [file for file in window.snapshot.files if file.cell.is_held]
    kept: dict[str, dict[int, Any]] = {}
    for other in others:
        for some in covered(window, other, files):
            mine = kept.setdefault(some.file.path, {})
            mine.update({number: np.union1d(mine.get(number, ()), there) for number, there in some.places.items()})
    found = (_release(window, file, kept.get(file.path, {})) for file in files)
    return [one for one in found if one.records]


def _release(window: Window, file: CellFile, kept: Mapping[int, Any]) -> Release:
    cohorts, clock = window.snapshot.spec.grid.cohorts, window.clock or 0
    live: dict[int, dict[int, Any]] = {}
    records = expired = 0
    first: int | None = None
    for number, slots in expiry_slots(window, file).items():
        left = np.setdiff1d(np.arange(len(slots)), np.asarray(kept.get(number, ()), np.int64))
        records += len(left)
        expired += int(np.count_nonzero(slots[left] <= clock))
        for slot in np.unique(slots[left]).tolist():
            if slot > clock:
                first = slot if first is None else min(first, slot)
                mine = live.setdefault(cohorts.partition(slot), {})
                mine[number] = np.union1d(mine.get(number, np.zeros(0, np.int64)), left[slots[left] == slot])
    return Release(file=file, kept=dict(kept), live=live, records=records, expired=expired, first=first)


def held_cases(snapshot: Snapshot) -> tuple[HeldCase, ...]:
    """Return the cases of a table, the oldest first, and how many records each holds.  Reads held files."""
    window, line = opened_window(snapshot), snapshot.spec.timeline
    cases = []
    for _, found in read_holds(snapshot):
        chosen = covered(window, found, snapshot.files)
        cases.append(
            HeldCase(
                case=found.case,
                by=found.by,
                slot=found.slot,
                time=line.show_slot(found.slot),
                arrivals=found.arrivals,
                keys=len(found.keys),
                where=found.where,
                live=counts_of(chosen).total(),
                expired=sum(some.expired for some in chosen),
            )
        )
    return tuple(cases)


def held_records(window: Window, case: str | None, columns: Sequence[str] | None = None) -> HeldRecords:
    """Return the records that a case holds, or all that are held, in no particular order."""
    snapshot, names = window.snapshot, window.names(columns)
    holds = [hold for found, hold in read_holds(snapshot) if case in (None, found.case)]
    if case is not None and not holds:
        msg = f"table {snapshot.table.name} has no hold for case {case}"
        raise InputError(msg, "look which there are")
    places: dict[str, tuple[CellFile, dict[int, Any]]] = {}
    for found in holds:
        for some in covered(window, found, snapshot.files):
            mine = places.setdefault(some.file.path, (some.file, {}))[1]
            mine.update({number: np.union1d(mine.get(number, ()), there) for number, there in some.places.items()})

    def batches() -> Iterator[pa.RecordBatch]:
        with window.reading():
            for file, chosen in places.values():
                for table in records_at(window, file, chosen, names):
                    yield from table.select(names).to_batches()

    return HeldRecords(window.schema(names), batches())
