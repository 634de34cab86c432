"""What the evidence journal says: what expired when, which commit removed it, when its bytes were erased, and who asked.

From the lines of the journal and some facts about the table, and from nothing else, so that whoever has both can derive the
same again. Times are bounds where the log knows no more: a file was gone when the next commit had been told so, and files
whose records had not expired when they were removed may hold some that expired from the next tick on. So a delay is
never shorter than the true one. Pure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate

from ebb.index.journal import Line, counting
from ebb.index.timeline import TimeKind
from ebb.maintenance.inspect.deletions import (
    EARLIEST,
    LATEST,
    ExpiredTick,
    Findings,
    Given,
    Missing,
    OtherCommit,
    RemovedFiles,
    Request,
)
from ebb.maintenance.values import age_text

__all__ = ["derive", "needed", "shown_ms"]

_REQUESTS = ("amend", "forget", "hold", "release")
_COPIES = ("expired_records", "removed_records", "quarantined_records", "landed_files")


@dataclass(frozen=True, slots=True)
class _Removal:
    line: Line
    op: str
    start: int  # when the first record in the files was due to go
    slots: tuple[int, int]  # the least and the greatest in which a record in them expires
    held_expired: bool
    is_known: bool
    eraser: Line | None


class _Work:
    """The lines, looked at from the table's side."""

    def __init__(self, lines: Sequence[Line], given: Given) -> None:
        self.given, self.time = given, given.line
        self.commits = counting(lines)
        self.lines = lines
        self.slots = self._slots()
        # What was removed before a backup was made does not come back with it.
        self.erasers = [c for c in self.commits if "erased_version" in c.facts or c.facts.get("op") == "restore"]
        self._erased = list(accumulate((c.facts.get("erased_version", c.version) for c in self.erasers), max))
        self.adopted = {v: line for line in self.commits for v in line.facts.get("adopted", ())}
        declared = [(0, given.bound)]
        declared += [
            (line.version or 0, line.facts["declared"]["bound"])
            for line in self.commits
            if "bound" in line.facts.get("declared", {})
        ]
        self._bounds = declared
        self.removals = [self._removal(line) for line in self.commits if "removed" in line.facts]

    def _slots(self) -> dict[int, int | None]:
        """Return the clock after each commit; another tool's counts as made with the one before."""
        found: dict[int, int | None] = {}
        slot: int | None = None
        for line in self.commits:
            slot = line.facts.get("slot", slot)
            found[line.version or 0] = slot
        return found

    @property
    def now(self) -> int:
        return self.time.kind.from_micros(self.given.made_ms * 1000) if self.has_wall else self._end(self.given.clock)

    @property
    def has_wall(self) -> bool:
        return self.time.kind.has_wall_clock

    def _end(self, slot: int | None) -> int:
        return self.time.end_of(slot or 0)

    def moment(self, line: Line, ms: int | None = None) -> int:
        """Return when a commit was made, or what it tells of was done; for integers by the clock."""
        if not self.has_wall:
            return self._end(self.slots.get(line.version or 0))
        return self.time.kind.from_micros((line.facts["ms"] if ms is None else ms) * 1000)

    def gone(self, eraser: Line) -> int:
        """Return when files were gone: for integers the clock was about to move when they were erased."""
        if not self.has_wall:
            return self._end(self.gone_slot(eraser))
        return self.moment(eraser, eraser.facts.get("erased_ms"))

    def gone_slot(self, eraser: Line) -> int:
        return (self.slots[eraser.version or 0] or 0) - max(0, eraser.facts.get("ticks", 1) - 1)

    def bound_at(self, line: Line | None) -> int:
        """Return the deletion bound in force when a commit was made; now without one."""
        if line is None:
            return self.given.bound_now
        return next(bound for version, bound in reversed(self._bounds) if version <= (line.version or 0))

    def eraser_of(self, line: Line) -> Line | None:
        """Return the first commit that says that what this one removed is gone."""
        place = bisect_left(self._erased, line.version or 0)
        return self.erasers[place] if place < len(self.erasers) else None

    def _removal(self, line: Line) -> _Removal:
        facts, slot = line.facts, self.slots[line.version or 0]
        since, is_known = facts.get("exposed_since"), True
        if "op" not in facts:
            adoption = self.adopted.get(line.version or 0)
            is_known = adoption is not None
            since = adoption.facts.get("exposed", {}).get(str(line.version)) if adoption is not None else None
            slot = slot if adoption is None else self.slots[adoption.version or 0]
        low, high = facts.get("removed_slots", (EARLIEST if since is not None else (slot or 0) + 1, LATEST))
        start = self._end(max(low, (slot or 0) + 1)) if since is None else since
        return _Removal(
            line=line,
            op=facts.get("op", facts.get("operation", "")),
            start=start,
            slots=(low if is_known else EARLIEST, high),
            held_expired=since is not None,
            is_known=is_known,
            eraser=self.eraser_of(line),
        )


