"""A story of hours and days over a change to summer time, told as text: the same on every machine, in every zone.

Run as a program it tells the story of its own process: ``python -m tests.integration.zones FOLDER``.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ebb import OpenTable, Warehouse
from ebb.index.values import plain
from tests.builders import open_warehouse, scanned, timestamp_table

# At 07:00 UTC the clocks of New York went from 2:00 to 3:00.
START = datetime(2013, 3, 10, 4, tzinfo=UTC)
_HEAD = "id,key,inserted,expires\n"


def _batch(folder: Path, hour: int, form: str) -> Path:
    """Write what happens in one hour: at its end, a microsecond after it, and times with and without a zone."""
    end = START + timedelta(hours=hour)
    moments = [end, end - timedelta(microseconds=1), end + timedelta(microseconds=1), end - timedelta(minutes=30)]
    rows = [(10 * hour + i, "k", moment, moment + timedelta(hours=2)) for i, moment in enumerate(moments)]
    file = folder / f"{hour}.{form}"
    if form == "csv":
        naive = [(i, k, *(m.replace(tzinfo=None).isoformat(sep=" ") for m in times)) for i, k, *times in rows]
        file.write_text(_HEAD + "".join(",".join(str(v) for v in row) + "\n" for row in naive))
    elif form == "jsonl":
        east = timezone(timedelta(hours=5, minutes=45))
        zoned = [(i, k, *(m.astimezone(east).isoformat() for m in times)) for i, k, *times in rows]
        lines = [dict(zip(("id", "key", "inserted", "expires"), row, strict=True)) for row in zoned]
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    else:
        kind = pa.timestamp("us") if hour % 2 else pa.timestamp("us", "America/New_York")
        ids, keys, inserted, expires = zip(*rows, strict=True)
        times = [
            pa.array(column, pa.timestamp("us", "UTC")).cast(pa.int64()).cast(kind) for column in (inserted, expires)
        ]
        pq.write_table(
            pa.table([pa.array(ids), pa.array(keys), *times], names=["id", "key", "inserted", "expires"]), file
        )
    return file


def _hours(folder: Path, warehouse: Warehouse) -> list[Any]:
    table = timestamp_table(warehouse, "hours")
    told: list[Any] = []
    for hour, form in enumerate(("csv", "jsonl", "parquet", "csv", "parquet", "jsonl")):
        end = START + timedelta(hours=hour)
        report = table.update(_batch(folder, hour, form), at=end + timedelta(minutes=hour))
        told += [report.slot, report.time, report.admitted, report.expired, report.reasons, _shown(table)]
    told.append(_shown(table, as_of="2013-03-10T10:30:00"))
    told.append([number for _, number in table.table.snapshot().ledger.fingerprints.recent])
    return told


def _days(folder: Path, warehouse: Warehouse) -> list[Any]:
    schema = "id BIGINT, key DATE, inserted DATE, expires DATE"
    wish = {"key": ["key"], "inserted": "inserted", "expires": "expires", "tick": "1d", "span": "7d", "schema": schema}
    table = warehouse.create("days", **wish)
    told: list[Any] = []
    for day in (9, 10, 11):
        rows = [
            (day * 10 + i, f"2013-03-{day:02}", f"2013-03-{day - i:02}", f"2013-03-{day + i + 1}") for i in (0, 1, 2)
        ]
        file = folder / f"day{day}.csv"
        file.write_text(_HEAD + "".join(",".join(str(v) for v in row) + "\n" for row in rows))
        report = table.update(file, at=f"2013-03-{day:02}T23:59:59Z")
        told += [report.slot, report.time, report.admitted, report.expired, _shown(table)]
    told.append(table.probe(date(2013, 3, 10))["id"].to_pylist())
    told.append(table.probe("2013-03-11")["id"].to_pylist())
    return told


def _shown(table: OpenTable, **options: Any) -> list[Any]:
    return [{name: plain(value) for name, value in row.items()} for row in scanned(table, **options)]


def _asked(warehouse: Warehouse, spark: Any) -> list[list[str]]:
    warehouse.register(spark)
    text = "SELECT id, cast(inserted AS STRING) i, hour(expires) h, date(expires) d FROM hours ORDER BY id"
    return [[str(value) for value in row] for row in spark.sql(text).collect()]


def story(folder: Path, spark: Any) -> dict[str, Any]:
    """Tell everything that reads and writes times."""
    folder.mkdir(parents=True, exist_ok=True)
    warehouse = open_warehouse(folder / "w", datetime(2013, 3, 12, tzinfo=UTC))
    return {
        "hours": _hours(folder, warehouse),
        "days": _days(folder, warehouse),
        "sql": _asked(warehouse, spark),
        "status": [
            moment
            for table in (warehouse.table("hours").status(), warehouse.table("days").status())
            for moment in (table.clock_time, table.next_due)
        ],
    }


if __name__ == "__main__":
    import os

    from ebb.warehouse.settings import load_settings
    from ebb.warehouse.spark.session import spark_session

    session = spark_session(load_settings(environment=os.environ, file=None), delta=True)
    sys.stdout.write(json.dumps(story(Path(sys.argv[1]), session)))
