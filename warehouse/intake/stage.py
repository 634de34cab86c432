"""Intake: one Spark job that reads a batch, judges every record, and writes it as sorted cell files.

A record is admitted, has expired on arrival, or goes to the quarantine with a reason; nothing else can happen to it,
and the counts prove it. The files go to a folder of their own, so a job that dies leaves nothing that any commit
names. Counts and an order-free digest of everything received are observed in the same pass. No record comes to
the driver: only facts about files do.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ebb.index.cellfile import CellFile
from ebb.index.columns import EXPIRES_SLOT, INSERTED_SLOT
from ebb.index.errors import EngineError, SchemaDriftError
from ebb.index.grid import Cell
from ebb.warehouse.intake.judge import OVER, RAW, REASON
from ebb.warehouse.intake.readers import STRANGE, ddl, quoted
from ebb.warehouse.parquet.arrow import arrow_schema
from ebb.warehouse.spark.errors import spark_errors
from ebb.warehouse.store.files import absolute, make_folder, remove_all_but, remove_folder
from ebb.warehouse.store.paths import staging_folder
from ebb.warehouse.table.spec import TableSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

__all__ = ["QUARANTINE_CELL", "Staged", "stage"]

QUARANTINE_CELL = Cell(-1, -1)


_OBSERVED = {
    "received": "count(1)",
    "strange": f"min({STRANGE})",
    # Sums do not depend on the order of records, and halves do not overflow.
    "low1": "sum(_h1 & 4294967295L)",
    "high1": "sum(shiftrightunsigned(_h1, 32))",
    "low2": "sum(_h2 & 4294967295L)",
    "high2": "sum(shiftrightunsigned(_h2, 32))",
}


_MARKS = (STRANGE, "_h1", "_h2")  # what only the observation needs of a record


_ONE_TASK_BYTES = 32 * 1024 * 1024  # smaller batches are sorted in one task


_TASK_BYTES = 128 * 1024 * 1024  # what a task sorts in memory; more than that for each core is shuffled first


@dataclass(slots=True)
class Staged:
    """A batch on disk, not committed yet."""

    folder: str
    files: list[CellFile] = field(default_factory=list)
    expirations: Counter[int] = field(default_factory=Counter)
    quarantine_files: list[str] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    received: int = 0
    expired_on_arrival: int = 0
    digest: str | None = None

    @property
    def admitted(self) -> int:
        """Return how many records are in the cell files."""
        return sum(file.records for file in self.files)

    @property
    def quarantined(self) -> int:
        """Return how many records went to the quarantine."""
        return sum(self.reasons.values())


def _hashed(frame: DataFrame, spec: TableSpec) -> DataFrame:
    """Add the marks of the readers where they are missing, and two hashes of each record as it came."""
    names = [quoted(column.name) for column in spec.columns]
    marks = [mark if mark in frame.columns else f"cast(null as string) as {mark}" for mark in (RAW, STRANGE)]
    # Spark passes over nulls, so each value is hashed behind the place of its column; a column that is added later and
    # null then changes no hash. Spark hashes no maps: nested values are hashed as text.
    options = "map('ignoreNullFields', 'false', 'timeZone', 'UTC')"
    parts = []
    for place, (q, column) in enumerate(zip(names, spec.columns, strict=True)):
        value = f"if({q} is null, null, to_json(struct({q}), {options}))" if "<" in column.type else q
        parts.append(f"if({q} is null, null, {place}), {value}")
    hashed = ", ".join([*parts, RAW])
    return frame.selectExpr(*names, *marks).selectExpr(
        "*", f"xxhash64({hashed}) as _h1", f"xxhash64(1, {hashed}) as _h2"
    )


@spark_errors("the Spark job failed")
def stage(
    frame: DataFrame,
    spec: TableSpec,
    *,
    table: str,
    slot: int,
    own_slots: bool,
    size_bytes: int | None,
) -> Staged:
    """Run the intake job and return what it wrote.

    ``own_slots``: each record keeps the slot of its own insertion time (load) instead of the update's. The plan of a
    small batch does not depend on the slot, so that Spark compiles it once for all updates of a session.
    """
    table = absolute(table)  # tasks do not run where we do
    folder = staging_folder(slot)
    task = _Task(
        spec=spec, schema=arrow_schema(spec.columns), table=table, folder=folder, slot=slot, own_slots=own_slots
    )
    # The tasks make no folder at this place themselves: what is removed here cannot come back by a late one.
    try:
        make_folder(f"{table}/{folder}")
    except OSError as error:
        raise EngineError("the batch cannot be staged", error, "check the table's folder and the free space") from error
    try:
        return _staged(folder, *_run(frame, spec, task, size_bytes), table)
    except BaseException:
        remove_folder(Path(table, folder))
        raise


def _run(frame: DataFrame, spec: TableSpec, task: _Task, size_bytes: int | None) -> tuple[list[Any], dict[str, Any]]:
    """Run the job and return what its tasks and its observation tell."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    seen = Observation("intake")
    observed = [F.expr(f"{value} as {name}") for name, value in _OBSERVED.items()]
    received = _hashed(frame, spec)
    cores = frame.sparkSession.sparkContext.defaultParallelism
    if size_bytes is not None and size_bytes <= cores * _TASK_BYTES:
        names = [quoted(column.name) for column in spec.columns]
        counted = received.observe(seen, *observed).selectExpr(*names, RAW)
        tasks = counted.coalesce(1) if size_bytes <= _ONE_TASK_BYTES else counted
        written = tasks.mapInArrow(task.judge_sort_write, "fact string")
    else:
        judged = received.mapInArrow(task.judge, _judged_ddl(spec))
        order = ("_g", "_e", *(quoted(name) for name in spec.key), EXPIRES_SLOT)
        # Counted after the shuffle: cutting key ranges reads the batch once more, to sample it.
        counted = _arranged(judged, order, size_bytes).observe(seen, *observed).drop(*_MARKS)
        written = counted.sortWithinPartitions(*order).mapInArrow(task.write, "fact string")
    return [json.loads(row["fact"]) for row in written.collect()], seen.get


