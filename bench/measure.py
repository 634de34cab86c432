"""Timing and recording: one JSON line per measurement, with everything needed to read it later."""

from __future__ import annotations

import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

__all__ = ["BATCHES", "Recorder", "in_turns", "median", "peak_memory", "say", "timed", "work_folder"]

RESULTS = Path(__file__).parent / "results"
WORK = Path(__file__).parent / "work"
BATCHES = WORK / "batches"  # they stay, because they take long to make
PACKAGES = ("pyspark", "delta-spark", "deltalake", "pyarrow")

_Item = TypeVar("_Item")


def say(text: str) -> None:
    print(text, flush=True)


def median(values: list[float]) -> float:
    return statistics.median(values)


def timed(work: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    """Return seconds and result."""
    started = time.perf_counter()
    result = work(*arguments)
    return time.perf_counter() - started, result


def in_turns(works: Mapping[str, Callable[[_Item], Any]], items: Sequence[_Item]) -> dict[str, list[float]]:
    """Return everybody's seconds for each item: item after item, and another one begins each time."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    names = list(works)
    for turn, item in enumerate(items):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            seconds[name].append(timed(works[name], item)[0])
    return seconds


@contextmanager
def work_folder(name: str) -> Iterator[Path]:
    """Give a folder for tables that is empty before and gone after: those of the large workload take 38 GB."""
    root = WORK / name
    shutil.rmtree(root, ignore_errors=True)
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


_PEAK = """
import atexit, sys
def tell():  # not getrusage: its peak starts with the parent's
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    print(int(status["VmHWM"].split()[0]) * 1024, file=sys.stderr)
atexit.register(tell)
"""


def peak_memory(code: str, *arguments: str) -> int:
    """Return the bytes that a process of its own takes at most; ``code`` finds its arguments in ``sys.argv[1:]``."""
    command = [sys.executable, "-c", _PEAK + code, *arguments]
    told = subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True).stderr
    return int(told.splitlines()[-1])


class Recorder:
    """Writes rows to ``bench/results``; the first one says where and with what they were measured."""

    def __init__(self, name: str, *more_packages: str) -> None:
        RESULTS.mkdir(exist_ok=True)
        self.path = RESULTS / f"{name}.jsonl"
        self.rows: list[dict[str, Any]] = []
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
        self.add(
            kind="machine",
            date=datetime.now(UTC).date().isoformat(),
            commit=commit.stdout.strip(),
            python=platform.python_version(),
            cores=os.cpu_count(),
            memory_gb=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
            **{package: version(package) for package in (*PACKAGES, *more_packages)},
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
