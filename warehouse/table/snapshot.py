"""One table on disk: its folder, its log, and what it looked like at one version.

A version is read once with delta-rs and from then on moved forward commit by commit, by reading the log's next entries.
Nothing here starts Spark, and nothing here imports pyarrow: an empty tick should cost no more than it must.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ebb.index.cellfile import CellFile, Removal
from ebb.index.columns import columns_of_delta
from ebb.index.errors import CorruptionError, EngineError, LostHeadError, RolledBackError, UnknownTableError
from ebb.index.foreign import ForeignCommit, refusal
from ebb.index.head import Head, LostHeadWarning
from ebb.index.ledger import Change, Ledger, State
from ebb.warehouse.store.disk import Disk
from ebb.warehouse.store.errors import disk_errors
from ebb.warehouse.store.files import files_below, identity, names_in
from ebb.warehouse.store.lock import Lock, locked
from ebb.warehouse.store.paths import (
    EVIDENCE,
    HIDDEN,
    LOCK,
    LOG,
    QUARANTINE_SUFFIX,
    RANGES,
    STATES,
    entry_name,
    entry_version,
    is_data_file,
)  # fmt: skip
from ebb.warehouse.table.cellfiles import added, check_generations, file_of_add, live_files, removed
from ebb.warehouse.table.commit import append, new_id
from ebb.warehouse.table.delta import delta_errors, metadata_of, open_delta
from ebb.warehouse.table.foreign import (
    check_layout,
    check_protocol,
    check_slots,
    entries_of_others,
    foreign_commits,
    warn_reader,
)
from ebb.warehouse.table.head import check_whole, fits, follows, head_of, read_head, vouched, write_head
from ebb.warehouse.table.log import APP, Action, LogEntry, commit_action
from ebb.warehouse.table.removals import is_removal, removal_by, removals_in
from ebb.warehouse.table.settle import sync_foreign, take_over
from ebb.warehouse.table.spec import VERSION_PROPERTY, TableSpec
from ebb.warehouse.table.states import change_of, read_ledger, stored_ledger, wants_state, write_state

__all__ = ["Snapshot", "Table"]

_READS = 4  # tries to open a table that a writer moves on
_MOST_BEHIND = 64  # commits that are read one by one; if there are more, the table is opened anew


@dataclass(frozen=True, slots=True)
class Table:
    """A table by its place: ``root/name``.  It remembers the newest version it has seen."""

    root: Path
    name: str
    disk: Disk = field(default_factory=Disk, compare=False, repr=False)
    _newest: list[Snapshot] = field(default_factory=list, compare=False, repr=False)  # one at most

    @property
    def folder(self) -> Path:
        """Return the folder of the Delta table."""
        return self.root / self.name

    @property
    def log(self) -> Path:
        """Return the folder of the Delta log."""
        return self.folder / LOG

    @property
    def hidden(self) -> Path:
        """Return the folder for what is not part of the Delta table: the lock, the ledger's states."""
        return self.folder / HIDDEN

    @property
    def states(self) -> Path:
        """Return the folder of the ledger's states."""
        return self.hidden / STATES

    @property
    def ranges(self) -> Path:
        """Return the folder of objects with key ranges."""
        return self.hidden / RANGES

    @property
    def evidence(self) -> Path:
        """Return the folder of the evidence journal."""
        return self.hidden / EVIDENCE

    @property
    def quarantine(self) -> Path:
        """Return the folder of the quarantine; no table can have this name."""
        return self.root / f"{self.name}{QUARANTINE_SUFFIX}"

    def is_there(self) -> bool:
        """Whether there is such a table."""
        with disk_errors(f"table {self.name} in {self.root} cannot be read"):
            return self.log.is_dir()

    @contextmanager
    def lock(self, *, wait: float = 0.0, is_foreign_fine: bool = False) -> Iterator[Lock]:
        """Be the one writer of the table, waiting for another at most ``wait`` seconds.

        Raises FeatureError if this Ebb does not know how to write to the table, and ForeignCommitError if another tool has
        written to it or it is a copy that nobody has confirmed, unless that is said to be fine: here, because nobody
        writes without the lock.
        """
        self._check_present()  # dropped meanwhile: no folder of its name may come back
        with ExitStack() as held:
            try:
                lock = held.enter_context(locked(self.hidden / LOCK, f"table {self.name}", wait=wait))
            finally:
                self._check_present()
            take_over(self, lock)
            if not is_foreign_fine:
                self.snapshot().check_own()
            yield lock

    def _check_present(self) -> None:
        if not self.is_there():
            raise UnknownTableError(self.name, self.root, hint="list_tables")

    def snapshot(self, *, is_rollback_fine: bool = False) -> Snapshot:
        """Pin the newest version: its files, declaration and ledger.

        The first time O(live files); then three small looks if nothing was committed, otherwise O(what was).
        Raises RolledBackError if the log lacks commits that were made, unless that is said to be fine.
        """
        if is_rollback_fine:
            return self._read_newest(is_rollback_fine=True)
        newest = (self._moved(self._newest[0]) if self._newest else None) or self._read_newest()
        self._newest[:] = [newest]
        return newest

    def _read_newest(self, *, is_rollback_fine: bool = False) -> Snapshot:
        """Read the newest version; if a writer was so fast that what it needs is gone meanwhile, the one that is newest then."""
        for _ in range(_READS - 1):
            with suppress(CorruptionError):
                return self._read()
        return self._read(is_rollback_fine=is_rollback_fine)

    def _moved(self, known: Snapshot) -> Snapshot | None:
        """Return the newest version if it can be reached from a known one; None if the table has to be read anew."""
        if known.mark is None or known.unsettled is not None or self._mark(known.version) != known.mark:
            return None
        head = read_head(self.hidden).head  # before the log
        with suppress(CorruptionError):  # what it needs on the way may be gone
            for _ in range(_MOST_BEHIND):
                is_last = not (self.log / entry_name(known.version + 1)).exists()
                if not fits(head, table=known.table_id, version=known.version, entry=known.hash, is_last=is_last):
                    return None
                if is_last:
                    return known
                entry = self.entry(known.version + 1)
                if entry is None or not follows(entry, known.hash):
                    return None
                known = known.after(entry)
        return None

    def _read(self, *, is_rollback_fine: bool = False) -> Snapshot:
        what = f"the log of table {self.name}"
        head = read_head(self.hidden)  # before the log, which only grows
        delta = open_delta(self.folder, what)
        if delta is None:
            raise UnknownTableError(self.name, self.root, hint="list_tables")
        with delta_errors(what, self.folder):
            check_protocol(self.name, delta)
            schema, about, version = delta.schema().to_json(), delta.metadata(), delta.version()
        is_ebbs = VERSION_PROPERTY in about.configuration  # or anybody's, with a log of any length
        newest = self.entry(version) if is_ebbs else None
        others = entries_of_others(self.log, newest)
        check_layout(self.name, self.folder, others, about.configuration)
        # What the files are is known only now: another format may keep other things of them in the log.
        spec = TableSpec.from_properties(self.name, columns_of_delta(schema), about.configuration)
        with delta_errors(what, self.folder):
            files = live_files(delta)
        check_generations(spec, files)
        unsettled = vouched(self.name, self.log, head, table=str(about.id), newest=newest, version=version)
        if isinstance(unsettled, RolledBackError) and not is_rollback_fine:
            raise unsettled
        ledger, state = read_ledger(self.states, self.log, version)
        foreign = foreign_commits(others)
        if not foreign:
            check_slots(files)
        return Snapshot(
            table=self,
            spec=spec,
            version=version,
            files=files,
            ledger=ledger,
            state=state,
            metadata=metadata_of(about, schema),
            foreign=foreign,
            mark=self._mark(version),
            hash=newest.hash if newest else "",
            head=head.head,
            unsettled=unsettled,
        )

    def _mark(self, version: int) -> tuple[int, int] | None:
        """Return what tells a log entry from another one of the same version in a table made anew."""
        return identity(self.log / entry_name(version))

    def entry(self, version: int) -> LogEntry | None:
        """Return one commit; None if there is none, or none any more."""
        return LogEntry.read(self.log, version)

    def entries(self, newest: int) -> Iterator[LogEntry]:
        """Yield the commits from ``newest`` back to the oldest that the log still has."""
        for version in range(newest, -1, -1):
            entry = self.entry(version)
            if entry is None:
                return
            yield entry

    def files_at(self, version: int) -> tuple[CellFile, ...]:
        """Return the files of a version whose commit the log still has.  O(files)."""
        what = f"version {version} in the log of table {self.name}"
        delta = open_delta(self.folder, what, version=version)
        if delta is None:
            raise UnknownTableError(self.name, self.root, hint="list_tables")
        with delta_errors(what, self.folder):
            return live_files(delta)

    def oldest_version(self) -> int:
        """Return the version of the oldest commit that the log still has.  O(commits)."""
        with disk_errors(f"the log of table {self.name} cannot be read"):
            return min((v for v in map(entry_version, names_in(self.log)) if v is not None), default=0)

    def data_files(self) -> Iterator[str]:
        """Yield the relative path of every file that is neither log nor hidden nor beside a data file."""
        return (path for path in self.all_files() if is_data_file(path))

    def all_files(self) -> Iterator[str]:
        """Yield the relative path of every file that is neither log nor hidden."""
        with disk_errors(f"the folder of table {self.name} cannot be read"):
            yield from files_below(self.folder, leave_out=(LOG, HIDDEN))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table at one version."""

    table: Table
    spec: TableSpec
    version: int
    files: tuple[CellFile, ...]
    ledger: Ledger
    state: State | None  # of the ledger, which the next commit builds on
    metadata: Mapping[str, Any]  # as Delta keeps it
    foreign: tuple[ForeignCommit, ...] = ()  # what other tools did since the last commit of Ebb, the oldest first
    mark: tuple[int, int] | None = None  # of its log entry
    hash: str = ""  # of its log entry
    head: Head | None = None  # the head record; None if there is none
    unsettled: RolledBackError | LostHeadError | None = None  # why the head record does not vouch for the log
    _removals: list[Removal] | None = field(default=None, compare=False, repr=False)  # None: not read yet

    @property
    def table_id(self) -> str:
        """Return what tells the table from another one of the same name."""
        return str(self.metadata["id"])

    def check_features(self) -> None:
        """Refuse to write to a table with features that this Ebb does not know."""
        if refused := self.spec.writer_refusal():
            raise refused

    @property
    def write_refusal(self) -> Exception | None:
        """Return why Ebb may not write to the table as it is; None if it may."""
        changed = refusal(self.table.name, self.foreign) if self.foreign else None  # the ledger no longer counts it
        return self.spec.writer_refusal() or self.unsettled or changed or self.spec.unconfirmed

    def check_own(self) -> None:
        """Refuse to write to a table with features that this Ebb does not know, or whose state somebody has to settle."""
        if refused := self.write_refusal:
            raise refused

    def warn_reader(self) -> None:
        """Warn a reader of a table that another tool has written to, or whose head record is lost."""
        warn_reader(self.table.name, self.foreign)
        if self.unsettled is not None:
            warnings.warn(LostHeadWarning(self.unsettled), stacklevel=3)

    def removals(self) -> Sequence[Removal]:
        """Return what was removed from the table and not erased yet, the oldest first."""
        if self._removals is not None:
            return self._removals
        recent = removals_in(self.table.entries(self.version), self.ledger)
        object.__setattr__(self, "_removals", recent)  # a cache: what it says cannot change
        return recent

    def after(self, entry: LogEntry) -> Snapshot:
        """Return the table after the next commit."""
        change, state = change_of(entry.ebb["ledger"], entry.version)
        if state == self.state:
            return self._followed(entry, self.ledger.advanced(change), state)
        return self._followed(entry, *read_ledger(self.table.states, self.table.log, entry.version))

    def _followed(self, entry: LogEntry, ledger: Ledger, state: State | None) -> Snapshot:
        gone, added_files = set(entry.removed), tuple(file_of_add(add) for add in entry.adds)
        check_generations(self.spec, added_files)
        check_slots(added_files)
        files = tuple(file for file in self.files if file.path not in gone) if gone else self.files
        known = None if self.foreign else self._removals  # an adoption tells more about what others removed
        if known is not None:
            known = [removal for removal in known if removal.version > ledger.erased_version]
            known += [removal_by(entry, entry.ebb.get("slot"))] if is_removal(entry) else []
        return replace(
            self,
            version=entry.version,
            files=(*files, *added_files),
            ledger=ledger,
            state=state,
            foreign=(),
            mark=self.table._mark(entry.version),
            hash=entry.hash,
            _removals=known,
        )

    def commit(
        self,
        *,
        adds: Sequence[CellFile],
        removes: Sequence[CellFile],
        change: Change,
        report: Mapping[str, Any],
        data_change: bool,
        now_ms: int,
        metadata: Mapping[str, Any] | None = None,
    ) -> Snapshot:
        """Commit files and what changes in the ledger against this very version; returns the table as it is then.

        Raises ConflictError if anybody has committed since: nothing is planned again here. See :func:`append`.
        ``metadata``: what the table says about itself from then on.
        """
        actions = [added(file, now_ms, data_change=data_change) for file in adds]
        actions += [removed(file, now_ms, data_change=data_change) for file in removes]
        actions += [] if metadata is None else [{"metaData": dict(metadata)}]
        return self._append(actions, change, report, now_ms)

    def commit_metadata(self, metadata: Mapping[str, Any], report: Mapping[str, Any], now_ms: int) -> None:
        """Change what the table says about itself, in one entry against this very version."""
        self._append([{"metaData": dict(metadata)}], Change(clock=self.ledger.clock), report, now_ms)

    def _append(self, actions: Sequence[Action], change: Change, report: Mapping[str, Any], now_ms: int) -> Snapshot:
        if report["op"] == "adopt":
            self.check_features()
        else:
            self.check_own()
            check_whole(self.table.name, self.table.hidden, self.table.log, self.table_id, self.version, self.hash)
        sync_foreign(self.table, self.foreign)
        id, ledger, state, disk = new_id(), self.ledger.advanced(change), self.state, self.table.disk
        if wants_state(state, self.version + 1, change):
            with suppress(OSError):  # without it the commit builds on the state before
                ledger, state = write_state(
                    self.table.states, ledger, self.version + 1, self.spec.remembered_ticks, disk
                )
                change = Change(clock=change.clock)
        ebb = {"id": id, **report, "after": self.hash, "ledger": stored_ledger(state, change)}
        clock: list[Action] = [] if change.clock is None else [{"txn": {"appId": APP, "version": change.clock}}]
        entry = [commit_action(report["op"], ebb, now_ms), *actions, *clock]
        hash = append(self.table.log, self.version + 1, entry, id=id, table=self.table.name, disk=disk)
        made = LogEntry.of(entry, self.version + 1, hash)
        after = replace(self._followed(made, ledger, state), unsettled=None)
        for metadata in (action["metaData"] for action in actions if "metaData" in action):
            columns = columns_of_delta(metadata["schemaString"])
            spec = TableSpec.from_properties(self.table.name, columns, metadata["configuration"])
            after = replace(after, metadata=metadata, spec=spec)
        with suppress(OSError, EngineError):  # the commit is made: follow_up tries again, and tells
            after = after.with_head(made, is_confirmed=report["op"] == "adopt")
        self.table._newest[:] = [after]
        return after

    def with_head(self, entry: LogEntry | None = None, *, is_confirmed: bool = False) -> Snapshot:
        """Write the head record of this version; returns the table with it.  Requires the writer's lock.

        ``entry``: the log entry of this version, read if it is not given. ``is_confirmed``: somebody said that the log is
        whole as it is. What goes wrong comes as OSError or EngineError.
        """
        made, known = entry or self.table.entry(self.version), read_head(self.table.hidden)
        if made is None:
            raise FileNotFoundError(entry_name(self.version))
        before = None if is_confirmed else known.head or self.head
        is_same = before is not None and before.table == self.table_id  # and not of before an adoption
        oldest = before.oldest if before and is_same else self.table.oldest_version()
        head = head_of(made, self.metadata, self.ledger.clock, oldest=oldest)
        return replace(self, head=write_head(self.table.hidden, head, self.table.disk, known), unsettled=None)
