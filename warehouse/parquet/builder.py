"""One data file, put together in memory and written once.

Its row groups are encoded by Arrow, or copied as they are from other files. When all are there, the Bloom filters, the
contents and the footer follow, and the hash of the footer gives the file its name before its first byte leaves memory.
Memory is bounded by the size of a file: whoever feeds it closes it when it is large enough.
"""

from __future__ import annotations

import bisect
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from zlib_ng.zlib_ng import crc32, crc32_combine

from ebb.index.columns import EXPIRES_SLOT, INSERTED_SLOT
from ebb.index.contents import ChunkPages, Contents, Filter, RowGroup, dump_side_file
from ebb.index.directory import SLOT_BYTES
from ebb.index.keys import Interval, code, successor
from ebb.warehouse.parquet.arrow import Codes
from ebb.warehouse.parquet.bloom import has_plain_bytes
from ebb.warehouse.parquet.footer import CONTENTS, file_footer, footer_hash
from ebb.warehouse.parquet.sizes import WriteSizes
from ebb.warehouse.parquet.thrift import MAGIC, ChunkEntry, Footer, page_locations, read_footer
from ebb.warehouse.store.files import write_new
from ebb.warehouse.store.paths import new_data_file, side_file

__all__ = ["CopiedRowGroup", "FileBuilder", "parquet_schema"]

_FORM: dict[str, Any] = {"store_schema": False, "coerce_timestamps": "us"}  # what is the same in all data files
_SAMPLED_BYTES = 64 * 1024  # of a column, packed to see whether that makes it smaller


class CopiedRowGroup(NamedTuple):
    """A row group of another file as it lies there, verified."""

    footer: Footer  # of that file
    facts: RowGroup  # with the places of that file
    entries: Sequence[ChunkEntry]
    chunks: Sequence[memoryview]
    filters: Mapping[int, memoryview]  # by leaf


class _Piece(NamedTuple):
    facts: RowGroup  # its chunks lie where they will be
    entries: Sequence[ChunkEntry]
    filters: Mapping[int, memoryview]  # by leaf


class FileBuilder:
    """A data file that is being put together."""

    def __init__(self, schema: pa.Schema, key: Sequence[str], sizes: WriteSizes) -> None:
        self._schema, self._key, self._sizes = schema, key, sizes
        self._parts: list[bytes | memoryview] = [MAGIC]
        self._at = len(MAGIC)
        self._pieces: list[_Piece] = []
        self._like: Footer | None = None

    @property
    def size_bytes(self) -> int:
        """Return how much there is of it."""
        return self._at

    @property
    def row_groups(self) -> Sequence[RowGroup]:
        """Return what was put into it."""
        return [piece.facts for piece in self._pieces]

    def encode(self, row_groups: Sequence[pa.Table]) -> None:
        """Append sorted records, each table as a row group."""
        written = _encoded(row_groups, self._schema, self._key, self._sizes)
        like = read_footer(_footer_in(written))
        self._like = self._like or like
        shift, end = self._at - len(MAGIC), len(MAGIC)
        for table, (records, entries) in zip(row_groups, like.row_groups, strict=True):
            chunks = [_chunk(written, entry, records, shift) for entry in entries]
            slots = [pc.min_max(table[name]).as_py() for name in (INSERTED_SLOT, EXPIRES_SLOT)]
            facts = RowGroup(
                records=records,
                raw_bytes=sum(entry.raw_bytes for entry in entries),
                interval=_interval(table, self._key),
                slots=(slots[0]["min"], slots[0]["max"], slots[1]["min"], slots[1]["max"]),
                chunks=chunks,
                filters=(),
            )
            filters = {
                leaf: written[entry.filter_at : entry.filter_at + entry.filter_bytes]
                for leaf, entry in enumerate(entries)
                if entry.filter_at
            }
            self._pieces.append(_Piece(facts, entries, filters))
            end = max(end, entries[-1].start + entries[-1].size_bytes)
        self._parts.append(written[len(MAGIC) : end])
        self._at += end - len(MAGIC)

    def copy(self, row_group: CopiedRowGroup) -> None:
        """Append a row group of another file.  Requires the same columns."""
        self._like = self._like or row_group.footer
        chunks = []
        for facts, data in zip(row_group.facts.chunks, row_group.chunks, strict=True):
            chunks.append(facts._replace(start=self._at))
            self._parts.append(data)
            self._at += len(data)
        self._pieces.append(_Piece(replace(row_group.facts, chunks=chunks), row_group.entries, row_group.filters))

    def close(self, table: str, folder: str) -> tuple[str, int]:
        """Write the file below a table, and what the directory keeps of it beside it; returns its path and size."""
        assert self._like is not None  # noqa: S101 - nobody closes an empty one
        like, leaves = self._like, _key_leaves(self._schema, self._key)
        places = self._place_filters(leaves)
        facts = [
            replace(piece.facts, filters=[_filter(piece, leaf, there) for leaf in leaves])
            for piece, there in zip(self._pieces, places, strict=True)
        ]
        block = Contents.dump(like.schema, facts)
        where = f"{self._at} {len(block)} {crc32(block):08x}"
        footer = file_footer(
            like, [_placed(*both) for both in zip(self._pieces, places, strict=True)], {CONTENTS: where}
        )
        self._parts += (block, footer)
        path = new_data_file(folder, footer_hash(footer))
        write_new(f"{table}/{path}", self._parts)
        filters = [piece.filters[leaf] for leaf in leaves for piece in self._pieces if leaf in piece.filters]
        write_new(f"{table}/{side_file(path)}", [dump_side_file(path.rsplit("/", 1)[-1], block, filters)])
        return path, self._at + len(block) + len(footer)

    def _place_filters(self, leaves: Sequence[int]) -> list[dict[int, int]]:
        """Append the Bloom filters, one key column after the other; returns where those of each row group are, by leaf."""
        places: list[dict[int, int]] = [{} for _ in self._pieces]
        for leaf in leaves:
            for number, piece in enumerate(self._pieces):
                if leaf in piece.filters:
                    places[number][leaf] = self._at
                    self._parts.append(piece.filters[leaf])
                    self._at += len(piece.filters[leaf])
        return places


