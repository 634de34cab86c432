"""Named streams.  Each is the thesis's of section 4.4 at some size: uniform keys, uniform lifetimes, constant rate."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["LARGE", "SMALL", "TINY", "Workload"]

SCHEMA = "k BIGINT, ins BIGINT, exp BIGINT, pay STRING"


@dataclass(frozen=True, slots=True)
class Workload:
    """Records of 1000 bytes, p ticks to a span; about p/2 batches are live at any time."""

    name: str
    records_per_tick: int
    keys: int = 100
    ticks_per_span: int = 36
    seed: int = 2006

    def batch(self, slot: int, folder: Path) -> Path:
        """Return the batch of a slot as one Parquet file, made once."""
        path = folder / f"{self.name}-{self.keys}-{slot:04d}.parquet"
        if not path.exists():
            rng = random.Random(f"{self.seed}/{self.name}/{slot}")
            n, p = self.records_per_tick, self.ticks_per_span
            table = pa.table(
                {
                    "k": pa.array([rng.randrange(self.keys) for _ in range(n)], pa.int64()),
                    "ins": pa.array([slot] * n, pa.int64()),
                    "exp": pa.array([slot + rng.randrange(1, p + 1) for _ in range(n)], pa.int64()),
                    "pay": pa.array([rng.randbytes(480).hex() for _ in range(n)], pa.string()),
                }
            )
            folder.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(".part")
            pq.write_table(table, partial)
            partial.rename(path)
        return path

    def expirations(self, slot: int, folder: Path) -> Counter[int]:
        """Return how many records of a batch expire in each slot: the model of what should be live."""
        return Counter(pq.read_table(self.batch(slot, folder), columns=["exp"])["exp"].to_pylist())


TINY = Workload("tiny", 500)  # a smoke test: the whole bench in two minutes
SMALL = Workload("small", 13_900)  # 250 MB live
LARGE = Workload("large", 139_000)  # 2.5 GB live
