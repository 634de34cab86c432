"""The Delta log as Ebb reads and writes it: one file per commit, one action per line.

Pure but for :meth:`LogEntry.read`. What an entry must hold is Delta's protocol (reader version 1, writer version 2);
what Ebb adds is the text ``ebb`` in its ``commitInfo``, which starts with the id of the commit.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from ebb.index.head import entry_hash
from ebb.index.stored import items, members, number, number_or_none, text
from ebb.warehouse.store.errors import read_error
from ebb.warehouse.store.paths import entry_name

__all__ = [
    "APP",
    "Action",
    "LogEntry",
    "add_action",
    "commit_action",
    "encoded",
    "metadata_actions",
    "new_metadata",
    "new_table_id",
    "remove_action",
    "schema_text",
]

APP = "ebb"  # the application id of our transactions and the name of our text in each commit
_PLAIN = "/=-_.~"  # besides letters and digits, what paths hold as it is
# What DESCRIBE HISTORY and other tools show.
_OPERATIONS = {
    "create": "CREATE TABLE",
    "alter": "SET TBLPROPERTIES",
    "load": "WRITE",
    "update": "WRITE",
    "retire": "DELETE",
    "seal": "OPTIMIZE",
    "purge": "REORG",
    "erase": "VACUUM END",
    "adopt": "OPTIMIZE",
    "forget": "DELETE",
    "amend": "UPDATE",
    "hold": "OPTIMIZE",
    "release": "OPTIMIZE",
    "restore": "RESTORE",
}

Action = dict[str, Any]


def _seconds(value: object) -> None:
    if not isinstance(value, float):
        number(value)


def _all(of: Callable[[object], object]) -> Callable[[object], object]:
    return lambda value: [of(one) for one in items(value)]


def _each(of: Callable[[object], object]) -> Callable[[object], object]:
    return lambda value: [of(one) for one in members(value).values()]


_COUNTS = (
    "slot", "ticks", "received", "admitted", "expired_on_arrival", "quarantined", "expired", "live", "live_before",
    "repeated", "repeated_of", "cells_touched", "cells_bound", "files_added", "files_removed", "bytes_written",
    "exposed_since", "due_from", "erased_version", "erased_files", "erased_bytes", "erased_ms", "records", "erase_by_ms", "erase_by_slot", "to_slot",
    "restored_version", "lost_versions",
)  # fmt: skip
# What each thing that a commit says must be: anybody may have written the entry.
_KINDS: dict[str, Callable[[object], object]] = {
    **dict.fromkeys(_COUNTS, number_or_none),
    "id": text,
    "op": text,
    "case": text,
    "restored_from": text,
    "former_table": text,
    "by": text,
    "asked": text,
    "removed_slots": _all(number),
    "ledger": members,
    "reasons": _each(number),
    "exposed": _each(number_or_none),
    "phases": _each(_seconds),
    "seconds": _seconds,
    "adopted_versions": _all(number),
    "adopted_operations": _all(text),
}


def commit_action(op: str, ebb: Mapping[str, Any], now_ms: int) -> Action:
    """Return the action that says what a commit did; ``ebb`` is our own part of it."""
    info = {
        "timestamp": now_ms,
        "operation": _OPERATIONS.get(op, op.upper()),
        "operationParameters": {},
        "engineInfo": "ebb",
        APP: json.dumps(ebb, separators=(",", ":")),
    }
    return {"commitInfo": info}


def metadata_actions(metadata: Mapping[str, Any], *, with_protocol: bool) -> list[Action]:
    """Return what says how a table looks: with the protocol when it is made, without when it is changed."""
    protocol: list[Action] = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}] if with_protocol else []
    return [*protocol, {"metaData": dict(metadata)}]


def new_metadata(
    fields: Sequence[Mapping[str, Any]], partition_by: Sequence[str], configuration: Mapping[str, str], now_ms: int
) -> dict[str, Any]:
    """Return what a new Delta table says about itself."""
    return {
        "id": new_table_id(),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema_text(fields),
        "partitionColumns": list(partition_by),
        "createdTime": now_ms,
        "configuration": dict(configuration),
    }


def new_table_id() -> str:
    """Return an id for a Delta table."""
    return str(uuid.uuid4())


def schema_text(fields: Sequence[Mapping[str, Any]]) -> str:
    """Return Delta's text for columns."""
    return json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"))


