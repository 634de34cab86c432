"""Evidence reports: made from the evidence journal and the log, and verified against both.

A report is JSON of one form to the byte. It holds the lines of the journal that it follows from and a hash of each of its
parts, so a change of any byte is found: by the text, by the hash of a part, by the chain of the lines, or because what the
report says does not follow from them. Whoever changes all of these together makes another chain, whose head is not the one
that the journal has, or that somebody noted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from importlib.metadata import version as installed
from typing import Any

from ebb.index.errors import CorruptionError, InputError
from ebb.index.journal import Line, check_chain, counting, hash_of, parsed_line
from ebb.index.stored import parsed
from ebb.maintenance.inspect.deletions import Findings, Given, given_of
from ebb.maintenance.inspect.evidence import derive, needed, shown_ms
from ebb.maintenance.inspect.exposure import exposure
from ebb.warehouse.table.journal import logged_hash, whole_journal
from ebb.warehouse.table.snapshot import Snapshot

__all__ = [
    "FORMAT",
    "MEASURED",
    "Chain",
    "Evidence",
    "Verified",
    "agrees",
    "evidence",
    "read_report",
    "report_text",
    "verified",
]

FORMAT = 1
MEASURED = (
    "A record expires at the end of the tick that holds its expiration time; from the commit of that tick on no read shows it.",
    "Its bytes are gone when every file that may have held it has been deleted from the table's folder. A commit that erased files says when that was.",
    "The delay counts from the expiry, or from when the file was written if that was later, to the erasure, or to the making of this report. It is never shorter than the true one: where the log does not know which records a file held, the oldest is taken.",
    "Not measured: refused records and files of a landing folder, which have a time of their own; backups and exported results; blocks of the disk that were freed and not overwritten.",
)
_SECTIONS = ("about", "given", "findings", "measured", "chain", "lines")
_STEP = "take the report from where it was kept, or make it again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Where the lines of a report stand in the evidence journal."""

    first: int  # the number of the report's first line, from 0 on
    last: int  # and of its last; one less than the first if it has none
    head: (
        str | None
    )  # the hash of the newest line when the report was made: note it elsewhere, and the journal is fixed up to there
    head_line: int  # its number
    head_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A report of what was deleted when."""

    about: Mapping[str, Any]  # the table, the period and what was declared, in words
    given: Given
    findings: Findings
    chain: Chain
    lines: tuple[Line, ...]

    @property
    def parts(self) -> dict[str, Any]:
        """Return the report as JSON has it, with the hash of each part and of all of them."""
        parts: dict[str, Any] = {
            "about": dict(self.about),
            "given": asdict(self.given),
            "findings": asdict(self.findings),
            "measured": list(MEASURED),
            "chain": asdict(self.chain),
            "lines": [line.facts for line in self.lines],
        }
        hashes = {name: hash_of(report_text(part)) for name, part in parts.items()}
        return {**parts, "hashes": {**hashes, "report": hash_of(report_text(hashes))}}

    @property
    def json(self) -> bytes:
        """Return the text of the report, the same to the byte whenever it is made of the same lines and facts."""
        return report_text(self.parts)

    @property
    def hash(self) -> str:
        """Return the hash of the report."""
        return str(self.parts["hashes"]["report"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What of a report was found to be as it was written."""

    name: str
    made: str
    hash: str
    head: str | None
    lines: int
    compared_lines: int | None  # with the journal; null without the table
    compared_entries: int | None  # with the log, as far as it goes back
    dropped_lines: int | None  # that the journal has no longer, because their retention is over
    kept: bool
    complete: bool


