"""What the parts of an update or of an adoption take, so that "why was it slow" has an answer.

erase     deleting removed files, first of all
examine   looking into the files that another tool wrote
start     starting Spark
read      reading and converting the batch; of all tasks together, as are the next two
judge     computing, judging and sorting
write     writing cell files
rewrite   merging cells
sync      waiting until files are on the disk, wherever that was done; in none of the others
commit    the quarantine's commit and the table's, and what follows them
retire    removing what is dead
seal      merging a completed group
purge     getting expired records out of files
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ebb.warehouse.store.disk import Disk

__all__ = ["Phases"]

_NAMES = ("erase", "examine", "start", "read", "judge", "write", "rewrite", "sync", "commit", "retire", "seal", "purge")


@dataclass(slots=True)
class Phases:
    """How long the parts take."""

    disk: Disk
    seconds: dict[str, float] = field(default_factory=dict)
    _synced_before: float = field(init=False)

    def __post_init__(self) -> None:
        self._synced_before = self.disk.seconds

    def clock(self) -> float:
        """Return the seconds of a clock that stands still while the disk is waited for."""
        return time.monotonic() - self.disk.seconds

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Count how long the work inside takes."""
        started = self.clock()
        try:
            yield
        finally:
            self.add(name, self.clock() - started)

    def add(self, name: str, seconds: float) -> None:
        """Count seconds."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    def rounded(self) -> dict[str, float]:
        """Return what took how many seconds, in the order in which it is done."""
        seconds = {**self.seconds, "sync": self.disk.seconds - self._synced_before}
        return {name: round(seconds[name], 3) for name in _NAMES if seconds.get(name, 0.0) >= 0.0005}
