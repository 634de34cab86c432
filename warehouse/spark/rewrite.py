"""Carrying out rewrites: merging sorted runs, in this process when they are small, as a Spark job when they are not.

Both ways run the same function over the same files. A merge needs no shuffle, because a cell is merged where it is
read, and no JVM at all for as much as a tick usually touches.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from ebb.index.cellfile import Rewrite
from ebb.index.errors import WarehouseError
from ebb.warehouse.parquet.arrow import arrow_schema
from ebb.warehouse.parquet.merge import merge_runs
from ebb.warehouse.parquet.sizes import WriteSizes
from ebb.warehouse.parquet.writer import Layout, Written
from ebb.warehouse.spark.errors import dump_error, load_error, spark_errors
from ebb.warehouse.store.errors import disk_error
from ebb.warehouse.store.files import absolute, make_folder, remove_all_but, remove_folder
from ebb.warehouse.store.paths import rewrite_folder
from ebb.warehouse.table.snapshot import Snapshot

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["rewrite"]

_FAILED = "the rewriting failed"
_THREADS = 4  # at most: each holds a stripe and a file in memory


def rewrite(
    snapshot: Snapshot,
    tasks: Sequence[Rewrite],
    *,
    clock: int,
    spark: Callable[[], SparkSession],
    sizes: WriteSizes | None = None,
) -> tuple[str, Written]:
    """Merge each task's files into a new folder and return its name and what was written there."""
    sizes = sizes or WriteSizes()
    table = absolute(snapshot.table.folder)  # tasks do not run where we do
    folder = rewrite_folder(clock)
    layout = Layout(arrow_schema(snapshot.spec.columns), snapshot.spec.key, table, folder, sizes)
    total = Written()
    try:
        make_folder(f"{table}/{folder}")
        if sum(task.size_bytes for task in tasks) <= sizes.in_process_bytes:
            with ThreadPoolExecutor(max_workers=min(_THREADS, multiprocessing.cpu_count())) as pool:
                for written in pool.map(lambda task: merge_runs(layout, task), tasks):
                    total.add(written)
        else:
            for written in _by_spark(spark(), layout, tasks):
                total.add(written)
            # What failed attempts of a task left.
            remove_all_but(snapshot.table.folder, folder, [file.path for file in total.files])
    except BaseException as error:
        remove_folder(snapshot.table.folder / folder)
        if isinstance(error, OSError):
            raise disk_error(error, _FAILED, note="nothing was changed") from error
        raise
    if not total.files:
        remove_folder(snapshot.table.folder / folder)
    return folder, total


@spark_errors(_FAILED)
def _by_spark(spark: SparkSession, layout: Layout, tasks: Sequence[Rewrite]) -> list[Written]:
    largest_first = sorted(tasks, key=lambda task: -task.size_bytes)

    def merge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            facts = [_merged(layout, largest_first[i]) for i in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_pylist(facts, pa.schema([("written", pa.string()), ("error", pa.string())]))

    frame = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(merge, "written string, error string")
    rows = frame.collect()
    for row in rows:
        if row["error"]:
            raise load_error(row["error"])
    return [Written.loads(row["written"]) for row in rows]


def _merged(layout: Layout, task: Rewrite) -> dict[str, str]:
    """Merge in a task of Spark: an error of ours is handed on as it is, because trying again does not help."""
    try:
        return {"written": merge_runs(layout, task).dumps()}
    except WarehouseError as error:
        return {"error": dump_error(error)}
