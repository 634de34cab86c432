"""A landing folder is finished exactly once, wherever between two files the run before was killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ebb import OpenTable, Warehouse
from ebb.maintenance.landing.run import Outcome, run_table
from tests.builders import integer_table, records, scanned_ids, write_batch


class Killed(BaseException):
    """Nothing catches it, as nothing runs after a kill."""


def run(table: OpenTable) -> list[Outcome]:
    return list(run_table(table.table, table.warehouse.context(), until=table.warehouse.now()))


@pytest.mark.parametrize("moves", range(8))
def test_a_run_killed_after_any_move_is_finished_exactly_once(
    moves: int, warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a batch that was applied, a file that had not been put away yet was taken for a late one, and applied twice."""
    landing = tmp_path / "landing"
    table = integer_table(warehouse, landing=str(landing), quarantine_time="9")
    wanted = []
    for slot in (1, 2):
        for letter in "ab":
            wanted.append(10 * slot + ord(letter) - ord("a"))
            write_batch(landing / f"{slot}-{letter}.csv", records((wanted[-1], letter, slot, slot + 6)))
    done = 0
    rename = Path.rename

    def counted(path: Path, target: Any) -> Path:
        nonlocal done
        if landing in path.parents:
            if done == moves:
                raise Killed
            done += 1
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", counted)
        try:
            run(table)
        except Killed:
            assert done == moves
    for _ in range(2):
        assert not [outcome for outcome in run(table) if outcome.error]

    assert scanned_ids(table) == wanted
    left = sorted(path.name for path in landing.rglob("*") if path.is_file())
    assert left == ["1-a.csv", "1-b.csv", "2-a.csv", "2-b.csv"]
    assert {path.parts[len(landing.parts)] for path in landing.rglob("*.csv")} == {"_applied"}
    assert sum(commit.admitted or 0 for commit in table.history()) == 4
