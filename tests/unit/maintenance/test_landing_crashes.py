"""A landing folder is finished exactly once, wherever in its files the run before was killed or the disk failed (P33)."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ebb import OpenTable, Warehouse
from ebb.index.errors import WarehouseError
from ebb.maintenance.landing.run import Outcome, run_table
from tests.builders import integer_table, records, scanned_ids, write_batch
from tests.faults import Interruption, armed, broken_disk, full_disk


def run(table: OpenTable) -> list[Outcome]:
    context = replace(table.warehouse.context(), engine="direct")  # without a JVM
    return list(run_table(table.table.snapshot(), context, until=table.warehouse.now()))


def landed(warehouse: Warehouse, at: int) -> tuple[OpenTable, Path]:
    """Return a table with files for two ticks: a batch left by a killed run, a good and a bad file; a good one."""
    landing = warehouse.root.parent / f"landing{at}"
    table = integer_table(warehouse, f"t{at}", landing=str(landing), quarantine_time="9")
    write_batch(landing / "_taken/1.part/1-a.parquet", records((10, "a", 1, 7)))
    write_batch(landing / "1-a.parquet", records((11, "b", 1, 7)))
    (landing / "1-bad.csv").write_text("wrong\n", encoding="utf-8")
    write_batch(landing / "2-a.parquet", records((20, "a", 2, 7)))
    return table, landing


@pytest.mark.parametrize("error", [Interruption, full_disk, broken_disk])
def test_a_run_that_breaks_off_anywhere_is_finished_exactly_once(
    error: Callable[[], BaseException], warehouse: Warehouse, record_property: Callable[[str, object], None]
) -> None:
    """Of a batch that was applied, a file that had not been put away yet was taken for a late one, and applied twice."""
    for at in itertools.count():
        table, landing = landed(warehouse, at)
        with armed(landing, error(), at) as fault, contextlib.suppress(Interruption, WarehouseError):
            run(table)
        name = (
            "1-z.parquet" if (landing / "1-a.parquet").exists() else "1-a.parquet"
        )  # used again as soon as it is free
        write_batch(landing / name, records((30, "c", 1, 7)))
        again = [outcome for _ in range(2) for outcome in run(table)]

        assert not [outcome for outcome in again if outcome.is_stopped], fault.seen
        assert scanned_ids(table) == [10, 11, 20, 30], fault.seen
        assert sum(row.admitted or 0 for row in table.history()) == 4, fault.seen
        files = [path.relative_to(landing) for path in landing.rglob("*.*") if path.is_file() and path.name[0] != "_"]
        assert sorted(path.parts[0] for path in files) == ["_applied"] * 4 + ["_refused"], fault.seen
        assert not list((landing / "_taken").iterdir())
        if len(fault.seen) <= at:
            break
    assert at > 15
    record_property("figures", f"landing folders: {at} places broken by {error.__name__}, every file applied once")
