"""A drop that is broken off leaves a table that can be dropped again, or nothing that outlasts the next command."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path

from tests.builders import integer_table, open_warehouse
from tests.faults import Interruption, armed


def test_a_killed_drop_leaves_no_data_that_no_command_sees(tmp_path: Path) -> None:
    """The table was renamed first, and its quarantine stayed for ever."""
    for at in itertools.count():
        root = tmp_path / str(at)
        warehouse = open_warehouse(root)
        table = integer_table(warehouse)
        (table.table.quarantine / "_delta_log").mkdir(parents=True)
        (table.table.quarantine / "refused.parquet").write_text("a canary")
        integer_table(warehouse, "other")

        with armed(root, Interruption(), at) as fault, contextlib.suppress(Interruption):
            warehouse.drop("t")
        names = {each.name for each in warehouse.tables()}
        if "t" in names:
            warehouse.drop("t")
        warehouse.table("other").update(at=1)  # whatever comes next in this warehouse

        left = sorted(path.name for path in root.iterdir())
        assert left == ["other"], fault.seen[at : at + 1]
        if len(fault.seen) <= at:
            break
    assert at > 5
