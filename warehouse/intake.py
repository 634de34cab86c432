"""Intake: one Spark job that reads a batch, judges every record, and writes it as sorted cell files.

A record is admitted, has expired on arrival, or goes to the quarantine with a reason; nothing else can happen to it,
and the counts prove it. The files go to a folder of their own, so a job that dies leaves nothing that any commit
names. Counts and an order-free digest of everything received are observed in the same pass. No record comes to
the driver: only facts about files do.
"""

from __future__ import annotations

import json
import os
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from index.cellfile import CellFile
from index.errors import EngineError, SchemaDriftError, UnreadableInputError
from index.grid import Axis, Cell, Ring, Shuffle
from index.timeline import TimeKind, Timeline
from warehouse.schema import EXPIRES_SLOT, INSERTED_SLOT, Column, arrow_schema, check_drift
from warehouse.source import InputFile, check_inputs, nanosecond_columns
from warehouse.spec import TableSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["QUARANTINE_CELL", "Staged", "last_slot", "read_files", "stage"]

QUARANTINE_CELL = Cell(-1, -1)
_RAW = "_raw"  # the text of a record that could not be read
_KEYS = "_keys"  # the fields of a JSON record that the table does not have
_REASON = "_reason"
_ONE_TASK_BYTES = 32 * 1024 * 1024  # smaller batches are sorted in one task: a shuffle would cost more
_TASK_BYTES = 128 * 1024 * 1024  # larger batches are cut into key ranges of about this size


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


def read_files(spark: SparkSession, spec: TableSpec, files: Sequence[InputFile]) -> DataFrame:
    """Return the records of the files with the table's columns, plus the raw text of what could not be read."""
    check_inputs(files, spec.columns)
    parts: list[DataFrame] = []
    by_format: dict[tuple[str, frozenset[str]], list[str]] = {}
    for file in files:
        nanos = nanosecond_columns(file) if file.format == "parquet" else frozenset()
        by_format.setdefault((file.format, nanos), []).append(str(file.path))
    for (kind, nanos), paths in by_format.items():
        if kind == "parquet":
            parts.append(_read_parquet(spark, spec, paths, nanos))
        elif kind == "csv":
            schema = ", ".join([_ddl(spec.columns), f"`{_RAW}` string"])
            reader = spark.read.schema(schema).option("header", "true").option("mode", "PERMISSIVE")
            parts.append(reader.option("columnNameOfCorruptRecord", _RAW).csv(paths))
        else:
            parts.append(_read_json(spark, spec, paths))
    frame = parts[0]
    for part in parts[1:]:
        frame = frame.unionByName(part, allowMissingColumns=True)
    return frame


def _ddl(columns: Sequence[Column]) -> str:
    return ", ".join(f"`{column.name}` {column.type}" for column in columns)


def _read_parquet(spark: SparkSession, spec: TableSpec, paths: list[str], nanos: frozenset[str]) -> DataFrame:
    from pyspark.sql import functions as F

    if not nanos:
        return spark.read.schema(_ddl(spec.columns)).parquet(*paths)
    columns = [Column(c.name, "bigint") if c.name in nanos else c for c in spec.columns]
    frame = spark.read.schema(_ddl(columns)).parquet(*paths)
    # A nanosecond past a slot's end belongs to the next slot: round up.
    return frame.withColumns({name: F.timestamp_micros(-F.floor(-F.col(name) / F.lit(1000))) for name in nanos})


def _read_json(spark: SparkSession, spec: TableSpec, paths: list[str]) -> DataFrame:
    from pyspark.sql import functions as F

    known = F.array(*[F.lit(column.name) for column in spec.columns])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _RAW}
    lines = spark.read.text(paths).where(F.trim("value") != "")
    parsed = lines.select(
        F.from_json("value", f"{_ddl(spec.columns)}, `{_RAW}` string", options).alias("r"),
        F.json_object_keys("value").alias("k"),
    )
    strange = F.array_except("k", known)
    repeated = F.when(F.size("k") > F.size(F.array_distinct("k")), F.array_join("k", ","))
    keys = F.coalesce(F.try_element_at(strange, F.lit(1)), repeated).alias(_KEYS)
    return parsed.select("r.*", keys)


