"""What is read of a window, and what reading it took."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from ebb.index.keys import Wanted
from ebb.index.predicate.syntax import Predicate

__all__ = ["Cost", "Read"]

_COUNTING = threading.Lock()


@dataclass(slots=True)
class Cost:
    """Which window was read, and what that took."""

    version: int = 0
    clock: int | None = None
    files: int = 0  # with something visible
    files_passed: int = 0  # of these, whose key range holds no wanted key: nothing of them is looked at
    files_read: int = 0
    groups: int = 0  # row groups of these files
    groups_met: int = 0  # whose key range holds a wanted key
    groups_read: int = 0
    bytes_read: int = 0  # column chunks, and what was read to find them
    directory_bytes: int = (
        0  # of these, to find them: side files, Bloom filters, footers; what is in memory costs nothing
    )
    records: int = 0
    bytes_returned: int = 0
    directory_seconds: float = 0.0  # of probes

    def count(self, *, data: int = 0, directory: int = 0) -> None:
        """Count bytes that were read; threads may do so at the same time."""
        with _COUNTING:
            self.bytes_read += data + directory
            self.directory_bytes += directory


@dataclass(frozen=True, slots=True)
class Read:
    """What is read of a window."""

    columns: tuple[str, ...]
    where: Predicate | None = None
    wanted: Wanted | None = None  # None for all, in no order
    after: int | None = None  # only what was inserted after this slot
    with_marks: bool = False  # also what order and visibility need, under its names

    @property
    def is_probe(self) -> bool:
        """Whether keys are asked for, and records come in their order."""
        return self.wanted is not None
