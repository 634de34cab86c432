"""SQL over the windows through Spark: every table is a view that shows one pinned version without expired records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ebb.index.columns import EXPIRES_SLOT
from ebb.index.errors import UsageError
from ebb.index.timeline import TimeKind
from ebb.warehouse.parquet.arrow import conform
from ebb.warehouse.read.request import Read
from ebb.warehouse.read.window import Window
from ebb.warehouse.spark.errors import spark_errors
from ebb.warehouse.sql.condition import to_sql
from ebb.warehouse.table.snapshot import Snapshot, Table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["answer", "query", "register", "scan_by_spark", "window_sql"]

# The nodes of a parsed statement that change something, set something, or run what cannot be seen here.
_CHANGES = re.compile(
    r"^[\s:+\-']*((?:Insert|Create|Drop|Delete|Update|Merge|Replace|Alter|Set|Reset|Overwrite|Truncate|Add|Cache|Uncache|Execute"
    r"|Compound|Call|Refresh|Analyze|Load|Repair|Recover|Rename|Comment|Declare|Clear)\w*|\w*Command\w*|\w*ExecuteImmediate\w*)\b(?! *=)",
    re.MULTILINE,
)
_RUNS_CODE = {"reflect", "java_method", "try_reflect"}


def window_sql(snapshot: Snapshot) -> str:
    """Return the query that shows the window to any engine that reads Delta tables by path."""
    names = ", ".join(f"`{column.name}`" for column in snapshot.spec.columns)
    clock = snapshot.ledger.clock
    hidden = "false" if clock is None else f"{EXPIRES_SLOT} > {clock}"
    path = str(snapshot.table.folder.resolve()).replace("`", "``")
    return f"SELECT {names} FROM delta.`{path}` VERSION AS OF {snapshot.version} WHERE {hidden}"  # noqa: S608 - no value of a user


def register(spark: SparkSession, tables: Sequence[Table]) -> None:
    """Make each table a temporary view of its live window in any session that has Delta's jars."""
    for table in tables:
        with spark_errors(f"table {table.name} cannot be shown to SQL"):
            snapshot = table.snapshot()
            snapshot.warn_reader()
            _frame(spark, snapshot).createOrReplaceTempView(table.name)


def _frame(spark: SparkSession, snapshot: Snapshot, *conditions: str) -> DataFrame:
    names = [f"`{column.name}`" for column in snapshot.spec.columns]
    # Files without live records are gone already, so looking for more of them would only cost time: as a sum
    # the slot is neither looked up in the log's statistics nor in those of every row group.
    clock = snapshot.ledger.clock
    frame = (
        spark.read.format("delta").option("versionAsOf", snapshot.version).load(str(snapshot.table.folder.resolve()))
    )
    for condition in (f"{EXPIRES_SLOT} + 0 > {clock}" if clock is not None else "false", *conditions):
        frame = frame.where(condition)
    return frame.selectExpr(*names)


def scan_by_spark(
    spark: SparkSession, window: Window, columns: Sequence[str] | None = None, where: str | None = None
) -> pa.RecordBatchReader:
    """Stream the records of a window through a Spark session that has Delta's jars."""
    predicate = window.predicate(where)
    condition = None if predicate is None else to_sql(predicate, window.snapshot.spec.columns, "spark")
    names = window.names(columns)
    tables = _scanned(spark, window, condition)
    return window.counted(Read(names), (table.select(names) for table in tables))


def _scanned(spark: SparkSession, window: Window, condition: str | None) -> Iterator[pa.Table]:
    """Yield the records of a window as Spark reads them, a batch at a time; no more than a partition comes at once."""
    import pyarrow as pa

    snapshot, schema = window.snapshot, window.schema()
    conditions = [condition] if condition else []
    if window.as_of is not None:
        moment = {TimeKind.TIMESTAMP: "timestamp_micros({})", TimeKind.DATE: "date_add(date'1970-01-01', {})"}
        shown = moment.get(snapshot.spec.timeline.kind, "{}").format(window.as_of)
        conditions.append(f"`{snapshot.spec.expires}` > {shown}")
    with spark_errors(f"table {snapshot.table.name} cannot be scanned", is_query=True):
        packed = _frame(spark, snapshot, *conditions).mapInArrow(_packed, "batch binary")
        for row in packed.toLocalIterator(prefetchPartitions=True):
            yield conform(pa.ipc.open_stream(row["batch"]).read_all(), schema)


def _packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn each batch into one value, so that it travels as it is."""
    import pyarrow as pa

    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        yield pa.RecordBatch.from_pydict({"batch": [sink.getvalue().to_pybytes()]})


def query(spark: SparkSession, text: str) -> DataFrame:
    """Return the answer to a query; anything that would change data or run code is refused."""
    with spark_errors("the query cannot be run", is_query=True):
        plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(text)  # there is no public parser
        shape = str(plan.treeString())
        found = _CHANGES.search(shape)
        if found:
            msg = f"only queries are answered, and this is {found[1]}; start it with SELECT or WITH"
            raise UsageError(msg)
        called = {name for name in _RUNS_CODE if f"'{name}(" in shape.lower()}
        if called:
            msg = f"queries may not call {', '.join(sorted(called))}; leave it out"
            raise UsageError(msg)
        return spark.sql(text)


def answer(spark: SparkSession, text: str, limit: int | None = None) -> pa.Table:
    """Return the answer to a query as an Arrow table."""
    frame = query(spark, text)
    with spark_errors("the query failed", is_query=True):
        return (frame if limit is None else frame.limit(limit)).toArrow()
