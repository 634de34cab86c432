"""Where tables stand, as numbers for monitoring: the facts of a status, one gauge each.

A table that cannot be read is a number too, and never hides the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from ebb.index.errors import WarehouseError
from ebb.index.timeline import TimeKind
from ebb.maintenance.inspect.status import Status
from ebb.maintenance.inspect.watch import Limits, watch

__all__ = ["Metric", "metrics"]

_READABLE = "ebb_table_readable"


@dataclass(frozen=True, slots=True)
class Metric:
    """One gauge, with its samples: the table, or None, and the value."""

    name: str
    help: str
    samples: tuple[tuple[str | None, float], ...]


def _at(text: str | None) -> float | None:
    """Return a moment as seconds since 1970; None if it is no moment."""
    if text is None:
        return None
    try:
        return TimeKind.TIMESTAMP.time(text) / 1_000_000
    except WarehouseError:  # the time of a table that counts in integers
        return None


def _clock_time(table: Status) -> float | None:
    return None if table.ticks_behind is None else _at(table.clock_time)


def _missed_at(table: Status) -> float | None:
    return None if table.tick_seconds is None else _at(table.bound_missed_at)


# Name, what it tells, and how it is taken from a status: None leaves it out for that table.
_GAUGES: tuple[tuple[str, str, Callable[[Status], float | None]], ...] = (
    ("ebb_table_writable", "Whether Ebb may write to the table: 0 after a commit of another tool, with features of a newer Ebb, without its head record, or for a copy that was not adopted.", lambda t: t.is_writable),
    ("ebb_findings", "How many findings somebody has to look after, with the usual limits.", lambda t: len(watch(t, Limits()))),
    ("ebb_version", "The newest version of the table.", lambda t: t.version),
    ("ebb_clock_slot", "The slot that the table was updated to.", lambda t: t.clock),
    ("ebb_clock_timestamp_seconds", "The time that the table was updated to.", _clock_time),
    ("ebb_ticks_behind", "Ticks that are over and were not applied.", lambda t: t.ticks_behind),
    ("ebb_tick_seconds", "The time between two updates.", lambda t: t.tick_seconds),
    ("ebb_live_records", "Records in the window.", lambda t: t.live_records),
    ("ebb_stored_records", "Records in live files, expired ones included.", lambda t: t.stored_records),
    ("ebb_files", "Live files.", lambda t: t.files),
    ("ebb_bytes", "Bytes of live files.", lambda t: t.bytes),
    ("ebb_files_waiting_for_erase", "Removed files that wait for readers.", lambda t: t.files_waiting_for_erase),
    ("ebb_expired_files", "Files on disk with expired records.", lambda t: t.expired_files_on_disk),
    ("ebb_oldest_expired_age_seconds", "How long the oldest expired byte has been on disk; 0 without any.", lambda t: None if t.tick_seconds is None else t.oldest_expired_age_seconds or 0),
    ("ebb_deletion_bound_seconds", "The declared deletion bound.", lambda t: t.deletion_bound_seconds),
    ("ebb_deletion_bound_kept", "Whether no expired byte has been on disk for longer than the bound.", lambda t: t.deletion_bound_kept),
    ("ebb_deletion_bound_missed_timestamp_seconds", "When the bound will be missed, or was, as things go; not there if it is kept.", _missed_at),
    ("ebb_quarantined_records", "Refused records in quarantine.", lambda t: t.quarantined),
    ("ebb_recent_received_records", "Records received in the last 50 commits.", lambda t: t.recent_received),
    ("ebb_recent_quarantined_records", "Records of those that were refused.", lambda t: t.recent_quarantined),
    ("ebb_landing_waiting_files", "Files that wait in the landing folder.", lambda t: t.landing_waiting),
    ("ebb_landing_refused_files", "Files that were set aside in the landing folder.", lambda t: t.landing_refused),
    ("ebb_foreign_commits", "Commits of other tools that wait to be adopted.", lambda t: len(t.foreign_commits)),
    ("ebb_last_update_timestamp_seconds", "When the last update was committed.", lambda t: None if t.last_update is None else _at(t.last_update.committed)),
    ("ebb_last_update_seconds", "How long the last update took.", lambda t: None if t.last_update is None else t.last_update.seconds),
    ("ebb_last_update_received_records", "Records that the last update received.", lambda t: None if t.last_update is None else t.last_update.received),
    ("ebb_last_update_admitted_records", "Records that the last update admitted.", lambda t: None if t.last_update is None else t.last_update.admitted),
    ("ebb_last_update_expired_records", "Records that expired with the last update.", lambda t: None if t.last_update is None else t.last_update.expired),
    ("ebb_evidence_behind_commits", "Commits that are in the log and not in the evidence journal yet.", lambda t: t.evidence_behind),
    ("ebb_evidence_lost_commits", "Commits that are in neither.", lambda t: t.evidence_lost),
    ("ebb_checked_timestamp_seconds", "When the table was checked last.", lambda t: _at(t.checked)),
    ("ebb_check_failed", "Whether that found anything.", lambda t: None if t.checked is None else t.check_failed),
)  # fmt: skip


def metrics(tables: Sequence[tuple[str, Callable[[], Status]]], now: datetime) -> tuple[Metric, ...]:
    """Return the gauges of tables, by name; those that no table has are left out."""
    found: dict[str, Status | None] = {}
    for name, status in tables:
        try:
            found[name] = status()
        except WarehouseError:  # it is told as a number; the status tells the reason
            found[name] = None
    readable = tuple((name, float(status is not None)) for name, status in found.items())
    known = [(name, status) for name, status in found.items() if status is not None]
    gauges = [
        Metric("ebb_scrape_timestamp_seconds", "When these numbers were taken.", ((None, round(now.timestamp(), 3)),)),
        Metric(_READABLE, "Whether the table can be read; its status tells why not.", readable),
    ]
    for name, help, value_of in _GAUGES:
        samples = tuple((table, float(value)) for table, t in known if (value := value_of(t)) is not None)
        gauges.append(Metric(name, help, samples))
    return tuple(metric for metric in gauges if metric.samples)
