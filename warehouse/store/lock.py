"""One process at a time: for writers of a table, and for those who work on a landing folder.

A lock is an advisory lock of the operating system on a file: it goes with the process that holds it, so a dead holder
never blocks. The file names the holder for those who have to wait. Who ends in order says there when the machine was
started instead; who finds anything else knows that the one before did not end in order, or that the machine has been started
since: a power failure may have taken back what was deleted. Either way something may have been left behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from ebb.index.errors import LockedError
from ebb.warehouse.store.errors import disk_error
from ebb.warehouse.store.modes import make_folder, new_file

__all__ = ["Lock", "is_held", "locked"]

_POLL_SECONDS = 0.05
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(slots=True)
class Lock:
    """A lock that is held."""

    is_in_order: bool  # false: whoever held it before died, or the machine did, and what is left has not been removed


@contextmanager
def locked(file: Path, what: str, *, wait: float = 0.0) -> Iterator[Lock]:
    """Hold the lock on a file, waiting for it at most ``wait`` seconds; ``what`` is locked by it, for messages."""
    deadline = time.monotonic() + wait
    handle = _open(file, what)
    try:
        while not _take(handle, file):
            if time.monotonic() >= deadline:
                raise LockedError(what, _holder(handle), wait)
            time.sleep(_POLL_SECONDS)
            if not _is_at(handle, file):  # what was locked has been dropped, and perhaps made anew
                os.close(handle)
                handle = _open(file, what)
        lock = Lock(is_in_order=_ended_in_order(handle))
        _write(handle, _card())
        yield lock
        if lock.is_in_order:
            _write(handle, _last_word())
    finally:
        with contextlib.suppress(OSError):
            os.close(handle)


def is_held(file: Path) -> bool:
    """Whether the holder that a lock's file names is alive, without touching the lock; one on another machine counts."""
    try:
        card = json.loads(file.read_bytes())
        if card["host"] != socket.gethostname():
            return True
        os.kill(int(card["pid"]), 0)
    except (FileNotFoundError, ProcessLookupError, ValueError, KeyError, TypeError):
        return False
    except PermissionError:  # of another user
        return True
    return True


def _open(file: Path, what: str) -> int:
    try:
        with contextlib.suppress(FileNotFoundError):
            return os.open(file, os.O_RDWR | os.O_CLOEXEC)
        make_folder(file.parent, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            return new_file(file, for_owner=True)  # whoever is first
        return os.open(file, os.O_RDWR | os.O_CLOEXEC)  # somebody was faster
    except OSError as error:
        raise disk_error(error, f"{what} cannot be locked") from error


def _take(handle: int, file: Path) -> bool:
    """Take the lock if it is free and the file is still the one under its name: otherwise two could hold one lock."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return _is_at(handle, file)


def _is_at(handle: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(file))
    except FileNotFoundError:
        return False


def _write(handle: int, card: bytes) -> None:
    """Name the holder; a full disk does not keep anybody from working."""
    with contextlib.suppress(OSError):
        os.pwrite(handle, card, 0)  # first: the file must not be empty in between
        os.ftruncate(handle, len(card))


def _card() -> bytes:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    command = " ".join([os.path.basename(sys.argv[0]), *sys.argv[1:2]])
    return json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "command": command, "since": since}).encode()


def _last_word() -> bytes:
    """Return what somebody says who ends in order."""
    return json.dumps({"ended_in_boot": _boot()}).encode()


def _ended_in_order(handle: int) -> bool:
    return bool(_boot()) and os.pread(handle, 4096, 0) == _last_word()


@cache
def _boot() -> str:
    """Return what tells the machine's last start from the others; empty if nobody can tell."""
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _holder(handle: int) -> str:
    try:
        card = json.loads(os.pread(handle, 4096, 0))
        return f"process {card['pid']} on {card['host']} ({card['command']}) since {card['since']}"
    except (ValueError, KeyError, TypeError, RecursionError):
        return "another process"
