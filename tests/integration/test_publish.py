"""A view that one process publishes and another one reads, through a catalog that outlives both."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ebb import UsageError, Warehouse
from ebb.warehouse.settings import Settings
from tests.builders import timestamp_table

_ROOT = Path(__file__).parents[2]
_TIMES = pa.timestamp("us", "UTC")
# Another process, which knows nothing of the table but the view: it asks, lets the table be updated, and asks again.
_READER = """
import json, sys
from datetime import datetime, timedelta, timezone
import pyarrow as pa
import ebb

conf, root, tick = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
spark = ebb.open("elsewhere", conf=conf).spark(delta=True)
ask = lambda: sorted(row["id"] for row in spark.sql("SELECT id FROM web.live").collect())
told = [ask()]
now, times = datetime.now(timezone.utc), pa.timestamp("us", "UTC")
came, dies = pa.array([now - timedelta(hours=3.5)], times), pa.array([now + timedelta(hours=1)], times)
ebb.open(root).table("visits").update(pa.table({"id": [4], "key": ["k"], "inserted": came, "expires": dies}), at=tick)
told.append(ask())
print(json.dumps(told))
"""


def test_a_view_is_published_by_one_process_and_stays_true_in_another(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    table = timestamp_table(Warehouse(Settings(warehouse=tmp_path / "w")), "visits")
    came = pa.array([now - timedelta(hours=4)] * 3, _TIMES)
    dies = pa.array([now - timedelta(minutes=5), now + timedelta(minutes=50), now + timedelta(hours=1)], _TIMES)
    batch = {"id": [1, 2, 3], "key": ["k"] * 3, "inserted": came, "expires": dies}
    table.load(pa.table(batch), at=now - timedelta(hours=3))
    assert table.scan().read_all().num_rows == 3, "the clock has not passed the first one yet"
    conf = [
        "spark.sql.catalogImplementation=hive",
        f"spark.hadoop.javax.jdo.option.ConnectionURL=jdbc:derby:;databaseName={tmp_path}/metastore;create=true",
        f"spark.sql.warehouse.dir={tmp_path}/spark-warehouse",
        f"spark.driver.extraJavaOptions=-Dderby.stream.error.file={tmp_path}/derby.log",
    ]
    options = [part for pair in conf for part in ("--conf", pair)]
    ebb = [sys.executable, "-m", "ebb.cli.main", "--warehouse", str(tmp_path / "w")]

    def run(*command: str) -> str:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=tmp_path, env=_environment(), timeout=300
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    missing = subprocess.run(
        [*ebb, "publish", "visits", "--spark", "--database", "web", *options],
        capture_output=True, text=True, check=False, cwd=tmp_path, env=_environment(), timeout=300,
    )  # fmt: skip
    assert missing.returncode == 2
    assert missing.stderr.startswith("ebb: view web.visits cannot be created: [SCHEMA_NOT_FOUND]")
    assert missing.stderr.count("\n") == 1
    run(sys.executable, "-c", _DATABASE, json.dumps(conf))
    told = run(*ebb, "publish", "visits", "--spark", "--database", "web", "--as", "live", *options)
    assert told == "view web.live shows what has not expired of table visits, whenever it is asked\n"

    asked = run(sys.executable, "-c", _READER, json.dumps(conf), str(tmp_path / "w"), str(now - timedelta(hours=2)))

    assert json.loads(asked) == [[2, 3], [2, 3, 4]]


_DATABASE = """
import json, sys
import ebb

ebb.open("elsewhere", conf=json.loads(sys.argv[1])).spark(delta=True).sql("CREATE DATABASE web")
"""


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(_ROOT)}


def test_a_catalog_in_memory_is_refused_in_one_line_that_says_what_to_set(tmp_path: Path, spark: Any) -> None:
    table = timestamp_table(Warehouse(Settings(warehouse=tmp_path / "w")), "visits")

    with pytest.raises(UsageError) as caught:
        table.publish(spark)

    assert str(caught.value) == (
        "Spark's catalog is in memory, and a view in it would end with this session; "
        "set spark.sql.catalogImplementation to hive, before Spark starts"
    )
    assert caught.value.hint == "catalog"


def test_the_lasting_query_shows_what_has_not_expired_by_now(tmp_path: Path, spark: Any) -> None:
    now = datetime.now(UTC)
    table = timestamp_table(Warehouse(Settings(warehouse=tmp_path / "w")), "visits")
    came = pa.array([now - timedelta(hours=4)] * 2, _TIMES)
    dies = pa.array([now - timedelta(minutes=5), now + timedelta(minutes=50)], _TIMES)
    table.load(
        pa.table({"id": [1, 2], "key": ["k"] * 2, "inserted": came, "expires": dies}), at=now - timedelta(hours=3)
    )

    shown = [row["id"] for row in spark.sql(table.window_sql(lasting=True)).collect()]

    assert shown == [2]
    assert sorted(row["id"] for row in spark.sql(table.window_sql()).collect()) == [1, 2]
    day = now.date()
    stays = timestamp_table(
        table.warehouse, "stays", schema="id BIGINT, key STRING, inserted DATE, expires DATE", tick="1d", span="9d"
    )
    days = [day + timedelta(days=n) for n in (-1, 0, 1, 2)]
    stays.load(pa.table({"id": [-1, 0, 1, 2], "key": ["k"] * 4, "inserted": [day - timedelta(days=4)] * 4, "expires": days}), at=day - timedelta(days=3))  # fmt: skip
    assert sorted(row["id"] for row in spark.sql(stays.window_sql(lasting=True)).collect()) == [1, 2]
    assert sorted(stays.scan(as_of="now").read_all()["id"].to_pylist()) == [1, 2]
