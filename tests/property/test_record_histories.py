"""Random histories in which records are amended, forgotten, held and released among updates, seals, purges, erasures and kills, against the model.

A kill breaks a request or an update off at a random step; whoever comes next finds the state before or after, and the
request is made again. A follower reads all changes, and has in the end what the model told it; if records were forgotten
so fast that it could not be told, it was told that.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ebb import HeldError, InputError, OpenTable, TooLateError
from tests.builders import arrow_batch, integer_table, open_warehouse, scanned
from tests.canaries import canaries_on_disk
from tests.faults import Interruption, armed
from tests.model import Model, Record
from tests.seeds import drawn_seed, rounds

SPAN = 6
WAYS = {
    "retire": {"policy": "3x2", "strategy": "retire", "deletion_bound": "6"},
    "norebuild": {"grid": "3x3", "strategy": "norebuild", "deletion_bound": "8"},
    "rebuild": {"grid": "3x3", "strategy": "rebuild", "deletion_bound": "6"},
}
STEPS = 12
Told = Counter[tuple[str, int, int]]  # change, id, when it expires


class History:
    """A table, its model, and what a follower is told."""

    def __init__(self, root: Path, way: dict[str, str], dice: random.Random) -> None:
        self.root, self.dice = root, dice
        integer_table(open_warehouse(root), reader_time="1", **way)
        self.model = Model(self.table.table.snapshot().spec.timeline)
        self.number = self.clock = self.edits = self.kills = self.late = self.cases = 0
        self.told: Told = Counter()
        self.expected: Told = Counter()
        self.version = 0
        self.arrived: list[Record] = []  # each with a canary of its own
        self.gone: dict[str, int] = {}  # canaries that must be gone, and from which slot on
        self.looked_for: set[str] = set()  # of these, when their time was over

    @property
    def table(self) -> OpenTable:
        """Open the table afresh, as another process would."""
        return open_warehouse(self.root).table("t")

    def key(self) -> str:
        return f"canary{self.dice.randrange(8)}"

    def update(self, least: int = 0) -> None:
        self.clock += 1
        batch: list[Record] = []
        for _ in range(self.dice.randrange(least, 9)):
            self.number += 1
            inserted = self.clock - self.dice.randrange(2)
            expires = self.clock + 1 + self.dice.randrange(SPAN - 1)
            batch.append(Record(self.number, self.key(), inserted, expires))
        before = {record.id: record for record in self.model.window()}
        outcome = self.model.apply(self.clock, batch)
        left = {record.id for record in self.model.window()}
        self.tell("admitted", outcome.admitted)
        self.tell("expired", [record for id, record in before.items() if id not in left])
        self.gone = {key: slot for key, slot in self.gone.items() if key not in {record.key for record in batch}}
        self.arrived += batch
        pays = pa.array([self.canary(record) for record in batch], pa.string())
        rows = arrow_batch(batch)
        rows = rows.set_column(rows.column_names.index("pay"), "pay", pays)
        self.done(lambda table: table.update(rows, at=self.clock))

    def canary(self, record: Record) -> str:
        return f"canary-{record.id}"

    def amend(self) -> None:
        """Let records of a key, or some others, expire at another time; if one would live too long, they must all stay."""
        key, expires = self.key(), self.clock + self.dice.randrange(1, SPAN)
        modulus, rest = self.dice.randrange(1, 4), self.dice.randrange(3)
        by_key = self.dice.random() < 0.5

        def chosen(record: Record) -> bool:
            return record.key == key if by_key else record.id % modulus == rest

        ids = [record.id for record in self.model.window() if chosen(record) and record.expires != expires]
        asked: dict[str, Any] = {} if by_key else {"where": f"id in ({', '.join(map(str, ids or [0]))})", "yes": True}

        def work(table: OpenTable) -> Any:
            return table.amend(*([key] if by_key else []), expires=expires, **asked)

        if self.model.held() & set(ids):
            with pytest.raises(HeldError):
                work(self.table)
            return
        if any(r.id in ids and expires - (r.inserted or 0) > SPAN for r in self.model.window()):
            with pytest.raises(InputError, match="longer than the span"):
                work(self.table)
            return
        self.tell("amended", self.model.amend(chosen, expires))
        self.edits += 1
        self.done(work)

    def forget(self) -> None:
        """Forget the records of a key, or those of a range of ids."""
        if self.dice.random() < 0.7:
            key = self.key()
            self.forget_chosen(lambda record: record.key == key, key=key)
        else:
            first = self.number // 2
            self.forget_range(first - self.dice.randrange(2, 6), first)

    def forget_range(self, low: int, high: int) -> None:
        """Forget the records with an id between two."""
        self.forget_chosen(lambda record: low < record.id < high, where=f"id > {low} and id < {high}")

    def forget_chosen(self, chosen: Callable[[Record], bool], *, key: str | None = None, where: str = "") -> None:
        within = self.dice.choice([None, 0, 1, 2])

        def work(table: OpenTable) -> Any:
            return (
                table.forget(where=where, yes=True, within=within) if key is None else table.forget(key, within=within)
            )

        held = self.model.held()
        if any(record.id in held and chosen(record) for record in self.model.kept):
            with pytest.raises(HeldError):
                work(self.table)
            return
        words = [self.canary(record) for record in self.arrived if chosen(record)] + ([] if key is None else [key])
        for word in words:
            self.gone[word] = min(self.gone.get(word, self.clock + 2), self.clock + (2 if within is None else within))
        self.tell("forgotten", self.model.forget(chosen))
        self.edits += 1
        self.done(work)

    def hold(self) -> None:
        """Hold records of a key or those of a range of ids, with or without what comes, or release a case."""
        if self.model.holds and self.dice.random() < 0.5:
            case = self.dice.choice(sorted(self.model.holds))
            self.model.release(case)
            self.done(lambda table: case in [held.case for held in table.holds()] and table.release(case))
            return
        self.cases += 1
        case, key, arrivals = f"c{self.cases}", self.key(), self.dice.random() < 0.5
        by_key, first = self.dice.random() < 0.6, self.number - 3

        def chosen(record: Record) -> bool:
            return record.key == key if by_key else record.id >= first

        which: dict[str, Any] = {} if by_key else {"where": f"id >= {first}"}
        self.model.hold(case, chosen, arrivals=arrivals)
        if not arrivals and not self.model.holds[case] & {record.id for record in self.model.window()}:
            self.model.release(case)  # there is nothing to hold
        self.edits += 1
        self.done(lambda table: table.hold(*([key] if by_key else []), case=case, arrivals=arrivals, **which))

    def done(self, work: Callable[[OpenTable], Any]) -> None:
        """Do something, perhaps killed on the way and then done again."""
        while self.dice.random() < 0.25:
            with armed(self.root, Interruption(), self.dice.randrange(60)):
                try:
                    work(self.table)
                    break
                except Interruption:
                    self.kills += 1
        work(self.table)

    def upkeep(self) -> None:
        self.done(self.dice.choice([lambda t: t.seal(), lambda t: t.purge(), lambda t: t.erase()]))

    def tell(self, change: str, records: list[Record]) -> None:
        self.expected.update((change, record.id, record.expires or 0) for record in records)

    def check(self) -> None:
        """Compare the window, the counts, probes, what a follower is told, and what is on disk."""
        table = self.table
        window = sorted((r.id, r.key, r.inserted, r.expires) for r in self.model.window())
        found = [(row["id"], row["key"], row["inserted"], row["expires"]) for row in scanned(table)]
        assert sorted(found) == window
        assert table.table.snapshot().ledger.live == Counter(expires for *_, expires in window)
        key = self.key()
        probed = table.probe(key)
        assert sorted(probed["id"].to_pylist()) == [id for id, other, *_ in window if other == key]
        self.follow(table)
        assert {each.case for each in table.holds()} == self.model.holds.keys()
        assert sorted(i for batch in table.held() for i in batch["id"].to_pylist()) == sorted(self.model.held())
        for case, ids in self.model.holds.items():
            assert sorted(i for batch in table.held(case) for i in batch["id"].to_pylist()) == sorted(ids)
        assert table.status().deletion_bound_kept
        assert table.check(deep=True).findings == ()
        late = {word for word, slot in self.gone.items() if slot <= self.clock}
        assert not late & canaries_on_disk(self.root)
        self.looked_for |= late

    def follow(self, table: OpenTable) -> None:
        """Take in what was committed since the last time; a follower that is late says so, and begins anew from there."""
        try:
            for commit in table.changes(self.version, expiries=True):
                rows = commit.records.read_all().to_pylist()
                self.told.update((row["_change"], row["id"], row["expires"]) for row in rows)
                self.version = commit.version
        except TooLateError as error:
            assert any(commit.op == "forget" for commit in table.history() if commit.version > self.version)
            self.version, self.late = error.args[2], self.late + 1
            self.told, self.expected = Counter(), Counter()
            self.follow(table)


@pytest.mark.parametrize("way", sorted(WAYS))
def test_after_any_history_the_table_is_the_model_and_a_follower_knows_why(
    way: str, tmp_path: Path, record_property: Any
) -> None:
    dice = random.Random(drawn_seed())
    steps = edits = kills = canaries = 0
    for number in range(rounds(2)):
        history = History(tmp_path / str(number), WAYS[way], dice)
        history.update(least=6)
        history.check()
        history.forget_range(0, 6)
        history.check()
        for _ in range(STEPS):
            dice.choice([history.update, history.update, history.forget, history.amend, history.hold, history.upkeep])()
            history.check()
            steps += 1
        for _ in range(3):
            history.update()
            history.check()
        assert history.told == history.expected
        edits, kills = edits + history.edits, kills + history.kills
        canaries += len(history.looked_for)
    assert canaries >= 10
    record_property(
        "figures", f"amendments and holds: {steps} steps of {way}, {kills} kills, differences from the model 0"
    )
    record_property("figures", f"forgotten canaries of {way}: {canaries}, found after the time given 0")
