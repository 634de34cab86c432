"""Copies of records that are kept beside a table: refused ones in its quarantine, and files in its landing folder.

When records are forgotten, these go too. A refused record goes alone. A file of a batch that was applied or refused goes as
a whole: of one that was applied the table has the rest, and one that was refused cannot be taken apart safely. A batch that
has not been applied is nobody's copy, and is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ebb.maintenance.context import Context
from ebb.maintenance.landing.folder import kept_batches, locked_folder, remove_kept
from ebb.maintenance.landing.run import finish_applied
from ebb.warehouse.intake.quarantine import Refused, RefusedFile, clear_refused, read_refused
from ebb.warehouse.read.choose import Choice
from ebb.warehouse.table.snapshot import Snapshot, Table

__all__ = ["Copies", "Found", "opened_copies"]


@dataclass(frozen=True, slots=True)
class Found:
    """Copies of some records."""

    refused: tuple[RefusedFile, ...] = ()  # what is in the quarantine, chosen or not
    chosen: frozenset[tuple[str, int]] = frozenset()  # of these: the file, and the number of the record in it
    landed: tuple[Path, ...] = ()  # files that hold chosen records, or that nobody can tell of

    @property
    def quarantined(self) -> int:
        """Return how many refused records there are."""
        return len(self.chosen)


@dataclass(frozen=True, slots=True)
class Copies:
    """The places beside a table where records are kept, while nobody else works there."""

    table: Table
    landing: Path | None

    def holding(self, snapshot: Snapshot, choice: Choice) -> Found:
        """Return the copies of chosen records."""
        from ebb.warehouse.intake.traces import has_traces, traces_in

        spec, slot = snapshot.spec, snapshot.ledger.clock or 0
        refused = tuple(read_refused(self.table))
        chosen = {
            (file.path, number)
            for file in refused
            for number, is_chosen in enumerate(traces_in(file.records, spec, choice, slot))
            if is_chosen
        }
        kept = [] if self.landing is None else kept_batches(self.landing)
        landed = tuple(path for path in kept if has_traces(path, spec, choice, slot))
        return Found(refused, frozenset(chosen), landed)

    def remove(self, found: Found, now_ms: int) -> None:
        """Remove copies, from the disk too.  Requires the writer's lock."""
        if found.chosen:
            clear_refused(self.table, found.refused, _is_in(found), now_ms=now_ms)
        if self.landing is not None and found.landed:
            remove_kept(self.landing, found.landed, self.table.disk)


def _is_in(found: Found) -> Callable[[RefusedFile, Refused], bool]:
    records = {
        file.path: {record for number, record in enumerate(file.records) if (file.path, number) in found.chosen}
        for file in found.refused
    }
    return lambda file, record: record in records[file.path]


@contextmanager
def opened_copies(table: Table, context: Context) -> Iterator[Copies]:
    """Be the only one who works on what is kept beside a table; without changing anything, nobody need be."""
    landing = table.snapshot().spec.landing
    folder = Path(landing) if landing and Path(landing).is_dir() else None
    if folder is None or context.dry_run:
        yield Copies(table, folder)
        return
    # Before the table's own lock, as every run of the landing folder does.
    with locked_folder(folder, wait=context.wait):
        finish_applied(table.snapshot(), folder, context)  # else the next run would keep what is forgotten now
        yield Copies(table, folder)
