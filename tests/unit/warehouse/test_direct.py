"""Batches without a JVM: Parquet files by the engine direct, and Arrow data of every origin."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ebb import OpenTable, Warehouse
from ebb.index.errors import AppliedSlotError, EngineError, SchemaDriftError, UnreadableInputError, UsageError
from ebb.maintenance.update import Report, load, update
from ebb.warehouse.intake.arrow_source import portions
from ebb.warehouse.intake.batch import batch_of
from ebb.warehouse.intake.sizes import IntakeSizes
from ebb.warehouse.parquet.arrow import arrow_schema
from tests.builders import (
    ARROW,
    arrow_batch,
    data_files,
    integer_table,
    open_warehouse,
    records,
    refused_records,
    scanned,
    scanned_ids,
    timestamp_table,
    version_of,
    write_batch,
)
from tests.model import Model, Record

BATCH = records((1, "a", 5, 8), (2, "b", 5, 9), (3, "a", 4, 7), (4, "ü", 5, 11), (5, "", 5, 10), (6, None, 5, 10))


def in_portions(table: OpenTable, batch: Any, *, at: int | None, portion_bytes: int, first: bool = False) -> Report:
    """Update or load with portions of another size than users have."""
    found = batch_of(batch, "direct")
    context = replace(table.warehouse.context(batch=found), intake=IntakeSizes(portion_bytes=portion_bytes))
    return (load if first else update)(table.table, found, context, at=at)


def digest_of(table: OpenTable) -> int:
    """Return the fingerprint of the last batch; those of its files follow it."""
    recent = table.table.snapshot().ledger.fingerprints.recent
    return next(number for slot, number in recent if slot == recent[-1][0])


FORMS: dict[str, Callable[[pa.Table, Path], Any]] = {
    "table": lambda table, _: table,
    "reader": lambda table, _: table.to_reader(max_chunksize=2),
    "record batch": lambda table, _: table.combine_chunks().to_batches()[0],
    "pandas": lambda table, _: table.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas without the first rows": lambda table, _: pd.concat([table.slice(0, 1).to_pandas(), table.to_pandas()])[1:]
    .astype({"inserted": "int64", "expires": "int64"}),
    "polars": lambda table, _: pl.from_arrow(table),
    "duckdb": lambda table, _: duckdb.from_arrow(table),
    "in another order": lambda table, _: table.take(list(reversed(range(table.num_rows)))),
    "a file": lambda table, folder: written(folder / "a.parquet", table),
    "two files": lambda table, folder: [
        written(folder / "a.parquet", table.slice(0, 2)),
        written(folder / "b.parquet", table.slice(2), row_group_size=1),
    ],
    "a folder": lambda table, folder: written(folder / "in" / "a.parquet", table).parent,
}  # fmt: skip


def written(path: Path, table: pa.Table, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, **options)
    return path


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_batch_has_the_same_effect_and_is_recognised_in_every_other(
    form: str, warehouse: Warehouse, tmp_path: Path
) -> None:
    table = integer_table(warehouse)
    report = table.update(FORMS[form](arrow_batch(BATCH), tmp_path), at=5, engine="direct")

    assert (report.received, report.admitted, report.reasons) == (6, 5, {"key key is null": 1})
    assert scanned_ids(table) == [1, 2, 3, 4, 5]
    assert [json.loads(r.record)["id"] for r in refused_records(table.table)] == [6]
    version = version_of(table)
    for other, make in FORMS.items():
        again = table.update(make(arrow_batch(BATCH), tmp_path / other), engine="direct")
        assert (again.already_applied, again.slot, again.received) == (True, 5, 6), other
    assert version_of(table) == version
    with pytest.raises(AppliedSlotError):
        table.update(arrow_batch(BATCH[1:]), at=5)


@pytest.mark.parametrize("portion_bytes", [1, 100, 1000, 10**6])
@pytest.mark.parametrize("form", ["table", "reader", "two files"])
def test_portions_change_neither_fates_nor_digest(
    form: str, portion_bytes: int, warehouse: Warehouse, tmp_path: Path
) -> None:
    rows = [Record(i, f"k{i % 7}", 3 + i % 4, 4 + i % 9) for i in range(60)]
    model = Model(integer_table(warehouse, "other").table.snapshot().spec.timeline)
    outcome = model.apply(5, rows)
    table = integer_table(warehouse)
    report = in_portions(table, FORMS[form](arrow_batch(rows), tmp_path), at=5, portion_bytes=portion_bytes)

    assert report.received == 60 == report.admitted + report.expired_on_arrival + report.quarantined
    assert report.admitted == len(outcome.admitted) > 0
    assert report.expired_on_arrival == len(outcome.expired_on_arrival) > 0
    assert report.quarantined == len(outcome.quarantined) > 0
    assert scanned_ids(table) == sorted(record.id for record in model.window())
    tasks = {path.split("/")[1] for path in data_files(table)}
    assert len(tasks) > 1 if portion_bytes <= 1000 else tasks == {"0"}
    warehouse.table("other").update(arrow_batch(rows[::-1]), at=5)
    assert digest_of(table) == digest_of(warehouse.table("other"))


def test_portions_keep_the_order_and_are_as_large_as_declared() -> None:
    stream = [pa.table({"id": range(low, low + 100)}) for low in range(0, 1000, 100)]
    cut = list(portions(stream, 2500))

    assert [i for portion in cut for i in portion["id"].to_pylist()] == list(range(1000))
    sizes = [portion.nbytes for portion in cut]
    assert max(sizes) <= 2500
    assert min(sizes[:-1]) > 1200
    assert [portion.num_rows for portion in portions(stream[:1], 1)] == [1] * 100
    assert list(portions([], 1)) == []


def test_a_long_stream_is_never_held_whole(warehouse: Warehouse) -> None:
    table = integer_table(warehouse)
    size, peak = 200_000, 0
    before = pa.total_allocated_bytes()

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal peak
        for low in range(0, 4000, 50):
            peak = max(peak, pa.total_allocated_bytes() - before)
            some = arrow_batch([Record(low + i, f"k{i}", 5, 9) for i in range(50)])
            yield from some.set_column(4, "pay", pa.array(["x" * 1000] * 50)).combine_chunks().to_batches()

    reader = pa.RecordBatchReader.from_batches(ARROW, batches())
    assert in_portions(table, reader, at=5, portion_bytes=size).admitted == 4000
    assert 0 < peak < 5 * size < 4000 * 1000


def test_values_behind_the_first_two_gigabytes_of_a_chunk_are_taken_in(warehouse: Warehouse) -> None:
    """Arrow refuses to convert such a slice of a large string to one with short offsets."""
    table = integer_table(warehouse)
    length, n = 2**20, 2**11 + 3
    zeros = np.zeros(length * n, np.uint8)  # never touched: the system gives one page for all of it
    zeros[-1] = ord("z")
    offsets = pa.py_buffer(np.arange(n + 1, dtype=np.int64) * length)
    pay = pa.Array.from_buffers(pa.large_string(), n, [None, offsets, pa.py_buffer(zeros)]).slice(n - 2)
    few = arrow_batch(records((1, "a", 5, 9), (2, "b", 5, 9))).set_column(4, "pay", pay)
    for slot, portion_bytes in ((5, length), (6, 10 * length)):
        batch = few.set_column(0, "id", pa.array([slot, 2 * slot]))
        assert in_portions(table, batch, at=slot, portion_bytes=portion_bytes).admitted == 2

    assert [row["pay"][-1] for row in scanned(table)] == ["\0", "\0", "z", "z"]


def test_types_that_other_tools_write_become_those_of_the_table(warehouse: Warehouse) -> None:
    schema = (
        "key STRING, inserted BIGINT, expires BIGINT, small SMALLINT, whole INT, wide BIGINT, big DECIMAL(20,0), bytes BINARY, "
        "none STRING, word STRING, money DECIMAL(9,2), moment TIMESTAMP, list ARRAY<STRING>, tree STRUCT<a:STRING,b:BIGINT>"
    )
    moment = datetime(2013, 3, 10, 7, 30, 0, 123000, tzinfo=UTC)
    table = integer_table(warehouse, schema=schema)
    arrays = [
        pa.array(["k"], pa.large_string()), pa.array([5]), pa.array([9]),
        pa.array([255], pa.uint8()), pa.array([2**16 - 1], pa.uint16()), pa.array([2**32 - 1], pa.uint32()),
        pa.array([2**64 - 1], pa.uint64()), pa.array([b"abcd"], pa.binary(4)), pa.nulls(1), pa.array(["w"]).dictionary_encode(),
        pa.array([Decimal("1.25")], pa.decimal64(9, 2)), pa.array([moment], pa.timestamp("ms", "Asia/Tokyo")),
        pa.array([["x", None]], pa.large_list(pa.string_view())),
        pa.array([{"a": "y", "b": 7}], pa.struct([("a", pa.dictionary(pa.int8(), pa.string())), ("b", pa.int64())])),
    ]  # fmt: skip
    names = [column.name for column in table.table.snapshot().spec.columns]
    table.update(pa.table(arrays, names=names), at=5)

    assert scanned(table) == [
        {
            "key": "k", "inserted": 5, "expires": 9, "small": 255, "whole": 2**16 - 1, "wide": 2**32 - 1,
            "big": Decimal(2**64 - 1), "bytes": b"abcd", "none": None, "word": "w", "money": Decimal("1.25"),
            "moment": moment, "list": ["x", None], "tree": {"a": "y", "b": 7},
        }
    ]  # fmt: skip


@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
def test_nanoseconds_are_rounded_up_and_times_without_a_zone_are_utc(
    zone: str | None, warehouse: Warehouse, tmp_path: Path
) -> None:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    end = (datetime(2026, 1, 1, 5, tzinfo=UTC) - epoch) // timedelta(microseconds=1) * 1000
    inserted = [end - 1_000_001, end - 1000, end - 1, end, end + 1, end + 999, None]
    kind = pa.timestamp("ns", zone)
    expires = [None if ns is None else ns + 3_600_000_000_000 for ns in inserted]
    columns = [pa.array(range(7)), pa.array(["k"] * 7), pa.array(inserted, kind), pa.array(expires, kind)]
    batch = pa.table(columns, names=["id", "key", "inserted", "expires"])
    digests = set()
    for way, value in (("arrow", batch), ("file", written(tmp_path / "b.parquet", batch))):
        table = timestamp_table(warehouse, way)
        report = table.update(value, at="2026-01-01T05:00:00Z", engine="direct")

        assert report.reasons == {"inserted in the future": 2, "insertion time inserted is null": 1}
        found = {row["id"]: (row["inserted"] - epoch) // timedelta(microseconds=1) for row in scanned(table)}
        assert found == {i: -(-ns // 1000) for i, ns in enumerate(inserted) if ns is not None and ns <= end}
        digests.add(digest_of(table))
    assert len(digests) == 1


def test_old_int96_timestamps_far_from_today_do_not_wrap_around(warehouse: Warehouse, tmp_path: Path) -> None:
    """Arrow reads them as nanoseconds, which end in 2262."""
    moments = [datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)]
    schema = "key STRING, inserted BIGINT, expires BIGINT, moment TIMESTAMP"
    table = integer_table(warehouse, schema=schema)
    columns = [pa.array(["a", "b"]), pa.array([5, 5]), pa.array([8, 9]), pa.array(moments, pa.timestamp("us", "UTC"))]
    batch = pa.table(columns, names=["key", "inserted", "expires", "moment"])
    file = written(tmp_path / "b.parquet", batch, use_deprecated_int96_timestamps=True)
    table.update(file, at=5, engine="direct")

    assert [row["moment"] for row in table.probe("a", "b").to_pylist()] == moments


DRIFTS: dict[str, tuple[Callable[[pa.Table], pa.Table], str]] = {
    "missing": (lambda t: t.drop_columns(["pay"]), "pay"),
    "extra": (lambda t: t.append_column("more", pa.nulls(t.num_rows, pa.int64())), "more"),
    "retyped": (lambda t: t.set_column(0, "id", t["id"].cast(pa.int32())), "id"),
    "reordered": (lambda t: t.select(list(reversed(t.column_names))), "pay"),
    "case-changed": (lambda t: t.rename_columns([*t.column_names[:-1], "Pay"]), "Pay"),
    "twice": (lambda t: t.append_column("id", t["id"]), "id"),
    "without a type in Delta": (lambda t: t.set_column(0, "id", pa.array([0.5] * len(t), pa.float16())), "id"),
}


@pytest.mark.parametrize("form", ["table", "a file"])
@pytest.mark.parametrize("drift", DRIFTS)
def test_other_columns_are_refused_and_the_table_does_not_move(
    drift: str, form: str, warehouse: Warehouse, tmp_path: Path
) -> None:
    change, column = DRIFTS[drift]
    table = integer_table(warehouse, inputs={"strict": True})
    batch = FORMS[form](change(arrow_batch(BATCH)), tmp_path)
    for work in (table.update, table.load):
        with pytest.raises(SchemaDriftError) as caught:
            work(batch, at=5, engine="direct")

        assert caught.value.args[1] == column
    assert (version_of(table), list(table.table.folder.glob("u*"))) == (0, [])


def _flipped(path: Path) -> Path:
    raw = path.read_bytes()
    path.write_bytes(raw[:60] + bytes([raw[60] ^ 1]) + raw[61:])
    return path


def _failing(error: Exception) -> Any:
    def batches() -> Iterator[pa.RecordBatch]:
        yield from arrow_batch(BATCH).to_batches()
        raise error

    return pa.RecordBatchReader.from_batches(ARROW, batches())


def _not_utf8() -> pa.Table:
    bad = pa.array([b"\xff\xfe"] * len(BATCH), pa.binary()).view(pa.string())
    return arrow_batch(BATCH).set_column(4, "pay", bad)


UNREADABLE: dict[str, Callable[[Path], Any]] = {
    "half a file": lambda folder: _half(write_batch(folder / "b.parquet", BATCH)),
    "a flipped bit": lambda folder: _flipped(
        written(folder / "b.parquet", arrow_batch(BATCH), write_page_checksum=True, compression="none")
    ),
    "an empty file": lambda folder: _half(_half(_half(write_batch(folder / "b.parquet", BATCH)))),
    "a stream that fails": lambda _: _failing(pa.ArrowInvalid("the producer gave up")),
    "a stream that loses its disk": lambda _: _failing(OSError("gone")),
    "text that is not UTF-8": lambda _: _not_utf8(),
    "a file with text that is not UTF-8": lambda folder: written(folder / "b.parquet", _not_utf8()),
    "a stream whose producer has a bug": lambda _: _failing(ZeroDivisionError("mine")),
}  # fmt: skip


def _half(path: Path) -> Path:
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) // 2])
    return path


def _far_times() -> pa.Table:
    kind = pa.timestamp("s")
    columns = [pa.array([1]), pa.array(["k"]), pa.array([0], kind), pa.array([2**60], kind)]
    return pa.table(columns, names=["id", "key", "inserted", "expires"])


@pytest.mark.parametrize("what", UNREADABLE)
def test_a_batch_that_cannot_be_read_changes_nothing_and_leaves_nothing(
    what: str, warehouse: Warehouse, tmp_path: Path
) -> None:
    table = integer_table(warehouse)
    with pytest.raises(UnreadableInputError, match=r"nothing was changed|write it again") as caught:
        table.update(UNREADABLE[what](tmp_path), at=5, engine="direct")

    assert "\n" not in str(caught.value)
    assert version_of(table) == 0
    assert list(table.table.folder.glob("[ux]*")) == []


def test_a_time_that_no_timestamp_can_hold_is_refused_alone(warehouse: Warehouse) -> None:
    table = timestamp_table(warehouse)
    report = table.update(_far_times(), at="2026-01-01")

    assert report.quarantined == report.received > 0
    assert set(report.reasons) == {"expires does not fit timestamp"}


def test_a_folder_that_cannot_be_written_is_told_as_one(warehouse: Warehouse, tmp_path: Path) -> None:
    table = integer_table(warehouse)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from arrow_batch(BATCH).to_batches()
        staging = next(table.table.folder.glob("u*"))
        (staging / "7").write_text("in the way")
        yield from arrow_batch(BATCH).to_batches()

    reader = pa.RecordBatchReader.from_batches(ARROW, batches())
    with pytest.raises(EngineError, match="the batch cannot be staged"):
        in_portions(table, reader, at=5, portion_bytes=1)
    assert (version_of(table), list(table.table.folder.glob("[ux]*"))) == (0, [])


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
def test_floating_keys_are_finite_and_both_zeros_are_one_key(kind: str, warehouse: Warehouse) -> None:
    table = integer_table(warehouse, schema=f"id BIGINT, key {kind}, inserted BIGINT, expires BIGINT")
    keys = [0.0, -0.0, 1.5, math.nan, math.inf, -math.inf, None]
    arrow = pa.float64() if kind == "DOUBLE" else pa.float32()
    columns = [pa.array(range(7)), pa.array(keys, arrow), pa.array([5] * 7), pa.array([8] * 7)]
    report = table.update(pa.table(columns, names=["id", "key", "inserted", "expires"]), at=5)

    assert report.reasons == {"key key is not finite": 3, "key key is null": 1}
    assert sorted(table.probe(-0.0)["id"].to_pylist()) == [0, 1]


def test_an_empty_batch_is_an_empty_tick(warehouse: Warehouse, tmp_path: Path) -> None:
    table = integer_table(warehouse)
    empty = arrow_batch([])
    batches = [empty, empty.to_reader(), written(tmp_path / "none.parquet", empty), pl.from_arrow(empty), [], None]
    for slot, batch in enumerate(batches, start=1):
        report = table.update(batch, at=slot, engine="direct")

        assert (report.slot, report.ticks, report.received, report.already_applied) == (slot, 1, 0, False)
    assert data_files(table) == []
    assert table.table.snapshot().ledger.fingerprints.recent == ()


class TestLoad:
    def test_an_integer_table_is_set_to_the_last_insertion_that_is_kept(
        self, warehouse: Warehouse, tmp_path: Path
    ) -> None:
        rows = records(
            (1, "a", 5, 8),
            (2, "b", 7, 9),
            (3, None, 90, 91),
            (4, "c", 80, 80),
            (5, "d", 60, 99),
            (6, "e", 2**63 - 2, 2**63 - 1),
        )
        for form in ("table", "two files", "pandas", "polars", "duckdb"):
            name = form.replace(" ", "_")
            table = integer_table(warehouse, name)
            report = table.load(FORMS[form](arrow_batch(rows), tmp_path / form), engine="direct")

            assert (report.slot, report.admitted, report.quarantined) == (7, 2, 4), form

    def test_a_stream_that_can_be_read_once_needs_a_time(self, warehouse: Warehouse) -> None:
        """The second reading of a reader gives no records, and no error: the load would have kept nothing of it."""
        table = integer_table(warehouse)
        with pytest.raises(UnreadableInputError, match="6 records were read to set the clock by, and then 0"):
            table.load(arrow_batch(BATCH).to_reader())
        assert (version_of(table), data_files(table)) == (0, [])
        assert table.load(arrow_batch(BATCH).to_reader(), at=5).admitted == 5

    def test_without_a_record_that_is_kept_it_needs_a_time(self, warehouse: Warehouse) -> None:
        table = integer_table(warehouse)
        with pytest.raises(UsageError, match="no record can be kept"):
            table.load(arrow_batch(BATCH[-1:]))
        with pytest.raises(UsageError, match="names no file"):
            table.load([], engine="direct")

    @pytest.mark.parametrize("portion_bytes", [1, 10**6])
    def test_records_go_to_the_cells_of_their_own_slots(self, portion_bytes: int, warehouse: Warehouse) -> None:
        table = integer_table(warehouse, grid="3x3", policy="round-robin", strategy="norebuild")
        rows = [Record(i, f"k{i % 3}", 1 + i % 5, 6 + i % 2) for i in range(30)]
        assert in_portions(table, arrow_batch(rows), at=5, portion_bytes=portion_bytes, first=True).admitted == 30

        slots = {(f.cell.group, s) for f in table.table.snapshot().files for s in range(f.min_ins, f.max_ins + 1)}
        grid = table.table.snapshot().spec.grid
        assert {(grid.groups.partition(s), s) for s in range(1, 6)} <= slots
        assert scanned_ids(table) == list(range(30))


class TestEngine:
    def test_direct_reads_text_too_and_knows_it_again_in_every_format(
        self, warehouse: Warehouse, tmp_path: Path
    ) -> None:
        table = integer_table(warehouse)
        files = [write_batch(tmp_path / f"b.{form}", BATCH) for form in ("csv", "jsonl", "csv.gz", "parquet")]
        first = table.update(files[0], at=5, engine="direct")

        assert (first.received, first.repeated) == (len(BATCH), 0)
        for file in files:
            assert table.update(file, engine="direct").already_applied

    def test_dates_of_the_calendar_of_spark_2_are_left_to_spark(self, warehouse: Warehouse, tmp_path: Path) -> None:
        table = integer_table(warehouse)
        for notes in ({"org.apache.spark.version": "2.4.8"}, {"org.apache.spark.legacyDateTime": ""}):
            file = written(tmp_path / "b.parquet", arrow_batch(BATCH).replace_schema_metadata(notes))
            with pytest.raises(UnreadableInputError, match="calendar"):
                table.update(file, at=5, engine="direct")

    def test_an_engine_that_is_none_is_refused(self, warehouse: Warehouse, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="engine is 'fast'; it must be one of spark, direct, auto"):
            integer_table(warehouse).update(write_batch(tmp_path / "b.parquet", BATCH), at=5, engine="fast")

    @pytest.mark.parametrize("value", [5, {"a": 1}, [1, 2], object()])
    def test_what_is_no_batch_is_refused(self, value: Any, warehouse: Warehouse) -> None:
        with pytest.raises(UsageError, match="cannot be read; pass paths, a Spark DataFrame, or Arrow data"):
            integer_table(warehouse).update(value, at=5)


def test_every_type_survives_unchanged(warehouse: Warehouse, tmp_path: Path) -> None:
    schema = (
        "id BIGINT, key STRING, inserted BIGINT, expires BIGINT, text STRING, bytes BINARY, money DECIMAL(38,10), day DATE, "
        "moment TIMESTAMP, flag BOOLEAN, tiny TINYINT, single FLOAT, list ARRAY<STRING>, "
        "tree STRUCT<n:INT,inner:STRUCT<t:TIMESTAMP,l:ARRAY<INT>>>, lookup MAP<STRING,INT>"
    )
    moment = datetime(2013, 3, 10, 7, 30, 0, 123456, tzinfo=UTC)
    full: dict[str, Any] = {
        "text": 'a "b"\n', "bytes": bytes(range(256)), "money": Decimal("-1234567890123456789012345678.0123456789"),
        "day": date(1, 1, 1), "moment": moment, "flag": True, "tiny": -128, "single": math.inf, "list": ["", None],
        "tree": {"n": None, "inner": {"t": moment, "l": [1, None]}}, "lookup": [("a", 1), ("", None)],
    }  # fmt: skip
    rows = [
        {"id": i, "key": "k", "inserted": 5, "expires": 8} | values
        for i, values in enumerate([full, dict.fromkeys(full)])
    ]
    for way in ("arrow", "file"):
        table = integer_table(warehouse, way, schema=schema)
        columns = table.table.snapshot().spec.columns
        batch = pa.Table.from_pylist(rows, schema=pa.schema(list(arrow_schema(columns))[: len(columns)]))
        assert (
            table.update(
                batch if way == "arrow" else written(tmp_path / "b.parquet", batch), at=5, engine="direct"
            ).admitted
            == 2
        )

        assert scanned(table) == batch.to_pylist()


def test_the_same_cells_are_written_sorted_whatever_the_portions(warehouse: Warehouse) -> None:
    """Each run is in the order of key and expiration, and lies in the cell of its slots."""
    table = integer_table(warehouse, grid="2x3", policy="round-robin", strategy="norebuild")
    rows = [Record(i, f"k{(i * 7) % 11}", 5, 6 + (i * 5) % 6) for i in range(200)]
    in_portions(table, arrow_batch(rows), at=5, portion_bytes=2000)
    grid = table.table.snapshot().spec.grid
    found: Counter[int] = Counter()
    for file in table.table.snapshot().files:
        run = pq.ParquetFile(table.table.folder / file.path).read().to_pylist()
        order = [(row["key"], row["_exp_slot"]) for row in run]
        assert order == sorted(order)
        assert {grid.cohorts.partition(row["_exp_slot"]) for row in run} == {file.cell.cohort}
        found.update(row["id"] for row in run)
    assert found == Counter(range(200))


def test_a_refused_record_with_a_time_after_the_year_9999_is_quarantined(tmp_path: Path) -> None:
    """Its text could not be made, and the whole batch failed."""
    far = pa.scalar(8 * 10**17, pa.timestamp("us", "UTC"))
    columns = "key STRING, came TIMESTAMP, goes TIMESTAMP"
    table = open_warehouse(tmp_path / "w").create(
        "far", schema=columns, key=["key"], inserted="came", expires="goes", tick="1h", span="6h"
    )
    batch = pa.table({"key": ["a"], "came": pa.array([far]), "goes": pa.array([far])})

    report = table.update(batch, at="2026-01-01T05:00:00Z")

    assert (report.received, report.quarantined) == (1, 1)
    (refused,) = table.quarantine().records
    assert "27320" in str(refused.record)


def test_a_lazy_frame_of_polars_is_a_batch(warehouse: Warehouse) -> None:
    table = integer_table(warehouse)
    lazy = pl.from_arrow(arrow_batch(BATCH)).lazy()
    assert table.update(lazy, at=5).admitted == 5
    assert table.update(arrow_batch(BATCH)).already_applied


def test_a_frame_of_pandas_with_values_of_several_types_names_the_column(warehouse: Warehouse) -> None:
    table = integer_table(warehouse)
    frame = pd.DataFrame({"id": [1, "x"], "key": ["a", "b"], "inserted": [5, 5], "expires": [8, 8]})
    with pytest.raises(UnreadableInputError) as caught:
        table.update(frame, at=5)

    assert str(caught.value).startswith("the DataFrame: it cannot be read (Could not convert 'x' with type str")
    assert str(caught.value).endswith(
        "Conversion failed for column id with type object); nothing was changed; give each column one type"
    )
