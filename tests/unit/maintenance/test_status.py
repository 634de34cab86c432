"""Status rests on the log alone: files that vanish, are touched or copied do not change what it says."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from ebb import OpenTable
from ebb.warehouse.table.snapshot import Table
from tests.builders import NOW, arrow_batch, integer_table, open_warehouse, timestamp_table
from tests.model import Record

_WRITER = """
import itertools, sys
from pathlib import Path
from tests.builders import arrow_batch, open_warehouse
from tests.model import Record

table = open_warehouse(Path(sys.argv[1])).table("t")
for slot in itertools.count(2):
    table.update(arrow_batch([Record(10 * slot + n, f"k{n}", slot, slot + 1 + n) for n in range(3)]), at=slot)
    print(slot, flush=True)
"""


def test_status_survives_a_writer_that_erases(tmp_path: Path) -> None:
    """A file that went away between listing and looking ended it with an internal error, 1 of 714 times."""
    root = tmp_path / "w"
    table = integer_table(
        open_warehouse(root), grid="3x3", strategy="rebuild", deletion_bound="3", reader_time="1", log_retention="8"
    )
    table.update(arrow_batch([Record(1, "k", 1, 3)]), at=1)
    with subprocess.Popen([sys.executable, "-c", _WRITER, str(root)], stdout=subprocess.PIPE, text=True) as writer:
        try:
            assert writer.stdout is not None
            writer.stdout.readline()
            clocks = [OpenTable(table.warehouse, Table(root, "t")).status().clock or 0 for _ in range(150)]
            clocks += [table.status().clock or 0 for _ in range(150)]
            assert writer.poll() is None, "the writer should outlive the looks"
        finally:
            writer.kill()

    assert clocks == sorted(clocks)
    assert len(set(clocks)) > 10, "it should have been at work"
    assert any(commit.erased_files for commit in table.history())


@pytest.fixture
def late(tmp_path: Path) -> OpenTable:
    """Return a table whose bound is broken: its records expired hours ago, and nobody updates it."""
    table = timestamp_table(open_warehouse(tmp_path / "w", NOW), deletion_bound="4h")
    kind = pa.timestamp("us", "UTC")
    schema = pa.schema([("id", pa.int64()), ("key", pa.string()), ("inserted", kind), ("expires", kind)])
    row = {"id": 1, "key": "a", "inserted": NOW - timedelta(minutes=5), "expires": NOW + timedelta(hours=2)}
    table.update(pa.Table.from_pylist([row], schema), at=NOW)
    return OpenTable(open_warehouse(tmp_path / "w", NOW + timedelta(hours=9)), Table(tmp_path / "w", "t"))


def test_a_data_file_that_is_gone_does_not_stop_status(late: OpenTable) -> None:
    (file,) = late.table.snapshot().files
    (late.table.folder / file.path).unlink()

    status = late.status()

    assert (status.deletion_bound_kept, status.oldest_expired_age, status.files) == (False, "7h 0m", 1)
    assert status.oldest_expired_age_seconds == 7 * 3600