def report_text(value: Any) -> bytes:
    """Return a report, or a part of one, in the one form that counts."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("\x7f", "\\u007f").encode() + b"\n"  # the one control character that JSON would leave


def evidence(snapshot: Snapshot, now: datetime, *, since: int | None = None, until: int | None = None) -> Evidence:
    """Return the evidence of the ticks that end after ``since`` and not after ``until``; of all without them.

    Raises CorruptionError if the journal's chain is broken.
    """
    spec, line = snapshot.spec, snapshot.spec.timeline
    whole, first = _whole(snapshot)
    clock = snapshot.ledger.clock or 0
    held = {(f.min_exp, f.max_exp) for f in snapshot.files if f.cell.is_held and f.has_expired(clock)}
    first_slot = None if since is None else line.clock_at(since) + 1
    slots = [found.facts["slot"] for found in whole if "slot" in found.facts]
    exposed = exposure(snapshot, now, [file for file in snapshot.files if file.has_slots])
    given = Given(
        name=spec.name,
        table_id=snapshot.table_id,
        kind=line.kind.value,
        origin=line.origin,
        tick=line.tick,
        span=line.span,
        strategy=spec.strategy.value,
        bound=spec.bound,
        bound_now=spec.bound,
        reader_time=spec.reader_time,
        quarantine_time=spec.quarantine_time,
        clock=snapshot.ledger.clock,
        version=snapshot.version,
        made_ms=int(now.timestamp() * 1000),
        first_slot=first_slot,
        last_slot=None if until is None else line.clock_at(until),
        is_cut=first > 0 and (first_slot is None or not slots or slots[0] >= first_slot),
        expired_files=len(exposed.live),
        expired_since=exposed.live_since,
        expired_slots=tuple(sorted({(file.min_exp, file.max_exp) for file in exposed.live})),
        held_slots=tuple(sorted(held)),
    )
    start, end = needed(whole, derive(whole, given))
    bounds = [found.facts["declared"]["bound"] for found in whole[:start] if "bound" in found.facts.get("declared", {})]
    given = Given(**{**asdict(given), "bound": (bounds or [spec.bound])[-1]})
    lines = tuple(whole[start:end])
    chain = Chain(
        first=first + start,
        last=first + end - 1,
        head=whole[-1].hash if whole else None,
        head_line=first + len(whole) - 1,
        head_version=snapshot.version,
    )
    return Evidence(about=_about(given), given=given, findings=derive(lines, given), chain=chain, lines=lines)


def _whole(snapshot: Snapshot) -> tuple[list[Line], int]:
    """Return all lines of a table's journal, and the number of the first."""
    table = snapshot.table
    whole, first = whole_journal(table.evidence, table.log, snapshot.version)
    tables = [line.facts["table"] for line in counting(whole) if "table" in line.facts]
    if tables and tables[-1] != snapshot.table_id:
        where = f"it is that of table {tables[-1]}, and this one is {snapshot.table_id}"
        raise CorruptionError("the evidence journal is another table's", where, "restore it from a backup")
    return whole, first


def _about(given: Given) -> dict[str, Any]:
    """Return in words what a report is about."""
    line = given.line
    show, kind = line.show_slot, line.kind
    return {
        "report": "evidence of deletion",
        "format": FORMAT,
        "ebb": installed("ebb"),
        "table": given.name,
        "table_id": given.table_id,
        "made": shown_ms(given.made_ms),
        "from": None if given.first_slot is None else show(given.first_slot - 1),
        "to": None if given.last_slot is None else show(given.last_slot),
        "clock": None if given.clock is None else show(given.clock),
        "version": given.version,
        "deletion_bound": kind.show_duration(given.bound_now),
        "grace_period": kind.show_duration(given.reader_time),
        "tick": kind.show_duration(given.tick),
        "span": kind.show_duration(given.span),
        "strategy": given.strategy,
        "quarantine_time": kind.show_duration(given.quarantine_time),
    }


