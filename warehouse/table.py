"""One table on disk: its folder, its log, and what it looked like at one version.

The log is read with delta-rs and, for the entries that only Ebb writes, as the JSON lines it is. Nothing here
starts Spark, and nothing here imports pyarrow: an empty tick should cost no more than it must.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, CommitProperties, RemoveAction, Transaction

from index.cellfile import CellFile
from index.errors import ConflictError, CorruptionError, EngineError, UnknownTableError
from index.grid import Cell
from index.ledger import Ledger
from warehouse.schema import EXPIRES_SLOT, INSERTED_SLOT, PARTITION_COLUMNS, columns_of_delta
from warehouse.spec import TableSpec

__all__ = ["APP", "SIDE_SUFFIX", "Snapshot", "Table", "inside", "side_file"]

APP = "ebb"  # the application id of our transactions and the name of our entry in each commit
_LOG = "_delta_log"
_HIDDEN = "_ebb"
SIDE_SUFFIX = ".keys"  # of what the directory keeps beside a data file


def side_file(path: str) -> str:
    """Return the place of what the directory keeps of a data file.

    >>> side_file("u7-ab/_g=1/_e=2/part-x.parquet")
    'u7-ab/_g=1/_e=2/part-x.keys'
    """
    return path.removesuffix(".parquet") + SIDE_SUFFIX


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
    def hidden(self) -> Path:
        """Return the folder for what is not part of the Delta table: the lock."""
        return self.folder / _HIDDEN

    @property
    def quarantine(self) -> Path:
        """Return the folder of the quarantine; no table can have this name."""
        return self.root / f"{self.name}.quarantine"

    def snapshot(self) -> Snapshot:
        """Pin the newest version: its files, declaration and ledger.  O(live files)."""
        try:
            delta = DeltaTable(self.folder)
        except (TableNotFoundError, OSError) as error:
            raise UnknownTableError(self.name, self.root, "run ebb status to see the tables") from error
        except DeltaError as error:
            raise CorruptionError(
                f"the log of table {self.name} cannot be read", error, "restore it from a backup"
            ) from error
        columns = columns_of_delta(delta.schema().to_json())
        spec = TableSpec.from_properties(self.name, columns, delta.metadata().configuration)
        version = delta.version()
        return Snapshot(
            table=self,
            delta=delta,
            spec=spec,
            version=version,
            files=_files(delta),
            ledger=self._ledger(delta, version),
            mark=self._mark(version),
        )

    def renewed(self, known: Snapshot | None) -> Snapshot:
        """Return a known snapshot if it is still the newest, which takes two looks at the log; otherwise the newest."""
        if known is not None and known.mark is not None:
            following = self.folder / _LOG / f"{known.version + 1:020}.json"
            if self._mark(known.version) == known.mark and not following.exists():
                return known
        return self.snapshot()

    def _mark(self, version: int) -> tuple[int, int] | None:
        """Return what tells a log entry from another one of the same version in a table made anew."""
        try:
            found = os.stat(self.folder / _LOG / f"{version:020}.json")
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns

    def _ledger(self, delta: DeltaTable, version: int) -> Ledger:
        for entry in self.entries(version):
            if "ledger" in entry.ebb:
                return Ledger.loads(entry.ebb["ledger"])
        clock = delta.transaction_version(APP)
        where = f"no commit of Ebb is left in the log of table {self.name} (clock {clock})"
        raise CorruptionError("the ledger is missing", where, "restore the log from a backup")

    def entries(self, newest: int) -> Iterator[LogEntry]:
        """Yield the commits from ``newest`` back to the oldest that the log still has."""
        for version in range(newest, -1, -1):
            entry = LogEntry.read(self.folder / _LOG / f"{version:020}.json", version)
            if entry is None:
                return
            yield entry

    def data_files(self) -> Iterator[str]:
        """Yield the relative path of every file that is neither log nor hidden nor beside a data file."""
        return (path for path in self.all_files() if SIDE_SUFFIX not in path)  # also while it is being written

    def side_files(self) -> Iterator[str]:
        """Yield the relative path of what the directory keeps beside data files."""
        return (path for path in self.all_files() if SIDE_SUFFIX in path)

    def all_files(self) -> Iterator[str]:
        """Yield the relative path of every file that is neither log nor hidden."""
        for top in sorted(os.scandir(self.folder), key=lambda item: item.name):
            if top.name in (_LOG, _HIDDEN):
                continue
            yield from _files_at(top, top.name)


def _files_at(entry: os.DirEntry[str], path: str) -> Iterator[str]:
    """Yield the files at a place below a table; links are refused, because they may lead anywhere."""
    if entry.is_symlink():
        step = "see where it leads, and remove it"
        raise CorruptionError("a symbolic link stands for a part of the table", path, step)
    if not entry.is_dir(follow_symlinks=False):
        yield path
        return
    try:
        below = list(os.scandir(entry.path))
    except FileNotFoundError:  # removed meanwhile
        return
    for found in below:
        yield from _files_at(found, f"{path}/{found.name}")


def inside(path: str) -> str:
    """Return a path of a log, decoded; refuses one that leads out of the table.

    >>> inside("u7-ab/_g%3D1/x.parquet")
    'u7-ab/_g=1/x.parquet'
    """
    path = unquote(path)
    parts = PurePosixPath(path).parts
    is_plain = path == "/".join(parts) and "\0" not in path  # else a file could have several names
    if not parts or not is_plain or path.startswith("/") or ".." in parts or ":" in parts[0]:
        raise CorruptionError("the log names a file outside the table", path, "do not use this table; restore its log")
    return path


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One commit as its log entry tells it."""

    version: int
    timestamp_ms: int
    operation: str
    ebb: Mapping[str, Any]  # our own part; empty if somebody else committed
    added: tuple[str, ...]
    removed: tuple[str, ...]
    bytes_added: int

    @staticmethod
    def read(path: Path, version: int) -> LogEntry | None:
        """Read a log entry; None if it has been cleaned up."""
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
            actions = [json.loads(line) for line in lines if line.strip()]
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise CorruptionError(
                "a log entry cannot be read", f"{path.name} ({error})", "restore it from a backup"
            ) from error
        info: dict[str, Any] = next((a["commitInfo"] for a in actions if "commitInfo" in a), {})
        adds = [a["add"] for a in actions if "add" in a]
        return LogEntry(
            version=version,
            timestamp_ms=info.get("timestamp", 0),
            operation=info.get("operation", "?"),
            ebb=json.loads(info.get(APP, "{}")),
            added=tuple(unquote(add["path"]) for add in adds),
            removed=tuple(unquote(a["remove"]["path"]) for a in actions if "remove" in a),
            bytes_added=sum(add["size"] for add in adds),
        )


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table at one version."""

    table: Table
    delta: DeltaTable
    spec: TableSpec
    version: int
    files: tuple[CellFile, ...]
    ledger: Ledger
    mark: tuple[int, int] | None = None  # of its log entry

    @property
    def table_id(self) -> str:
        """Return what tells the table from another one of the same name."""
        return str(self.delta.metadata().id)

    def commit(
        self,
        *,
        adds: Sequence[CellFile],
        removes: Sequence[CellFile],
        ledger: Ledger,
        report: Mapping[str, Any],
        data_change: bool,
        now_ms: int,
    ) -> int:
        """Commit files and ledger in one entry against this very version, and return the new version.

        Raises ConflictError if anybody has committed since; nothing is retried, because the plan may be stale.
        """
        actions: list[AddAction | RemoveAction] = [
            AddAction(f.path, f.size_bytes, _values(f.cell), now_ms, data_change, _statistics(f)) for f in adds
        ]
        actions += [RemoveAction(f.path, data_change, now_ms, f.size_bytes, _values(f.cell)) for f in removes]
        entry = json.dumps({**report, "ledger": ledger.dumps()}, separators=(",", ":"))
        properties = CommitProperties(
            custom_metadata={APP: entry},
            max_commit_retries=0,
            app_transactions=[] if ledger.clock is None else [Transaction(APP, ledger.clock)],
        )
        try:
            self.delta.create_write_transaction(
                actions, "append", self.delta.schema(), list(PARTITION_COLUMNS), commit_properties=properties
            )
        except CommitFailedError as error:
            raise ConflictError(self.table.name, self.version) from error
        except (DeltaError, OSError) as error:
            raise EngineError(
                "the commit failed", error, "nothing was changed; mend the cause and run it again"
            ) from error
        return self.version + 1


def _values(cell: Cell) -> dict[str, str | None]:
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
