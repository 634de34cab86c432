"""A batch that Spark reads: one job judges every record and writes it as sorted cell files.

No record comes to the driver: only facts about files do, with the counts and the digest of what each task received. They
come from the tasks that write, each of which counts once, because cutting key ranges reads a batch twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ebb.index.columns import EXPIRES_SLOT, INSERTED_SLOT
from ebb.warehouse.intake.digest import Digest, record_hashes
from ebb.warehouse.intake.judge import OVER, RAW, REASON, survey
from ebb.warehouse.intake.parts import Part, collect
from ebb.warehouse.intake.readers import ddl, quoted
from ebb.warehouse.intake.sizes import IntakeSizes
from ebb.warehouse.intake.staged import Staged, Survey
from ebb.warehouse.intake.task import FOREIGN, Task, by_cell
from ebb.warehouse.spark.errors import spark_errors
from ebb.warehouse.table.spec import TableSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

__all__ = ["SparkSource"]

_HASHES = ("_h1", "_h2")
_SURVEY = "last_slot bigint, records bigint"


@dataclass(frozen=True, slots=True)
class SparkSource:
    """The records of a batch as Spark reads them, checked for the table's columns."""

    frame: DataFrame
    spec: TableSpec
    size_bytes: int | None  # in memory; None if nobody knows
    sizes: IntakeSizes

    @spark_errors("the batch cannot be read")
    def survey(self) -> Survey:
        """Return how far the batch reaches; reads it once."""
        spec = self.spec
        names = dict.fromkeys([*spec.key, spec.inserted, spec.expires])

        def survey_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import pyarrow as pa

            for batch in batches:
                found = survey(pa.Table.from_batches([batch]), spec)
                yield pa.RecordBatch.from_pydict({"last_slot": [found.last_slot], "records": [found.records]})

        rows = self._marked(*map(quoted, names), RAW).mapInArrow(survey_batches, _SURVEY).collect()
        return sum((Survey(row["last_slot"], row["records"]) for row in rows), Survey())

    @spark_errors("the Spark job failed")
    def stage(self, task: Task) -> Staged:
        """Write the batch; reads it once, or twice if it is large."""
        return collect(task.table, task.folder, lambda: self._run(task))

    def _run(self, task: Task) -> list[Part]:
        """Run the job.  The plan of a small batch does not depend on the slot: Spark compiles it once for a session."""
        job = _SparkTask(task)
        cores = self.frame.sparkSession.sparkContext.defaultParallelism
        received = self._marked(*(quoted(column.name) for column in self.spec.columns), RAW, FOREIGN)
        if self.size_bytes is not None and self.size_bytes <= cores * self.sizes.task_bytes:
            tasks = received.coalesce(1) if self.size_bytes <= self.sizes.one_task_bytes else received
            written = tasks.mapInArrow(job.take_in, "part string")
        else:
            judged = received.mapInArrow(job.judge, _judged_ddl(self.spec))
            order = [quoted(name) for name in task.order]
            written = self._arranged(judged, order).sortWithinPartitions(*order).mapInArrow(job.write, "part string")
        return [Part.loads(row["part"]) for row in written.collect()]

    def _marked(self, *names: str) -> DataFrame:
        """Return some columns, with those of the readers null where the frame has none."""
        there = self.frame.columns
        marks = {mark: f"cast(null as string) as {mark}" for mark in (RAW, FOREIGN) if mark not in there}
        return self.frame.selectExpr(*(marks.get(name, name) for name in names))

    def _arranged(self, frame: DataFrame, order: Sequence[str]) -> DataFrame:
        """Bring the records of a cell together: by cell, or by key range if the batch is known to be large."""
        cores = frame.sparkSession.sparkContext.defaultParallelism
        if self.size_bytes is None:
            return frame.repartition(cores, "_g", "_e")
        return frame.repartitionByRange(max(cores, self.size_bytes // self.sizes.task_bytes), *order)


def _judged_ddl(spec: TableSpec) -> str:
    slots = f"{INSERTED_SLOT} bigint, {EXPIRES_SLOT} bigint, _g int, _e int"
    marks = f"{FOREIGN} string, {' bigint, '.join(_HASHES)} bigint"
    return f"{ddl(spec.columns)}, {slots}, {REASON} string, {RAW} string, {OVER} boolean, {marks}"


@dataclass(frozen=True, slots=True)
class _SparkTask:
    """A task with the signatures that Spark calls."""

    task: Task

    def take_in(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Do all of it in one task, for as much as fits in memory."""
        import pyarrow as pa
        from pyspark import TaskContext

        received = list(batches)
        if received:
            context = TaskContext.get()
            task = self.task.numbered(context.partitionId() if context else 0)
            yield _row(task.take_in(pa.Table.from_batches(received)))

    def judge(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Judge each record and hand it on with its hashes."""
        import pyarrow as pa

        names = [column.name for column in self.task.spec.columns]
        for batch in batches:
            received = pa.Table.from_batches([batch])
            judged = self.task.judge(received).append_column(FOREIGN, received[FOREIGN])
            for name, values in zip(_HASHES, record_hashes(received.select(names), received[RAW]), strict=True):
                judged = judged.append_column(name, pa.array(values.view("int64")))
            yield from judged.to_batches()

    def write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write judged records, sorted by cell and key, and count them."""
        import pyarrow.compute as pc

        digests, foreign = list[Digest](), list[str]()

        def counted() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                digests.append(Digest.of_hashes(*(batch.column(name).to_numpy().view("uint64") for name in _HASHES)))
                foreign.extend(pc.drop_null(batch.column(FOREIGN)).to_pylist())
                yield batch

        yield _row(self.task.write(by_cell(counted()), lambda: (sum(digests, Digest()), min(foreign, default=None))))


def _row(part: Part) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_pydict({"part": [part.dumps()]})
