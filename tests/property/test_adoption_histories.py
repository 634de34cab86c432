"""Random histories in which another tool deletes, appends, compacts and restores, and every time is adopted."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from ebb import OpenTable
from tests.builders import arrow_batch, integer_table, open_warehouse, scanned_ids
from tests.foreign import append
from tests.model import Model, Record
from tests.seeds import drawn_seed, rounds

SPAN, BOUND = 6, 6
WAYS = {
    "retire": {"grid": "3x5", "policy": "3x2", "strategy": "retire", "deletion_bound": "6"},
    "norebuild": {"grid": "3x3", "strategy": "norebuild", "deletion_bound": "6"},
    "rebuild": {"grid": "3x3", "strategy": "rebuild", "deletion_bound": "6"},
    "random": {"grid": "3x3", "policy": "random", "strategy": "norebuild", "deletion_bound": "6"},
}


class History:
    """A table, its model, and what the model held at each version."""

    def __init__(self, table: OpenTable, dice: random.Random) -> None:
        self.table, self.dice = table, dice
        self.model = Model(table.table.snapshot().spec.timeline)
        self.kept: dict[int, list[Record]] = {}
        self.clock = 0
        self.restored = -BOUND  # what had expired comes back with a restore, and stays for the grace period once more
        self.numbers = iter(range(10**6))

    def drawn(self, count: int) -> list[Record]:
        """Return records that a table at this clock may hold."""
        found = []
        for _ in range(count):
            inserted = self.clock - self.dice.randrange(min(3, self.clock))
            expires = inserted + 1 + self.dice.randrange(SPAN)
            found.append(Record(next(self.numbers), f"k{self.dice.randrange(9)}", inserted, expires))
        return found

    def update(self) -> None:
        self.clock += 1
        batch = self.drawn(self.dice.randrange(12))
        outcome = self.model.apply(self.clock, batch)
        report = self.table.update(arrow_batch(batch), at=self.clock)
        assert (report.admitted, report.expired, report.live) == (
            len(outcome.admitted), outcome.expired, len(self.model.window()),
        )  # fmt: skip
        assert report.warnings == ()

    def meddle(self) -> None:
        delta = DeltaTable(self.table.table.folder)
        match self.dice.randrange(4):
            case 0:
                modulus = self.dice.randrange(2, 5)
                delta.delete(f"id % {modulus} = 1")
                self.model.kept = [r for r in self.model.kept if r.id % modulus != 1]
            case 1:
                records = self.drawn(self.dice.randrange(1, 20))
                append(self.table, records)
                self.model.kept += records
            case 2:
                delta.optimize.compact()
            case _:
                version = self.dice.choice(sorted(self.kept))
                try:
                    delta.restore(version)
                except DeltaError:  # files of that version were erased
                    return
                self.model.kept = list(self.kept[version])
                self.restored = self.clock

    def check(self) -> None:
        expected = sorted(record.id for record in self.model.window())
        assert scanned_ids(self.table) == expected
        assert sorted(self.table.probe(low="a", high="z")["id"].to_pylist()) == expected
        status = self.table.status()
        assert (status.live_records, status.foreign_commits) == (len(expected), ())
        assert status.deletion_bound_kept or self.clock < self.restored + BOUND
        self.kept[status.version] = list(self.model.kept)


@pytest.mark.parametrize("way", sorted(WAYS))
def test_after_every_adoption_the_window_is_the_model_s(way: str, tmp_path: Path) -> None:
    dice = random.Random(drawn_seed())
    for number in range(rounds(3)):
        table = integer_table(open_warehouse(tmp_path / f"w{number}"), reader_time="2", **WAYS[way])
        history = History(table, dice)
        for _ in range(12):
            history.update()
            history.check()
            if dice.random() < 0.5:
                for _ in range(dice.randrange(1, 4)):
                    history.meddle()
                live = table.status().live_records
                assert live == len(history.model.window())
                assert table.adopt().live == live
                history.check()