def check_frame(frame: DataFrame, spec: TableSpec) -> None:
    """Refuse a DataFrame that does not have exactly the table's columns."""
    found = [Column(f.name, f.dataType.simpleString().replace("timestamp_ntz", "timestamp")) for f in frame.schema]
    check_drift("the DataFrame", found, spec.columns)


def _slot(time: Expression, timeline: Timeline) -> Expression:
    """Return the slot of a time: division rounded up, with integers only, null where it would overflow."""
    from pyspark.sql import functions as F

    since = F.try_subtract(time, F.lit(timeline.origin).cast("bigint"))
    tick = F.lit(timeline.tick).cast("bigint")
    whole = (since - since % tick).cast("bigint")
    return F.try_add(F.call_function("div", whole, tick), F.when(since % tick > 0, 1).otherwise(0).cast("bigint"))


def _time(column: Column) -> Expression:
    from pyspark.sql import functions as F

    match column.type:
        case "timestamp":
            return F.unix_micros(F.col(column.name).cast("timestamp"))
        case "date":
            return F.unix_date(F.col(column.name)).cast("bigint")
        case _:
            return F.col(column.name).cast("bigint")


def _partition(slot: Expression, axis: Axis, first: int, last: int) -> Expression:
    """Return the partition of a slot between ``first`` and ``last``."""
    from pyspark.sql import functions as F

    match axis:
        case Ring(count, run):
            turn = slot - 1
            whole = F.call_function("div", turn - F.pmod(turn, F.lit(run)), F.lit(run).cast("bigint"))
            return F.pmod(whole, F.lit(count)).cast("int")
        case Shuffle():
            turns = F.lit([axis.partition(s) for s in range(first, last + 1)])
            return F.try_element_at(turns, (slot - first + 1).cast("int")).cast("int")


def _classified(frame: DataFrame, spec: TableSpec, slot: int, *, own_slots: bool) -> DataFrame:
    """Add slots, cell, reason and whether the record has expired on arrival."""
    from pyspark.sql import functions as F

    line = spec.timeline
    inserted, expires = _time(spec.column(spec.inserted)), _time(spec.column(spec.expires))
    for name in (_RAW, _KEYS):
        if name not in frame.columns:
            frame = frame.withColumn(name, F.lit(None).cast("string"))
    # Negative zero and zero are one key, on every path.
    zeros = {n: F.when(F.col(n) == 0, F.lit(0.0)).otherwise(F.col(n)).cast(spec.column(n).type) for n in spec.key if spec.column(n).is_floating}
    frame = frame.withColumns(zeros) if zeros else frame
    frame = frame.withColumns({"_i": inserted, "_x": expires})
    frame = frame.withColumns({"_is": _slot(F.col("_i"), line), EXPIRES_SLOT: _slot(F.col("_x"), line)})
    lifetime = F.try_subtract(F.col("_x"), F.col("_i"))
    span, kind = F.lit(line.span).cast("bigint"), line.kind
    reason = F.when(F.col(_RAW).isNotNull(), F.lit("unreadable"))
    for name in spec.key:
        reason = reason.when(F.col(name).isNull(), F.lit(f"key {name} is null"))
        if spec.column(name).is_floating:
            strange = F.isnan(name) | F.col(name).isin(float("inf"), float("-inf"))
            reason = reason.when(strange, F.lit(f"key {name} is not finite"))
    reason = (
        reason.when(F.col("_i").isNull(), F.lit(f"insertion time {spec.inserted} is null"))
        .when(F.col("_x").isNull(), F.lit(f"expiration time {spec.expires} is null"))
        .when(F.col("_x") <= F.col("_i"), F.lit("expires at or before its insertion"))
        .when(lifetime.isNull() | (lifetime > span), F.lit(f"lives longer than the span {kind.show_duration(line.span)}"))
        .when(F.col("_is").isNull() | F.col(EXPIRES_SLOT).isNull(), F.lit("its time is out of range"))
        .when(F.col("_is") > slot, F.lit("inserted in the future"))
    )
    frame = frame.withColumn(_REASON, reason)
    over = F.col(_REASON).isNull() & (F.col(EXPIRES_SLOT) <= slot)
    p = line.ticks_per_span
    own = F.col("_is") if own_slots else F.lit(slot).cast("bigint")
    frame = frame.withColumns({"_over": over, INSERTED_SLOT: own})
    good = F.col(_REASON).isNull()
    group = _partition(F.col(INSERTED_SLOT), spec.grid.groups, slot - p, slot)
    cohort = _partition(F.col(EXPIRES_SLOT), spec.grid.cohorts, slot + 1, slot + p)
    none = F.lit(QUARANTINE_CELL.group)
    return frame.withColumns({"_g": F.when(good, group).otherwise(none), "_e": F.when(good, cohort).otherwise(none)})


