"""What a check finds: which promise is broken, where, the fact, and what to do about it.  Pure.

The facts come from ``warehouse/check``; here they are compared with each other. Nothing is read and nothing is guessed:
what cannot be derived from disk alone is not a finding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ebb.index.contents import Contents
from ebb.index.grid import HELD, Grid
from ebb.index.ledger import Ledger
from ebb.index.ranges import FileRange
from ebb.warehouse.check.files import FileFacts, RangesFacts
from ebb.warehouse.check.log import EntryFacts, LogFacts
from ebb.warehouse.store.paths import LAST_CHECKPOINT, LOG, entry_name, side_file

__all__ = [
    "REPAIRABLE",
    "Finding",
    "Severity",
    "file_findings",
    "history_findings",
    "ledger_findings",
    "log_findings",
    "quarantine_findings",
    "ranges_findings",
    "stray_findings",
]

_BACKUP = "restore it from a backup"
_LOG_BACKUP = "restore the log from a backup"
_REPAIR = "repair the table"
REPAIRABLE = frozenset({"side-file", "key-ranges", "stray-file", "checkpoint", "head-place"})  # without a guess
_SAME_LIVE = {
    "create",
    "alter",
    "retire",
    "seal",
    "purge",
    "erase",
    "repair",
    "amend",
    "hold",
    "release",
}  # commits after which there are as many


class Severity(StrEnum):
    """How bad a finding is."""

    DAMAGE = "damage"  # what is on disk is not what was written, or contradicts itself
    WARNING = "warning"  # answers are right, and something protects less, costs more or needs a hand


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is not as it should be."""

    code: str
    severity: Severity
    where: str  # a file below the table, or a version
    fact: str
    step: str  # what to do
    path: str | None = None  # the live file that it is about: no longer true once that has left the table

    def __str__(self) -> str:
        return f"{self.where}: {self.fact}; {self.step}"


def _damage(code: str, where: str, fact: str, step: str, path: str | None = None) -> Finding:
    return Finding(code=code, severity=Severity.DAMAGE, where=where, fact=fact, step=step, path=path)


def _warning(code: str, where: str, fact: str, step: str, path: str | None = None) -> Finding:
    return Finding(code=code, severity=Severity.WARNING, where=where, fact=fact, step=step, path=path)


# The log


def log_findings(log: LogFacts) -> Iterator[Finding]:
    """Compare the entries of a log with each other, with the head record and with its checkpoints."""
    for version in log.missing:
        yield _damage("log-entry", f"{LOG}/{entry_name(version)}", "is missing between others", _LOG_BACKUP)
    for version, why in log.damaged.items():
        yield _damage("log-entry", f"{LOG}/{entry_name(version)}", f"cannot be read: {why}", _LOG_BACKUP)
    first = log.head.head.oldest if log.head.head else None
    if not (log.oldest == 0 or log.oldest in log.checkpoints or first is not None) or (
        first is not None and log.oldest > first
    ):
        fact = f"is missing: the log begins at version {log.oldest}"
        yield _damage("log-entry", f"{LOG}/{entry_name(first or 0)}", fact, _LOG_BACKUP)
    if log.checkpoint_problem:
        yield _warning("checkpoint", f"{LOG}/{LAST_CHECKPOINT}", log.checkpoint_problem, _REPAIR)


def history_findings(entries: Sequence[EntryFacts]) -> Iterator[Finding]:
    """Compare each commit of Ebb with the one before it: hashes, clocks, ticks and counts go on without a gap."""
    before: EntryFacts | None = None
    clock: int | None = None
    live: int | None = None
    for entry in entries:
        if before is not None and before.version != entry.version - 1:
            before = clock = live = None  # what is missing in between is told elsewhere
        after = entry.ebb.get("after")
        if before is not None and after is not None and after != before.hash:
            fact = f"is not the entry that version {entry.version} followed"
            yield _damage("log-entry", f"{LOG}/{before.name}", fact, _LOG_BACKUP)
        if "ledger" in entry.ebb:
            try:
                yield from _commit_findings(entry, clock, live, is_first=before is None)
                clock, live = entry.ebb["ledger"]["clock"], _live_after(entry, live)
            except (KeyError, TypeError, ValueError):
                yield _damage("log-entry", f"{LOG}/{entry.name}", "says of itself what nobody understands", _LOG_BACKUP)
                clock = live = None
        before = entry


