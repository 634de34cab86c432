"""What the parts of an update or of an adoption take, so that "why was it slow" has an answer.

erase     deleting removed files, first of all
examine   looking into the files that another tool wrote
start     starting Spark
read      reading and converting the batch; of all tasks together, as are the next two
judge     computing, judging and sorting
write     writing cell files
rewrite   merging cells
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

__all__ = ["Phases"]

_NAMES = ("erase", "examine", "start", "read", "judge", "write", "rewrite", "commit", "retire", "seal", "purge")


@dataclass(slots=True)
class Phases:
    """How long the parts take."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Count how long the work inside takes."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.add(name, time.monotonic() - started)

    def add(self, name: str, seconds: float) -> None:
        """Count seconds."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    def rounded(self) -> dict[str, float]:
        """Return what took how many seconds, in the order in which it is done."""
        return {name: round(self.seconds[name], 3) for name in _NAMES if self.seconds.get(name, 0.0) >= 0.0005}