def last_slot(frame: DataFrame, spec: TableSpec) -> int | None:
    """Return the last insertion slot in a batch: the clock of an integer table that is loaded without --at."""
    from pyspark.sql import functions as F

    inserted = _time(spec.column(spec.inserted))
    row = frame.select(F.max(_slot(inserted, spec.timeline)).alias("slot")).first()
    return None if row is None else row["slot"]


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

    ``own_slots``: each record keeps the slot of its own insertion time (load) instead of the update's.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    folder = f"u{slot}-{uuid.uuid4().hex[:12]}"
    names = [column.name for column in spec.columns]
    judged = _classified(frame, spec, slot, own_slots=own_slots)
    hashed = [_hashable(column) for column in spec.columns] + [F.col(_RAW)]
    judged = judged.withColumns({"_h1": F.xxhash64(*hashed), "_h2": F.xxhash64(F.lit(1), *hashed)})
    low, high = F.lit(0xFFFFFFFF).cast("bigint"), 32
    sums = {
        f"{h}{half}": F.sum(F.col(h).bitwiseAND(low) if half == "l" else F.shiftrightunsigned(h, high))
        for h in ("_h1", "_h2")
        for half in "lh"
    }
    seen = Observation("intake")
    judged = judged.observe(
        seen,
        F.count(F.lit(1)).alias("received"),
        F.sum(F.col("_over").cast("bigint")).alias("over"),
        F.min(_KEYS).alias("strange"),
        *[value.alias(name) for name, value in sums.items()],
    ).where(~F.col("_over"))
    record = F.to_json(F.struct(*names), {"ignoreNullFields": "false"})
    raw = F.when(F.col(_REASON).isNotNull(), F.coalesce(F.col(_RAW), record)).alias(_RAW)
    kept = judged.select(*names, INSERTED_SLOT, EXPIRES_SLOT, "_g", "_e", _REASON, raw)
    order = ("_g", "_e", *spec.key, EXPIRES_SLOT)
    ordered = _arranged(kept, order, size_bytes).sortWithinPartitions(*order)
    write = _writer(arrow_schema(spec.columns), spec.key, table, folder)
    try:
        rows = ordered.mapInArrow(write, "fact string").collect()
        observed = seen.get
    except PySparkException as error:
        raise _translated(error) from error
    return _staged(folder, [json.loads(row["fact"]) for row in rows], observed, table)


def _hashable(column: Column) -> Expression:
    """Return a column in a form that can be hashed: Spark hashes no maps."""
    from pyspark.sql import functions as F

    return F.col(column.name).cast("string") if "map<" in column.type else F.col(column.name)


