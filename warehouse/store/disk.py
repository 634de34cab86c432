"""Waiting until what was written is on the disk.

The operating system keeps what is written in memory for a while, and a power failure loses that. To sync a file is to wait
for its bytes; to sync a folder, for the names in it. A file that was made is there after a power failure if both were done,
and all the folders above it as well. It does not matter who wrote it: what Spark's processes have written is synced here.
What must be synced before what is decided in ``warehouse/table/commit.py`` and by those who call it.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Disk"]

_AT_ONCE = 16  # the disk brings together what is waited for at the same time
_FEW = 2  # for which no threads are started


@dataclass(slots=True)
class Disk:
    """Where a table is, and what waiting for it has cost."""

    is_durable: bool = True  # otherwise nobody waits
    syncs: int = 0
    seconds: float = 0.0

    def sync(self, places: Iterable[str | Path]) -> None:
        """Wait until files and folders are on the disk as they are now.  One that is missing is an error."""
        self._sync(list(dict.fromkeys(os.fspath(place) for place in places)))

    def sync_below(self, folder: Path) -> None:
        """Wait until a folder and all that is in it are on the disk; what vanishes meanwhile does not matter."""
        if not self.is_durable:
            return
        places = [str(folder)]
        for place, folders, files in os.walk(folder):
            places += [f"{place}/{name}" for name in (*folders, *files) if not os.path.islink(f"{place}/{name}")]
        self._sync(places, may_vanish=True)

    def sync_open(self, file: int) -> None:
        """Wait until an open file is on the disk."""
        if self.is_durable:
            started = time.monotonic()
            os.fsync(file)
            self._count(1, started)

    def _sync(self, places: list[str], *, may_vanish: bool = False) -> None:
        if not self.is_durable or not places:
            return
        started = time.monotonic()
        try:
            if len(places) <= _FEW:
                for place in places:
                    _sync_place(place, may_vanish=may_vanish)
            else:
                with ThreadPoolExecutor(min(_AT_ONCE, len(places))) as threads:
                    list(threads.map(lambda place: _sync_place(place, may_vanish=may_vanish), places))
        finally:
            self._count(len(places), started)

    def _count(self, syncs: int, started: float) -> None:
        self.syncs += syncs
        self.seconds += time.monotonic() - started


def _sync_place(place: str, *, may_vanish: bool) -> None:
    with suppress(*[FileNotFoundError] * may_vanish):
        opened = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(opened)
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOTSUP):
                msg = f"its file system cannot sync {place}: keep it on a local disk, or set durable to false"
                raise OSError(msg) from error
            raise
        finally:
            os.close(opened)
