"""One table from Python: what the commands do, for ``ebb.open("path").table("flights")``.

Times may be given as text, as numbers for integer columns, or as ``datetime`` and ``date``; records come back as Arrow.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

from ebb.index.changes import After, AfterSlot, parse_since
from ebb.index.errors import UsageError, WarehouseError
from ebb.index.timeline import TimeKind
from ebb.maintenance.api.backups import BackedUp
from ebb.maintenance.api.records import RecordChanges
from ebb.maintenance.api.soundness import Soundness
from ebb.maintenance.declare import Description, described
from ebb.maintenance.define import Altered, alter
from ebb.maintenance.inspect.explain import Explanation, explain
from ebb.maintenance.inspect.history import Commit, history
from ebb.maintenance.inspect.quarantined import Quarantine, quarantined
from ebb.maintenance.inspect.status import Status, status
from ebb.maintenance.inspect.watch import Limits, watch
from ebb.maintenance.retry import Cleared, clear, retry
from ebb.maintenance.update import Report, load, update
from ebb.maintenance.upkeep import Erasure, Upkeep, erase_and_record, purge, seal
from ebb.maintenance.values import Duration, Time, Wait, is_now, read_seconds, read_time
from ebb.warehouse.intake.batch import Batch, BatchLike, batch_of
from ebb.warehouse.settings import check_engine
from ebb.warehouse.table.leases import own_leases
from ebb.warehouse.table.snapshot import Snapshot, Table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from ebb.maintenance.inspect.proof import Evidence, Verified
    from ebb.maintenance.inspect.publish import Published
    from ebb.warehouse.parquet.sizes import ReadSizes
    from ebb.warehouse.read.changes import Changes
    from ebb.warehouse.read.finder import Finder
    from ebb.warehouse.read.latest import LatestWindow
    from ebb.warehouse.read.window import Window


if TYPE_CHECKING:
    from ebb.maintenance.api.warehouse import Warehouse

__all__ = ["OpenTable"]

_LOOK_SECONDS = 0.5  # between two looks at the log of a table that is followed


class OpenTable(BackedUp, RecordChanges, Soundness):
    """One table of a warehouse.

    >>> import ebb, pyarrow, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     times = {"inserted": "came", "expires": "until", "tick": 10, "span": 120}
    ...     cars = ebb.open(folder).create("cars", schema="plate STRING, came INT, until INT", key="plate", **times)
    ...     batch = pyarrow.table({"plate": ["K-77", "B-12", None], "came": [1, 4, 5], "until": [70, 25, 30]})
    ...     report = cars.update(batch, at=10)
    ...     print(report.admitted, report.quarantined, cars.update(batch).already_applied)
    ...     print(cars.probe("K-77")["until"].to_pylist(), cars.scan(where="until < 50").read_all().num_rows)
    ...     print(cars.quarantine().reasons, cars.update(at=30, catch_up=True).expired, cars.status().clock_time)
    ...     print(cars.alter(deletion_bound=60).after.deletion_bound, cars.explain().slot, cars.at_latest())
    2 1 True
    [70] 1
    {'key plate is null': 1} 1 30
    60 4 <Window of 'cars' at 30, version 4>
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
        batch_id: int | None = None,
        *,
        at: Time | None = None,
        catch_up: bool = False,
        yes: bool = False,
        allow_repeats: bool = False,
        inputs: Mapping[str, Any] | None = None,
        engine: str | None = None,
        wait: Wait = None,
        dry_run: bool = False,
        progress: Callable[[str], None] = lambda _: None,
    ) -> Report:
        """Admit a batch and let go what has expired, in one moment: a commit that moves the clock.

        A batch is paths of files, a Spark DataFrame, or Arrow data: an Arrow table or reader, a frame of pandas or
        polars, a DuckDB relation. Arrow data needs no JVM. ``engine`` says who reads files: ``spark``, ``direct`` (no
        JVM) or ``auto`` (direct up to 64 MB); by default what the settings say. Fits ``foreachBatch`` as it is: each
        micro-batch is then the next tick. Batches are known by their content; with a ``batch_id`` one that has expired as a
        whole is a warning in the report and no error, because Spark would send it again for ever.

        A batch that was applied before, and files of it that were, are left out and reported as repeats, unless
        ``allow_repeats``. ``inputs``: what is otherwise in this batch than in the table's rules for batches, for example
        ``{"extra": "ignore", "rename": {"Event Time": "event_time"}}``.
        """
        found = self._batch(batch, engine)
        context = self.warehouse.context(wait=wait, dry_run=dry_run, progress=progress, batch=found)
        return update(
            self.table,
            found,
            context,
            at=self._time(at),
            catch_up=catch_up,
            yes=yes,
            allow_repeats=allow_repeats,
            inputs=inputs,
            is_sent_again=batch_id is not None,
        )

    def load(
        self,
        batch: BatchLike,
        *,
        at: Time | None = None,
        yes: bool = False,
        inputs: Mapping[str, Any] | None = None,
        engine: str | None = None,
        wait: Wait = None,
        dry_run: bool = False,
        progress: Callable[[str], None] = lambda _: None,
    ) -> Report:
        """Bring in the first records and set the clock; a batch, its engine and its rules are as in :meth:`update`."""
        found = self._batch(batch, engine)
        context = self.warehouse.context(wait=wait, dry_run=dry_run, progress=progress, batch=found)
        return load(self.table, found, context, at=self._time(at), yes=yes, inputs=inputs)

    def at_latest(self, as_of: Time | None = None) -> Window:
        """Pin the newest version; everything read from it belongs to one window.

        ``as_of``: hide what has expired at this moment, which is not before the clock; ``"now"`` is the present, or
        the clock if that is later. What the table knows about its files is kept, so that the next window answers at once.
        """
        from ebb.warehouse.read.finder import Finder
        from ebb.warehouse.read.window import Window

        known = self._snapshot
        snapshot, lease = own_leases().pinned(self.table, self.warehouse.purpose, self.warehouse.now)
        self._snapshot = snapshot
        snapshot.warn_reader()
        if self._finder is None or known is None or known.table_id != snapshot.table_id:
            self._finder = Finder(
                str(self.table.folder), [snapshot.spec.column(name) for name in snapshot.spec.key], self.read_sizes
            )
        return self.at_moment(Window(snapshot, self._finder, lease), as_of)

    def at_moment(self, window: Window, as_of: Time | None) -> Window:
        """Return a window of the same version at another moment."""
        kind = window.snapshot.spec.timeline.kind
        if not is_now(as_of):
            return replace(window, as_of=self._moment(kind, as_of), follows_clock=False)
        if not kind.has_wall_clock:
            msg = (
                f"time 'now' is for timestamps and dates, and table {self.name} counts time in integers; pass a number"
            )
            raise UsageError(msg)
        return replace(window, as_of=kind.from_datetime(self.warehouse.now()), follows_clock=True)

    def _moment(self, kind: TimeKind, as_of: Time | None) -> int | None:
        try:
            return None if as_of is None else read_time(kind, as_of)
        except UsageError as error:  # a query may be about many tables
            msg = f"table {self.name}: {error}"
            raise UsageError(msg) from error

    def up_to_date(self, as_of: Time | None = None) -> LatestWindow:
        """Return a window that moves on while it is read: each read reflects every update committed before it commits."""
        from ebb.warehouse.read.latest import LatestWindow

        first = self.at_latest(as_of)
        return LatestWindow(
            first.snapshot, first.finder, first.lease, first.as_of, first.follows_clock, first.cost, reopen=first.newest
        )

    def alter(
        self,
        *,
        deletion_bound: Duration | None = None,
        quarantine_time: Duration | None = None,
        log_retention: Duration | None = None,
        remember: Duration | None = None,
        landing: str | None = None,
        group: str | None = None,
        label: str | None = None,
        add_column: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        evidence_retention: Duration | None = None,
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
            remember=remember,
            landing=landing,
            group=group,
            label=label,
            add_column=add_column,
            inputs=inputs,
            evidence_retention=evidence_retention,
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

    def changes(
        self,
        since: Time,
        *,
        expiries: bool = False,
        follow: bool = False,
        columns: Sequence[str] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Changes:
        """Return what was admitted after a position, and what expired if asked for, commit by commit, each record once.

        ``since``: a version as a number; a time as ``datetime``, ``date`` or text, which stands for the last tick over
        then; ``"slot:5"``; the token of a commit; or ``"start"`` for everything that is still there. ``follow``: wait for
        new commits, for ever.
        """
        from ebb.warehouse.read.changes import Changes

        window = self.at_latest()
        line = window.snapshot.spec.timeline
        if isinstance(since, date):
            after: After = AfterSlot(line.clock_at(read_time(line.kind, since)))
        else:
            after = parse_since(str(since), line)
        wait = (lambda: sleep(_LOOK_SECONDS)) if follow else None
        return Changes(window, after, expiries=expiries, columns=columns, wait=wait)

    def describe(self) -> Description:
        """Return how the table was declared, with every default filled in."""
        return Description(**described(self.table.snapshot().spec))

    def status(self) -> Status:
        """Return where the table stands: clock, size, cells, deletion bound, last update."""
        return status(self.table.snapshot(), self.warehouse.now())

    def findings(self, limits: Limits | None = None) -> tuple[WarehouseError, ...]:
        """Return what somebody has to look after now, or soon, as limits say; nobody raises them."""
        return watch(self.status(), Limits() if limits is None else limits)

    def evidence(self, since: Time | None = None, until: Time | None = None) -> Evidence:
        """Return what proves what was deleted when, of the ticks that end after ``since`` and not after ``until``."""
        from ebb.maintenance.inspect.proof import evidence

        return evidence(self.table.snapshot(), self.warehouse.now(), since=self._time(since), until=self._time(until))

    def verify_evidence(self, report: bytes) -> Verified:
        """Compare a report, as JSON, with the evidence journal and the log; CorruptionError says where they differ."""
        from ebb.maintenance.inspect.proof import agrees, read_report

        return agrees(read_report(report), self.table.snapshot())

    def history(self, limit: int | None = None) -> tuple[Commit, ...]:
        """Return the commits, newest first."""
        return history(self.table.snapshot(), limit)

    def oldest_version(self) -> int:
        """Return the version of the oldest commit that the log still has."""
        return self.table.oldest_version()

    def explain(self) -> Explanation:
        """Return the plan of the next update, as far as it can be told without its batch."""
        return explain(self.table.snapshot(), self.warehouse.now())

    def window_sql(self, *, lasting: bool = False) -> str:
        """Return the query that shows the live window to any engine that reads Delta tables by path.

        It pins a version and its clock. A ``lasting`` one reads the newest version and hides what has expired by the
        engine's own clock, so it stays true while the table is updated; tables of integer times have none.
        """
        from ebb.warehouse.sql.spark import lasting_sql, window_sql

        snapshot = self.table.snapshot()
        snapshot.warn_reader()
        return (lasting_sql if lasting else window_sql)(snapshot)

    def publish(
        self,
        spark: SparkSession | None = None,
        *,
        view: str | None = None,
        database: str | None = None,
        dry_run: bool = False,
    ) -> Published:
        """Create or replace a view with the lasting query in Spark's catalog, which must outlive the session.

        ``spark``: a session with Delta's jars; by default that of this process. The view has the table's name unless
        another is given.
        """
        from ebb.maintenance.inspect.publish import publish

        def session() -> SparkSession:
            return self.warehouse.spark(delta=True) if spark is None else spark

        return publish(self.table.snapshot(), session, view=view, database=database, dry_run=dry_run)

    def quarantine(self, reason: str | None = None) -> Quarantine:
        """Return the refused records: all, or those whose reason holds a text."""
        return quarantined(self.table.snapshot(), reason)

    def retry_quarantine(
        self, *, reason: str | None = None, at: Time | None = None, wait: Wait = None, dry_run: bool = False
    ) -> Report:
        """Apply the refused records that are fine now, as an update; those that are not stay in quarantine."""
        return retry(self.table, self.warehouse.context(wait=wait, dry_run=dry_run), reason=reason, at=self._time(at))

    def clear_quarantine(self, *, reason: str | None = None, wait: Wait = None, dry_run: bool = False) -> Cleared:
        """Remove refused records: all, or those whose reason holds a text."""
        return clear(self.table, self.warehouse.context(wait=wait, dry_run=dry_run), reason=reason)

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
