"""One table on disk: its folder, its log, and what it looked like at one version.

The newest version is read with delta-rs; single commits are read, and all are written, as the JSON lines that they
are. Nothing here starts Spark, and nothing here imports pyarrow: an empty tick should cost no more than it must.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ebb.index.cellfile import CellFile
from ebb.index.columns import EXPIRES_SLOT, INSERTED_SLOT, columns_of_delta
from ebb.index.errors import CorruptionError, UnknownTableError
from ebb.index.grid import Cell
from ebb.index.ledger import Ledger
from ebb.warehouse.store.errors import disk_errors
from ebb.warehouse.store.files import files_below, identity
from ebb.warehouse.store.lock import locked
from ebb.warehouse.store.paths import HIDDEN, LOG, QUARANTINE_SUFFIX, entry_name, inside, is_data_file
from ebb.warehouse.table.commit import append, new_id
from ebb.warehouse.table.delta import delta_errors, open_delta
from ebb.warehouse.table.log import APP, Action, LogEntry, add_action, commit_action, remove_action
from ebb.warehouse.table.spec import TableSpec

if TYPE_CHECKING:
    from deltalake import DeltaTable

__all__ = ["Snapshot", "Table"]


@dataclass(frozen=True, slots=True)
class Table:
    """A table by its place: ``root/name``."""

    root: Path
    name: str

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
        """Return the folder for what is not part of the Delta table: the lock."""
        return self.folder / HIDDEN

    @property
    def quarantine(self) -> Path:
        """Return the folder of the quarantine; no table can have this name."""
        return self.root / f"{self.name}{QUARANTINE_SUFFIX}"

    def is_there(self) -> bool:
        """Whether there is such a table."""
        with disk_errors(f"table {self.name} in {self.root} cannot be read"):
            return self.log.is_dir()

    @contextmanager
    def lock(self, *, wait: float = 0.0) -> Iterator[None]:
        """Be the one writer of the table, waiting for another at most ``wait`` seconds."""
        if not self.is_there():  # dropped meanwhile: no folder of its name may come back
            raise UnknownTableError(self.name, self.root, "run ebb status to see the tables")
        with locked(self.hidden / "lock", f"table {self.name}", wait=wait):
            if not self.is_there():
                raise UnknownTableError(self.name, self.root, "run ebb status to see the tables")
            yield

    def snapshot(self) -> Snapshot:
        """Pin the newest version: its files, declaration and ledger.  O(live files)."""
        what = f"the log of table {self.name}"
        delta = open_delta(self.folder, what)
        if delta is None:
            raise UnknownTableError(self.name, self.root, "run ebb status to see the tables")
        with delta_errors(what, self.folder):
            schema, about, files = delta.schema().to_json(), delta.metadata(), _files(delta)
        metadata = {
            "id": str(about.id),
            "name": about.name,
            "description": about.description,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema,
            "partitionColumns": about.partition_columns,
            "createdTime": about.created_time,
            "configuration": about.configuration,
        }
        version = delta.version()
        return Snapshot(
            table=self,
            spec=TableSpec.from_properties(self.name, columns_of_delta(schema), about.configuration),
            version=version,
            files=files,
            ledger=self._ledger(delta, version),
            metadata=metadata,
            mark=self._mark(version),
        )

    def renewed(self, known: Snapshot | None) -> Snapshot:
        """Return a known snapshot if it is still the newest, which takes two looks at the log; otherwise the newest."""
        return known if known is not None and self._is_newest(known) else self.snapshot()

    def _is_newest(self, known: Snapshot) -> bool:
        is_same = known.mark is not None and self._mark(known.version) == known.mark
        return is_same and self._mark(known.version + 1) is None

    def _mark(self, version: int) -> tuple[int, int] | None:
        """Return what tells a log entry from another one of the same version in a table made anew."""
        return identity(self.log / entry_name(version))

    def _ledger(self, delta: DeltaTable, version: int) -> Ledger:
        for entry in self.entries(version):
            if "ledger" in entry.ebb:
                return Ledger.loads(entry.ebb["ledger"])
        clock = delta.transaction_version(APP)
        where = f"no commit of Ebb is left in the log of table {self.name} (clock {clock})"
        raise CorruptionError("the ledger is missing", where, "restore the log from a backup")

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

    def data_files(self) -> Iterator[str]:
        """Yield the relative path of every file that is neither log nor hidden nor beside a data file."""
        return (path for path in self.all_files() if is_data_file(path))

    def side_files(self) -> Iterator[str]:
        """Yield the relative path of what the directory keeps beside data files."""
        return (path for path in self.all_files() if not is_data_file(path))

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
    metadata: Mapping[str, Any]  # as Delta keeps it
    mark: tuple[int, int] | None = None  # of its log entry

    @property
    def table_id(self) -> str:
        """Return what tells the table from another one of the same name."""
        return str(self.metadata["id"])

    def commit(
        self,
        *,
        adds: Sequence[CellFile],
        removes: Sequence[CellFile],
        ledger: Ledger,
        report: Mapping[str, Any],
        data_change: bool,
        now_ms: int,
    ) -> Snapshot:
        """Commit files and ledger in one entry against this very version, and return what the table looks like then.

        Raises ConflictError if anybody has committed since: nothing is planned again here. See :func:`append`.
        """
        actions = [
            add_action(
                f.path, f.size_bytes, _values(f.cell), now_ms, data_change=data_change, statistics=_statistics(f)
            )
            for f in adds
        ]
        actions += [
            remove_action(f.path, f.size_bytes, _values(f.cell), now_ms, data_change=data_change) for f in removes
        ]
        self._append(actions, ledger, report, now_ms)
        gone = {f.path for f in removes}
        return replace(
            self,
            version=self.version + 1,
            files=(*(f for f in self.files if f.path not in gone), *adds),
            ledger=ledger,
            mark=self.table._mark(self.version + 1),
        )

    def commit_metadata(self, metadata: Mapping[str, Any], report: Mapping[str, Any], now_ms: int) -> None:
        """Change what the table says about itself, in one entry against this very version."""
        self._append([{"metaData": dict(metadata)}], self.ledger, report, now_ms)

    def _append(self, actions: Sequence[Action], ledger: Ledger, report: Mapping[str, Any], now_ms: int) -> None:
        id = new_id()
        ebb = {"id": id, **report, "ledger": ledger.dumps()}
        clock: list[Action] = [] if ledger.clock is None else [{"txn": {"appId": APP, "version": ledger.clock}}]
        entry = [commit_action(report["op"], ebb, now_ms), *actions, *clock]
        append(self.table.log, self.version + 1, entry, id=id, table=self.table.name)


def _values(cell: Cell) -> dict[str, str]:
    return {"_g": str(cell.group), "_e": str(cell.cohort)}


def _statistics(file: CellFile) -> str:
    """Return the statistics for the log: the two slots and nothing else, because no key may enter the log."""
    return json.dumps(
        {
            "numRecords": file.records,
            "minValues": {INSERTED_SLOT: file.min_ins, EXPIRES_SLOT: file.min_exp},
            "maxValues": {INSERTED_SLOT: file.max_ins, EXPIRES_SLOT: file.max_exp},
            "nullCount": {INSERTED_SLOT: 0, EXPIRES_SLOT: 0},
        }
    )


def _files(delta: DeltaTable) -> tuple[CellFile, ...]:
    actions = delta.get_add_actions(flatten=True)
    names = (
        "path",
        "partition._g",
        "partition._e",
        "size_bytes",
        "num_records",
        *(f"{end}.{slot}" for slot in (INSERTED_SLOT, EXPIRES_SLOT) for end in ("min", "max")),
    )
    if not actions.num_rows:
        return ()
    columns = [actions.column(name).to_pylist() for name in names]
    return tuple(_file(*row) for row in zip(*columns, strict=True))


def _file(path: str, group: int, cohort: int, size: int, records: int, *slots: int) -> CellFile:
    path = inside(path)
    if None in slots:
        raise CorruptionError(
            "the log has no slots for a file", path, "another tool wrote to this table; restore its log"
        )
    min_ins, max_ins, min_exp, max_exp = slots
    return CellFile(
        path=path,
        cell=Cell(int(group), int(cohort)),
        size_bytes=size,
        records=records,
        min_ins=min_ins,
        max_ins=max_ins,
        min_exp=min_exp,
        max_exp=max_exp,
    )
