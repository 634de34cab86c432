"""Tables that compute when records expire, and when they were inserted (F2)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import ebb
from ebb import OpenTable, Warehouse
from tests.builders import scanned

SCHEMA = "id BIGINT, came TIMESTAMP, kind STRING, ttl INT"
CSV = "id,came,kind,ttl\n1,2026-01-01T10:30:00Z,vip,7200\n2,2026-01-01T11:00:00Z,,3600\n3,2026-01-01T11:30:00Z,x,\n"


def table_of(warehouse: Warehouse, **wish: Any) -> OpenTable:
    times = {"inserted": "came", "tick": "1h", "span": "48h", "schema": SCHEMA, "key": "id"}
    return warehouse.create("t", **(times | wish))


def expiries(table: OpenTable, column: str = "expires") -> dict[int, str]:
    return {row["id"]: f"{row[column]:%d %H:%M}" for row in scanned(table)}


@pytest.mark.parametrize(
    ("wish", "wanted"),
    [
        ({"lifetime": "24h"}, {1: "02 10:30", 2: "02 11:00", 3: "02 11:30"}),
        ({"lifetime": timedelta(days=1)}, {1: "02 10:30", 2: "02 11:00", 3: "02 11:30"}),
        ({"lifetime": "ttl"}, {1: "01 12:30"}),
        ({"expires": "came + 30h"}, {1: "02 16:30", 2: "02 17:00", 3: "02 17:30"}),
        ({"expires": "coalesce(came + ttl, came + 40h)"}, {1: "01 12:30", 3: "03 03:30"}),
        ({"expires": "case when kind = 'vip' then came + 47h else came + 2h end"}, {1: "03 09:30", 2: "01 13:00", 3: "01 13:30"}),
        ({"expires": "least(came + 3h, now + 2h)"}, {1: "01 13:30", 2: "01 14:00", 3: "01 14:00"}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", ["csv", "arrow"])
def test_a_lifetime_is_computed_once_and_stored(
    wish: dict[str, Any], wanted: dict[int, str], form: str, warehouse: Warehouse, tmp_path: Path
) -> None:
    table = table_of(warehouse, **wish)
    (tmp_path / "b.csv").write_text(CSV)
    batch: Any = tmp_path / "b.csv"
    if form == "arrow":
        import pyarrow.csv

        batch = pyarrow.csv.read_csv(batch)
    report = table.update(batch, at="2026-01-01T12:00:00Z", engine="direct")

    assert report.received == report.admitted + report.expired_on_arrival + report.quarantined == 3
    assert expiries(table) == wanted
    assert table.update(batch, at="2026-01-01T12:00:00Z", engine="direct").already_applied


def test_a_lifetime_may_be_as_long_as_the_span(warehouse: Warehouse) -> None:
    assert table_of(warehouse, lifetime="48h").describe().span == "2d"


def test_a_record_without_a_lifetime_is_refused_with_what_it_brought(warehouse: Warehouse, tmp_path: Path) -> None:
    table = table_of(warehouse, lifetime="ttl")
    (tmp_path / "b.csv").write_text(CSV)
    table.update(tmp_path / "b.csv", at="2026-01-01T12:00:00Z", engine="direct")
    refused = table.quarantine()

    assert refused.reasons == {"expiration time expires is null": 1}
    assert refused.records[0].record == '{"id": 3, "came": "2026-01-01T11:30:00Z", "kind": "x", "ttl": null}'


def test_records_without_an_arrival_time_get_the_end_of_their_tick(warehouse: Warehouse, tmp_path: Path) -> None:
    """A retry has to name the same tick; without one the fingerprints of files still protect."""
    table = table_of(warehouse, schema="id BIGINT, note STRING", inserted="now AS came", expires="came + 5h AS until")
    file = tmp_path / "b.jsonl"
    file.write_text('{"id": 1, "note": "a"}\n')
    assert table.update(file, at="2026-01-01T10:00:00Z", engine="direct").admitted == 1
    assert table.update(file, at="2026-01-01T10:00:00Z", engine="direct").already_applied
    assert table.update(file, at="2026-01-01T11:00:00Z", engine="direct").repeated_of is not None

    assert expiries(table, "came") == {1: "01 10:00"}
    assert expiries(table, "until") == {1: "01 15:00"}


def test_a_computed_column_may_stand_in_for_one_that_is_missing(warehouse: Warehouse, tmp_path: Path) -> None:
    schema = "id BIGINT, came TIMESTAMP, until TIMESTAMP"
    table = table_of(warehouse, schema=schema, expires="coalesce(until, came + 2h) AS until")
    (tmp_path / "b.csv").write_text(
        "id,came,until\n1,2026-01-01T10:30:00Z,2026-01-02T00:00:00Z\n2,2026-01-01T11:00:00Z,\n"
    )
    table.update(tmp_path / "b.csv", at="2026-01-01T12:00:00Z", engine="direct")

    assert expiries(table, "until") == {1: "02 00:00", 2: "01 13:00"}
    assert table.status().expires_as == "coalesce(until, came + 2h)"
    assert "computes until of its records: coalesce(until, came + 2h)" in table.explain().words


def test_a_file_that_brings_what_the_table_computes_is_refused_or_overruled(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    table = table_of(warehouse, lifetime="24h")
    file = tmp_path / "b.csv"
    file.write_text("id,came,expires\n1,2026-01-01T11:30:00Z,2030-01-01\n")
    with pytest.raises(ebb.SchemaDriftError, match="column expires is computed by the table"):
        table.update(file, at="2026-01-01T12:00:00Z", engine="direct")
    table.update(file, at="2026-01-01T12:00:00Z", engine="direct", inputs={"extra": "ignore"})

    assert expiries(table) == {1: "02 11:30"}


def test_integers_and_dates_have_lifetimes_too(warehouse: Warehouse) -> None:
    import pyarrow as pa

    numbers = warehouse.create(
        "n", schema="k STRING, came INT", key="k", inserted="came", lifetime=30, tick=10, span=100
    )
    numbers.update(pa.table({"k": ["a"], "came": [5]}), at=10)
    assert [row["expires"] for row in scanned(numbers)] == [35]
    days = warehouse.create(
        "d", schema="k STRING, came DATE", key="k", inserted="came", lifetime="2d", tick="1d", span="9d"
    )
    days.update(pa.table({"k": ["a"], "came": [datetime(2026, 1, 1, tzinfo=UTC).date()]}), at="2026-01-01")
    assert [str(row["expires"]) for row in scanned(days)] == ["2026-01-03"]


def test_a_time_beyond_its_type_is_none(warehouse: Warehouse) -> None:
    """It was cut to 32 bits."""
    import pyarrow as pa

    schema = "k STRING, came DATE, more BIGINT"
    days = warehouse.create("d", schema=schema, key="k", inserted="came", expires="came + more", tick="1d", span="9d")
    day = datetime(2026, 1, 1, tzinfo=UTC).date()
    report = days.update(pa.table({"k": ["a"], "came": [day], "more": [2**32 + 10]}), at="2026-01-01")
    assert report.reasons == {"expiration time expires is null": 1}


def test_what_a_record_brought_is_what_the_quarantine_keeps(warehouse: Warehouse) -> None:
    import pyarrow as pa

    wish = {"schema": "k STRING, came INT, e INT", "key": "k", "inserted": "came", "tick": 1, "span": 9}
    table = warehouse.create("n", **wish, expires="coalesce(e, now + 5) AS e")
    table.update(pa.table({"k": [None], "came": [5], "e": pa.nulls(1, pa.int32())}), at=5)
    assert table.quarantine().records[0].record == '{"k": null, "came": 5, "e": null}'


def test_what_had_expired_when_it_was_stamped_is_counted_and_not_kept(warehouse: Warehouse) -> None:
    import pyarrow as pa

    wish = {"schema": "k STRING, until INT", "key": "k", "inserted": "now", "expires": "until", "tick": 10, "span": 90}
    table = warehouse.create("n", **wish)
    report = table.update(pa.table({"k": ["old", "edge", "new"], "until": [5, 20, 21]}), at=20)
    assert (report.admitted, report.expired_on_arrival, report.quarantined) == (1, 2, 0)


def test_a_load_sets_the_clock_by_what_batches_bring(warehouse: Warehouse) -> None:
    import pyarrow as pa

    numbers = warehouse.create(
        "n", schema="k STRING, came INT", key="k", inserted="came", lifetime=30, tick=10, span=100
    )
    assert numbers.load(pa.table({"k": ["a"], "came": [25]})).slot == 3
    stamped = warehouse.create(
        "s", schema="k STRING, n INT", key="k", inserted="now AS n", lifetime=30, tick=10, span=100
    )
    with pytest.raises(ebb.UsageError, match="the table computes the insertion time itself"):
        stamped.load(pa.table({"k": ["a"]}))


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({}, "a table needs to know when its records expire"),
        ({"expires": "came", "lifetime": "1h"}, "the expiration time and a lifetime are both given"),
        ({"lifetime": "1 fortnight"}, "expression"),
        ({"lifetime": "kind"}, "column kind has type string, which is neither"),
        ({"expires": "came + gone"}, "'gone' is not a column"),
        ({"expires": "gone"}, "the expiration time names 'gone', which is not a column"),
        ({"lifetime": "24h", "tick": 5}, "duration 5 is a number"),
        ({"lifetime": "49h"}, "is 49h or more after came, and records that live longer than the span 2d are refused"),
        ({"expires": "least(came + 49h, now + 3d)"}, "is 49h or more after came"),
        ({"inserted": "now", "lifetime": "3d"}, "is 3d or more after inserted"),
        ({"expires": "until + 1d AS until"}, "'until' is not a column, there are id, came, kind, ttl;"),
        ({"lifetime": "expires"}, "'expires' is not a column, there are id, came, kind, ttl;"),
        ({"inserted": "expires - 1h", "lifetime": "3h"}, "'expires' is not a column"),
        (
            {"schema": SCHEMA + ", until TIMESTAMP", "expires": "until + 1d AS until"},
            "until, as until \\+ 1d, counts with",
        ),
    ],
)
def test_a_declaration_that_cannot_be_understood_is_refused(
    wish: dict[str, Any], said: str, warehouse: Warehouse
) -> None:
    with pytest.raises(ebb.UsageError, match=said):
        table_of(warehouse, **wish)
