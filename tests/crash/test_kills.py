"""SIGKILL of Python, of its JVM and of both, at chosen moments of an update (P7, P8, P12, P14).

A worker applies numbered batches and acknowledges each. It is killed when its staging folder appears, when the first
file appears in it, when the commit appears in the log, or after a random delay. Then the table is opened without a
JVM: it must be the model's window before or after the batch that was in doubt, and everything acknowledged is in it.
The next worker hands in that batch again and is told whether it was applied.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ebb import OpenTable
from tests.builders import integer_table, open_warehouse, refused_records, scanned_ids, write_batch
from tests.crash.processes import Process, java_of, until, wait_for_end
from tests.model import Model, Record
from tests.seeds import drawn_seed, rounds

ROUNDS = rounds(4)  # kills per strategy
SLOTS = ROUNDS + 1
POINTS = ("folder", "file", "log", "delay")
VICTIMS = ("python", "jvm", "both")
GRIDS = {
    "rebuild": {"strategy": "rebuild", "grid": "3x3"},
    "norebuild": {"strategy": "norebuild", "grid": "3x3", "policy": "chronological"},
    "retire": {"strategy": "retire", "policy": "2x2"},
}


def a_batch(slot: int, rng: random.Random) -> list[Record]:
    """Return a batch with records that live from one tick to the whole span, some over, some refused."""
    batch = [Record(slot * 1000 + i, f"k{rng.randrange(9)}", slot, slot + rng.randrange(1, 7)) for i in range(60)]
    batch += [Record(slot * 1000 + 900 + i, None, slot, slot + 3) for i in range(rng.randrange(3))]
    return [
        *batch,
        Record(slot * 1000 + 990, "late", slot - 2, slot),
        Record(slot * 1000 + 991, "long", slot, slot + 7),
    ]


class Story:
    """A real table, its batches on disk, and the model's windows after each of them."""

    def __init__(self, folder: Path, strategy: str, seed: int) -> None:
        self.root, self.batches = folder / "w", folder / "batches"
        self.rng = random.Random(seed)
        integer_table(open_warehouse(self.root), quarantine_time="1000", **GRIDS[strategy])
        model = Model(self.open().table.snapshot().spec.timeline, clock=0)
        self.windows: list[list[int]] = [[]]
        self.refused: list[list[int]] = [[]]
        for slot in range(1, SLOTS + 1):
            batch = a_batch(slot, self.rng)
            write_batch(self.batches / f"b{slot}.parquet", batch)
            outcome = model.apply(slot, batch)
            self.windows.append(sorted(record.id for record in model.window()))
            self.refused.append(sorted(self.refused[-1] + [record.id for record in outcome.quarantined]))
        self.workers: list[Process] = []

    def open(self) -> OpenTable:
        """Open the table afresh, as any reader would."""
        return open_warehouse(self.root).table("t")

    def worker(self) -> Process:
        """Start a worker and wait until its Spark is there."""
        worker = Process(["-m", "tests.crash.worker", str(self.root), str(self.batches)])
        self.workers.append(worker)
        assert worker.heard("READY") == "READY", worker.errors
        return worker

    def clock(self) -> int:
        """Check that the table is exactly one of the model's windows and return which one."""
        table = self.open()
        clock = table.table.snapshot().ledger.clock or 0
        assert scanned_ids(table) == self.windows[clock]
        refused = [r for r in refused_records(table.table) if r.slot <= clock]
        assert sorted(int(r.record.split(",")[0].split(":")[1]) for r in refused) == self.refused[clock]
        return clock

    def strays(self) -> list[str]:
        """Return the files and folders that no commit names."""
        table = self.open().table
        entries = list(table.entries(table.snapshot().version))
        named = {path for entry in entries for path in entry.added}
        folders = {name for name in os.listdir(table.folder) if not name.startswith("_")}
        return [p for p in table.data_files() if p not in named] + sorted(folders - {p.split("/")[0] for p in named})

    def wait_for(self, point: str, slot: int) -> None:
        """Return as soon as the update to ``slot`` has come to a point."""
        folder = self.open().table.folder
        newest = self.open().table.snapshot().version
        entry = folder / "_delta_log" / f"{newest + 1:020}.json"
        match point:
            case "folder":
                until(lambda: list(folder.glob(f"u{slot}-*")) or entry.exists(), what="a staging folder")
                time.sleep(self.rng.uniform(0, 0.1))
            case "file":
                until(lambda: list(folder.glob(f"u{slot}-*/_g=*/_e=*/*")) or entry.exists(), what="a staged file")
            case "log":
                until(entry.exists, what="a commit")
            case _:
                time.sleep(self.rng.uniform(0, 0.4))


@pytest.fixture
def stories(tmp_path: Path) -> Iterator[list[Story]]:
    """Collect the stories of a test and end their workers, whatever happens."""
    told: list[Story] = []
    yield told
    for story in told:
        for worker in story.workers:
            worker.kill("both")
            worker.end()


@pytest.mark.parametrize("strategy", list(GRIDS))
def test_a_killed_update_is_applied_whole_or_not_at_all(
    strategy: str, tmp_path: Path, stories: list[Story], record_property: Callable[[str, object], None]
) -> None:
    seed = drawn_seed()
    story = Story(tmp_path, strategy, seed)
    stories.append(story)
    outcomes = set()
    worker, clock = story.worker(), 0
    for number in range(ROUNDS):
        point = POINTS[number % len(POINTS)]
        victim = VICTIMS[(number + list(GRIDS).index(strategy)) % 3]
        slot = clock + 1
        print(f"{strategy}: kill {victim} at {point} of slot {slot}")
        java = java_of(worker.process.pid)
        worker.tell(slot)
        story.wait_for(point, slot)
        worker.kill(victim)
        answer = _answer(worker, slot, victim)

        clock = story.clock()
        assert clock in (slot - 1, slot)
        assert clock == slot or not answer.startswith("ACK"), "an acknowledged batch is gone"
        assert clock == slot or point != "log", "a committed batch is gone"
        outcomes.add(clock - slot)
        if victim == "python":
            # The JVM may still be there: taking the lock and cleaning up at once must work all the same.
            story.open().erase()
            assert story.clock() == clock
            wait_for_end(java)
        if victim == "jvm" and answer.startswith("FAILED"):
            assert not story.strays()
        else:
            worker.kill("both")
            worker = story.worker()
        worker.lines.clear()
        worker.tell(slot)
        assert worker.heard("ACK", "FAILED") == f"ACK {slot} {'already' if clock == slot else 'applied'}"
        assert story.clock() == slot
        assert not story.strays()
        checked = story.open().check(deep=True)
        assert [str(found) for found in checked.findings if found.code != "bound"] == []
        clock = slot
        worker.lines.clear()

    assert outcomes == {-1, 0}, "both the window before and the window after must have been seen"
    record_property("figures", f"kills under {strategy}: {ROUNDS}; torn 0, lost after acknowledgement 0, doubled 0")


def _answer(worker: Process, slot: int, victim: str) -> str:
    """Return what the worker said of a slot before it died; one whose JVM died says so, in our words, soon."""
    if victim != "jvm":
        return worker.heard(f"ACK {slot}", "FAILED", seconds=20)
    answer = worker.heard(f"ACK {slot}", "FAILED", seconds=10)
    assert answer.startswith(("ACK", "FAILED EngineError: ")), (answer, worker.errors)
    assert "Java process is gone" in answer or answer.startswith("ACK")
    assert "Traceback" not in "\n".join(worker.errors)
    return answer
