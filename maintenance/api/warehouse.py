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

from ebb.index.errors import InputError
from ebb.maintenance.api.table import OpenTable
from ebb.maintenance.context import Context
from ebb.maintenance.define import Declaration, Declared, Dropped, create, declare, drop
from ebb.maintenance.values import Wait, read_seconds
from ebb.warehouse.intake.batch import Batch, memory_bytes
from ebb.warehouse.settings import Settings, read_settings
from ebb.warehouse.table.catalog import check_root, find_table, list_tables

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from ebb.maintenance.landing.run import Outcome
    from ebb.maintenance.schedule import Round
    from ebb.warehouse.read.window import Window
    from ebb.warehouse.sql.duckdb import DuckSession

__all__ = ["Warehouse", "open_warehouse"]

_MOST_ROWS = 2**31 - 1  # that Spark can limit an answer to; nobody reads more of one
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

    def check_there(self) -> None:
        """Refuse a warehouse that was named and is not there: its name is misspelt, or it has no table yet."""
        if self.settings.is_named and not self.root.exists():
            msg = f"there is no warehouse {self.root}"
            raise InputError(msg, "check its name, or create a table in it first", hint="no_warehouse")

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
        if limit is not None and limit > _MOST_ROWS:
            limit = None
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
