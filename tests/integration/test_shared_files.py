"""Files that Spark's tasks write have the modes that the table's folder asks for, whatever the umask."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.builders import integer_table, open_warehouse, write_batch
from tests.model import Record
from tests.unit.warehouse.test_modes import GROUP, modes


@pytest.mark.parametrize(("group", "expected"), [(GROUP, ({"0o2750"}, {"0o640"})), ("", ({"0o700"}, {"0o600"}))])
def test_what_spark_writes_is_shared_as_its_table_is(
    tmp_path: Path, group: str, expected: tuple[set[str], set[str]]
) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"), group=group)
    before = os.umask(0o022)
    try:
        for slot in (1, 2, 3):
            batch = [Record(10 * slot + n, f"k{n}", slot, slot + 2 + n) for n in range(3)]
            report = table.update(write_batch(tmp_path / f"{slot}.csv", [*batch, Record(0, "k", slot, slot)]), at=slot)
            assert (report.admitted, report.quarantined) == (3, 1)
    finally:
        os.umask(before)

    assert modes(tmp_path / "w")[:2] == expected
    root = stat.S_IMODE((tmp_path / "w").stat().st_mode)
    assert root == (0o750 if group else 0o700)
