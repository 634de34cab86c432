"""Other engines: whatever reads Delta tables reads ours, sees the same window, and finds no key in the log."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ebb import OpenTable, Warehouse
from ebb.cli.main import main
from ebb.index.grid import Cell
from ebb.warehouse.sql.spark import window_sql
from tests.builders import (
    SCHEMA,
    arrow_batch,
    data_files,
    integer_table,
    open_warehouse,
    scanned,
    scanned_ids,
    write_batch,
)
from tests.model import Record

STRATEGIES: dict[str, dict[str, str]] = {
    "rebuild": {"grid": "3x3"},
    "norebuild": {"grid": "3x3", "deletion_bound": "12"},
    "retire": {"grid": "4x4", "deletion_bound": "8"},
}
CANARY = "canary"


def _batch(slot: int) -> list[Record]:
    return [Record(100 * slot + i, f"{CANARY}{i % 4}", slot, slot + 1 + i) for i in range(6)]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> Warehouse:
    """Return a warehouse with one table per strategy, each with loads, updates, seals and expired records behind it."""
    folder = tmp_path_factory.mktemp("engines")
    warehouse = open_warehouse(folder / "w")
    for strategy, wish in STRATEGIES.items():
        table = integer_table(warehouse, strategy, strategy=strategy, **wish)
        table.load(write_batch(folder / "load.parquet", [*_batch(3), *_batch(4)]), at=4)
        for slot in (5, 6, 7):
            table.update(write_batch(folder / f"{slot}.parquet", _batch(slot)), at=slot)
        table.seal()
        table.update(at=8)
    return warehouse


def _window(clock: int = 8) -> list[int]:
    records = [r for slot in range(3, 8) for r in _batch(slot)]
    return sorted(r.id for r in records if r.expires is not None and r.expires > clock)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_spark_sees_the_window_that_scan_sees_through_a_view_and_by_the_path(
    strategy: str, warehouse: Warehouse, spark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    table = warehouse.table(strategy)
    warehouse.register(spark)
    rows = scanned(table)
    assert [row["id"] for row in rows] == _window()

    assert [row.asDict() for row in spark.sql(f"SELECT * FROM {strategy} ORDER BY id").collect()] == rows  # noqa: S608
    by_path = spark.sql(window_sql(table.table.snapshot())).orderBy("id").collect()
    assert [row.asDict() for row in by_path] == rows
    query = f"SELECT key, count(*) AS n FROM {strategy} WHERE key = 'canary1' GROUP BY key"  # noqa: S608
    assert main(["--warehouse", str(warehouse.root), "sql", query, "--format", "jsonl"]) == 0
    wanted = {"key": "canary1", "n": sum(row["key"] == "canary1" for row in rows)}
    assert json.loads(capsys.readouterr().out) == wanted


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_delta_spark_describes_our_tables_and_would_vacuum_nothing_live(
    strategy: str, warehouse: Warehouse, spark: Any
) -> None:
    table = warehouse.table(strategy)
    snapshot = table.table.snapshot()
    name = f"delta.`{table.table.folder}`"
    detail = spark.sql(f"DESCRIBE DETAIL {name}").first()
    history = spark.sql(f"DESCRIBE HISTORY {name}").collect()
    doomed = [row[0] for row in spark.sql(f"VACUUM {name} DRY RUN").collect()]

    assert (detail["format"], detail["minReaderVersion"], detail["minWriterVersion"]) == ("delta", 1, 2)
    assert (detail["numFiles"], detail["partitionColumns"]) == (len(snapshot.files), ["_gen", "_g", "_e"])
    assert detail["sizeInBytes"] == sum(file.size_bytes for file in snapshot.files)
    assert [row["version"] for row in history] == list(range(snapshot.version, -1, -1))
    assert {row["operation"] for row in history} >= {"CREATE TABLE", "WRITE"}
    assert not [path for path in doomed if any(path.endswith(file.path) for file in snapshot.files)]
    assert scanned_ids(table) == _window()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_count_of_spark_is_the_count_of_records_that_are_stored(
    strategy: str, warehouse: Warehouse, spark: Any
) -> None:
    """Expired records that wait in a file are there for whoever reads without the condition: no more, no fewer."""
    table = warehouse.table(strategy)
    stored = sum(file.records for file in table.table.snapshot().files)
    frame = spark.read.format("delta").load(str(table.table.folder))

    assert frame.count() == stored
    assert frame.where("_exp_slot > 8").count() == len(_window())
    cells = {Cell(row["_g"], row["_e"], row["_gen"]) for row in frame.select("_g", "_e", "_gen").distinct().collect()}
    assert cells <= {file.cell for file in table.table.snapshot().files}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_polars_and_duckdb_see_the_same_window(strategy: str, warehouse: Warehouse) -> None:
    import duckdb
    import polars as pl

    table = warehouse.table(strategy)
    rows = scanned(table)
    condition = window_sql(table.table.snapshot()).rpartition(" WHERE ")[2]
    assert condition == "_exp_slot > 8"

    lazy = pl.scan_delta(str(table.table.folder)).filter(pl.sql_expr(condition))
    assert lazy.select("id", "key", "inserted", "expires", "pay").sort("id").collect().to_dicts() == rows
    whole = pl.scan_delta(str(table.table.folder)).collect().to_arrow()
    window = table.scan().read_all()
    with duckdb.connect() as connection:
        connection.register("stored", whole)
        connection.register("shown", window)
        filtered = connection.execute(f"SELECT id FROM stored WHERE {condition} ORDER BY id").fetchall()  # noqa: S608
        shown = connection.execute("SELECT id FROM shown ORDER BY id").fetchall()
    assert filtered == shown == [(row["id"],) for row in rows]


def test_spark_and_polars_still_read_a_table_after_purge_and_erase(tmp_path: Path, spark: Any) -> None:
    import polars as pl

    warehouse = open_warehouse(tmp_path / "w")
    table = integer_table(warehouse, strategy="norebuild", grid="2x2", deletion_bound="12")
    for slot in (5, 6, 7):
        table.update(write_batch(tmp_path / f"{slot}.parquet", _batch(slot)), at=slot)
    pinned = spark.read.format("delta").option("versionAsOf", 3).load(str(table.table.folder)).where("_exp_slot > 7")
    before = scanned_ids(table)
    assert table.purge().files_removed > 0
    assert sorted(row["id"] for row in pinned.collect()) == before  # its files wait for it
    for slot in (8, 9, 10):
        table.update(at=slot)
    table.erase()

    wanted = scanned_ids(table)
    assert sorted(pl.scan_delta(str(table.table.folder)).filter(pl.col("_exp_slot") > 10).collect()["id"]) == wanted
    warehouse.register(spark)
    assert sorted(row["id"] for row in spark.sql("SELECT id FROM t").collect()) == wanted


def _log_bytes(table: OpenTable) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (table.table.folder / "_delta_log").iterdir() if path.is_file()}


def test_no_key_and_no_value_ever_enters_the_log_not_even_a_checkpoint(tmp_path: Path) -> None:
    table = integer_table(
        open_warehouse(tmp_path / "w"), strategy="norebuild", grid="2x2", span="80", deletion_bound="90"
    )
    bad = [Record(9, f"{CANARY}bad", 5, 5), Record(10, f"{CANARY}bad", None, 7)]
    live = [Record(1, f"{CANARY}live", 5, 80), Record(2, f"{CANARY}live", 5, 8), *bad]
    table.update(write_batch(tmp_path / "5.csv", live), at=5)
    for slot in range(6, 58):
        table.update(at=slot)
    table.update(write_batch(tmp_path / "58.csv", [Record(3, f"{CANARY}late", 58, 99)]), at=58)
    table.purge()

    log = _log_bytes(table)
    checkpoints = [name for name in log if "checkpoint" in name and name.endswith(".parquet")]
    assert checkpoints
    for name, content in log.items():
        assert CANARY.encode() not in content, name
    for name in checkpoints:
        text = json.dumps(pq.read_table(table.table.folder / "_delta_log" / name).to_pylist(), default=str)
        assert CANARY not in text
        assert "_exp_slot" in text
    quarantine = [p for p in table.table.quarantine.rglob("*") if p.is_file() and "_delta_log" in p.parts]
    assert quarantine
    assert not [path for path in quarantine if CANARY.encode() in path.read_bytes()]
    assert scanned_ids(open_warehouse(tmp_path / "w").table("t")) == [1, 3]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_log_has_statistics_of_the_two_slots_only_and_each_is_true(strategy: str, warehouse: Warehouse) -> None:
    table = warehouse.table(strategy)
    folder = table.table.folder
    stats: dict[str, dict[str, Any]] = {}
    for entry in sorted((folder / "_delta_log").glob("*.json")):
        for line in entry.read_text().splitlines():
            if add := json.loads(line).get("add"):
                stats[add["path"]] = json.loads(add["stats"])
                assert re.fullmatch(
                    r"[ur]\d+-[0-9a-f]{12}/(\d+/)?_g=\d+/_e=\d+/part-[0-9a-f]{32}-[0-9a-f]{16}\.parquet", add["path"]
                )
    assert stats
    slots = {"_ins_slot", "_exp_slot"}
    for path, told in stats.items():
        assert set(told) == {"numRecords", "minValues", "maxValues", "nullCount"}
        assert set(told["minValues"]) == set(told["maxValues"]) == set(told["nullCount"]) == slots
        if (folder / path).exists():
            stored = pq.ParquetFile(folder / path).read()
            assert told["numRecords"] == stored.num_rows
            for slot in slots:
                values = stored[slot].to_pylist()
                assert (told["minValues"][slot], told["maxValues"][slot]) == (min(values), max(values))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_files_are_sorted_by_key_and_expiration_and_lie_in_their_cell(strategy: str, warehouse: Warehouse) -> None:
    snapshot = warehouse.table(strategy).table.snapshot()
    for file in snapshot.files:
        stored = pq.ParquetFile(snapshot.table.folder / file.path).read().to_pylist()
        order = [(row["key"].encode(), row["_exp_slot"]) for row in stored]
        assert order == sorted(order)
        assert {snapshot.spec.grid.cell_of(row["_ins_slot"], row["_exp_slot"]) for row in stored} == {file.cell}


@pytest.mark.parametrize("is_timed", [True, False])
def test_a_structured_stream_updates_a_table_batch_by_batch(is_timed: bool, tmp_path: Path, spark: Any) -> None:  # noqa: FBT001
    table = integer_table(open_warehouse(tmp_path / "w"))
    table.update(at=4)
    for slot in (5, 6, 7):
        write_batch(tmp_path / "in" / f"{slot}.parquet", _batch(slot))
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    reports = []

    def each(frame: Any, number: int) -> None:
        reports.append(table.update(frame, number, at=5 + number) if is_timed else table.update(frame, number))

    def run(checkpoint: str) -> None:
        query = stream.writeStream.foreachBatch(each).option("checkpointLocation", str(tmp_path / checkpoint))
        assert query.trigger(availableNow=True).start().awaitTermination(120)

    run("first")
    assert [(report.slot, report.admitted) for report in reports] == [(5, 6), (6, 6), (7, 6)]
    wanted = scanned_ids(table)
    # The stream has lost its checkpoint and starts again: every batch is recognised.
    run("second")
    assert [report.already_applied for report in reports[3:]] == [True, True, True]
    assert scanned_ids(table) == wanted
    assert len(data_files(table)) == len(set(data_files(table)))


@pytest.mark.parametrize("folder", ["plain", "odd [1] {a,b} *?"])
def test_spark_sees_the_same_window_whether_files_are_few_or_many_and_whatever_their_folder_is_called(
    folder: str, tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few files are named to Spark one by one; many, and those whose path looks like a pattern, are found by Delta."""
    warehouse = open_warehouse(tmp_path / folder)
    table = integer_table(warehouse, strategy="norebuild", grid="2x2", deletion_bound="9")
    for slot in (1, 2, 3):
        rows = [Record(10 * slot + n, f"k{n}", slot, slot + 1 + n) for n in range(8)]
        table.update(arrow_batch(rows), at=slot)
        if slot == 1:
            table.alter(add_column="more DOUBLE")
    right = sorted(scanned_ids(table))
    assert len(table.at_latest().visible_files()) > 1
    for few in (0, 64):
        monkeypatch.setattr("ebb.warehouse.sql.spark._FEW_FILES", few)
        warehouse.register(spark)

        assert sorted(row["id"] for row in spark.sql("SELECT id FROM t").collect()) == right
        assert spark.table("t").columns == [column.name for column in table.table.snapshot().spec.columns]
        assert spark.sql("SELECT count(*) AS n FROM t WHERE more IS NULL").first()["n"] == len(right)
