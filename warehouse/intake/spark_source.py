"""A batch that Spark takes in: one job reads it, judges every record and writes it as sorted cell files.

Files are handed out to tasks in pieces, and tasks read them with the same code as this process would. No record comes
to the driver: only facts about files do, with the counts and digests of what each task received. They come from the
tasks that write, each of which counts once, because cutting key ranges reads a batch twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ebb.index.columns import EXPIRES_SLOT, INSERTED_SLOT, Column
from ebb.index.errors import InputError
from ebb.index.inputs import matched
from ebb.warehouse.intake.compute import computed
from ebb.warehouse.intake.faults import dumps_fault, loads_fault, raise_faults
from ebb.warehouse.intake.judge import OVER, survey
from ebb.warehouse.intake.parts import Part, collect
from ebb.warehouse.intake.readers import convert_batch
from ebb.warehouse.intake.received import COLUMN, FILE, LINE, RAW, REASON, Unread, unread
from ebb.warehouse.intake.sizes import IntakeSizes
from ebb.warehouse.intake.source import InputFile, Piece, split
from ebb.warehouse.intake.staged import Staged, Survey
from ebb.warehouse.intake.task import Counts, Task, by_cell
from ebb.warehouse.spark.errors import spark_errors
from ebb.warehouse.table.spec import TableSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SparkSource", "file_source", "frame_source", "old_file_source"]

_FAULT = "_fault"  # the error of a file, in a record of its own
_STORED, _CAME = ("_h1", "_h2"), ("_f1", "_f2")  # hashes of a record as it is stored, and as it came
_SURVEY = f"last_slot bigint, records bigint, {_FAULT} string"

Batches = Iterable["pa.RecordBatch"]


@dataclass(frozen=True, slots=True)
class SparkSource:
    """The records of a batch as Spark's tasks read them."""

    frame: Callable[[int], DataFrame]  # what tasks are given to read, in about so many of them
    read: Callable[[Task, Batches, Counts], Iterator[pa.Table]]  # how a task reads what it is given
    spec: TableSpec
    size_bytes: int | None  # in memory; None if nobody knows
    sizes: IntakeSizes
    pieces: Sequence[Piece] = field(default=())  # if it is files
    largest_bytes: int = 0  # what cannot be cut and has to be read by one task
    most_tasks: int | None = None  # that have anything to read; None: as many as there are

    @spark_errors("the batch cannot be read")
    def survey(self) -> Survey:
        """Return how far the batch reaches; reads it once."""
        spec, read = self.spec, self.read
        task = Task.of(spec, "", slot=0, own_slots=True)

        def survey_batches(batches: Batches) -> Iterator[pa.RecordBatch]:
            counts = Counts()
            for table in read(task, batches, counts):
                found = survey(computed(table, spec, 0), spec)
                yield _row(last_slot=found.last_slot, records=found.records, _fault=None)
            for fault in counts.faults:
                yield _row(last_slot=None, records=0, _fault=dumps_fault(fault))

        rows = self.frame(self._tasks()).mapInArrow(survey_batches, _SURVEY).collect()
        raise_faults(loads_fault(row[_FAULT]) for row in rows if row[_FAULT])
        return sum((Survey(row["last_slot"], row["records"]) for row in rows), Survey())

    @spark_errors("the Spark job failed")
    def stage(self, task: Task) -> Staged:
        """Write the batch; reads it once, or twice if it is large."""
        task = replace(task, pieces={piece.file: piece for piece in self.pieces})
        return collect(task.table, task.folder, lambda: self._run(task))

    def _tasks(self) -> int:
        """Return by how many tasks the batch is read."""
        if self.size_bytes is not None and self.size_bytes <= self.sizes.one_task_bytes:
            return 1
        return max(_cores(self.frame(1)), -(-(self.size_bytes or 0) // self.sizes.task_bytes))

    def _run(self, task: Task) -> list[Part]:
        tasks = self._tasks()
        frame = self.frame(tasks)
        job = _SparkTask(task, self.read, _idle_cores(frame, tasks if self.most_tasks is None else self.most_tasks))
        is_small = self.size_bytes is not None and self.size_bytes <= _cores(frame) * self.sizes.task_bytes
        if is_small and self.largest_bytes <= 2 * self.sizes.task_bytes:
            written = frame.mapInArrow(job.take_in, "part string")
        else:
            judged = frame.mapInArrow(job.judge, _judged_ddl(self.spec))
            order = [_quoted(name) for name in task.order]
            written = self._arranged(judged, order).sortWithinPartitions(*order).mapInArrow(job.write, "part string")
        return [Part.loads(row["part"]) for row in written.collect()]

    def _arranged(self, frame: DataFrame, order: Sequence[str]) -> DataFrame:
        """Bring the records of a cell together: by cell, or by key range if the batch is known to be large."""
        if self.size_bytes is None:
            return frame.repartition(_cores(frame), "_g", "_e")
        return frame.repartitionByRange(max(_cores(frame), self.size_bytes // self.sizes.task_bytes), *order)


def file_source(spark: SparkSession, pieces: Sequence[Piece], spec: TableSpec, sizes: IntakeSizes) -> SparkSource:
    """Return the records of files: each task is given numbers of pieces and reads those."""
    shares = split(pieces, max(1, sizes.task_bytes // 2))

    def frame(tasks: int) -> DataFrame:
        return spark.range(0, len(shares), 1, min(max(1, tasks), len(shares)))

    def read(task: Task, batches: Batches, counts: Counts) -> Iterator[pa.Table]:
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        return task.read((shares[number] for number in numbers), counts)

    size_bytes = sum(piece.memory_bytes for piece in pieces)
    largest_bytes = max((share.memory_bytes for share in shares), default=0)
    return SparkSource(frame, read, spec, size_bytes, sizes, pieces, largest_bytes, len(shares))


@spark_errors("the batch cannot be read")
def frame_source(
    frame: DataFrame, spec: TableSpec, sizes: IntakeSizes, where: str = "the DataFrame", size_bytes: int | None = None
) -> SparkSource:
    """Return the records of a DataFrame; refuses columns that do not fit the table."""
    found = [Column(f.name, _type_of(f.dataType.simpleString())) for f in frame.schema]
    places = matched(where, [column.name for column in found], spec.input_schema, lambda place: found[place].type)
    chosen = frame.select(*[frame[_quoted(found[place].name)] for place in places.values()])
    there = {name: number for number, name in enumerate(places)}
    columns = spec.columns

    def read(_: Task, batches: Batches, counts: Counts) -> Iterator[pa.Table]:
        for batch in counts.timed("read", batches):
            yield convert_batch(batch, there, columns)

    return SparkSource(lambda tasks: chosen.coalesce(1) if tasks == 1 else chosen, read, spec, size_bytes, sizes)


@spark_errors("the batch cannot be read")
def old_file_source(
    spark: SparkSession, files: Sequence[InputFile], spec: TableSpec, sizes: IntakeSizes
) -> SparkSource:
    """Return the records of Parquet files with dates of the calendar of Spark 2, which Spark alone knows to read."""
    frames = [spark.read.parquet(_escaped(file.path)) for file in files]
    frame = frames[0]
    for other in frames[1:]:
        frame = frame.unionByName(other, allowMissingColumns=True)
    return frame_source(frame, spec, sizes, str(files[0].path), sum(file.memory_bytes for file in files))


def _escaped(path: Path) -> str:
    """Return a path that Spark does not take for a pattern."""
    import re

    return re.sub(r"([][{}*?\\])", r"\\\1", str(path))


def _type_of(text: str) -> str:
    return {"timestamp_ntz": "timestamp", "void": "string"}.get(text, text)


def _cores(frame: DataFrame) -> int:
    return int(frame.sparkSession.sparkContext.defaultParallelism)


def _idle_cores(frame: DataFrame, tasks: int) -> int:
    """Return how many threads each of so many tasks may have: on this machine alone, because others share a cluster."""
    is_local = str(frame.sparkSession.sparkContext.master).startswith("local")
    return max(1, _cores(frame) // max(1, tasks)) if is_local else 1


def _quoted(name: str) -> str:
    """Return a column name as Spark's expressions take it."""
    return "`" + name.replace("`", "``") + "`"


def _judged_ddl(spec: TableSpec) -> str:
    columns = ", ".join(f"{_quoted(column.name)} {column.type}" for column in spec.columns)
    slots = f"{INSERTED_SLOT} bigint, {EXPIRES_SLOT} bigint, _g int, _e int"
    marks = f"{REASON} string, {COLUMN} string, {RAW} string, {FILE} int, {LINE} bigint, {OVER} boolean"
    return f"{columns}, {slots}, {marks}, {' bigint, '.join((*_STORED, *_CAME))} bigint, {_FAULT} string"


@dataclass(frozen=True, slots=True)
class _SparkTask:
    """A task with the signatures that Spark calls."""

    task: Task
    read: Callable[[Task, Batches, Counts], Iterator[pa.Table]]
    threads: int

    def take_in(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Do all of it in one task, for as much as fits in memory."""
        import pyarrow as pa
        from pyspark import TaskContext

        context, counts = TaskContext.get(), Counts()
        task = self.task.numbered(context.partitionId() if context else 0)
        received = list(self.read(task, batches, counts))
        with ThreadPoolExecutor(max_workers=self.threads) as pool:
            part = task.take_in(pa.concat_tables(received), counts, pool.map) if received else task.write((), counts)
        yield _row(part=part.dumps())

    def judge(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Judge each record and hand it on with its hashes; the error of a file is a record of its own."""
        counts = Counts()
        for received in self.read(self.task, batches, counts):
            yield from self._judged(received).to_batches()
        for fault in counts.faults:
            yield from self._judged(unread([Unread(_FAULT, "", None)], self.task.spec.columns, 0), fault).to_batches()

    def _judged(self, received: pa.Table, fault: InputError | None = None) -> pa.Table:
        import pyarrow as pa

        records = self.task.stamp(received)
        judged = self.task.judge(records)
        for names, hashes in zip((_STORED, _CAME), self.task.hashes(records), strict=True):
            for name, values in zip(names, hashes, strict=True):
                judged = judged.append_column(name, pa.array(values.view("int64")))
        text = None if fault is None else dumps_fault(fault)
        return judged.append_column(_FAULT, pa.array([text] * judged.num_rows, pa.string()))

    def write(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Write judged records, sorted by cell and key, and count them."""
        import pyarrow.compute as pc

        counts = Counts()

        def counted() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                faults = pc.drop_null(batch.column(_FAULT)).to_pylist()
                counts.faults += [loads_fault(text) for text in faults]
                records = batch.filter(pc.is_null(batch.column(_FAULT))) if faults else batch
                stored, came = (
                    tuple(records.column(name).to_numpy().view("uint64") for name in names)
                    for names in (_STORED, _CAME)
                )
                counts.add(stored, came, records.column(FILE).to_numpy())
                yield records

        yield _row(part=self.task.write(by_cell(counted()), counts).dumps())


def _row(**values: Any) -> pa.RecordBatch:
    import pyarrow as pa

    kinds = {"last_slot": pa.int64(), "records": pa.int64()}
    arrays = [pa.array([value], kinds.get(name, pa.string())) for name, value in values.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(values))
