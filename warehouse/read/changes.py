"""What a table admitted, what was amended or forgotten, and what expired, commit by commit, without a JVM.

The log says which files each load or update added; the records in them that were inserted after the clock before are
what it admitted. What expired lies in the files that were live before: the records between the two clocks. Amended
records have files of their own, and of forgotten ones the log says where they were. All are
read as windows are, every byte checked, and a commit's records are counted against what the log says of it. Files that
were removed since stay for the grace period and as long as somebody follows, who holds a lease on its position, or as
long as somebody allowed who had records forgotten. Before the first record of a commit is handed out, every file that it
needs is looked for: a follower that comes too late learns where it can go on, and never gets less.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from ebb.index.cellfile import AMENDED, CellFile
from ebb.index.changes import (
    ADMITTED,
    CHANGE,
    EXPIRED,
    FORGOTTEN,
    SLOT,
    VERSION,
    After,
    AfterSlot,
    AfterVersion,
    Edited,
    Moved,
    Start,
    edited,
    moved,
    token_text,
)
from ebb.index.columns import EXPIRES_SLOT
from ebb.index.errors import CorruptionError, InputError, TooLateError, WarehouseError
from ebb.warehouse.read.answer import Answer
from ebb.warehouse.read.choose import records_at
from ebb.warehouse.read.request import Cost, Read
from ebb.warehouse.read.window import Window
from ebb.warehouse.store.errors import RESTORE, disk_errors
from ebb.warehouse.store.files import is_there
from ebb.warehouse.table.cellfiles import file_of_add, file_of_remove
from ebb.warehouse.table.checkpoint import first_kept
from ebb.warehouse.table.log import LogEntry
from ebb.warehouse.table.snapshot import Snapshot

__all__ = ["Changes", "CommitChanges"]

_HOLD_SECONDS = 1.0  # from one lease to the next, while there is much to catch up with
_WRONG = "the files of a commit do not hold what the log says"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitChanges:
    """What one commit changed.  Its records may be read once."""

    version: int
    slot: int  # the clock after it
    time: str  # of that slot
    admitted: int  # how many records
    expired: int
    amended: int
    forgotten: int
    token: str  # what to go on after, once all of it has been taken in
    records: pa.RecordBatchReader


class Changes:
    """The changes after a position, as an iterator of commits; each is there whole, or the iteration ends in an error.

    Columns are those of when it began. With ``wait`` it waits for new commits for ever: ``wait`` is called when there
    is none.
    """

    def __init__(
        self,
        window: Window,
        since: After,
        *,
        expiries: bool = False,
        columns: Sequence[str] | None = None,
        wait: Callable[[], None] | None = None,
    ) -> None:
        self._window, self._wait = replace(window, lease=None), wait  # the lease is on the position
        self._snapshot = window.snapshot
        self._columns, self._has_expiries = window.names(columns), expiries
        self._live: dict[str, CellFile] | None = None  # the files after the position, if what expires is asked for
        self._lease, self._held = window.lease, 0.0
        self._hold(-1)  # nothing goes while the position is looked for
        self._version = self._asked = self._position(since, self._snapshot)
        self._hold(self._version)
        self._next()  # whoever comes too late learns it before anything is printed

    @property
    def schema(self) -> pa.Schema:
        """Return the columns: what happened, in which version and slot, and the record's own."""
        own = [(CHANGE, pa.string()), (VERSION, pa.int64()), (SLOT, pa.int64())]
        return pa.schema([*(pa.field(*each) for each in own), *self._window.schema(self._columns)])

    @property
    def version(self) -> int:
        """Return the position: the version up to which everything was delivered."""
        return self._version

    @property
    def token(self) -> str:
        """Return the position as a text that fits this table only; a commit counts once the next one is asked for."""
        return token_text(self._snapshot.table_id, self._version)

    def __iter__(self) -> Iterator[CommitChanges]:
        while True:
            if (step := self._next()) is not None:
                entry, found = step
                yield self._changes(found)
                self._move(entry)
                self._asked = self._version
                if time.monotonic() - self._held >= _HOLD_SECONDS:
                    self._hold(self._version)
            elif self._wait is None:
                return
            else:
                self._hold(self._version)
                self._wait()

    def _hold(self, version: int) -> None:
        """Keep what was removed after a position, and no longer what was removed before."""
        if self._lease is not None:
            self._lease = self._lease.at(self._snapshot, version)
        self._held = time.monotonic()

    def _next(self) -> tuple[LogEntry, Moved | Edited] | None:
        """Go on to just before the next commit that changed the window; return it if there is one.

        Raises TooLateError if what it needs is not all there.
        """
        newest = self._newest()
        while self._version < newest.version:
            entry = self._snapshot.table.entry(self._version + 1)
            found = None if entry is None else self._look(entry)
            if entry is None or (found is not None and not self._is_there(found)):
                raise self._too_late(newest)
            if found is not None:
                return entry, found
            self._move(entry)
        return None

    def reader(self) -> pa.RecordBatchReader:
        """Stream the records of all commits."""
        batches = (batch for commit in self for batch in commit.records)
        return pa.RecordBatchReader.from_batches(self.schema, batches)

    def _newest(self) -> Snapshot:
        newest = self._snapshot.table.snapshot()
        if newest.table_id != self._snapshot.table_id:
            msg = f"table {newest.table.name} was dropped and created again while it was followed"
            raise InputError(msg, "follow the new one from its start", hint="from_start")
        return newest

    def _position(self, since: After, newest: Snapshot) -> int:
        """Return the version that a position stands for."""
        name, clock = newest.table.name, newest.ledger.clock
        match since:
            case Start():
                return self._oldest(newest)
            case AfterVersion(version, table):
                if table is not None and token_text(newest.table_id, version) != token_text(table, version):
                    msg = f"the token is of another table, or of one called {name} that was dropped since"
                    raise InputError(msg, "follow this one from its start", hint="from_start")
                if version > newest.version:
                    msg = f"version {version} is after the newest version {newest.version} of table {name}"
                    raise InputError(msg, "choose an earlier one")
                return version
            case AfterSlot(slot):
                if clock is None or slot > clock:
                    line = newest.spec.timeline
                    at = "it has no clock yet" if clock is None else f"its clock is at {clock}, {line.show_slot(clock)}"
                    msg = f"slot {slot} ({line.show_slot(slot)}) of table {name} has not come: {at}"
                    raise InputError(msg, "choose an earlier one, or a version")
                return self._version_at(slot, newest)

    def _version_at(self, slot: int, newest: Snapshot) -> int:
        """Return the last version whose clock is not after a slot.  O(log commits)."""
        table = newest.table
        oldest = table.oldest_version()

        def is_after(version: int) -> bool:
            clock = next((e.ebb.get("slot") for e in table.entries(version) if e.id is not None), None)
            return clock is not None and clock > slot

        first = first_kept(list(range(oldest, newest.version + 1)), is_after)
        entry = table.entry(first) if first == oldest else None
        if entry is not None and oldest > 0:  # those before it may be after the slot, too
            step = moved(first, entry.ebb, ())
            if step is None or (step.before is not None and step.before > slot):
                raise self._late(oldest - 1, newest)
        return first - 1

    def _look(self, entry: LogEntry) -> Moved | Edited | None:
        """Return what the next commit means."""
        if self._has_expiries and self._live is None:
            self._live = self._files_at(self._version)
        return _meant(entry, () if self._live is None else self._live.values())

    def _files_at(self, version: int) -> dict[str, CellFile]:
        table = self._snapshot.table
        oldest = table.oldest_version()
        if version < 0 or (oldest == 0 and version == 0):
            return {}
        if version < oldest:
            raise self._too_late(self._newest())
        try:
            return {file.path: file for file in table.files_at(version)}
        except WarehouseError:
            if version < table.oldest_version():  # it left the log just now
                raise self._too_late(self._newest()) from None
            raise

    def _move(self, entry: LogEntry) -> None:
        """Go on to the next commit."""
        self._version = entry.version
        if self._live is not None:
            _follow(self._live, entry)

    def _is_there(self, found: Moved | Edited) -> bool:
        """Whether all files of a commit are there; CorruptionError if one is lost that is still part of the table."""
        table = self._snapshot.table
        with disk_errors(f"the folder of table {table.name} cannot be read"):
            missing = {file.path for file in found.files if not is_there(table.folder / file.path)}
        if lost := missing.intersection(file.path for file in table.snapshot().files) if missing else ():
            raise CorruptionError("a data file is missing", min(lost), RESTORE)
        return not missing

    def _oldest(self, newest: Snapshot) -> int:
        """Return the oldest version after which everything is there.  Reads the whole log."""
        table = newest.table
        oldest = table.oldest_version()
        missing = max(0, oldest if self._has_expiries else oldest - 1)
        live = {f.path: f for f in table.files_at(missing)} if self._has_expiries and missing else {}
        for version in range(missing + 1, newest.version + 1):
            entry = table.entry(version)
            if entry is None:
                missing = version
                continue
            found = _meant(entry, live.values())
            if found is not None and not self._is_there(found):
                missing = version
            if self._has_expiries:
                _follow(live, entry)
        return missing

    def _too_late(self, newest: Snapshot) -> TooLateError:
        return self._late(self._asked, newest)

    def _late(self, version: int, newest: Snapshot) -> TooLateError:
        return TooLateError(newest.table.name, version, self._oldest(newest), self._has_expiries)

    def _changes(self, found: Moved | Edited) -> CommitChanges:
        records = self._records(found) if isinstance(found, Moved) else self._edits(found)
        batches = (batch for table in records for batch in table.to_batches())
        counts = dict.fromkeys((ADMITTED, EXPIRED, AMENDED, FORGOTTEN), 0)
        if isinstance(found, Edited):
            counts[found.change] = found.records
        else:
            counts |= {ADMITTED: found.admitted, EXPIRED: found.expired if self._has_expiries else 0}
        return CommitChanges(
            version=found.version,
            slot=found.slot,
            time=self._snapshot.spec.timeline.show_slot(found.slot),
            **counts,
            token=token_text(self._snapshot.table_id, found.version),
            records=pa.RecordBatchReader.from_batches(self.schema, batches),
        )

    def _edits(self, found: Edited) -> Iterator[pa.Table]:
        """Yield the records that a commit changed."""
        count = 0
        with self._missing_files(found):
            if found.change == AMENDED:
                tables = self._answer(Read(self._columns), found.slot).scan(found.files)
            else:
                read = (records_at(self._window, f, found.places[f.path], self._columns) for f in found.files)
                tables = (table.filter(pc.greater(table[EXPIRES_SLOT], found.slot)) for some in read for table in some)
            for table in tables:
                count += table.num_rows
                if table.num_rows:
                    yield self._marked(table, found.change, found.version, found.slot)
        if count != found.records:
            facts = f"version {found.version}: {count} records {found.change} instead of {found.records}"
            raise CorruptionError(_WRONG, facts, "restore the table")

    def _records(self, found: Moved) -> Iterator[pa.Table]:
        """Yield what expired, then what was admitted: a key may do both, and then the new record is the one that stays."""
        expired = admitted = 0
        with self._missing_files(found):
            if found.before is not None:
                request = Read(self._columns, with_marks=True)
                for table in self._answer(request, found.before).scan(found.expiring):
                    over = table.filter(pc.less_equal(table[EXPIRES_SLOT], found.slot))
                    expired += over.num_rows
                    if over.num_rows:
                        yield self._marked(over, EXPIRED, found.version, over[EXPIRES_SLOT])
            request = Read(self._columns, after=found.before)
            for table in self._answer(request, found.slot).scan(found.adding):
                admitted += table.num_rows
                yield self._marked(table, ADMITTED, found.version, found.slot)
        wanted = (found.admitted, found.expired if self._has_expiries else 0)
        if (admitted, expired) != wanted:
            facts = f"version {found.version}: {admitted} records admitted and {expired} expired instead of {wanted[0]} and {wanted[1]}"
            raise CorruptionError(_WRONG, facts, "restore the table")

    def _answer(self, request: Read, clock: int) -> Answer:
        return Answer(self._snapshot, self._window.finder, request, clock=clock, as_of=None, cost=Cost())

    def _marked(self, table: pa.Table, change: str, version: int, slot: pa.ChunkedArray | int) -> pa.Table:
        count = table.num_rows
        slots = pa.repeat(pa.scalar(slot, pa.int64()), count) if isinstance(slot, int) else slot
        marks = [pa.repeat(change, count), pa.repeat(pa.scalar(version, pa.int64()), count), slots]
        return pa.table([*marks, *table.select(self._columns).columns], schema=self.schema)

    @contextmanager
    def _missing_files(self, found: Moved | Edited) -> Iterator[None]:
        """Tell a file that was erased while it was being read from one that is damaged."""
        try:
            yield
        except WarehouseError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                self._is_there(found)  # or one that is lost
                raise self._too_late(self._newest()) from error
            raise


def _meant(entry: LogEntry, live: Iterable[CellFile]) -> Moved | Edited | None:
    """Return what a commit means to a follower; None if it tells nothing.  ``live``: the files before it."""
    adds = [file_of_add(add) for add in entry.adds]
    return moved(entry.version, entry.ebb, adds, live) or edited(
        entry.version, entry.ebb, adds, map(file_of_remove, entry.removes)
    )


def _follow(live: dict[str, CellFile], entry: LogEntry) -> None:
    """Bring files up to a commit."""
    for path in entry.removed:
        live.pop(path, None)
    live.update((file.path, file) for file in map(file_of_add, entry.adds))
