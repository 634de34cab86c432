"""The bench: the thesis workload, all contestants in one warm session, answers checked, ratios against a plain append.

    python -m bench.run --size tiny|small|large [--only updates|flat|shell|reads|seals]

Contestants take turns slot by slot, so that whatever the machine does meanwhile hits all of them alike.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.contestants import RETIRE, Append, AppendCells, AppendDelete, Contestant, Ebb
from bench.measure import BATCHES, WORK, Recorder, median, say, timed, work_folder
from bench.seals import seals
from bench.workloads import LARGE, SMALL, TINY, Workload
from ebb import Warehouse
from ebb.warehouse.settings import Settings

SIZES = {"tiny": TINY, "small": SMALL, "large": LARGE}
WARM_UP = 12  # updates that are not counted: two sealings
MEASURED = 18  # three more; the large run has two
SCAN_TURNS = 24  # by Spark; the first half is not counted, because Java still compiles
DIRECT = "retire + seal, direct"  # without a JVM
TURNS_AT_LARGE = {"append": 12, "retire + seal": 12, DIRECT: 12, "rebuild 4x4": 6, "append + DELETE": 4}
SQUARE: dict[str, Any] = {"grid": "4x4", "policy": "round-robin", "deletion_bound": "3"}


def contestants(workload: Workload, root: Path, spark: Any) -> list[Contestant]:
    entrants: list[Contestant] = [
        Append("append", root, spark),
        AppendCells("append into sorted cells", root, spark),
        Ebb("retire + seal", root, workload, **RETIRE),
        Ebb(DIRECT, root, workload, way="direct", **RETIRE),
        Ebb("retire + seal, Arrow", root, workload, way="arrow", **RETIRE),
        Ebb("rebuild 4x4", root, workload, strategy="rebuild", **SQUARE),
        AppendDelete("append + DELETE", root, spark),
    ]
    if workload is LARGE:  # the others would take the large run past what two cores can do in half an hour
        return [entrant for entrant in entrants if entrant.name in TURNS_AT_LARGE]
    entrants.insert(6, Ebb("norebuild 4x4", root, workload, strategy="norebuild", **SQUARE))
    return entrants


def updates(workload: Workload, root: Path, spark: Any, recorder: Recorder, *, warm_up: int, measured: int) -> None:
    """Load a full window everywhere, then let everybody apply the same batches, in turns."""
    p = workload.ticks_per_span
    history = [workload.batch(slot, BATCHES) for slot in range(1, p + 1)]
    live: Counter[int] = Counter()
    for slot in range(1, p + 1):
        live.update(workload.expirations(slot, BATCHES))
    entrants = contestants(workload, root, spark)
    for entrant in entrants:
        seconds, _ = timed(entrant.load, history, p)
        recorder.add(kind="load", workload=workload.name, layout=entrant.name, seconds=seconds)
        say(f"  loaded {entrant.name} in {seconds:.1f} s")
    for slot in range(p + 1, p + 1 + warm_up + measured):
        file = workload.batch(slot, BATCHES)
        live.update(workload.expirations(slot, BATCHES))
        expected = sum(n for expires, n in live.items() if expires > slot)
        shown = []
        for entrant in entrants:
            if workload is LARGE and slot - p - warm_up > TURNS_AT_LARGE[entrant.name]:
                continue
            seconds, told = timed(entrant.update, file, slot)
            if slot % 6 == 0 or slot == p + warm_up + measured:
                assert entrant.count() == expected, (entrant.name, slot, entrant.count(), expected)
            recorder.add(
                kind="update", workload=workload.name, layout=entrant.name, slot=slot, seconds=seconds,
                counted=slot > p + warm_up, batch_bytes=file.stat().st_size, **told,
            )  # fmt: skip
            shown.append(f"{seconds:5.2f}")
        say(f"  slot {slot}: " + " ".join(shown) + f"   {expected:,} live, answers checked" * (slot % 6 == 0))
    scans(workload, root, spark, recorder, expected)
    shell_direct(workload, root / DIRECT, recorder, slot)


def shell_direct(workload: Workload, root: Path, recorder: Recorder, slot: int) -> None:
    """A batch from the shell without a JVM, on the full table: process start to exit."""
    for turn in range(6):  # one of them seals
        slot += 1
        words = ["update", "t", str(workload.batch(slot, BATCHES)), "--at", str(slot), "--engine", "direct"]
        seconds, _ = timed(_command, root, *words)
        recorder.add(kind="shell", command="a batch, --engine direct", seconds=seconds, turn=turn)
        say(f"  ebb update t FILE --engine direct: {seconds:.2f} s")


def _command(root: Path, *words: str) -> None:
    ebb = [str(Path(sys.executable).parent / "ebb"), "--warehouse", str(root)]
    subprocess.run([*ebb, *words], check=True, capture_output=True)


def scans(workload: Workload, root: Path, spark: Any, recorder: Recorder, expected: int) -> None:
    """Spark's scan of the window against the same records in one sorted Parquet folder."""
    warehouse = Warehouse(Settings(warehouse=root / "retire + seal"))
    warehouse.register(spark)
    plain = str(root / "plain.parquet")
    spark.table("t").sort("k", "exp").write.mode("overwrite").parquet(plain)
    query = "sum(k), sum(exp), max(pay), count(*)"
    ours, theirs = [], []
    for turn in range(SCAN_TURNS):
        seconds, row = timed(lambda: spark.sql(f"SELECT {query} FROM t").first())
        other, same = timed(lambda: spark.sql(f"SELECT {query} FROM parquet.`{plain}`").first())
        assert tuple(row) == tuple(same)
        assert row[3] == expected
        if turn >= SCAN_TURNS // 2:
            ours.append(seconds)
            theirs.append(other)
    recorder.add(kind="scan", workload=workload.name, layout="retire + seal", seconds=median(ours))
    recorder.add(kind="scan", workload=workload.name, layout="one sorted Parquet folder", seconds=median(theirs))


