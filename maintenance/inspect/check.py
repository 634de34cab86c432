"""Checking a table: everything that Ebb promises of what is on disk, derived again from disk alone.

Nothing is changed and no lock is taken. One version is pinned and looked at; what a writer removes meanwhile is no damage,
so a file that has left the table by the end is not spoken of, and what could not be counted because of that is counted again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from ebb.index.errors import CorruptionError, ForeignCommitError, RolledBackError, WarehouseError
from ebb.maintenance.inspect.exposure import exposure
from ebb.maintenance.inspect.findings import (
    Finding,
    Severity,
    file_findings,
    history_findings,
    ledger_findings,
    log_findings,
    quarantine_findings,
    ranges_findings,
    stray_findings,
)
from ebb.maintenance.landing_place import kept_files, strange_entries
from ebb.warehouse.check.files import FileFacts, look_at_files, look_at_ranges, side_problem, unnamed
from ebb.warehouse.check.last import LastCheck, note_check
from ebb.warehouse.check.log import LogFacts, look_at_log
from ebb.warehouse.holds import damaged_holds
from ebb.warehouse.intake.quarantine import look_at_refused
from ebb.warehouse.parquet.datafile import DataFile
from ebb.warehouse.store.paths import EVIDENCE, HEAD, HIDDEN, HOLDS, LOG
from ebb.warehouse.table.journal import written_journal
from ebb.warehouse.table.snapshot import Snapshot, Table

__all__ = ["Checked", "check", "look"]

_ROUNDS = 3  # if files leave the table while they are looked at
_COUNTS = {"ledger", "key-ranges"}  # findings that come out wrong if a file has gone


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What a check found."""

    name: str
    version: int | None  # None if the table cannot be opened
    clock: int | None
    clock_time: str | None
    deep: bool
    files: int
    records: int
    bytes: int
    findings: tuple[Finding, ...]
    seconds: float

    @property
    def is_sound(self) -> bool:
        """Whether there is nothing to tell."""
        return not self.findings


def check(
    table: Table, now: datetime, *, deep: bool = False, progress: Callable[[str], None] = lambda _: None
) -> Checked:
    """Check a table; ``deep``: every byte and every record, in the time of a few scans.

    Raises what has nothing to do with the table itself: that it is not there, may not be read, or needs a newer Ebb.
    """
    started = time.monotonic()
    snapshot, findings = look(table, now, deep=deep, progress=progress)
    clock = snapshot.ledger.clock if snapshot else None
    done = Checked(
        name=table.name,
        version=snapshot.version if snapshot else None,
        clock=clock,
        clock_time=None if snapshot is None or clock is None else snapshot.spec.timeline.show_slot(clock),
        deep=deep,
        files=len(snapshot.files) if snapshot else 0,
        records=sum(file.records for file in snapshot.files) if snapshot else 0,
        bytes=sum(file.size_bytes for file in snapshot.files) if snapshot else 0,
        findings=tuple(findings),
        seconds=round(time.monotonic() - started, 3),
    )
    damages = sum(found.severity is Severity.DAMAGE for found in findings)
    made = LastCheck(
        checked_ms=int(now.timestamp() * 1000),
        version=-1 if done.version is None else done.version,
        deep=deep,
        damages=damages,
        warnings=len(findings) - damages,
    )
    note_check(table, made)
    return done


