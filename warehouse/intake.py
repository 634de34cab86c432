"""Intake: one Spark job that reads a batch, judges every record, and writes it as sorted cell files.

A record is admitted, has expired on arrival, or goes to the quarantine with a reason; nothing else can happen to it,
and the counts prove it. The files go to a folder of their own, so a job that dies leaves nothing that any commit
names. Counts and an order-free digest of everything received are observed in the same pass. No record comes to
the driver: only facts about files do.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from index.cellfile import CellFile
from index.errors import EngineError, SchemaDriftError
from index.grid import Cell
from warehouse.cells import remove_all_but, remove_folder
from warehouse.errors import spark_errors
from warehouse.judge import OVER, RAW, REASON
from warehouse.schema import EXPIRES_SLOT, INSERTED_SLOT, Column, arrow_schema, check_drift
from warehouse.source import InputFile, check_inputs, nanosecond_columns
from warehouse.spec import TableSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["QUARANTINE_CELL", "Staged", "last_slot", "read_files", "stage"]

QUARANTINE_CELL = Cell(-1, -1)
_KEYS = "_keys"  # the fields of a JSON record that the table does not have
_NOTHING = "\x01"  # what Spark takes an empty CSV field for, so that a quoted empty text stays one
_OBSERVED = {
    "received": "count(1)",
    "strange": f"min({_KEYS})",
    # Sums do not depend on the order of records, and halves do not overflow.
    "low1": "sum(_h1 & 4294967295L)",
    "high1": "sum(shiftrightunsigned(_h1, 32))",
    "low2": "sum(_h2 & 4294967295L)",
    "high2": "sum(shiftrightunsigned(_h2, 32))",
}
_MARKS = (_KEYS, "_h1", "_h2")  # what only the observation needs of a record
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


@spark_errors("the batch cannot be read")
def read_files(spark: SparkSession, spec: TableSpec, files: Sequence[InputFile]) -> DataFrame:
    """Return the records of the files with the table's columns, plus the raw text of what could not be read."""
    check_inputs(files, spec.columns)
    parts: list[DataFrame] = []
    by_format: dict[tuple[str, frozenset[str]], list[str]] = {}
    for file in files:
        nanos = nanosecond_columns(file) if file.format == "parquet" else frozenset()
        # Spark would take brackets and the like for a pattern, and read another file.
        by_format.setdefault((file.format, nanos), []).append(re.sub(r"([][{}*?\\])", r"\\\1", str(file.path)))
    for (kind, nanos), paths in by_format.items():
        if kind == "parquet":
            parts.append(_read_parquet(spark, spec, paths, nanos))
        elif kind == "csv":
            schema = ", ".join([_ddl(spec.columns), f"`{RAW}` string"])
            reader = spark.read.schema(schema).option("header", "true").option("mode", "PERMISSIVE")
            # Fields as everybody writes them: quotes doubled, and line breaks allowed between them.
            reader = reader.option("escape", '"').option("multiLine", "true")
            parts.append(reader.option("columnNameOfCorruptRecord", RAW).option("nullValue", _NOTHING).csv(paths))
        else:
            parts.append(_read_json(spark, spec, paths))
    frame = parts[0]
    for part in parts[1:]:
        frame = frame.unionByName(part, allowMissingColumns=True)
    return frame


def _ddl(columns: Sequence[Column]) -> str:
    return ", ".join(f"`{column.name}` {column.type}" for column in columns)


def _read_parquet(spark: SparkSession, spec: TableSpec, paths: list[str], nanos: frozenset[str]) -> DataFrame:
    if not nanos:
        return spark.read.schema(_ddl(spec.columns)).parquet(*paths)
    columns = [Column(c.name, "bigint") if c.name in nanos else c for c in spec.columns]
    frame = spark.read.schema(_ddl(columns)).parquet(*paths)
    # A nanosecond past a slot's end belongs to the next slot: round up, with integers only.
    rounded = "timestamp_micros({0} div 1000 + if({0} % 1000 > 0, 1, 0)) as {0}"
    return frame.selectExpr(
        *[rounded.format(_quoted(c.name)) if c.name in nanos else _quoted(c.name) for c in spec.columns]
    )


def _read_json(spark: SparkSession, spec: TableSpec, paths: list[str]) -> DataFrame:
    from pyspark.sql import functions as F

    known = F.array(*[F.lit(column.name) for column in spec.columns])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": RAW}
    lines = spark.read.text(paths).where(F.trim("value") != "")
    # The parser stops where the first value ends: a line that holds more, or not all of it, is no record. The quick
    # test does not know NaN and Infinity.
    whole = F.concat(F.lit("["), F.col("value"), F.lit("]"))
    values = F.coalesce(F.json_array_length(whole), F.size(F.from_json(whole, "array<string>")), F.lit(0))
    parsed = lines.select(
        F.from_json("value", f"{_ddl(spec.columns)}, `{RAW}` string", options).alias("r"),
        F.json_object_keys("value").alias("k"),
        F.when(values != 1, F.col("value")).alias("w"),
    )
    strange = F.array_except("k", known)
    twice = F.filter("k", lambda name: F.size(F.filter("k", lambda other: other == name)) > 1)
    repeated = F.when(F.size("k") > F.size(F.array_distinct("k")), F.try_element_at(twice, F.lit(1)))
    keys = F.coalesce(F.try_element_at(strange, F.lit(1)), repeated).alias(_KEYS)
    columns = [F.col(f"r.{_quoted(column.name)}") for column in spec.columns]
    return parsed.select("r", "w", keys).select(*columns, F.coalesce(f"r.{RAW}", "w").alias(RAW), _KEYS)