def flat(root: Path, recorder: Recorder, big: Workload, small: Workload) -> None:
    """The small workload's batches on a table of the large one's size, and on its own."""
    p = big.ticks_per_span
    tables = {}
    for workload in (big, small):
        tables[workload.name] = Ebb(workload.name, root, workload, **RETIRE)
        tables[workload.name].load([workload.batch(slot, BATCHES) for slot in range(1, p + 1)], p)
    for slot in range(p + 1, p + 13):
        file = small.batch(slot, BATCHES)
        for name, table in tables.items():
            seconds, told = timed(table.update, file, slot)
            recorder.add(kind="flat", workload=name, slot=slot, seconds=seconds, counted=slot > p + 3, **told)


def shell(root: Path, recorder: Recorder) -> None:
    """Whole commands from the shell: an empty tick without a JVM, and a small batch from a cold start."""
    workload = TINY
    table = Ebb("w", root, workload, **RETIRE)
    slot = workload.ticks_per_span
    for turn in range(3):
        slot += 1
        file = workload.batch(slot, BATCHES)
        seconds, _ = timed(_command, root / "w", "update", "t", str(file), "--at", str(slot))
        recorder.add(kind="shell", command="update of a small batch", seconds=seconds, turn=turn)
        say(f"  ebb update t FILE: {seconds:.2f} s")
    for turn in range(7):
        slot += 1
        seconds, _ = timed(_command, root / "w", "update", "t", "--at", str(slot))
        recorder.add(kind="shell", command="empty tick", seconds=seconds, turn=turn)
        say(f"  ebb update t: {seconds:.2f} s")
    assert table.table.table.snapshot().ledger.clock == slot


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=sorted(SIZES), default="small")
    parser.add_argument("--only", choices=["updates", "flat", "shell", "reads", "seals"], default=None)
    options = parser.parse_args()
    workload = SIZES[options.size]
    is_reads = options.only == "reads"
    packages = ("duckdb", "polars", "rocksdict") if is_reads else ()  # they come with the extra "bench"
    recorder = Recorder(f"{options.only or 'updates'}-{options.size}", *packages)
    started = time.monotonic()
    with recorder.saved():
        if options.only in (None, "shell"):
            say("whole commands from the shell")
            with work_folder("shell") as root:
                shell(root, recorder)
        unlimited = {"spark.driver.maxResultSize": "0"}  # one probe of many keys returns more than Spark allows
        spark = Warehouse(Settings(warehouse=WORK, conf=unlimited if is_reads else {})).spark(delta=True)
        if is_reads:
            from bench.reads import reads

            reads(workload, spark, recorder)
        if options.only in (None, "updates"):
            say(f"updates, {workload.name}: {workload.records_per_tick:,} records of 1000 bytes a tick")
            few = options.size == "large"
            turns = {"warm_up": 0, "measured": 12} if few else {"warm_up": WARM_UP, "measured": MEASURED}
            with work_folder(workload.name) as root:
                updates(workload, root, spark, recorder, **turns)
        if options.only in (None, "updates", "seals"):
            say("sealing a group")
            for keys in (100, 100_000):
                with work_folder("seals") as root:
                    seals(replace(workload, keys=keys), root, recorder)
        if options.only == "flat" or (options.only is None and options.size == "large"):
            say("the small batch on the large table")
            sizes = (LARGE, SMALL) if options.size == "large" else (workload, TINY)
            with work_folder("flat") as root:
                flat(root, recorder, *sizes)
    say(f"done in {time.monotonic() - started:.0f} s; rows are in {recorder.path}")
    from bench.report import main as report

    report()


if __name__ == "__main__":
    main()
