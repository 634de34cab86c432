"""What is left of a folder after a power failure.

A recorder stands in for ``os.fsync`` and notes what is synced: the bytes of a file, the names in a folder. At some of these
moments it also notes what is there at all. From both it can be built, in a folder of its own, what a disk holds if the power
fails just then:

    strict   what was synced and nothing else: a file that was not is empty, a name in a folder that was not is missing
    journal  all names, as a journal keeps them, and of the bytes only what was synced
    mixed    of each name and each file that was not synced, what was or what is, drawn anew for each; some files are cut off,
             or full of zeros, and one that was written over has sectors of both

Nothing of Ebb is replaced. Files and folders are known by their inodes, which are kept from being used again.
"""

from __future__ import annotations

import json
import os
import random
import resource
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.faults import watched

__all__ = ["KINDS", "Moment", "Recorder", "Synced", "build", "recording"]

KINDS = ("strict", "journal", "mixed", "mixed")
_SECTOR = 512  # bytes, of which a disk writes all or nothing
_HELD = 1 << 16  # files that a recorder holds open at most


@dataclass(frozen=True, slots=True)
class Synced:
    """A file or folder that was synced, as it was then."""

    path: str  # below the recorded folder
    inode: int
    content: bytes | dict[str, int]  # of a folder, the inodes by name


@dataclass(frozen=True, slots=True)
class Moment:
    """When the power may fail."""

    synced: int  # how many syncs were done by then
    place: str  # what is synced or changed next, or was synced just now
    acknowledged: Any
    root: int
    folders: dict[int, dict[str, int]]  # as they are
    files: dict[int, bytes]


@dataclass
class Recorder:
    """What was synced below a folder, and what was there at some moments."""

    folder: Path
    rng: random.Random
    share: float  # of the moments before and after syncs, how many are noted
    acknowledged: Any = None
    trace: list[Synced] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)
    is_noting: bool = True
    _held: dict[int, int] = field(default_factory=dict)  # by inode
    _known: dict[tuple[int, int, int], bytes] = field(default_factory=dict)  # what was read, to keep it once
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    def sync(self, file: int) -> None:
        """Note a file or folder that is synced."""
        path = os.readlink(f"/proc/self/fd/{file}")
        if not Path(path).is_relative_to(self.folder):
            return
        with self._one_at_a_time:
            place = os.path.relpath(path, self.folder)
            self._may_note(place)
            is_folder = stat.S_ISDIR(os.fstat(file).st_mode)
            content = self._names(path) if is_folder else Path(path).read_bytes()
            self.trace.append(Synced(place, self._inode(path), content))
            self._may_note(place)

    def change(self, event: str, path: str) -> None:
        """Look at what is there before a name changes."""
        with self._one_at_a_time:
            self._may_note(f"{event} {os.path.relpath(path, self.folder)}")

    def _may_note(self, place: str) -> None:
        if self.is_noting and self.rng.random() < self.share:
            self.note(place)

    def note(self, place: str) -> None:
        """Note what is there now."""
        folders, files = {}, {}
        for at, _, names in os.walk(self.folder):
            folders[self._inode(at)] = self._names(at)
            files.update({self._inode(f"{at}/{name}"): self._read(f"{at}/{name}") for name in names})
        root = self._inode(str(self.folder))
        self.moments.append(Moment(len(self.trace), place, self.acknowledged, root, folders, files))

    def _read(self, path: str) -> bytes:
        status = os.stat(path)
        known = (status.st_ino, status.st_mtime_ns, status.st_size)
        if known not in self._known:
            self._known[known] = Path(path).read_bytes()
        return self._known[known]

    def _names(self, folder: str) -> dict[str, int]:
        return {name: self._inode(f"{folder}/{name}") for name in os.listdir(folder)}

    def _inode(self, path: str) -> int:
        inode = os.lstat(path).st_ino
        if inode not in self._held:
            self._held[inode] = os.open(path, os.O_PATH | os.O_NOFOLLOW)
        return inode

    def close(self) -> None:
        """Let go of what was held."""
        for held in self._held.values():
            os.close(held)


@contextmanager
def recording(folder: Path, rng: random.Random, share: float) -> Iterator[Recorder]:
    """Record what is synced below a folder; nothing really is, which would take time and prove nothing."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _HELD if before[1] == resource.RLIM_INFINITY else min(before[1], _HELD)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], most), before[1]))
    recorder = Recorder(folder, rng, share)
    try:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(os, "fsync", recorder.sync)
            with watched(folder, recorder.change):
                yield recorder
    finally:
        recorder.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def build(
    recorder: Recorder,
    moment: Moment,
    kind: str,
    target: Path,
    rng: random.Random,
    *,
    below: str = "",
    left_out: Callable[[str], bool] = lambda _: False,
) -> None:
    """Make a folder as the disk holds it if the power fails at a moment.

    ``below``: only a part of it. ``left_out``: syncs that were never done.
    """
    folders: dict[int, dict[str, int]] = {}
    files: dict[int, bytes] = {}
    for synced in recorder.trace[: moment.synced]:
        if not left_out(synced.path):
            if isinstance(synced.content, bytes):
                files[synced.inode] = synced.content
            else:
                folders[synced.inode] = synced.content

    def names(inode: int) -> dict[str, int]:
        was, now = folders.get(inode, {}), moment.folders.get(inode, folders.get(inode, {}))
        if kind != "mixed":
            return was if kind == "strict" else now
        drawn = {name: rng.choice((was, now)).get(name) for name in sorted({*was, *now})}
        return {name: found for name, found in drawn.items() if found is not None}

    def content(inode: int) -> bytes:
        was = files.get(inode, b"")
        now = moment.files.get(inode, was)
        if kind != "mixed" or was == now:
            return was
        if len(was) == len(now):  # written over, sector by sector
            sectors = range(0, len(now), _SECTOR)
            return b"".join(rng.choice((was, now))[at : at + _SECTOR] for at in sectors)
        return rng.choice((was, now, now[: rng.randrange(len(now) + 1)], bytes(len(now))))

    def make(inode: int, place: Path) -> None:
        if inode in moment.folders or inode in folders:
            place.mkdir()
            for name, found in names(inode).items():
                make(found, place / name)
        else:
            place.write_bytes(_started_anew(content(inode)))

    start = moment.root
    for name in filter(None, below.split("/")):
        start = names(start)[name]
    make(start, target)


def _started_anew(data: bytes) -> bytes:
    """Return what is in a file, as it looks to a machine that was started since."""
    if data.startswith(b'{"ended_in_boot"'):
        return json.dumps({"ended_in_boot": "another"}).encode()
    return data
