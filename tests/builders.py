"""Short ways to make warehouses, tables and batches."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ebb import OpenTable, Warehouse
from ebb.warehouse.intake.quarantine import Refused, read_refused
from ebb.warehouse.settings import Settings
from ebb.warehouse.table.snapshot import Table
from tests.model import Record

__all__ = [
    "ARROW", "NOW", "SCHEMA", "TIMES", "arrow_batch", "data_files", "gauge", "integer_table", "open_warehouse", "records", "refused_records", "scanned", "scanned_ids",
    "timestamp_table", "version_of", "write_batch",
]  # fmt: skip

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
SCHEMA = "id BIGINT, key STRING, inserted BIGINT, expires BIGINT, pay STRING"
TIMES = "id BIGINT, key STRING, inserted TIMESTAMP, expires TIMESTAMP"
ARROW = pa.schema(
    [("id", pa.int64()), ("key", pa.string()), ("inserted", pa.int64()), ("expires", pa.int64()), ("pay", pa.string())]
)


def open_warehouse(root: Path, now: datetime = NOW) -> Warehouse:
    """Return a warehouse whose clock on the wall stands still."""
    return Warehouse(Settings(warehouse=root), now=lambda: now)


def integer_table(warehouse: Warehouse, name: str = "t", **wish: Any) -> OpenTable:
    """Create a table with integer times."""
    declared: dict[str, Any] = {
        "key": ["key"], "inserted": "inserted", "expires": "expires", "tick": "1", "span": "6", "schema": SCHEMA,
    }  # fmt: skip
    return warehouse.create(name, **(declared | wish))


def timestamp_table(warehouse: Warehouse, name: str = "t", **wish: Any) -> OpenTable:
    """Create a table of hours with timestamps."""
    declared: dict[str, Any] = {
        "key": ["key"], "inserted": "inserted", "expires": "expires", "tick": "1h", "span": "6h", "schema": TIMES,
    }  # fmt: skip
    return warehouse.create(name, **(declared | wish))


def records(*rows: tuple[int, str | None, int | None, int | None]) -> list[Record]:
    """Return records from (id, key, inserted, expires)."""
    return [Record(*row) for row in rows]


def _row(record: Record) -> dict[str, Any]:
    return {
        "id": record.id, "key": record.key, "inserted": record.inserted, "expires": record.expires,
        "pay": f"p{record.id}",
    }  # fmt: skip


def _quoted(value: Any) -> str:
    """Write a value for CSV so that the empty text and nothing stay two things."""
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"'
    return "" if value is None else str(value)


def arrow_batch(batch: Sequence[Record]) -> pa.Table:
    """Return records as Arrow has them."""
    return pa.Table.from_pylist([_row(record) for record in batch], schema=ARROW)


def write_batch(path: Path, batch: Sequence[Record]) -> Path:
    """Write records as Parquet, CSV or JSON lines, as the name says."""
    rows = [_row(record) for record in batch]
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(arrow_batch(batch), path)
        return path
    opened: Any = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", encoding="utf-8", newline="") as text:
        if ".csv" in path.suffixes:
            text.write(",".join(ARROW.names) + "\n")
            text.writelines(",".join(_quoted(value) for value in row.values()) + "\n" for row in rows)
        else:
            text.writelines(json.dumps(row) + "\n" for row in rows)
    return path


def scanned_ids(table: OpenTable, **options: Any) -> list[int]:
    """Return the ids in the window, sorted, with repeats."""
    return sorted(i for part in table.scan(columns=["id"], **options) for i in part["id"].to_pylist())


def scanned(table: OpenTable, **options: Any) -> list[dict[str, Any]]:
    """Return the records of the window, by id if they have one."""
    rows = [row for part in table.scan(**options) for row in part.to_pylist()]
    return sorted(rows, key=lambda row: row.get("id", 0))


def refused_records(table: Table) -> list[Refused]:
    """Return the records in quarantine, oldest first."""
    return [record for file in read_refused(table) for record in file.records]


def version_of(table: OpenTable) -> int:
    """Return the newest version of a table."""
    return table.table.snapshot().version


def gauge(table: OpenTable, name: str) -> float:
    """Return a number for monitoring."""
    (metric,) = [metric for metric in table.warehouse.metrics(table.name) if metric.name == name]
    ((_, value),) = metric.samples
    return value


def data_files(table: OpenTable) -> list[str]:
    """Return every file of a table on disk that is neither log nor lock."""
    return sorted(table.table.data_files())
