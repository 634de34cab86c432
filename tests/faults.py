"""Faults at chosen moments of real work: the interpreter itself reports each call to the operating system.

An audit hook sees every file that Python opens, links, renames, removes or makes. While a fault is armed, the n-th of
those below a folder raises instead of being done: an error of the disk, or an interruption as if a signal had arrived
just then. Nothing of Ebb is replaced.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_EVENTS = {"open", "os.link", "os.rename", "os.remove", "os.mkdir", "os.rmdir"}
_LISTINGS = {"os.listdir", "os.scandir"}


class Interruption(BaseException):
    """What a signal does to the main thread."""


def full_disk() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def broken_disk() -> OSError:
    return OSError(errno.EIO, os.strerror(errno.EIO))


class Watch:
    """Tells of each thing that is about to be done below a folder to the names in it."""

    events = _EVENTS - {"open"}

    def __init__(self, folder: Path, tell: Callable[[str, str], None]) -> None:
        self.folder, self.tell = str(folder), tell

    def note(self, event: str, arguments: tuple[Any, ...]) -> None:
        path = os.fsdecode(arguments[0]) if isinstance(arguments[0], str | bytes | os.PathLike) else ""
        if path.startswith(self.folder):
            self.tell(event, path)


class Fault:
    """Counts what is done below a folder and breaks the n-th of it; -1 to break nothing."""

    def __init__(self, folder: Path, error: BaseException, at: int, *, listings: bool = False) -> None:
        self.folder, self.error, self.at = str(folder), error, at
        self.events = _EVENTS | _LISTINGS if listings else _EVENTS
        self.seen: list[str] = []

    def note(self, event: str, arguments: tuple[Any, ...]) -> None:
        path = os.fsdecode(arguments[0]) if isinstance(arguments[0], str | bytes | os.PathLike) else ""
        if not path.startswith(self.folder):
            return
        self.seen.append(f"{event} {path.removeprefix(self.folder)}")
        if len(self.seen) - 1 == self.at:
            raise self.error


_armed: list[Fault | Watch] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    # The thread that renews leases comes at moments of its own, and would make every count another one.
    if _armed and event in _armed[-1].events and threading.current_thread().name != "ebb-leases":
        _armed[-1].note(event, arguments)


sys.addaudithook(_hook)  # for ever, but it does nothing unless a fault is armed


@contextmanager
def watched(folder: Path, tell: Callable[[str, str], None]) -> Iterator[None]:
    """Tell of each thing that is about to be done below a folder; other faults must not be armed meanwhile."""
    watch = Watch(folder, tell)
    _armed.append(watch)
    try:
        yield
    finally:
        _armed.remove(watch)


@contextmanager
def armed(folder: Path, error: BaseException, at: int = -1, *, listings: bool = False) -> Iterator[Fault]:
    """Break the n-th thing that is done to files below a folder, from zero; ``listings``: looking into it counts too."""
    fault = Fault(folder, error, at, listings=listings)
    _armed.append(fault)
    try:
        yield fault
    finally:
        _armed.remove(fault)
