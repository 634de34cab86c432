"""A project whose own modules are called like ours applies batches with Spark, whose Python workers import our code too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

_JOB = """
import cli, index, maintenance, warehouse
import ebb

assert (cli.NAME, index.NAME, maintenance.NAME, warehouse.NAME) == ("cli", "index", "maintenance", "warehouse")
table = ebb.open().create(
    "cars", like="first.csv", key=["plate"], inserted="came", expires="until", tick="10", span="120", strategy="rebuild",
)
report = table.update("first.csv", at=10)
print(report.admitted, report.quarantined, table.probe("K-77").num_rows)
"""
_CSV = "plate,came,until\nB-12,{0},{1}\nK-77,{0},{1}\n,{0},{1}\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder with modules and a package that have our names, a job, and batches."""
    for name in ("index", "cli", "maintenance"):
        (tmp_path / f"{name}.py").write_text(f'NAME = "{name}"\n', encoding="utf-8")
    (tmp_path / "warehouse").mkdir()
    (tmp_path / "warehouse" / "__init__.py").write_text('NAME = "warehouse"\n', encoding="utf-8")
    (tmp_path / "ebb.toml").write_text('warehouse = "data"\n', encoding="utf-8")
    (tmp_path / "job.py").write_text(_JOB, encoding="utf-8")
    (tmp_path / "first.csv").write_text(_CSV.format(4, 70), encoding="utf-8")
    (tmp_path / "second.csv").write_text(_CSV.format(14, 90), encoding="utf-8")
    return tmp_path


def _run(project: Path, *command: str) -> str:
    done = subprocess.run(
        command,
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_project_with_modules_of_our_names_applies_batches_with_spark(project: Path) -> None:
    ebb = str(Path(sys.executable).with_name("ebb"))

    assert _run(project, sys.executable, "job.py") == "2 1 1\n"
    told = json.loads(_run(project, ebb, "update", "cars", "second.csv", "--at", "20", "--json"))
    assert (told["admitted"], told["quarantined"], told["live"]) == (2, 1, 4)
    assert _run(project, ebb, "--version").startswith("ebb ")
    assert _run(project, ebb, "probe", "cars", "K-77", "--columns", "until", "--format", "csv") == "until\n70\n90\n"
