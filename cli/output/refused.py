"""Refused records for people: the list, and what to do with those that were written out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from ebb.cli.output import render

if TYPE_CHECKING:
    from ebb.maintenance.inspect.quarantined import Quarantine, Quarantined

__all__ = ["refused_lines", "written_lines"]

_LISTED = 5  # lines of a file, by number


def written_lines(name: str, records: Sequence[Quarantined], output: Path) -> list[str]:
    """Tell what to do with records that were written out, and which of them have to be written anew."""
    step = f"repair {'it' if len(records) == 1 else 'them'}, then: ebb quarantine {name} --retry {quote(str(output))}"
    text = [f"{render.counted(len(records), 'record')} written to {output}; {step}"]
    starts = itertools.accumulate((r.record.count("\n") + 1 for r in records), initial=1)
    unread = [str(line) for line, record in zip(starts, records, strict=False) if not record.is_readable]
    if unread:
        listed = ", ".join(unread[:_LISTED]) + " …" * (len(unread) > _LISTED)
        what = f"line{'s' * (len(unread) > 1)} {listed} could not be read as records of the table"
        text.append(f"{what}: write each as a JSON object with its columns, or remove it")
    return text


def refused_lines(refused: Quarantine, records: Sequence[Quarantined], limit: int) -> list[str]:
    """Return refused records as a table, with how many there are for each reason."""
    reasons = [(f"{n:,}", why) for why, n in refused.reasons.items()]
    text = render.table_text(reasons, ("records", "reason"), right=(0,))
    rows = [(r.time, _place(r), r.reason, r.record) for r in records]
    text += ["", *render.table_text(rows, ("slot time", "where", "reason", "record"))]
    count = len(refused.records)
    if count > limit:
        text.append(f"({limit} of {count:,} shown; see --limit and --output)")
    return text


def _place(record: Quarantined) -> str:
    if record.file is None:
        return ""
    return record.file if record.line is None else f"{record.file}:{record.line}"
