"""Which versions this process reads: one lease per table and version, for as long as somebody refers to it.

Windows refer to their lease, streams to their window, SQL sessions and views too, so nobody counts. One thread renews
the leases of the process and ends those that nobody refers to any more, a moment late: the next window of the same
version costs nothing then. A process that dies renews nothing, and others on its machine see that it is dead.

To pin is to write a lease and then to look for the newest version. Whoever erases has planned, from a version V, before
it looks for leases. If the lease was there by then, it is seen, and what was removed after its version stays. If it was
not, the version that the reader found afterwards is V or newer, and none of its files was removed by V.

Without a lease, because this process may not write there or the disk is full, reads rely on the grace period.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from ebb.index.errors import ErasedError, LeaseEndedError, WarehouseError
from ebb.index.lease import Ended, Lease
from ebb.warehouse.store.errors import disk_errors, first_line, refusal
from ebb.warehouse.store.leases import (
    end_lease,
    ended,
    is_dead,
    is_held,
    leases_in,
    new_lease,
    remove_lease,
    renew_lease,
    sweep_leases,
    write_lease,
)
from ebb.warehouse.store.paths import LEASES
from ebb.warehouse.table.snapshot import Snapshot, Table

__all__ = ["LEASE_SECONDS", "HeldLease", "Leases", "end_leases", "leases_of", "live_leases", "own_leases", "shown_ms"]

LEASE_SECONDS = 120.0  # that a lease counts without being renewed: longer than a live process is held up
_LINGER_SECONDS = 0.5  # between two looks at what nobody refers to any more

_Key = tuple[str, str, int]  # the folder of a table, its id, a version


def _elapsed() -> float:
    """Return seconds that never go back, and that pass while the machine is suspended, where it can tell."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


@dataclass(slots=True, eq=False)
class _Kept:
    """A lease and how it stands."""

    folder: Path
    lease: Lease
    now: Callable[[], datetime]
    renew_at: float
    problem: str = ""  # why it could not be written
    end: Ended | None = None  # that somebody put to it
    is_over: bool = False  # nobody referred to it when the thread looked last
    user: weakref.ref[HeldLease] | None = None

    @property
    def is_in_use(self) -> bool:
        """Whether somebody refers to it."""
        return self.user is not None and self.user() is not None

    def stands(self, now_ms: float) -> bool:
        """Whether somebody new can rely on it, as far as it could be written at all."""
        if self.problem:
            return True
        try:
            if self.end is None and not is_held(self.folder, self.lease):
                self.learn_end()
        except OSError:  # a new one will tell why
            return False
        return self.end is None and not self.lease.is_over(now_ms)

    def learn_end(self) -> None:
        """Find out why it is not there any more."""
        word = ended(self.folder, self.lease)
        self.end = word or Ended(int(self.now().timestamp() * 1000), "somebody removed it")


@dataclass(slots=True, eq=False, weakref_slot=True)
class HeldLease:
    """What a reader refers to: as long as it does, what it reads stays on disk, up to the deletion bound."""

    table: Table
    what: str
    leases: Leases
    kept: _Kept = field(repr=False)

    def at(self, snapshot: Snapshot, version: int) -> HeldLease:
        """Return a lease on what was removed after another version, some of which may be going already."""
        return self.leases.take(snapshot, self.what, self.kept.now, version=version)

    def newest(self) -> tuple[Snapshot, HeldLease]:
        """Pin the newest version, for the same purpose."""
        return self.leases.pinned(self.table, self.what, self.kept.now)

    def why_erased(self, version: int) -> WarehouseError | None:
        """Return why files of a version were erased; None if they were not: then they are lost."""
        kept, name = self.kept, self.table.name
        if kept.problem:
            why = f"this process could write no lease ({kept.problem}), and the grace period is over"
            return ErasedError(name, version, why)
        with disk_errors(f"the leases of table {name} cannot be read"):
            if kept.end is None and not is_held(kept.folder, kept.lease):
                kept.learn_end()
        return None if kept.end is None else LeaseEndedError(name, version, shown_ms(kept.end.at), kept.end.why)


