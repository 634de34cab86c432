"""Where a table stands: clock, size, cells, deletion bound, last update."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timezone
from typing import Any

from ebb.index.grid import Shuffle
from ebb.index.timeline import TimeKind
from ebb.maintenance.inspect.exposure import exposure
from ebb.maintenance.upkeep import erase_plan
from ebb.warehouse.table.snapshot import Snapshot
from ebb.warehouse.table.spec import TableSpec

__all__ = ["describe", "iso_time", "status"]


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
        "log_retention": show(spec.log_retention),
        "landing": spec.landing,
    }


def status(snapshot: Snapshot, now: datetime) -> dict[str, Any]:
    """Return where a table stands: clock, lag, size, cells, deletion bound, last update."""
    spec, clock, line = snapshot.spec, snapshot.ledger.clock, snapshot.spec.timeline
    due = line.clock_at(line.kind.from_datetime(now)) if line.kind.has_wall_clock else None
    shown = exposure(snapshot, now)
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
        "files_waiting_for_erase": erase_plan(snapshot, now).files_waiting,
        "expired_files_on_disk": shown.files,
        "oldest_expired_age": _age(line.kind, shown.age) if shown.files else None,
        "deletion_bound_kept": shown.is_kept,
        "filling_group": None if clock is None else spec.grid.groups.partition(clock + 1),
        "next_cohort": None if clock is None else spec.grid.cohorts.partition(clock + 1),
        "cells": [{"group": g, "cohort": e, **counts} for (g, e), counts in sorted(cells.items())],
        "last_update": None
        if last is None
        else {"time": iso_time(last.timestamp_ms), **{k: v for k, v in last.ebb.items() if k != "ledger"}},
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


def iso_time(timestamp_ms: int) -> str:
    """Return the time of a commit as text."""
    moment = datetime.fromtimestamp(timestamp_ms / 1000, tz=timezone.utc)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
