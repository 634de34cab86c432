"""What may be erased from the disk, and since when expired records have waited for it.

Files that a commit removed wait for readers of older versions for the grace period, and then go. The log says what was
removed, the ledger up to which commit it was erased: no folder has to be looked through.

A lease on a version keeps what later commits removed, and does so in order: what was removed after the oldest version
that somebody reads waits, even files that are younger than that version. But it never keeps anything until the deletion
bound, or a time by which forgotten records must be gone, is broken: if waiting for the next look, a tick later, would
break it, the lease is ended instead. Pure.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from ebb.index.cellfile import CellFile, Removal
from ebb.index.lease import Lease
from ebb.index.timeline import Timeline

__all__ = ["ErasePlan", "exposed_since", "gone_later", "plan_erase"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasePlan:
    """Which files go now, and which wait."""

    erased: tuple[Removal, ...] = ()
    waiting: tuple[Removal, ...] = ()  # within the grace period
    leased: tuple[Removal, ...] = ()  # after it, for readers with a lease
    ended: tuple[Lease, ...] = ()  # leases that may keep them no longer

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the files that go."""
        return tuple(path for removal in self.erased for path in removal.paths)

    @property
    def size_bytes(self) -> int:
        """Return how many bytes go."""
        return sum(removal.size_bytes for removal in self.erased)

    @property
    def through(self) -> int | None:
        """Return the last commit whose removed files go; None if none do."""
        return self.erased[-1].version if self.erased else None

    @property
    def files_waiting(self) -> int:
        """Return how many files wait."""
        return sum(len(removal.paths) for removal in self.waiting)

    @property
    def files_leased(self) -> int:
        """Return how many files leases keep."""
        return sum(len(removal.paths) for removal in self.leased)

    @property
    def kept(self) -> tuple[Removal, ...]:
        """Return what stays, for whatever reason."""
        return self.leased + self.waiting


def plan_erase(
    removals: Sequence[Removal],
    timeline: Timeline,
    *,
    grace_period: int,
    clock: int | None,
    now: datetime,
    leases: Sequence[Lease] = (),
    bound: int = 0,
) -> ErasePlan:
    """Return which of the removed files, the oldest commit first, have waited for the grace period and for readers.

    A commit was made before those that follow it, whatever the clock on the wall showed then. Integers have no wall
    clock: their files wait for as many ticks. Files with a time by which they must be gone do not wait if it may be over
    when somebody looks next, a tick later; then those that were removed before go too, because what must be gone may have
    been in them.
    """
    if timeline.kind.has_wall_clock:
        waited_ms = timeline.kind.seconds(grace_period) * 1000
        now_ms = now.timestamp() * 1000
        stamps = [removal.committed_ms or math.inf for removal in removals]  # a commit need not say when it was made
        times = list(itertools.accumulate(reversed(stamps), min))[::-1]
        is_over = [now_ms - time >= waited_ms for time in times]
        next_look = now_ms + timeline.kind.seconds(timeline.tick) * 1000
    else:
        ticks = -(-grace_period // timeline.tick)
        is_over = [
            clock is not None and (clock if removal.slot is None else removal.slot) + ticks <= clock
            for removal in removals
        ]
        next_look = -math.inf if clock is None else clock + 1
    by = [math.inf if removal.erase_by is None else removal.erase_by for removal in removals]
    asked = max((place for place, time in enumerate(by, 1) if time <= next_look), default=0)
    count = max(len(list(itertools.takewhile(bool, is_over))), asked)
    over, waiting = removals[:count], tuple(removals[count:])
    moment = timeline.kind.from_datetime(now) if timeline.kind.has_wall_clock else timeline.end_of(clock or 0)
    due = [r.version for r in over if _due_from(r, timeline, clock) + bound <= moment + timeline.tick]
    last_urgent = max([*due, *(removal.version for removal in removals[:asked])], default=-math.inf)
    kept_after = min((lease.version for lease in leases if lease.version >= last_urgent), default=math.inf)
    return ErasePlan(
        erased=tuple(removal for removal in over if removal.version <= kept_after),
        waiting=waiting,
        leased=tuple(removal for removal in over if removal.version > kept_after),
        ended=tuple(lease for lease in leases if lease.version < last_urgent),
    )


def _due_from(removal: Removal, timeline: Timeline, clock: int | None) -> int:
    """Return from when on the oldest record in removed files is due to go; if nobody said so, at the earliest."""
    said = [due for due in (removal.due_from, removal.exposed_since) if due is not None]
    slot = removal.slot if removal.slot is not None else clock or 0
    return min(said) if said else timeline.end_of(slot + 1)


def gone_later(removals: Sequence[Removal], by: int) -> tuple[Removal, ...]:
    """Return the removals, the oldest first, that no deadline up to a time makes go."""
    covered, found = False, []
    for removal in reversed(removals):
        covered = covered or (removal.erase_by is not None and removal.erase_by <= by)
        if not covered:
            found.append(removal)
    return tuple(reversed(found))


def exposed_since(files: Iterable[CellFile], timeline: Timeline, *, clock: int) -> int | None:
    """Return since when the oldest expired record in some files has been due to go; None if there is none.

    That is its expiry, or when its file was added if that was later: a replay of old data cannot be late before it has
    begun.
    """
    return min((file.due_from(timeline) for file in files if file.has_expired(clock)), default=None)