def _interval(table: pa.Table, key: Sequence[str]) -> Interval:
    """Return the least interval that holds the codes of records in the order of their keys.

    The expirations of one key may be in any order: row groups that were copied follow each other as they are.
    """
    codes, slots = Codes(table, key), table[EXPIRES_SLOT]
    first, last = (codes[place][:-SLOT_BYTES] for place in (0, table.num_rows - 1))
    following = successor(first)
    end = table.num_rows if following is None else bisect.bisect_left(codes, following)
    least = pc.min(slots.slice(0, end)).as_py()
    greatest = pc.max(slots.slice(bisect.bisect_left(codes, last))).as_py()
    return Interval(first + code([least]), last + code([greatest]) + b"\x00")


def _placed(piece: _Piece, filters: Mapping[int, int]) -> tuple[int, list[tuple[int, int, ChunkEntry]]]:
    """Return a row group as the footer tells it: its records and where its chunks and their filters are."""
    chunks = enumerate(zip(piece.facts.chunks, piece.entries, strict=True))
    return piece.facts.records, [(chunk.start, filters.get(leaf, 0), entry) for leaf, (chunk, entry) in chunks]


def _filter(piece: _Piece, leaf: int, places: Mapping[int, int]) -> Filter:
    if leaf not in places:
        return Filter(0, 0, 0)
    return Filter(places[leaf], len(piece.filters[leaf]), crc32(piece.filters[leaf]))


def _key_leaves(schema: pa.Schema, key: Sequence[str]) -> list[int]:
    """Return the places of the key's columns among the leaves."""
    paths = _leaf_paths(schema)
    return [paths.index(name) for name in key]


def _chunk(written: memoryview, entry: ChunkEntry, records: int, shift: int) -> ChunkPages:
    """Return a column chunk as it will lie in the file, ``shift`` bytes from where it lies now."""
    start = entry.start
    sizes, counts, sums = [], [], []
    if entry.has_dictionary:
        sizes, counts = [entry.data_at - start], [0]
        sums = [crc32(written[start : entry.data_at])]
    locations = page_locations(bytes(written[entry.index_at : entry.index_at + entry.index_bytes]))
    for place, size, first in locations:
        sizes.append(size)
        counts.append(-first)
        sums.append(crc32(written[place : place + size]))
    for number, (_, _, first) in enumerate(locations[1:], start=len(sizes) - len(locations)):
        counts[number] += first
    counts[-1] += records
    checksum = sums[0]
    for size, following in zip(sizes[1:], sums[1:], strict=True):
        checksum = crc32_combine(checksum, following, size)
    return ChunkPages(start + shift, entry.size_bytes, entry.values, entry.codec, checksum, sizes, counts, sums)


