"""Sealing a group: merged as Ebb does it, and decoded, sorted and written again, which is what it takes without copying.

Both write the same records of the same cells, one after the other and in turns; the answers are compared before they are timed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bench.contestants import RETIRE, Ebb
from bench.measure import BATCHES, Recorder, median, say, timed
from bench.workloads import Workload
from ebb.index.cellfile import Rewrite
from ebb.index.columns import EXPIRES_SLOT
from ebb.maintenance.plan.change import by_cell
from ebb.warehouse.parquet.arrow import arrow_schema
from ebb.warehouse.parquet.chunks import read_row_groups
from ebb.warehouse.parquet.datafile import DataFile
from ebb.warehouse.parquet.merge import merge_runs
from ebb.warehouse.parquet.writer import Layout, RunWriter, Written

__all__ = ["MERGED", "SORTED", "seals"]

MERGED, SORTED = "merged", "decoded and sorted"
TICKS = 5  # of a group of six: the sixth would seal it
TURNS = 3


def seals(workload: Workload, root: Path, recorder: Recorder) -> None:
    """Merge the runs of a group that is nearly complete, as Spark took them in: without a JVM, portions are smaller."""
    entrant = Ebb("seals", root, workload, **RETIRE)
    for slot in range(1, TICKS + 1):
        entrant.update(workload.batch(slot, BATCHES), slot)
    snapshot = entrant.table.table.snapshot()
    cells = by_cell(snapshot.files).items()
    tasks = [Rewrite(cell=cell, inputs=tuple(files), clock=TICKS) for cell, files in cells]
    folder = snapshot.table.folder
    layout = Layout(arrow_schema(snapshot.spec.columns), snapshot.spec.key, str(folder), "r0-bench")
    ways: dict[str, Callable[[Layout, Rewrite], Written]] = {MERGED: merge_runs, SORTED: _sorted_again}
    records = {
        way: sum(f.records for task in tasks for f in _fresh(layout, work, task).files) for way, work in ways.items()
    }
    assert len(set(records.values())) == 1, records
    size_bytes = sum(task.size_bytes for task in tasks)
    for turn in range(TURNS):
        for way, work in ways.items():
            seconds, _ = timed(lambda: [_fresh(layout, work, task) for task in tasks])  # noqa: B023 - called at once
            recorder.add(
                kind="seal",
                workload=workload.name,
                keys=workload.keys,
                way=way,
                turn=turn,
                seconds=seconds,
                bytes=size_bytes,
            )
    for way in ways:
        taken = [
            r["seconds"] for r in recorder.rows if r["kind"] == "seal" and (r["way"], r["keys"]) == (way, workload.keys)
        ]
        say(f"  a group of {size_bytes / 1e6:.0f} MB with {workload.keys:,} keys, {way}: {median(taken):.2f} s")


def _fresh(layout: Layout, work: Callable[[Layout, Rewrite], Written], task: Rewrite) -> Written:
    """Do it into a folder that is empty."""
    folder = Path(layout.table, layout.folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return work(layout, task)


def _sorted_again(layout: Layout, task: Rewrite) -> Written:
    """Read everything, sort it as if nothing were known about its order, and write it."""
    sources = [DataFile.open(layout.table, file) for file in task.inputs]
    tables: list[Any] = [read_row_groups([(s, range(s.row_groups))], layout.schema.names) for s in sources]
    order = [(name, "ascending") for name in (*layout.key, EXPIRES_SLOT)]
    writer = RunWriter(layout, task.cell)
    live = pa.concat_tables(tables).combine_chunks()
    writer.add(live.filter(pc.greater(live[EXPIRES_SLOT], task.clock)).sort_by(order))
    return writer.close()
