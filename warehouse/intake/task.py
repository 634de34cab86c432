"""What is done to the records of a batch, over Arrow: compute, judge, sort by cell and key, write cell files.

The same code runs in Spark's tasks and in this process, so that both write the same files. What one task writes of a
cell is one sorted run in a folder of the task's own, and another task's is another.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ebb.index.columns import EXPIRES_SLOT
from ebb.index.errors import InputError
from ebb.index.grid import Cell
from ebb.warehouse.intake.compute import computed
from ebb.warehouse.intake.csv_input import CsvLines
from ebb.warehouse.intake.digest import Digest, record_hashes
from ebb.warehouse.intake.judge import OVER, judge
from ebb.warehouse.intake.parts import Part
from ebb.warehouse.intake.quarantine import RefusedFile, write_refused
from ebb.warehouse.intake.readers import read_piece
from ebb.warehouse.intake.received import COLUMN, FILE, LINE, RAW, REASON
from ebb.warehouse.intake.source import Piece
from ebb.warehouse.parquet.arrow import arrow_schema, conform
from ebb.warehouse.parquet.sizes import WriteSizes
from ebb.warehouse.parquet.writer import Layout, RunWriter, Written, split_cells
from ebb.warehouse.store.files import absolute, make_folder
from ebb.warehouse.store.paths import staging_folder
from ebb.warehouse.table.spec import TableSpec

__all__ = ["Counts", "Task", "by_cell"]

_QUARANTINE = Cell(-1, -1)

CellTables = tuple[Cell, Iterable[pa.Table]]
Each = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]  # what map is
Hashes = tuple[Any, Any]
Stamped = tuple[pa.Table, pa.Table]  # records as they came, and with what the table computes


@dataclass(slots=True)
class Counts:
    """What a task has received: digests of all records as they are stored, and of each file's as they came."""

    digest: Digest = field(default_factory=Digest)
    files: dict[int, Digest] = field(default_factory=dict)
    faults: list[InputError] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def add(self, stored: Hashes, came: Hashes, files: Any) -> None:
        """Count records by their hashes and the numbers of their files."""
        self.digest += Digest.of_hashes(*stored)
        for number in np.unique(files).tolist():
            chosen = files == number
            self.files[number] = self.files.get(number, Digest()) + Digest.of_hashes(*(h[chosen] for h in came))

    def timed(self, what: str, parts: Iterable[Any]) -> Iterator[Any]:
        """Hand on what is yielded, and remember how long it took to come."""
        started = time.perf_counter()
        for part in parts:
            self.took(what, started)
            yield part
            started = time.perf_counter()
        self.took(what, started)

    def took(self, what: str, started: float) -> None:
        """Remember how long something took."""
        self.seconds[what] = self.seconds.get(what, 0.0) + time.perf_counter() - started


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task of an intake; it travels to wherever it runs."""

    spec: TableSpec
    schema: pa.Schema  # of the cell files
    table: str  # its folder, absolute: tasks do not run where we do
    folder: str  # where the task writes, below the table
    slot: int
    own_slots: bool  # each record keeps the slot of its own insertion time (load) instead of the update's
    sizes: WriteSizes = field(default_factory=WriteSizes)
    pieces: Mapping[int, Piece] = field(default_factory=dict)  # the files of the batch
    refused: Sequence[RefusedFile] = ()  # if it is records that were refused before

    @staticmethod
    def of(spec: TableSpec, table: str, *, slot: int, own_slots: bool, sizes: WriteSizes | None = None) -> Task:
        """Return the task of a new batch, for as much of it as is done in one place."""
        return Task(
            spec=spec,
            schema=arrow_schema(spec.columns),
            table=absolute(table),
            folder=staging_folder(slot),
            slot=slot,
            own_slots=own_slots,
            sizes=sizes or WriteSizes(),
        )

    @property
    def order(self) -> tuple[str, ...]:
        """Return the columns by which judged records are sorted."""
        return ("_g", "_e", *self.spec.key, EXPIRES_SLOT)

    def numbered(self, number: int) -> Task:
        """Return a part of the task with a folder of its own."""
        folder = f"{self.folder}/{number}"
        make_folder(f"{self.table}/{folder}", exist_ok=True)
        return replace(self, folder=folder)

    def read(self, pieces: Iterable[Piece], counts: Counts) -> Iterator[pa.Table]:
        """Yield the records of pieces of files; a file that cannot be read is left out, and its error counted."""
        for piece in pieces:
            try:
                yield from counts.timed("read", read_piece(piece, self.spec.input_schema))
            except InputError as error:
                counts.faults.append(error)

    def stamp(self, received: pa.Table) -> Stamped:
        """Compute what the table computes itself."""
        return received, computed(received, self.spec, self.slot)

    def judge(self, records: Stamped) -> pa.Table:
        """Judge records."""
        came, stored = records
        return judge(stored, self.spec, self.slot, own_slots=self.own_slots, came=came)

    def hashes(self, records: Stamped) -> tuple[Hashes, Hashes]:
        """Return two hashes of each record as it will be stored, and two of it as it came."""
        came, stored = records
        names = [column.name for column in self.spec.columns]
        found = record_hashes(came.select(names), came[RAW])
        return (record_hashes(stored.select(names), came[RAW]) if self.spec.computed else found), found

    def take_in(self, received: pa.Table, counts: Counts, each: Each = map) -> Part:
        """Do all of it, for as many records as fit in memory.  ``each``: a map that may do several things at a time."""
        started = time.perf_counter()
        records = self.stamp(received)
        (stored, came), judged = each(lambda work: work(records), (self.hashes, self._sorted))
        counts.add(stored, came, received[FILE].to_numpy())
        counts.took("judge", started)
        cells = [(cell, list(tables)) for cell, tables in by_cell(judged.to_batches())]
        return self.write(cells, counts, each)

    def _sorted(self, records: Stamped) -> pa.Table:
        judged = self.judge(records).combine_chunks()
        return judged.sort_by([(name, "ascending") for name in self.order])

    def write(self, cells: Iterable[CellTables], counts: Counts, each: Each = map) -> Part:
        """Write judged records, sorted, cell by cell; ``counts`` is complete when all of them have been taken."""
        started = time.perf_counter()
        sizes = self.sizes.settled() if self.own_slots else self.sizes
        layout = Layout(schema=self.schema, key=self.spec.key, table=self.table, folder=self.folder, sizes=sizes)
        written, expirations, expired, refused = Written(), Counter[int](), 0, list[pa.Table]()

        def write_cell(item: CellTables) -> tuple[Written, Counter[int], int]:
            cell, tables = item
            if cell == _QUARANTINE:
                refused.extend(self._refused(table) for table in tables)
                return Written(), Counter(), 0
            run = RunWriter(layout, cell._replace(generation=self.spec.grid.generation))
            counts, expired = Counter[int](), 0
            for table in tables:
                kept = table.filter(pc.invert(table[OVER]))
                expired += table.num_rows - kept.num_rows
                counts.update(
                    {item["values"]: item["counts"] for item in pc.value_counts(kept[EXPIRES_SLOT]).to_pylist()}
                )
                run.add(conform(kept, self.schema))
            return run.close(), counts, expired

        for run, counts_there, expired_there in each(write_cell, cells):
            written.add(run)
            expirations.update(counts_there)
            expired += expired_there
        quarantine = write_refused(self.table, self.folder, refused)
        counts.took("write", started)
        return Part(
            digest=counts.digest,
            written=written,
            expirations=expirations,
            quarantine_files=quarantine["files"],
            reasons=quarantine["reasons"],
            expired_on_arrival=expired,
            files={number: digest for number, digest in counts.files.items() if number >= 0},
            faults=counts.faults,
            seconds=counts.seconds,
        )

    def _refused(self, table: pa.Table) -> pa.Table:
        """Return what the quarantine keeps of refused records."""
        files, numbers = table[FILE].to_pylist(), table[LINE].to_pylist()
        lines: dict[int, Mapping[int, int]] = {}
        for file in {file for file in files if file in self.pieces and self.pieces[file].format == "csv"}:
            piece = self.pieces[file]
            finder = _line_finder(self.folder.split("/", 1)[0], piece.path, piece.separator, piece.encoding)
            lines[file] = finder.of(number for at, number in zip(files, numbers, strict=True) if at == file)
        places = [lines[f].get(n) if f in lines else n for f, n in zip(files, numbers, strict=True)]
        names = [Path(self.pieces[file].path).name if file in self.pieces else None for file in files]
        if self.refused:  # they stay where they were found first
            came = [self.refused[f].records[n] for f, n in zip(files, numbers, strict=True)]
            names, places = [record.file for record in came], [record.line for record in came]
        kept: Sequence[Any] = [
            table[REASON], table[RAW], pa.array(names, pa.string()), pa.array(places, pa.int64()), table[COLUMN],
        ]  # fmt: skip
        return pa.table(kept, names=[REASON, RAW, FILE, LINE, COLUMN])


@lru_cache(maxsize=4)
def _line_finder(batch: str, path: str, separator: str, encoding: str) -> CsvLines:
    """Return what knows the lines of a file; for one batch, because a file may change."""
    del batch
    return CsvLines(path, separator, encoding)


def by_cell(batches: Iterable[pa.RecordBatch]) -> Iterator[CellTables]:
    """Bring together what follows each other in one cell, without holding more than a batch."""
    for cell, parts in itertools.groupby(split_cells(batches), key=lambda part: part[0]):
        yield cell, (table for _, table in parts)
