"""What happens once an update is committed: nothing of it is undone, and nothing that was merged stays behind."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from ebb import OpenTable
from tests.builders import integer_table, open_warehouse, scanned_ids
from tests.faults import armed


def _batch(slot: int) -> pa.Table:
    ids = [slot * 10 + i for i in range(4)]
    return pa.table(
        {
            "id": ids,
            "key": [f"k{i}" for i in range(4)],
            "inserted": [slot] * 4,
            "expires": [slot + 1 + i for i in range(4)],
            "pay": ["p"] * 4,
        }
    )


@pytest.mark.parametrize(
    ("error", "told"),
    [(RuntimeError("strange"), "strange"), (MemoryError(), "not enough memory"), (ValueError("odd"), "odd")],
)
def test_a_seal_that_fails_in_any_way_is_a_warning_of_a_committed_update(
    error: Exception, told: str, tmp_path: Path
) -> None:
    """Only our own errors were warnings; any other made a committed update end as a failure."""
    table = integer_table(open_warehouse(tmp_path / "w"), strategy="retire", policy="2x2")
    table.update(_batch(1), at=1)
    watched = _seal_events(tmp_path / "dry")

    with armed(table.table.folder, error, watched):
        report = table.update(_batch(2), at=2)

    assert any(told in warning for warning in report.warnings), report.warnings
    assert table.table.snapshot().ledger.clock == 2
    expected = scanned_ids(table)
    assert len(expected) == 7
    again = table.update(at=3)
    assert not again.warnings
    assert again.sealed_cells > 0, "it is tried again"
    assert scanned_ids(table) == [i for i in expected if i not in (11, 20)]


def _seal_events(root: Path) -> int:
    """Return which file operation of the same update is the first of its seal."""
    table: OpenTable = integer_table(open_warehouse(root), strategy="retire", policy="2x2")
    table.update(_batch(1), at=1)
    with armed(table.table.folder, RuntimeError()) as fault:
        table.update(_batch(2), at=2)
    return next(place for place, event in enumerate(fault.seen) if event.startswith("os.mkdir /r2-"))


def test_staged_files_that_were_merged_leave_nothing_of_their_keys(tmp_path: Path) -> None:
    """Their side files, which hold keys, stayed until the next erase."""
    table = integer_table(open_warehouse(tmp_path / "w"), strategy="rebuild", grid="2x2")
    for slot in (1, 2, 3):
        table.update(_batch(slot), at=slot)

        on_disk = {path.with_suffix("") for path in table.table.folder.rglob("*.keys")}
        data = {path.with_suffix("") for path in table.table.folder.rglob("*.parquet")}
        assert on_disk <= data
