"""The Delta log as Ebb reads and writes it: one file per commit, one action per line.

Pure but for :meth:`LogEntry.read`. What an entry must hold is Delta's protocol (reader version 1, writer version 2);
what Ebb adds is the text ``ebb`` in its ``commitInfo``, which starts with the id of the commit.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

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
    "restore": "RESTORE",
}

Action = dict[str, Any]


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
        "id": str(uuid.uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema_text(fields),
        "partitionColumns": list(partition_by),
        "createdTime": now_ms,
        "configuration": dict(configuration),
    }


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
    changes_table: bool  # whether it says how the table looks, and not only which files it has

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
            lines = path.read_text(encoding="utf-8").splitlines()
            actions = [json.loads(line) for line in lines if line.strip()]
            return LogEntry.of(actions, version)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise read_error(error, "a log entry", path.name) from error

    @staticmethod
    def of(actions: Sequence[Action], version: int) -> LogEntry:
        """Return what the actions of a commit tell."""
        info: dict[str, Any] = next((a["commitInfo"] for a in actions if "commitInfo" in a), {})
        adds: tuple[Mapping[str, Any], ...] = tuple(a["add"] for a in actions if "add" in a)
        return LogEntry(
            version=version,
            timestamp_ms=info.get("timestamp", 0),
            operation=info.get("operation", "?"),
            ebb=json.loads(info.get(APP, "{}")),
            adds=adds,
            added=tuple(unquote(add["path"]) for add in adds),
            bytes_added=sum(add["size"] for add in adds),
            removed=tuple(unquote(a["remove"]["path"]) for a in actions if "remove" in a),
            bytes_removed=sum(a["remove"].get("size") or 0 for a in actions if "remove" in a),
            changes_table=any("metaData" in a or "protocol" in a for a in actions),
        )
