"""Backups in random histories: what expires leaves them within the bound, and what comes back is the model's window."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ebb import OpenTable
from tests.backups import canaries_below
from tests.builders import arrow_batch, integer_table, open_warehouse, refused_records, scanned_ids
from tests.model import Model, Record
from tests.seeds import drawn_seed, rounds

WAYS: dict[str, dict[str, str]] = {
    "retire": {"policy": "3x2", "strategy": "retire", "deletion_bound": "6"},
    "retire at once": {"policy": "1x1", "strategy": "retire", "deletion_bound": "3"},
    "norebuild": {"grid": "2x3", "strategy": "norebuild", "deletion_bound": "3"},
    "lazy norebuild": {"grid": "3x2", "strategy": "norebuild", "deletion_bound": "9", "policy": "random"},
    "rebuild": {"grid": "2x2", "strategy": "rebuild", "deletion_bound": "4", "policy": "chronological"},
}
STEPS = 14


class History:
    """A table, its backup, and the model."""

    def __init__(self, folder: Path, way: str, rng: random.Random) -> None:
        self.folder, self.rng = folder, rng
        self.table = integer_table(open_warehouse(folder / "w"), **WAYS[way])
        self.model = Model(self.table.table.snapshot().spec.timeline)
        self.bound = int(WAYS[way]["deletion_bound"])
        self.expires: dict[str, int] = {}
        self.slots: list[int] = []
        self.batches: dict[int, list[Record]] = {}
        self.backed_up: list[Record] | None = None  # what the window held then
        self.canaries = self.restored = self.counted = 0

    def step(self, number: int) -> None:
        """Update, perhaps back up, and look at every byte of the backup."""
        jump = self.rng.choice([1, 1, 1, 1, 2, 3])
        slot = (self.slots[-1] if self.slots else 0) + jump
        batch = [
            Record(100 * number + i, f"canary-{number}-{i}-x", slot, slot + self.rng.randint(1, 6)) for i in range(5)
        ]
        refused = Record(100 * number + 60, f"canary-{number}-60-x", slot, slot)
        self.batches[slot] = [*batch, refused]
        self.table.update(arrow_batch(self.batches[slot]), at=slot, catch_up=jump > 1, yes=True)
        self.model.apply(slot, self.batches[slot])
        self.slots.append(slot)
        self.expires |= {str(record.key): record.expires or 0 for record in self.batches[slot]}
        works: list[Callable[[], object]] = [self.table.seal, self.table.purge, self.table.erase]
        for work in self.rng.sample(works, self.rng.randint(0, 2)):
            work()
        if self.rng.random() < 0.4:
            self.table.backup(self.folder / "b", verify=self.rng.random() < 0.3)
            self.backed_up = list(self.model.window())
        self.nothing_overdue()

    def nothing_overdue(self) -> None:
        """Check that what expired the bound ago, counted in updates, is in no byte of the backup."""
        found = canaries_below(self.folder / "b")
        late = {
            word
            for word in found
            if sum(s > self.expires[word] for s in self.slots) - (self.expires[word] not in self.slots) >= self.bound
        }
        assert late == set()
        self.canaries += len(found)

    def restore(self) -> None:
        """Restore what is there now, compare it with the model, and let it catch up with the table."""
        if self.backed_up is None:
            return
        again = open_warehouse(self.folder / f"again{self.restored}")
        clock = self.slots[-1]
        kept = self.table.status().backups[0]
        at = self.rng.choice([None, clock, clock + 1, clock + 2])
        backups = (
            self.folder / f"b{self.restored}"
        )  # of its own: an adopted copy looks after the backup that it came from
        shutil.copytree(self.folder / "b", backups)
        would = again.restore(backups, "t", at=at, dry_run=True)
        done = again.restore(backups, "t", at=at)
        copy, over = again.table("t"), done.expired_through or 0
        assert (would.expired_through, would.files) == (over, done.files)
        window = [record for record in self.backed_up if (record.expires or 0) > over]
        assert scanned_ids(copy) == sorted(record.id for record in window)
        assert (done.records, done.slot, copy.status().live_records) == (len(window), kept.slot, len(window))
        until = copy.table.snapshot().spec.quarantined_until(over)
        assert {record.slot for record in refused_records(copy.table)} <= set(range(until + 1, over + 1))
        gone = {word for word, expires in self.expires.items() if expires <= over}
        assert not (canaries_below(copy.table.folder) & gone), "what has expired does not come back"
        self.go_on(copy, done.slot or 0, over)
        self.restored += 1
        shutil.rmtree(again.root)
        shutil.rmtree(backups)

    def go_on(self, copy: OpenTable, since: int, over: int) -> None:
        """Apply to the copy what the table had before and after its backup; that it is the same in the end."""
        copy.adopt()
        before = [slot for slot in self.batches if slot <= since]
        if before:
            assert copy.update(arrow_batch(self.batches[before[-1]])).already_applied
        for slot in [slot for slot in self.batches if slot > since]:
            assert not copy.update(arrow_batch(self.batches[slot]), at=slot, catch_up=True, yes=True).already_applied
            self.counted += 1
        left = [r for r in self.model.window() if (r.expires or 0) > over or self.slot_of(r) > since]
        assert scanned_ids(copy) == sorted(record.id for record in left)

    def slot_of(self, record: Record) -> int:
        return next(slot for slot, batch in self.batches.items() if record in batch)


@pytest.mark.parametrize("way", WAYS)
def test_what_expires_leaves_backups_within_the_bound_and_what_comes_back_is_the_models_window(
    way: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    rng = random.Random(drawn_seed())
    canaries = restored = caught_up = 0
    for number in range(rounds(2)):
        history = History(tmp_path / str(number), way, rng)
        for step in range(STEPS):
            history.step(step)
            if rng.random() < 0.25:
                history.restore()
        canaries, restored = canaries + history.canaries, restored + history.restored
        caught_up += history.counted
        shutil.rmtree(tmp_path / str(number))

    record_property(
        "figures",
        f"backups, {way}: {canaries} canaries looked at, 0 found after the bound; {restored} restores, 0 differences, "
        f"{caught_up} lost batches applied again",
    )
