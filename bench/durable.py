"""What waiting for the disk costs: the same batches, by writers that wait and by writers that do not, in turns.

    python -m bench.durable [--size tiny|small|large]

Beside Ebb's own ways to take a batch stand Spark's plain Delta append and the same append synced afterwards, so that each
ratio compares two that promise the same.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bench.contestants import RETIRE, Append, AppendSynced, Contestant, Ebb
from bench.measure import BATCHES, WORK, Recorder, say, timed, work_folder
from bench.report_durable import APPEND, WAYS, synced, unsynced
from bench.workloads import LARGE, SMALL, TINY, Workload
from ebb import Warehouse
from ebb.warehouse.settings import Settings

SIZES = {"tiny": TINY, "small": SMALL, "large": LARGE}
WARM_UP = 6  # one of them seals
MEASURED = 18  # three of them


def entrants(workload: Workload, root: Path, spark: Any) -> list[Contestant]:
    pairs: list[Contestant] = [Append(unsynced(APPEND), root, spark), AppendSynced(synced(APPEND), root, spark)]
    for name, way in WAYS.items():
        pairs.append(Ebb(unsynced(name), root, workload, way=way, durable=False, **RETIRE))
        pairs.append(Ebb(synced(name), root, workload, way=way, **RETIRE))
    return pairs


def durable(workload: Workload, root: Path, spark: Any, recorder: Recorder) -> None:
    """Let everybody apply the same batches; who begins changes with every slot."""
    p = workload.ticks_per_span
    history = [workload.batch(slot, BATCHES) for slot in range(1, p + 1)]
    writers = entrants(workload, root, spark)
    for writer in writers:
        writer.load(history, p)
    for slot in range(p + 1, p + 1 + WARM_UP + MEASURED):
        file = workload.batch(slot, BATCHES)
        first = slot % len(writers)
        for writer in writers[first:] + writers[:first]:
            seconds, _ = timed(writer.update, file, slot)
            counted = slot > p + WARM_UP
            recorder.add(kind="durable", layout=writer.name, slot=slot, seconds=seconds, counted=counted)
    counts = {writer.count() for writer in writers if isinstance(writer, Ebb)}
    assert len(counts) == 1, counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=sorted(SIZES), default="small")
    size = parser.parse_args().size
    recorder = Recorder(f"durable-{size}")
    with recorder.saved(), work_folder("durable") as root:
        durable(SIZES[size], root, Warehouse(Settings(warehouse=WORK)).spark(delta=True), recorder)
    say(f"rows are in {recorder.path}")
    from bench.report import main as report

    report()


if __name__ == "__main__":
    main()
