"""A landing folder survives a power failure: each file is applied once, whatever the disk had of folder and table (P8, P33).

The folder may be on another disk than the table, and each disk keeps what it was told to wait for, and of the rest as much
as it likes: a folder any later state, in the order of its changes, because renames are atomic.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ebb import OpenTable
from ebb.maintenance.landing.run import run_table
from tests.builders import integer_table, open_warehouse, records, scanned_ids, write_batch
from tests.powercuts import Moment, Recorder, build, recording
from tests.seeds import drawn_seed, rounds

CUTS = rounds(10)
TICKS = 4


def run(root: Path) -> OpenTable:
    """Apply what has landed, also what was applied before: only the folder tells what is done."""
    table = open_warehouse(root).table("t")
    context = replace(table.warehouse.context(), engine="direct")
    outcomes = list(run_table(table.table.snapshot(), context, until=table.warehouse.now(), allow_repeats=True))
    assert not [outcome for outcome in outcomes if outcome.is_stopped]
    return table


def land(landing: Path, name: str, id: int, slot: int) -> None:
    """Put a file there as somebody does who waits for the disk."""
    file = write_batch(landing / f"{slot}-{name}.parquet", records((id, name, slot, slot + 6)))
    for place in (file, landing):
        opened = os.open(place, os.O_RDONLY)
        os.fsync(opened)
        os.close(opened)


def history(disk: Path, recorder: Recorder) -> None:
    """Let files arrive and be applied; acknowledged are those that their producer knows to be there."""
    recorder.is_noting = False
    integer_table(open_warehouse(disk / "w"), landing=str(disk / "landing"), quarantine_time="99")
    recorder.acknowledged = []
    recorder.is_noting = True
    for slot in range(1, TICKS + 1):
        for name in "ab"[: 1 + slot % 2]:
            land(disk / "landing", name, slot * 10 + ord(name), slot)
            recorder.acknowledged = [*recorder.acknowledged, slot * 10 + ord(name)]
        run(disk / "w")


def left(recorder: Recorder, moment: Moment, folder: Moment, disk: Path, rng: random.Random) -> list[int]:
    """Return what is in the table after the power failed and runs went on."""
    disk.mkdir()
    build(recorder, moment, rng.choice(("strict", "mixed")), disk / "w", rng, below="w")
    build(recorder, folder, "journal", disk / "landing", rng, below="landing")
    try:
        run(disk / "w")
        return scanned_ids(run(disk / "w"))
    finally:
        shutil.rmtree(disk)


def folders(recorder: Recorder, cut: int) -> list[Moment]:
    """Return the states of the landing folder that its disk may hold at a cut, the oldest first."""
    synced = recorder.moments[cut].synced
    landings = (n for n, one in enumerate(recorder.trace[:synced], 1) if one.path.startswith("landing"))
    waited = max(landings, default=0)
    return [moment for moment in recorder.moments[: cut + 1] if moment.synced >= waited]


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    (tmp_path / "disk").mkdir()
    seed = drawn_seed()
    with recording(tmp_path / "disk", random.Random(seed), share=0.5) as recorder:
        history(tmp_path / "disk", recorder)
    (tmp_path / "disk").rename(tmp_path / "recorded")  # the table knows its landing folder by this place
    return recorder


def test_after_a_power_failure_each_landed_file_is_applied_once(
    recorder: Recorder, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    rng = recorder.rng
    for _ in range(CUTS):
        cut = rng.randrange(len(recorder.moments))
        moment = recorder.moments[cut]
        print(f"after {moment.synced} syncs, at {moment.place}")
        found = left(recorder, moment, rng.choice(folders(recorder, cut)), tmp_path / "disk", rng)
        assert len(set(found)) == len(found), "a file was applied twice"
        assert set(moment.acknowledged) <= set(found), "a file that had landed is lost"
    record_property("figures", f"power cuts under landing folders: {CUTS}, every file applied once")


def test_a_batch_that_is_not_settled_before_its_commit_is_found(recorder: Recorder, tmp_path: Path) -> None:
    """The checker is worth something: with a folder as it was before the batch was taken, files are applied twice."""
    for cut in recorder.rng.sample(range(len(recorder.moments)), len(recorder.moments)):
        moment = recorder.moments[cut]
        older = [m for m in recorder.moments[:cut] if m.acknowledged == moment.acknowledged]
        if older:
            found = left(recorder, moment, older[0], tmp_path / "disk", recorder.rng)
            if len(set(found)) < len(found):
                return
    pytest.fail("no file was applied twice")
