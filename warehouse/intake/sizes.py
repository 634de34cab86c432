"""How much of a batch is handled at once: every number that trades memory and time, in one place.

Sizes are of records in memory, not of packed files. Tests hand in small ones to reach what takes gigabytes otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["IntakeSizes"]

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeSizes:
    """Of batches and their parts."""

    one_task_bytes: int = 32 * _MIB  # Spark sorts smaller batches in one task, which saves a job its start
    # What one of Spark's tasks sorts in memory: up to twice as much of what cannot be cut, because a shuffle takes three
    # times as long. More for each core is shuffled first.
    task_bytes: int = 128 * _MIB
    portion_bytes: int = 64 * _MIB  # what is sorted at once without Spark; about four times as much is in memory then
    direct_bytes: int = 64 * _MIB  # files up to this size in all need no Spark, if the engine is chosen by size
