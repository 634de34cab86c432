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
from index.timeline import Timeline
from warehouse.schema import EXPIRES_SLOT, INSERTED_SLOT, Column, arrow_schema, check_drift
from warehouse.source import InputFile, check_inputs, nanosecond_columns
from warehouse.spec import TableSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["QUARANTINE_CELL", "Staged", "last_slot", "read_files", "stage"]

QUARANTINE_CELL = Cell(-1, -1)
_RAW = "_raw"  # the text of a record that could not be read
_KEYS = "_keys"  # the fields of a JSON record that the table does not have
_REASON = "_reason"
_NOTHING = "\x01"  # what Spark takes an empty CSV field for, so that a quoted empty text stays one
_OBSERVED = {
    "received": "count(1)",
    "over": "sum(cast(_over as bigint))",
    "strange": f"min({_KEYS})",
    # Sums do not depend on the order of records, and halves do not overflow.
    "low1": "sum(_h1 & 4294967295L)",
    "high1": "sum(shiftrightunsigned(_h1, 32))",
    "low2": "sum(_h2 & 4294967295L)",
    "high2": "sum(shiftrightunsigned(_h2, 32))",
}
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
            parts.append(reader.option("columnNameOfCorruptRecord", _RAW).option("nullValue", _NOTHING).csv(paths))
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


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _slot(time: str, timeline: Timeline) -> str:
    """Return the slot of a time: division rounded up, with integers only, null where it would overflow."""
    since, tick = f"try_subtract({time}, {timeline.origin}L)", f"{timeline.tick}L"
    return f"try_add(({since} - {since} % {tick}) div {tick}, if({since} % {tick} > 0, 1L, 0L))"


def _time(column: Column) -> str:
    match column.type:
        case "timestamp":
            return f"unix_micros(cast({_quoted(column.name)} as timestamp))"
        case "date":
            return f"cast(unix_date({_quoted(column.name)}) as bigint)"
        case _:
            return f"cast({_quoted(column.name)} as bigint)"


def _partition(slot: str, axis: Axis, first: int, last: int) -> str:
    """Return the partition of a slot between ``first`` and ``last``."""
    match axis:
        case Ring(count, run):
            turn = f"({slot} - 1L)"
            return f"cast(pmod(({turn} - pmod({turn}, {run}L)) div {run}L, {count}L) as int)"
        case Shuffle():
            turns = ",".join(str(axis.partition(s)) for s in range(first, last + 1))
            place = f"{slot} - {first}L + 1L"
            # What has expired on arrival lies before the first slot and is not kept anyway.
            return f"if({place} > 0, try_element_at(array({turns}), cast({place} as int)), null)"


def _reason(spec: TableSpec, slot: int) -> str:
    """Return why a record cannot be kept; null if it can.  The first reason counts."""
    line = spec.timeline
    cases = [(f"{_RAW} is not null", "unreadable")]
    for name in spec.key:
        cases.append((f"{_quoted(name)} is null", f"key {name} is null"))
        if spec.column(name).is_floating:
            not_finite = f"isnan({_quoted(name)}) or abs({_quoted(name)}) = double('infinity')"
            cases.append((not_finite, f"key {name} is not finite"))
    cases += [
        ("_i is null", f"insertion time {spec.inserted} is null"),
        ("_x is null", f"expiration time {spec.expires} is null"),
        ("_x <= _i", "expires at or before its insertion"),
        (
            f"coalesce(try_subtract(_x, _i) > {line.span}L, true)",
            f"lives longer than the span {line.kind.show_duration(line.span)}",
        ),
        (f"_is is null or {EXPIRES_SLOT} is null", "its time is out of range"),
        (f"_is > {slot}L", "inserted in the future"),
    ]
    return "case " + " ".join(f"when {test} then {_text(reason)}" for test, reason in cases) + " end"


def _classified(frame: DataFrame, spec: TableSpec, slot: int, *, own_slots: bool) -> DataFrame:
    """Add slots, cell, reason, digest parts and whether the record has expired on arrival."""
    line = spec.timeline
    names = [_quoted(column.name) for column in spec.columns]
    # Negative zero and zero are one key, on every path.
    floating = {name for name in spec.key if spec.column(name).is_floating}
    users = [
        f"if({q} = 0, cast(0 as {c.type}), {q}) as {q}" if c.name in floating else q
        for q, c in zip(names, spec.columns, strict=True)
    ]
    marks = [name if name in frame.columns else f"cast(null as string) as {name}" for name in (_RAW, _KEYS)]
    times = [f"{_time(spec.column(spec.inserted))} as _i", f"{_time(spec.column(spec.expires))} as _x"]
    # Spark hashes no maps: they are hashed as text.
    hashed = ", ".join(
        f"cast({q} as string)" if "map<" in c.type else q for q, c in zip(names, spec.columns, strict=True)
    )
    digests = [f"xxhash64({hashed}, {_RAW}) as _h1", f"xxhash64(1, {hashed}, {_RAW}) as _h2"]
    slots = [f"{_slot('_i', line)} as _is", f"{_slot('_x', line)} as {EXPIRES_SLOT}"]
    own = "_is" if own_slots else f"{slot}L"
    p = line.ticks_per_span
    group = _partition(INSERTED_SLOT, spec.grid.groups, slot - p, slot)
    cohort = _partition(EXPIRES_SLOT, spec.grid.cohorts, slot + 1, slot + p)
    none = QUARANTINE_CELL.group
    return (
        frame.selectExpr(*users, *marks, *times)
        .selectExpr("*", *slots, *digests)
        .selectExpr("*", f"{_reason(spec, slot)} as {_REASON}", f"{own} as {INSERTED_SLOT}")
        .selectExpr(
            "*",
            f"{_REASON} is null and {EXPIRES_SLOT} <= {slot}L as _over",
            f"if({_REASON} is null, {group}, {none}) as _g",
            f"if({_REASON} is null, {cohort}, {none}) as _e",
        )
    )


def last_slot(frame: DataFrame, spec: TableSpec) -> int | None:
    """Return the last insertion slot in a batch: the clock of an integer table that is loaded without --at."""
    row = frame.selectExpr(f"max({_slot(_time(spec.column(spec.inserted)), spec.timeline)}) as slot").first()
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
    names = [_quoted(column.name) for column in spec.columns]
    seen = Observation("intake")
    judged = (
        _classified(frame, spec, slot, own_slots=own_slots)
        .observe(seen, *[F.expr(f"{value} as {name}") for name, value in _OBSERVED.items()])
        .where("not _over")
    )
    record = f"to_json(struct({', '.join(names)}), map('ignoreNullFields', 'false'))"
    raw = f"if({_REASON} is null, null, coalesce({_RAW}, {record})) as {_RAW}"
    kept = judged.selectExpr(*names, INSERTED_SLOT, EXPIRES_SLOT, "_g", "_e", _REASON, raw)
    order = ("_g", "_e", *(_quoted(name) for name in spec.key), EXPIRES_SLOT)
    ordered = _arranged(kept, order, size_bytes).sortWithinPartitions(*order)
    write = _writer(arrow_schema(spec.columns), spec.key, table, folder)
    try:
        rows = ordered.mapInArrow(write, "fact string").collect()
        observed = seen.get
    except PySparkException as error:
        raise _translated(error) from error
    return _staged(folder, [json.loads(row["fact"]) for row in rows], observed, table)


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
        parts = [observed[name] for name in ("low1", "high1", "low2", "high2", "received")]
        staged.digest = ".".join(f"{part:x}" for part in parts)
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