@spark_errors("the batch cannot be read")
def check_frame(frame: DataFrame, spec: TableSpec) -> None:
    """Refuse a DataFrame that does not have exactly the table's columns."""
    found = [Column(f.name, f.dataType.simpleString().replace("timestamp_ntz", "timestamp")) for f in frame.schema]
    check_drift("the DataFrame", found, spec.columns)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@spark_errors("the batch cannot be read")
def last_slot(frame: DataFrame, spec: TableSpec) -> int | None:
    """Return the last insertion slot in a batch: the clock of an integer table that is loaded without --at.

    Records that will be refused have no say: the clock never goes back.
    """
    inserted, expires = _quoted(spec.inserted), _quoted(spec.expires)
    good = [f"{_quoted(name)} is not null" for name in spec.key]
    good += [f"abs({_quoted(name)}) < double('infinity')" for name in spec.key if spec.column(name).is_floating]
    good += [f"{expires} > {inserted}", f"try_subtract({expires}, {inserted}) <= {spec.timeline.span}L"]
    good += [f"{RAW} is null"] if RAW in frame.columns else []
    row = frame.where(" and ".join(good)).selectExpr(f"max({inserted}) as last").first()
    return None if row is None or row["last"] is None else spec.timeline.slot_of(row["last"])


def _hashed(frame: DataFrame, spec: TableSpec) -> DataFrame:
    """Add the marks of the readers where they are missing, and two hashes of each record as it came."""
    names = [_quoted(column.name) for column in spec.columns]
    marks = [mark if mark in frame.columns else f"cast(null as string) as {mark}" for mark in (RAW, _KEYS)]
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
    table = os.path.abspath(table)  # tasks do not run where we do
    folder = f"u{slot}-{uuid.uuid4().hex[:12]}"
    task = _Task(
        spec=spec, schema=arrow_schema(spec.columns), table=table, folder=folder, slot=slot, own_slots=own_slots
    )
    # The tasks make no folder at this place themselves: what is removed here cannot come back by a late one.
    try:
        os.mkdir(f"{table}/{folder}", 0o700)
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
        names = [_quoted(column.name) for column in spec.columns]
        counted = received.observe(seen, *observed).selectExpr(*names, RAW)
        tasks = counted.coalesce(1) if size_bytes <= _ONE_TASK_BYTES else counted
        written = tasks.mapInArrow(task.judge_sort_write, "fact string")
    else:
        judged = received.mapInArrow(task.judge, _judged_ddl(spec))
        order = ("_g", "_e", *(_quoted(name) for name in spec.key), EXPIRES_SLOT)
        # Counted after the shuffle: cutting key ranges reads the batch once more, to sample it.
        counted = _arranged(judged, order, size_bytes).observe(seen, *observed).drop(*_MARKS)
        written = counted.sortWithinPartitions(*order).mapInArrow(task.write, "fact string")
    return [json.loads(row["fact"]) for row in written.collect()], seen.get


def _judged_ddl(spec: TableSpec) -> str:
    slots = f"{INSERTED_SLOT} bigint, {EXPIRES_SLOT} bigint, _g int, _e int"
    marks = f"{_KEYS} string, _h1 bigint, _h2 bigint"
    return f"{_ddl(spec.columns)}, {slots}, {REASON} string, {RAW} string, {OVER} boolean, {marks}"


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

        from warehouse.judge import judge

        for batch in batches:
            judged = judge(pa.Table.from_batches([batch]), self.spec, self.slot, own_slots=self.own_slots)
            for mark in _MARKS:
                judged = judged.append_column(mark, pa.chunked_array([batch.column(mark)]))
            yield from judged.to_batches()

    def judge_sort_write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Do all of it in one task, for as much as fits in memory."""
        import pyarrow as pa
        from pyspark import TaskContext

        from warehouse.judge import judge

        received = list(batches)
        if received:
            judged = judge(pa.Table.from_batches(received), self.spec, self.slot, own_slots=self.own_slots)
            order = [(name, "ascending") for name in ("_g", "_e", *self.spec.key, EXPIRES_SLOT)]
            received = judged.combine_chunks().sort_by(order).to_batches()
        # A folder per task: what one task writes of a cell is one sorted run, and another task's is another.
        context = TaskContext.get()
        folder = f"{self.folder}/{context.partitionId() if context else 0}"
        Path(self.table, folder).mkdir(exist_ok=True)
        yield from replace(self, folder=folder).write(received)

    def write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write judged records, sorted by cell and key, and yield what was written."""
        import pyarrow as pa

        from warehouse.cells import Layout, RunWriter, Written, conform, split_cells
        from warehouse.quarantine import write_refused

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
    from warehouse.cells import Written

    staged = Staged(
        folder=folder, received=observed["received"], expired_on_arrival=sum(fact["over"] for fact in facts)
    )
    if observed["strange"]:
        step = "remove it from the file, or add it to the table with ebb alter NAME --add-column"
        raise SchemaDriftError("a JSON record", observed["strange"], "is not in the table, or stands there twice", step)
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