class Leases:
    """The leases of a process.  For several threads; ``clock`` is monotonic."""

    def __init__(
        self, clock: Callable[[], float] = _elapsed, seconds: float = LEASE_SECONDS, *, has_thread: bool = False
    ) -> None:
        self._clock, self._seconds, self._has_thread = clock, seconds, has_thread
        self._kept: dict[_Key, _Kept] = {}
        self._thread: threading.Thread | None = None
        self.lock = threading.Lock()
        self._is_needed = threading.Condition(self.lock)

    def pinned(self, table: Table, what: str, now: Callable[[], datetime]) -> tuple[Snapshot, HeldLease]:
        """Pin the newest version and hold a lease on it: nothing of it is erased before the lease ends."""
        snapshot = table.snapshot()
        held, is_new = self._take(snapshot, snapshot.version, what, now)
        # The lease on a version covers a newer one, too.
        return table.snapshot() if is_new else snapshot, held

    def take(self, snapshot: Snapshot, what: str, now: Callable[[], datetime], *, version: int) -> HeldLease:
        """Return the lease on a version of the table; it is written if there is none yet."""
        return self._take(snapshot, version, what, now)[0]

    def _take(self, snapshot: Snapshot, version: int, what: str, now: Callable[[], datetime]) -> tuple[HeldLease, bool]:
        table, key = snapshot.table, (str(snapshot.table.folder), snapshot.table_id, version)
        with self.lock:
            kept, now_ms, is_new = self._kept.get(key), now().timestamp() * 1000, False
            if kept is not None and not kept.problem and kept.lease.is_over(now_ms):
                self._renew(kept)
                is_new = True  # it counts from now on
            if kept is None or not kept.stands(now_ms):
                is_new = True
                kept = self._kept[key] = self._written(leases_of(table), version, snapshot.ledger.clock, what, now)
                self._is_needed.notify()  # not each time: a look ends what the one before saw idle
            self._start()
            held = kept.user() if kept.user is not None else None
            if held is None:
                held = HeldLease(table, what, self, kept)
                kept.user, kept.is_over = weakref.ref(held), False
            return held, is_new

    def _written(self, folder: Path, version: int, clock: int | None, what: str, now: Callable[[], datetime]) -> _Kept:
        since = int(now().timestamp() * 1000)
        lease = new_lease(version, clock, what=what, since=since, until=since + int(self._seconds * 1000))
        kept = _Kept(folder, lease, now, self._clock() + self._seconds / 3)
        try:
            write_lease(folder, lease)
        except OSError as error:
            reason = refusal(error)
            kept.problem = reason[0] if reason else first_line(error)
        return kept

    def look(self) -> None:
        """Renew what is due, and end what nobody has referred to since the look before."""
        with self.lock:
            for key, kept in list(self._kept.items()):
                with suppress(Exception):  # of one lease: the others, and the thread, must not end with it
                    self._look_at(key, kept)

    def _look_at(self, key: _Key, kept: _Kept) -> None:
        if not kept.is_in_use:
            if kept.is_over:
                self._end(key)
            kept.is_over = True
        elif self._clock() >= kept.renew_at:
            self._renew(kept)

    def settle(self, table: Table) -> None:
        """Do now what is due for a table: before this process erases, its own readers count as they are."""
        with self.lock:
            for key, kept in list(self._kept.items()):
                if kept.folder == leases_of(table):
                    if kept.is_in_use:
                        self._renew(kept)
                    else:
                        self._end(key)

    def end_all(self) -> None:
        """End all leases, as the process ends."""
        with self.lock:
            for key in list(self._kept):
                self._end(key)

    def _renew(self, kept: _Kept) -> None:
        if kept.problem or kept.end is not None:
            return
        kept.renew_at = self._clock() + self._seconds / 3
        renewed = kept.lease.renewed(int((kept.now().timestamp() + self._seconds) * 1000))
        with suppress(OSError):  # tried again in a third of its time
            if renew_lease(kept.folder, renewed):
                kept.lease = renewed
            else:
                kept.learn_end()

    def _end(self, key: _Key) -> None:
        kept = self._kept.pop(key)
        if not kept.problem:
            with suppress(OSError):  # it is over soon
                remove_lease(kept.folder, kept.lease)

    def _start(self) -> None:
        if self._has_thread and (self._thread is None or not self._thread.is_alive()):
            thread = threading.Thread(target=self._run, name="ebb-leases", daemon=True)
            with suppress(RuntimeError):  # there is no room for it: the next window tries again
                thread.start()
                self._thread = thread

    def _run(self) -> None:
        while True:
            self.look()
            with self.lock:
                self._is_needed.wait(_LINGER_SECONDS if self._kept else None)

    def forget(self) -> None:
        """Start anew in a child that took over the lock: leases stay with the parent, and so does the thread."""
        self._kept, self._thread = {}, None
        self._is_needed = threading.Condition(self.lock)
        self.lock.release()


_own = Leases(has_thread=True)
# The lock is held over a fork, so that the child finds everything in order.
os.register_at_fork(before=_own.lock.acquire, after_in_parent=_own.lock.release, after_in_child=_own.forget)
atexit.register(_own.end_all)


def own_leases() -> Leases:
    """Return the leases of this process."""
    return _own


def leases_of(table: Table) -> Path:
    """Return the folder of the leases on a table."""
    return table.hidden / LEASES


def live_leases(table: Table, now: datetime) -> Sequence[Lease]:
    """Return the leases that count, the oldest version first."""
    found = [lease for lease in _leases(table) if not lease.is_over(now.timestamp() * 1000) and not is_dead(lease)]
    return sorted(found, key=lambda lease: (lease.version, lease.since, lease.id))


def end_leases(table: Table, leases: Sequence[Lease], why: str, now: datetime) -> None:
    """End leases that would keep files for too long, and remove what is left of others.  OSError if that fails."""
    now_ms, folder = int(now.timestamp() * 1000), leases_of(table)
    for lease in leases:
        end_lease(folder, lease, Ended(now_ms, why))
    with suppress(PermissionError):  # they count for nothing, there or not
        for lease in _leases(table):
            if is_dead(lease):
                remove_lease(folder, lease)
            elif lease.is_over(now_ms):
                end_lease(folder, lease, Ended(now_ms, f"it was not renewed after {shown_ms(lease.until)}"))
        sweep_leases(folder, now_ms)


def _leases(table: Table) -> Sequence[Lease]:
    with disk_errors(f"the leases of table {table.name} cannot be read"):
        return leases_in(leases_of(table))


def shown_ms(moment: int) -> str:
    """Return a moment in milliseconds since 1970 as text.

    >>> shown_ms(1_767_268_800_000)
    '2026-01-01T12:00:00Z'
    """
    return datetime.fromtimestamp(moment / 1000, tz=UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
