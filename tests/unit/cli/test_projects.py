"""A project whose own modules are called like ours uses Ebb from Python and from the shell, each in a real process."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.projects import NAMED_SO, make_project, run

_ROOT = Path(__file__).parents[3]
_SCRIPT = f"""{NAMED_SO}
table = ebb.open().create(
    "cars", schema="plate STRING, came INT, until INT", key=["plate"], inserted="came", expires="until", tick="10",
    span="120",
)
table.update(at=10)
print(table.status().clock_time, table.probe("K-77").num_rows, ebb.open())
"""


def test_a_project_with_modules_of_our_names_uses_ebb_from_python_and_from_the_shell(tmp_path: Path) -> None:
    project = make_project(tmp_path, {"use_ebb.py": _SCRIPT})

    def python(*arguments: str) -> str:
        # The project's modules come first, as in a real one; Ebb is where it is installed.
        environment = {"PYTHONPATH": f"{project}:{_ROOT}", "HOME": str(project)}
        return run(project, sys.executable, *arguments, environment=environment)

    assert python("use_ebb.py") == "10 0 <Warehouse 'data': cars>\n"

    status = json.loads(python("-m", "ebb.cli.main", "status", "cars", "--json"))
    assert (status["clock"], status["folder"]) == (1, "data/cars")
    assert python("-m", "ebb.cli.main", "sql", "SELECT count(*) AS n FROM cars", "--format", "csv") == "n\n0\n"
    assert python("-m", "ebb.cli.main", "update", "cars").startswith("cars: slot 2 (20), version 2\n")
