"""Real processes on landing folders: two runs at once, and a service that is watched."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from ebb import Warehouse
from tests.builders import integer_table, open_warehouse, records, scanned_ids, write_batch
from tests.crash.processes import Process, until

BAD_FILES = 1500
SMALL = ("--conf", "spark.driver.memory=1g")


def ebb(warehouse: Warehouse, *arguments: str) -> Process:
    return Process(["-m", "ebb.cli.main", "--warehouse", str(warehouse.root), *arguments])


def outcomes(process: Process) -> list[dict[str, object]]:
    return [outcome for line in process.lines for outcome in json.loads(line)["outcomes"]]


_HOLD = """
import sys
from pathlib import Path
from ebb.warehouse.store.lock import locked

with locked(Path(sys.argv[1]), "it"):
    print("HELD", flush=True)
    sys.stdin.read()
"""


def test_two_runs_on_one_folder_set_each_bad_file_aside_once(tmp_path: Path) -> None:
    """One gave back what the other was taking, and the slower one ended with FileNotFoundError.  No JVM is needed."""
    table = integer_table(open_warehouse(tmp_path / "w"), landing=str(tmp_path / "landing"))
    table.update(at=1)
    for number in range(BAD_FILES):
        (tmp_path / f"landing/{2 + number % 3}-{number}.txt").write_text(str(number), encoding="utf-8")

    runs = [ebb(table.warehouse, "run", "--once", "--json", "--wait", "60s") for _ in range(2)]
    codes = [process.end(90) for process in runs]

    assert [error for process in runs for error in process.errors] == []
    made = [outcome for process in runs for outcome in outcomes(process)]
    assert sorted(codes) == [0, 1], "one has set files aside, the other found nothing to do"
    assert len([outcome for outcome in made if outcome["set_aside"]]) == BAD_FILES
    assert [outcome["slot"] for outcome in made if outcome["report"]] == [2, 3, 4]
    kept = sorted(int(path.read_text()) for path in (tmp_path / "landing/_refused").rglob("*.txt"))
    assert kept == list(range(BAD_FILES))


def test_two_runs_on_one_folder_apply_each_batch_once(tmp_path: Path) -> None:
    folder = tmp_path / "landing"
    table = integer_table(open_warehouse(tmp_path / "w"), landing=str(folder), span="40", quarantine_time="40")
    wanted = []
    for slot in range(1, 6):
        for letter in "ab":
            wanted.append(10 * slot + ord(letter) - ord("a"))
            write_batch(folder / f"{slot}-{letter}.csv", records((wanted[-1], letter, slot, slot + 30)))

    runs = [ebb(table.warehouse, "run", "--once", "--json", "--wait", "100s", *SMALL) for _ in range(2)]
    codes = [process.end(120) for process in runs]

    assert codes == [0, 0], [process.errors for process in runs]
    assert [outcome["slot"] for process in runs for outcome in outcomes(process)] == [1, 2, 3, 4, 5]
    assert scanned_ids(table) == wanted
    assert len(list((folder / "_applied").rglob("*.csv"))) == len(wanted)
    assert not list((folder / "_taken").iterdir())


def test_a_run_that_finds_another_at_work_names_it_and_goes_on_with_other_tables(tmp_path: Path) -> None:
    warehouse = open_warehouse(tmp_path / "w")
    for name in ("a", "b"):
        table = integer_table(warehouse, name, landing=str(tmp_path / name))
        table.update(at=1)
        (tmp_path / f"{name}/_taken/2").mkdir(parents=True)  # an empty tick to finish
    held = Process(["-c", _HOLD, str(tmp_path / "a/_lock")])
    assert held.heard("HELD") == "HELD"

    second = ebb(warehouse, "run", "--once", "--json")

    assert second.end() == 1
    made = {str(outcome["table"]): str(outcome["error"]) for outcome in outcomes(second)}
    assert f"process {held.process.pid} on" in made["a"]
    assert made["b"] == "None"
    held.kill("python")
    held.end()
    assert ebb(warehouse, "run", "--once").end() == 0, "a dead holder blocks nobody"


def test_a_service_says_when_an_error_goes_and_comes_back(tmp_path: Path) -> None:
    """failed stayed true for ever, and an error that came back was not reported."""
    folder, away = tmp_path / "landing", tmp_path / "away"
    table = integer_table(open_warehouse(tmp_path / "w"), landing=str(folder))
    table.update(at=1)
    service = ebb(table.warehouse, "run", "--json")
    until((folder / "_lock").exists, what="the first round")

    for old, new in ((folder, away), (away, folder)) * 2:
        heard = len(service.lines)
        os.rename(old, new)
        until(lambda: len(service.lines) - heard, what="a line")  # noqa: B023 - it is used up within the loop
    service.process.send_signal(signal.SIGTERM)

    assert service.end(10) == 143
    rounds = [json.loads(line) for line in service.lines]
    assert [line["failed"] for line in rounds] == [True, False, True, False]
    assert [len(line["outcomes"]) for line in rounds] == [1, 0, 1, 0]
