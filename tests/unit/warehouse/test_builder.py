"""Data files as they are written: once, under their final name, with pages, checksums and filters as they say themselves."""

from __future__ import annotations

import itertools
import random
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ebb.index.cellfile import CellFile, Rewrite
from ebb.index.contents import load_side_file
from ebb.index.grid import Cell
from ebb.warehouse.parquet.bloom import may_hold, plain_bytes, xxh64
from ebb.warehouse.parquet.builder import FileBuilder
from ebb.warehouse.parquet.copies import CopySource
from ebb.warehouse.parquet.datafile import DataFile
from ebb.warehouse.parquet.footer import footer_hash
from ebb.warehouse.parquet.merge import merge_runs
from ebb.warehouse.parquet.sizes import WriteSizes
from ebb.warehouse.parquet.writer import Layout, RunWriter
from ebb.warehouse.store.paths import footer_hash_in, side_file
from tests.faults import armed, full_disk

KIB, MIB = 1024, 1024 * 1024
CELL = Cell(1, 2)
SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("n", pa.int64()),
        ("noise", pa.string()),  # wide, and nothing makes it smaller
        ("prose", pa.string()),  # as wide, and packed to a tenth
        ("word", pa.string()),  # few values
        ("tags", pa.list_(pa.string())),
        ("_ins_slot", pa.int64()),
        ("_exp_slot", pa.int64()),
    ]
)
SMALL = WriteSizes(
    row_group_bytes=256 * KIB, long_key_bytes=64 * KIB, page_bytes=8 * KIB, file_bytes=MIB, buffer_bytes=MIB
)


def layout_in(folder: Path, sizes: WriteSizes = SMALL) -> Layout:
    (folder / "c").mkdir()
    return Layout(SCHEMA, ("k",), str(folder), "c", sizes)


