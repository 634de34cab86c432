"""After a power failure a table is at an acknowledged state or a later one, and whole (P8).

Random histories are recorded: what is synced and, at many moments, what is there. The power fails at some of these moments:
what the disk holds then is built in a new folder and opened. It must be a window of the model that is not older than what
was acknowledged, with every commit that was; every way of reading agrees; what the killed writer left goes with the next
updates, which must work. Then the same with one kind of sync left out: that must be found, or the checker proves nothing.
"""

from __future__ import annotations

import random
import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from ebb import OpenTable
from ebb.index.errors import UnknownTableError, WarehouseError
from ebb.warehouse.store.paths import LOG
from ebb.warehouse.table.checkpoint import CHECKPOINT_INTERVAL
from tests.builders import NOW, arrow_batch, integer_table, open_warehouse, refused_records, scanned_ids
from tests.model import Model, Record
from tests.powercuts import KINDS, Moment, Recorder, build, recording
from tests.seeds import drawn_seed, rounds

CUTS = rounds(8)  # per strategy
CUTS_OF_A_HISTORY = 24
STEPS = 24
GRIDS = {
    "rebuild": {"strategy": "rebuild", "grid": "2x3"},
    "norebuild": {"strategy": "norebuild", "grid": "3x2", "policy": "chronological"},
    "retire": {"strategy": "retire", "policy": "2x2"},
}


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """What the writer was told, and what it had asked for."""

    version: int = -1  # no table yet
    clock: int | None = None
    asked: int | None = None  # the clock after what is being done


@dataclass
class History:
    """A table that is worked on, and the model's windows."""

    root: Path
    rng: random.Random
    wish: dict[str, str]
    admitted: dict[int, list[Record]] = field(default_factory=dict)  # by slot
    refused: dict[int, list[int]] = field(default_factory=dict)

    def model(self, clock: int | None) -> Model:
        """Return the model at a clock."""
        line = self.table.table.snapshot().spec.timeline
        kept = [
            record for slot, batch in self.admitted.items() if clock is not None and slot <= clock for record in batch
        ]
        return Model(line, clock, kept)

    def refused_by(self, clock: int | None) -> list[int]:
        """Return the records that were refused up to a clock."""
        return sorted(id for slot, ids in self.refused.items() if clock is not None and slot <= clock for id in ids)

    def play(self, recorder: Recorder) -> None:
        """Create the table, bring its log near a checkpoint, then do at random what a writer does."""
        recorder.acknowledged = Acknowledged()
        self.table = integer_table(
            open_warehouse(self.root),
            reader_time="1",
            deletion_bound="9",
            quarantine_time="1000",
            log_retention="3",
            **self.wish,
        )
        recorder.acknowledged = Acknowledged(0)
        recorder.is_noting = False
        for turn in range(CHECKPOINT_INTERVAL - STEPS):
            self.table.alter(quarantine_time=str(1001 + turn % 2))
        recorder.is_noting = True
        for _ in range(STEPS):
            clock = self.table.table.snapshot().ledger.clock
            step = self.rng.choice(
                ("batch", "batch", "batch", "batch", "empty", "jump", "seal", "purge", "erase", "again")
            )
            slot = (clock or 0) + (self.rng.randrange(2, 4) if step == "jump" else step in ("batch", "empty"))
            version = self.table.table.snapshot().version
            recorder.acknowledged = Acknowledged(version, clock, slot)
            self._take(step, slot)
            snapshot = self.table.table.snapshot()
            recorder.acknowledged = Acknowledged(snapshot.version, snapshot.ledger.clock, snapshot.ledger.clock)

    def _take(self, step: str, slot: int) -> None:
        match step:
            case "batch" | "jump":
                batch = self.a_batch(slot)
                self.table.update(arrow_batch(batch), at=slot, catch_up=True, yes=True)
            case "empty":
                self.table.update(at=slot)
            case "again":
                self.table = open_warehouse(self.root).table("t")
            case _:
                getattr(self.table, step)()

    def a_batch(self, slot: int) -> list[Record]:
        """Return a batch with every lifetime, and some records that are refused; the model has it before the table."""
        batch = [
            Record(slot * 1000 + n, f"k{self.rng.randrange(7)}", slot, slot + 1 + self.rng.randrange(6))
            for n in range(self.rng.randrange(1, 20))
        ]
        bad = [Record(slot * 1000 + 900 + n, None, slot, slot + 1) for n in range(self.rng.randrange(3))]
        self.admitted[slot] = batch
        self.refused[slot] = [record.id for record in bad]
        return [*batch, *bad]


def check(history: History, moment: Moment, root: Path, *, deep: bool = True) -> None:
    """Open what a power failure has left, compare it with the model, and go on working; raises what is wrong.

    ``deep``: in the end look at every byte.
    """
    told: Acknowledged = moment.acknowledged
    try:
        table = open_warehouse(root).table("t")
    except UnknownTableError:
        assert told.version < 0, "a table is gone"
        return
    snapshot = table.table.snapshot()
    clock = snapshot.ledger.clock
    assert clock in (told.clock, told.asked), "an acknowledged update is gone"
    assert snapshot.version >= told.version, "an acknowledged commit is gone"
    _same(history, table, clock)

    later = open_warehouse(root, NOW + timedelta(days=1)).table("t")
    slot = (clock or 0) + 1
    batch = [Record(10**6 + n, f"k{n}", slot, slot + 2) for n in range(3)]
    report = later.update(arrow_batch(batch), at=slot)
    assert report.admitted == len(batch)
    assert report.warnings == ()
    model = history.model(clock)
    model.apply(slot, batch)
    assert scanned_ids(later) == sorted(record.id for record in model.window())
    later.update(at=slot + 1)
    assert _unnamed(later) == []
    assert [str(found) for found in later.check(deep=deep).findings if found.code != "bound"] == []
    assert later.evidence()