def look(
    table: Table,
    now: datetime,
    *,
    deep: bool = False,
    is_writer: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[Snapshot | None, list[Finding]]:
    """Return the version that was looked at, None if the table cannot be opened, and what was found.

    ``is_writer``: we hold the writer's lock, so nobody else is at work.
    """
    progress("reading the log")
    log = look_at_log(table)
    found = [*log_findings(log), *history_findings(log.entries)]
    for is_last in (False,) * (_ROUNDS - 1) + (True,):
        try:
            snapshot = _opened(table)
        except (CorruptionError, ForeignCommitError) as error:
            return None, found if any(one.severity is Severity.DAMAGE for one in found) else [*found, _unopened(error)]
        found_there = list(_in_version(snapshot, deep=deep, progress=progress))
        settled, is_whole = _settled(table, snapshot, found_there)
        if is_whole or is_last:
            break
    found += [one for one in settled if is_whole or one.code not in _COUNTS]
    found += _around(snapshot, log, now, deep=deep, is_writer=is_writer)
    return snapshot, found


def _opened(table: Table) -> Snapshot:
    return Table(table.root, table.name).snapshot(is_rollback_fine=True)


def _unopened(error: CorruptionError | ForeignCommitError) -> Finding:
    is_foreign = isinstance(error, ForeignCommitError)
    code, where = ("foreign-commit", LOG) if is_foreign else ("unreadable", str(error.args[1]).split(" (")[0])
    return _found(code, where, f"the table cannot be opened: {error.facts}", error.next_step)


def _in_version(snapshot: Snapshot, *, deep: bool, progress: Callable[[str], None]) -> Iterator[Finding]:
    """Yield what is wrong with the files of one version, and with what the table remembers of them."""
    grid, ledger = snapshot.spec.grid, snapshot.ledger
    for path, times in Counter(file.path for file in snapshot.files).items():
        if times > 1:
            yield _found("statistics", path, f"is named {times} times by the log", "restore the log from a backup")
    looked: list[FileFacts] = []
    for facts in look_at_files(snapshot, deep=deep):
        yield from file_findings(facts, grid, ledger.clock or 0)
        looked.append(facts)
        progress(f"{'reading' if deep else 'looking at'} file {len(looked)} of {len(snapshot.files)}")
    is_counted = not snapshot.foreign and not isinstance(snapshot.unsettled, RolledBackError)
    if is_counted and not any(facts.error for facts in looked):
        yield from ledger_findings(ledger, looked, deep=deep)
    for name, error in damaged_holds(snapshot):
        if name in _opened(snapshot.table).ledger.holds:  # it was not released meanwhile
            where = f"{HIDDEN}/{HOLDS}/{name.name}"
            yield _found("hold", where, f"hold {name.case} cannot be read: {error.facts}", "restore it from a backup")
    if is_counted:
        objects, others = look_at_ranges(snapshot)
        yield from ranges_findings(objects, others, {facts.file.path: facts.key_range for facts in looked})


def _settled(table: Table, snapshot: Snapshot, found: Sequence[Finding]) -> tuple[list[Finding], bool]:
    """Leave out what is explained by a writer who was at work; returns whether all that was counted stayed."""
    newest = snapshot
    if found:
        with suppress(WarehouseError):
            newest = _opened(table)
    live = {file.path for file in newest.files}
    kept = [one for one in found if one.path is None or (one.path in live and _is_still_so(newest, one))]
    has_moved = newest.version != snapshot.version
    return kept, not has_moved or (len(kept) == len(found) and not any(one.code in _COUNTS for one in kept))


def _is_still_so(snapshot: Snapshot, found: Finding) -> bool:
    """Whether a side file is still not as it should be: a reader may just have been writing it again."""
    if found.code != "side-file":
        return True
    file = next(file for file in snapshot.files if file.path == found.path)
    folder = str(snapshot.table.folder)
    with suppress(CorruptionError):
        return side_problem(folder, file, DataFile.open(folder, file).contents) is not None
    return False


def _around(snapshot: Snapshot, log: LogFacts, now: datetime, *, deep: bool, is_writer: bool) -> Iterator[Finding]:
    """Yield what is wrong with what lies around the files: head record, clocks, strays, bound, quarantine, landing folder."""
    spec, table = snapshot.spec, snapshot.table
    if snapshot.unsettled is not None:
        is_lost = not isinstance(snapshot.unsettled, RolledBackError)
        where, code = (f"{HIDDEN}/{HEAD}", "head") if is_lost else (LOG, "rolled-back")
        severity = Severity.WARNING if is_lost else Severity.DAMAGE
        error = snapshot.unsettled
        yield Finding(code=code, severity=severity, where=where, fact=error.facts, step=error.next_step)
    if log.head.head and not log.head.is_whole:
        fact = "one of its two places is damaged: the next commit writes it anew"
        yield _found("head-place", f"{HIDDEN}/{HEAD}", fact, "repair the table", Severity.WARNING)
    for commit in snapshot.foreign:
        fact = f"{commit.operation} of another tool added {commit.files_added} files and removed {commit.files_removed}"
        yield _found(
            "foreign-commit", f"version {commit.version}", fact, "adopt it, or restore the table from a backup"
        )
    head = log.head.head
    newest = next((entry for entry in reversed(log.entries) if head and entry.version == head.version), None)
    if head and newest and newest.ebb and snapshot.unsettled is None and newest.clock != head.clock:
        fact = f"says clock {head.clock}, and its commit {newest.clock}"
        yield _found("clock", f"{HIDDEN}/{HEAD}", fact, "restore the log from a backup")
    if snapshot.unsettled is None and not snapshot.foreign:
        try:
            yield from stray_findings(unnamed(table, lambda: _opened(table), is_writer=is_writer))
        except CorruptionError as error:
            yield _found("link", str(error.args[1]), str(error.args[0]), error.next_step)
        exposed = exposure(snapshot, now, snapshot.files)
        if not exposed.is_kept:
            show = spec.timeline.kind.show_duration
            fact = f"its oldest expired byte has been on disk for {show(exposed.age)}, and the deletion bound is {show(exposed.bound)}"
            yield _found("bound", "the table", fact, "update it, or purge and erase it", Severity.WARNING)
    yield from _quarantine(snapshot, log, deep=deep)
    yield from _evidence(snapshot)
    if spec.landing:
        if kept_files(spec.landing) is None:
            yield _found(
                "landing",
                spec.landing,
                "cannot be looked into",
                "make the folder, or give this user access to it",
                Severity.WARNING,
            )
        for entry in strange_entries(spec.landing):
            yield _found("landing", f"{spec.landing}/{entry}", "is none of Ebb's", "move it away", Severity.WARNING)


def _evidence(snapshot: Snapshot) -> Iterator[Finding]:
    try:
        written_journal(snapshot.table.evidence)
    except CorruptionError as error:
        yield _found("evidence", f"{HIDDEN}/{EVIDENCE}", error.facts, error.next_step)


def _quarantine(snapshot: Snapshot, log: LogFacts, *, deep: bool) -> Iterator[Finding]:
    clock = snapshot.ledger.clock
    try:
        counts, wrong, is_cleared = look_at_refused(snapshot.table, deep=deep)
    except CorruptionError as error:
        yield _found("quarantine", f"{snapshot.table.name}.quarantine", error.facts, error.next_step)
        return
    for one in wrong:
        where = f"{snapshot.table.name}.quarantine/{one.args[1]}"
        yield _found("quarantine", where, str(one.args[0]), one.next_step)
    if clock is not None and not wrong:
        kept_after = snapshot.spec.quarantined_until(clock)
        yield from quarantine_findings(counts, log.entries, clock=clock, kept_after=kept_after, is_cleared=is_cleared)


def _found(code: str, where: str, fact: str, step: str, severity: Severity = Severity.DAMAGE) -> Finding:
    return Finding(code=code, severity=severity, where=where, fact=fact, step=step)
