"""One writer per table.

The lock is an advisory lock of the operating system on a file in the table's hidden folder: it goes with the
process that holds it, so a dead holder never blocks. The file names the holder for those who have to wait.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone

from index.errors import EngineError, LockedError
from warehouse.table import Table

__all__ = ["writer_lock"]

_POLL_SECONDS = 0.05


@contextmanager
def writer_lock(table: Table, *, wait: float = 0.0) -> Iterator[None]:
    """Hold the table's lock, waiting for it at most ``wait`` seconds."""
    try:
        table.hidden.mkdir(mode=0o700, exist_ok=True)
        handle = os.open(table.hidden / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise EngineError(
            f"table {table.name} cannot be locked", error, "check the permissions of its folder"
        ) from error
    try:
        deadline = time.monotonic() + wait
        while not _take(handle):
            if time.monotonic() >= deadline:
                raise LockedError(table.name, _holder(handle), wait)
            time.sleep(_POLL_SECONDS)
        os.ftruncate(handle, 0)
        os.pwrite(handle, _card(), 0)
        yield
        os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def _take(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _card() -> bytes:
    since = datetime.now(timezone.utc).isoformat(timespec="seconds")
    command = " ".join([os.path.basename(sys.argv[0]), *sys.argv[1:2]])
    return json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "command": command, "since": since}).encode()


def _holder(handle: int) -> str:
    try:
        card = json.loads(os.pread(handle, 4096, 0))
        return f"process {card['pid']} on {card['host']} ({card['command']}) since {card['since']}"
    except (ValueError, KeyError):
        return "another process"
