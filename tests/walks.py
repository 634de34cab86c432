"""Walks through random histories on real Delta tables, compared with the model record by record after every step.

Each walk draws a grid, a policy, a strategy and a deletion bound, then a history of odd batches, repeats, empty
ticks, catch-ups, seals, purges, erases and restarts. After each step: the window is the model's, the counts are the
model's, the update stayed within its cells, and every cell it did not touch still has the same files and bytes.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from ebb.index.errors import UsageError
from ebb.index.grid import Cell
from ebb.index.strategy import Strategy
from ebb.maintenance.update import Report
from tests.builders import arrow_batch, integer_table, open_warehouse, scanned_ids, write_batch
from tests.model import Model, Outcome, Record

# Shrinking would run for minutes on tables this slow; the seed and the blob tell enough.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
BY_SPARK = ("parquet", "csv", "jsonl", "csv.gz", "jsonl.gz")
WITHOUT_SPARK = ("arrow", "direct")  # an Arrow table, and a Parquet file by the engine direct


@st.composite
def declarations(draw: st.DrawFn, strategy: str) -> dict[str, Any]:
    tick, p = draw(st.integers(1, 3)), draw(st.integers(2, 8))
    wish: dict[str, Any] = {
        "tick": str(tick),
        "span": str(tick * p),
        "strategy": strategy,
        "origin": str(draw(st.integers(-20, 20))),
    }
    wish["deletion_bound"] = str(tick * draw(st.integers(p + 2, 2 * p + 3)))
    if strategy == "retire":
        w, v = draw(st.integers(1, p)), draw(st.integers(1, p))
        wish["policy"] = f"{v}x{w}"
    else:
        wish["grid"] = f"{draw(st.integers(1, 5))}x{draw(st.integers(1, 5))}"
        wish["policy"] = draw(st.sampled_from(["round-robin", "chronological", "random", "2x3"]))
    return wish


@st.composite
def steps(draw: st.DrawFn, forms: Sequence[str]) -> list[tuple[Any, ...]]:
    kinds = st.sampled_from(
        ["batch", "batch", "batch", "empty", "repeat", "catch-up", "seal", "purge", "erase", "restart"]
    )
    return [
        (kind, draw(st.integers(0, 2**32)), draw(st.integers(2, 5)), draw(st.sampled_from(forms)))
        for kind in draw(st.lists(kinds, min_size=4, max_size=9))
    ]


def odd_batch(seed: int, model: Model, slot: int, first_id: int) -> list[Record]:
    """Return a batch in which every kind of record can occur, the boundaries of slots most of all."""
    import random

    rng, line = random.Random(seed), model.timeline
    batch = []
    for i in range(rng.randrange(1, 14)):
        inserted: int | None = line.end_of(slot) - rng.randrange(0, 2 * line.tick) + rng.choice([0, 0, 0, 1])
        lifetime = rng.choice([1, line.tick, line.span, line.span + 1, 0, rng.randrange(1, line.span + 1)])
        expires: int | None = None if inserted is None else inserted + lifetime
        key: str | None = rng.choice(["a", "b", "ab", "", "ü", None, f"k{rng.randrange(50)}"])
        if rng.random() < 0.05:
            inserted = None
        if rng.random() < 0.05:
            expires = None
        batch.append(Record(first_id + i, key, inserted, expires))
    return batch


class Walk:
    """A real table and the model, side by side."""

    def __init__(self, root: Path, wish: dict[str, Any]) -> None:
        self.root = root
        self.table = integer_table(open_warehouse(root / "w"), **wish)
        spec = self.table.table.snapshot().spec
        self.spec = spec
        self.model = Model(spec.timeline)
        self.last: tuple[list[Record], int] | None = None
        self.next_id = 1

    def _apply(self, work: Callable[..., Report], batch: list[Record], form: str, **options: Any) -> Report:
        """Hand a batch over in one of its forms."""
        if form == "arrow":
            return work(arrow_batch(batch), **options)
        file = write_batch(self.root / f"b.{'parquet' if form == 'direct' else form}", batch)
        return work(file, engine="direct" if form == "direct" else "spark", **options)

    def load(self, seed: int, form: str) -> None:
        slot = 5
        batch = [r for r in odd_batch(seed, self.model, slot, self.next_id) if r.inserted is not None]
        self.next_id += 100
        if not batch:
            self.table.update(at=self.spec.timeline.end_of(slot))
            self.model.apply(slot, [])
            return
        report = self._apply(self.table.load, batch, form, at=self.spec.timeline.end_of(slot))
        self._same_counts(report, self.model.apply(slot, batch), len(batch))
        self.last = (batch, slot)
        self.same_window()

    def take(self, step: tuple[Any, ...]) -> None:
        kind, seed, jump, form = step
        note(f"{kind} at clock {self.model.clock}")
        match kind:
            case "batch" | "empty":
                self.update(seed if kind == "batch" else None, (self.model.clock or 0) + 1, form)
            case "catch-up":
                self.update(seed, (self.model.clock or 0) + jump, form, catch_up=True, yes=True)
            case "repeat":
                self.repeat(form)
            case "seal":
                self.table.seal()
            case "purge":
                self.table.purge()
                clock = self.table.table.snapshot().ledger.clock
                assert not [f for f in self.table.table.snapshot().files if clock is not None and f.has_expired(clock)]
            case "erase":
                self.table.erase()
            case "restart":
                self.table = open_warehouse(self.root / "w").table("t")
        self.same_window()
        self.is_sound()

    def is_sound(self) -> None:
        """Derived from disk alone, everything is as it should be; every byte and record now and then."""
        checked = self.table.check(deep=self.next_id % 3 == 0)

        # Who catches up comes late, and the bound is promised to who comes every tick.
        assert [str(found) for found in checked.findings if found.code != "bound"] == []

    def update(self, seed: int | None, slot: int, form: str, **options: Any) -> None:
        batch = [] if seed is None else odd_batch(seed, self.model, slot, self.next_id)
        self.next_id += 100
        options["at"] = self.spec.timeline.end_of(slot)
        before, hashes = self.table.table.snapshot(), self._hashes()
        report = (
            self.table.update(**options) if seed is None else self._apply(self.table.update, batch, form, **options)
        )
        self._same_counts(report, self.model.apply(slot, batch), len(batch))
        self._same_elsewhere(before.version, report, hashes)
        if batch:
            self.last = (batch, slot)

    def repeat(self, form: str) -> None:
        """Send the last batch again, in any form."""
        if self.last is None:
            return
        batch, slot = self.last
        version = self.table.table.snapshot().version
        for at in (None, self.spec.timeline.end_of(slot)):
            report = self._apply(self.table.update, batch, form, at=at)

            assert report.already_applied
            assert report.slot == slot
        assert self.table.table.snapshot().version == version

    def same_window(self) -> None:
        assert scanned_ids(self.table) == sorted(r.id for r in self.model.window())
        snapshot = self.table.table.snapshot()
        assert snapshot.ledger.live_records == len(self.model.window())
        line = self.spec.timeline
        for key in ("a", "ü", "k7"):
            found = self.table.probe(key)["id"].to_pylist()
            wanted = sorted((line.slot_of(r.expires or 0), r.id) for r in self.model.window() if r.key == key)
            assert sorted(found) == sorted(i for _, i in wanted)

    def _same_counts(self, report: Report, outcome: Outcome, received: int) -> None:
        assert report.received == received
        assert report.admitted == len(outcome.admitted)
        assert report.expired_on_arrival == len(outcome.expired_on_arrival)
        assert report.quarantined == len(outcome.quarantined) == sum(report.reasons.values())
        assert report.expired == outcome.expired
        assert not [text for text in report.warnings if "were refused, most often" not in text]

    def _hashes(self) -> dict[Cell, dict[str, str]]:
        cells: dict[Cell, dict[str, str]] = defaultdict(dict)
        for file in self.table.table.snapshot().files:
            cells[file.cell][file.path] = hashlib.sha256((self.table.table.folder / file.path).read_bytes()).hexdigest()
        return cells

    def _same_elsewhere(self, version: int, report: Report, before: dict[Cell, dict[str, str]]) -> None:
        """P3, from the log entries of the update itself and the bytes on disk."""
        entries = [e for v in report.versions if (e := self.table.table.entry(v)) is not None]
        assert [e.version for e in entries] == list(range(version + 1, self.table.table.snapshot().version + 1))
        assert entries[0].version == report.version
        own = [e for e in entries if e.ebb["op"] in ("update", "retire")]
        own += [e for e in entries if e.ebb["op"] == "purge" and not report.purged_files]
        others = [e for e in entries if e not in own]
        assert {e.ebb["op"] for e in others} <= {"seal", "purge"}
        touched = {_cell(path) for e in own for path in (*e.added, *e.removed)}
        assert len(touched) == report.cells_touched <= report.cells_bound
        assert report.files_removed == sum(len(e.removed) for e in own)
        assert report.bytes_written == sum(e.bytes_added for e in own)
        groups, cohorts = self.spec.grid.groups.count, self.spec.grid.cohorts.count
        if report.ticks == 1:
            assert report.cells_bound == groups + cohorts - 1
        if self.spec.strategy is not Strategy.REBUILD:
            assert not entries[0].removed, "a stream can follow what only adds"
            assert not [e for e in entries[1:] if e.added and e.ebb["op"] == "retire"]
        sealed = {_cell(path) for e in others for path in e.removed}
        after = self._hashes()
        for cell, files in before.items():
            if cell not in touched | sealed:
                assert after[cell] == files


def _cell(path: str) -> Cell:
    parts = dict(part.split("=") for part in path.split("/") if "=" in part)
    return Cell(int(parts["_g"]), int(parts["_e"]))


def walk_histories(strategy: str, forms: Sequence[str], examples: int) -> None:
    """Take some walks with batches in these forms."""

    @given(wish=declarations(strategy), history=steps(forms), seed=st.integers(0, 2**32))
    @settings(
        max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True, phases=PHASES
    )
    def check(wish: dict[str, Any], history: list[tuple[Any, ...]], seed: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            try:
                walk = Walk(Path(folder), wish)
            except UsageError as refused:
                note(str(refused))
                return
            walk.load(seed, forms[seed % len(forms)])
            for step in history:
                walk.take(step)

    check()
