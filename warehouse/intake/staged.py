"""A batch on disk, not committed yet: which files hold it, and what became of every record.

A record is admitted, has expired on arrival, or goes to the quarantine with a reason; nothing else can happen to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ebb.index.cellfile import CellFile

__all__ = ["Staged", "Survey"]


@dataclass(frozen=True, slots=True)
class Survey:
    """What must be known of a batch before it can be staged, if nobody says where the clock goes."""

    last_slot: int | None = None  # the last insertion slot; None if every record will be refused
    records: int = 0

    def __add__(self, other: Survey) -> Survey:
        slots = [slot for slot in (self.last_slot, other.last_slot) if slot is not None]
        return Survey(max(slots, default=None), self.records + other.records)


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A batch on disk.  One without anything is that of an empty tick."""

    folder: str = ""
    files: Sequence[CellFile] = ()
    expirations: Mapping[int, int] = field(default_factory=dict)  # expiration slot -> admitted records
    quarantine_files: Sequence[str] = ()
    reasons: Mapping[str, int] = field(default_factory=dict)  # why records were refused -> how many
    received: int = 0
    expired_on_arrival: int = 0
    digest: str | None = None  # None without records
    files_digests: Mapping[int, str] = field(
        default_factory=dict
    )  # of files with records, by their number in the batch
    seconds: Mapping[str, float] = field(default_factory=dict)  # what took how long, of all tasks together

    @property
    def admitted(self) -> int:
        """Return how many records are in the cell files."""
        return sum(file.records for file in self.files)

    @property
    def quarantined(self) -> int:
        """Return how many records went to the quarantine."""
        return sum(self.reasons.values())