def _live_after(entry: EntryFacts, live: int | None) -> int | None:
    if "live" in entry.ebb:
        return int(entry.ebb["live"])
    return live if entry.ebb.get("op") in _SAME_LIVE else None


def _commit_findings(entry: EntryFacts, clock: int | None, live: int | None, *, is_first: bool) -> Iterator[Finding]:
    said, where = entry.ebb, f"{LOG}/{entry.name}"
    if entry.clock != said["ledger"]["clock"]:
        fact = f"its transaction has clock {entry.clock}, and its ledger {said['ledger']['clock']}"
        yield _damage("clock", where, fact, _LOG_BACKUP)
    if said.get("op") not in ("load", "update"):
        return
    parts = ("admitted", "expired_on_arrival", "quarantined")
    if said["received"] != sum(said[name] for name in parts):
        yield _damage("counts", where, "what it received is not the sum of what became of it", _LOG_BACKUP)
    if said["op"] == "update" and clock is not None and said["slot"] - said["ticks"] != clock:
        fact = f"it moved the clock by {said['ticks']} to {said['slot']}, and the clock before it was {clock}"
        yield _damage("history", where, fact, _LOG_BACKUP)
    if live is not None and not is_first and said["live"] != live - said["expired"] + said["admitted"]:
        fact = f"it left {said['live']} live records of {live}, with {said['expired']} expired and {said['admitted']} admitted"
        yield _damage("counts", where, fact, _LOG_BACKUP)


# Data files


def file_findings(facts: FileFacts, grid: Grid, clock: int) -> Iterator[Finding]:
    """Compare a data file with what the log says of it, and with the cell in which it lies."""
    path = facts.file.path
    if facts.error is not None:
        what, where = str(facts.error.args[0]), str(facts.error.args[1]).removeprefix(path).strip(": ")
        code = "file-missing" if what.endswith("missing") else "file-damaged"
        yield _damage(code, path, where or what.removeprefix("a data file "), _BACKUP, path)
        return
    contents = facts.contents
    if contents is None:
        return
    yield from (_damage(code, path, fact, _BACKUP, path) for code, fact in _contents_problems(facts, contents, grid))
    if max(contents.max_ins, default=clock) > clock:
        yield _damage("slots", path, "holds records that were inserted after the clock", _BACKUP, path)
    yield from (_damage(found.code, path, found.fact, _BACKUP, path) for found in facts.problems)
    if facts.side is not None:
        yield _warning("side-file", side_file(path), facts.side, _REPAIR, path)


def _contents_problems(facts: FileFacts, contents: Contents, grid: Grid) -> Iterator[tuple[str, str]]:
    file = facts.file
    told = (file.records, file.min_ins, file.max_ins, file.min_exp, file.max_exp)
    extremes = (min(contents.min_ins), max(contents.max_ins), min(contents.min_exp), max(contents.max_exp))
    if told != (sum(contents.records), *extremes):
        yield "statistics", f"holds {sum(contents.records):,} records with other slots or counts than the log says"
    inserted, expires = {*contents.min_ins, *contents.max_ins}, {*contents.min_exp, *contents.max_exp}
    groups, cohorts = set(map(grid.groups.partition, inserted)), set(map(grid.cohorts.partition, expires))
    if (groups, {HELD} if file.cell.is_held else cohorts) != ({file.cell.group}, {file.cell.cohort}):
        yield "cell", f"lies in cell {file.cell}, and the slots of its records belong to another one"
    keys = [start[:-8] for start in contents.starts]
    if keys != sorted(keys):
        yield "order", "its row groups are not in the order of keys"


