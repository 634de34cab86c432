"""Ebb from Python: ``ebb.open("path").table("flights")``.

Everything that the command line does, it does through this module, and so may any other edge. Times may be given as
text, as numbers for integer columns, or as ``datetime`` and ``date``; records come back as Arrow tables; everything
else comes back as frozen dataclasses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ebb.maintenance.context import Context
from ebb.maintenance.define import Altered, Declaration, Declared, Dropped, alter, create, declare, drop
from ebb.maintenance.inspect.explain import Explanation, explain
from ebb.maintenance.inspect.history import Commit, history
from ebb.maintenance.inspect.quarantined import Quarantine, quarantined
from ebb.maintenance.inspect.status import Status, status
from ebb.maintenance.update import Report, load, update
from ebb.maintenance.upkeep import Erasure, Upkeep, erase_and_record, purge, seal
from ebb.maintenance.values import Time, Wait, read_seconds, read_time
from ebb.warehouse.intake.batch import Batch, BatchLike, batch_of, memory_bytes
from ebb.warehouse.settings import Settings, check_engine, read_settings
from ebb.warehouse.table.catalog import check_root, find_table, list_tables
from ebb.warehouse.table.snapshot import Snapshot, Table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from ebb.maintenance.landing.run import Outcome
    from ebb.maintenance.schedule import Round
    from ebb.warehouse.parquet.sizes import ReadSizes
    from ebb.warehouse.read.finder import Finder
    from ebb.warehouse.read.latest import LatestWindow
    from ebb.warehouse.read.window import Window
    from ebb.warehouse.sql.duckdb import DuckSession

__all__ = ["OpenTable", "Warehouse", "open_warehouse"]

_SHORT_BYTES = 64 * 1024 * 1024  # work for which the JVM need not compile its best


def _utc_now() -> datetime:
    return datetime.now(timezone.utc)


class Warehouse:
    """A folder of tables.

    >>> import ebb, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     warehouse = ebb.open(folder)
    ...     times = {"inserted": "came", "expires": "until", "tick": "10", "span": "120"}
    ...     cars = warehouse.create("cars", schema="plate STRING, came INT, until INT", key=["plate"], **times)
    ...     [table.name for table in warehouse.tables()], warehouse.sql("SELECT count(*) AS n FROM cars").read_all()["n"][0]
    (['cars'], <pyarrow.Int64Scalar: 0>)
    """

    def __init__(self, settings: Settings, now: Callable[[], datetime] = _utc_now) -> None:
        self.settings = settings
        self.root = check_root(settings.warehouse)
        self.now = now

    @staticmethod
    def open(
        path: str | Path | None = None,
        settings: Settings | None = None,
        *,
        master: str | None = None,
        conf: Sequence[str] = (),
    ) -> Warehouse:
        """Return the warehouse in a folder; it is made when the first table is.

        What is not passed comes from where the commands look for it: the environment, the TOML file, the defaults.
        With ``settings`` nothing is looked up.
        """
        if settings is None:
            return Warehouse(read_settings(warehouse=None if path is None else str(path), master=master, conf=conf))
        return Warehouse(settings if path is None else replace(settings, warehouse=Path(path)))

    def __repr__(self) -> str:
        names = ", ".join(table.name for table in list_tables(self.root))
        return f"<Warehouse {str(self.root)!r}: {names or 'no tables'}>"

    def tables(self) -> list[OpenTable]:
        """Return all tables by name."""
        return [OpenTable(self, table) for table in list_tables(self.root)]

    def table(self, name: str) -> OpenTable:
        """Return a table."""
        return OpenTable(self, find_table(self.root, name))

    def declare(self, name: str, **wish: Any) -> Declared:
        """Return the table that :meth:`create` would create, with every default filled in; nothing is changed."""
        return declare(self.root, Declaration(name=name, **wish))

    def create(self, name: str, **wish: Any) -> OpenTable:
        """Create a table; takes what ``ebb create`` takes, ``key`` as a list of names."""
        return self.create_declared(self.declare(name, **wish))

    def create_declared(self, declared: Declared) -> OpenTable:
        """Create a table as :meth:`declare` returned it."""
        return OpenTable(self, create(self.root, declared, self.now()))

    def drop(self, name: str, *, dry_run: bool = False) -> Dropped:
        """Delete a table and its quarantine, and return what was in it."""
        return drop(find_table(self.root, name), dry_run=dry_run)

    def sql(
        self,
        query: str,
        limit: int | None = None,
        *,
        engine: Literal["duckdb", "spark"] = "duckdb",
        progress: Callable[[str], None] = lambda _: None,
    ) -> pa.RecordBatchReader:
        """Answer a query; every table is a view of its live window.  DuckDB answers in this process, Spark in a JVM."""
        if engine == "duckdb":
            return self.sql_session().answer(query, limit)
        from ebb.warehouse.sql.spark import answer

        progress("starting Spark")
        spark = self.spark(delta=True)
        self.register(spark)
        progress("asking Spark")
        return answer(spark, query, limit).to_reader()

    def sql_session(self, window_of: Callable[[str], Window | None] = lambda _: None) -> DuckSession:
        """Return a warm engine without a JVM for many queries.

        A table's name stands for the window that ``window_of`` returns for it, or for the newest if that is None.
        """
        from ebb.warehouse.sql.duckdb import DuckSession

        tables = {table.name: table for table in self.tables()}
        return DuckSession(list(tables), lambda name: window_of(name) or tables[name].at_latest())

    def run(
        self,
        *tables: str,
        until: datetime | None = None,
        once: bool = True,
        yes: bool = False,
        wait: Wait = None,
        dry_run: bool = False,
        progress: Callable[[str], None] = lambda _: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Iterator[Outcome | Round]:
        """Apply what has arrived in the landing folders of some tables, or of all: ``once``, or for ever.

        Yields outcomes as they come, and a round whenever all tables were looked at.
        """
        from ebb.maintenance.schedule import run

        context = self.context(wait=wait, dry_run=dry_run, progress=progress)
        return run(self.root, context, tables=tables, until=until, yes=yes, once=once or dry_run, sleep=sleep)

    def register(self, spark: SparkSession) -> None:
        """Make every table a view of its live window in a Spark session that has Delta's jars."""
        from ebb.warehouse.sql.spark import register

        register(spark, list_tables(self.root))

    def spark(self, *, delta: bool = False, work_bytes: int | None = None) -> SparkSession:
        """Return this process's Spark session, starting it if there is none.

        ``work_bytes``: how much there is to read, if that is all the session is for.
        """
        from ebb.warehouse.spark.session import spark_session

        is_short = work_bytes is not None and work_bytes <= _SHORT_BYTES
        return spark_session(replace(self.settings, short_work=is_short), delta=delta)

    def context(
        self,
        *,
        wait: Wait = None,
        dry_run: bool = False,
        progress: Callable[[str], None] = lambda _: None,
        batch: Batch | None = None,
    ) -> Context:
        """Return what work on a table needs from outside; ``batch`` is what there is to read."""

        def spark() -> SparkSession:
            return self.spark(work_bytes=None if batch is None else memory_bytes(batch))

        return Context(
            now=self.now(),
            wall=self.now,
            spark=spark,
            engine=self.settings.engine,
            wait=read_seconds(wait),
            dry_run=dry_run,
            progress=progress,
        )