def _judged_ddl(spec: TableSpec) -> str:
    slots = f"{INSERTED_SLOT} bigint, {EXPIRES_SLOT} bigint, _g int, _e int"
    marks = f"{STRANGE} string, _h1 bigint, _h2 bigint"
    return f"{ddl(spec.columns)}, {slots}, {REASON} string, {RAW} string, {OVER} boolean, {marks}"


def _arranged(frame: DataFrame, order: Sequence[str], size_bytes: int | None) -> DataFrame:
    """Bring the records of a cell together: by cell, or by key range if the batch is known to be large."""
    cores = frame.sparkSession.sparkContext.defaultParallelism
    if size_bytes is None:
        return frame.repartition(cores, "_g", "_e")
    return frame.repartitionByRange(max(cores, size_bytes // _TASK_BYTES), *order)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """What the tasks of an intake job do; it travels to wherever they run."""

    spec: TableSpec
    schema: pa.Schema
    table: str
    folder: str
    slot: int
    own_slots: bool

    def judge(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Judge each record and hand it on."""
        import pyarrow as pa

        from ebb.warehouse.intake.judge import judge

        for batch in batches:
            judged = judge(pa.Table.from_batches([batch]), self.spec, self.slot, own_slots=self.own_slots)
            for mark in _MARKS:
                judged = judged.append_column(mark, pa.chunked_array([batch.column(mark)]))
            yield from judged.to_batches()

    def judge_sort_write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Do all of it in one task, for as much as fits in memory."""
        import pyarrow as pa
        from pyspark import TaskContext

        from ebb.warehouse.intake.judge import judge

        received = list(batches)
        if received:
            judged = judge(pa.Table.from_batches(received), self.spec, self.slot, own_slots=self.own_slots)
            order = [(name, "ascending") for name in ("_g", "_e", *self.spec.key, EXPIRES_SLOT)]
            received = judged.combine_chunks().sort_by(order).to_batches()
        # A folder per task: what one task writes of a cell is one sorted run, and another task's is another.
        context = TaskContext.get()
        folder = f"{self.folder}/{context.partitionId() if context else 0}"
        make_folder(f"{self.table}/{folder}", exist_ok=True)
        yield from replace(self, folder=folder).write(received)

    def write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write judged records, sorted by cell and key, and yield what was written."""
        import pyarrow as pa

        from ebb.warehouse.intake.quarantine import write_refused
        from ebb.warehouse.parquet.arrow import conform
        from ebb.warehouse.parquet.writer import Layout, RunWriter, Written, split_cells

        layout = Layout(schema=self.schema, key=self.spec.key, table=self.table, folder=self.folder)
        total, over = Written(), 0
        refused: list[pa.Table] = []
        run: RunWriter | None = None
        for cell, sorted_part in split_cells(batches):
            if cell == QUARANTINE_CELL:
                refused.append(sorted_part.select([REASON, RAW]))
                continue
            part = sorted_part.filter(pa.compute.invert(sorted_part[OVER]))
            over += sorted_part.num_rows - part.num_rows
            if run is None or run.cell != cell:
                if run is not None:
                    total.add(run.close())
                run = RunWriter(layout, cell)
            run.add(conform(part, self.schema))
        if run is not None:
            total.add(run.close())
        fact = {"written": total.dumps(), "refused": write_refused(self.table, self.folder, refused), "over": over}
        yield pa.RecordBatch.from_pydict({"fact": [json.dumps(fact)]})


def _staged(folder: str, facts: Sequence[dict[str, Any]], observed: dict[str, Any], table: str) -> Staged:
    from ebb.warehouse.parquet.writer import Written

    staged = Staged(
        folder=folder, received=observed["received"], expired_on_arrival=sum(fact["over"] for fact in facts)
    )
    if observed["strange"]:
        name, step = observed["strange"], "remove it from the file, or add it to the table"
        known = "is not in the table, or stands there twice"
        raise SchemaDriftError("a JSON record", name, known, step, f"{name} TYPE", hint="add_column")
    for fact in facts:
        written = Written.loads(fact["written"])
        staged.files.extend(written.files)
        staged.expirations.update(written.expirations)
        staged.quarantine_files.extend(fact["refused"]["files"])
        staged.reasons.update(fact["refused"]["reasons"])
    if staged.received:
        parts = [observed[name] for name in ("low1", "high1", "low2", "high2", "received")]
        staged.digest = ".".join(f"{part:x}" for part in parts)
    if staged.received != staged.admitted + staged.expired_on_arrival + staged.quarantined:
        counts = f"{staged.received} received, {staged.admitted} admitted, {staged.expired_on_arrival} expired, {staged.quarantined} quarantined"
        raise EngineError("the intake lost count", counts, "nothing was changed; report this")
    # What failed attempts of a task left.
    remove_all_but(Path(table), folder, [f.path for f in staged.files] + staged.quarantine_files)
    return staged
