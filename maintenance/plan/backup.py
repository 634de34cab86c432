"""What a backup copies and drops, what goes from it when records expire, and what a restore brings back.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ebb.index.cellfile import CellFile, Rewrite
from ebb.index.manifest import Kept, Manifest, RefusedFile
from ebb.maintenance.plan.change import rewrites_of
from ebb.maintenance.plan.upkeep import plan_purge

__all__ = ["BackupPlan", "RestorePlan", "TrimPlan", "is_due", "plan_backup", "plan_restore", "plan_trim"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupPlan:
    """Which data files are copied, which are there already, and which no backup names afterwards."""

    copied: tuple[CellFile, ...]
    kept: tuple[CellFile, ...]
    dropped: tuple[CellFile, ...]


def plan_backup(live: Sequence[CellFile], there: Sequence[CellFile]) -> BackupPlan:
    """Copy the files that the backup has not: data files never change, so a name says it all."""
    known, wanted = {file.path for file in there}, {file.path for file in live}
    return BackupPlan(
        copied=tuple(file for file in live if file.path not in known),
        kept=tuple(file for file in live if file.path in known),
        dropped=tuple(file for file in there if file.path not in wanted),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimPlan:
    """What leaves a backup because it has expired."""

    dropped: tuple[CellFile, ...] = ()  # those that are rewritten too
    rewrites: tuple[Rewrite, ...] = ()
    refused: tuple[RefusedFile, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing has to go."""
        return not (self.dropped or self.refused)


def plan_trim(manifest: Manifest, *, clock: int, lag: int, refused_until: int) -> TrimPlan:
    """Drop what is dead, write anew what holds records that expired ``lag`` ticks ago, and drop old refused records.

    Held files stay as they are: a backup made after the release has them no more.
    """
    files = [file for file in manifest.files if not file.cell.is_held]
    dead = [file for file in files if file.is_dead(clock)]
    mixed = [file for file in files if not file.is_dead(clock)]
    purge = plan_purge(clock=clock, live=mixed, lag=lag)
    return TrimPlan(
        dropped=(*dead, *purge.removes),
        rewrites=purge.rewrites,
        refused=tuple(file for file in manifest.refused if file.slot <= refused_until),
    )


def is_due(kept: Kept, *, clock: int, lag: int, refused_until: int) -> bool:
    """Whether something has to go from a backup, as far as the table remembers what is there."""
    return (
        kept.stale_since is not None
        or (kept.first_dead is not None and kept.first_dead <= clock)
        or (kept.oldest is not None and kept.oldest + lag <= clock)
        or (kept.first_refused is not None and kept.first_refused <= refused_until)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """What comes back of a backup, without anything that has expired."""

    clock: int | None  # that the table then has
    copied: tuple[CellFile, ...]  # as they are
    rewrites: tuple[Rewrite, ...]  # without their expired records
    left_out: tuple[CellFile, ...]  # every record in them has expired
    refused: tuple[RefusedFile, ...]

    @property
    def rewritten(self) -> tuple[CellFile, ...]:
        """Return the files that hold records which have expired, and others."""
        return tuple(file for rewrite in self.rewrites for file in rewrite.inputs)

    def changes(self, live: Sequence[CellFile]) -> tuple[tuple[CellFile, ...], tuple[CellFile, ...]]:
        """Return the files that the log names and that do not come back, and those that do and are new to it.

        ``live``: those of the backup's version. What was taken out of the backup since is not in its manifest.
        """
        back, known = {file.path for file in self.copied}, {file.path for file in live}
        gone = tuple(file for file in live if file.path not in back)
        return gone, tuple(file for file in self.copied if file.path not in known)


def plan_restore(manifest: Manifest, *, expired: int, refused_until: int) -> RestorePlan:
    """Bring back everything but the records whose expiration slot is ``expired`` or before it, unless they are held.

    If a held one has expired and the clock of the backup does not hide it, the clock moves on.
    """
    held = [file for file in manifest.files if file.cell.is_held]
    files = [file for file in manifest.files if not file.cell.is_held]
    mixed = [file for file in files if file.has_expired(expired) and not file.is_dead(expired)]
    clock = manifest.clock
    shown = [file for file in held if clock is not None and file.has_expired(expired) and not file.is_dead(clock)]
    return RestorePlan(
        copied=(*(file for file in files if not file.has_expired(expired)), *held),
        clock=expired if shown else clock,
        rewrites=rewrites_of(mixed, expired),
        left_out=tuple(file for file in files if file.is_dead(expired)),
        refused=tuple(file for file in manifest.refused if file.slot > refused_until),
    )
