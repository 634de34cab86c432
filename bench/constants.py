"""The constants of ``docs/arithmetic.md``: sizes on disk and in memory of tables that are made for the purpose.

    python -m bench.constants

Sizes are the same on every machine; memory is that of whole processes.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from statistics import mean, median
from typing import Any

from bench.contestants import Ebb
from bench.measure import BATCHES, Recorder, peak_memory, say, work_folder
from bench.workloads import SMALL, TINY

MEASURED = 64  # updates
RUN = """
from ebb.cli.main import entry
sys.argv = ["ebb", "--warehouse", *sys.argv[1:]]
entry()
"""


def _lines(table: Any) -> dict[str, list[int]]:
    """Return the sizes of the actions in the log by kind, oldest first."""
    sizes: dict[str, list[int]] = defaultdict(list)
    for file in sorted(table.table.log.glob("*.json")):
        for line in file.read_text(encoding="utf-8").splitlines():
            sizes[next(iter(json.loads(line)))].append(len(line.encode()) + 1)
    return sizes


def log(root: Path, recorder: Recorder) -> None:
    """What a commit adds to the log, and what a checkpoint holds of a file."""
    retire: dict[str, Any] = {"policy": "6x6", "strategy": "retire", "deletion_bound": "12"}
    entrant = Ebb("tiny", root, TINY, **retire)
    p = TINY.ticks_per_span
    entrant.load([TINY.batch(slot, BATCHES) for slot in range(1, p + 1)], p)
    for slot in range(p + 1, p + 1 + MEASURED):
        entrant.update(TINY.batch(slot, BATCHES), slot)
    sizes = _lines(entrant.table)
    recorder.add(kind="log", what="add", bytes=mean(sizes["add"]))
    recorder.add(kind="log", what="remove", bytes=mean(sizes["remove"]))
    updates = _updates(entrant.table)
    recorder.add(kind="log", what="commit, 36 slots", bytes=median(updates))
    entrant.table.update(at=p + 1 + MEASURED)
    recorder.add(kind="log", what="commit", bytes=_updates(entrant.table)[-1])
    checkpoint = max(entrant.table.table.log.glob("*.checkpoint.parquet"))
    recorder.add(kind="log", what="checkpoint", bytes=checkpoint.stat().st_size)
    states = sorted(entrant.table.table.states.iterdir())
    newest = max(int(path.name.split("-")[1]) for path in states if path.name.startswith("state-"))
    kept = [path for path in states if not path.name.startswith("state-") or f"-{newest}-" in path.name]
    recorder.add(kind="log", what="state", bytes=sum(path.stat().st_size for path in kept))


def _updates(table: Any) -> list[int]:
    """Return the bytes of what each update's commit says about itself, oldest first."""
    snapshot = table.table.snapshot()
    ops = [str(entry.ebb.get("op")) for entry in table.table.entries(snapshot.version)][::-1]
    return [size for size, op in zip(_lines(table)["commitInfo"], ops, strict=True) if op == "update"]


def files(root: Path, recorder: Recorder) -> None:
    """What a data file takes beside its records."""
    for workload in (TINY, SMALL):
        entrant = Ebb(f"{workload.name} files", root, workload, grid="1x1", strategy="rebuild", deletion_bound="3")
        entrant.update(workload.batch(1, BATCHES), 1)
        file = entrant.table.table.snapshot().files[0]
        data = entrant.table.table.folder / file.path
        recorder.add(
            kind="file", records=file.records, batch_bytes=workload.batch(1, BATCHES).stat().st_size,
            bytes=file.size_bytes, side_bytes=data.with_suffix(".keys").stat().st_size,
        )  # fmt: skip


def memory(root: Path, recorder: Recorder) -> None:
    """What commands without a JVM take: with little to do, a merge of six batches, a probe and a scan."""
    entrant = Ebb("memory", root, SMALL, policy="6x6", strategy="norebuild", deletion_bound="12")
    for slot in range(1, 7):
        entrant.update(SMALL.batch(slot, BATCHES), slot)
    merged = sum(file.size_bytes for file in entrant.table.table.snapshot().files)
    place = str(root / "memory")
    for name, arguments, size in (
        ("`ebb status`", ["status", "t"], 0),
        ("`ebb seal`, a merge", ["seal", "t"], merged),
        ("`ebb probe` of one key", ["probe", "t", "7", "--format", "arrow"], 0),
        ("`ebb scan`", ["scan", "t", "--format", "arrow"], merged),
        ("`ebb update` without a batch", ["update", "t"], 0),
    ):
        peak = peak_memory(RUN, place, *arguments)
        recorder.add(kind="memory", what=name, bytes=peak, work_bytes=size)
        say(f"  {name}: {peak / 1e6:.0f} MB")


def main() -> None:
    recorder = Recorder("constants")
    with recorder.saved(), work_folder("constants") as root:
        log(root, recorder)
        files(root, recorder)
        memory(root, recorder)
    from bench.report import main as report

    report()


if __name__ == "__main__":
    main()
