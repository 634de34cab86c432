"""What waiting for the disk costs, as tables and verdicts."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from bench.tables import Bar, markdown, verdicts

__all__ = ["APPEND", "WAYS", "durable_text", "synced", "unsynced"]

APPEND = "append"
WAYS = {"retire + seal": "spark", "retire + seal, direct": "direct", "retire + seal, Arrow": "arrow"}
Rows = list[dict[str, Any]]
_MOST = 1.15


def synced(name: str) -> str:
    """Return the name of a writer that waits."""
    return f"{name}, synced"


def unsynced(name: str) -> str:
    """Return the name of one that does not."""
    return f"{name}, not synced"


def durable_text(rows: Rows) -> list[str]:
    """Return the table and verdicts of one run."""
    seconds: dict[str, list[float]] = {}
    for row in rows:
        if row["counted"]:
            seconds.setdefault(row["layout"], []).append(row["seconds"])
    lines = []
    for name in (APPEND, *WAYS):
        with_it, without = seconds[synced(name)], seconds[unsynced(name)]
        cells = [f"{f(taken):.3f}" for f in (statistics.median, statistics.fmean) for taken in (without, with_it)]
        ratios = [f"{f(with_it) / f(without):.2f}×" for f in (statistics.median, statistics.fmean)]
        lines.append([name, *cells, *ratios])
    header = ["writer", "not synced, median s", "synced, median s", "not synced, mean s", "synced, mean s", "median ratio", "mean ratio"]  # fmt: skip
    return [*markdown(header, lines), "", *verdicts(_bars(seconds), {})]


def _bars(seconds: dict[str, list[float]]) -> Iterator[Bar]:
    by_spark = next(iter(WAYS))
    with_it, without = (statistics.fmean(seconds[name(by_spark)]) for name in (synced, unsynced))
    ratio = with_it / without
    yield Bar(f"{by_spark}, mean, synced / not synced", f"{ratio:.2f}×", ratio, "≤", _MOST)
    append = statistics.fmean(seconds[synced(APPEND)])
    before = statistics.fmean(seconds[unsynced(APPEND)])
    beside = (with_it / append) / (without / before)
    yield Bar(f"{by_spark} / append, mean, both synced / neither", f"{beside:.2f}×", beside, "≤", _MOST)
