"""The folder of leases: files by which reading processes claim versions, and word of why a claim was ended.

A lease is written before its version counts as pinned, and whoever erases plans first and then looks for leases: so a
lease is seen by everybody who could erase what it claims (``warehouse.table.leases`` has the argument). It is renewed
only where it is: one that is gone does not come back. Whoever ends the lease of somebody else leaves word, takes the
lease away, and only then erases: a reader that misses a file finds out why.
"""

from __future__ import annotations

import contextlib
import os
import socket
import uuid
from functools import lru_cache
from pathlib import Path

from ebb.index.lease import Ended, Lease
from ebb.warehouse.store.files import identity, is_there, names_in, read_file, remove_file, rename, write_new
from ebb.warehouse.store.modes import make_folder
from ebb.warehouse.store.paths import ended_name, lease_id, lease_name, new_lease_name
from ebb.warehouse.store.users import user_name

__all__ = [
    "end_lease",
    "ended",
    "is_dead",
    "is_held",
    "leases_in",
    "new_lease",
    "remove_lease",
    "renew_lease",
    "sweep_leases",
    "write_lease",
]

_KEPT_NS = 24 * 60 * 60 * 1_000_000_000  # how long it is told why a lease was ended


def new_lease(version: int, clock: int | None, *, what: str, since: int, until: int) -> Lease:
    """Return a lease of this process."""
    id, pid = uuid.uuid4().hex[:12], os.getpid()
    host, user, process = _identity(pid)
    return Lease(
        id=id, version=version, clock=clock, pid=pid, host=host, user=user, what=what, process=process, since=since, until=until
    )  # fmt: skip


def write_lease(folder: Path, lease: Lease) -> None:
    """Make the file of a lease: it is there whole or not at all."""
    unfinished = folder / new_lease_name(lease.id)
    try:
        write_new(str(unfinished), [lease.dumps()], for_owner=True)
    except FileNotFoundError:  # somebody removed the folder, or copied the table without it
        make_folder(folder, exist_ok=True, for_owner=True)
        write_new(str(unfinished), [lease.dumps()], for_owner=True)
    try:
        rename(unfinished, folder / lease_name(lease.id))
    except OSError:
        remove_file(unfinished)
        raise


def renew_lease(folder: Path, lease: Lease) -> bool:
    """Write a lease again where it is; returns false if it is there no more."""
    path = folder / lease_name(lease.id)
    try:
        opened = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        data = lease.dumps()
        os.pwrite(opened, data, 0)
        os.ftruncate(opened, len(data))
        mine = os.fstat(opened).st_ino
    finally:
        os.close(opened)
    there = identity(path)
    return there is not None and there[0] == mine


def is_held(folder: Path, lease: Lease) -> bool:
    """Whether nobody has taken a lease away."""
    return is_there(folder / lease_name(lease.id))


def remove_lease(folder: Path, lease: Lease) -> None:
    """Take a lease away, and what is told of its end."""
    remove_file(folder / lease_name(lease.id))
    remove_file(folder / ended_name(lease.id))


def leases_in(folder: Path) -> list[Lease]:
    """Return all leases that can be read, also those that are over."""
    found = []
    for name in _names(folder):
        id = lease_id(name)
        if id is not None:
            # It ended just now, or is none. One that we may not read counts for nothing: it could not be ended either,
            # and would keep files for ever.
            with contextlib.suppress(FileNotFoundError, PermissionError, ValueError):
                found.append(Lease.loads(read_file(f"{folder}/{name}"), id))
    return found


def end_lease(folder: Path, lease: Lease, why: Ended) -> None:
    """End the lease of somebody else and leave word, if the disk has room for it."""
    with contextlib.suppress(OSError):
        write_new(str(folder / ended_name(lease.id)), [why.dumps()])
    remove_file(folder / lease_name(lease.id))


def ended(folder: Path, lease: Lease) -> Ended | None:
    """Return why somebody ended a lease, if there is word of it."""
    with contextlib.suppress(OSError, ValueError):
        return Ended.loads(read_file(f"{folder}/{ended_name(lease.id)}"))
    return None


def sweep_leases(folder: Path, now_ms: int) -> None:
    """Remove what is left in the folder of leases that nobody asks for any more."""
    for name in _names(folder):
        path = folder / name
        found = None if lease_id(name) else identity(path)
        if found is not None and now_ms * 1_000_000 - found[1] > _KEPT_NS:
            remove_file(path)


def is_dead(lease: Lease) -> bool:
    """Whether the process of a lease has ended, as far as it can be told from here."""
    machine, _, started = lease.process.rpartition(" ")
    if not started or machine != _machine():
        return False
    try:
        os.kill(lease.pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:  # somebody else's
        pass
    return _started(lease.pid) not in (None, started)


def _names(folder: Path) -> list[str]:
    try:
        return names_in(folder)
    except (FileNotFoundError, PermissionError):
        return []


@lru_cache(maxsize=1)
def _machine() -> str:
    """Return where process numbers mean what they mean here: this boot of this machine, and this container."""
    try:
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _started(pid: int) -> str | None:
    """Return when a process was started, in ticks since boot; None if that cannot be told, and "" if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return "" if fields[0] in ("Z", "X") else fields[19]


@lru_cache(maxsize=1)
def _identity(pid: int) -> tuple[str, str, str]:
    """Return what this process says of itself: host, user, and what tells it from others with its number."""
    return socket.gethostname(), user_name(), f"{_machine()} {_started(pid) or ''}"
