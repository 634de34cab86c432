"""A project whose own modules are called like ours applies batches with Spark, whose Python workers import our code too."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.projects import NAMED_SO, make_project, run

_JOB = f"""{NAMED_SO}
table = ebb.open().create(
    "cars", like="first.csv", key=["plate"], inserted="came", expires="until", tick="10", span="120", strategy="rebuild",
)
report = table.update("first.csv", at=10)
print(report.admitted, report.quarantined, table.probe("K-77").num_rows)
"""
_CSV = "plate,came,until\nB-12,{0},{1}\nK-77,{0},{1}\n,{0},{1}\n"


def test_a_project_with_modules_of_our_names_applies_batches_with_spark(tmp_path: Path) -> None:
    files = {"job.py": _JOB, "first.csv": _CSV.format(4, 70), "second.csv": _CSV.format(14, 90)}
    project = make_project(tmp_path, files)
    environment = {**os.environ, "PYTHONPATH": str(project)}

    def ebb(*arguments: str) -> str:
        return run(project, str(Path(sys.executable).with_name("ebb")), *arguments, environment=environment)

    assert run(project, sys.executable, "job.py", environment=environment) == "2 1 1\n"
    told = json.loads(ebb("update", "cars", "second.csv", "--at", "20", "--json"))
    assert (told["admitted"], told["quarantined"], told["live"]) == (2, 1, 4)
    assert ebb("--version").startswith("ebb ")
    assert ebb("probe", "cars", "K-77", "--columns", "until", "--format", "csv") == "until\n70\n90\n"
