"""A project whose own modules are called like ours uses Ebb from Python and from the shell, each in a real process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[3]
_SCRIPT = """
import cli, index, maintenance, warehouse
import ebb

table = ebb.open().create(
    "cars", schema="plate STRING, came INT, until INT", key=["plate"], inserted="came", expires="until", tick="10",
    span="120",
)
table.update(at=10)
assert (cli.NAME, index.NAME, maintenance.NAME, warehouse.NAME) == ("cli", "index", "maintenance", "warehouse")
print(table.status().clock_time, table.probe("K-77").num_rows, ebb.open())
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder with modules and packages that have our names, and settings for a warehouse in it."""
    for name in ("index", "cli", "maintenance"):
        (tmp_path / f"{name}.py").write_text(f'NAME = "{name}"\n', encoding="utf-8")
    (tmp_path / "warehouse").mkdir()
    (tmp_path / "warehouse" / "__init__.py").write_text('NAME = "warehouse"\n', encoding="utf-8")
    (tmp_path / "ebb.toml").write_text('warehouse = "data"\n', encoding="utf-8")
    (tmp_path / "use_ebb.py").write_text(_SCRIPT, encoding="utf-8")
    return tmp_path


def _run(project: Path, *arguments: str) -> str:
    # The project's modules come first, as in a real one; Ebb is where it is installed.
    environment = {"PYTHONPATH": f"{project}:{_ROOT}", "HOME": str(project)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_project_with_modules_of_our_names_uses_ebb_from_python_and_from_the_shell(project: Path) -> None:
    assert _run(project, "use_ebb.py") == "10 0 <Warehouse 'data': cars>\n"

    status = json.loads(_run(project, "-m", "ebb.cli.main", "status", "cars", "--json"))
    assert (status["clock"], status["folder"]) == (1, "data/cars")
    assert _run(project, "-m", "ebb.cli.main", "sql", "SELECT count(*) AS n FROM cars", "--format", "csv") == "n\n0\n"
    assert _run(project, "-m", "ebb.cli.main", "update", "cars").startswith("cars: slot 2 (20), version 2\n")
