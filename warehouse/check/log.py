"""What the log of a table looks like on disk: entries, checkpoints, the head record.  Changes nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ebb.index.errors import CorruptionError
from ebb.warehouse.store.errors import disk_errors, first_line
from ebb.warehouse.store.files import is_there, names_in, read_file
from ebb.warehouse.store.paths import LAST_CHECKPOINT, entry_name, entry_version
from ebb.warehouse.table.head import Known, read_head
from ebb.warehouse.table.log import LogEntry
from ebb.warehouse.table.snapshot import Table

__all__ = ["EntryFacts", "LogFacts", "look_at_log"]

_CHECKPOINT = re.compile(r"([0-9]{20})\.checkpoint\b.*\.parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFacts:
    """One log entry, as far as others depend on it."""

    version: int
    hash: str
    clock: int | None  # of its transaction
    ebb: Mapping[str, Any]
    files: int  # that it adds or removes

    @property
    def name(self) -> str:
        """Return the name of its file."""
        return entry_name(self.version)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """A log from its oldest entry to its newest."""

    head: Known  # read before the log
    entries: Sequence[EntryFacts] = ()  # the oldest first
    damaged: Mapping[int, str] = field(default_factory=dict)  # entries that cannot be read, and why
    missing: Sequence[int] = ()  # versions between others
    checkpoints: Sequence[int] = ()
    checkpoint_problem: str | None = None
    damaged_checkpoint: int | None = None  # the version of the newest one, if it cannot be read

    @property
    def oldest(self) -> int:
        """Return the version of the oldest entry."""
        return min((entry.version for entry in self.entries), default=0)

    @property
    def newest(self) -> int:
        """Return the version of the newest entry."""
        return max((entry.version for entry in self.entries), default=-1)


def look_at_log(table: Table) -> LogFacts:
    """Look at the whole log.  Reads every entry; those that a writer removes meanwhile are left out."""
    head = read_head(table.hidden)
    with disk_errors(f"the log of table {table.name} cannot be read"):
        names = names_in(table.log)
    entries: list[EntryFacts] = []
    damaged: dict[int, str] = {}
    versions = sorted(version for name in names if (version := entry_version(name)) is not None)
    gone: set[int] = set()
    for version in versions:
        try:
            entry = LogEntry.read(table.log, version)
        except CorruptionError as error:
            damaged[version] = str(error.args[1])
            continue
        if entry is None:
            gone.add(version)
            continue
        files = len(entry.added) + len(entry.removed)
        entries.append(EntryFacts(version=version, hash=entry.hash, clock=entry.clock, ebb=entry.ebb, files=files))
    there = [version for version in versions if version not in gone]
    missing = sorted(set(range(there[0], there[-1])) - set(there)) if there else []
    checkpoints = sorted({int(match[1]) for name in names if (match := _CHECKPOINT.fullmatch(name))})
    damage = _checkpoint_damage(table, names, checkpoints)
    return LogFacts(
        head=head,
        entries=entries,
        damaged=damaged,
        missing=missing,
        checkpoints=checkpoints,
        checkpoint_problem=damage or _last_problem(table, names, checkpoints),
        damaged_checkpoint=checkpoints[-1] if damage else None,
    )


def _last_problem(table: Table, names: Sequence[str], checkpoints: Sequence[int]) -> str | None:
    """Return what is wrong with the file that names the newest checkpoint."""
    if not checkpoints:
        return f"{LAST_CHECKPOINT} is there and no checkpoint is" if LAST_CHECKPOINT in names else None
    try:
        named = int(json.loads(read_file(f"{table.log}/{LAST_CHECKPOINT}"))["version"])
    except FileNotFoundError:
        return f"{LAST_CHECKPOINT} is missing"
    except (OSError, ValueError, KeyError, TypeError):
        return f"{LAST_CHECKPOINT} is damaged"
    if named not in checkpoints and not is_there(table.log / f"{named:020}.checkpoint.parquet"):
        return f"{LAST_CHECKPOINT} names version {named}, which has no checkpoint"
    return None


def _checkpoint_damage(table: Table, names: Sequence[str], checkpoints: Sequence[int]) -> str | None:
    """Return what is wrong with the newest checkpoint: opening a table starts from it."""
    for name in sorted(names):
        if (match := _CHECKPOINT.fullmatch(name)) and int(match[1]) == checkpoints[-1]:
            try:
                with pq.ParquetFile(table.log / name) as file:
                    file.read(columns=[file.schema_arrow.names[0]])
            except FileNotFoundError:  # superseded meanwhile
                return None
            except (OSError, pa.ArrowException) as error:
                return f"{name} is damaged ({first_line(error)})"
    return None
