"""What the commands print, kept as text files beside this one.

``make golden`` writes them again; the diff is the review. What changes from run to run is masked: folders, the times
of commits, seconds and sizes.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ebb.cli.main import main

HERE = Path(__file__).parent
# Each file holds the commands of one name, in the order in which they stand here; they all work on one warehouse.
_STORY = """\
status              status
create              create parking --like first.csv --key plate --inserted came --expires until --tick 10 --span 120
create              create parking --like first.csv --key plate --inserted came --expires until --tick 10 --span 120
create              create square --like first.csv --key plate --inserted came --expires until --tick 10 --span 120 --grid 4x4 --dry-run
create              create bound --like first.csv --key plate --inserted came --expires until --tick 10 --span 120 --deletion-bound 20
status              status parking
explain             explain parking
load                load parking first.csv --at 10
update-dry-run      update parking second.csv --at 20 --dry-run
update              update parking second.csv --at 20
update              update parking second.csv --at 20
update              update parking third.csv --at 20
probe               probe parking K-77
probe               probe parking K-77 B-12 --columns plate,until --format csv
probe               probe parking --prefix K --format jsonl
probe               probe parking
scan                scan parking --where "place = 'south'" --columns plate,until
scan                scan parking --where "place = south"
scan                scan parking --where "came like '1%'"
scan                scan parking --as-of now
scan                scan parking --where "lot = 4"
quarantine          quarantine parking
quarantine          quarantine parking --reason null
status              status parking
update              update parking --at 30
update              update parking --at 90
update              update parking --at 90 --catch-up
update              update parking --at 900 --catch-up
update              update parking third.csv
explain             explain parking
explain-sql         explain parking --sql
explain-sql         explain parking --sql --lasting
sql                 sql "SELECT place, count(*) AS cars FROM parking GROUP BY place ORDER BY place"
sql                 sql "SELECT nothing FROM parking"
status              status parking
status              status
history             history parking
housekeeping        seal parking
housekeeping        purge parking --dry-run
housekeeping        erase parking --dry-run
alter               alter parking --deletion-bound 60 --dry-run
alter               alter parking --add-column "colour STRING"
alter               alter parking
error               scan flights
error               probe parking --limit many
error               update parking nowhere.csv
error               frobnicate
error               create ../x --like first.csv --key plate --inserted came --expires until --tick 10 --span 120
timestamps          create flights --schema "tail STRING, seat INT, dep TIMESTAMP, arr TIMESTAMP" --key tail,seat --inserted dep --expires arr --tick 1h --span 12h --origin 2013-01-01
timestamps          load flights flights.csv --at 2013-01-01T02:00:00Z
timestamps          probe flights N1,4
timestamps          update flights --at 2013-01-01T05:30:00+02:00
timestamps          scan flights --as-of now --where "tail like 'N%' and tail not like '%2'"
timestamps          explain flights --sql --lasting
timestamps          publish flights --spark --as live_flights --dry-run
timestamps          history flights
drop                drop parking
drop                drop parking --dry-run
drop                drop parking --yes
"""
_FILES = {
    "first.csv": "plate,place,came,until\nB-12,north,1,25\nK-77,south,4,70\nB-12,south,9,32\nK-70,north,9,129\n",
    "second.csv": "plate,place,came,until\nM-03,north,12,18\nK-77,north,15,95\nX-00,north,14,500\n,south,14,50\n",
    "third.csv": "plate,place,came,until\nQ-01,south,88,130\n",
    "flights.csv": "tail,seat,dep,arr\nN1,4,2013-01-01T00:30:00Z,2013-01-01T06:00:00Z\nN1,5,2013-01-01T01:30:00Z,2013-01-01T03:00:00Z\n",
}
_NAMES = sorted({line.split()[0] for line in _STORY.splitlines()})


def _masked(text: str, folder: Path) -> str:
    text = text.replace(str(folder), "FOLDER")
    # Commits are made now, everything else happened in 2013.
    text = re.sub(r"20(?!13)\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", "YYYY-MM-DDThh:mm:ssZ", text)
    text = re.sub(r"\d+\.\d\d s\b", "#.## s", text)
    text = re.sub(r" +\d+\.\d\d$", "     #.##", text, flags=re.MULTILINE)
    text = re.sub(r"  +\d+(\.\d)? (B|kB)(?=  | *$)", lambda m: "#.# kB".rjust(len(m[0])), text, flags=re.MULTILINE)
    return re.sub(r"\d+(\.\d)? (B|kB)\b", "#.# kB", text)


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> Iterator[dict[str, str]]:
    """Run the story once and return what was printed, by file."""
    folder = tmp_path_factory.mktemp("golden")
    for name, text in _FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    before, kept = Path.cwd(), {name: os.environ.pop(name, None) for name in ("EBB_WAREHOUSE", "EBB_CONFIG")}
    os.chdir(folder)
    try:
        told = _told(folder)
        if os.environ.get("EBB_GOLDEN") == "write":
            for file in HERE.glob("*.txt"):
                file.unlink()
            for name, text in told.items():
                (HERE / f"{name}.txt").write_text(text, encoding="utf-8")
        yield told
    finally:
        os.chdir(before)
        os.environ.update({name: value for name, value in kept.items() if value is not None})


def _told(folder: Path) -> dict[str, str]:
    import contextlib
    import io

    told: dict[str, str] = dict.fromkeys(_NAMES, "")
    for line in _STORY.splitlines():
        name, command = line.split(None, 1)
        bytes_ = io.BytesIO()
        out = io.TextIOWrapper(bytes_, encoding="utf-8", newline="", write_through=True)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            code = main(["--warehouse", str(folder / "warehouse"), *shlex.split(command)])
        ended = f"[exit code {code}]\n" if code else ""
        told[name] += f"$ ebb {command}\n{_masked(bytes_.getvalue().decode(), folder)}{ended}\n"
    return {name: text.rstrip("\n") + "\n" for name, text in told.items()}


@pytest.mark.parametrize("name", _NAMES)
def test_the_commands_print_what_was_agreed(name: str, printed: dict[str, str]) -> None:
    assert printed[name] == (HERE / f"{name}.txt").read_text(encoding="utf-8")


def test_every_golden_file_belongs_to_a_command(printed: dict[str, str]) -> None:
    assert sorted(file.stem for file in HERE.glob("*.txt")) == _NAMES
