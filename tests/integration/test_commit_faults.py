"""Whatever goes wrong around a commit, no file that the log names is lost and none is left behind (P32).

A table is filled once per strategy. In each round a copy of it is worked on (updates with and without a batch, seal,
purge) while the n-th thing that is done to its files is broken: by a full or broken disk, or by an interruption. Then the table is
opened afresh: it is the window before or the window after, what was said is true, and after the next update every file
on disk is named by the log.
"""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ebb import OpenTable
from ebb.index.errors import EngineError, WarehouseError
from ebb.index.grid import Cell
from ebb.index.ledger import Change
from ebb.maintenance.carry_out import carry_out
from ebb.maintenance.plan.change import Plan
from ebb.warehouse.store.paths import LOG
from ebb.warehouse.table.checkpoint import CHECKPOINT_INTERVAL
from tests.builders import NOW, data_files, integer_table, open_warehouse, scanned_ids, write_batch
from tests.faults import Interruption, armed, broken_disk, full_disk
from tests.model import Model, Record
from tests.seeds import drawn_seed, rounds

GRIDS: dict[str, dict[str, Any]] = {
    "rebuild": {"strategy": "rebuild", "grid": "2x3"},
    "norebuild": {"strategy": "norebuild", "grid": "3x2", "policy": "chronological"},
    "retire": {"strategy": "retire", "policy": "3x2"},
}
FILLED = 5  # updates with a batch; the next one completes a group of retire
FAULTS: tuple[Callable[[], BaseException], ...] = (full_disk, broken_disk, Interruption)


def _batch(slot: int) -> list[Record]:
    return [Record(slot * 100 + i, f"k{i % 7}", slot, slot + 1 + (slot + i) % 6) for i in range(40)] + [
        Record(slot * 100 + 99, None, slot, slot + 1)
    ]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> Path:
    """Return a warehouse with a table per strategy, each with files to rewrite, to seal and to purge."""
    folder = tmp_path_factory.mktemp("filled")
    for name, wish in GRIDS.items():
        table = integer_table(open_warehouse(folder / "w"), name, reader_time="1", deletion_bound="6", **wish)
        for slot in range(1, FILLED + 1):
            table.update(write_batch(folder / f"b{slot}.parquet", _batch(slot)), at=slot)
    write_batch(folder / "next.parquet", _batch(FILLED + 1))
    return folder


def _window(table: OpenTable, *, clock: int, with_batch: bool) -> list[int]:
    model = Model(table.table.snapshot().spec.timeline, clock=0)
    for slot in range(1, clock + 1):
        model.apply(slot, _batch(slot) if slot <= FILLED or (slot == FILLED + 1 and with_batch) else [])
    return sorted(record.id for record in model.window())


def _unnamed(table: OpenTable) -> list[str]:
    """Return the files on disk that no commit names."""
    entries = table.table.entries(table.table.snapshot().version)
    named = {path.removesuffix(".parquet") for entry in entries for path in entry.added}
    left = [path for path in table.table.all_files() if path.rsplit(".", 1)[0] not in named]
    return left + [path.name for path in (table.table.folder / LOG).glob("_commit_*")]


WORK: dict[str, Callable[[OpenTable, Path], object]] = {
    "update": lambda table, batch: table.update(batch, at=FILLED + 1),
    "tick": lambda table, _: table.update(at=FILLED + 1),
    "seal": lambda table, _: table.seal(),
    "purge": lambda table, _: table.purge(),
}


