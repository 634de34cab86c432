"""Ctrl-C, SIGTERM and a JVM that dies under a query: one line, the right exit code, the table as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.builders import integer_table, open_warehouse, records, scanned_ids, write_batch
from tests.crash.processes import ROOT, Process, java_of, until, wait_for_end

_ASK = """
import sys
from pathlib import Path
from ebb.index.errors import WarehouseError
from ebb import Warehouse
from ebb.warehouse.sql.spark import answer

warehouse = Warehouse.open(sys.argv[1])
spark = warehouse.spark(delta=True)
warehouse.register(spark)
print("ASKING", flush=True)
try:
    answer(spark, "select max(id % 7) from range(1000000000000)")
except WarehouseError as error:
    print(f"FAILED {type(error).__name__}: {error}", flush=True)
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_update_says_so_and_leaves_the_table_as_it_was(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"))
    table.update(at=1)
    file = write_batch(tmp_path / "b.parquet", records(*[(i, f"k{i}", 2, 5) for i in range(100)]))
    files = sorted(os.listdir(table.table.folder))
    command = ["-m", "ebb.cli.main", "--warehouse", str(tmp_path / "w"), "update", "t", str(file), "--at", "2"]
    process = Process([*command, "--conf", "spark.driver.memory=1g"])
    until(lambda: list(table.table.folder.glob("u2-*")) or process.process.poll(), what="a staging folder")
    java = java_of(process.process.pid)
    time.sleep(0.3)

    process.process.send_signal(number)

    assert process.end(20) == code
    assert process.errors == ["ebb: interrupted; table t is as it was, at version 1"]
    assert not process.lines
    assert table.table.snapshot().version == 1
    wait_for_end(java)
    assert sorted(os.listdir(table.table.folder)) == files


def test_an_interruption_before_spark_has_started_leaves_the_table_as_it_was(tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"))
    table.update(at=1)
    file = write_batch(tmp_path / "b.parquet", records((1, "a", 2, 5)))
    process = Process(["-m", "ebb.cli.main", "--warehouse", str(tmp_path / "w"), "update", "t", str(file), "--at", "2"])
    java = until(lambda: java_of(process.process.pid), what="a JVM")

    process.process.send_signal(signal.SIGTERM)

    assert process.end(20) == 143
    assert process.errors == ["ebb: interrupted; table t is as it was, at version 1"]
    wait_for_end(java)
    assert scanned_ids(table) == []


def test_a_jvm_that_dies_under_a_query_is_a_typed_error_within_ten_seconds(tmp_path: Path) -> None:
    integer_table(open_warehouse(tmp_path / "w")).update(at=1)
    process = Process(["-c", _ASK, str(tmp_path / "w")])
    assert process.heard("ASKING") == "ASKING", process.errors
    time.sleep(1)

    process.kill("jvm")

    answer = process.heard("FAILED", seconds=10)
    assert answer.startswith("FAILED EngineError: the query failed: Spark's Java process is gone"), process.errors
    assert process.end() == 0
    assert "Traceback" not in "\n".join(process.errors)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_running_ebb_ends_when_it_is_told_to(number: signal.Signals, code: int, tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"), landing=str(tmp_path / "landing"))
    table.update(at=1)
    process = Process(["-m", "ebb.cli.main", "--warehouse", str(tmp_path / "w"), "run"])
    Path(tmp_path, "landing", "2.csv").write_text("a,b\n", encoding="utf-8")
    until(lambda: process.errors, what="the file that is refused")

    process.process.send_signal(number)

    assert process.end(10) == code
    assert process.errors[-1] == "ebb: interrupted"
    assert "Traceback" not in "".join(process.errors)


_ASKED_WHILE_DYING = """
import os, signal, sys
from ebb.index.errors import EngineError
from ebb import Warehouse
from pyspark import SparkContext
from ebb.warehouse.spark import session

warehouse = Warehouse.open(sys.argv[1])
warehouse.spark()
os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
look, session.is_dead = session.is_dead, lambda wait=0.0: bool(wait) and look(wait)  # nobody has noticed yet
try:
    warehouse.spark()
except EngineError as error:
    print(error)
session.is_dead = look
print(warehouse.spark().range(3).count())
"""


def test_a_jvm_that_dies_when_it_is_asked_for_is_told_and_the_next_one_started(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _ASKED_WHILE_DYING, str(tmp_path)]

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=ROOT)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "3"
    assert "Java process is gone" in done.stdout
