"""Staging a batch: reading, judging and writing it, and leaving out what was applied before."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ebb.index.errors import UnreadableInputError, UsageError
from ebb.index.fingerprints import fingerprint
from ebb.maintenance.carry_out import remove_uncommitted
from ebb.maintenance.context import Context
from ebb.maintenance.phases import Phases
from ebb.maintenance.plan.repeats import Repeats, repeated_files, without
from ebb.warehouse.intake.batch import Batch, Files, Refusals, Source, is_nothing, open_batch
from ebb.warehouse.intake.quarantine import RefusedFile
from ebb.warehouse.intake.staged import Staged, Survey
from ebb.warehouse.table.snapshot import Snapshot
from ebb.warehouse.table.spec import TableSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Staging", "check_read_again", "fingerprints_of", "retried_digest"]


@dataclass(frozen=True, slots=True)
class Staging:
    """Bringing one batch to the disk, in a folder that no commit names yet."""

    snapshot: Snapshot
    spec: TableSpec  # with the rules of this batch
    context: Context
    phases: Phases
    slot: int
    own_slots: bool = False
    allow_repeats: bool = False
    left_behind: list[str] = field(default_factory=list)  # folders that could not be removed

    def _open(self, batch: Batch) -> Source:
        def spark() -> SparkSession:
            self.context.progress("starting Spark")
            with self.phases.timed("start"):
                return self.context.spark()

        return open_batch(batch, self.spec, spark=spark, sizes=self.context.intake)

    def load_slot(self, batch: Batch, at: int | None) -> tuple[int, Survey | None]:
        """Return where a load sets the clock, and what was read of the batch to know that."""
        line = self.snapshot.spec.timeline
        if at is not None:
            return line.clock_at(at), None
        if line.kind.has_wall_clock:
            return line.clock_at(line.kind.from_datetime(self.context.now)), None
        if self.spec.inserted_as is not None:
            msg = f"load {self.spec.name}: the table computes the insertion time itself"
            raise UsageError(msg, "say which time to set the clock to", hint="at")
        survey = self._open(batch).survey()
        if survey.last_slot is None:
            msg = f"load {self.snapshot.spec.name}: no record can be kept, so none tells where to set the clock"
            raise UsageError(msg, "say which time to set it to", hint="at")
        return survey.last_slot, survey

    def stage(self, batch: Batch) -> tuple[Staged, Repeats]:
        """Stage a batch without the files of it that were applied before, or that are in it twice."""
        repeats, staged = Repeats(), Staged()
        while not is_nothing(batch):
            staged = self._staged(batch)
            found = {} if self.allow_repeats else self._repeated_files(staged)
            if not found or not isinstance(batch, Files | Refusals):
                break
            names = [Path(file.path).name for file in batch.files]
            repeats = repeats.and_files([(names[n], slot, staged.files_digests[n]) for n, slot in found.items()])
            if not remove_uncommitted(self.snapshot, staged.folder):
                self.left_behind.append(staged.folder)
            left: Any = without(batch.files, found)
            batch, staged = replace(batch, files=left), Staged()
        return staged, repeats

    def _staged(self, batch: Batch) -> Staged:
        from ebb.warehouse.intake.task import Task

        source = self._open(batch)
        self.context.progress("reading and sorting the batch")
        task = Task.of(
            self.spec,
            str(self.snapshot.table.folder),
            slot=self.slot,
            own_slots=self.own_slots,
            sizes=self.context.sizes,
        )
        staged = source.stage(task)
        if isinstance(batch, Refusals):  # known by where they are kept: what they are was applied once, and refused
            places = {number: retried_digest(file) for number, file in enumerate(batch.files)}
            staged = replace(staged, digest=None, files_digests=places)
        for name, seconds in staged.seconds.items():
            self.phases.add(name, seconds)
        return staged

    def _repeated_files(self, staged: Staged) -> dict[int, int | None]:
        ledger, ticks = self.snapshot.ledger, self.snapshot.spec.remembered_ticks
        return repeated_files(staged.files_digests, lambda digest: ledger.slot_applied(digest, ticks))


def retried_digest(file: RefusedFile) -> str:
    """Return what stands for a file of the quarantine whose records were applied once more."""
    place = int.from_bytes(hashlib.blake2b(file.path.encode(), digest_size=16).digest(), "big")
    return f"{place >> 64:016x}.{place % 2**64:016x}.{len(file.records):x}"


def check_read_again(staged: Staged, repeats: Repeats, survey: Survey | None) -> None:
    """Refuse a batch that was another one when it was read for the second time."""
    received = staged.received + repeats.records
    if survey is not None and survey.records != received:
        reason = f"{survey.records} records were read to set the clock by, and then {received}"
        raise UnreadableInputError("the batch", reason, "say which time to set it to", hint="at")


def fingerprints_of(staged: Staged, repeats: Repeats) -> tuple[int, ...]:
    """Return the fingerprints of what was staged, and of the whole batch if files of it were left out."""
    whole = repeats.whole(staged.digest)
    digests = [*staged.files_digests.values(), *([] if whole is None else [whole])]
    return tuple(dict.fromkeys(map(fingerprint, digests)))
