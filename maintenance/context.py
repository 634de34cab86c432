"""What work on a table needs from outside: the time, Spark if there is anything to read, and whom to tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from ebb.warehouse.intake.sizes import IntakeSizes
from ebb.warehouse.parquet.sizes import WriteSizes
from ebb.warehouse.settings import Engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Context"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The outside world, handed in."""

    now: datetime  # when the work began
    wall: Callable[
        [], datetime
    ]  # what time it is: long work is stamped when it is done, because readers count from then
    spark: Callable[[], SparkSession]
    engine: Engine = "spark"  # who reads files of batches
    durable: bool = True  # whether tables that are opened for this work wait for the disk
    intake: IntakeSizes = field(default_factory=IntakeSizes)
    wait: float = 0.0  # seconds to wait for the writer's lock
    dry_run: bool = False
    sizes: WriteSizes = field(default_factory=WriteSizes)  # of what is written anew
    progress: Callable[[str], None] = lambda _: None

    def now_ms(self) -> int:
        """Return the time for a commit, in milliseconds since 1970."""
        return int(self.wall().timestamp() * 1000)
