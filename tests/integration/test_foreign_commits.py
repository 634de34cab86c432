"""Spark writes to our tables as anybody's session would: noticed, told, adopted, and the windows are the model's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ebb
from ebb import OpenTable
from tests.builders import arrow_batch, integer_table, open_warehouse, scanned_ids
from tests.foreign import filled
from tests.model import Model, Record

Deed = Callable[[Any, OpenTable, Model], None]


def ask(spark: Any, table: OpenTable, text: str) -> Any:
    """Let Spark do something to a table, which the text calls @."""
    return spark.sql(text.replace("@", f"delta.`{table.table.folder.resolve()}`"))


def delete(spark: Any, table: OpenTable, model: Model) -> None:
    ask(spark, table, "DELETE FROM @ WHERE id % 10 = 3")
    model.kept = [record for record in model.kept if record.id % 10 != 3]


def optimize(spark: Any, table: OpenTable, model: Model) -> None:
    ask(spark, table, "DELETE FROM @ WHERE id = 44")
    ask(spark, table, "INSERT INTO @ SELECT * FROM @ WHERE id = 43")
    ask(spark, table, "OPTIMIZE @")
    model.kept = [record for record in model.kept if record.id != 44]
    model.kept += [record for record in model.kept if record.id == 43]


def zorder(spark: Any, table: OpenTable, model: Model) -> None:
    ask(spark, table, "INSERT INTO @ SELECT * FROM @ WHERE id = 42")
    ask(spark, table, "OPTIMIZE @ ZORDER BY (_exp_slot)")
    model.kept += [record for record in model.kept if record.id == 42]


def update_payload(spark: Any, table: OpenTable, model: Model) -> None:
    ask(spark, table, "UPDATE @ SET pay = 'corrected' WHERE id > 20")


def restore(spark: Any, table: OpenTable, model: Model) -> None:
    version = ask(spark, table, "DESCRIBE HISTORY @").first()["version"]
    ask(spark, table, "DELETE FROM @")
    ask(spark, table, "RESTORE TABLE @ TO VERSION AS OF " + str(version))


DEEDS: dict[str, Deed] = {
    "DELETE": delete, "OPTIMIZE": optimize, "ZORDER": zorder, "UPDATE": update_payload, "RESTORE": restore,
}  # fmt: skip


@pytest.fixture
def table(tmp_path: Path) -> OpenTable:
    return integer_table(
        open_warehouse(tmp_path / "w"), grid="3x5", policy="3x2", strategy="retire", deletion_bound="6", reader_time="1"
    )


@pytest.mark.parametrize("deed", sorted(DEEDS))
def test_what_spark_did_is_noticed_refused_told_and_adopted(spark: Any, table: OpenTable, deed: str) -> None:
    model = filled(table)
    DEEDS[deed](spark, table, model)
    window = sorted(record.id for record in model.window())

    status = table.status()
    with pytest.raises(ebb.ForeignCommitError):
        table.update(at=5)
    with pytest.warns(ebb.ForeignCommitWarning):
        assert scanned_ids(table) == window
    with pytest.warns(ebb.ForeignCommitWarning):
        table.warehouse.register(spark)
    assert spark.sql("SELECT id FROM t").count() == len(window) == status.live_records
    told = table.adopt()

    assert [commit.version for commit in told.commits] == [commit.version for commit in status.foreign_commits]
    assert told.live == len(window)
    for slot in range(5, 12):
        assert scanned_ids(table) == sorted(record.id for record in model.window())
        batch = [Record(100 * slot + n, f"k{n}", slot, slot + 1 + n) for n in range(3)]
        outcome = model.apply(slot, batch)
        report = table.update(arrow_batch(batch), at=slot)
        assert (report.expired, report.live, report.warnings) == (outcome.expired, len(model.window()), ())


def test_spark_may_vacuum_and_set_properties_of_delta(spark: Any, table: OpenTable) -> None:
    model = filled(table)
    ask(spark, table, "ALTER TABLE @ SET TBLPROPERTIES ('delta.logRetentionDuration' = 'interval 9 days')")
    ask(spark, table, "VACUUM @")

    assert table.status().foreign_commits == ()
    assert scanned_ids(table) == sorted(record.id for record in model.window())
    assert table.update(at=5).expired == model.apply(5, []).expired


def test_an_expiration_time_that_spark_changed_is_not_adopted(spark: Any, table: OpenTable) -> None:
    filled(table)
    ask(spark, table, "UPDATE @ SET expires = expires + 1 WHERE id = 41")

    with pytest.raises(ebb.AdoptionError, match="another _exp_slot than that of its expiration time"):
        table.adopt()


def test_deletion_vectors_are_refused_instead_of_answered_wrongly(spark: Any, table: OpenTable) -> None:
    filled(table)
    ask(spark, table, "ALTER TABLE @ SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    ask(spark, table, "DELETE FROM @ WHERE id % 10 = 3")

    for work in (OpenTable.scan, OpenTable.status, OpenTable.adopt, OpenTable.update):
        with pytest.raises(ebb.ProtocolError, match="deletionVectors"):
            work(table)


def test_timestamps_of_spark_are_adopted(spark: Any, tmp_path: Path) -> None:
    """Spark writes them as INT96."""
    from datetime import timedelta

    import pyarrow as pa

    from tests.builders import NOW, timestamp_table

    table = timestamp_table(open_warehouse(tmp_path / "w", NOW), reader_time="1h")
    kind = pa.timestamp("us", "UTC")
    schema = pa.schema([("id", pa.int64()), ("key", pa.string()), ("inserted", kind), ("expires", kind)])
    rows = [
        {"id": n, "key": f"k{n % 3}", "inserted": NOW - timedelta(minutes=9), "expires": NOW + timedelta(minutes=50 * n, microseconds=n)}
        for n in range(1, 6)
    ]  # fmt: skip
    table.update(pa.Table.from_pylist(rows, schema), at=NOW)
    ask(spark, table, "DELETE FROM @ WHERE id = 2")
    ask(spark, table, "INSERT INTO @ SELECT * FROM @ WHERE id = 4")

    told = table.adopt()

    assert (told.live_before, told.live) == (5, 5)
    assert [row["id"] for row in sorted(table.scan().read_all().to_pylist(), key=lambda row: row["id"])] == [
        1,
        3,
        4,
        4,
        5,
    ]
    assert {row["expires"] for row in table.probe("k1").to_pylist()} == {rows[0]["expires"], rows[3]["expires"]}
