"""The layouts that are compared: Ebb's strategies, and what Spark's own Delta writer offers.

Each contestant applies the batch of a slot and expires what is over, and can count its window, so that every
answer is checked before its time is believed.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow.parquet as pq

from bench.workloads import SCHEMA, Workload
from ebb import Warehouse
from ebb.warehouse.settings import Settings
from ebb.warehouse.store.disk import Disk

__all__ = ["RETIRE", "Append", "AppendCells", "AppendDelete", "AppendSynced", "Contestant", "Ebb"]

RETIRE: dict[str, Any] = {"policy": "6x6", "strategy": "retire", "deletion_bound": "12"}


class Contestant(Protocol):
    """One layout with one way to update it."""

    name: str

    def load(self, files: Sequence[Path], slot: int) -> None: ...

    def update(self, file: Path, slot: int) -> dict[str, Any]: ...

    def count(self) -> int: ...


class Ebb:
    """One of ours.  ``way``: Spark reads the batch, or it is read without one (direct), or comes as an Arrow table."""

    def __init__(
        self, name: str, root: Path, workload: Workload, *, way: str = "spark", durable: bool = True, **wish: Any
    ) -> None:
        self.name = name
        self.way = way
        shutil.rmtree(root / name, ignore_errors=True)
        self.warehouse = Warehouse(Settings(warehouse=root / name, durable=durable))
        declared = {"key": ["k"], "inserted": "ins", "expires": "exp", "tick": "1", "schema": SCHEMA}
        self.table = self.warehouse.create("t", span=str(workload.ticks_per_span), **(declared | wish))

    def load(self, files: Sequence[Path], slot: int) -> None:
        self.table.load([str(f) for f in files], at=slot)

    def update(self, file: Path, slot: int) -> dict[str, Any]:
        if self.way == "arrow":
            report = self.table.update(pq.read_table(file), at=slot)
        else:
            report = self.table.update(str(file), at=slot, engine=self.way)
        return {
            "bytes_written": report.bytes_written + report.sealed_bytes,
            "cells_touched": report.cells_touched,
            "cells_bound": report.cells_bound,
            "sealed": report.sealed_cells > 0,
            "expired": report.expired,
            "files": len(self.table.table.snapshot().files),
        }

    def count(self) -> int:
        return sum(part.num_rows for part in self.table.scan(columns=["k"]))


class _Delta:
    """A table of Spark's own Delta writer."""

    def __init__(self, name: str, root: Path, spark: Any) -> None:
        self.name = name
        self.spark = spark
        self.path = str(root / name)
        shutil.rmtree(self.path, ignore_errors=True)
        self.slot = 0

    def _bytes(self) -> int:
        from deltalake import DeltaTable

        info = DeltaTable(self.path).history(1)[0]
        return int(info.get("operationMetrics", {}).get("numOutputBytes", 0))

    def _frame(self, files: Sequence[Path]) -> Any:
        return self.spark.read.parquet(*[str(f) for f in files])

    def load(self, files: Sequence[Path], slot: int) -> None:
        self._write(self._frame(files).where(f"exp > {slot}"))
        self.slot = slot

    def _write(self, frame: Any) -> None:
        frame.write.format("delta").mode("append").save(self.path)

    def count(self) -> int:
        return int(self.spark.read.format("delta").load(self.path).where(f"exp > {self.slot}").count())


class Append(_Delta):
    """Spark's plain Delta append: the floor, nothing expires."""

    def update(self, file: Path, slot: int) -> dict[str, Any]:
        self._write(self._frame([file]))
        self.slot = slot
        return {"bytes_written": self._bytes()}


class AppendSynced(Append):
    """The same, and then what Ebb waits for: the new files, their folder, the log's entry and its folder."""

    def _write(self, frame: Any) -> None:
        folder = Path(self.path)
        before = set(folder.rglob("*"))
        super()._write(frame)
        disk = Disk()
        disk.sync([*(path for path in folder.rglob("*") if path not in before and path.is_file()), folder])
        disk.sync([folder / "_delta_log"])


class AppendCells(Append):
    """Spark's Delta append into cells of six expiration slots, sorted by key as a probe needs it; nothing expires."""

    def _write(self, frame: Any) -> None:
        cells = frame.selectExpr("*", "cast(floor((exp - 1) / 6) % 7 as int) as e").repartition(2, "e")
        cells.sortWithinPartitions("e", "k", "exp").write.format("delta").partitionBy("e").mode("append").save(
            self.path
        )


class AppendDelete(_Delta):
    """Spark's Delta append, then DELETE of what has expired: what people do today."""

    def update(self, file: Path, slot: int) -> dict[str, Any]:
        self._write(self._frame([file]))
        written = self._bytes()
        self.spark.sql(f"DELETE FROM delta.`{self.path}` WHERE exp <= {slot}")
        self.slot = slot
        return {"bytes_written": written + self._deleted_bytes()}

    def _deleted_bytes(self) -> int:
        from deltalake import DeltaTable

        metrics = DeltaTable(self.path).history(1)[0].get("operationMetrics", {})
        return int(metrics.get("numAddedBytes", 0))
