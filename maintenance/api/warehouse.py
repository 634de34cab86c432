"""Ebb from Python: ``ebb.open("path").table("flights")``.

Everything that the command line does, it does through this module, and so may any other edge. Times may be given as
text, as numbers for integer columns, or as ``datetime`` and ``date``; records come back as Arrow tables; everything
else comes back as frozen dataclasses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ebb.index.errors import InputError, UnknownTableError, UpgradeError, UsageError, WarehouseError
from ebb.index.inputs import InputRules
from ebb.maintenance.api.table import OpenTable
from ebb.maintenance.context import Context
from ebb.maintenance.declare import Declaration, Declared, declare
from ebb.maintenance.define import Dropped, create, drop
from ebb.maintenance.values import Duration, Time, Wait, read_seconds
from ebb.warehouse.intake.batch import Batch, memory_bytes
from ebb.warehouse.settings import Settings, read_settings
from ebb.warehouse.table.catalog import check_root, find_table, list_tables
from ebb.warehouse.table.snapshot import Table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from ebb.maintenance.inspect.metrics import Metric
    from ebb.maintenance.inspect.status import Status
    from ebb.maintenance.landing.run import Outcome
    from ebb.maintenance.restore import Restoration
    from ebb.maintenance.schedule import Round
    from ebb.warehouse.read.window import Window
    from ebb.warehouse.sql.duckdb import DuckSession

__all__ = ["Warehouse", "open_warehouse"]

_MOST_ROWS = 2**31 - 1  # that Spark can limit an answer to; nobody reads more of one
_SHORT_BYTES = 64 * 1024 * 1024  # work for which the JVM need not compile its best


def _utc_now() -> datetime:
    return datetime.now(UTC)


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

    def __init__(self, settings: Settings, now: Callable[[], datetime] = _utc_now, *, purpose: str = "python") -> None:
        self.settings, self.purpose = settings, purpose  # the second for people who look at leases
        self.root = check_root(settings.warehouse)
        self.now = now

    @staticmethod
    def open(
        path: str | Path | None = None,
        settings: Settings | None = None,
        *,
        master: str | None = None,
        conf: Sequence[str] = (),
        purpose: str = "python",
    ) -> Warehouse:
        """Return the warehouse in a folder; it is made when the first table is, and reading it before is an error.

        What is not passed comes from where the commands look for it: the environment, the TOML file, the defaults.
        With ``settings`` nothing is looked up. ``purpose``: what ``ebb status`` says that this process reads tables for.
        """
        if settings is None:
            settings = read_settings(warehouse=None if path is None else str(path), master=master, conf=conf)
        elif path is not None:
            settings = replace(settings, warehouse=Path(path), is_named=True)
        return Warehouse(settings, purpose=purpose)

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
        self.check_there()
        return [OpenTable(self, table) for table in list_tables(self.root, durable=self.settings.durable)]

    def table(self, name: str) -> OpenTable:
        """Return a table."""
        return OpenTable(self, self._find(name))

    def _find(self, name: str) -> Table:
        try:
            return find_table(self.root, name, durable=self.settings.durable)
        except UnknownTableError:
            self.check_there()
            raise

    def declare(
        self,
        name: str,
        *,
        key: str | Sequence[str],
        inserted: str,
        tick: Duration,
        span: Duration,
        expires: str | None = None,
        lifetime: Duration | None = None,
        schema: str | None = None,
        like: str | Path | None = None,
        origin: Time | None = None,
        grid: str | None = None,
        policy: str | None = None,
        strategy: str | None = None,
        deletion_bound: Duration | None = None,
        reader_time: Duration | None = None,
        quarantine_time: Duration | None = None,
        log_retention: Duration | None = None,
        remember: Duration | None = None,
        landing: str | None = None,
        label: str | None = None,
        group: str | None = None,
        inputs: Mapping[str, Any] | None = None,
    ) -> Declared:
        """Return the table that :meth:`create` would create, with every default filled in; nothing is changed."""
        wish = Declaration(
            name=name,
            key=[key] if isinstance(key, str) else key,
            inserted=inserted,
            expires=expires,
            lifetime=lifetime,
            tick=tick,
            span=span,
            like=None if like is None else Path(like),
            schema=schema,
            origin=origin,
            grid=grid,
            policy=policy,
            strategy=strategy,
            deletion_bound=deletion_bound,
            reader_time=reader_time,
            quarantine_time=quarantine_time,
            log_retention=log_retention,
            remember=remember,
            landing=landing,
            label=label,
            group=group,
            inputs=InputRules().changed(**(inputs or {})),
        )
        return declare(self.root, wish)

    def create(self, name: str, **wish: Any) -> OpenTable:
        """Create a table; takes what :meth:`declare` and ``ebb create`` take.

        Durations may be text, a ``timedelta``, or numbers where times are integers. ``inputs``: rules for batches, for
        example ``{"extra": "ignore"}``.
        """
        return self.create_declared(self.declare(name, **wish))

    def create_declared(self, declared: Declared) -> OpenTable:
        """Create a table as :meth:`declare` returned it."""
        return OpenTable(self, create(self.root, declared, self.now(), durable=self.settings.durable))

    def drop(self, name: str, *, dry_run: bool = False) -> Dropped:
        """Delete a table and its quarantine, and return what was in it."""
        return drop(self._find(name), dry_run=dry_run)

    def restore(
        self,
        folder: str | Path,
        name: str,
        *,
        new_name: str | None = None,
        at: Time | None = None,
        dry_run: bool = False,
        progress: Callable[[str], None] = lambda _: None,
    ) -> Restoration:
        """Bring a table back from its backup in ``folder/NAME``, without what has expired by now.

        Under its own name, nothing is written to it before :meth:`OpenTable.adopt`; under ``new_name`` it is a table of
        its own. ``at``: leave out what has expired at this later moment; for integer times, the clock of the backup
        unless it is given. A dry run checks every byte of the backup.
        """
        from ebb.maintenance.restore import restore

        context = self.context(dry_run=dry_run, progress=progress)
        return restore(self.root, folder, name, context, new_name=new_name, at=at)

    def sql(
        self,
        query: str,
        limit: int | None = None,
        *,
        engine: Literal["duckdb", "spark"] = "duckdb",
        as_of: Time | None = None,
        progress: Callable[[str], None] = lambda _: None,
    ) -> pa.RecordBatchReader:
        """Answer a query; every table is a view of its live window, at the moment ``as_of`` if one is given.

        DuckDB answers in this process, Spark in a JVM.
        """
        if limit is not None and limit > _MOST_ROWS:
            limit = None
        if engine == "duckdb":
            return self.sql_session(as_of=as_of).answer(query, limit)
        from ebb.warehouse.sql.missing import missing_table
        from ebb.warehouse.sql.spark import answer, held_tables, let_go, register, unregister

        progress("starting Spark")
        spark = self.spark(delta=True)
        refused: dict[str, WarehouseError] = {}
        tables, held = self.tables(), held_tables(spark)
        for table in tables:
            try:
                register(spark, [table.at_latest(as_of)])
            except (UsageError, InputError, UpgradeError) as error:  # the query may be about other tables
                refused[table.name] = error
                unregister(spark, table.name)
        progress("asking Spark")
        try:
            return answer(spark, query, limit).to_reader()
        except UsageError as error:
            for name, why in refused.items():
                if f"`{name}`" in str(error):
                    raise why from error
            raise missing_table(str(error), [table.name for table in tables]) or error from error
        finally:
            let_go(spark, {table.table for table in tables} - held)  # the answer is complete

    def sql_session(
        self, window_of: Callable[[str], Window | None] = lambda _: None, *, as_of: Time | None = None
    ) -> DuckSession:
        """Return a warm engine without a JVM for many queries.

        A table's name stands for the window that ``window_of`` returns for it, or for the newest if that is None.
        """
        from ebb.warehouse.sql.duckdb import DuckSession

        tables = {table.name: table for table in self.tables()}
        return DuckSession(list(tables), lambda name: window_of(name) or tables[name].at_latest(as_of))

    def run(
        self,
        *tables: str,
        until: datetime | None = None,
        once: bool = True,
        yes: bool = False,
        allow_repeats: bool = False,
        wait: Wait = None,
        dry_run: bool = False,
        progress: Callable[[str], None] = lambda _: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Iterator[Outcome | Round]:
        """Apply what has arrived in the landing folders of some tables, or of all: ``once``, or for ever.

        Yields outcomes as they come, and a round whenever all tables were looked at.
        """
        from ebb.maintenance.schedule import run

        if not tables:
            self.check_there()
        context = self.context(wait=wait, dry_run=dry_run, progress=progress)
        return run(
            self.root,
            context,
            tables=tables,
            until=until,
            yes=yes,
            allow_repeats=allow_repeats,
            once=once or dry_run,
            sleep=sleep,
        )

    def metrics(self, *names: str) -> tuple[Metric, ...]:
        """Return how tables stand, or all of them, as gauges for monitoring; one that cannot be read is one too."""
        from ebb.maintenance.inspect.metrics import metrics

        def status_of(name: str) -> Callable[[], Status]:
            return lambda: self.table(name).status()

        found = names or [table.name for table in self.tables()]
        return metrics([(name, status_of(name)) for name in dict.fromkeys(found)], self.now())

    def register(self, spark: SparkSession, *names: str, as_of: Time | None = None) -> None:
        """Make tables, or all of them, views of their live windows in a Spark session that has Delta's jars."""
        from ebb.warehouse.sql.spark import register

        tables = [self.table(name) for name in names] or self.tables()
        register(spark, [table.at_latest(as_of) for table in tables])

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
            durable=self.settings.durable,
            wait=read_seconds(wait),
            dry_run=dry_run,
            progress=progress,
        )


open_warehouse = Warehouse.open
