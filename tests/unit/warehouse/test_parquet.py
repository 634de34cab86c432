"""Row groups of many files that are read at once are those that Arrow reads one file at a time."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebb.index.cellfile import CellFile
from ebb.index.errors import CorruptionError
from ebb.index.grid import Cell
from ebb.warehouse.parquet.datafile import DataFile, RowGroups, read_row_groups
from ebb.warehouse.parquet.sizes import WriteSizes
from ebb.warehouse.parquet.writer import Layout, RunWriter

BEFORE = {
    "k": pa.int64(),
    "flag": pa.bool_(),
    "word": pa.string(),  # few values: it has a dictionary
    "text": pa.string(),  # all different: it has none
    "price": pa.decimal128(20, 2),
    "at": pa.timestamp("us", "UTC"),
    "items": pa.list_(pa.struct([("n", pa.int32()), ("tags", pa.list_(pa.string()))])),
    "_ins_slot": pa.int64(),
    "_exp_slot": pa.int64(),
}
AFTER = BEFORE | {"late": pa.float64()}
FILES, GROUPS = 6, 3  # row groups in each of them, at least


def records(seed: int, count: int, schema: pa.Schema) -> pa.Table:
    """Make records, sorted by key, with nulls where there may be some."""
    rows = [
        {
            "k": (seed + n) // 3,
            "flag": [True, False, None][n % 3],
            "word": f"w{n % 2}",
            "text": f"{seed}/{n}" * 20,
            "price": None if n % 7 == 0 else n,
            "at": n * 1_000_000_007,
            "items": None if n % 5 == 0 else [{"n": i, "tags": ["é"] * i} for i in range(n % 3)],
            "_ins_slot": seed,
            "_exp_slot": seed + n % 4,
            "late": n / 7,
        }
        for n in range(count)
    ]
    return pa.table({f.name: pa.array([row[f.name] for row in rows], f.type) for f in schema}, schema=schema)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[DataFile]:
    """Return files as Ebb writes them, some of them before a column was added, and one of another tool."""
    folder = tmp_path_factory.mktemp("table")
    (folder / "c").mkdir()
    found = []
    sizes = WriteSizes(least_row_group_bytes=2048)  # several row groups in a small file
    for seed, kinds in enumerate([BEFORE, AFTER, BEFORE, AFTER, AFTER]):
        schema = pa.schema(kinds)
        writer = RunWriter(Layout(schema, ("k",), str(folder), "c", sizes), Cell(0, 0))
        writer.add(records(seed, 40 + 9 * seed, schema))
        found += [DataFile.open(str(folder), file) for file in writer.close().files]
    other = folder / "other.parquet"
    pq.write_table(records(9, 30, pa.schema(AFTER)), other, row_group_size=10, write_page_checksum=True)
    foreign = CellFile(
        path=other.name, cell=Cell(0, 0), size_bytes=other.stat().st_size, records=30,
        min_ins=9, max_ins=9, min_exp=9, max_exp=12,
    )  # fmt: skip
    found.append(DataFile.open(str(folder), foreign))
    assert [bool(file.sums) for file in found] == [True] * 5 + [False]
    assert len(found) == FILES
    assert all(file.row_groups >= GROUPS for file in found)
    return found


def plainly(part: RowGroups, columns: list[str]) -> pa.Table:
    """Read a part as anybody would."""
    data, groups = part
    with pq.ParquetFile(Path(data.table, data.path)) as file:
        there = [name for name in columns if name in data.names]
        return file.read_row_groups(list(groups), columns=there).select(there).replace_schema_metadata()


groups = st.lists(st.integers(0, GROUPS - 1), min_size=1, unique=True)  # in any order


@settings(deadline=None, max_examples=150)
@given(
    columns=st.lists(st.sampled_from(sorted(AFTER)), min_size=1, unique=True),
    chosen=st.lists(st.tuples(st.integers(0, FILES - 1), groups), min_size=1, unique_by=lambda pair: pair[0]),
)
def test_parts_are_read_as_arrow_reads_them(
    files: list[DataFile], columns: list[str], chosen: list[tuple[int, list[int]]]
) -> None:
    parts: list[RowGroups] = [(files[number], found) for number, found in chosen]
    read: list[RowGroups] = []
    for same, table in read_row_groups(parts, columns):
        if table.num_columns:  # without any, Arrow forgets how many records there were
            assert table.equals(pa.concat_tables([plainly(part, columns) for part in same]))
        read += same
    assert sorted(map(repr, read)) == sorted(map(repr, parts))


def test_files_with_the_same_columns_are_read_at_once(files: list[DataFile]) -> None:
    parts: list[RowGroups] = [(file, [0, 1]) for file in files]
    of_all = [[files.index(file) for file, _ in same] for same, _ in read_row_groups(parts, ["k", "text"])]
    assert of_all == [[0, 1, 2, 3, 4], [5]]
    of_some = [[files.index(file) for file, _ in same] for same, _ in read_row_groups(parts, ["k", "late"])]
    assert of_some == [[0, 2], [1, 3, 4], [5]]


def test_columns_that_a_file_does_not_have_leave_its_records(files: list[DataFile]) -> None:
    ((_, table),) = read_row_groups([(files[0], [0, 1])], ["late"])
    assert table.num_rows == sum(files[0].footer.row_group(group).num_rows for group in (0, 1))
    assert table.num_columns == 0


def test_a_file_that_became_shorter_is_told(files: list[DataFile], tmp_path: Path) -> None:
    """The size was checked when it was opened."""
    file = files[1]
    copy = tmp_path / file.path
    copy.parent.mkdir(parents=True)
    copy.write_bytes(Path(file.table, file.path).read_bytes())
    cut = DataFile(str(tmp_path), file.path, file.footer, file.columns, file.sums)
    os.truncate(copy, file.chunk(1, 2, file.columns["word"].heads[0]).start + 5)
    assert cut.read([0]).num_rows
    with pytest.raises(CorruptionError, match="are not those written") as told:
        cut.read([1])
    assert file.path in str(told.value)