def derive(lines: Sequence[Line], given: Given) -> Findings:
    """Return what follows from lines of a journal about the period of a report."""
    work = _Work(lines, given)
    ticks = _ticks(work)
    asked = [
        line
        for line in work.commits
        if line.facts.get("op") in _REQUESTS and given.covers(work.slots[line.version or 0])
    ]
    named: set[int | None] = {version for tick in ticks for version in tick.removed_by}
    named.update(found.version for line in asked if (found := _forgotten_in(work, line)) is not None)
    chosen = [r for r in work.removals if r.line.version in named or given.covers(work.slots[r.line.version or 0])]
    removals = tuple(_removed(work, removal) for removal in chosen)
    requests = tuple(_request(work, line) for line in asked)
    missing, foreign = _missing(work), _foreign(work)
    delays = [(_delay(work, removal), removal.line.version) for removal in chosen if removal.is_known]
    first, last = given.period
    on_disk = any(low <= last and high >= first for low, high in given.expired_slots)
    if on_disk and given.expired_since is not None:
        delays.append((work.now - given.expired_since, None))
    longest = max(delays, key=lambda found: found[0], default=None)
    kind = work.time.kind
    verdicts = [
        *(tick.kept for tick in ticks),
        *(removed.kept for removed in removals),
        *(request.kept for request in requests if request.op == "forget"),
    ]
    return Findings(
        ticks=ticks,
        removals=removals,
        requests=requests,
        foreign=foreign,
        missing=missing,
        expired=sum(tick.expired for tick in ticks),
        erased_files=sum(removed.files for removed in removals if removed.erased_by is not None),
        erased_bytes=sum(removed.bytes for removed in removals if removed.erased_by is not None),
        waiting_files=sum(removed.files for removed in removals if removed.erased_by is None),
        longest=None if longest is None else age_text(kind, longest[0]),
        longest_seconds=None if longest is None else _seconds(kind, longest[0]),
        longest_removed_by=None if longest is None else longest[1],
        bound=kind.show_duration(given.bound_now),
        bound_seconds=_seconds(kind, given.bound_now),
        kept=False not in verdicts and (longest is None or longest[1] is not None or longest[0] <= given.bound_now),
        complete=not missing
        and all(other.adopted_by is not None for other in foreign if other.files_added or other.files_removed)
        and None not in [*(tick.kept for tick in ticks), *(removed.kept for removed in removals)],
    )


def _ticks(work: _Work) -> tuple[ExpiredTick, ...]:
    """Return what expired with each commit that moved the clock in the period."""
    given, time = work.given, work.time
    erased_at = [LATEST if r.eraser is None else r.eraser.version or 0 for r in work.removals]
    least_after = list(accumulate(reversed([r.slots[0] for r in work.removals]), min))[::-1]
    found = []
    for line in work.commits:
        facts, slot = line.facts, line.facts.get("slot")
        if slot is None or facts.get("op") not in ("load", "update") or not given.covers(slot):
            continue
        ticks, expired = facts.get("ticks", 1), facts.get("expired", 0)
        first = time.end_of(slot - ticks + 1)
        removers: list[_Removal] = []
        place = bisect_left(erased_at, (line.version or 0) + 1)
        while expired and place < len(work.removals) and least_after[place] <= slot:
            low, high = work.removals[place].slots
            if low <= slot and high > slot - ticks:
                removers.append(work.removals[place])
            place += 1
        is_live, is_held = (
            bool(expired) and any(low <= slot and high > slot - ticks for low, high in some)
            for some in (given.expired_slots, given.held_slots)
        )
        found.append(_tick(work, line, removers, first=first, is_live=is_live, is_held=is_held))
    return tuple(found)


