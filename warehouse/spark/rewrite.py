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
from ebb.index.errors import EngineError
from ebb.warehouse.parquet.arrow import arrow_schema
from ebb.warehouse.parquet.merge import merge_runs
from ebb.warehouse.parquet.writer import Layout, Written
from ebb.warehouse.spark.errors import spark_errors
from ebb.warehouse.store.files import absolute, make_folder, remove_folder
from ebb.warehouse.store.paths import rewrite_folder
from ebb.warehouse.table.snapshot import Snapshot

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["rewrite"]

IN_PROCESS_BYTES = 256 * 1024 * 1024  # more than this is Spark's


def rewrite(
    snapshot: Snapshot, tasks: Sequence[Rewrite], *, clock: int, spark: Callable[[], SparkSession]
) -> tuple[str, Written]:
    """Merge each task's files into a new folder and return its name and what was written there."""
    table = absolute(snapshot.table.folder)  # tasks do not run where we do
    folder = rewrite_folder(clock)
    layout = Layout(schema=arrow_schema(snapshot.spec.columns), key=snapshot.spec.key, table=table, folder=folder)
    total = Written()
    try:
        make_folder(f"{table}/{folder}")
        if sum(task.size_bytes for task in tasks) <= IN_PROCESS_BYTES:
            with ThreadPoolExecutor(max_workers=multiprocessing.cpu_count()) as pool:
                for written in pool.map(lambda task: merge_runs(layout, task), tasks):
                    total.add(written)
        else:
            for text in _by_spark(spark(), layout, tasks):
                total.add(Written.loads(text))
    except BaseException as error:
        remove_folder(snapshot.table.folder / folder)
        if isinstance(error, OSError):
            step = "nothing was changed; make room and run it again"
            raise EngineError("the rewriting failed", error, step) from error
        raise
    if not total.files:
        remove_folder(snapshot.table.folder / folder)
    return folder, total


@spark_errors("the rewriting failed")
def _by_spark(spark: SparkSession, layout: Layout, tasks: Sequence[Rewrite]) -> list[str]:
    largest_first = sorted(tasks, key=lambda task: -task.size_bytes)

    def merge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            facts = [merge_runs(layout, largest_first[i]).dumps() for i in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_pydict({"fact": facts})

    frame = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(merge, "fact string")
    return [row["fact"] for row in frame.collect()]
