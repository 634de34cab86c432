"""The evidence journal: a line for each commit, which says what was deleted when, and carries the hash of the line before it.

A line is made of a log entry alone, so whoever has the entry can make the line again; the journal is what is left when the
entry has gone. There are three other lines, about the journal itself: commits whose entries were gone before they were
written down (``gap``), lines about commits that the log no longer has because somebody took it back (``replaced``), and
lines that were dropped when their time was over (``dropped``). Nothing is ever changed or left out without a line.

No key, condition or value of a record is in a line. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from ebb.index.errors import CorruptionError
from ebb.index.stored import parsed

__all__ = ["ORIGIN", "Line", "check_chain", "commit_facts", "counting", "hash_of", "parsed_line", "written_line"]

_BEFORE = "before"
_NUMBERS = (
    "slot", "ticks", "received", "admitted", "expired_on_arrival", "quarantined", "expired", "live", "live_before",
    "exposed_since", "erased_version", "erased_files", "erased_bytes", "erased_ms", "records", "erase_by_ms", "to_slot",
    "erase_by_slot", "expired_records", "removed_records", "quarantined_records", "landed_files",
)  # fmt: skip
_TEXTS = ("case", "by", "asked")
_LONGEST = 200  # of a text: the log may be anybody's
# What a table declares of deletion, in the entries that say how it looks.
_DECLARED = {"bound": "ebb.deletionBound", "reader_time": "ebb.readerTime", "tick": "ebb.tick"}


def hash_of(data: bytes) -> str:
    """Return the BLAKE2b-256 hash of some bytes, in hexadecimal."""
    return blake2b(data, digest_size=32).hexdigest()


ORIGIN = hash_of(b"")  # what the first line of a journal carries


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the journal."""

    data: bytes  # as it stands there, without the line feed
    facts: Mapping[str, Any]

    @property
    def hash(self) -> str:
        """Return what the next line carries."""
        return hash_of(self.data)

    @property
    def before(self) -> str:
        """Return the hash of the line before it."""
        return str(self.facts[_BEFORE])

    @property
    def version(self) -> int | None:
        """Return the version of the commit that it is about; None if it is about the journal itself."""
        version: int | None = self.facts.get("version")
        return version

    @property
    def name(self) -> str:
        """Return what it is about, for people.

        >>> written_line({"version": 7}, "").name, written_line({"gap": [3, 5]}, "").name
        ('version 7', 'gap 3 to 5')
        """
        if self.version is not None:
            return f"version {self.version}"
        kind = next((kind for kind in ("gap", "replaced", "dropped") if kind in self.facts), "unknown")
        span = self.facts.get(kind, ())
        return f"{kind} {' to '.join(map(str, span))}" if isinstance(span, list) else kind


def written_line(facts: Mapping[str, Any], before: str) -> Line:
    """Return a new line; ``before``: the hash of the last one."""
    whole = {**facts, _BEFORE: before}
    return Line(_text(whole), whole)


def _text(facts: Mapping[str, Any]) -> bytes:
    return json.dumps(facts, separators=(",", ":")).encode()


def parsed_line(data: bytes) -> Line:
    """Read a line back; ValueError if it is none."""
    facts = parsed(data)
    is_line = isinstance(facts, dict) and isinstance(facts.get(_BEFORE), str)
    if not is_line or _text(facts) != data or not isinstance(facts.get("version", 0), int):
        msg = "it is no line of a journal"
        raise ValueError(msg)
    return Line(data, facts)


def check_chain(lines: Sequence[Line], before: str | None, what: str) -> None:
    """Refuse lines that are not a chain: one was changed, left out or put in.

    ``before``: what the first one carries; None if that is not known. ``what`` they are, for the message.
    """
    expected = before
    for number, line in enumerate(lines):
        if expected is not None and line.before != expected:
            changed = lines[number - 1].name if number else "what stood before it"
            where = f"{line.name} does not follow {changed}: one of them was changed, or a line between them is gone"
            raise CorruptionError(
                f"the chain of {what} is broken", where, "compare it with a backup or an earlier report"
            )
        expected = line.hash


def counting(lines: Iterable[Line]) -> list[Line]:
    """Return the lines about commits that the log has or had, without those that were replaced.

    >>> some = [{"version": 1}, {"version": 2}, {"replaced": [2, 2]}, {"version": 2, "op": "new"}]
    >>> [line.facts.get("op", "old") for line in counting(written_line(facts, "") for facts in some)]
    ['old', 'new']
    """
    found: list[Line] = []
    for line in lines:
        if "replaced" in line.facts:
            first = line.facts["replaced"][0]
            found = [known for known in found if known.version is None or known.version < first]
        elif line.version is not None:
            found.append(line)
    return found


def commit_facts(
    data: bytes,
    *,
    version: int,
    committed_ms: int,
    operation: str,
    ebb: Mapping[str, Any],
    added: tuple[int, int],
    removed: tuple[int, int],
    metadata: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return what the line about a commit says; ``data`` is its log entry.

    ``added`` and ``removed``: files and bytes. ``metadata``: what the entry says about the table, if it does. Only what
    has the right type is taken over: the entry may be another tool's, or nobody knows whose.
    """
    facts: dict[str, Any] = {"version": version, "ms": committed_ms}
    if isinstance(ebb.get("id"), str):
        facts["id"] = ebb["id"][:_LONGEST]
        facts["op"] = str(ebb.get("op"))[:_LONGEST]
    else:
        facts["operation"] = str(operation)[:_LONGEST]  # of another tool; never its parameters, which may hold keys
    facts |= {name: ebb[name] for name in _NUMBERS if _is_number(ebb.get(name))}
    facts |= {name: ebb[name][:_LONGEST] for name in _TEXTS if isinstance(ebb.get(name), str)}
    if any(added):
        facts["added"] = list(added)
    if any(removed):
        facts["removed"] = list(removed)
    slots = ebb.get("removed_slots")
    if isinstance(slots, list) and len(slots) == 2 and all(map(_is_number, slots)):
        facts["removed_slots"] = slots
    if isinstance(ebb.get("adopted_versions"), list):
        facts["adopted"] = [number for number in ebb["adopted_versions"] if _is_number(number)]
    if isinstance(ebb.get("exposed"), dict):
        facts["exposed"] = {str(name): since for name, since in ebb["exposed"].items() if _is_number(since)}
    if metadata is not None:
        facts["table"] = str(metadata.get("id"))[:_LONGEST]
        properties = metadata.get("configuration")
        declared = {name: str((properties or {}).get(key)) for name, key in _DECLARED.items()}
        facts["declared"] = {name: int(text) for name, text in declared.items() if text.isdecimal()}
    return {**facts, "entry": hash_of(data)}


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