open_warehouse = Warehouse.open


class OpenTable:
    """One table of a warehouse.

    >>> import ebb, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     times = {"inserted": "came", "expires": "until", "tick": "10", "span": "120"}
    ...     cars = ebb.open(folder).create("cars", schema="plate STRING, came INT, until INT", key=["plate"], **times)
    ...     report = cars.update(at=10)  # a tick without a batch
    ...     report.slot, cars.status().clock_time, cars.probe("K-77").num_rows
    (1, '10', 0)
    """

    def __init__(self, warehouse: Warehouse, table: Table, read_sizes: ReadSizes | None = None) -> None:
        self.warehouse = warehouse
        self.table = table
        self.read_sizes = read_sizes
        self._snapshot: Snapshot | None = None  # the last one that was read
        self._finder: Finder | None = None  # what reading has learnt about the files

    def __repr__(self) -> str:
        return f"<Table {self.name!r} in {str(self.warehouse.root)!r}>"

    @property
    def name(self) -> str:
        """Return the table's name."""
        return self.table.name

    def _time(self, value: Time | None) -> int | None:
        return None if value is None else read_time(self.table.snapshot().spec.timeline.kind, value)

    def _batch(self, batch: BatchLike | None, engine: str | None) -> Batch:
        return batch_of(batch, self.warehouse.settings.engine if engine is None else check_engine(engine))

    def update(
        self,
        batch: BatchLike | None = None,
        batch_id: int | None = None,  # noqa: ARG002 - what foreachBatch passes; batches are known by their content
        *,
        at: Time | None = None,
        catch_up: bool = False,
        yes: bool = False,
        engine: str | None = None,
        wait: Wait = None,
        dry_run: bool = False,
        progress: Callable[[str], None] = lambda _: None,
    ) -> Report:
        """Admit a batch and remove what has expired, in one commit.

        A batch is paths of files, a Spark DataFrame, or Arrow data: an Arrow table or reader, a frame of pandas or
        polars, a DuckDB relation. Arrow data needs no JVM. ``engine`` says who reads files: ``spark``, ``direct`` (no
        JVM, Parquet only) or ``auto`` (direct for Parquet up to 64 MB); by default what the settings say. Fits
        ``foreachBatch`` as it is: each micro-batch is then the next tick.
        """
        found = self._batch(batch, engine)
        context = self.warehouse.context(wait=wait, dry_run=dry_run, progress=progress, batch=found)
        return update(self.table, found, context, at=self._time(at), catch_up=catch_up, yes=yes)

    def load(
        self,
        batch: BatchLike,
        *,
        at: Time | None = None,
        engine: str | None = None,
        wait: Wait = None,
        dry_run: bool = False,
        progress: Callable[[str], None] = lambda _: None,
    ) -> Report:
        """Bring in the first records and set the clock; a batch and its engine are as in :meth:`update`."""
        found = self._batch(batch, engine)
        context = self.warehouse.context(wait=wait, dry_run=dry_run, progress=progress, batch=found)
        return load(self.table, found, context, at=self._time(at))

    def at_latest(self, as_of: Time | None = None) -> Window:
        """Pin the newest version; everything read from it belongs to one window.

        ``as_of``: hide what has expired at this moment, which is not before the clock. What the table knows about its
        files is kept, so that the next window answers at once.
        """
        from ebb.warehouse.read.finder import Finder
        from ebb.warehouse.read.window import Window

        known = self._snapshot
        snapshot = self._snapshot = self.table.snapshot()
        if self._finder is None or known is None or known.table_id != snapshot.table_id:
            self._finder = Finder(
                str(self.table.folder), [snapshot.spec.column(name) for name in snapshot.spec.key], self.read_sizes
            )
        moment = None if as_of is None else read_time(snapshot.spec.timeline.kind, as_of)
        return Window(snapshot, self._finder, as_of=moment)

    def up_to_date(self, as_of: Time | None = None) -> LatestWindow:
        """Return a window that moves on while it is read: each read reflects every update committed before it commits."""
        from ebb.warehouse.read.latest import LatestWindow

        first = self.at_latest(as_of)
        return LatestWindow(
            first.snapshot,
            first.finder,
            as_of=first.as_of,
            cost=first.cost,
            reopen=lambda: replace(first, snapshot=self.table.snapshot()),
        )

    def alter(
        self,
        *,
        deletion_bound: str | None = None,
        quarantine_time: str | None = None,
        log_retention: str | None = None,
        landing: str | None = None,
        add_column: str | None = None,
        wait: Wait = None,
        dry_run: bool = False,
    ) -> Altered:
        """Change what ``ebb alter`` changes."""
        return alter(
            self.table,
            now=self.warehouse.now(),
            deletion_bound=deletion_bound,
            quarantine_time=quarantine_time,
            log_retention=log_retention,
            landing=landing,
            add_column=add_column,
            wait=read_seconds(wait),
            dry_run=dry_run,
        )

    def probe(
        self,
        *keys: Any,
        low: Any = None,
        high: Any = None,
        prefix: Any = None,
        columns: Sequence[str] | None = None,
        as_of: Time | None = None,
    ) -> pa.Table:
        """Return the live records of some keys, a range or a prefix: ``at_latest().probe(...)``."""
        return self.at_latest(as_of).probe(*keys, low=low, high=high, prefix=prefix, columns=columns)

    def scan(
        self, columns: Sequence[str] | None = None, where: str | None = None, as_of: Time | None = None
    ) -> pa.RecordBatchReader:
        """Stream the live records: ``at_latest().scan(...)``."""
        return self.at_latest(as_of).scan(columns, where)

    def scan_by_spark(
        self, columns: Sequence[str] | None = None, where: str | None = None, as_of: Time | None = None
    ) -> pa.RecordBatchReader:
        """Stream the live records through Spark."""
        from ebb.warehouse.sql.spark import scan_by_spark

        window = self.at_latest(as_of)
        return scan_by_spark(self.warehouse.spark(delta=True), window, columns, where)

    def status(self) -> Status:
        """Return where the table stands: clock, size, cells, deletion bound, last update."""
        return status(self.table.snapshot(), self.warehouse.now())

    def history(self, limit: int | None = None) -> tuple[Commit, ...]:
        """Return the commits, newest first."""
        return history(self.table.snapshot(), limit)

    def explain(self) -> Explanation:
        """Return the plan of the next update, as far as it can be told without its batch."""
        return explain(self.table.snapshot(), self.warehouse.now())

    def window_sql(self) -> str:
        """Return the query that shows the live window to any engine that reads Delta tables by path."""
        from ebb.warehouse.sql.spark import window_sql

        return window_sql(self.table.snapshot())

    def quarantine(self, reason: str | None = None) -> Quarantine:
        """Return the refused records: all, or those whose reason holds a text."""
        return quarantined(self.table.snapshot(), reason)

    def seal(self, *, wait: Wait = None, dry_run: bool = False) -> Upkeep:
        """Merge the runs of completed groups."""
        with self.table.lock(wait=read_seconds(wait)):
            return seal(self.table.snapshot(), self.warehouse.context(dry_run=dry_run))[1]

    def purge(self, *, wait: Wait = None, dry_run: bool = False) -> Upkeep:
        """Rewrite every file that holds expired records."""
        with self.table.lock(wait=read_seconds(wait)):
            return purge(self.table.snapshot(), self.warehouse.context(dry_run=dry_run))[1]

    def erase(self, *, wait: Wait = None, dry_run: bool = False) -> Erasure:
        """Delete the files that no version within the grace period of readers names."""
        with self.table.lock(wait=read_seconds(wait)) as lock:
            done = erase_and_record(self.table.snapshot(), self.warehouse.context(dry_run=dry_run))
            lock.is_in_order = lock.is_in_order or not dry_run
        return done
