"""Timing and recording: one JSON line per measurement, with everything needed to read it later."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

__all__ = ["Recorder", "median", "timed"]

RESULTS = Path(__file__).parent / "results"


def median(values: list[float]) -> float:
    return statistics.median(values)


def timed(work: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    """Return seconds and result."""
    started = time.perf_counter()
    result = work(*arguments)
    return time.perf_counter() - started, result


class Recorder:
    """Writes rows to ``bench/results``; the first one says where and with what they were measured."""

    def __init__(self, name: str) -> None:
        RESULTS.mkdir(exist_ok=True)
        self.path = RESULTS / f"{name}.jsonl"
        self.rows: list[dict[str, Any]] = []
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
        packages = ("pyspark", "delta-spark", "deltalake", "pyarrow")
        self.add(
            kind="machine",
            date=datetime.now(timezone.utc).date().isoformat(),
            commit=commit.stdout.strip(),
            python=platform.python_version(),
            cores=os.cpu_count(),
            memory_gb=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
            **{package: version(package) for package in packages},
        )

    def add(self, **row: Any) -> None:
        self.rows.append(row)

    @contextmanager
    def saved(self) -> Iterator[None]:
        """Write all rows at the end, also of a run that was cut short."""
        try:
            yield
        finally:
            self.path.write_text("".join(json.dumps(row) + "\n" for row in self.rows), encoding="utf-8")