def ledger_findings(ledger: Ledger, files: Iterable[FileFacts], *, deep: bool) -> Iterator[Finding]:
    """Compare the counts of the ledger with the records in all live files."""
    clock = ledger.clock
    if clock is None:
        return
    step = "restore the folder _ebb/ledger and the log from a backup"
    low = high = 0
    counted: Counter[int] = Counter()
    for facts in files:
        counted.update(facts.expirations)
        if facts.contents is not None:
            found = facts.contents
            ends = zip(found.records, found.min_exp, found.max_exp, strict=True)
            for records, least, greatest in ends:
                low += records if least > clock else 0
                high += records if greatest > clock else 0
    if not low <= ledger.live_records <= high:
        held = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        yield _damage(
            "ledger", "_ebb/ledger", f"counts {ledger.live_records:,} live records, and the files hold {held}", step
        )
    elif deep and (wrong := _different(counted, ledger.live)):
        slot, found_there, known = wrong
        fact = f"counts {known:,} live records that expire in slot {slot}, and the files hold {found_there:,}"
        yield _damage("ledger", "_ebb/ledger", fact, step)
    if sum(ledger.live.values()) != ledger.live_records:
        yield _damage("ledger", "_ebb/ledger", "its counts per slot do not add up to its live records", step)


def _different(counted: Mapping[int, int], known: Mapping[int, int]) -> tuple[int, int, int] | None:
    wrong = (slot for slot in sorted({*counted, *known}) if counted.get(slot, 0) != known.get(slot, 0))
    first = next(wrong, None)
    return None if first is None else (first, counted.get(first, 0), known.get(first, 0))


def ranges_findings(
    objects: Sequence[RangesFacts], others: Sequence[str], files: Mapping[str, FileRange | None]
) -> Iterator[Finding]:
    """Compare objects with key ranges with the live files that they tell of."""
    seen: set[str] = set()
    for one in objects:
        where = f"_ebb/ranges/{one.named.name}"
        paths = [found.path for found in one.ranges]
        if one.problem is not None:
            yield _warning("key-ranges", where, one.problem, _REPAIR)
        elif len(paths) != one.named.files or seen.intersection(paths) or len(set(paths)) < len(paths):
            yield _warning("key-ranges", where, "does not tell of the files that the ledger says", _REPAIR)
        elif not files.keys() >= set(paths):
            yield _warning("key-ranges", where, "tells of files that have left the table", _REPAIR)
        elif any(files[found.path] not in (None, found) for found in one.ranges):
            yield _damage("key-ranges", where, "tells other keys than its files hold, which hides records", _REPAIR)
        seen.update(paths)
    for name in others:
        yield _warning("stray-file", f"_ebb/ranges/{name}", "is named by no commit", _REPAIR)


def stray_findings(paths: Iterable[str]) -> Iterator[Finding]:
    """Tell of files that nobody needs: they may hold records whose time is over."""
    for path in paths:
        yield _warning("stray-file", path, "is named by no commit", _REPAIR)


# The quarantine


def quarantine_findings(
    found: Mapping[int, int], entries: Iterable[EntryFacts], *, clock: int, kept_after: int, is_cleared: bool
) -> Iterator[Finding]:
    """Compare the refused records per slot with what the updates refused; ``is_cleared``: some were taken out on purpose."""
    step = "restore the quarantine from a backup; the records of the table itself are not concerned"
    for entry in entries:
        slot = entry.ebb.get("slot")
        if entry.ebb.get("op") not in ("load", "update") or not isinstance(slot, int):
            continue
        if not kept_after < slot <= clock:
            continue
        refused, there = entry.ebb.get("quarantined", 0), found.get(slot, 0)
        if there > refused or (there < refused and not is_cleared):
            fact = f"holds {there:,} records of slot {slot}, and its update refused {refused:,}"
            yield _damage("quarantine", "the quarantine", fact, step)