def _tick(
    work: _Work, line: Line, removers: Sequence[_Removal], *, first: int, is_live: bool, is_held: bool
) -> ExpiredTick:
    facts, kind = line.facts, work.time.kind
    expired = facts.get("expired", 0)
    erasers = [removal.eraser for removal in removers if removal.eraser is not None]
    is_gone = bool(removers) and len(erasers) == len(removers) and not is_live and not is_held
    last = max(erasers, key=lambda eraser: eraser.version or 0) if is_gone else None
    delay: int | None = None
    kept: bool | None = True
    if expired and (removers or is_live):
        ends = [(work.now if r.eraser is None else work.gone(r.eraser)) - max(r.start, first) for r in removers]
        if is_live:
            since = first if work.given.expired_since is None else max(first, work.given.expired_since)
            ends.append(work.now - since)
        delay = max(0, *ends) if ends else 0
        kept = delay <= work.bound_at(last)
    elif expired and not is_held:
        kept = None  # nothing in the journal can have held them
    if any(not removal.is_known for removal in removers):
        kept = None
    return ExpiredTick(
        version=line.version or 0,
        committed=shown_ms(facts["ms"]),
        slot=facts["slot"],
        time=work.time.show_slot(facts["slot"]),
        ticks=facts.get("ticks", 1),
        admitted=facts.get("admitted", 0),
        expired_on_arrival=facts.get("expired_on_arrival", 0),
        quarantined=facts.get("quarantined", 0),
        expired=expired,
        removed_by=tuple(removal.line.version or 0 for removal in removers),
        erased_by=None if last is None else last.version,
        erased=None if last is None else _shown(work, last),
        held=is_held,
        delay=None if delay is None else age_text(kind, delay),
        delay_seconds=None if delay is None else _seconds(kind, delay),
        kept=kept,
    )


def _delay(work: _Work, removal: _Removal) -> int:
    end = work.now if removal.eraser is None else work.gone(removal.eraser)
    return max(0, end - removal.start)


def _removed(work: _Work, removal: _Removal) -> RemovedFiles:
    facts, kind, eraser = removal.line.facts, work.time.kind, removal.eraser
    delay = _delay(work, removal) if removal.is_known else None
    return RemovedFiles(
        version=removal.line.version or 0,
        op=removal.op,
        committed=shown_ms(facts["ms"]),
        files=facts["removed"][0],
        bytes=facts["removed"][1],
        due=kind.show_time(removal.start) if removal.is_known else None,
        held_expired=removal.held_expired,
        erased_by=None if eraser is None else eraser.version,
        erased=None if eraser is None else _shown(work, eraser),
        delay=None if delay is None else age_text(kind, delay),
        delay_seconds=None if delay is None else _seconds(kind, delay),
        kept=None if delay is None else delay <= work.bound_at(eraser),
    )


def _forgotten_in(work: _Work, line: Line) -> Line | None:
    """Return the last commit that removed files in which a forgotten record may be: that of the forget, or one before it."""
    if line.facts.get("op") != "forget" or not {"erase_by_ms", "erase_by_slot"} & line.facts.keys():
        return None  # or there were copies only, which went before the commit
    return next((r.line for r in reversed(work.removals) if (r.line.version or 0) <= (line.version or 0)), None)


