"""What is in a data file: written as these bytes, read back as it was, and believed only if it is sound."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from random import Random

import pytest

from ebb.index.contents import ChunkPages, Contents, Filter, RowGroup, dump_side_file, load_side_file, shortened
from ebb.index.keys import Interval, successor

NAME = "part-7.parquet"
SCHEMA = b"schema"


def row_group(
    chunks: Sequence[ChunkPages],
    *,
    records: int = 5,
    interval: Interval | None = None,
    slots: tuple[int, int, int, int] = (1, 2, 3, 4),
    filters: Sequence[Filter] = (),
) -> RowGroup:
    return RowGroup(
        records=records,
        raw_bytes=1000 * records,
        interval=Interval(b"a", b"b") if interval is None else interval,
        slots=slots,
        chunks=chunks,
        filters=filters,
    )


ONE_PAGE = ChunkPages(4, 10, 5, 1, 111, (10,), (5,), (111,))
WITH_DICTIONARY = ChunkPages(14, 60, 5, 0, 222, (20, 30, 10), (0, 3, 2), (1, 2, 3))
PLAIN = [
    row_group([ONE_PAGE, WITH_DICTIONARY], filters=[Filter(500, 47, 9), Filter(0, 0, 0)]),
    row_group(
        [ONE_PAGE._replace(start=2**40), WITH_DICTIONARY._replace(start=2**41)],
        records=2**32 - 1,
        interval=Interval(b"b", None),
        slots=(-(2**63), 2**63 - 1, 0, 7),
        filters=[Filter(547, 32, 8), Filter(579, 3, 7)],
    ),
]
FILTERS = [b"f" * 47, b"g" * 32, b"hhh"]  # those of PLAIN: of the first key column, then of the second
BLOCK = Contents.dump(SCHEMA, PLAIN)
SIDE = dump_side_file(NAME, BLOCK, FILTERS)


def test_contents_are_what_was_put_into_the_file() -> None:
    found = Contents(BLOCK)

    assert (found.row_groups, found.leaves, found.key_columns, found.schema) == (2, 2, 2, SCHEMA)
    assert list(found.records) == [5, 2**32 - 1]
    assert list(found.raw_bytes) == [5000, 1000 * (2**32 - 1)]
    assert (list(found.min_ins), list(found.max_ins)) == ([1, -(2**63)], [2, 2**63 - 1])
    assert (list(found.min_exp), list(found.max_exp)) == ([3, 0], [4, 7])
    assert list(found.chunk_starts) == [4, 14, 2**40, 2**41]
    assert list(found.chunk_bytes) == [10, 60, 10, 60]
    assert list(found.chunk_values) == [5, 5, 5, 5]
    assert list(found.chunk_codecs) == [1, 0, 1, 0]
    assert list(found.chunk_sums) == [111, 222, 111, 222]
    assert [found.pages(group, leaf) for group in (0, 1) for leaf in (0, 1)] == [
        range(1), range(1, 4), range(4, 5), range(5, 8),
    ]  # fmt: skip
    assert list(found.page_bytes) == [10, 20, 30, 10] * 2
    assert list(found.page_records) == [5, 0, 3, 2] * 2
    assert list(found.page_sums) == [111, 1, 2, 3] * 2
    assert [found.row_group_bytes(group) for group in (0, 1)] == [70, 70]
    assert [found.row_group(group).interval for group in (0, 1)] == [Interval(b"a", b"b"), Interval(b"b", None)]
    assert [found.filter(column, 0) for column in (0, 1)] == [Filter(500, 47, 9), Filter(0, 0, 0)]
    assert [found.filter(column, 1) for column in (0, 1)] == [Filter(547, 32, 8), Filter(579, 3, 7)]
    assert not found.has_bits


def test_a_side_file_has_the_filters_too() -> None:
    found = load_side_file(NAME, SIDE)

    assert found is not None
    assert bytes(found.block) == BLOCK
    assert found.has_bits
    assert [bytes(found.filter_bits(0, group)) for group in (0, 1)] == [b"f" * 47, b"g" * 32]
    assert [bytes(found.filter_bits(1, group)) for group in (0, 1)] == [b"", b"hhh"]


def test_a_file_without_row_groups_has_contents() -> None:
    found = Contents(Contents.dump(SCHEMA, []))

    assert (found.row_groups, found.leaves, found.key_columns, found.schema) == (0, 0, 0, SCHEMA)
    assert (list(found.records), found.starts, found.stops) == ([], [], [])
    loaded = load_side_file(NAME, dump_side_file(NAME, found.block, []))
    assert loaded is not None
    assert loaded.row_groups == 0


def test_contents_are_written_as_these_bytes() -> None:
    """They are kept on disk: another layout needs another version in the first eight bytes of side files."""
    groups = [
        row_group([ONE_PAGE, WITH_DICTIONARY], interval=Interval(b"ab", b"c"), filters=[Filter(100, 6, 7)]),
        row_group(
            [ONE_PAGE, ONE_PAGE], records=6, interval=Interval(b"d", None), slots=(-1, 0, 8, 9), filters=[Filter(106, 2, 3)]
        ),
    ]  # fmt: skip
    block = (
        struct.pack("<5I", 2, 2, 1, 6, 3) + b"SSS"
        + struct.pack("<2I", 5, 6)  # records
        + struct.pack("<2Q", 5000, 6000)  # bytes when unpacked
        + struct.pack("<8q", 1, -1, 2, 0, 3, 8, 4, 9)  # least and greatest insertion, least and greatest expiration
        + struct.pack("<4Q", 4, 14, 4, 4)  # of each chunk its start,
        + struct.pack("<4I", 10, 60, 10, 10) + struct.pack("<4I", 5, 5, 5, 5)  # bytes, values,
        + struct.pack("<4I", 111, 222, 111, 111) + struct.pack("<4I", 1, 4, 5, 6)  # checksum, pages up to its end
        + struct.pack("<6I", 10, 20, 30, 10, 10, 10) + struct.pack("<6I", 5, 0, 3, 2, 5, 5)  # of each page: bytes, records,
        + struct.pack("<6I", 111, 1, 2, 3, 111, 111)  # checksum
        + struct.pack("<2Q", 100, 106) + struct.pack("<2I", 6, 2) + struct.pack("<2I", 7, 3)  # of each filter
        + struct.pack("<2I", 2, 3) + struct.pack("<2I", 1, 1)  # where each start and each stop ends
        + struct.pack("<4B", 1, 0, 1, 1)  # codecs
        + b"ab" b"d" b"c"
    )  # fmt: skip
    body = struct.pack("<II", 2, len(block)) + "é".encode() + block + b"filterBB"

    assert Contents.dump(b"SSS", groups) == block
    side = dump_side_file("é", block, [b"filter", b"BB"])
    assert side == b"EBBKEYS2" + struct.pack("<I", zlib.crc32(body)) + body


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (Interval(b"", None), Interval(b"", None)),
        (Interval(b"a" * 256, b"b" * 256), Interval(b"a" * 256, b"b" * 256)),
        (Interval(b"a" * 257, b"b" * 257), Interval(b"a" * 256, b"b" * 255 + b"c")),
        (Interval(b"", b"\xff" * 257), Interval(b"", None)),
        (Interval(b"", b"b" + b"\xff" * 300), Interval(b"", b"c")),
    ],
    ids=["open", "just short enough", "too long", "without an end", "an end that becomes short"],
)
def test_long_ends_are_cut_so_that_an_interval_holds_more(given: Interval, kept: Interval) -> None:
    found = Contents(Contents.dump(SCHEMA, [row_group([ONE_PAGE], interval=given)]))

    assert shortened(given) == kept
    assert found.row_group(0).interval == kept


def test_row_groups_with_different_numbers_of_filters_cannot_be_written() -> None:
    with pytest.raises(ValueError, match=r"shorter|longer"):
        Contents.dump(SCHEMA, [PLAIN[0], row_group([ONE_PAGE, ONE_PAGE])])


@pytest.mark.parametrize("size", [-1, 2**32])
def test_a_number_that_has_no_room_is_never_cut(size: int) -> None:
    with pytest.raises(struct.error):
        Contents.dump(SCHEMA, [row_group([ONE_PAGE._replace(size_bytes=size)])])


def test_no_flipped_byte_goes_unnoticed() -> None:
    for place in range(len(SIDE)):
        for flip in (*(1 << bit for bit in range(8)), 0xFF):
            damaged = SIDE[:place] + bytes([SIDE[place] ^ flip]) + SIDE[place + 1 :]

            assert load_side_file(NAME, damaged) is None, (place, flip)


def test_no_missing_or_further_byte_goes_unnoticed() -> None:
    cut = [SIDE[:length] for length in range(len(SIDE))] + [SIDE[length:] for length in range(1, len(SIDE))]
    grown = [SIDE + tail for tail in (b"\x00", b"\xff", b"\x00" * 4096, SIDE)] + [b"\x00" + SIDE]

    assert {load_side_file(NAME, damaged) for damaged in cut + grown} == {None}


@pytest.mark.parametrize(
    "name", ["", "part-8.parquet", "part-7.parque", "part-7.parquet2", "PART-7.parquet", "é", f"u7-ab/{NAME}"]
)
def test_the_contents_of_another_file_are_not_believed(name: str) -> None:
    assert load_side_file(name, SIDE) is None
    assert load_side_file(NAME, dump_side_file(name, BLOCK, FILTERS)) is None


@pytest.mark.parametrize("magic", [b"EBBKEYS0", b"EBBKEYS1", b"EBBKEYS3", b"PAR1PAR1", b"\x00" * 8])
def test_another_version_is_not_read(magic: bytes) -> None:
    assert load_side_file(NAME, magic + SIDE[8:]) is None


def test_random_bytes_are_no_contents() -> None:
    random = Random(20240301)
    for size in [*range(200), 4096, 100_000]:
        noise = random.randbytes(size)

        assert load_side_file(NAME, noise) is None
        assert load_side_file(NAME, b"EBBKEYS2" + noise) is None
        assert load_side_file(NAME, b"\x00" * size) is None
        assert load_side_file(NAME, b"EBBKEYS2" + b"\x00" * size) is None


def sealed(block: bytes) -> bytes:
    """Return a side file whose checksum is right, whatever is in it."""
    return dump_side_file(NAME, block, [])


def test_a_block_of_another_length_is_refused_even_if_its_checksum_is_right() -> None:
    """By whatever wrote it: a checksum tells that it was written so, not that it makes sense."""
    for length in range(len(BLOCK)):
        assert load_side_file(NAME, sealed(BLOCK[:length])) is None, length
        with pytest.raises((ValueError, struct.error)):
            Contents(BLOCK[:length])
    for more in (b"\x00", b"\x00" * 8, BLOCK):
        assert load_side_file(NAME, sealed(BLOCK + more)) is None
    for place in range(20):  # counts that are others
        for flip in (1, 0x80, 0xFF):
            damaged = BLOCK[:place] + bytes([BLOCK[place] ^ flip]) + BLOCK[place + 1 :]
            assert load_side_file(NAME, sealed(damaged)) is None, (place, flip)


def test_a_name_or_block_that_is_said_to_be_longer_than_the_file_is_refused() -> None:
    for place in (12, 16):
        body = bytearray(SIDE[12:])
        struct.pack_into("<I", body, place - 12, 2**32 - 1)
        assert load_side_file(NAME, SIDE[:8] + struct.pack("<I", zlib.crc32(body)) + body) is None


def test_another_checksum_of_the_same_kind_may_be_used() -> None:
    asked: list[int] = []

    def counted(data: memoryview) -> int:
        asked.append(len(data))
        return zlib.crc32(data)

    assert load_side_file(NAME, SIDE, counted) is not None
    assert asked == [len(SIDE) - 12]
    assert load_side_file(NAME, SIDE, lambda _: 0) is None


def test_a_stop_at_the_end_of_all_codes_is_open() -> None:
    assert successor(b"\xff" * 256) is None
    found = Contents(Contents.dump(SCHEMA, [row_group([ONE_PAGE], interval=Interval(b"\xff" * 999, b"\xff" * 999))]))
    assert found.row_group(0).interval == Interval(b"\xff" * 256, None)


def test_no_number_in_a_block_makes_it_take_more_than_it_has() -> None:
    """Ends that go back and forth made each text as long as the block."""
    read = 0
    for place in range(len(BLOCK) - 3):
        for number in (0, 1, 2**31, 2**32 - 1):
            other = BLOCK[:place] + number.to_bytes(4, "little") + BLOCK[place + 4 :]
            try:
                found = Contents(other)
            except (ValueError, struct.error):
                continue
            read += 1
            assert sum(map(len, [*found.starts, *found.stops, found.schema])) <= len(other)
    assert read
    ends = BLOCK.index(struct.pack("<4I", 1, 2, 1, 1))  # those of the starts, then those of the stops
    backwards = BLOCK[:ends] + struct.pack("<4I", 2, 1, 1, 1) + BLOCK[ends + 16 :]
    with pytest.raises(ValueError, match="another length"):
        Contents(backwards)


def test_filters_are_in_their_file_and_those_that_are_known_are_all_there() -> None:
    known = load_side_file(NAME, SIDE)
    assert known is not None

    assert Contents(BLOCK).has_filters_in(582)
    assert not Contents(BLOCK).has_filters_in(581)
    assert known.has_filters_in(582)
    short = load_side_file(NAME, dump_side_file(NAME, BLOCK, FILTERS[:2]))
    assert short is not None
    assert not short.has_filters_in(582)
