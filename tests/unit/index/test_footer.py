"""Footers that were taken apart and put together are read by Arrow as they should be."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ebb.warehouse.parquet.thrift import MAGIC, Chunk, chunk_facts, footer_of, parquet_columns

NESTED = pa.schema(
    [
        pa.field("id", pa.int8(), nullable=False),
        pa.field("points", pa.list_(pa.struct([("x.y", pa.float64()), ("z", pa.list_(pa.string()))]))),
        pa.field("é", pa.decimal128(20, 3)),
        pa.field("tags", pa.map_(pa.string(), pa.timestamp("us", "UTC"))),
        *(pa.field(f"c{number}", pa.time64("us")) for number in range(20)),
    ]
)


def written(table: pa.Table, **options: object) -> bytes:
    """Return a Parquet file."""
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def footer_bytes(file: bytes) -> bytes:
    """Return the footer of a file with its length and magic."""
    return file[-int.from_bytes(file[-8:-4], "little") - 8 :]


def test_columns_are_those_that_arrow_sees() -> None:
    file = written(NESTED.empty_table())
    columns = parquet_columns(footer_bytes(file))
    schema = pq.read_metadata(io.BytesIO(file)).schema
    assert list(columns) == NESTED.names
    places = [leaf for column in columns.values() for leaf in column.leaves]
    assert places == list(range(len(schema)))
    tops = [schema.column(leaf).path.split(".")[0] for leaf in places]
    assert tops == [name for name, column in columns.items() for _ in column.leaves]
    assert [len(column.heads) for column in columns.values()] == [len(column.leaves) for column in columns.values()]
    assert columns["points"].elements == 7  # the list and its items, x.y, z and its items in two levels more


def test_a_footer_for_some_columns_says_what_they_are() -> None:
    columns = parquet_columns(footer_bytes(written(NESTED.empty_table())))
    for names in (["id"], ["points", "c3"], NESTED.names):
        made = pq.read_metadata(io.BytesIO(footer_of([columns[name] for name in names], [])))
        assert made.schema.to_arrow_schema() == pa.schema([NESTED.field(name) for name in names])
        assert (made.num_rows, made.num_row_groups) == (0, 0)


@pytest.mark.parametrize("number", [0, 1, 63, 64, 2**13 - 1, 2**13, 2**27 - 1, 2**27, 2**34 + 5, 2**62])
def test_numbers_of_every_size_are_written(number: int) -> None:
    (column,) = parquet_columns(footer_bytes(written(pa.table({"k": pa.array([], pa.int64())})))).values()
    facts = chunk_facts(column.heads[0], "ZSTD", number, number, number)
    made = pq.read_metadata(io.BytesIO(footer_of([column], [(number, [(4, Chunk(0, number, 0, 0, facts))])])))
    chunk = made.row_group(0).column(0)
    assert (made.num_rows, made.row_group(0).num_rows, made.row_group(0).total_byte_size) == (number, number, number)
    assert (chunk.num_values, chunk.total_compressed_size, chunk.total_uncompressed_size) == (number, number, number)
    assert (chunk.compression, chunk.physical_type, chunk.path_in_schema) == ("ZSTD", "INT64", "k")
    assert (chunk.data_page_offset, chunk.has_dictionary_page) == (4, False)


def test_a_dictionary_comes_before_the_data() -> None:
    (column,) = parquet_columns(footer_bytes(written(pa.table({"k": ["a"]})))).values()
    facts = chunk_facts(column.heads[0], "SNAPPY", 3, 90, 40)
    groups = [(3, [(at, Chunk(0, 40, 15, 0, facts))]) for at in (4, 44)]
    made = pq.read_metadata(io.BytesIO(footer_of([column], groups)))
    found = [made.row_group(group).column(0) for group in (0, 1)]
    assert [(chunk.dictionary_page_offset, chunk.data_page_offset) for chunk in found] == [(4, 19), (44, 59)]


def test_fields_of_later_versions_are_passed_over() -> None:
    (column,) = parquet_columns(footer_bytes(written(pa.table({"k": [1]})))).values()
    later = column.schema[:-1] + b"\x08\xc8\x01\x02hi" + b"\x13\x07" + b"\x00"  # field 100 is a text, 101 a byte
    body = b"\x15\x04\x19\x2c" + b"\x48\x06schema\x15\x02\x00" + later + b"\x00"
    assert parquet_columns(body) == {"k": column._replace(schema=later)}


def test_a_list_among_them_is_refused() -> None:
    with pytest.raises(ValueError, match="no values of Thrift's type 9"):
        parquet_columns(b"\x19\x0c\x00")


def test_a_footer_without_schema_has_no_columns() -> None:
    assert parquet_columns(b"\x15\x04\x00") == {}
    assert footer_of([], []).endswith(MAGIC)
