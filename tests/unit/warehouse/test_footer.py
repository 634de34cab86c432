"""Footers that were taken apart and put together are read by Arrow as they should be."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ebb.warehouse.parquet.footer import PlacedChunk, file_footer, footer_of
from ebb.warehouse.parquet.thrift import MAGIC, ChunkEntry, Footer, page_locations, parquet_columns, read_footer

NESTED = pa.schema(
    [
        pa.field("id", pa.int8(), nullable=False),
        pa.field("points", pa.list_(pa.struct([("x.y", pa.float64()), ("z", pa.list_(pa.string()))]))),
        pa.field("é", pa.decimal128(20, 3)),
        pa.field("tags", pa.map_(pa.string(), pa.timestamp("us", "UTC"))),
        *(pa.field(f"c{number}", pa.time64("us")) for number in range(20)),
    ]
)
CODECS = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "BROTLI": 4, "ZSTD": 6, "LZ4": 7}  # as Parquet numbers them


def nested_rows(count: int) -> pa.Table:
    rows = [
        {
            "id": n % 100,
            "points": None if n % 3 == 0 else [{"x.y": n / 7, "z": ["é"] * i} for i in range(n % 4)],
            "é": None,
            "tags": [(f"t{n % 5}", n * 10**9)],
            **{f"c{number}": None if n % 2 else n * number for number in range(20)},
        }
        for n in range(count)
    ]
    return pa.table({f.name: pa.array([row[f.name] for row in rows], f.type) for f in NESTED}, schema=NESTED)


def written(table: pa.Table, **options: object) -> bytes:
    """Return a Parquet file."""
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def footer_bytes(file: bytes) -> bytes:
    """Return the footer of a file with its length and magic."""
    return file[-int.from_bytes(file[-8:-4], "little") - 8 :]


def schema_in(file: bytes) -> bytes:
    return read_footer(footer_bytes(file)).schema


def test_columns_are_those_that_arrow_sees() -> None:
    file = written(NESTED.empty_table())
    columns = parquet_columns(schema_in(file))
    schema = pq.read_metadata(io.BytesIO(file)).schema

    assert list(columns) == NESTED.names
    places = [leaf for column in columns.values() for leaf in column.leaves]
    assert places == list(range(len(schema)))
    tops = [schema.column(leaf).path.split(".")[0] for leaf in places]
    assert tops == [name for name, column in columns.items() for _ in column.leaves]
    assert [len(column.heads) for column in columns.values()] == [len(column.leaves) for column in columns.values()]
    assert columns["points"].elements == 7  # the list and its items, x.y, z and its items in two levels more
    assert [name for name, column in columns.items() if not column.is_flat] == ["points", "tags"]


def test_a_footer_for_some_columns_says_what_they_are() -> None:
    columns = parquet_columns(schema_in(written(NESTED.empty_table())))
    for names in (["id"], ["points", "c3"], NESTED.names):
        made = pq.read_metadata(io.BytesIO(footer_of([columns[name] for name in names], [])))
        assert made.schema.to_arrow_schema() == pa.schema([NESTED.field(name) for name in names])
        assert (made.num_rows, made.num_row_groups) == (0, 0)


@pytest.mark.parametrize("number", [0, 1, 63, 64, 2**13 - 1, 2**13, 2**27 - 1, 2**27, 2**34 + 5, 2**62 - 1])
def test_numbers_of_every_size_are_written(number: int) -> None:
    (column,) = parquet_columns(schema_in(written(pa.table({"k": pa.array([], pa.int64())})))).values()
    placed = PlacedChunk(at=4, size_bytes=number, dictionary_bytes=0, values=number, codec=CODECS["ZSTD"])

    made = pq.read_metadata(io.BytesIO(footer_of([column], [(number, [placed])])))

    chunk = made.row_group(0).column(0)
    assert (made.num_rows, made.row_group(0).num_rows, made.row_group(0).total_byte_size) == (number, number, number)
    assert (chunk.num_values, chunk.total_compressed_size, chunk.total_uncompressed_size) == (number, number, number)
    assert (chunk.compression, chunk.physical_type, chunk.path_in_schema) == ("ZSTD", "INT64", "k")
    assert (chunk.data_page_offset, chunk.has_dictionary_page) == (4, False)


@pytest.mark.parametrize("number", [0, 1, 63, 64, 2**13 - 1, 2**13, 2**27 - 1, 2**27, 2**34 + 5, 2**62])
def test_places_of_every_size_are_written_and_read(number: int) -> None:
    like = read_footer(footer_bytes(written(pa.table({"k": pa.array([1, 2], pa.int64())}), use_dictionary=False)))
    (entry,) = like.row_groups[0][1]

    made = file_footer(like, [(number, [(number, 0, entry)])], {})

    chunk = pq.read_metadata(io.BytesIO(made)).row_group(0).column(0)
    assert (chunk.data_page_offset, chunk.num_values) == (number, 2)
    (records, (again,)), *_ = read_footer(made).row_groups
    assert (records, again.data_at, again.parts) == (number, number, entry.parts)


@pytest.mark.parametrize("count", [1, 14, 15, 16, 127, 128, 300])
def test_lists_of_every_length_are_written_and_read(count: int) -> None:
    table = pa.table({f"c{number}": pa.array([], pa.int64()) for number in range(count)})
    columns = parquet_columns(schema_in(written(table)))
    placed = [PlacedChunk(4, 10, 0, 1, 0) for _ in columns]

    made = pq.read_metadata(io.BytesIO(footer_of(list(columns.values()), [(1, placed)] * count)))

    assert (made.num_row_groups, made.num_columns, made.num_rows) == (count, count, count)
    assert made.schema.names == table.column_names
    assert made.row_group(count - 1).column(count - 1).path_in_schema == f"c{count - 1}"


def test_a_dictionary_comes_before_the_data() -> None:
    (column,) = parquet_columns(schema_in(written(pa.table({"k": ["a"]})))).values()
    groups = [(3, [PlacedChunk(at, 40, 15, 3, CODECS["SNAPPY"])]) for at in (4, 44)]

    made = pq.read_metadata(io.BytesIO(footer_of([column], groups)))

    found = [made.row_group(group).column(0) for group in (0, 1)]
    assert [(chunk.dictionary_page_offset, chunk.data_page_offset) for chunk in found] == [(4, 19), (44, 59)]


def test_row_groups_with_and_without_dictionaries_follow_each_other() -> None:
    columns = list(parquet_columns(schema_in(written(pa.table({"k": ["a"], "v": ["b"]})))).values())
    sizes = [(n % 3 * 7, n % 2 * 9) for n in range(20)]  # of the dictionaries of both
    groups = [
        (n + 1, [PlacedChunk(1000 * n + 4, 100 + n, k, n + 1, 1), PlacedChunk(1000 * n + 504, 200 + n, v, n + 1, 0)])
        for n, (k, v) in enumerate(sizes)
    ]

    made = pq.read_metadata(io.BytesIO(footer_of(columns, groups)))

    for number, ((records, chunks), _) in enumerate(zip(groups, sizes, strict=True)):
        group = made.row_group(number)
        assert (group.num_rows, group.total_byte_size) == (records, sum(chunk.size_bytes for chunk in chunks))
        for leaf, chunk in enumerate(chunks):
            found = group.column(leaf)
            assert found.has_dictionary_page == bool(chunk.dictionary_bytes)
            assert found.data_page_offset == chunk.at + chunk.dictionary_bytes
            assert found.dictionary_page_offset == (chunk.at if chunk.dictionary_bytes else None)
            assert (found.total_compressed_size, found.num_values) == (chunk.size_bytes, chunk.values)
            assert CODECS[found.compression] == chunk.codec


FILES: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "without dictionaries": {"use_dictionary": False},
    "without statistics": {"write_statistics": False},
    "with Bloom filters": {"bloom_filter_options": {"id": {"ndv": 100, "fpp": 0.01}, "c3": {"ndv": 9, "fpp": 0.1}}},
    "with page indexes and checksums": {"write_page_index": True, "write_page_checksum": True, "data_page_size": 256},
    "zstd": {"compression": "zstd"},
    "not packed": {"compression": "none"},
    "pages of the second kind": {"data_page_version": "2.0"},
    "without a schema of Arrow": {"store_schema": False},
}


def facts(chunk: Any) -> dict[str, Any]:
    """Return what Arrow tells of a chunk but its places and what points to the page index, which is not kept."""
    moved = {"file_offset", "dictionary_page_offset", "data_page_offset", "index_page_offset", "bloom_filter_offset"}
    left_out = moved | {"has_offset_index", "has_column_index"}
    return {name: value for name, value in chunk.to_dict().items() if name not in left_out}


@pytest.mark.parametrize("options", FILES.values(), ids=FILES)
def test_a_footer_taken_apart_says_what_arrow_reads_in_it(options: dict[str, Any]) -> None:
    file = written(nested_rows(500), row_group_size=120, **options)
    theirs = pq.read_metadata(io.BytesIO(file))

    found = read_footer(footer_bytes(file))

    assert [records for records, _ in found.row_groups] == [120, 120, 120, 120, 20]
    assert found.created_by.decode() == theirs.created_by
    for number, (_, entries) in enumerate(found.row_groups):
        chunks = [theirs.row_group(number).column(leaf) for leaf in range(theirs.num_columns)]
        assert len(entries) == len(chunks)
        for entry, chunk in zip(entries, chunks, strict=True):
            assert entry.has_dictionary == chunk.has_dictionary_page
            assert entry.data_at == chunk.data_page_offset
            assert entry.dictionary_at == (chunk.dictionary_page_offset or 0)
            assert entry.start == (chunk.dictionary_page_offset or chunk.data_page_offset)
            assert entry.filter_at == (chunk.bloom_filter_offset or 0)
            assert entry.filter_bytes == (chunk.bloom_filter_length or 0)
            assert (entry.values, entry.size_bytes) == (chunk.num_values, chunk.total_compressed_size)
            assert (entry.raw_bytes, entry.codec) == (chunk.total_uncompressed_size, CODECS[chunk.compression])
            assert bool(entry.index_at) == chunk.has_offset_index
    assert any(entry.filter_at for _, entries in found.row_groups for entry in entries) == (
        "bloom_filter_options" in options
    )


def moved_to(file: bytes, parts: Sequence[tuple[Footer, int]], by: int) -> bytes:
    """Return a file with these row groups of another one, ``by`` bytes later than they are there."""
    like = parts[0][0]
    groups = []
    for footer, number in parts:
        records, entries = footer.row_groups[number]
        groups.append((records, [(entry.start + by, entry.filter_at + by, entry) for entry in entries]))
    return MAGIC + bytes(by) + file[len(MAGIC) :] + file_footer(like, groups, {"ebb.x": "1 2 3", "y": ""})


@pytest.mark.parametrize("by", [0, 1, 100_000])
@pytest.mark.parametrize("options", FILES.values(), ids=FILES)
def test_a_footer_put_together_says_the_same_of_chunks_that_lie_elsewhere(options: dict[str, Any], by: int) -> None:
    table = nested_rows(500)
    file = written(table, row_group_size=120, **options)
    footer = read_footer(footer_bytes(file))
    order = [3, 0, 4, 0]

    made = moved_to(file, [(footer, number) for number in order], by)

    before, after = pq.read_metadata(io.BytesIO(file)), pq.read_metadata(io.BytesIO(made))
    assert after.schema.equals(before.schema)
    assert (after.num_rows, after.num_row_groups) == (120 * 3 + 20, 4)
    assert after.created_by == before.created_by
    assert after.metadata == {b"ebb.x": b"1 2 3", b"y": b""}
    for place, number in enumerate(order):
        group, old = after.row_group(place), before.row_group(number)
        assert (group.num_rows, group.total_byte_size) == (old.num_rows, old.total_byte_size)
        for leaf in range(after.num_columns):
            chunk, was = group.column(leaf), old.column(leaf)
            assert facts(chunk) == facts(was)
            assert chunk.data_page_offset == was.data_page_offset + by
            assert chunk.dictionary_page_offset == (was.dictionary_page_offset and was.dictionary_page_offset + by)
            assert chunk.bloom_filter_offset == (was.bloom_filter_offset and was.bloom_filter_offset + by)
            assert not chunk.has_offset_index
    with pq.ParquetFile(io.BytesIO(made), page_checksum_verification=True) as opened:
        expected = pa.concat_tables([table.slice(120 * number, 120) for number in order])
        assert opened.read().cast(NESTED).equals(expected)
    again = read_footer(footer_bytes(made))
    assert again.schema == footer.schema
    assert [[entry.parts for entry in entries] for _, entries in again.row_groups] == [
        [entry.parts for entry in footer.row_groups[number][1]] for number in order
    ]


def walked_pages(data: bytes, entry: ChunkEntry) -> list[tuple[int, int, int]]:
    """Return place, size with header and kind of each page of a chunk, as its headers tell them one after the other."""
    found, at = [], entry.start
    while at < entry.start + entry.size_bytes:
        kind, packed, end = page_header(data, at)
        found.append((at, end + packed - at, kind))
        at = end + packed
    assert at == entry.start + entry.size_bytes
    return found


def page_header(data: bytes, at: int) -> tuple[int, int, int]:
    """Return the kind of a page, its packed size, and where its header ends.  Written here without our own reader."""

    def varint(at: int) -> tuple[int, int]:
        number = shift = 0
        while data[at] > 0x7F:
            number |= (data[at] & 0x7F) << shift
            at, shift = at + 1, shift + 7
        return (number | data[at] << shift), at + 1

    def skipped(kind: int, at: int) -> int:
        match kind:
            case 1 | 2:
                return at
            case 3:
                return at + 1
            case 4 | 5 | 6:
                return varint(at)[1]
            case 8:
                size, at = varint(at)
                return at + size
            case 12:
                while data[at]:
                    at = skipped(data[at] & 0xF, at + 1)
                return at + 1
        raise AssertionError(kind)

    numbers, field = dict[int, int](), 0
    while data[at]:
        header = data[at]
        field += header >> 4
        if header & 0xF == 5:
            number, at = varint(at + 1)
            numbers[field] = number >> 1
        else:
            at = skipped(header & 0xF, at + 1)
    return numbers[1], numbers[3], at + 1


@pytest.mark.parametrize("page_bytes", [64, 300, 4096, 2**20])
@pytest.mark.parametrize("use_dictionary", [True, False])
def test_pages_are_where_an_offset_index_tells(page_bytes: int, *, use_dictionary: bool) -> None:
    table = nested_rows(900)
    file = written(
        table,
        row_group_size=400,
        data_page_size=page_bytes,
        write_batch_size=5,
        write_page_index=True,
        use_dictionary=use_dictionary,
    )
    most = 0
    for records, entries in read_footer(footer_bytes(file)).row_groups:
        for entry in entries:
            pages = walked_pages(file, entry)
            if entry.has_dictionary:
                assert pages.pop(0) == (entry.dictionary_at, entry.data_at - entry.dictionary_at, 2)
            told = page_locations(file[entry.index_at : entry.index_at + entry.index_bytes])
            assert [(at, size) for at, size, _ in told] == [(at, size) for at, size, _ in pages]
            firsts = [first for _, _, first in told]
            assert firsts[0] == 0
            assert firsts == sorted(set(firsts))
            assert firsts[-1] < records
            most = max(most, len(told))
    assert most > (15 if page_bytes < 300 else 0), "no list that has its length after its header"


def test_fields_of_later_versions_are_passed_over() -> None:
    schema = schema_in(written(pa.table({"k": [1]})))
    (column,) = parquet_columns(schema).values()
    # Field 100 is a text, 101 a byte, 102 a list of texts, 103 a double, 104 a struct with a flag, 105 a list of flags,
    # and 300 a number.
    later = (
        b"\x08\xc8\x01\x02hi" + b"\x13\x07" + b"\x19\x28\x01a\x01b" + b"\x17" + bytes(8) + b"\x1c\x11\x00"
        + b"\x19\x31\x01\x02\x01" + b"\x06\xd8\x04\x80\x01"
    )  # fmt: skip
    grown = column.schema[:-1] + later + b"\x00"
    body = b"\x2c" + b"\x48\x06schema\x15\x02\x00" + grown
    assert parquet_columns(body) == {"k": column._replace(schema=grown)}


def test_fields_of_later_versions_of_a_chunk_stay_with_it() -> None:
    """A footer of a newer Arrow is taken apart and put together without the loss of what we do not know."""
    file = written(pa.table({"k": [1, 2, 3]}))
    footer = read_footer(footer_bytes(file))
    (entry,) = footer.row_groups[0][1]
    later = b"\x09\xc8\x01\x28\x01a\x01b\x00"  # field 100 is a list of texts
    grown = entry._replace(parts=(*entry.parts[:-1], entry.parts[-1][:-1] + later))

    made = file_footer(footer, [(3, [(entry.start, 0, grown)])], {})

    ((_, (found,)),) = read_footer(made).row_groups
    assert found.parts == grown.parts
    assert pq.read_metadata(io.BytesIO(made)).num_rows == 3


def test_a_type_that_no_footer_has_is_refused() -> None:
    with pytest.raises(ValueError, match="no values of Thrift's type 11"):
        parquet_columns(b"\x1c\x2b\x00")


def test_a_footer_without_schema_has_no_columns() -> None:
    assert read_footer(b"\x15\x04\x00") == Footer(b"", (), b"", b"")
    assert parquet_columns(b"\x0c") == {}
    assert footer_of([], []).endswith(MAGIC)