def _same(history: History, table: OpenTable, clock: int | None) -> None:
    window = history.model(clock).window()
    assert scanned_ids(table) == sorted(record.id for record in window)
    assert table.status().live_records == len(window)
    for key in ("k1", "k5"):
        found = sorted(table.probe(key)["id"].to_pylist())
        assert found == sorted(record.id for record in window if record.key == key)
    refused = [one for one in refused_records(table.table) if clock is not None and one.slot <= clock]
    assert sorted(int(one.record.split(",")[0].split(":")[1]) for one in refused) == history.refused_by(clock)


def _unnamed(table: OpenTable) -> list[str]:
    """Return the files on disk that no commit names."""
    snapshot = table.table.snapshot()
    named = {file.path.removesuffix(".parquet") for file in snapshot.files}
    named |= {path.removesuffix(".parquet") for removal in snapshot.removals() for path in removal.paths}
    left = [path for path in table.table.all_files() if path.rsplit(".", 1)[0] not in named]
    return left + [path.name for path in (table.table.folder / LOG).glob("_commit_*")]


@contextmanager
def recorded(folder: Path, strategy: str, seed: int, share: float = 0.25) -> Iterator[tuple[History, Recorder]]:
    rng = random.Random(seed)
    (folder / "disk").mkdir()
    history = History(folder / "disk" / "w", rng, GRIDS[strategy])
    with recording(folder / "disk", rng, share) as recorder:
        history.play(recorder)
    yield history, recorder


def chosen(recorder: Recorder, rng: random.Random, count: int) -> list[Moment]:
    """Return moments at which the power fails, as many as there may be of each kind of place."""
    by_place = defaultdict(list)
    for moment in recorder.moments:
        by_place[kind_of(moment.place)].append(moment)
    for moments in by_place.values():
        rng.shuffle(moments)
    turns = [
        moments[turn] for turn in range(len(recorder.moments)) for moments in by_place.values() if turn < len(moments)
    ]
    return turns[:count]


def kind_of(place: str) -> str:
    """Say what is synced at a place."""
    return next(kind for kind, pattern in KINDS_OF_PLACES.items() if re.search(pattern, place))


KINDS_OF_PLACES = {
    "checkpoint": r"/_ebb/checkpoint/",
    "entry of the quarantine": r"t\.quarantine/_delta_log/",
    "folder of the quarantine's log": r"t\.quarantine/_delta_log$",
    "file of the quarantine": r"t\.quarantine/.*\.parquet$",
    "folder of the quarantine": r"t\.quarantine",
    "state of the ledger": r"/_ebb/ledger/",
    "head record": r"/_ebb/head",
    "file of the evidence": r"/_ebb/evidence/",
    "hidden folder": r"/_ebb",
    "entry of the log": r"/_delta_log/",
    "folder of the log": r"/_delta_log$",
    "data file": r"\.parquet$",
    "file beside it": r"\.keys$",
    "folder of a commit": r"/t/[ur]\d+-",
    "folder of the table": r"/t$|/\.new-t-\w+$",
    "folder of the warehouse": r"",
}


@pytest.mark.parametrize("strategy", list(GRIDS))
def test_after_a_power_failure_nothing_acknowledged_is_lost(
    strategy: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    seed = drawn_seed()
    cuts = 0
    for number in range(-(-CUTS // CUTS_OF_A_HISTORY)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with recorded(folder, strategy, seed + number) as (history, recorder):
            rng = random.Random(seed + number)
            for moment in chosen(recorder, rng, min(CUTS_OF_A_HISTORY, CUTS - cuts)):
                kind = KINDS[cuts % len(KINDS)]
                print(f"{strategy}: {kind}, after {moment.synced} syncs, at {moment.place}, {moment.acknowledged}")
                build(recorder, moment, kind, folder / "left", rng)
                check(history, moment, folder / "left" / "w")
                shutil.rmtree(folder / "left")
                cuts += 1
    record_property("figures", f"power cuts: {cuts} ({strategy}), lost after acknowledgement 0")


LEFT_OUT = [kind for kind in KINDS_OF_PLACES if kind not in ("file beside it", "folder of the quarantine")]


def test_a_sync_that_is_left_out_is_found(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """The checker is worth something: without one kind of sync, some failure of the power loses something."""
    seed = drawn_seed()
    with recorded(tmp_path, "retire", seed) as (history, recorder):
        found = {
            kind: _found_without(kind, history, recorder, tmp_path / "left", random.Random(seed)) for kind in LEFT_OUT
        }

    assert [kind for kind, loss in found.items() if not loss] == []
    record_property("figures", f"syncs left out: {len(LEFT_OUT)} kinds, {len(found)} found by a power cut")


def _found_without(left_out: str, history: History, recorder: Recorder, left: Path, rng: random.Random) -> str:
    """Return what is lost if one kind of place is never synced; empty if nothing ever is."""
    for moment in chosen(recorder, rng, len(recorder.moments)):
        build(recorder, moment, "strict", left, rng, left_out=lambda place: kind_of(place) == left_out)
        try:
            check(history, moment, left / "w", deep=False)
        except (AssertionError, WarehouseError, Warning) as error:
            print(f"without {left_out}, at {moment.place}: {str(error).splitlines()[0]}")
            return str(error)
        finally:
            shutil.rmtree(left)
    return ""
