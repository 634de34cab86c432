"""Looking after the backups of a table: what expires in it leaves them, and what was forgotten too.

What has expired is taken out of a backup as it is. After a request to forget, a backup is renewed: the newest version has
none of the records, and what it does not name is removed.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from ebb.index.errors import EngineError, InputError, LockedError, WarehouseError
from ebb.index.manifest import Kept
from ebb.maintenance.backup import is_own, renew
from ebb.maintenance.backup_place import Place, keep, remember, remembered, trim
from ebb.maintenance.carry_out import warned
from ebb.maintenance.context import Context
from ebb.maintenance.plan.backup import is_due
from ebb.warehouse.table.snapshot import Snapshot

__all__ = ["Tended", "tend", "tended_after"]


@dataclass(frozen=True, slots=True)
class Tended:
    """What was done to the backups of a table."""

    files: int = 0  # that went from them
    warnings: tuple[str, ...] = ()


def tend(snapshot: Snapshot, now: datetime) -> Tended:
    """Take out of a table's backups what has expired and is due there.  What fails is a warning, and is tried again.

    Looks at what the table remembers, and into those backups alone where something is due.
    """
    table, clock, files = snapshot.table, snapshot.ledger.clock, 0
    warnings: list[str] = []
    try:
        backups = [] if clock is None else remembered(table)
    except WarehouseError as error:
        return Tended(warnings=(str(error),))
    for kept in backups:
        until = snapshot.spec.quarantined_until(clock or 0)
        if not is_due(kept, clock=clock or 0, lag=snapshot.spec.lag, refused_until=until):
            continue
        try:
            files += _tend_one(snapshot, kept, now)
        except LockedError:  # it is being made anew, and whoever does that looks at what is due
            continue
        except WarehouseError as error:
            warnings.append(str(error))
            since = kept.failed_ms or int(now.timestamp() * 1000)
            with contextlib.suppress(EngineError):
                keep(table, replace(kept, failed_ms=since, reason=str(error)))
    return Tended(files, tuple(warnings))


def tended_after(snapshot: Snapshot, context: Context) -> tuple[str, ...]:
    """Look after the backups after a commit that somebody asked for; returns what went wrong, whatever that was."""
    warnings: list[str] = []
    failures = warned(lambda: warnings.extend(tend(snapshot.table.snapshot(), context.wall()).warnings))
    return (*warnings, *failures)


def _tend_one(snapshot: Snapshot, kept: Kept, now: datetime) -> int:
    place = Place(Path(kept.place), snapshot.table.name, snapshot.table.disk)
    if not place.is_reachable:
        step = "bring it back, or let the table look after it no more; the next update tries again"
        raise EngineError(f"expired records cannot be taken out of {place}", "it cannot be reached", step)
    if (
        kept.stale_since is not None
        and snapshot.version >= kept.stale_since
        and not _has_arrivals(snapshot.table.snapshot())
    ):
        return renew(place, snapshot.table, wall=lambda: now).files_dropped
    with place.lock() as lock:
        manifest = place.manifest()
        if manifest is not None and not is_own(manifest, snapshot):
            step = "let this table look after it no more"
            raise InputError(f"{place} holds another table of this name now", step)
        before = set() if manifest is None else set(manifest.expiring)
        if manifest is not None:
            manifest = trim(place, manifest, snapshot.spec, clock=snapshot.ledger.clock or 0)
        swept = 0 if lock.is_in_order else place.sweep(manifest)  # of a backup that was killed
        lock.is_in_order = True
        remember(snapshot.table, place, manifest)
    after = set() if manifest is None else set(manifest.expiring)
    return len(before - after) + swept


def _has_arrivals(snapshot: Snapshot) -> bool:
    """Whether a case holds what was not moved yet: then the next update moves it first, and renews the backup."""
    if not snapshot.ledger.holds:
        return False
    from ebb.maintenance.keep import has_arrivals  # reads files, which few ticks have to

    return has_arrivals(snapshot)
