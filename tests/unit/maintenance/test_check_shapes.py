"""A check calls no table unsound that Ebb has written: keys of every type, files of many row groups, odd declarations."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ebb import OpenTable
from ebb.warehouse.parquet.arrow import arrow_schema
from ebb.warehouse.parquet.datafile import DataFile
from ebb.warehouse.parquet.sizes import WriteSizes
from tests.builders import NOW, arrow_batch, integer_table, open_warehouse, timestamp_table
from tests.contract import table_of_generation
from tests.direct import apply
from tests.foreign import append, filled, fresh
from tests.model import Record

KEYS: dict[str, list[Any]] = {
    "BOOLEAN": [False, True],
    "INT": [-(2**31), -1, 0, 1, 2**31 - 1],
    "BIGINT": [-(2**63), 0, 2**63 - 1],
    "DOUBLE": [-1e300, -0.0, 0.0, 1e-300, 2.5],
    "DECIMAL(12,3)": [Decimal("-99.125"), Decimal("0.000"), Decimal("1.500")],
    "DATE": [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)],
    "TIMESTAMP": [datetime(1, 1, 1, tzinfo=UTC), NOW, datetime(9999, 12, 31, 23, 59, tzinfo=UTC)],
    "STRING": ["", "\x00", "\x00\x00", "a", "a\x00", "ü", "z" * 300, "z" * 300 + "a", "z" * 400],
    "BINARY": [b"", b"\x00", b"\xff" * 300, b"\xff" * 301],
}
SMALL = WriteSizes(row_group_bytes=600, file_bytes=5_000, long_key_bytes=300, page_bytes=200, filtered_keys=2)


def sound(table: OpenTable) -> None:
    for deep in (False, True):
        assert [str(found) for found in fresh(table).check(deep=deep).findings] == []


@pytest.mark.parametrize("kind", sorted(KEYS))
def test_keys_of_every_type_in_many_row_groups(tmp_path: Path, kind: str) -> None:
    table = open_warehouse(tmp_path / "w").create(
        "t", schema=f"id BIGINT, k {kind}, came BIGINT, until BIGINT, tags ARRAY<STRING>", key=["k", "id"], inserted="came",
        expires="until", tick="1", span="20", strategy="retire", policy="3x4", reader_time="1", deletion_bound="8",
    )  # fmt: skip
    rng = random.Random(kind)
    for slot in range(1, 9):
        rows = [
            {"id": n, "k": rng.choice(KEYS[kind]), "came": slot, "until": slot + rng.randrange(1, 20), "tags": ["x"] * (n % 3)}
            for n in range(60)
        ]  # fmt: skip
        apply(table, slot, rows, SMALL)

    files = table.table.snapshot().files
    assert max(DataFile.open(str(table.table.folder), file).row_groups for file in files) > 2
    sound(table)


def test_one_key_that_fills_several_row_groups(tmp_path: Path) -> None:
    """What was copied into one file in any order of expirations is brought into order when it is written anew."""
    table = integer_table(open_warehouse(tmp_path / "w"), span="30", strategy="rebuild", grid="2x2", reader_time="1")
    rng = random.Random(7)
    for slot in range(1, 6):
        rows = [
            {"id": n, "key": "long" if n % 3 else f"k{n}", "inserted": slot, "expires": slot + rng.randrange(1, 30), "pay": "p"}
            for n in range(200)
        ]  # fmt: skip
        apply(table, slot, rows, SMALL)

    sound(table)


def test_a_load_an_added_column_and_a_quarantine_that_was_cleared(tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"), reader_time="1", quarantine_time="5")
    table.load(arrow_batch([Record(n, f"k{n}", n % 4, n % 4 + 2 + n % 3) for n in range(40)]), at=3)
    sound(table)
    table.alter(add_column="note STRING")
    table.update(arrow_batch([Record(90, "a", 4, 8), Record(91, None, 4, 8), Record(92, "b", 4, 99)]), at=4)
    sound(table)
    table.clear_quarantine(reason="null")
    sound(table)
    for slot in range(5, 13):
        table.update(at=slot)
        sound(table)


def test_timestamps_that_the_table_computes(tmp_path: Path) -> None:
    schema = "id BIGINT, key STRING, inserted TIMESTAMP, expires TIMESTAMP"
    table = timestamp_table(
        open_warehouse(tmp_path / "w"),
        schema=schema,
        inserted="now AS inserted",
        expires="inserted + 3h",
        reader_time="1h",
    )
    kind = arrow_schema(table.table.snapshot().spec.columns)
    rows = pa.table({"id": [1, 2], "key": ["a", "b"]}, schema=pa.schema([kind.field("id"), kind.field("key")]))
    table.update(rows, at=NOW - timedelta(hours=2))

    sound(table)


def test_dates_and_another_origin(tmp_path: Path) -> None:
    table = open_warehouse(tmp_path / "w").create(
        "t",
        schema="k STRING, a DATE, b DATE",
        key="k",
        inserted="a",
        expires="b",
        tick="7d",
        span="70d",
        origin="2025-12-03",
    )
    rows = {"k": ["x", "y"], "a": [date(2025, 12, 20), date(2025, 12, 24)], "b": [date(2026, 1, 20), date(2026, 2, 24)]}
    table.update(pa.table(rows), at=date(2025, 12, 31))

    sound(table)


def test_what_another_tool_wrote_once_it_is_adopted_and_another_generation(tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"), reader_time="1", deletion_bound="6")
    filled(table)
    append(table, [Record(900, "k9", 4, 9)])
    assert {found.code for found in fresh(table).check(deep=True).findings} == {"foreign-commit"}
    fresh(table).adopt()
    sound(table)
    other = table_of_generation(table.warehouse, 3, "other", reader_time="1")
    filled(other)
    sound(other)


def test_a_table_without_a_clock(tmp_path: Path) -> None:
    sound(integer_table(open_warehouse(tmp_path / "w")))


def test_records_that_were_amended_held_released_and_forgotten(tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"), reader_time="1", span="9")
    for slot in range(1, 5):
        table.update(arrow_batch([Record(10 * slot + n, f"k{n}", slot, slot + 2 + n) for n in range(6)]), at=slot)
    table.amend("k1", expires=7)
    sound(table)
    table.hold("k2", case="a")
    sound(table)
    table.forget("k3")
    sound(table)
    for slot in range(5, 9):
        table.update(arrow_batch([Record(10 * slot, "k2", slot, slot + 3)]), at=slot)
        sound(table)
    table.release("a")
    sound(table)
    table.update(at=9)
    table.erase()
    sound(table)
