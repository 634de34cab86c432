"""Where a table stands: clock, size, cells, deletion bound, last update, and what is wrong with it.

Counts are those of the ledger. If another tool has written to the table, they are taken from the log's statistics and,
where these do not tell, from the files. Refused records and files of the landing folder are counted where they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, islice

from ebb.index.cellfile import CellFile
from ebb.index.errors import RestoredError, WarehouseError
from ebb.index.foreign import ForeignCommit, refusal
from ebb.index.grid import Cell
from ebb.index.head import lost
from ebb.index.lease import Lease
from ebb.index.timeline import TimeKind
from ebb.maintenance.declare import Description, described, in_seconds
from ebb.maintenance.inspect.backups import BackupStatus, backups
from ebb.maintenance.inspect.exposure import exposure, missed_at, pace_of
from ebb.maintenance.inspect.history import Commit, commits
from ebb.maintenance.landing_place import kept_files
from ebb.maintenance.upkeep import erase_plan
from ebb.maintenance.values import age_text
from ebb.warehouse.check.last import last_check
from ebb.warehouse.intake.quarantine import count_refused
from ebb.warehouse.table.journal import Backlog, backlog
from ebb.warehouse.table.leases import live_leases, own_leases, shown_ms
from ebb.warehouse.table.snapshot import Snapshot

__all__ = ["CellStatus", "LeaseStatus", "Status", "status"]

_RECENT = 50  # commits: what came lately


@dataclass(frozen=True, slots=True, kw_only=True)
class CellStatus:
    """What one cell holds."""

    group: int
    cohort: int
    records: int
    bytes: int
    files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseStatus:
    """A process that reads a version of the table."""

    id: str  # also the name of its file
    pid: int
    host: str
    user: str
    what: str  # the command, or python
    version: int
    since: str
    until: str  # unless it is renewed


@dataclass(frozen=True, slots=True, kw_only=True)
class Status(Description):
    """Where a table stands."""

    folder: str
    version: int
    clock: int | None  # None before the first load or update
    clock_time: str | None
    ticks_behind: int | None  # None for integer times, which no wall clock moves
    next_due: str | None
    live_records: int | None  # None if files of another tool cannot be counted
    stored_records: int
    files: int
    bytes: int
    files_waiting_for_erase: int  # removed, and within the grace period of readers
    expired_files_on_disk: int
    oldest_expired_age: str | None
    oldest_expired_age_seconds: float | None
    deletion_bound_kept: bool
    filling_group: int | None
    next_cohort: int | None
    cells: tuple[CellStatus, ...]  # those that hold something
    last_update: Commit | None  # or load
    foreign_commits: tuple[ForeignCommit, ...]  # of other tools since the last commit of Ebb, the oldest first
    uncounted_files: tuple[str, ...]  # of other tools, each with the reason
    quarantined: int | None  # records; None if the quarantine cannot be read
    landing_waiting: int | None  # files that wait for ebb run; None without a folder, or if nobody can look into it
    landing_refused: int | None  # files that were set aside there
    not_writable: str | None  # why this Ebb can read the table and not write to it
    files_leased: int  # removed before the grace period, and kept for readers with a lease
    leases: tuple[LeaseStatus, ...]  # of processes that read it, the oldest version first
    bound_missed_at: str | None  # when the deletion bound will be missed, or was; null: it is kept if updates go on
    bound_missed_in_ticks: int | None  # how many whole ticks are left until then
    recent_received: int  # records, in the last 50 commits
    recent_quarantined: int
    evidence_behind: int | None  # commits that are not in the evidence journal yet; null: it cannot be read
    evidence_lost: int | None  # commits that are neither there nor in the log
    checked: str | None  # when ebb check last looked at the table
    checked_seconds_ago: float | None
    check_failed: bool  # whether it found anything then
    holds: tuple[str, ...] = ()  # the cases that hold records
    held_records: int = 0  # in held files; the deletion bound leaves them out
    forgotten_since: str | None = None  # since when bytes of forgotten records should be gone and may be there
    head_problem: str | None = None  # why nothing tells whether the log is whole
    backups: tuple[BackupStatus, ...] = ()  # those that Ebb looks after
    restored_version: int | None = (
        None  # of the backup it was restored from, as long as nobody has said that it goes on
    )

    @property
    def unconfirmed(self) -> RestoredError | None:
        """Return what a writer is told if the table is a copy and nobody has said that it goes on."""
        return None if self.restored_version is None else RestoredError(self.name, self.restored_version)

    @property
    def is_writable(self) -> bool:
        """Whether Ebb may write to the table as it is."""
        is_whole = self.head_problem is None and not self.foreign_commits
        return is_whole and self.not_writable is None and self.unconfirmed is None

    @property
    def findings(self) -> tuple[WarehouseError, ...]:
        """Return what somebody has to look after: a broken bound, a commit of another tool, features of a newer Ebb."""
        found: list[WarehouseError] = []
        if not self.deletion_bound_kept:
            facts = (
                f"table {self.name} breaks its deletion bound: the oldest expired byte has been on disk for "
                f"{self.oldest_expired_age}, and the bound is {self.deletion_bound}"
            )
            found.append(WarehouseError(facts, "update it", self.name, hint="bound"))
        if self.forgotten_since is not None:
            facts = f"bytes of records that table {self.name} forgot should be gone since {self.forgotten_since}"
            found.append(WarehouseError(facts, "erase them", self.name, hint="erase"))
        if self.foreign_commits:
            found.append(refusal(self.name, self.foreign_commits))
        if self.not_writable is not None:
            found.append(WarehouseError(self.not_writable))
        if self.head_problem is not None:
            found.append(lost(self.name, self.head_problem))
        if copy := self.unconfirmed:
            found.append(copy)
        found += [backup.finding(self.name) for backup in self.backups if backup.is_overdue]
        return tuple(found)


def status(snapshot: Snapshot, now: datetime) -> Status:
    """Return where a table stands."""
    spec, clock, line = snapshot.spec, snapshot.ledger.clock, snapshot.spec.timeline
    due = line.clock_at(line.kind.from_datetime(now)) if line.kind.has_wall_clock else None
    files, live_records, uncounted = _counted(snapshot)
    exposed = exposure(snapshot, now, files)
    landed = kept_files(spec.landing) if spec.landing else None
    own_leases().settle(snapshot.table)
    removed = erase_plan(snapshot, now)
    refused, copied = spec.writer_refusal(), spec.copied
    pace = pace_of(snapshot, now)
    missed = (
        None
        if pace is None
        else missed_at(pace, [file for file in files if not file.cell.is_held], snapshot.removals())
    )
    latest = list(islice(commits(snapshot), _RECENT))
    behind = _backlog(snapshot)
    check = last_check(snapshot.table)
    return Status(
        **described(spec),
        folder=str(snapshot.table.folder),
        version=snapshot.version,
        clock=clock,
        clock_time=None if clock is None else line.show_slot(clock),
        ticks_behind=None if clock is None or due is None else max(0, due - clock),
        next_due=None if clock is None else line.show_slot(clock + 1),
        live_records=live_records,
        stored_records=sum(f.records for f in files),
        files=len(snapshot.files),
        bytes=sum(f.size_bytes for f in snapshot.files),
        files_waiting_for_erase=removed.files_waiting,
        expired_files_on_disk=exposed.files,
        oldest_expired_age=age_text(line.kind, exposed.age) if exposed.files else None,
        oldest_expired_age_seconds=in_seconds(line.kind, exposed.age) if exposed.files else None,
        deletion_bound_kept=exposed.is_kept,
        filling_group=None if clock is None else spec.grid.groups.partition(clock + 1),
        next_cohort=None if clock is None else spec.grid.cohorts.partition(clock + 1),
        cells=_cells([file for file in files if not file.cell.is_held]),
        holds=tuple(hold.case for hold in snapshot.ledger.holds),
        held_records=sum(file.records for file in snapshot.files if file.cell.is_held),
        forgotten_since=_forgotten_since(snapshot, now),
        last_update=next((c for c in chain(latest, commits(snapshot)) if c.op in ("update", "load")), None),
        foreign_commits=snapshot.foreign,
        uncounted_files=uncounted,
        quarantined=_quarantined(snapshot),
        landing_waiting=None if landed is None else landed.waiting + landed.taken,
        landing_refused=None if landed is None else landed.refused,
        not_writable=None if refused is None else str(refused),
        files_leased=removed.files_leased,
        leases=tuple(map(_lease, live_leases(snapshot.table, now))),
        bound_missed_at=None if missed is None else line.kind.show_time(missed),
        bound_missed_in_ticks=None if missed is None or pace is None else max(0, (missed - pace.moment) // line.tick),
        recent_received=sum(commit.received or 0 for commit in latest),
        recent_quarantined=sum(commit.quarantined or 0 for commit in latest),
        evidence_behind=None if behind is None else behind.commits,
        evidence_lost=None if behind is None else behind.lost,
        checked=None if check is None else TimeKind.TIMESTAMP.show_time(check.checked_ms // 1000 * 1_000_000),
        checked_seconds_ago=None if check is None else round(now.timestamp() - check.checked_ms / 1000, 3),
        check_failed=check is not None and check.damages > 0,
        head_problem=None if snapshot.unsettled is None else snapshot.unsettled.args[1],
        backups=backups(snapshot, now),
        restored_version=None if copied is None or copied.is_confirmed else copied.version,
    )


def _lease(lease: Lease) -> LeaseStatus:
    shared = {name: getattr(lease, name) for name in ("id", "pid", "host", "user", "what", "version")}
    return LeaseStatus(**shared, since=shown_ms(lease.since), until=shown_ms(lease.until))


def _backlog(snapshot: Snapshot) -> Backlog | None:
    table = snapshot.table
    try:
        return backlog(table.evidence, table.log, snapshot.version)
    except WarehouseError:  # what is wrong with it says whoever asks for evidence
        return None


def _forgotten_since(snapshot: Snapshot, now: datetime) -> str | None:
    """Return the first time by which removed files should be gone, if it is over."""
    line, clock = snapshot.spec.timeline, snapshot.ledger.clock
    times = [removal.erase_by for removal in snapshot.removals() if removal.erase_by is not None]
    over = int(now.timestamp() * 1000) if line.kind.has_wall_clock else clock
    if not times or over is None or min(times) >= over:
        return None
    first = min(times)
    return TimeKind.TIMESTAMP.show_time(first * 1000) if line.kind.has_wall_clock else line.show_slot(first)


def _quarantined(snapshot: Snapshot) -> int | None:
    clock = snapshot.ledger.clock
    try:
        return 0 if clock is None else count_refused(snapshot.table, clock)
    except WarehouseError:  # what is wrong with it says whoever asks for the records; the table itself is fine
        return None


def _counted(snapshot: Snapshot) -> tuple[Sequence[CellFile], int | None, tuple[str, ...]]:
    """Return the live files, how many live records they hold, and which could not be counted, with the reason.

    Only after a commit of another tool is any file looked into, and then only if the log does not tell which of its
    records are live.
    """
    clock = snapshot.ledger.clock
    if not snapshot.foreign or clock is None:
        return snapshot.files, snapshot.ledger.live_records, ()
    from ebb.warehouse.examine import examine

    unsure = [file for file in snapshot.files if not file.has_slots or file.min_exp <= clock < file.max_exp]
    looked = {found.file.path: found for found in examine(snapshot, unsure)}
    uncounted = tuple(f"{path}: {found.problem}" for path, found in looked.items() if found.problem)
    files = [looked[file.path].file if file.path in looked else file for file in snapshot.files]
    countable = [file for file in files if file.has_slots]
    live = sum(file.records for file in countable if file.min_exp > clock)
    live += sum(
        n for found in looked.values() for slot, n in found.expirations.items() if slot > clock >= found.file.min_exp
    )
    return countable, None if uncounted else live, uncounted


def _cells(files: Sequence[CellFile]) -> tuple[CellStatus, ...]:
    cells: dict[Cell, Counter[str]] = {}
    for file in files:
        cells.setdefault(file.cell, Counter()).update(records=file.records, bytes=file.size_bytes, files=1)
    found = sorted(cells.items())
    return tuple(CellStatus(group=cell.group, cohort=cell.cohort, **counts) for cell, counts in found)
