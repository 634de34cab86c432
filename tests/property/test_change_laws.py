"""What a table changed, against the model: every record that was admitted, and every one that expired, once.

A walk makes a random history on a real table. Two followers go along: one looks after every step, the other now and
then, each with nothing but its token. Whoever comes too late must be told the oldest version from which nothing is
missing, and go on there.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from ebb import OpenTable, TooLateError, UsageError
from ebb.index.strategy import Strategy
from tests.builders import open_warehouse
from tests.seeds import rounds
from tests.walks import PHASES, WITHOUT_SPARK, Walk, declarations, steps

Seen = Counter[tuple[str, int, int]]  # what happened to which id in which slot


class FollowedWalk(Walk):
    """A walk that remembers what each version should tell."""

    def __init__(self, root: Path, wish: dict[str, Any]) -> None:
        super().__init__(root, wish)
        self.told: dict[int, Seen] = {}

    def load(self, seed: int, form: str) -> None:
        super().load(seed, form)
        self._note({}, 0)

    def update(self, seed: int | None, slot: int, form: str, **options: Any) -> None:
        line = self.spec.timeline
        before = {record.id: line.slot_of(record.expires or 0) for record in self.model.window()}
        known = len(self.model.kept)
        super().update(seed, slot, form, **options)
        self._note(before, known)

    def _note(self, before: dict[int, int], known: int) -> None:
        """Note what the last update did: what is new, and what is no longer in the window."""
        version = next(c.version for c in self.table.history() if c.op in ("load", "update"))
        left = {record.id for record in self.model.window()}
        clock = self.model.clock or 0
        self.told[version] = Counter(
            [("admitted", record.id, clock) for record in self.model.kept[known:]]
            + [("expired", id, slot) for id, slot in before.items() if id not in left]
        )


class Follower:
    """One that has a token and nothing else."""

    def __init__(self, walk: FollowedWalk, *, expiries: bool) -> None:
        self.walk, self.expiries = walk, expiries
        self.position, self.token = 0, "0"
        self.was_late = 0

    def catch_up(self) -> None:
        """Take in what is new, in a process that knows the table by its name only."""
        table = open_warehouse(self.walk.root / "w").table("t")
        try:
            self._take(table)
        except TooLateError as late:
            self._check_late(late)
            self.position, self.token = late.args[2], str(late.args[2])
            self._take(table)
        assert self.position == table.table.snapshot().version

    def _take(self, table: OpenTable) -> None:
        """Take in commit by commit; what was handed out before an error is right, too."""
        feed = table.changes(self.token, expiries=self.expiries)
        for commit in feed:
            rows = commit.records.read_all()
            assert set(rows["_version"].to_pylist()) <= {commit.version}
            columns = [rows[name].to_pylist() for name in ("_change", "id", "_slot")]
            assert Counter(zip(*columns, strict=True)) == self._wanted(commit.version)
            assert commit.version == min(version for version in self.walk.told if version > self.position)
            self.position, self.token = commit.version, commit.token
        assert not [version for version in self.walk.told if version > self.position]
        self.position, self.token = feed.version, feed.token

    def _wanted(self, version: int) -> Seen:
        told = self.walk.told[version]
        return Counter({row: count for row, count in told.items() if self.expiries or row[0] == "admitted"})

    def _check_late(self, late: TooLateError) -> None:
        """The version that it names is the oldest one."""
        self.was_late += 1
        table, oldest = self.walk.table, late.args[2]
        note(f"late at {self.token}, can go on after {oldest}")
        assert oldest > late.args[1] >= self.position
        with pytest.raises(TooLateError):
            table.changes(oldest - 1, expiries=self.expiries)


@pytest.mark.parametrize("strategy", [strategy.value for strategy in Strategy])
def test_changes_are_what_the_model_admits_and_lets_expire(strategy: str) -> None:
    @given(wish=declarations(strategy), history=steps(WITHOUT_SPARK), seed=st.integers(0, 2**32))
    @settings(
        max_examples=rounds(8),
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
        phases=PHASES,
    )
    def check(wish: dict[str, Any], history: list[tuple[Any, ...]], seed: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            try:
                walk = FollowedWalk(Path(folder), wish)
            except UsageError as refused:
                note(str(refused))
                return
            rng = random.Random(seed)
            close, far = Follower(walk, expiries=True), Follower(walk, expiries=rng.random() < 0.5)
            walk.load(seed, WITHOUT_SPARK[seed % 2])
            for step in history:
                walk.take(step)
                close.catch_up()
                if rng.random() < 0.3:
                    far.catch_up()
            far.catch_up()

            assert close.was_late == 0, "it looked after every step"

    check()