def _encoded(row_groups: Sequence[pa.Table], schema: pa.Schema, key: Sequence[str], sizes: WriteSizes) -> memoryview:
    """Return a Parquet file in memory; the first row group tells how its columns are best written."""
    sample = row_groups[0]
    sink = pa.BufferOutputStream()
    writer = pq.ParquetWriter(
        sink,
        schema,
        compression=_compression(sample, sizes),
        use_dictionary=_repetitive(sample),
        write_statistics=_described(sample, key, sizes),
        bloom_filter_options=_filtered(row_groups, key, sizes),
        data_page_size=sizes.page_bytes,
        write_batch_size=_batch_size(sample, sizes),
        write_page_checksum=True,
        write_page_index=True,  # the only way to learn where pages are; it is not kept
        **_FORM,
    )
    for table in row_groups:
        writer.write_table(table, row_group_size=table.num_rows)
    writer.close()
    return memoryview(sink.getvalue())


def _compression(sample: pa.Table, sizes: WriteSizes) -> dict[str, str]:
    """Return how each leaf is packed: not at all if that saves little, because every reader would unpack it."""
    plain = {
        f.name for f in sample.schema if _is_wide(sample[f.name], sizes) and not _is_smaller_packed(sample[f.name])
    }
    return {leaf: "none" if leaf in plain else "snappy" for leaf in _leaf_paths(sample.schema)}


def _is_wide(column: pa.ChunkedArray, sizes: WriteSizes) -> bool:
    kind = column.type
    return (pa.types.is_string(kind) or pa.types.is_binary(kind)) and column.nbytes > sizes.wide_bytes * len(column)


def _is_smaller_packed(column: pa.ChunkedArray) -> bool:
    """Whether the first values of a column are a tenth smaller when they are packed."""
    count = _SAMPLED_BYTES * len(column) // column.nbytes + 1
    data = b"".join(value for value in column.slice(0, count).cast(pa.binary()).to_pylist() if value is not None)
    return 10 * len(pa.compress(data, codec="snappy", asbytes=True)) < 9 * len(data)


@lru_cache(maxsize=64)
def _empty_file(schema: pa.Schema) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    pq.ParquetWriter(sink, schema, **_FORM).close()
    return sink.getvalue()


@lru_cache(maxsize=64)
def _leaf_paths(schema: pa.Schema) -> tuple[str, ...]:
    """Return the names of the leaves that Parquet makes of columns."""
    leaves = pq.read_metadata(pa.BufferReader(_empty_file(schema))).schema
    return tuple(leaves.column(i).path for i in range(len(leaves)))


@lru_cache(maxsize=64)
def parquet_schema(schema: pa.Schema) -> bytes:
    """Return the schema that data files with these columns have."""
    return read_footer(_footer_in(memoryview(_empty_file(schema)))).schema


def _footer_in(file: memoryview) -> bytes:
    """Return the footer of a Parquet file in memory."""
    return bytes(file[-struct.unpack("<I", file[-8:-4])[0] - 8 :])


def _batch_size(sample: pa.Table, sizes: WriteSizes) -> int:
    """Return after how many values Arrow looks whether a page is full: an eighth of a page of the widest column."""
    widest = max(sample[name].nbytes for name in sample.column_names) // sample.num_rows + 1
    return min(1024, max(1, sizes.page_bytes // 8 // widest))


def _repetitive(sample: pa.Table) -> list[str]:
    """Return the columns that a dictionary makes smaller."""
    plain = [f.name for f in sample.schema if not pa.types.is_nested(f.type) and not pa.types.is_boolean(f.type)]
    return [name for name in plain if pc.count_distinct(sample[name]).as_py() * 2 <= sample.num_rows]


def _described(sample: pa.Table, key: Sequence[str], sizes: WriteSizes) -> list[str]:
    """Return the columns of which row groups keep the least and the greatest value."""
    narrow = [
        f.name
        for f in sample.schema
        if not pa.types.is_nested(f.type) and sample[f.name].nbytes <= sizes.wide_bytes * sample.num_rows
    ]
    return list(dict.fromkeys([*key, *narrow]))


def _filtered(
    row_groups: Sequence[pa.Table], key: Sequence[str], sizes: WriteSizes
) -> dict[str, dict[str, float]] | None:
    """Return the Bloom filters that keep a probe from row groups without its key: one per key column of many values.

    The first row group with many values tells how many: those of long keys, which have few, may come before it.
    """
    found: dict[str, dict[str, float]] = {}
    for name in key:
        if has_plain_bytes(row_groups[0][name].type):
            counts = (pc.count_distinct(table[name]).as_py() for table in row_groups)
            many = next((count for count in counts if count >= sizes.filtered_keys), None)
            found |= {} if many is None else {name: {"ndv": many, "fpp": 0.01}}
    return found or None
