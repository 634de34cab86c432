"""What the log says about a file."""

from __future__ import annotations

import pytest

from ebb.index.cellfile import Rewrite
from ebb.index.grid import Cell
from tests.filestore import cell_file


@pytest.mark.parametrize(
    ("path", "folder"), [("b7-ab12/_g=1/_e=5/part-0.parquet", "b7-ab12"), ("r9/part", "r9"), ("alone", "alone")]
)
def test_the_folder_of_a_file_is_that_of_its_commit(path: str, folder: str) -> None:
    assert cell_file(path).folder == folder


@pytest.mark.parametrize(
    ("clock", "has_expired", "is_dead"), [(4, False, False), (5, True, False), (8, True, False), (9, True, True)]
)
def test_a_file_is_dead_once_its_last_record_has_expired(clock: int, *, has_expired: bool, is_dead: bool) -> None:
    file = cell_file(exp=(5, 9))

    assert (file.has_expired(clock), file.is_dead(clock)) == (has_expired, is_dead)


def test_a_rewrite_reads_the_bytes_of_all_its_files() -> None:
    files = (cell_file("a/1", records=2), cell_file("b/1", records=3))

    assert Rewrite(cell=Cell(0, 0), inputs=files, clock=1).size_bytes == 500