def records(keys: Sequence[str], *, first: int = 0, wide: int = 400) -> pa.Table:
    """Return records of these keys, which must be in order."""
    rng = random.Random(first)
    numbers = range(first, first + len(keys))
    columns: list[Any] = [
        keys,
        numbers,
        [rng.randbytes(wide * 3 // 4).hex()[:wide] if n % 50 else None for n in numbers],
        [(f"all work and no play {n % 7} " * (wide // 20 + 1))[:wide] for n in numbers],
        [f"w{n % 5}" for n in numbers],
        [[f"t{n}"] * (n % 3) for n in numbers],
        [1] * len(keys),
        [2 + n % 4 for n in numbers],
    ]
    table = pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)
    return table.sort_by([("k", "ascending"), ("_exp_slot", "ascending")])


def random_noise(keys: Sequence[str], wide: int) -> pa.Table:
    """Return records whose wide column cannot be packed at all."""
    rng = random.Random(len(keys))
    table = records(keys, wide=1)
    noise = ["".join(chr(0x100 + byte) for byte in rng.randbytes(wide // 2)) for _ in keys]
    return table.set_column(2, "noise", pa.array(noise))


def keys_of(count: int, per_key: int = 3) -> list[str]:
    return [f"key {n // per_key:06}" for n in range(count)]


def write(layout: Layout, tables: Iterable[pa.Table]) -> list[CellFile]:
    writer = RunWriter(layout, CELL)
    for table in tables:
        writer.add(table)
    return writer.close().files


def opened(layout: Layout, files: Iterable[CellFile]) -> list[DataFile]:
    return [DataFile.open(layout.table, file) for file in files]


def in_pieces(table: pa.Table, size: int) -> Iterator[pa.Table]:
    for start in range(0, table.num_rows, size):
        yield table.slice(start, size)


def read(layout: Layout, files: Iterable[CellFile]) -> pa.Table:
    tables = []
    for file in files:
        with pq.ParquetFile(Path(layout.table, file.path), page_checksum_verification=True) as source:
            tables.append(source.read().replace_schema_metadata())
    return pa.concat_tables(tables)


def test_files_are_written_once_and_never_touched_again(tmp_path: Path) -> None:
    """No rename, no patch, no second opening: an object store has none of them."""
    layout = layout_in(tmp_path)
    with armed(tmp_path, full_disk()) as writing:
        files = write(layout, in_pieces(records(keys_of(9000)), 500))
    before = {path: path.read_bytes() for path in tmp_path.rglob("part-*")}
    with armed(tmp_path, full_disk()) as merging:
        more = merge_runs(layout, Rewrite(cell=CELL, inputs=tuple(files), clock=0)).files

    assert len(files) > 3
    for watched, made, read_again in ((writing, files, []), (merging, more, files)):
        events = [event for event in watched.seen if not event.startswith("os.mkdir ")]
        known = {f"open /{file.path}" for file in read_again}
        places = [place for file in made for place in (file.path, side_file(file.path))]
        assert sorted(event for event in events if event not in known) == sorted(f"open /{p}" for p in places)
    assert all(path.read_bytes() == data for path, data in before.items()), "inputs are only read"
    assert len(list(tmp_path.rglob("*.*"))) == 2 * (len(files) + len(more)), "something else is left"


def test_the_name_of_a_file_carries_the_hash_of_its_footer(tmp_path: Path) -> None:
    layout = layout_in(tmp_path)
    for file in write(layout, [records(keys_of(3000))]):
        data = Path(layout.table, file.path).read_bytes()
        footer = data[-int.from_bytes(data[-8:-4], "little") - 8 :]

        assert footer_hash_in(file.path) == footer_hash(footer)
        assert file.size_bytes == len(data)


@pytest.mark.parametrize("is_copied", [False, True], ids=["written", "copied"])
def test_everything_is_where_the_contents_say_with_these_checksums(tmp_path: Path, *, is_copied: bool) -> None:
    layout = layout_in(tmp_path)
    files = write(layout, in_pieces(records(keys_of(5000)), 700))
    if is_copied:
        files = merge_runs(layout, Rewrite(cell=CELL, inputs=tuple(files), clock=0)).files
    for file, source in zip(files, opened(layout, files), strict=True):
        data, contents = Path(layout.table, file.path).read_bytes(), source.contents
        end = 4
        for number, leaf in itertools.product(range(contents.row_groups), range(contents.leaves)):
            chunk, at = number * contents.leaves + leaf, contents.chunk_starts[number * contents.leaves + leaf]
            assert at == end, "chunks lie one after the other"
            end = at + contents.chunk_bytes[chunk]
            assert zlib.crc32(data[at:end]) == contents.chunk_sums[chunk]
            told = source.footer.row_group(number).column(leaf)
            assert told.total_compressed_size == contents.chunk_bytes[chunk]
            assert told.num_values == contents.chunk_values[chunk]
            for page in contents.pages(number, leaf):
                size = contents.page_bytes[page]
                assert zlib.crc32(data[at : at + size]) == contents.page_sums[page]
                at += size
            assert at == end
            counts = [contents.page_records[page] for page in contents.pages(number, leaf)]
            assert sum(counts) == contents.records[number]
            assert [n for n, count in enumerate(counts) if not count] == [0] * told.has_dictionary_page
        for number in range(contents.row_groups):
            where = contents.filter(0, number)
            assert where.offset == end
            end += where.length
            assert zlib.crc32(data[where.offset : end]) == where.checksum
        assert data[end : end + len(contents.block)] == contents.block
        assert len(data) == end + len(contents.block) + len(source.tail)


def test_what_lies_beside_a_file_is_its_contents_and_its_filters(tmp_path: Path) -> None:
    layout = layout_in(tmp_path)
    for file, source in ((f, DataFile.open(layout.table, f)) for f in write(layout, [records(keys_of(5000))])):
        data = Path(layout.table, file.path).read_bytes()
        beside = load_side_file(Path(file.path).name, Path(layout.table, side_file(file.path)).read_bytes())

        assert beside is not None
        assert beside.block == source.contents.block
        for number in range(beside.row_groups):
            where = beside.filter(0, number)
            assert where.length
            assert beside.filter_bits(0, number) == data[where.offset : where.offset + where.length]


def test_pages_are_cut_by_size(tmp_path: Path) -> None:
    """A page of the wide columns ends soon after its size; columns of small values have one page, whatever their number."""
    layout = layout_in(tmp_path, replace(SMALL, row_group_bytes=MIB, file_bytes=64 * MIB, buffer_bytes=64 * MIB))
    (source,) = opened(layout, write(layout, [random_noise(keys_of(9000), wide=400)]))
    page_bytes, contents = layout.sizes.page_bytes, source.contents
    assert contents.row_groups > 2
    for number in range(contents.row_groups):
        pages = [contents.page_bytes[page] for page in contents.pages(number, source.leaf("noise"))]
        assert len(pages) > 20
        assert all(page_bytes <= size < 1.25 * page_bytes for size in pages[:-1])
        for name in ("word", "_ins_slot", "_exp_slot"):
            records_per_page = [contents.page_records[page] for page in contents.pages(number, source.leaf(name))]
            assert [count for count in records_per_page if count] == [contents.records[number]]


def test_one_record_that_is_wider_than_a_page_is_a_page(tmp_path: Path) -> None:
    layout = layout_in(tmp_path)
    source = opened(layout, write(layout, [random_noise(keys_of(40), wide=20 * KIB)]))[0]

    pages = source.contents.pages(0, source.leaf("noise"))
    assert [source.contents.page_records[page] for page in pages] == [1] * source.contents.records[0]


def test_wide_columns_are_packed_if_that_makes_them_smaller(tmp_path: Path) -> None:
    layout = layout_in(tmp_path)
    rng = random.Random(5)
    table = random_noise(keys_of(2000), wide=400)
    table = table.set_column(3, "prose", records(keys_of(2000))["prose"])
    table = table.set_column(4, "word", pa.array([rng.randbytes(20).hex() for _ in range(2000)]))
    for source in opened(layout, write(layout, [table])):
        for number in range(source.row_groups):
            chunks = {
                source.footer.schema.column(leaf).path: source.footer.row_group(number).column(leaf)
                for leaf in range(source.contents.leaves)
            }
            packed = {name: chunk.compression for name, chunk in chunks.items()}
            codecs = [source.contents.chunk_codecs[number * len(chunks) + leaf] for leaf in range(len(chunks))]
            assert packed.pop("noise") == "UNCOMPRESSED"
            assert set(packed.values()) == {"SNAPPY"}, "narrow columns always are"
            assert codecs == [0 if name == "noise" else 1 for name in chunks]
            assert chunks["prose"].total_compressed_size < chunks["prose"].total_uncompressed_size / 2
    assert read(layout, write(layout, [table])).equals(table)


def test_a_wide_column_without_a_value_is_written(tmp_path: Path) -> None:
    layout = layout_in(tmp_path)
    table = records(keys_of(500)).set_column(2, "noise", pa.nulls(500, pa.string()))

    assert read(layout, write(layout, [table])).equals(table)


def row_groups_in(layout: Layout, files: Iterable[CellFile]) -> list[pa.Table]:
    found = []
    for file in files:
        with pq.ParquetFile(Path(layout.table, file.path)) as source:
            found += [source.read_row_group(number) for number in range(source.num_row_groups)]
    return found


def test_row_groups_end_with_keys_and_long_keys_have_their_own(tmp_path: Path) -> None:
    layout = layout_in(tmp_path)
    long = {"key 000100": 150, "key 000101": 200, "key 000400": 900}  # of about 900 bytes each
    keys = [key for n in range(1200) for key in [f"key {n:06}"] * long.get(f"key {n:06}", 2)]
    table = records(keys)

    groups = row_groups_in(layout, write(layout, [table]))

    assert pa.concat_tables(groups).replace_schema_metadata().equals(table)
    sets = [set(group["k"].to_pylist()) for group in groups]
    for key, count in long.items():
        alone = [group.num_rows for group, found in zip(groups, sets, strict=True) if key in found]
        assert sum(alone) == count
        assert [found for found in sets if key in found] == [{key}] * len(alone)
    assert len([found for found in sets if "key 000400" in found]) > 2, "it fills several"
    short = [found for found in sets if not found & long.keys()]
    assert sum(map(len, short)) == len(set().union(*short)), "no short key is in two"
    assert all(group.nbytes < 1.1 * layout.sizes.row_group_bytes for group in groups)
    full = [g for g, found in zip(groups, sets, strict=True) if g.nbytes > 0.9 * layout.sizes.row_group_bytes]
    assert len(full) > 3, "they are as large as they may be"


def test_a_row_group_of_one_key_is_written_in_whatever_pieces_it_comes(tmp_path: Path) -> None:
    layout = layout_in(tmp_path)
    table = records([*keys_of(300), *["last"] * 3000])

    whole, cut = [write(layout, in_pieces(table, size)) for size in (10**6, 37)]

    assert read(layout, whole).equals(table)
    assert read(layout, cut).equals(table)


def described(chunk: Any) -> tuple[Any, ...]:
    statistics = chunk.statistics
    ends = statistics and (statistics.has_min_max, statistics.min, statistics.max, statistics.null_count)
    return chunk.compression, chunk.encodings, chunk.num_values, chunk.total_uncompressed_size, ends


def test_copied_row_groups_keep_their_bytes_filters_statistics_and_checksums(tmp_path: Path) -> None:
    layout = layout_in(tmp_path)
    sources = opened(layout, write(layout, in_pieces(records(keys_of(6000)), 400)))
    parts = [(source, number) for source in sources for number in range(source.row_groups)][::2]
    builder = FileBuilder(layout.schema, layout.key, layout.sizes)
    for source, number in parts:
        builder.copy(CopySource(source, layout.key).row_group(number))
    builder.encode([records(["zebra 1", "zebra 2"])])
    path, size = builder.close(layout.table, Path(parts[0][0].path).parent.as_posix())
    made = DataFile.look_up(
        layout.table, CellFile(path=path, cell=CELL, size_bytes=size, records=0, min_ins=1, max_ins=1, min_exp=2, max_exp=5)
    )  # fmt: skip
    footer = pq.read_metadata(Path(layout.table, path))

    assert footer.num_row_groups == len(parts) + 1 == made.row_groups
    assert made.contents.has_bits
    for place, (source, number) in enumerate(parts):
        was, now = source.footer.row_group(number), footer.row_group(place)
        assert [described(now.column(leaf)) for leaf in range(now.num_columns)] == [
            described(was.column(leaf)) for leaf in range(was.num_columns)
        ]
        assert made.contents.row_group(place).interval == source.contents.row_group(number).interval
        old, new = source.contents, made.contents
        assert (new.records[place], new.raw_bytes[place]) == (old.records[number], old.raw_bytes[number])
        for leaf in range(old.leaves):
            before, after = number * old.leaves + leaf, place * old.leaves + leaf
            assert new.chunk_sums[after] == old.chunk_sums[before]
            for name in ("page_bytes", "page_records", "page_sums"):
                assert [getattr(new, name)[p] for p in new.pages(place, leaf)] == [
                    getattr(old, name)[p] for p in old.pages(number, leaf)
                ]
        table = source_table(layout, source, number)
        bits = made.contents.filter_bits(0, place)
        assert all(may_hold(bits, xxh64(plain_bytes(key, pa.string()))) for key in set(table["k"].to_pylist()))
        absent = [may_hold(bits, xxh64(f"none {n}".encode())) for n in range(300)]
        assert sum(absent) < 30, "a filter that holds everything"
    expected = pa.concat_tables(
        [*(source_table(layout, source, number) for source, number in parts), records(["zebra 1", "zebra 2"])]
    )
    with pq.ParquetFile(Path(layout.table, path), page_checksum_verification=True) as file:
        assert file.read().replace_schema_metadata().equals(expected)


def source_table(layout: Layout, source: DataFile, number: int) -> pa.Table:
    with pq.ParquetFile(Path(layout.table, source.path)) as file:
        return file.read_row_group(number).replace_schema_metadata()


def test_every_reader_reads_what_was_written_and_what_was_copied(tmp_path: Path) -> None:
    layout = layout_in(tmp_path)
    table = records(keys_of(5000))
    files = write(layout, in_pieces(table, 300))
    copied = merge_runs(layout, Rewrite(cell=CELL, inputs=tuple(files), clock=0)).files
    sums = [{tuple(s.contents.chunk_sums) for s in opened(layout, some)} for some in (files, copied)]
    assert sums[0] & sums[1], "no file was taken over as it was"
    for some in (files, copied):
        places = [str(Path(layout.table, file.path)) for file in some]
        by_polars = pl.concat([pl.read_parquet(place, hive_partitioning=False) for place in places]).to_arrow()
        by_duckdb = pa.concat_tables(
            [duckdb.sql(f"SELECT * FROM read_parquet('{p}', hive_partitioning=false)").to_arrow_table() for p in places]  # noqa: S608 - paths of this test
        )
        found = duckdb.sql(f"SELECT n FROM read_parquet({places}, hive_partitioning=false) WHERE k = 'key 000777'")  # noqa: S608 - paths of this test

        assert read(layout, some).equals(table)
        assert by_polars.cast(SCHEMA).equals(table)
        assert by_duckdb.cast(SCHEMA).equals(table)
        assert sorted(n for (n,) in found.fetchall()) == [2331, 2332, 2333]


def test_wide_columns_have_no_statistics_but_the_key_has(tmp_path: Path) -> None:
    layout = layout_in(tmp_path)
    keys = [f"{n:06}" + "long" * 40 for n in range(900)]
    for source in opened(layout, write(layout, [records(keys)])):
        for number in range(source.row_groups):
            group = source.footer.row_group(number)
            told = {
                group.column(leaf).path_in_schema
                for leaf in range(group.num_columns)
                if group.column(leaf).statistics is not None and group.column(leaf).statistics.has_min_max
            }
            assert told == {"k", "n", "word", "_ins_slot", "_exp_slot"}


@pytest.mark.parametrize("is_copied", [False, True], ids=["written", "merged"])
def test_a_writer_holds_a_file_and_what_waits_for_its_row_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_copied: bool
) -> None:
    """Whatever the run has: 30 times a file here."""
    sizes = replace(SMALL, file_bytes=2 * MIB, buffer_bytes=MIB, stripe_bytes=2 * MIB)
    layout = layout_in(tmp_path, sizes)
    tables = [random_noise([f"{n:03}/{key}" for key in keys_of(1000)], wide=800) for n in range(60)]
    most = 0
    largest: list[int] = []
    closed = FileBuilder.close

    def watched(builder: FileBuilder, table: str, folder: str) -> tuple[str, int]:
        largest.append(builder.size_bytes)
        return closed(builder, table, folder)

    monkeypatch.setattr(FileBuilder, "close", watched)
    before = pa.total_allocated_bytes()
    writer = RunWriter(layout, CELL)
    for table in tables:
        for piece in in_pieces(table, 100):
            writer.add(piece)
            most = max(most, pa.total_allocated_bytes() - before)
    files = writer.close().files
    if is_copied:
        largest.clear()
        most, adds = 0, RunWriter.add
        copies = RunWriter.copy

        def added(writer: RunWriter, table: pa.Table) -> None:
            nonlocal most
            adds(writer, table)
            most = max(most, pa.total_allocated_bytes() - before)

        def taken(writer: RunWriter, row_group: Any) -> None:
            nonlocal most
            copies(writer, row_group)
            most = max(most, pa.total_allocated_bytes() - before)

        monkeypatch.setattr(RunWriter, "add", added)
        monkeypatch.setattr(RunWriter, "copy", taken)
        files = merge_runs(layout, Rewrite(cell=CELL, inputs=tuple(files), clock=0)).files

    total = sum(file.size_bytes for file in files)
    assert total > 20 * sizes.file_bytes
    assert len(largest) == len(files) > 15
    assert max(largest) <= sizes.file_bytes + sizes.row_group_bytes
    assert 0 < most <= 1.5 * (sizes.file_bytes + sizes.buffer_bytes) + 2 * sizes.row_group_bytes, f"{most:,}"
