"""What is done to the records of a batch, over Arrow: judge, sort by cell and key, write cell files.

The same code runs in Spark's tasks and in this process, so that both write the same files. What one task writes of a
cell is one sorted run in a folder of the task's own, and another task's is another.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ebb.index.columns import EXPIRES_SLOT
from ebb.index.grid import Cell
from ebb.warehouse.intake.digest import Digest
from ebb.warehouse.intake.judge import OVER, RAW, REASON, judge
from ebb.warehouse.intake.parts import Part
from ebb.warehouse.intake.quarantine import write_refused
from ebb.warehouse.parquet.arrow import arrow_schema, conform
from ebb.warehouse.parquet.writer import Layout, RunWriter, Written, split_cells
from ebb.warehouse.store.files import absolute, make_folder
from ebb.warehouse.store.paths import staging_folder
from ebb.warehouse.table.spec import TableSpec

__all__ = ["FOREIGN", "Task", "by_cell"]

FOREIGN = "_keys"  # a field of a JSON record that the table does not have
_QUARANTINE = Cell(-1, -1)

Received = tuple[Digest, str | None]  # and a field that a JSON record has and the table does not
CellTables = tuple[Cell, Iterable[pa.Table]]
Each = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]  # what map is


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task of an intake; it travels to wherever it runs."""

    spec: TableSpec
    schema: pa.Schema  # of the cell files
    table: str  # its folder, absolute: tasks do not run where we do
    folder: str  # where the task writes, below the table
    slot: int
    own_slots: bool  # each record keeps the slot of its own insertion time (load) instead of the update's

    @staticmethod
    def of(spec: TableSpec, table: str, *, slot: int, own_slots: bool) -> Task:
        """Return the task of a new batch, for as much of it as is done in one place."""
        schema, folder = arrow_schema(spec.columns), staging_folder(slot)
        return Task(spec=spec, schema=schema, table=absolute(table), folder=folder, slot=slot, own_slots=own_slots)

    @property
    def order(self) -> tuple[str, ...]:
        """Return the columns by which judged records are sorted."""
        return ("_g", "_e", *self.spec.key, EXPIRES_SLOT)

    def numbered(self, number: int) -> Task:
        """Return a part of the task with a folder of its own."""
        folder = f"{self.folder}/{number}"
        make_folder(f"{self.table}/{folder}", exist_ok=True)
        return replace(self, folder=folder)

    def judge(self, received: pa.Table) -> pa.Table:
        """Judge records as they came."""
        return judge(received, self.spec, self.slot, own_slots=self.own_slots)

    def take_in(self, received: pa.Table, each: Each = map) -> Part:
        """Do all of it, for as many records as fit in memory.  ``each``: a map that may do several things at a time."""
        digest, judged = each(lambda work: work(received), (self._digest, self._sorted))
        foreign = pc.min(received[FOREIGN]).as_py() if FOREIGN in received.column_names else None
        cells = [(cell, list(tables)) for cell, tables in by_cell(judged.to_batches())]
        return self.write(cells, lambda: (digest, foreign), each)

    def _digest(self, received: pa.Table) -> Digest:
        return Digest.of_records(received.select([column.name for column in self.spec.columns]), received[RAW])

    def _sorted(self, received: pa.Table) -> pa.Table:
        judged = self.judge(received).combine_chunks()
        return judged.sort_by([(name, "ascending") for name in self.order])

    def write(self, cells: Iterable[CellTables], received: Callable[[], Received], each: Each = map) -> Part:
        """Write judged records, sorted, cell by cell; ``received`` is called at the end."""
        layout = Layout(schema=self.schema, key=self.spec.key, table=self.table, folder=self.folder)
        written, expired, refused = Written(), 0, list[pa.Table]()

        def write_cell(item: CellTables) -> tuple[Written, int]:
            cell, tables = item
            if cell == _QUARANTINE:
                refused.extend(table.select([REASON, RAW]) for table in tables)
                return Written(), 0
            run, expired = RunWriter(layout, cell), 0
            for table in tables:
                kept = table.filter(pc.invert(table[OVER]))
                expired += table.num_rows - kept.num_rows
                run.add(conform(kept, self.schema))
            return run.close(), expired

        for run, expired_there in each(write_cell, cells):
            written.add(run)
            expired += expired_there
        quarantine = write_refused(self.table, self.folder, refused)
        digest, foreign = received()
        return Part(
            digest=digest,
            written=written,
            quarantine_files=quarantine["files"],
            reasons=quarantine["reasons"],
            expired_on_arrival=expired,
            foreign_field=foreign,
        )


def by_cell(batches: Iterable[pa.RecordBatch]) -> Iterator[CellTables]:
    """Bring together what follows each other in one cell, without holding more than a batch."""
    for cell, parts in itertools.groupby(split_cells(batches), key=lambda part: part[0]):
        yield cell, (table for _, table in parts)
