"""SQL over the windows through Spark: every table is a view that shows one pinned version without expired records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ebb.index.columns import EXPIRES_SLOT, Column
from ebb.index.errors import UsageError
from ebb.index.timeline import TimeKind
from ebb.warehouse.parquet.arrow import conform
from ebb.warehouse.read.request import Read
from ebb.warehouse.read.window import Window
from ebb.warehouse.spark.errors import spark_errors
from ebb.warehouse.sql.condition import to_sql
from ebb.warehouse.table.leases import HeldLease
from ebb.warehouse.table.snapshot import Snapshot, Table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "answer",
    "create_view",
    "held_tables",
    "lasting_sql",
    "let_go",
    "query",
    "register",
    "scan_by_spark",
    "unregister",
    "view_sql",
    "window_sql",
]

# The nodes of a parsed statement that change something, set something, or run what cannot be seen here.
_CHANGES = re.compile(
    r"^[\s:+\-']*((?:Insert|Create|Drop|Delete|Update|Merge|Replace|Alter|Set|Reset|Overwrite|Truncate|Add|Cache|Uncache|Execute"
    r"|Compound|Call|Refresh|Analyze|Load|Repair|Recover|Rename|Comment|Declare|Clear)\w*|\w*Command\w*|\w*ExecuteImmediate\w*)\b(?! *=)",
    re.MULTILINE,
)
_RUNS_CODE = {"reflect", "java_method", "try_reflect"}
_FEW_FILES = 64  # looking for more takes Spark longer than asking Delta
_PATTERN = re.compile(r"[*?{}\[\]\\]")  # what Spark takes for a pattern in a path
_LEASES: WeakKeyDictionary[SparkSession, dict[str, HeldLease]] = WeakKeyDictionary()  # of the views of each session
_VIEW_NAME = re.compile("[A-Za-z0-9_]{1,128}")


def window_sql(snapshot: Snapshot) -> str:
    """Return the query that shows the window to any engine that reads Delta tables by path."""
    clock = snapshot.ledger.clock
    hidden = "false" if clock is None else f"{EXPIRES_SLOT} > {clock}"
    return f"{_selected(snapshot)} VERSION AS OF {snapshot.version} WHERE {hidden}"


def lasting_sql(snapshot: Snapshot) -> str:
    """Return a query that stays true while the table is updated: the newest version, without what has expired by now."""
    now = {TimeKind.TIMESTAMP: "current_timestamp()", TimeKind.DATE: "current_date()"}
    kind = snapshot.spec.timeline.kind
    if kind not in now:
        facts = f"table {snapshot.table.name} counts time in integers, and no engine knows where its clock stands"
        raise UsageError(facts, "ask for the query of one version, again after each update", hint="window_sql")
    return f"{_selected(snapshot)} WHERE `{snapshot.spec.expires}` > {now[kind]}"


def _selected(snapshot: Snapshot) -> str:
    names = ", ".join(f"`{column.name}`" for column in snapshot.spec.columns)
    path = str(snapshot.table.folder.resolve()).replace("`", "``")
    return f"SELECT {names} FROM delta.`{path}`"  # noqa: S608 - no value of a user


def view_sql(snapshot: Snapshot, view: str | None = None, database: str | None = None) -> tuple[str, str]:
    """Return the name of the view that shows the table for good, and the statement that creates or replaces it."""
    parts = [part for part in (database, snapshot.table.name if view is None else view) if part is not None]
    for part in parts:
        if not _VIEW_NAME.fullmatch(part):
            msg = f"name {part!r} is not one that every catalog takes; use letters a-z, digits and _, at most 128"
            raise UsageError(msg)
    quoted = ".".join(f"`{part}`" for part in parts)
    return ".".join(parts), f"CREATE OR REPLACE VIEW {quoted} AS {lasting_sql(snapshot)}"


def create_view(spark: SparkSession, name: str, statement: str) -> None:
    """Create a view in Spark's catalog, which must be one that outlives the session."""
    if spark.conf.get("spark.sql.catalogImplementation", "in-memory") == "in-memory":
        facts = "Spark's catalog is in memory, and a view in it would end with this session"
        raise UsageError(facts, "set spark.sql.catalogImplementation to hive, before Spark starts", hint="catalog")
    with spark_errors(f"view {name} cannot be created", is_query=True):
        spark.sql(statement)


def register(spark: SparkSession, windows: Iterable[Window]) -> None:
    """Make each window a temporary view with the name of its table in any session that has Delta's jars.

    A view holds its window's lease until it is replaced or its session is gone.
    """
    held = _LEASES.setdefault(spark, {})
    for window in windows:
        name = window.snapshot.table.name
        with spark_errors(f"table {name} cannot be shown to SQL"):
            _frame(spark, window).createOrReplaceTempView(name)
        if window.lease is not None:
            held[name] = window.lease


def unregister(spark: SparkSession, name: str) -> None:
    """Take a table's view away, if there is one."""
    with spark_errors(f"table {name} cannot be taken from SQL"):
        spark.catalog.dropTempView(name)
    _LEASES.get(spark, {}).pop(name, None)


def held_tables(spark: SparkSession) -> frozenset[Table]:
    """Return the tables whose views in a session hold a lease."""
    return frozenset(lease.table for lease in _LEASES.get(spark, {}).values())


def let_go(spark: SparkSession, tables: Iterable[Table]) -> None:
    """Give up the leases of views that nobody asks any more."""
    for table in tables:
        _LEASES.get(spark, {}).pop(table.name, None)


def _frame(spark: SparkSession, window: Window, condition: str | None = None) -> DataFrame:
    snapshot = window.snapshot
    names = [f"`{column.name}`" for column in snapshot.spec.columns]
    # Files without live records are gone already, so looking for more of them would only cost time: as a sum
    # the slot is neither looked up in the log's statistics nor in those of every row group.
    clock = snapshot.ledger.clock
    frame = _files(spark, window).where(f"{EXPIRES_SLOT} + 0 > {clock}" if clock is not None else "false")
    if condition:
        frame = frame.where(condition)
    if window.moment is not None:
        moment = {TimeKind.TIMESTAMP: "timestamp_micros({})", TimeKind.DATE: "date_add(date'1970-01-01', {})"}
        shown = moment.get(snapshot.spec.timeline.kind, "{}").format(window.moment)
        frame = frame.where(f"`{snapshot.spec.expires}` > {shown}")
    return frame.selectExpr(*names)


def _files(spark: SparkSession, window: Window) -> DataFrame:
    """Return the files of a window with all of their columns.

    Few files are named one by one: Delta would ask its log for them in a job of its own, for every query.
    """
    snapshot = window.snapshot
    folder = str(snapshot.table.folder.resolve())
    paths = [f"{folder}/{file.path}" for file in window.visible_files()]
    if not 0 < len(paths) <= _FEW_FILES or _PATTERN.search(folder):
        return spark.read.format("delta").option("versionAsOf", snapshot.version).load(folder)
    columns = (*snapshot.spec.columns, Column(EXPIRES_SLOT, "bigint"))
    schema = ", ".join(f"`{column.name}` {column.type}" for column in columns)
    # The folders are called like partitions, and are none.
    return spark.read.schema(schema).option("recursiveFileLookup", "true").parquet(*paths)


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
    with spark_errors(f"table {snapshot.table.name} cannot be scanned", is_query=True):
        packed = _frame(spark, window, condition).mapInArrow(_packed, "batch binary")
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