def _request(work: _Work, line: Line) -> Request:
    facts = line.facts
    last, is_forget = _forgotten_in(work, line), facts["op"] == "forget"
    eraser = None if last is None else work.eraser_of(last)
    by, by_slot = facts.get("erase_by_ms"), facts.get("erase_by_slot")
    kept: bool | None = None
    if is_forget and last is None:
        kept = True
    elif is_forget and eraser is not None:
        is_early = by is None or eraser.facts.get("erased_ms", eraser.facts["ms"]) <= by
        kept = is_early and (by_slot is None or work.gone_slot(eraser) <= by_slot)
    elif is_forget and (
        (by or work.given.made_ms) < work.given.made_ms or (by_slot is not None and (work.given.clock or 0) > by_slot)
    ):
        kept = False
    to_slot = facts.get("to_slot")
    return Request(
        version=line.version or 0,
        op=facts["op"],
        committed=shown_ms(facts["ms"]),
        by=facts.get("by"),
        case=facts.get("case"),
        records=facts.get("records"),
        copies=sum(facts.get(name, 0) for name in _COPIES),
        asked=facts.get("asked"),
        to=None if to_slot is None else work.time.show_slot(to_slot),
        erase_by=shown_ms(by) if by is not None else None if by_slot is None else work.time.show_slot(by_slot),
        erased_by=None if eraser is None else eraser.version,
        erased=None if eraser is None else _shown(work, eraser),
        kept=kept,
    )


def _foreign(work: _Work) -> tuple[OtherCommit, ...]:
    found = []
    for line in work.commits:
        version = line.version or 0
        slot = work.slots[version]  # it was made after that tick, and before the next one
        if "op" not in line.facts and any(map(work.given.covers, (slot, slot if slot is None else slot + 1))):
            adoption = work.adopted.get(version)
            found.append(
                OtherCommit(
                    version=version,
                    operation=line.facts.get("operation", ""),
                    committed=shown_ms(line.facts["ms"]),
                    files_added=line.facts.get("added", [0])[0],
                    files_removed=line.facts.get("removed", [0])[0],
                    adopted_by=None if adoption is None else adoption.version,
                )
            )
    return tuple(found)


def _missing(work: _Work) -> tuple[Missing, ...]:
    """Return what the journal cannot tell of the period: a gap lies between two clocks."""
    found = [Missing(what="dropped", first=None, last=None)] if work.given.is_cut else []
    first, last = work.given.period
    for place, line in enumerate(work.lines):
        kind = next((kind for kind in ("gap", "replaced") if kind in line.facts), None)
        if kind is None:
            continue
        before = next((n.facts["slot"] for n in reversed(work.lines[:place]) if "slot" in n.facts), EARLIEST)
        after = next((n.facts["slot"] for n in work.lines[place:] if "slot" in n.facts), LATEST)
        if after >= first and before < last:
            found.append(Missing(what=kind, first=line.facts[kind][0], last=line.facts[kind][1]))
    return tuple(found)


def needed(lines: Sequence[Line], findings: Findings) -> tuple[int, int]:
    """Return which lines, from the first to before the last, the findings follow from."""
    versions: set[int | None] = {version for tick in findings.ticks for version in tick.removed_by}
    rows: list[ExpiredTick | RemovedFiles | Request] = [*findings.ticks, *findings.removals, *findings.requests]
    versions.update(version for row in rows for version in (row.version, row.erased_by))
    versions.update(version for other in findings.foreign for version in (other.version, other.adopted_by))
    spans = {(missing.what, missing.first) for missing in findings.missing}
    places = [
        place
        for place, line in enumerate(lines)
        if (line.version is not None and line.version in versions)
        or any((kind, line.facts[kind][0]) in spans for kind in ("gap", "replaced") if kind in line.facts)
    ]
    if not places:
        return len(lines), len(lines)
    start, end = places[0], places[-1] + 1
    # With the clocks around: what has none of its own counts as made between them.
    while start and "slot" not in lines[start].facts:
        start -= 1
    while end < len(lines) and "slot" not in lines[end - 1].facts:
        end += 1
    return start, end


def shown_ms(ms: int) -> str:
    """Return a moment on the wall clock."""
    try:
        return datetime.fromtimestamp(ms / 1000, tz=UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return f"{ms} ms since 1970"


def _shown(work: _Work, eraser: Line) -> str:
    if not work.has_wall:
        return work.time.show_slot(work.gone_slot(eraser))
    return shown_ms(eraser.facts.get("erased_ms", eraser.facts["ms"]))


def _seconds(kind: TimeKind, duration: int) -> float | None:
    return kind.seconds(duration) if kind.has_wall_clock else None
