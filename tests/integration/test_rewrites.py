"""Rewrites of many bytes are jobs of Spark, and write the same files as a thread of this process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ebb import OpenTable, Warehouse
from ebb.index.cellfile import CellFile, Rewrite
from ebb.index.errors import CorruptionError, EngineError
from ebb.maintenance.upkeep import seal
from ebb.warehouse.spark.rewrite import rewrite
from ebb.warehouse.store.paths import footer_hash_in
from tests.builders import data_files, integer_table, scanned
from tests.direct import apply
from tests.runs import SMALL

BY_SPARK = replace(SMALL, in_process_bytes=0)
CLOCK = 5


@pytest.fixture
def table(warehouse: Warehouse) -> OpenTable:
    """Return a table whose cells hold several runs each, with expired records among them."""
    made = integer_table(
        warehouse, grid="2x3", policy="4x3", strategy="norebuild", deletion_bound="9"
    )  # seals nothing by itself
    for slot in range(1, CLOCK + 1):
        rows = [
            {"id": 100 * slot + n, "key": f"k{n % 17}", "inserted": slot, "expires": slot + 1 + n % 6, "pay": "p" * n}
            for n in range(60)
        ]
        apply(made, slot, rows, SMALL)
    return made


def tasks_of(table: OpenTable) -> tuple[Rewrite, ...]:
    """Return rewrites of every cell that has several files."""
    cells: dict[Any, list[CellFile]] = {}
    for file in table.table.snapshot().files:
        cells.setdefault(file.cell, []).append(file)
    tasks = tuple(Rewrite(cell=c, inputs=tuple(files), clock=CLOCK) for c, files in cells.items() if len(files) > 1)
    assert len(tasks) > 2
    return tasks


def no_spark() -> Any:
    pytest.fail("this is little enough for one process")


def contents(files: list[CellFile]) -> list[tuple[Any, ...]]:
    """Return what the files are but for their names; the hash of a footer stands for every byte."""
    return sorted((f.cell, footer_hash_in(f.path), f.size_bytes, f.records, f.min_exp, f.max_exp) for f in files)


def test_both_ways_write_the_same_files(table: OpenTable, spark: Any) -> None:
    snapshot, tasks = table.table.snapshot(), tasks_of(table)

    _, here = rewrite(snapshot, tasks, clock=CLOCK, spark=no_spark, sizes=SMALL)
    _, there = rewrite(snapshot, tasks, clock=CLOCK, spark=lambda: spark, sizes=BY_SPARK)

    assert len(here.files) > len(tasks), "some runs have several files"
    assert contents(here.files) == contents(there.files)
    assert not {f.path for f in here.files} & {f.path for f in there.files}


def test_a_seal_by_spark_changes_no_answer(table: OpenTable, spark: Any) -> None:
    before = scanned(table)
    context = replace(table.warehouse.context(), sizes=BY_SPARK, spark=lambda: spark)

    with table.table.lock():
        after, report = seal(table.table.snapshot(), context)

    assert report.files_removed > report.cells_touched > 0
    assert scanned(table) == before
    assert set(after.files) == set(table.table.snapshot().files)


def test_a_damaged_file_is_named_by_a_rewrite_through_spark_as_by_any_other(table: OpenTable, spark: Any) -> None:
    """It came as a line of a task's traceback."""
    snapshot, tasks = table.table.snapshot(), tasks_of(table)
    victim = Path(table.table.folder, tasks[0].inputs[0].path)
    data = bytearray(victim.read_bytes())
    data[10] ^= 255
    victim.write_bytes(data)
    files = data_files(table)
    errors = []
    for sizes, session in ((SMALL, no_spark), (BY_SPARK, lambda: spark)):
        with pytest.raises(CorruptionError, match=r"^a data file is damaged: .*are not those written") as caught:
            rewrite(snapshot, tasks, clock=CLOCK, spark=session, sizes=sizes)
        errors.append(str(caught.value))

    assert errors[0] == errors[1]
    assert data_files(table) == files, "nothing is left of either"


def test_a_rewrite_through_spark_that_cannot_write_says_why(table: OpenTable, spark: Any) -> None:
    """A file stands where a task wants a folder."""
    snapshot, tasks = table.table.snapshot(), tasks_of(table)

    def meanwhile() -> Any:
        (folder,) = (p for p in table.table.folder.iterdir() if p.name.startswith("r"))
        for task in tasks:
            (folder / f"_g={task.cell.group}").touch()
        return spark

    with pytest.raises(EngineError, match=r"^the rewriting failed: .*File exists.*; nothing was changed"):
        rewrite(snapshot, tasks, clock=CLOCK, spark=meanwhile, sizes=BY_SPARK)

    assert not [path for path in data_files(table) if path.startswith("r")]
