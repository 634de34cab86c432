"""Ebb from Python: ``Warehouse.open(path).table("flights")``.

The same functions as behind the command line. Times may be given as text, as numbers for integer columns, or as
``datetime`` and ``date``; records come back as Arrow tables.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ebb.index.errors import UnreadableInputError, UsageError
from ebb.index.timeline import TimeKind
from ebb.maintenance.context import Context
from ebb.maintenance.define import Declaration, alter, create, declare
from ebb.maintenance.inspect.history import history
from ebb.maintenance.inspect.status import status
from ebb.maintenance.update import Report, load, update
from ebb.maintenance.upkeep import erase, purge, seal
from ebb.warehouse.intake.source import find_inputs
from ebb.warehouse.settings import Settings, read_settings
from ebb.warehouse.table.catalog import check_root, drop_table, find_table, list_tables
from ebb.warehouse.table.snapshot import Snapshot, Table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from ebb.maintenance.landing.run import Outcome
    from ebb.maintenance.schedule import Round
    from ebb.warehouse.parquet.sizes import ReadSizes
    from ebb.warehouse.read.finder import Finder
    from ebb.warehouse.read.latest import LatestWindow
    from ebb.warehouse.read.window import Window
    from ebb.warehouse.sql.duckdb import DuckSession
    from ebb.warehouse.table.spec import TableSpec

__all__ = ["OpenTable", "Warehouse", "open_warehouse", "read_time"]

Time = str | int | date | datetime
_SHORT_BYTES = 64 * 1024 * 1024  # work for which the JVM need not compile its best


def _utc_now() -> datetime:
    return datetime.now(timezone.utc)


def read_time(kind: TimeKind, value: Time) -> int:
    """Return a time given as text, number, date or datetime; naive ones are UTC."""
    if isinstance(value, datetime):
        return kind.from_datetime(value if value.tzinfo else value.replace(tzinfo=timezone.utc))
    if isinstance(value, date):
        return kind.time(value.isoformat())
    if isinstance(value, int) and kind.has_wall_clock:
        msg = f"time {value} is a number, and the time columns of this table are {kind.value}s; pass ISO 8601"
        raise UsageError(msg)
    return kind.time(str(value))


class Warehouse:
    """A folder of tables."""

    def __init__(self, settings: Settings, now: Callable[[], datetime] = _utc_now) -> None:
        self.settings = settings
        self.root = check_root(settings.warehouse)
        self.now = now

    @staticmethod
    def open(path: str | Path, settings: Settings | None = None) -> Warehouse:
        """Return the warehouse in a folder; it is made when the first table is."""
        return Warehouse(replace(settings or Settings(), warehouse=Path(path)))

    def __repr__(self) -> str:
        return f"Warehouse({str(self.root)!r})"

    def tables(self) -> list[OpenTable]:
        """Return all tables by name."""
        return [OpenTable(self, table) for table in list_tables(self.root)]

    def table(self, name: str) -> OpenTable:
        """Return a table."""
        return OpenTable(self, find_table(self.root, name))

    def create(self, name: str, **wish: Any) -> OpenTable:
        """Create a table; takes what ``ebb create`` takes, ``key`` as a list of names."""
        spec, _ = declare(Declaration(name=name, **wish))
        return OpenTable(self, create(self.root, spec, self.now()))

    def drop(self, name: str) -> None:
        """Delete a table and its quarantine."""
        table = find_table(self.root, name)
        with table.lock():
            drop_table(table)

    def sql(self, query: str, limit: int | None = None) -> pa.RecordBatchReader:
        """Answer a query without a JVM; every table is a view of its live window."""
        return self.sql_session().answer(query, limit)

    def sql_session(self) -> DuckSession:
        """Return a warm engine without a JVM for many queries; each sees the newest windows."""
        from ebb.warehouse.sql.duckdb import DuckSession

        tables = {table.name: table for table in self.tables()}
        return DuckSession(list(tables), lambda name: tables[name].at_latest())

    def run(
        self,
        *tables: str,
        until: datetime | None = None,
        once: bool = True,
        yes: bool = False,
        wait: float = 0.0,
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
        wait: float = 0.0,
        dry_run: bool = False,
        progress: Callable[[str], None] = lambda _: None,
        batch: Any = None,
    ) -> Context:
        """Return what work on a table needs from outside; ``batch`` is what there is to read."""
        known = sum(file.size_bytes for file in batch) if isinstance(batch, list) else None

        def spark() -> SparkSession:
            return self.spark(work_bytes=known)

        return Context(now=self.now(), wall=self.now, spark=spark, wait=wait, dry_run=dry_run, progress=progress)


def open_warehouse(path: str | Path | None = None) -> Warehouse:
    """Return a warehouse as the commands see it: environment, TOML file and defaults, under what is passed here."""
    return Warehouse(read_settings(warehouse=None if path is None else str(path)))


class OpenTable:
    """One table of a warehouse."""

    def __init__(self, warehouse: Warehouse, table: Table, read_sizes: ReadSizes | None = None) -> None:
        self.warehouse = warehouse
        self.table = table
        self.read_sizes = read_sizes
        self._snapshot: Snapshot | None = None  # the last one that was read
        self._finder: Finder | None = None  # what reading has learnt about the files

    @property
    def name(self) -> str:
        """Return the table's name."""
        return self.table.name

    def _time(self, value: Time | None) -> int | None:
        return None if value is None else read_time(self.table.snapshot().spec.timeline.kind, value)

    def update(
        self,
        batch: str | Path | Sequence[str | Path] | DataFrame | None = None,
        batch_id: int | None = None,  # noqa: ARG002 - what foreachBatch passes; batches are known by their content
        *,
        at: Time | None = None,
        catch_up: bool = False,
        yes: bool = False,
        wait: float = 0.0,
        dry_run: bool = False,
        progress: Callable[[str], None] = lambda _: None,
    ) -> Report:
        """Admit a batch (files or a DataFrame) and expire what is over, in one commit.

        Fits ``foreachBatch`` as it is: each micro-batch is then the next tick.
        """
        found = _batch(batch)
        context = self.warehouse.context(wait=wait, dry_run=dry_run, progress=progress, batch=found)
        return update(self.table, found, context, at=self._time(at), catch_up=catch_up, yes=yes)

    def load(
        self,
        batch: str | Path | Sequence[str | Path] | DataFrame,
        *,
        at: Time | None = None,
        wait: float = 0.0,
        dry_run: bool = False,
        progress: Callable[[str], None] = lambda _: None,
    ) -> Report:
        """Bring in the first records and set the clock."""
        found = _batch(batch) or []
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
        snapshot = self._snapshot = self.table.renewed(known)
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
        landing: str | None = None,
        add_column: str | None = None,
        wait: float = 0.0,
        dry_run: bool = False,
    ) -> tuple[TableSpec, TableSpec]:
        """Change what ``ebb alter`` changes; returns the declaration before and after."""
        return alter(
            self.table,
            now=self.warehouse.now(),
            deletion_bound=deletion_bound,
            quarantine_time=quarantine_time,
            landing=landing,
            add_column=add_column,
            wait=wait,
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

    def status(self) -> dict[str, Any]:
        """Return where the table stands."""
        return status(self.table.snapshot(), self.warehouse.now())

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Return the commits, newest first."""
        return history(self.table.snapshot(), limit)

    def seal(self, *, wait: float = 0.0, dry_run: bool = False) -> dict[str, Any]:
        """Merge the runs of completed groups."""
        with self.table.lock(wait=wait):
            return seal(self.table.snapshot(), self.warehouse.context(dry_run=dry_run))[1]

    def purge(self, *, wait: float = 0.0, dry_run: bool = False) -> dict[str, Any]:
        """Rewrite every file that holds expired records."""
        with self.table.lock(wait=wait):
            return purge(self.table.snapshot(), self.warehouse.context(dry_run=dry_run))[1]

    def erase(self, *, wait: float = 0.0, dry_run: bool = False) -> dict[str, Any]:
        """Delete the files that no version within the readers' time names."""
        with self.table.lock(wait=wait):
            return erase(self.table.snapshot(), now=self.warehouse.now(), dry_run=dry_run)


def _batch(batch: Any) -> Any:
    if batch is None:
        return None
    names = [batch] if isinstance(batch, str | Path) else batch
    if not isinstance(names, Sequence):
        return batch
    found = find_inputs([str(name) for name in names])
    if names and not found:
        where = ", ".join(str(name) for name in names)
        raise UnreadableInputError(where, "there is no file in it", "leave it out if the tick has no batch")
    return found
