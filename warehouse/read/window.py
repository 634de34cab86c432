"""One window of one table, without a JVM: pinned files, read with Arrow, expired records hidden.

A window is a snapshot at its clock, or at a later moment ``as_of`` for which records are hidden by their exact
expiration time. A moment that ``follows_clock``, as the present does, is the clock where the clock is later. Answers are streamed and may be larger than memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from ebb.index.cellfile import CellFile
from ebb.index.errors import CorruptionError, InputError, UsageError, WarehouseError
from ebb.index.keys import Wanted, wanted_keys, wanted_prefix, wanted_range
from ebb.index.predicate.syntax import Predicate, parse_predicate
from ebb.index.predicate.typed import check
from ebb.warehouse.parquet.arrow import arrow_schema
from ebb.warehouse.read.answer import Answer
from ebb.warehouse.read.finder import Finder
from ebb.warehouse.read.key_values import key_value, key_values
from ebb.warehouse.read.request import Cost, Read
from ebb.warehouse.store.errors import memory_errors
from ebb.warehouse.table.leases import HeldLease
from ebb.warehouse.table.snapshot import Snapshot

__all__ = ["Window"]


@dataclass(frozen=True, repr=False)
class Window:
    """One window of one table.  Every method sees the same records, whatever is committed meanwhile."""

    snapshot: Snapshot
    finder: Finder
    lease: HeldLease | None = field(default=None, compare=False)  # None under the writer's lock: nobody erases then
    as_of: int | None = None
    follows_clock: bool = False
    cost: Cost = field(default_factory=Cost, compare=False)  # of everything that was read through it

    def __post_init__(self) -> None:
        line = self.snapshot.spec.timeline
        if self.moment is not None and self.clock is not None and self.moment < line.end_of(self.clock):
            shown = line.kind.show_time(self.moment)
            clock = f"the clock {line.show_slot(self.clock)} of table {self.snapshot.table.name}"
            msg = f"time {shown} is before {clock}; what expired until then is gone, choose a later time"
            raise InputError(msg)

    def __repr__(self) -> str:
        clock, name = self.clock, self.snapshot.table.name
        shown = "empty" if clock is None else f"at {self.snapshot.spec.timeline.show_slot(clock)}"
        return f"<{type(self).__name__} of {name!r} {shown}, version {self.version}>"

    @property
    def clock(self) -> int | None:
        """Return the slot up to which the table had been updated; None before the first update."""
        return self.snapshot.ledger.clock

    @property
    def moment(self) -> int | None:
        """Return the moment at which records that have expired are hidden; None for the clock."""
        if self.as_of is None or not self.follows_clock or self.clock is None:
            return self.as_of
        return max(self.as_of, self.snapshot.spec.timeline.end_of(self.clock))

    @property
    def version(self) -> int:
        """Return the version of the Delta table that is pinned."""
        return self.snapshot.version

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        return tuple(column.name for column in self.snapshot.spec.columns)

    def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the Arrow schema of the columns, or of some of them."""
        whole = arrow_schema(self.snapshot.spec.columns)
        return pa.schema([whole.field(name) for name in self.names(columns)])

    def probe(
        self,
        *keys: Any,
        low: Any = None,
        high: Any = None,
        prefix: Any = None,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Return the records of some keys, of the keys from ``low`` to ``high``, or of those that start with ``prefix``.

        A composite key is a tuple; its leading parts alone stand for all keys that they lead. Ordered by key, then
        expiration.
        """
        if not keys and low is None and high is None and prefix is None:
            msg = "a probe without a key asks for nothing; pass keys, or low and high, or a prefix, or use scan for all records"
            raise UsageError(msg)
        return self.read(self.wanted(keys, low, high, prefix), columns).read_all()

    def wanted(self, keys: Sequence[Any], low: Any = None, high: Any = None, prefix: Any = None) -> Wanted:
        """Check what a probe asks for against the key's columns."""
        if sum([bool(keys), low is not None or high is not None, prefix is not None]) > 1:
            msg = "a probe takes keys, or low and high, or a prefix; pass one of them"
            raise UsageError(msg)
        key = [self.snapshot.spec.column(name) for name in self.snapshot.spec.key]
        if prefix is not None:
            start = key_value(key, prefix)
            if key[len(start) - 1].type not in ("string", "binary"):
                kinds = ", ".join(f"{column.name} {column.type}" for column in key)
                msg = f"prefix {','.join(map(str, start))} must end in a part of a text or binary column; the key is {kinds}"
                raise UsageError(msg)
            return wanted_prefix(start)
        if low is not None or high is not None:
            ends = [None if end is None else key_value(key, end) for end in (low, high)]
            return wanted_range(ends[0], ends[1])
        return wanted_keys(key_values(key, keys))

    def read(self, wanted: Wanted, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """Stream the records of what is wanted, ordered by key, then expiration."""
        return self._reader(Read(self.names(columns), wanted=wanted))

    def scan(self, columns: Sequence[str] | None = None, where: str | None = None) -> pa.RecordBatchReader:
        """Stream the records of the window in no particular order; ``where`` as in ``ebb scan --where``."""
        return self._reader(Read(self.names(columns), where=self.predicate(where)))

    def predicate(self, where: str | None) -> Predicate | None:
        """Read a predicate and check it against the columns."""
        if where is None:
            return None
        if not isinstance(where, str):
            msg = f"condition {where!r} is not a text; pass it like 'delay > 10'"
            raise UsageError(msg)
        if not where.strip():  # most probably a variable that was not set: it does not mean every record
            msg = "the condition is empty; write one like 'delay > 10', or leave it out for all records"
            raise UsageError(msg)
        predicate = parse_predicate(where)
        check(predicate, self.snapshot.spec.columns)
        return predicate

    def names(self, columns: Sequence[str] | None) -> tuple[str, ...]:
        """Return the names of the columns to read: all, or these if the table has them."""
        if columns is None:
            return self.columns
        if isinstance(columns, str) or not columns or len(set(columns)) < len(columns):
            msg = f"columns {columns!r} is not a list of different names; pass it like ['a', 'b']"
            raise UsageError(msg)
        return tuple(self.snapshot.spec.column(name).name for name in columns)

    def _reader(self, request: Read) -> pa.RecordBatchReader:
        self.cost.version, self.cost.clock = self.version, self.clock
        return self.counted(request, self.tables(request))

    def counted(self, request: Read, tables: Iterable[pa.Table]) -> pa.RecordBatchReader:
        """Stream tables and count what passes."""

        def batches() -> Iterator[pa.RecordBatch]:
            for table in tables:
                self.cost.records += table.num_rows
                self.cost.bytes_returned += table.nbytes
                yield from table.to_batches()

        return pa.RecordBatchReader.from_batches(self.schema(request.columns), batches())

    def tables(self, request: Read, files: Sequence[CellFile] | None = None) -> Iterator[pa.Table]:
        """Yield what is asked for, of all visible files or of these."""
        live = self.visible_files() if files is None else files
        if self.clock is None or not live:
            return
        self.cost.files += len(live)
        answer = Answer(self.snapshot, self.finder, request, clock=self.clock, as_of=self.moment, cost=self.cost)
        with self.reading(), memory_errors("the read failed"):
            yield from answer.probe(live, request.wanted) if request.wanted is not None else answer.scan(live)

    def newest(self) -> Window:
        """Return the newest window, at the same moment."""
        if self.lease is None:
            return replace(self, snapshot=self.snapshot.table.snapshot())
        snapshot, lease = self.lease.newest()
        return replace(self, snapshot=snapshot, lease=lease)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Tell a file that was erased while its version was read from one that is lost."""
        try:
            yield
        except CorruptionError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise self._why_gone(error.__cause__.filename) or error from error.__cause__
            raise

    def _why_gone(self, file: str) -> WarehouseError | None:
        newest = self.snapshot.table.snapshot()
        is_live = file.removeprefix(f"{self.finder.table}/") in {live.path for live in newest.files}
        return None if is_live or self.lease is None else self.lease.why_erased(self.version)

    def visible_files(self) -> list[CellFile]:
        """Return the files with records that may be visible."""
        return [] if self.clock is None else [f for f in self.snapshot.files if not f.is_dead(self.clock)]
