"""What a table looks like: status, history and the plan of its next update, as plain values for people and JSON."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timezone
from typing import Any

from index.errors import NotDueError, UsageError
from index.grid import Shuffle
from index.ledger import next_slot
from index.timeline import TimeKind
from maintenance.housekeeping import exposure, waiting_files
from maintenance.plan import Plan, plan_seal, plan_update
from warehouse.spec import TableSpec
from warehouse.table import Snapshot

__all__ = ["describe", "explain", "history", "status"]


def describe(spec: TableSpec) -> dict[str, Any]:
    """Return the declaration of a table in words that a user would type."""
    line, show = spec.timeline, spec.timeline.kind.show_duration
    groups, cohorts = spec.grid.groups, spec.grid.cohorts
    return {
        "name": spec.name,
        "columns": [{"name": c.name, "type": c.type} for c in spec.columns],
        "key": list(spec.key),
        "inserted": spec.inserted,
        "expires": spec.expires,
        "tick": show(line.tick),
        "span": show(line.span),
        "origin": line.kind.show_time(line.origin),
        "ticks_per_span": line.ticks_per_span,
        "grid": str(spec.grid),
        "policy": "random" if isinstance(groups, Shuffle) else f"{groups.run}x{cohorts.run}",
        "strategy": spec.strategy.value,
        "deletion_bound": show(spec.bound),
        "reader_time": show(spec.reader_time),
        "quarantine_time": show(spec.quarantine_time),
        "landing": spec.landing,
    }


def status(snapshot: Snapshot, now: datetime) -> dict[str, Any]:
    """Return where a table stands: clock, lag, size, cells, deletion bound, last update."""
    spec, clock, line = snapshot.spec, snapshot.ledger.clock, snapshot.spec.timeline
    due = line.clock_at(line.kind.from_datetime(now)) if line.kind.has_wall_clock else None
    shown = exposure(snapshot, now)
    waiting, _ = waiting_files(snapshot, now)
    cells: dict[tuple[int, int], Counter[str]] = {}
    for file in snapshot.files:
        cell = cells.setdefault(file.cell, Counter())
        cell.update(records=file.records, bytes=file.size_bytes, files=1)
    last = next((e for e in snapshot.table.entries(snapshot.version) if e.ebb.get("op") in ("update", "load")), None)
    return {
        **describe(spec),
        "folder": str(snapshot.table.folder),
        "version": snapshot.version,
        "clock": clock,
        "clock_time": None if clock is None else line.show_slot(clock),
        "ticks_behind": None if clock is None or due is None else max(0, due - clock),
        "next_due": None if clock is None else line.show_slot(clock + 1),
        "live_records": snapshot.ledger.live_records,
        "stored_records": sum(f.records for f in snapshot.files),
        "files": len(snapshot.files),
        "bytes": sum(f.size_bytes for f in snapshot.files),
        "files_waiting_for_erase": len(waiting),
        "expired_files_on_disk": shown.files,
        "oldest_expired_age": _age(line.kind, shown.age) if shown.files else None,
        "deletion_bound_kept": shown.is_kept,
        "filling_group": None if clock is None else spec.grid.groups.partition(clock + 1),
        "next_cohort": None if clock is None else spec.grid.cohorts.partition(clock + 1),
        "cells": [{"group": g, "cohort": e, **counts} for (g, e), counts in sorted(cells.items())],
        "last_update": None
        if last is None
        else {"time": _iso(last.timestamp_ms), **{k: v for k, v in last.ebb.items() if k != "ledger"}},
    }


def _age(kind: TimeKind, age: int) -> str:
    """Return an age without fractions of a second, in at most two units."""
    if kind is not TimeKind.TIMESTAMP:
        return kind.show_duration(age)
    seconds = age // 1_000_000
    for size, unit, smaller, rest in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if seconds >= size:
            return f"{seconds // size}{unit} {seconds % size // smaller}{rest}"
    return f"{seconds}s"


def _iso(timestamp_ms: int) -> str:
    moment = datetime.fromtimestamp(timestamp_ms / 1000, tz=timezone.utc)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def history(snapshot: Snapshot, limit: int | None = None) -> list[dict[str, Any]]:
    """Return the commits, newest first, as the log tells them."""
    line = snapshot.spec.timeline
    rows: list[dict[str, Any]] = []
    for entry in snapshot.table.entries(snapshot.version):
        if limit is not None and len(rows) >= limit:
            break
        row: dict[str, Any] = {
            "version": entry.version,
            "committed": _iso(entry.timestamp_ms),
            "op": entry.ebb.get("op", entry.operation.lower()),
            "files_added": len(entry.added),
            "files_removed": len(entry.removed),
            "bytes_written": entry.bytes_added,
        }
        row |= {k: v for k, v in entry.ebb.items() if k not in ("ledger", "op", "oldest_expired", *row)}
        if "slot" in row:
            row["time"] = line.show_slot(row["slot"])
        rows.append(row)
    return rows


def explain(snapshot: Snapshot, now: datetime) -> dict[str, Any]:
    """Return the plan of the next update, as far as it can be told without its batch."""
    spec, ledger, line = snapshot.spec, snapshot.ledger, snapshot.spec.timeline
    moment = line.kind.from_datetime(now) if line.kind.has_wall_clock else None
    is_due = True
    try:
        slot = next_slot(ledger, line, at=None, now=moment, catch_up=False)
    except NotDueError as error:
        slot, is_due = error.args[0], False
    except UsageError:
        return {
            "name": spec.name,
            "slot": None,
            "words": ["the table has no clock yet; load it, or update it with --at"],
        }
    clock = slot - 1 if ledger.clock is None else ledger.clock
    plan = plan_update(spec.strategy, spec.grid, clock=clock, slot=slot, live=snapshot.files, arriving=(), lag=spec.lag)
    group = spec.grid.groups.partition(slot)
    cohorts = sorted(spec.grid.cohorts_expiring(clock, slot))
    seals = spec.grid.groups.end_of_run(slot) == slot and spec.grid.groups.run > 1
    return {
        "name": spec.name,
        "slot": slot,
        "time": line.show_slot(slot),
        "is_due": is_due,
        "strategy": spec.strategy.value,
        "group": group,
        "cohorts": cohorts,
        "cells_bound": spec.grid.cells_bound(clock, slot),
        "cells_in_grid": spec.grid.groups.count * spec.grid.cohorts.count,
        "expires": ledger.expired_by(slot),
        "live_records": ledger.live_records,
        "removes": _cells(plan),
        "rewrites": [
            {"group": r.cell.group, "cohort": r.cell.cohort, "files": len(r.inputs), "bytes": r.size_bytes}
            for r in plan.rewrites
        ],
        "seals_after": seals,
        "words": _words(snapshot, plan, slot=slot, is_due=is_due, seals=seals),
    }


def _cells(plan: Plan) -> list[dict[str, int]]:
    files = Counter(f.cell for f in plan.removes)
    return [{"group": cell.group, "cohort": cell.cohort, "files": n} for cell, n in sorted(files.items())]


def _words(snapshot: Snapshot, plan: Plan, *, slot: int, is_due: bool, seals: bool) -> list[str]:
    spec, line = snapshot.spec, snapshot.spec.timeline
    grid = spec.grid
    when = f"update to slot {slot} ({line.show_slot(slot)}), {'due now' if is_due else 'not due yet'}"
    rewritten = {f for r in plan.rewrites for f in r.inputs}
    dropped = [f for f in plan.removes if f not in rewritten]
    lines = [
        when,
        f"admits its batch into group {grid.groups.partition(slot)}: at most {grid.cohorts.count} cells",
        f"expires {snapshot.ledger.expired_by(slot):,} records, all in cohort {grid.cohorts.partition(slot)}: at most {grid.groups.count} cells",
        f"removes {len(dropped)} dead files by metadata alone",
        f"rewrites {len(plan.rewrites)} cells ({sum(r.size_bytes for r in plan.rewrites):,} bytes to read)",
        f"touches at most {grid.cells_bound(slot - 1, slot)} of {grid.groups.count * grid.cohorts.count} cells in one commit",
    ]
    if seals and spec.strategy.value == "retire":
        merged = plan_seal(grid, clock=slot, live=snapshot.files)
        lines.append(
            f"then seals group {grid.groups.partition(slot)}: {len(merged.removes)} files so far become {len(merged.rewrites)} runs"
        )
    return lines
