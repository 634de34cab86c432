"""Merges that are cut into stripes and runs that continue in other files; keys that Python or statistics cannot say."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ebb.index.cellfile import CellFile
from ebb.index.keys import code
from ebb.warehouse.parquet import merge
from ebb.warehouse.parquet.chunks import RowGroups, read_row_groups
from ebb.warehouse.parquet.datafile import DataFile
from ebb.warehouse.parquet.writer import Layout, Written
from tests.runs import SMALL, Row, layout_in, merged, ordered, read_back, written
from tests.seeds import drawn_seed

TIME = pa.timestamp("us", "UTC")
YEAR = 365 * 24 * 3600 * 1_000_000
FAR = 9000 * YEAR  # after 1970: no datetime is so late, and none so early


def three_runs(keys: list[Any]) -> list[list[Row]]:
    """Deal keys out to three runs."""
    rows = [(key, 5 + number % 3, number) for number, key in enumerate(keys)]
    return [rows[start::3] for start in range(3)]


def merged_ids(layout: Layout, runs: list[list[Row]]) -> tuple[Written, list[int]]:
    result = merged(layout, [file for rows in runs for file in written(layout, rows).files])
    return result, read_back(layout, result.files)["id"].to_pylist()


def keys_of(layout: Layout, result: Written) -> list[tuple[int, int]]:
    found = read_back(layout, result.files)
    return list(zip(found["k0"].to_pylist(), found["_exp_slot"].to_pylist(), strict=True))


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        (TIME, [FAR + n for n in range(60)]),
        (TIME, [-FAR + n for n in range(60)]),
        (TIME, [*range(30), *range(FAR, FAR + 30)]),
        (pa.date32(), [9000 * 365 + n for n in range(60)]),
        (pa.date32(), [-(2**31) + n for n in range(60)]),
    ],
    ids=["after 9999", "before 1", "some after 9999", "days after 9999", "days before 1"],
)
def test_keys_that_python_has_no_time_for_do_not_make_a_merge_fail(
    kind: pa.DataType, keys: list[int], tmp_path: Path
) -> None:
    layout = layout_in(tmp_path, [kind])
    runs = three_runs(keys)

    _, ids = merged_ids(layout, runs)

    assert ids == [row[-1] for row in ordered(itertools.chain(*runs))]


def test_keys_without_statistics_are_merged_in_order(tmp_path: Path) -> None:
    """Arrow keeps none of texts longer than 4 KiB."""
    layout = layout_in(tmp_path, [pa.string()])
    keys = [f"{n % 7}{'x' * (5000 if n % 2 else 5)}{n:03}" for n in range(60)]
    runs = three_runs(keys)

    _, ids = merged_ids(layout, runs)

    assert ids == [row[-1] for row in ordered(itertools.chain(*runs))]


def test_a_merge_in_stripes_writes_the_same_records_as_one_in_one_piece(tmp_path: Path) -> None:
    dice = random.Random(drawn_seed())
    keys = [dice.randrange(500) for _ in range(3000)]
    small = replace(SMALL, stripe_bytes=8 * 1024)
    whole = replace(SMALL, stripe_bytes=10**9, file_bytes=10**9)
    layouts = [layout_in(tmp_path, [pa.int64()], sizes) for sizes in (small, whole)]

    in_stripes, ids = merged_ids(layouts[0], three_runs(keys))
    in_one, all_ids = merged_ids(layouts[1], three_runs(keys))

    assert len(in_one.files) == 1
    assert len(in_stripes.files) > 3
    assert keys_of(layouts[0], in_stripes) == keys_of(layouts[1], in_one)
    assert sorted(ids) == sorted(all_ids) == list(range(3000))


def test_a_merge_reads_every_row_group_once_and_holds_one_stripe_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = layout_in(tmp_path, [pa.int64()], replace(SMALL, stripe_bytes=4 * 1024))
    files = [file for rows in three_runs(list(range(900))) for file in written(layout, rows).files]
    reads: list[tuple[str, list[int]]] = []
    plain_read = read_row_groups

    def counted(parts: list[RowGroups], names: list[str]) -> pa.Table:
        reads.extend((file.path, list(numbers)) for file, numbers in parts)
        return plain_read(parts, names)

    monkeypatch.setattr(merge, "read_row_groups", counted)
    merged(layout, files)

    row_groups = [(path, number) for path, numbers in reads for number in numbers]
    sources = [DataFile.open(layout.table, file) for file in files]
    assert sorted(row_groups) == sorted((s.path, n) for s in sources for n in range(s.row_groups))
    assert len(reads) > 3 * len(files)


def test_a_run_continues_in_other_files_where_a_key_ends(tmp_path: Path) -> None:
    layout = layout_in(tmp_path, [pa.int64()])

    files = written(layout, [(number // 3, 5, number) for number in range(600)]).files

    assert len(files) > 3
    keys = [read_back(layout, [file])["k0"].to_pylist() for file in files]
    assert list(itertools.chain(*keys)) == sorted(itertools.chain(*keys))
    assert all(before[-1] < after[0] for before, after in itertools.pairwise(keys))


def test_one_key_of_many_records_is_cut_by_its_expirations(tmp_path: Path) -> None:
    """All parts of the key are the same in every row group: the expiration slot narrows the intervals."""
    layout = layout_in(tmp_path, [pa.string(), pa.int64()], replace(SMALL, long_key_bytes=10**9))
    rows = [("same", 7, 1 + number, number) for number in range(600)]

    result = merged(layout, [file for part in (rows[::2], rows[1::2]) for file in written(layout, part).files])

    assert read_back(layout, result.files)["id"].to_pylist() == list(range(600))


def row_groups_of(layout: Layout, files: list[CellFile]) -> list[tuple[Any, ...]]:
    """Return the checksums of the row groups of files: their bytes, wherever they lie."""
    found = []
    for file in files:
        contents = DataFile.open(layout.table, file).contents
        for number in range(contents.row_groups):
            first = number * contents.leaves
            found.append(tuple(contents.chunk_sums[first : first + contents.leaves]))
    return found


def test_a_long_key_is_taken_over_as_it_is_between_keys_that_are_merged(tmp_path: Path) -> None:
    layout = layout_in(tmp_path, [pa.int64()], replace(SMALL, long_key_bytes=1024))
    keys = [(key, 5 + number % 7) for key in range(30) for number in range(40 if key in (3, 4, 20) else 1)]
    runs = [[(key, exp, 1000 * run + n) for n, (key, exp) in enumerate(keys)] for run in range(3)]
    files = [file for rows in runs for file in written(layout, rows).files]

    result = merged(layout, files)

    found = keys_of(layout, result)
    assert [key for key, _ in found] == sorted(key for rows in runs for key, _, _ in rows)
    assert sorted(found) == sorted((key, exp) for rows in runs for key, exp, _ in rows)
    before, after = row_groups_of(layout, files), row_groups_of(layout, result.files)
    long = [sums for sums in before if sums in after]
    assert len(long) >= 3 * 3, "every run has row groups of three long keys"
    assert len(set(before) - set(after)) >= 3, "the others were merged"


def test_runs_of_keys_that_do_not_overlap_are_taken_over_whole(tmp_path: Path) -> None:
    layout = layout_in(tmp_path, [pa.int64()])
    files = [
        file for low in (200, 0, 100) for file in written(layout, [(low + n, 5, low + n) for n in range(99)]).files
    ]

    result = merged(layout, files)

    assert keys_of(layout, result) == [(low + n, 5) for low in (0, 100, 200) for n in range(99)]
    large = set(row_groups_of(layout, result.files)) & set(row_groups_of(layout, files))
    assert len(large) >= len(row_groups_of(layout, files)) - 3


def test_a_row_group_with_an_expired_record_is_never_taken_over(tmp_path: Path) -> None:
    layout = layout_in(tmp_path, [pa.int64()])
    files = [file for low in (0, 100) for file in written(layout, [(low + n, 5 + n % 2, n) for n in range(99)]).files]

    result = merged(layout, files, clock=5)

    assert {exp for _, exp in keys_of(layout, result)} == {6}
    assert not set(row_groups_of(layout, result.files)) & set(row_groups_of(layout, files))


def test_files_from_before_a_column_was_added_are_written_anew(tmp_path: Path) -> None:
    layout = layout_in(tmp_path, [pa.int64()])
    files = written(layout, [(n, 5, n) for n in range(99)]).files
    grown = replace(layout, schema=layout.schema.append(pa.field("late", pa.float64())))

    result = merged(grown, files)

    assert read_back(grown, result.files)["late"].null_count == 99


def test_a_long_key_after_which_no_other_can_come_is_taken_over_last(tmp_path: Path) -> None:
    """No code is greater than every one that begins with its own."""
    layout = layout_in(tmp_path, [pa.int64()])
    last = 2**63 - 1
    runs = [[(key, 5, n) for n, key in enumerate([*range(run, 90, 3), *[last] * 30])] for run in range(3)]
    files = [file for rows in runs for file in written(layout, rows).files]

    result = merged(layout, files)

    assert keys_of(layout, result) == [(key, 5) for key in [*range(90), *[last] * 90]]
    assert set(row_groups_of(layout, result.files)) & set(row_groups_of(layout, files))


def test_expirations_of_a_long_key_in_any_order_are_known_to_the_directory(tmp_path: Path) -> None:
    """They were taken from the first and the last record: a row group was said to end before it began."""
    layout = layout_in(tmp_path, [pa.int64()], replace(SMALL, row_group_bytes=10**6, file_bytes=10**6))
    runs = [[(7, 3 + n // 4, 100 * run + n) for n in range(41)] for run in range(3)]
    once = merged(layout, [file for rows in runs for file in written(layout, rows).files]).files
    expirations = read_back(layout, once)["_exp_slot"].to_pylist()
    assert expirations != sorted(expirations), "this needs row groups that were taken over"

    twice = merged(replace(layout, sizes=SMALL), once, clock=3).files

    for file in twice:
        source = DataFile.open(layout.table, file)
        for number in range(source.row_groups):
            interval, table = (
                source.contents.row_group(number).interval,
                read_row_groups([(source, [number])], ["_exp_slot"]),
            )
            assert all(interval.holds(code((7, slot))) for slot in table["_exp_slot"].to_pylist())
    assert sorted(keys_of(layout, Written(twice))) == sorted((7, exp) for rows in runs for _, exp, _ in rows if exp > 3)
