"""Looking into data files that another tool may have changed: what they hold, and whether it may belong to the table.

What Ebb wrote is believed as far as its checksums go, and counted. What another tool wrote, or brought back, is read record
by record: each must have its key, its times, the slots of these times, and lie in the cell of its slots.
"""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from ebb.index.cellfile import CellFile
from ebb.index.columns import EXPIRES_SLOT, INSERTED_SLOT, SLOT_COLUMNS
from ebb.index.errors import CorruptionError
from ebb.index.grid import Cell, Grid
from ebb.warehouse.intake.judge import judge
from ebb.warehouse.intake.received import MARKS, REASON
from ebb.warehouse.parquet.arrow import arrow_schema, conform
from ebb.warehouse.parquet.chunks import read_row_groups
from ebb.warehouse.parquet.datafile import DataFile
from ebb.warehouse.store.errors import first_line
from ebb.warehouse.store.paths import footer_hash_in
from ebb.warehouse.table.snapshot import Snapshot
from ebb.warehouse.table.spec import TableSpec

__all__ = ["Examined", "examine", "is_ours"]


@dataclass(frozen=True, slots=True)
class Examined:
    """What one data file holds."""

    file: CellFile  # with the slots and the number of records that were found in it
    expirations: Counter[int] = field(default_factory=Counter)  # records per expiration slot
    problem: str | None = None  # why it cannot be counted, or cannot belong to the table


def is_ours(path: str) -> bool:
    """Whether a data file has a name that only Ebb gives: one with the hash of its footer."""
    return footer_hash_in(path) is not None


def examine(snapshot: Snapshot, files: Sequence[CellFile], suspects: Collection[str] = ()) -> list[Examined]:
    """Look into some files of a table, and at every record of those whose paths are ``suspects``.

    What is wrong with a file is part of the answer; raises EngineError for what is wrong with the machine.
    """
    folder, spec, clock = str(snapshot.table.folder), snapshot.spec, snapshot.ledger.clock
    schema = arrow_schema(spec.columns)

    def look(file: CellFile) -> Examined:
        is_suspect = file.path in suspects
        try:
            opened = DataFile.open(folder, file)
            absent = [name for name in SLOT_COLUMNS if name not in opened.names]
            if absent:
                return Examined(file, problem=f"it has no column {absent[0]}")
            parts = _parts(opened, schema if is_suspect else pa.schema([schema.field(name) for name in SLOT_COLUMNS]))
            return _counted(file, parts, spec, clock if is_suspect else None, is_suspect=is_suspect)
        except CorruptionError as error:
            return Examined(file, problem=_without_path(error, file))
        except pa.ArrowException as error:
            return Examined(file, problem=f"its columns are not those of the table ({first_line(error)})")

    with ThreadPoolExecutor(max_workers=multiprocessing.cpu_count()) as pool:
        return list(pool.map(look, files))


def _without_path(error: CorruptionError, file: CellFile) -> str:
    """Return what is wrong with a file, without its name: whoever tells it names the file."""
    what, where = str(error.args[0]), str(error.args[1])
    rest = where.removeprefix(file.path).strip(": ")
    return f"{what} {rest}" if rest.startswith("(") else rest or what


def _parts(opened: DataFile, schema: pa.Schema) -> Iterator[pa.Table]:
    for row_group in range(opened.row_groups):
        yield conform(read_row_groups([(opened, [row_group])], schema.names), schema)


def _counted(
    file: CellFile, parts: Iterator[pa.Table], spec: TableSpec, clock: int | None, *, is_suspect: bool
) -> Examined:
    expirations: Counter[int] = Counter()
    insertions: set[int] = set()
    for table in parts:
        if any(table[name].null_count for name in SLOT_COLUMNS):
            return Examined(file, problem="a record has no slot")
        if is_suspect and (problem := _misfit(table, spec, clock)):
            return Examined(file, problem=problem)
        counts = pc.value_counts(table[EXPIRES_SLOT].combine_chunks())
        expirations.update(dict(zip(*(counts.field(i).to_pylist() for i in range(2)), strict=True)))
        insertions.update(pc.unique(table[INSERTED_SLOT]).to_pylist())
    if not expirations:
        return Examined(file, problem="it holds no record")
    cells = _cells(spec.grid, insertions, expirations)
    if is_suspect and ({cell.held for cell in cells} if file.cell.is_held else cells) != {file.cell}:
        return Examined(file, problem=f"its records do not all belong to cell {file.cell}, where it lies")
    found = replace(
        file,
        records=expirations.total(),
        min_ins=min(insertions),
        max_ins=max(insertions),
        min_exp=min(expirations),
        max_exp=max(expirations),
    )
    if not is_suspect and found != file and file.has_slots:
        return Examined(file, problem="its slots are not those that the log has")
    return Examined(found, expirations)


def _cells(grid: Grid, insertions: Collection[int], expirations: Collection[int]) -> set[Cell]:
    groups, cohorts = set(map(grid.groups.partition, insertions)), set(map(grid.cohorts.partition, expirations))
    return {Cell(group, cohort, grid.generation) for group in groups for cohort in cohorts}


def _misfit(table: pa.Table, spec: TableSpec, clock: int | None) -> str | None:
    """Return why a record cannot belong to the table, by the rules that batches are judged by; None if all can."""
    if clock is None:
        return "the table has no clock yet, so that no record can belong to it"
    for mark in MARKS:
        table = table.append_column(mark, pa.nulls(table.num_rows, mark.type))
    judged = judge(table, spec, clock, own_slots=True)
    reasons = judged[REASON].drop_null()
    if len(reasons):
        return f"a record cannot be kept: {reasons[0].as_py()}"
    inserted, own = table[INSERTED_SLOT], judged[INSERTED_SLOT]
    if pc.any(pc.not_equal(table[EXPIRES_SLOT], judged[EXPIRES_SLOT])).as_py():
        return f"a record has another {EXPIRES_SLOT} than that of its expiration time"
    if pc.any(pc.or_(pc.less(inserted, own), pc.greater(inserted, clock))).as_py():
        return f"a record has an {INSERTED_SLOT} before that of its insertion time, or after the clock"
    return None