def read_report(data: bytes) -> Evidence:
    """Return a report that is as it was written; raises CorruptionError that says what is not."""
    try:
        parts = parsed(data)
    except ValueError as error:
        where = f"it cannot be read as JSON: {error}"
        raise _changed(where) from error
    if not isinstance(parts, dict) or set(parts) != {*_SECTIONS, "hashes"} or not isinstance(parts["hashes"], dict):
        raise _changed("it has not the parts of a report")
    hashes = parts["hashes"]
    for name in _SECTIONS:
        if hashes.get(name) != hash_of(report_text(parts[name])):
            raise _changed(f"its part {name!r} has not the hash that it had")
    if not isinstance(parts["about"], dict) or parts["about"].get("format") != FORMAT:
        msg = "it is a report of another format"
        raise InputError(msg, f"this Ebb knows format {FORMAT}")
    if hashes != {
        **{n: hashes[n] for n in _SECTIONS},
        "report": hash_of(report_text({n: hashes[n] for n in _SECTIONS})),
    }:
        raise _changed("its hashes are not those of a report")
    try:
        given = given_of(parts["given"])
        lines = tuple(parsed_line(json.dumps(facts, separators=(",", ":")).encode()) for facts in parts["lines"])
        check_chain(lines, None, "the report")
        found = Evidence(
            about=parts["about"], given=given, findings=derive(lines, given), chain=Chain(**parts["chain"]), lines=lines
        )
        again = found.json
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError) as error:
        where = f"its parts do not fit together ({type(error).__name__}: {error})"
        raise _changed(where) from error
    for name in ("findings", "measured"):
        if json.loads(again)[name] != parts[name]:
            raise _changed(f"its part {name!r} does not follow from its lines")
    if again != data:
        raise _changed(f"byte {_first_difference(again, data)} is not what was written there")
    return found


def _changed(where: str) -> CorruptionError:
    return CorruptionError("the report is not as it was written", where, _STEP)


def _first_difference(one: bytes, other: bytes) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def verified(report: Evidence, compared: tuple[int, int, int] | None = None) -> Verified:
    """Return what was found out about a report that is as it was written."""
    lines, entries, dropped = compared or (None, None, None)
    return Verified(
        name=report.given.name,
        made=str(report.about["made"]),
        hash=report.hash,
        head=report.chain.head,
        lines=len(report.lines),
        compared_lines=lines,
        compared_entries=entries,
        dropped_lines=dropped,
        kept=report.findings.kept,
        complete=report.findings.complete,
    )


def agrees(report: Evidence, snapshot: Snapshot) -> Verified:
    """Compare a report with the journal and the log of its table; raises CorruptionError that names where they differ."""
    table, given = snapshot.table, report.given
    whole, first = _whole(snapshot)
    tables = {snapshot.table_id, *(line.facts.get("table") for line in whole)}  # an adopted rollback has another id
    if given.table_id not in tables:
        where = f"it is about table {given.table_id}, and this one is {snapshot.table_id}"
        raise CorruptionError("the report is about another table", where, "verify it with the warehouse it came from")
    numbered = list(enumerate(report.lines, report.chain.first))
    for number, line in numbered:
        if number >= first:
            _check_line(whole, number - first, line.hash, line.name)
    chain = report.chain
    if chain.head is not None and chain.head_line >= first:
        _check_line(
            whole, chain.head_line - first, chain.head, f"version {chain.head_version}, the newest of the report"
        )
    entries = 0
    for line in report.lines:
        entry = None if line.version is None else logged_hash(table.log, line.version)
        if entry is not None and entry != line.facts.get("entry") and not _is_replaced(whole, line):
            where = f"version {line.version} is not what the log has now"
            raise CorruptionError("the report and the log disagree", where, _STEP)
        entries += entry is not None
    dropped = sum(number < first for number, _ in numbered)
    return verified(report, (len(numbered) - dropped, entries, dropped))


def _is_replaced(whole: Sequence[Line], line: Line) -> bool:
    spans = [found.facts["replaced"] for found in whole if "replaced" in found.facts]
    return any(first <= (line.version or 0) <= last for first, last in spans)


def _check_line(whole: Sequence[Line], place: int, hash: str, name: str) -> None:
    if place >= len(whole):
        where = (
            f"{name} is in the report and not in the journal, which ends with {whole[-1].name if whole else 'nothing'}"
        )
    elif whole[place].hash != hash:
        where = f"{name} is another one in the journal"
    else:
        return
    step = "the log was taken back or the journal was changed since; compare both with a backup"
    raise CorruptionError("the report and the evidence journal disagree", where, step)
