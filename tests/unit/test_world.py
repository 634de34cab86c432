"""Faults of the world (P11, P12): files that may not grow and memory that runs out are typed errors, and work goes on.

In processes of their own whose limits the operating system enforces.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.seeds import drawn_seed, rounds

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("kind", "count"), [("size", 24), ("memory", 8)])
def test_what_the_system_refuses_is_an_error_of_ours_and_leaves_the_table_whole(
    kind: str, count: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    # Of Arrow's pools this one asks the system for everything that is large.
    environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.limits", str(tmp_path), kind, str(drawn_seed()), str(rounds(count))]

    child = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)

    assert child.returncode == 0, child.stderr
    counts = json.loads(child.stdout)
    assert counts["refused"], child.stderr
    assert counts["done"], child.stderr
    record_property("figures", f"limits of {kind}: {rounds(count)}, {counts['refused']} refused, 0 torn")