def _arranged(frame: DataFrame, order: Sequence[str], size_bytes: int | None) -> DataFrame:
    """Bring the records of a cell together: in one task, by cell, or by key range, as their size asks for."""
    cores = frame.sparkSession.sparkContext.defaultParallelism
    if size_bytes is None or _ONE_TASK_BYTES < size_bytes <= cores * _TASK_BYTES:
        return frame.repartition(cores, "_g", "_e")
    if size_bytes <= _ONE_TASK_BYTES:
        return frame.coalesce(1)
    return frame.repartitionByRange(max(cores, size_bytes // _TASK_BYTES), *order)


def _writer(
    schema: pa.Schema, key: tuple[str, ...], table: str, folder: str
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that each task runs over its sorted records."""

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from warehouse.cells import Layout, RunWriter, Written, conform, split_cells
        from warehouse.quarantine import write_refused

        layout = Layout(schema=schema, key=key, table=table, folder=folder)
        total = Written()
        refused: list[pa.Table] = []
        run: RunWriter | None = None
        for cell, part in split_cells(batches):
            if cell == QUARANTINE_CELL:
                refused.append(part.select([_REASON, _RAW]))
                continue
            if run is None or run.cell != cell:
                if run is not None:
                    total.add(run.close())
                run = RunWriter(layout, cell)
            run.add(conform(part, schema))
        if run is not None:
            total.add(run.close())
        fact = {"written": total.dumps(), "refused": write_refused(table, folder, refused)}
        yield pa.RecordBatch.from_pydict({"fact": [json.dumps(fact)]})

    return write


def _staged(folder: str, facts: Sequence[dict[str, Any]], observed: dict[str, Any], table: str) -> Staged:
    from warehouse.cells import Written

    staged = Staged(folder=folder, received=observed["received"], expired_on_arrival=observed["over"] or 0)
    if observed["strange"]:
        remove_staged(table, folder)
        step = "remove it from the file, or add it to the table with ebb alter NAME --add-column"
        raise SchemaDriftError("a JSON record", observed["strange"], "is not in the table, or stands there twice", step)
    for fact in facts:
        written = Written.loads(fact["written"])
        staged.files.extend(written.files)
        staged.expirations.update(written.expirations)
        staged.quarantine_files.extend(fact["refused"]["files"])
        staged.reasons.update(fact["refused"]["reasons"])
    if staged.received:
        halves = [observed[name] & 0xFFFFFFFFFFFFFFFF for name in ("_h1l", "_h1h", "_h2l", "_h2h")]
        staged.digest = "".join(f"{half:x}." for half in halves) + f"{staged.received:x}"
    if staged.received != staged.admitted + staged.expired_on_arrival + staged.quarantined:
        remove_staged(table, folder)
        counts = f"{staged.received} received, {staged.admitted} admitted, {staged.expired_on_arrival} expired, {staged.quarantined} quarantined"
        raise EngineError("the intake lost count", counts, "nothing was changed; report this")
    _remove_attempts(table, staged)
    return staged


def _remove_attempts(table: str, staged: Staged) -> None:
    """Remove what failed attempts of a task left in the folder."""
    wanted = {f"{table}/{f.path}" for f in staged.files} | {f"{table}/{path}" for path in staged.quarantine_files}
    for place, _, names in os.walk(f"{table}/{staged.folder}"):
        for name in names:
            if f"{place}/{name}" not in wanted:
                os.unlink(f"{place}/{name}")


def remove_staged(table: str, folder: str) -> None:
    """Remove the folder of a batch that will not be committed."""
    import shutil

    shutil.rmtree(f"{table}/{folder}", ignore_errors=True)


def _translated(error: Exception) -> Exception:
    """Return our error for Spark's."""
    text = str(error)
    first = next((line.strip() for line in text.splitlines() if line.strip()), "no message")
    for sign, reason in (
        ("No space left", "the disk is full"),
        ("OutOfMemoryError", "Java ran out of memory"),
        ("Java heap space", "Java ran out of memory"),
    ):
        if sign in text:
            return EngineError("the Spark job failed", reason, "nothing was changed; make room and run it again")
    if "FAILED_READ_FILE" in text or "CANNOT_READ_FILE" in text or "not a Parquet file" in text:
        return UnreadableInputError("the batch", first[:300], "write the file again; nothing was changed")
    return EngineError("the Spark job failed", first[:300], "nothing was changed; see --debug")