@pytest.mark.parametrize("strategy", list(GRIDS))
def test_no_fault_around_a_commit_loses_or_leaves_a_file(
    strategy: str, filled: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    rng = random.Random(drawn_seed())
    count, made = rounds(12), 0
    for number in range(count):
        op = list(WORK)[number % len(WORK)]
        root = tmp_path / str(number)
        shutil.copytree(filled / "w", root)
        table = open_warehouse(root).table(strategy)
        if op == "purge":
            table.update(at=FILLED + 1)
        before = table.table.snapshot()
        shutil.copytree(root, tmp_path / "dry")
        events = _events(op, strategy, tmp_path / "dry", filled)
        shutil.rmtree(tmp_path / "dry")
        fault, at = rng.choice(FAULTS)(), rng.randrange(len(events))
        print(f"{strategy}: {op}, {fault!r} at {at} of {len(events)}: {events[at]}")
        said = ""
        with armed(root, fault, at):
            try:
                WORK[op](table, filled / "next.parquet")
            except Interruption:
                said = "interrupted"
            except WarehouseError as error:
                said = str(error)

        table = open_warehouse(root).table(strategy)
        made += table.table.snapshot().version > before.version
        _check_state(table, before.version, before.ledger.clock or 0, op, said)
        later = open_warehouse(root, NOW + timedelta(days=1)).table(strategy)
        clock = later.table.snapshot().ledger.clock or 0
        later.update(at=clock + 1)
        later.update(at=clock + 2)
        assert _unnamed(later) == []
        assert scanned_ids(later) == _window(later, clock=clock + 2, with_batch=_has_batch(later))
    record_property("figures", f"faults around a commit, {strategy}: {count}, {made} committed, 0 files lost, 0 left")


def _has_batch(table: OpenTable) -> bool:
    """Whether the batch of the test was applied."""
    return any(commit.received and commit.slot == FILLED + 1 for commit in table.history())


def _events(op: str, strategy: str, root: Path, filled: Path) -> list[str]:
    with armed(root, Interruption()) as fault:
        WORK[op](open_warehouse(root).table(strategy), filled / "next.parquet")
    return fault.seen


def _check_state(table: OpenTable, version: int, clock: int, op: str, said: str) -> None:
    snapshot = table.table.snapshot()
    now = snapshot.ledger.clock or 0
    assert now in (clock, FILLED + 1)
    if "nothing was changed" in said:
        assert now == clock
        assert snapshot.version == version
    assert scanned_ids(table) == _window(table, clock=now, with_batch=op == "update" and now > clock)
    for file in snapshot.files:
        assert (table.table.folder / file.path).stat().st_size == file.size_bytes
    assert "not known" not in said


def test_a_plan_that_leaves_its_cells_is_not_carried_out(filled: Path, tmp_path: Path) -> None:
    shutil.copytree(filled / "w", tmp_path / "w")
    table = open_warehouse(tmp_path / "w").table("rebuild")
    snapshot = table.table.snapshot()
    away = replace(snapshot.files[0], cell=Cell(7, 7))
    plan = Plan(removes=(away,), within=frozenset(file.cell for file in snapshot.files))

    with pytest.raises(EngineError, match=r"the plan leaves its cells: it would touch cell \(7, 7\)"):
        carry_out(
            snapshot,
            plan,
            table.warehouse.context(),
            clock=FILLED,
            change=Change(clock=FILLED),
            data_change=False,
            report=lambda _: {"op": "purge"},
        )

    assert table.table.snapshot().version == snapshot.version


@pytest.mark.parametrize("strategy", list(GRIDS))
def test_a_checkpoint_that_cannot_be_written_is_a_warning_and_loses_nothing(
    strategy: str, filled: Path, tmp_path: Path
) -> None:
    shutil.copytree(filled / "w", tmp_path / "w")
    table = open_warehouse(tmp_path / "w").table(strategy)
    files = {f.path for f in table.table.snapshot().files}
    for turn in itertools.count():
        if table.table.snapshot().version == CHECKPOINT_INTERVAL - 1:
            break
        table.alter(quarantine_time=str(2 + turn % 2))
    blocked = table.table.folder / LOG / f"{CHECKPOINT_INTERVAL:020}.checkpoint.parquet"
    (blocked / "in the way").mkdir(parents=True)

    report = table.update(at=FILLED + 1)

    assert any("the checkpoint of version 50 cannot be written" in text for text in report.warnings)
    assert table.table.snapshot().version >= CHECKPOINT_INTERVAL
    assert scanned_ids(table) == _window(table, clock=FILLED + 1, with_batch=False)
    assert {f.path for f in table.table.snapshot().files} != files or strategy != "rebuild"
    shutil.rmtree(blocked)
    assert table.update(at=FILLED + 2).warnings == ()
    assert (table.table.folder / LOG / "_last_checkpoint").is_file()
    assert scanned_ids(table) == _window(table, clock=FILLED + 2, with_batch=False)


def test_a_commit_in_doubt_deletes_nothing_and_the_next_run_settles_it(filled: Path, tmp_path: Path) -> None:
    shutil.copytree(filled / "w", tmp_path / "w")
    table = open_warehouse(tmp_path / "w").table("rebuild")
    version = table.table.snapshot().version
    entry = table.table.folder / LOG / f"{version + 1:020}.json"

    def break_log(doing: str) -> None:
        if doing.startswith("rewriting"):
            entry.write_text("{ nonsense", encoding="utf-8")

    with pytest.raises(EngineError, match="is not known"):
        table.update(filled / "next.parquet", at=FILLED + 1, progress=break_log)
    written = {path.split("-")[0] for path in data_files(table)}
    assert {f"u{FILLED + 1}", f"r{FILLED + 1}"} <= written, "the entry that cannot be read may name it"

    entry.unlink()
    table = open_warehouse(tmp_path / "w").table("rebuild")
    table.update(filled / "next.parquet", at=FILLED + 1)
    assert scanned_ids(table) == _window(table, clock=FILLED + 1, with_batch=True)
    assert _unnamed(table) == []
