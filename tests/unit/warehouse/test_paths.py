"""Names on disk are read back as what they were made of, and no path of a log leads out of its table."""

from __future__ import annotations

import fnmatch
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebb.index.cellfile import CellFile
from ebb.index.errors import CorruptionError
from ebb.index.grid import Cell
from ebb.warehouse.store.paths import (
    UNFINISHED_COMMITS,
    cell_folder,
    doomed_folder,
    dropped_name,
    entry_name,
    footer_hash_in,
    inside,
    is_data_file,
    new_data_file,
    new_table_name,
    quarantine_file,
    rewrite_folder,
    side_file,
    staging_folder,
    unfinished_commit,
)

laws = settings(deadline=None)

hashes = st.binary(min_size=8, max_size=8).map(bytes.hex)
cells = st.builds(Cell, st.integers(0, 999), st.integers(0, 999))
folders = st.integers(0, 2**62).flatmap(lambda slot: st.sampled_from([staging_folder(slot), rewrite_folder(slot)]))
table_names = st.from_regex(r"[a-z][a-z0-9_]{0,62}", fullmatch=True)
plain_names = st.text(st.characters(codec="utf-8", exclude_characters="/\0:"), min_size=1).filter(
    lambda t: t not in (".", "..")
)


@laws
@given(folders, st.integers(0, 99), cells, hashes)
def test_the_name_of_a_data_file_tells_its_folder_and_its_footer(
    folder: str, task: int, cell: Cell, digest: str
) -> None:
    path = new_data_file(cell_folder(f"{folder}/{task}", cell), digest)
    file = CellFile(path=path, cell=cell, size_bytes=1, records=1, min_ins=1, max_ins=1, min_exp=2, max_exp=2)

    assert file.folder == f"{folder}/{task}"
    assert path.startswith(f"{folder}/{task}/_g={cell.group}/_e={cell.cohort}/")
    assert footer_hash_in(path) == digest
    assert inside(quote(path)) == path


@laws
@given(folders, cells)
def test_a_name_without_a_hash_has_none(folder: str, cell: Cell) -> None:
    assert footer_hash_in(new_data_file(cell_folder(folder, cell))) is None
    assert footer_hash_in("part-00000-2606c08c-3739-4fca-b46c-48491423c534-c000.snappy.parquet") is None


@laws
@given(folders, cells, hashes)
def test_what_lies_beside_a_data_file_is_no_data_file(folder: str, cell: Cell, digest: str) -> None:
    path = new_data_file(cell_folder(folder, cell), digest)

    assert is_data_file(path)
    assert not is_data_file(side_file(path))
    assert side_file(path).rsplit("/", 1)[0] == path.rsplit("/", 1)[0]
    assert new_data_file(cell_folder(folder, cell), digest) != path, "two files may have the same footer"


@laws
@given(st.lists(st.integers(0, 10**19), min_size=2, unique=True))
def test_log_entries_sort_by_name_as_by_version(versions: list[int]) -> None:
    names = sorted(map(entry_name, versions))

    assert [int(name.removesuffix(".json")) for name in names] == sorted(versions)


@laws
@given(st.uuids())
def test_unfinished_commits_are_known_by_their_names(id: object) -> None:
    assert fnmatch.fnmatch(unfinished_commit(str(id)), UNFINISHED_COMMITS)
    assert not fnmatch.fnmatch(entry_name(7), UNFINISHED_COMMITS)


@laws
@given(table_names, st.uuids())
def test_tables_that_come_or_go_are_found_again_and_are_no_tables(name: str, id: object) -> None:
    for made in (dropped_name, new_table_name):
        assert fnmatch.fnmatch(made(name, str(id)), made(name))
        assert fnmatch.fnmatch(made(name, str(id)), made("*"))
        assert made(name, str(id)).startswith(".")


def test_folders_of_commits_are_never_the_same() -> None:
    assert len({staging_folder(7) for _ in range(100)} | {rewrite_folder(7) for _ in range(100)}) == 200
    assert doomed_folder("u7-ab") == "x-u7-ab"
    assert quarantine_file(7, "x.parquet") == "_slot=7/x.parquet"


@laws
@given(st.lists(plain_names, min_size=1, max_size=5))
def test_a_plain_path_of_a_log_is_itself(parts: list[str]) -> None:
    path = "/".join(parts)

    assert inside(quote(path)) == path


@pytest.mark.parametrize(
    "path",
    [
        "", ".", "..", "/", "/etc/passwd", "../x", "a/../../x", "a/..", "%2e%2e/x", "%2Fetc%2Fpasswd", "file:/etc/passwd",
        "s3://bucket/x", "a//b", "a/./b", "./a", "a/", "a\0b", "a%00b", "C:/x",
    ],
)  # fmt: skip
def test_a_path_that_may_lead_out_of_the_table_is_refused(path: str) -> None:
    with pytest.raises(CorruptionError, match="outside the table"):
        inside(path)
