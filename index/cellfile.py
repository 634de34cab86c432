"""What the log says about one data file: enough to plan with, nothing about its keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from ebb.index.grid import Cell
from ebb.index.timeline import Timeline

__all__ = [
    "AMENDED",
    "ANY_SLOT",
    "HELD_PART",
    "RELEASED",
    "CellFile",
    "Chosen",
    "HoldName",
    "Places",
    "RangesObject",
    "Removal",
    "Rewrite",
]
_WRITTEN = re.compile(r"([ur])(-?[0-9]+)-[0-9a-f]+/")
_ROW_GROUP_BYTES = 1024 * 1024  # about what a row group has
AMENDED = "amended"  # the part of a commit with records as they were amended
HELD_PART = "held"  # with held records
RELEASED = "released"  # with records that are held no longer

Places = Mapping[int, Any]  # some records of a file: of each row group, by number, their places in it, in order

ANY_SLOT = (-(2**63), 2**63 - 1)  # the least and the greatest of a file that another tool added without statistics


@dataclass(frozen=True, slots=True, kw_only=True)
class CellFile:
    """One sorted Parquet file of one cell.  Files of one folder and cell are parts of one sorted run."""

    path: str  # relative to the table: the folder of the task that wrote it, the cell, the name
    cell: Cell
    size_bytes: int
    records: int
    min_ins: int
    max_ins: int
    min_exp: int
    max_exp: int
    added_ms: int = field(default=0, compare=False)  # when it was committed; 0 if it is not yet

    @property
    def folder(self) -> str:
        """Return the folder of the task that wrote the file.

        >>> CellFile(path="u7-ab/0/_g=1/_e=2/x.parquet", cell=Cell(1, 2), size_bytes=1, records=1,
        ...          min_ins=7, max_ins=7, min_exp=8, max_exp=9).folder
        'u7-ab/0'
        """
        return self.path.rsplit("/", 3)[0]

    @property
    def written(self) -> tuple[int, bool] | None:
        """Return the clock when it was written, and whether an update or load brought it; None if Ebb did not write it.

        >>> CellFile(path="r-7-ab/0/_g=1/_e=2/x.parquet", cell=Cell(1, 2), size_bytes=1, records=1,
        ...          min_ins=7, max_ins=7, min_exp=8, max_exp=9).written
        (-7, False)
        """
        match = _WRITTEN.match(self.path)
        return (int(match[2]), match[1] == "u") if match else None

    @property
    def part(self) -> str:
        """Return the folder of the file below that of its commit; empty if there is none between it and the cell."""
        return self.folder.partition("/")[2]

    @property
    def has_slots(self) -> bool:
        """Whether the log has its slots."""
        return self.min_exp > ANY_SLOT[0]

    def is_dead(self, clock: int) -> bool:
        """Whether every record in it has expired."""
        return self.max_exp <= clock

    def has_expired(self, clock: int) -> bool:
        """Whether at least one record in it has expired."""
        return self.min_exp <= clock

    def due_from(self, timeline: Timeline) -> int:
        """Return from when on its oldest record is due to go: its expiry, or when the file was added if that was later.

        A replay of old data cannot be late before it has begun.
        """
        expiry = timeline.end_of(self.min_exp)
        if not timeline.kind.has_wall_clock:
            return expiry
        return max(expiry, timeline.kind.from_datetime(datetime.fromtimestamp(self.added_ms / 1000, tz=UTC)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """Merge these files into one sorted run of one cell without the records expired at ``clock``."""

    cell: Cell
    inputs: tuple[CellFile, ...]
    clock: int
    part: str = ""  # a folder below that of the commit: two runs of a cell must not share one
    without: Mapping[str, Places] = field(default_factory=dict, compare=False)  # records by path that are left out
    only: Mapping[str, Places] | None = field(default=None, compare=False)  # no others are taken
    expires: tuple[str, int, int] | None = None  # when they expire from now on: the column, the time, the slot

    @property
    def size_bytes(self) -> int:
        """Return about how many bytes have to be unpacked: what is copied as it is costs little."""
        named = self.without if self.only is None else self.only
        return sum(
            min(file.size_bytes, len(named[file.path]) * _ROW_GROUP_BYTES) if file.path in named else file.size_bytes
            for file in self.inputs
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Some records of one file."""

    file: CellFile
    places: Places = field(compare=False)
    live: Mapping[int, int]  # of those that have not expired: expiration slot -> how many
    expired: int = 0  # records that have, and are still in the file
    first_inserted: int | None = None  # the earliest insertion time, if it was asked for

    @property
    def records(self) -> int:
        """Return how many there are."""
        return sum(self.live.values()) + self.expired


class RangesObject(NamedTuple):
    """An object with the key ranges of some files of a cohort (see ``index.ranges``), as the ledger knows it."""

    generation: int
    cohort: int
    name: str
    files: int  # how many are in it


class HoldName(NamedTuple):
    """A hold, as the ledger knows it: the object says which records it is about."""

    case: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """Files that one commit removed from the table, and that are still on disk."""

    version: int
    committed_ms: int
    slot: int | None  # the clock then
    paths: tuple[str, ...]
    size_bytes: int
    exposed_since: int | None  # since when the oldest expired record in them has been due to go; None: there is none
    due_from: int | None = None  # from when on their oldest record is due to go, later or since; None: not known
    erase_by: int | None = (
        None  # when their bytes must be gone, in ms since 1970, or as a slot where times are integers
    )