def add_action(
    path: str, size_bytes: int, values: Mapping[str, str], now_ms: int, *, data_change: bool, statistics: str
) -> Action:
    """Return the action that adds a file."""
    add = {
        "path": quote(path, safe=_PLAIN),
        "partitionValues": dict(values),
        "size": size_bytes,
        "modificationTime": now_ms,
        "dataChange": data_change,
        "stats": statistics,
    }
    return {"add": add}


def remove_action(path: str, size_bytes: int, values: Mapping[str, str], now_ms: int, *, data_change: bool) -> Action:
    """Return the action that removes a file."""
    remove = {
        "path": quote(path, safe=_PLAIN),
        "deletionTimestamp": now_ms,
        "dataChange": data_change,
        "extendedFileMetadata": True,
        "partitionValues": dict(values),
        "size": size_bytes,
    }
    return {"remove": remove}


def encoded(actions: Sequence[Action]) -> bytes:
    """Return a log entry: one action per line."""
    return b"".join(json.dumps(action, separators=(",", ":")).encode() + b"\n" for action in actions)


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One commit as its log entry tells it."""

    version: int
    timestamp_ms: int
    operation: str
    ebb: Mapping[str, Any]  # our own part; empty if somebody else committed
    adds: tuple[Mapping[str, Any], ...]  # the actions
    added: tuple[str, ...]  # the files
    bytes_added: int
    removed: tuple[str, ...]
    bytes_removed: int
    removes: tuple[Mapping[str, Any], ...]  # the actions
    changes_table: bool  # whether it says how the table looks, and not only which files it has
    hash: str = ""  # of its bytes, if they are known
    clock: int | None = None  # of its transaction

    @property
    def committed(self) -> str:
        """Return when the commit was made, as text."""
        moment = datetime.fromtimestamp(self.timestamp_ms / 1000, tz=UTC)
        return moment.isoformat(timespec="seconds").replace("+00:00", "Z")

    @property
    def id(self) -> str | None:
        """Return the id of the commit; None if somebody else committed."""
        return self.ebb.get("id")

    @staticmethod
    def read(log: Path, version: int) -> LogEntry | None:
        """Read a log entry; None if there is none, or none any more."""
        path = log / entry_name(version)
        try:
            data = path.read_bytes()
            actions = [json.loads(line) for line in data.decode().splitlines() if line.strip()]
            return LogEntry.of(actions, version, entry_hash(data))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise read_error(error, "a log entry", path.name) from error

    @staticmethod
    def of(actions: Sequence[Action], version: int, hash: str = "") -> LogEntry:
        """Return what the actions of a commit tell."""
        info: dict[str, Any] = next((a["commitInfo"] for a in actions if "commitInfo" in a), {})
        adds: tuple[Mapping[str, Any], ...] = tuple(a["add"] for a in actions if "add" in a)
        removes: tuple[Mapping[str, Any], ...] = tuple(a["remove"] for a in actions if "remove" in a)
        return LogEntry(
            version=version,
            timestamp_ms=_moment(info.get("timestamp", 0)),
            operation=text(info.get("operation", "?")),
            ebb=_said(json.loads(info.get(APP, "{}"))),
            adds=adds,
            added=tuple(unquote(text(add["path"])) for add in adds),
            bytes_added=sum(number(add["size"]) for add in adds),
            removed=tuple(unquote(text(remove["path"])) for remove in removes),
            bytes_removed=sum(number(remove.get("size") or 0) for remove in removes),
            removes=removes,
            changes_table=any("metaData" in a or "protocol" in a for a in actions),
            hash=hash,
            clock=next((number(a["txn"]["version"]) for a in actions if a.get("txn", {}).get("appId") == APP), None),
        )


def _said(ebb: object) -> Mapping[str, Any]:
    """Return our own part of a commit; ValueError if anything in it is something else than Ebb writes there."""
    said = members(ebb)
    for name, value in said.items():
        if kind := _KINDS.get(name):
            kind(value)
    return said


def _moment(timestamp_ms: object) -> int:
    """Return the moment of a commit; OverflowError or ValueError if it is none that can be told."""
    moment_ms = number(timestamp_ms)
    datetime.fromtimestamp(moment_ms / 1000, tz=UTC)
    return moment_ms
