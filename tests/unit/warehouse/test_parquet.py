"""Row groups of many files that are read at once, whole or page by page, are those that Arrow reads one at a time."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebb.index.cellfile import CellFile
from ebb.index.errors import CorruptionError
from ebb.index.grid import Cell
from ebb.warehouse.parquet.chunks import (
    Part,
    RowGroups,
    Run,
    alike,
    narrow_columns,
    read_parts,
    read_row_groups,
    read_runs,
)
from ebb.warehouse.parquet.datafile import DataFile
from ebb.warehouse.parquet.sizes import WriteSizes
from ebb.warehouse.parquet.writer import Layout, RunWriter

BEFORE = {
    "k": pa.int64(),
    "flag": pa.bool_(),
    "word": pa.string(),  # few values: it has a dictionary
    "place": pa.string(),  # some values, so that its dictionary has several pages after it
    "text": pa.string(),  # all different: it has none
    "noise": pa.binary(),  # nor that, and nulls
    "price": pa.decimal128(20, 2),
    "at": pa.timestamp("us", "UTC"),
    "items": pa.list_(pa.struct([("n", pa.int32()), ("tags", pa.list_(pa.string()))])),
    "none": pa.string(),  # nulls only
    "_ins_slot": pa.int64(),
    "_exp_slot": pa.int64(),
}
AFTER = BEFORE | {"late": pa.float64()}
FLAT = sorted(set(BEFORE) - {"items"})
FILES, GROUPS = 6, 3  # row groups in each of them, at least
OURS = FILES - 1


def records(seed: int, count: int, schema: pa.Schema) -> pa.Table:
    """Make records, sorted by key, with nulls where there may be some."""
    rows = [
        {
            "k": (seed + n) // 3,
            "flag": [True, False, None][n % 3],
            "word": f"w{n % 2}",
            "place": None if n % 11 == 0 else f"at {n % 37} of {seed}",
            "text": f"{seed}/{n}" * 20,
            "noise": None if n % 4 == 0 else f"{seed}/{n}".encode() * 9,
            "price": None if n % 7 == 0 else n,
            "at": n * 1_000_000_007,
            "items": None if n % 5 == 0 else [{"n": i, "tags": ["é"] * i} for i in range(n % 3)],
            "none": None,
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
    sizes = WriteSizes(row_group_bytes=40_000, page_bytes=100)  # several row groups and pages in a small file
    for seed, kinds in enumerate([BEFORE, AFTER, BEFORE, AFTER, AFTER]):
        schema = pa.schema(kinds)
        writer = RunWriter(Layout(schema, ("k",), str(folder), "c", sizes), Cell(0, 0))
        writer.add(records(seed, 600 + 90 * seed, schema))
        found += [DataFile.open(str(folder), file) for file in writer.close().files]
    other = folder / "other.parquet"
    pq.write_table(records(9, 30, pa.schema(AFTER)), other, row_group_size=10, write_page_checksum=True)
    foreign = CellFile(
        path=other.name, cell=Cell(0, 0), size_bytes=other.stat().st_size, records=30,
        min_ins=9, max_ins=9, min_exp=9, max_exp=12,
    )  # fmt: skip
    found.append(DataFile.open(str(folder), foreign))
    assert [file.is_ours for file in found] == [True] * OURS + [False]
    assert len(found) == FILES
    assert all(file.row_groups >= GROUPS for file in found)
    for name, has_dictionary, least in (("place", True, 2), ("text", False, 5), ("noise", False, 3)):
        for file, number in itertools.product(found[:OURS], range(GROUPS)):
            dictionary, *pages = pages_of(file, number, name)
            assert (dictionary.stop > dictionary.start) == has_dictionary
            assert len(pages) >= least, name
    return found


def pages_of(file: DataFile, number: int, name: str) -> list[range]:
    """Return where in its file the dictionary of a chunk is, which may be nowhere, and then each page."""
    contents, leaf = file.contents, file.leaf(name)
    at, found = contents.chunk_starts[number * contents.leaves + leaf], []
    for page in contents.pages(number, leaf):
        found.append(range(at, at + contents.page_bytes[page]))
        at += contents.page_bytes[page]
    has_dictionary = not contents.page_records[contents.pages(number, leaf)[0]]
    return found if has_dictionary else [range(found[0].start, found[0].start), *found]


def records_of(file: DataFile, number: int, name: str) -> list[Run]:
    """Return which records each data page of a chunk holds."""
    counts = [file.contents.page_records[page] for page in file.contents.pages(number, file.leaf(name))]
    ends = list(itertools.accumulate(count for count in counts if count))
    return list(zip([0, *ends], ends, strict=False))


def plainly(part: RowGroups, columns: Sequence[str]) -> pa.Table:
    """Read a part as anybody would."""
    data, groups = part
    with pq.ParquetFile(Path(data.table, data.path)) as file:
        there = [name for name in columns if name in data.names]
        return file.read_row_groups(list(groups), columns=there).select(there).replace_schema_metadata()


groups = st.lists(st.integers(0, GROUPS - 1), min_size=1, unique=True)  # in any order
some_columns = st.lists(st.sampled_from(sorted(AFTER)), min_size=1, unique=True)


@settings(deadline=None, max_examples=150)
@given(
    columns=some_columns,
    chosen=st.lists(st.tuples(st.integers(0, FILES - 1), groups), min_size=1, unique_by=lambda pair: pair[0]),
)
def test_parts_are_read_as_arrow_reads_them(
    files: list[DataFile], columns: list[str], chosen: list[tuple[int, list[int]]]
) -> None:
    parts: list[RowGroups] = [(files[number], found) for number, found in chosen]
    read: list[RowGroups] = []
    for same in alike(parts, columns):
        table = read_row_groups(same, columns)
        if table.num_columns:  # without any, Arrow forgets how many records there were
            assert table.equals(pa.concat_tables([plainly(part, columns) for part in same]))
        read += same
    assert sorted((data.path, found) for data, found in read) == sorted((data.path, found) for data, found in parts)


@settings(deadline=None, max_examples=60)
@given(
    columns=st.lists(st.sampled_from(sorted(BEFORE)), min_size=1, unique=True),
    chosen=st.lists(st.tuples(st.integers(0, OURS - 1), st.integers(0, GROUPS - 1)), min_size=1, max_size=8),
)
def test_row_groups_are_read_in_any_order_and_more_than_once(
    files: list[DataFile], columns: list[str], chosen: list[tuple[int, int]]
) -> None:
    parts: list[Part] = [(files[number], group) for number, group in chosen]

    expected = pa.concat_tables([plainly((data, [group]), columns) for data, group in parts])

    assert read_parts(parts, columns).equals(expected)


def test_files_with_the_same_columns_are_read_at_once(files: list[DataFile]) -> None:
    parts: list[RowGroups] = [(file, [0, 1]) for file in files]
    of_all = [[files.index(file) for file, _ in same] for same in alike(parts, ["k", "text"])]
    assert of_all == [[0, 1, 2, 3, 4], [5]]
    of_some = [[files.index(file) for file, _ in same] for same in alike(parts, ["k", "late"])]
    assert of_some == [[0, 2], [1, 3, 4], [5]]


def test_row_groups_of_another_tools_file_are_read_apart(files: list[DataFile]) -> None:
    """They may be in any order; nobody can tell where one ends in what is read of several."""
    parts: list[RowGroups] = [(files[OURS], [0]), (files[0], [1]), (files[OURS], [2])]
    assert [len(same) for same in alike(parts, ["k"])] == [1, 1, 1]


def test_columns_that_a_file_does_not_have_leave_its_records(files: list[DataFile]) -> None:
    table = read_row_groups([(files[0], [0, 1])], ["late"])
    assert table.num_rows == sum(files[0].footer.row_group(group).num_rows for group in (0, 1))
    assert table.num_columns == 0


@st.composite
def wishes(draw: st.DrawFn) -> list[tuple[int, int, list[float]]]:
    """Draw row groups of several files and, of each, where runs of records begin and end, as parts of all."""
    part = st.tuples(
        st.integers(0, OURS - 1), st.integers(0, GROUPS - 1), st.lists(st.floats(0, 1), max_size=8).map(sorted)
    )
    return draw(st.lists(part, min_size=1, max_size=6))


def runs_from(ends: Sequence[float], count: int) -> list[Run]:
    """Return runs that do not overlap, in order; some touch, and none is empty."""
    edges = sorted({round(end * count) for end in ends})
    pairs = list(itertools.pairwise(edges))
    return pairs[::2] if len(edges) % 2 else pairs


@settings(deadline=None, max_examples=250)
@given(wanted=wishes(), name=st.sampled_from(FLAT))
def test_runs_of_records_are_those_of_the_whole_column(
    files: list[DataFile], wanted: list[tuple[int, int, list[float]]], name: str
) -> None:
    parts: list[Part] = [(files[number], group) for number, group, _ in wanted]
    counts = [file.contents.records[group] for file, group in parts]
    runs = [runs_from(ends, count) for (_, _, ends), count in zip(wanted, counts, strict=True)]
    if not any(runs):
        runs[0] = [(0, 1)]

    values, places, size = read_runs(parts, runs, name)
    found = values.take(places)

    expected = [
        plainly((file, [group]), [name])[name].slice(low, high - low).combine_chunks()
        for (file, group), part_runs in zip(parts, runs, strict=True)
        for low, high in part_runs
    ]
    assert found.combine_chunks().equals(pa.chunked_array(expected, BEFORE[name]).combine_chunks())
    assert found.type == BEFORE[name]
    assert size == sum(
        bytes_needed(file, group, name, part_runs) for (file, group), part_runs in zip(parts, runs, strict=True)
    )


def bytes_needed(file: DataFile, number: int, name: str, runs: Sequence[Run]) -> int:
    """Return the size of the dictionary and of the pages that hold a record of the runs."""
    if not runs:
        return 0
    dictionary, *pages = pages_of(file, number, name)
    held = records_of(file, number, name)
    needed = [
        page
        for page, (first, last) in zip(pages, held, strict=True)
        if any(low < last and first < high for low, high in runs)
    ]
    return len(dictionary) + sum(map(len, needed))


def test_columns_of_one_page_and_nested_ones_are_narrow(files: list[DataFile]) -> None:
    parts: list[Part] = [(file, group) for file in files[:OURS] for group in range(GROUPS)]
    several = {
        name
        for name in FLAT
        if any(len(records_of(file, number, name)) > 1 for file, number in parts)
    }  # fmt: skip

    assert set(narrow_columns(parts, sorted(BEFORE))) == set(BEFORE) - several
    assert {"place", "text", "noise"} <= several
    assert {"none", "items"} <= set(narrow_columns(parts, sorted(BEFORE)))
    assert narrow_columns(parts, ["text", "items", "none"]) == ["items", "none"]


def test_a_column_with_several_pages_in_one_row_group_only_is_not_narrow(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    schema = pa.schema([("k", pa.int64()), ("t", pa.string()), ("_ins_slot", pa.int64()), ("_exp_slot", pa.int64())])
    sizes = WriteSizes(row_group_bytes=8000, page_bytes=2000, long_key_bytes=4000)
    rows = [(1, f"{n}") for n in range(5)] + [(2, f"{n:040}") for n in range(150)]
    table = pa.table([[k for k, _ in rows], [t for _, t in rows], [1] * 155, [2] * 155], schema=schema)
    writer = RunWriter(Layout(schema, ("k",), str(tmp_path), "c", sizes), Cell(0, 0))
    writer.add(table)
    (file,) = writer.close().files
    opened = DataFile.open(str(tmp_path), file)
    assert opened.contents.records[0] == 5

    assert narrow_columns([(opened, 0)], ["k", "t"]) == ["k", "t"]
    assert narrow_columns([(opened, 0), (opened, 1)], ["k", "t"]) == ["k"]


def copied(file: DataFile, folder: Path) -> tuple[DataFile, Path]:
    """Return a copy of a file that may be spoiled: it was opened before that."""
    copy = folder / file.path
    copy.parent.mkdir(parents=True)
    copy.write_bytes(Path(file.table, file.path).read_bytes())
    return replace(file, table=str(folder)), copy


def test_a_file_that_became_shorter_is_told(files: list[DataFile], tmp_path: Path) -> None:
    """The size was checked when it was opened."""
    cut, copy = copied(files[1], tmp_path)
    os.truncate(copy, pages_of(cut, 1, "word")[0].start + 5)
    assert read_row_groups([(cut, [0])], list(AFTER)).num_rows
    with pytest.raises(CorruptionError, match="are not those written") as told:
        read_row_groups([(cut, [1])], list(AFTER))
    assert cut.path in str(told.value)


@pytest.mark.parametrize("name", ["place", "text"])
def test_a_file_that_became_shorter_is_told_by_whoever_reads_a_page(
    files: list[DataFile], tmp_path: Path, name: str
) -> None:
    cut, copy = copied(files[1], tmp_path)
    _, *pages = pages_of(cut, 1, name)
    held = records_of(cut, 1, name)
    os.truncate(copy, pages[-1].stop - 1)

    for low, high in held[:-1]:
        assert len(read_runs([(cut, 1)], [[(low, high)]], name).places) == high - low
    for runs in ([held[-1]], [held[0], held[-1]]):
        with pytest.raises(CorruptionError, match="are not those written") as told:
            read_runs([(cut, 0), (cut, 1)], [[(0, 1)], runs], name)
        assert cut.path in str(told.value)


@pytest.mark.parametrize("name", ["place", "text", "noise"])
def test_a_damaged_page_is_told_by_whoever_needs_it_and_by_nobody_else(
    files: list[DataFile], tmp_path: Path, name: str
) -> None:
    """One page after the other, its header and its values, and the dictionary, which all of them need."""
    file, copy = copied(files[2], tmp_path)
    sound = copy.read_bytes()
    dictionary, *pages = pages_of(file, 1, name)
    held = records_of(file, 1, name)
    whole = plainly((file, [1]), [name])[name]
    for hit, page in list(enumerate(pages))[:: max(1, len(pages) // 6)]:
        for at in (page.start, page.start + 3, page.stop - 1):
            copy.write_bytes(sound[:at] + bytes([sound[at] ^ 0x10]) + sound[at + 1 :])
            low, high = held[hit]
            others = [run for run in held if run != held[hit]]
            values, places, _ = read_runs([(file, 1)], [others], name)
            assert values.take(places).to_pylist() == whole.to_pylist()[:low] + whole.to_pylist()[high:]
            for runs in ([(high - 1, high)], [(low, low + 1)], [*others[:hit], (low, high)]):
                with pytest.raises(CorruptionError, match=f"{len(page):,} bytes from {page.start:,} on are not"):
                    read_runs([(file, 1)], [runs], name)
            with pytest.raises(CorruptionError, match="are not those written"):
                read_parts([(file, 1)], [name])
    for at in dictionary[::40]:
        copy.write_bytes(sound[:at] + bytes([sound[at] ^ 0x10]) + sound[at + 1 :])
        for low, _ in held:
            with pytest.raises(CorruptionError, match="are not those written"):
                read_runs([(file, 1)], [[(low, low + 1)]], name)
    copy.write_bytes(sound)
    assert read_runs([(file, 1)], [[(0, len(whole))]], name).values.combine_chunks().equals(whole.combine_chunks())


def test_damage_beside_what_is_read_is_nobodys_matter(files: list[DataFile], tmp_path: Path) -> None:
    """Gaps between chunks are read with them, and not believed."""
    file, copy = copied(files[0], tmp_path)
    expected = read_parts([(file, 0), (file, 1)], ["k", "word"])
    data = bytearray(copy.read_bytes())
    for number in (0, 1):
        for name in ("flag", "place", "text"):
            for page in pages_of(file, number, name):
                data[page.start : page.stop] = bytes(len(page))
    copy.write_bytes(data)

    assert read_parts([(file, 0), (file, 1)], ["k", "word"]).equals(expected)
    with pytest.raises(CorruptionError, match="are not those written"):
        read_parts([(file, 0), (file, 1)], ["k", "flag"])


def test_a_damaged_file_among_several_is_named(files: list[DataFile], tmp_path: Path) -> None:
    file, copy = copied(files[3], tmp_path)
    page = pages_of(file, 0, "text")[1]
    data = bytearray(copy.read_bytes())
    data[page.start] ^= 1
    copy.write_bytes(data)
    parts: list[Part] = [(files[0], 0), (file, 0), (files[4], 0)]

    for read in (
        lambda: read_parts(parts, ["k", "text"]),
        lambda: read_runs(parts, [[(0, 1)], [(0, 1)], [(0, 1)]], "text"),
    ):
        with pytest.raises(CorruptionError) as told:
            read()
        assert file.path in str(told.value)


def test_a_file_that_is_gone_is_named(files: list[DataFile], tmp_path: Path) -> None:
    file, copy = copied(files[3], tmp_path)
    copy.unlink()
    for read in (
        lambda: read_parts([(files[0], 0), (file, 0)], ["k"]),
        lambda: read_runs([(files[0], 0), (file, 0)], [[(0, 1)], [(0, 1)]], "text"),
    ):
        with pytest.raises(CorruptionError, match="missing") as told:
            read()
        assert file.path in str(told.value)
