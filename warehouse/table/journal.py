"""The evidence journal on disk: what is kept of commits when their log entries have gone.

Its lines lie in segments, files that are written whole and never changed: when there are new lines, a small last segment is
written again together with them under a new name, and the old one removed. Nothing is done per commit: the log is the
evidence as long as it has an entry, and the journal is brought up to date before entries are removed. Whoever asks for
evidence gets the journal and, made the same way, the lines that it will have for the rest of the log.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebb.index.errors import CorruptionError
from ebb.index.journal import ORIGIN, Line, check_chain, commit_facts, counting, hash_of, parsed_line, written_line
from ebb.warehouse.store.disk import Disk
from ebb.warehouse.store.errors import disk_errors, read_error
from ebb.warehouse.store.files import create, make_folder, names_in, read_file, remove_file
from ebb.warehouse.store.paths import (
    entry_name,
    entry_version,
    journal_lines,
    journal_segment,
    unfinished_commit,
)
from ebb.warehouse.table.log import LogEntry

__all__ = ["Backlog", "backlog", "bring_up_to_date", "logged_hash", "whole_journal", "written_journal"]

_SEGMENT_BYTES = 256 * 1024  # a last segment that is smaller takes in the next lines
_READS = 4  # tries to read what a writer moves on
_STEP = "compare it with a backup or an earlier report"


@dataclass(frozen=True, slots=True)
class _Segment:
    """A file of the journal, and which of its lines it holds."""

    first: int
    last: int
    path: Path

    def lines(self) -> list[Line]:
        """Read its lines."""
        rows = read_file(str(self.path)).split(b"\n")
        found: list[Line] = []
        if rows.pop() or len(rows) != self.last - self.first + 1:
            where = f"{self.path.name} does not end with line {self.last}"
            raise CorruptionError("the evidence journal is damaged", where, _STEP)
        for number, row in enumerate(rows, self.first):
            try:
                found.append(parsed_line(row))
            except ValueError as error:
                where = f"{self.path.name}, line {number} (after {found[-1].name if found else 'its start'})"
                raise CorruptionError("the evidence journal is damaged", where, _STEP) from error
        return found


def _segments(folder: Path) -> list[_Segment]:
    """Return the segments that count, the oldest first."""
    try:
        names = names_in(folder)
    except FileNotFoundError:
        return []
    spans = ((span, name) for name in names if (span := journal_lines(name)) is not None)
    found: list[_Segment] = []
    for (first, last), name in sorted(spans, key=lambda item: (item[0][0], -item[0][1])):
        if found and last <= found[-1].last:  # a killed writer left it: its lines stand in the one that took them in
            continue
        if found and first != found[-1].last + 1:
            where = f"lines {found[-1].last + 1} to {first - 1}"
            raise CorruptionError("a part of the evidence journal is missing", where, _STEP)
        found.append(_Segment(first, last, folder / name))
    return found


def written_journal(folder: Path) -> tuple[list[Line], int]:
    """Return all lines of the journal that were written down, whose chain is whole, and the number of the first."""
    for _ in range(_READS - 1):
        with suppress(FileNotFoundError):  # a segment is taken in by another one just now
            return _read(_segments(folder))
    return _read(_segments(folder))


def _read(segments: Sequence[_Segment]) -> tuple[list[Line], int]:
    lines = [line for segment in segments for line in segment.lines()]
    first = segments[0].first if segments else 0
    check_chain(lines, None if first else ORIGIN, "the evidence journal")
    if first and not any(_tells_of(line, first - 1, lines[0].before) for line in lines):
        where = f"lines 0 to {first - 1}, and no line says that their time was over"
        raise CorruptionError("a part of the evidence journal is missing", where, _STEP)
    return lines, first


def _tells_of(line: Line, last: int, hash: str) -> bool:
    return line.facts.get("dropped", [None])[-1] == last and line.facts.get("hash") == hash


def whole_journal(folder: Path, log: Path, newest: int) -> tuple[list[Line], int]:
    """Return every line up to a version: those of the journal, and those that it will have for the rest of the log.

    Also returns the number of the first line. Needs no lock, and writes nothing.
    """
    with disk_errors("the evidence journal cannot be read"):
        for _ in range(_READS):
            lines, first = written_journal(folder)
            there = [version for version in map(entry_version, names_in(log)) if version is not None]
            fresh = list(_fresh(log, lines, max([newest, *there])))
            if not any("gap" in line.facts for line in fresh) or _end(folder) == first + len(lines):
                break  # otherwise entries left the log after the journal had been read
    whole = [*lines, *fresh]
    end = max((place for place, line in enumerate(whole, 1) if line.version == newest), default=len(whole))
    while end < len(whole) and "dropped" in whole[end].facts:
        end += 1
    return whole[:end], first


def _end(folder: Path) -> int:
    segments = _segments(folder)
    return segments[-1].last + 1 if segments else 0


def bring_up_to_date(
    folder: Path, log: Path, newest: int, *, disk: Disk, is_kept: Callable[[Line], bool] = lambda _: True
) -> int:
    """Write down every commit that is not in the journal yet, and drop whole segments whose time is over.

    Returns how many lines were written. ``is_kept``: whether the evidence of a commit is within its retention. Requires
    the writer's lock. When this returns, log entries up to ``newest`` may go.
    """
    make_folder(folder, exist_ok=True, parents=True)
    segments = _segments(folder)
    counting_names = {segment.path.name for segment in segments}
    for name in names_in(folder):
        if name not in counting_names:  # a killed writer left it
            remove_file(folder / name)
    tail = _tail(segments)
    fresh = list(_fresh(log, tail, newest, everything=lambda: written_journal(folder)[0]))
    over = _over(segments[:-1], is_kept)
    if over is not None and not any(_tells_of(line, over[0].last, over[1].hash) for line in tail):
        fresh.append(_dropped(segments[0].first, *over, [*tail, *fresh]))
    if fresh:
        _write(folder, segments[-1] if segments else None, tail, fresh, disk)
    for segment in segments[:-1]:
        if over is not None and segment.last <= over[0].last:
            remove_file(segment.path)
    return len(fresh)


def _tail(segments: Sequence[_Segment]) -> list[Line]:
    """Return the lines of the last segments, one about a commit among them if there is any."""
    lines: list[Line] = []
    for segment in reversed(segments):
        lines = [*segment.lines(), *lines]
        if any(line.version is not None for line in lines):
            break
    return lines


def _fresh(
    log: Path,
    tail: Sequence[Line],
    newest: int,
    *,
    everything: Callable[[], Sequence[Line]] | None = None,
) -> Iterator[Line]:
    """Yield the lines that follow the journal, up to a version.

    ``tail``: its last lines, or all. ``everything`` returns all, should it take more: only if the log was taken back.
    """
    known = counting(tail)
    agreed = _agreed(log, known, newest)
    if agreed is None and everything is not None:
        known = counting(everything())
        agreed = _agreed(log, known, newest)
    before = tail[-1].hash if tail else ORIGIN
    version = 0 if agreed is None or agreed.version is None else agreed.version + 1
    if known and known[-1] is not agreed:
        replaced = written_line({"replaced": [version, known[-1].version]}, before)
        before = replaced.hash
        yield replaced
    there = sorted(v for v in map(entry_version, names_in(log)) if v is not None)
    while version <= newest:
        facts = _facts(log, version)
        if facts is None:
            following = next(iter(there[bisect_left(there, version + 1) :]), newest + 1)
            facts = {"gap": [version, min(following, newest + 1) - 1]}
            version = facts["gap"][1]
        line = written_line(facts, before)
        before, version = line.hash, version + 1
        yield line


def _agreed(log: Path, known: Sequence[Line], newest: int) -> Line | None:
    """Return the last line whose commit the log has as it was, or has no longer because it is old.

    No line vouches for the last one yet: it must say what its log entry does.
    """
    for line in reversed(known):
        if line.version is None or line.version > newest:
            continue
        facts = _facts(log, line.version)
        if facts is None:
            return line
        if facts["entry"] == line.facts.get("entry"):
            if any(facts.get(name) != value for name, value in line.facts.items() if name != "before"):
                where = f"its line about version {line.version} is not what the log says"
                raise CorruptionError("the evidence journal is damaged", where, _STEP)
            return line
    return None


def _data(log: Path, version: int) -> bytes | None:
    try:
        return read_file(str(log / entry_name(version)))
    except FileNotFoundError:
        return None


def logged_hash(log: Path, version: int) -> str | None:
    """Return the hash of a log entry as the journal has it; None if there is none any more."""
    data = _data(log, version)
    return None if data is None else hash_of(data)


def _facts(log: Path, version: int) -> dict[str, Any] | None:
    """Return what the line about a commit says; None if the log has it no longer."""
    data = _data(log, version)
    if data is None:
        return None
    try:
        actions = [json.loads(row) for row in data.splitlines() if row.strip()]
        entry = LogEntry.of(actions, version)
        metadata = next((action["metaData"] for action in actions if "metaData" in action), None)
        return commit_facts(
            data,
            version=version,
            committed_ms=int(entry.timestamp_ms),
            operation=entry.operation,
            ebb=entry.ebb,
            added=(len(entry.added), entry.bytes_added),
            removed=(len(entry.removed), entry.bytes_removed),
            metadata=metadata,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise read_error(error, "a log entry", entry_name(version)) from error


def _over(segments: Sequence[_Segment], is_kept: Callable[[Line], bool]) -> tuple[_Segment, Line] | None:
    """Return the last segment whose time is over, and its last line."""
    found: tuple[_Segment, Line] | None = None
    for segment in segments:
        lines = segment.lines()
        if any(line.version is not None and is_kept(line) for line in lines):
            break
        found = (segment, lines[-1])
    return found


def _dropped(first: int, segment: _Segment, last: Line, lines: Sequence[Line]) -> Line:
    """Return the line that says that lines were dropped, and which hash the first that is left carries."""
    when = max((line.facts["ms"] for line in lines if line.version is not None), default=0)
    facts = {"dropped": [first, segment.last], "hash": last.hash, "ms": when}
    return written_line(facts, lines[-1].hash)


def _write(folder: Path, last: _Segment | None, tail: Sequence[Line], fresh: Sequence[Line], disk: Disk) -> None:
    """Write lines as segments; a small last segment is taken in by the first of them."""
    tail = [] if last is None else tail[-(last.last - last.first + 1) :]
    taken = last if last is not None and sum(len(line.data) for line in tail) < _SEGMENT_BYTES else None
    first = 0 if last is None else taken.first if taken is not None else last.last + 1
    rows = [line.data for line in ([*tail, *fresh] if taken is not None else fresh)]
    while rows:
        count, size_bytes = 0, 0
        while count < len(rows) and size_bytes < _SEGMENT_BYTES:
            size_bytes += len(rows[count]) + 1
            count += 1
        name = journal_segment(first, first + count - 1)
        create(folder / name, b"\n".join(rows[:count]) + b"\n", unfinished=folder / unfinished_commit(name), disk=disk)
        first, rows = first + count, rows[count:]
    disk.sync([folder, folder.parent, folder.parent.parent])  # before what they replace goes
    if taken is not None:
        remove_file(taken.path)


@dataclass(frozen=True, slots=True)
class Backlog:
    """How far the journal is behind the log."""

    commits: int  # that are in the log and not in the journal yet
    lost: int  # that are in neither


def backlog(folder: Path, log: Path, newest: int) -> Backlog:
    """Return how far the journal is behind.  Reads its last segment and the names of the log's entries."""
    with disk_errors("the evidence journal cannot be read"):
        segments = _segments(folder)
        tail = _tail(segments)
        known = [line.version for line in tail if line.version is not None]
        gaps = [line.facts["gap"][1] for line in tail if "gap" in line.facts]
        written = max((*known[-1:], *gaps[-1:]), default=-1)
        there = [v for v in map(entry_version, names_in(log)) if v is not None and written < v <= newest]
    return Backlog(commits=len(there), lost=max(0, newest - written - len(there)))
