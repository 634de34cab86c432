"""The directory: which blocks it finds, how they are cut into stripes, and what it writes down."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from random import Random

import pytest

from ebb.index.directory import Block, Directory, Filter, stripes
from ebb.index.grid import Cell
from ebb.index.keys import Interval, code, successor
from ebb.index.sidefile import dump_blocks, load_blocks

CELL, OTHER_CELL = Cell(0, 0), Cell(1, 2)
ALL = [Interval(b"", None)]
OPEN = None


def block(path: str, group: int, start: str, stop: str | None, size_bytes: int = 1) -> Block:
    return Block(path, group, start.encode(), None if stop is None else stop.encode(), 1, size_bytes)


def file(path: str, *ends: tuple[str, str | None]) -> list[Block]:
    return [block(path, group, start, stop) for group, (start, stop) in enumerate(ends)]


def directory(*files: Sequence[Block]) -> Directory:
    made = Directory()
    for blocks in files:
        made.add(blocks[0].path, blocks)
    return made


def found(where: Directory, *ends: tuple[str, str | None], paths: Sequence[str] | None = None) -> list[tuple[str, int]]:
    intervals = [Interval(start.encode(), None if stop is None else stop.encode()) for start, stop in ends]
    return [(b.path, b.row_group) for b in where.find(intervals, where.paths() if paths is None else paths)]


@pytest.mark.parametrize(
    ("ends", "asked", "meets"),
    [
        (("b", "d"), ("a", "b"), False),
        (("b", "d"), ("a", "b\x00"), True),
        (("b", "d"), ("c", "c\x00"), True),
        (("b", "d"), ("c\xff", "x"), True),
        (("b", "d"), ("d", "x"), False),
        (("b", "d"), ("", None), True),
        (("b", "d"), ("c", None), True),
        (("b", "d"), ("d", None), False),
        (("b", None), ("a", "b"), False),
        (("b", None), ("x", "y"), True),
        (("b", None), ("x", None), True),
        (("\x00", "\x01"), ("", "\x02"), True),
        (("", None), ("", "\x00"), True),
        (("", None), ("", None), True),
    ],
)  # fmt: skip
def test_a_block_meets_an_interval_that_begins_before_it_ends_and_ends_after_it_begins(
    ends: tuple[str, str | None], asked: tuple[str, str | None], *, meets: bool
) -> None:
    start, stop = asked
    only = block("f", 0, *ends)

    assert only.meets(Interval(start.encode(), None if stop is None else stop.encode())) == meets
    assert found(directory([only]), asked) == [("f", 0)] * meets


def test_an_empty_directory_finds_nothing() -> None:
    empty = Directory()

    assert (len(empty), empty.paths(), "f" in empty) == (0, [], False)
    assert empty.find(ALL, []) == empty.find([Interval.of_key((n,)) for n in range(65)], []) == []


def test_a_directory_knows_its_files_and_their_blocks() -> None:
    one, other = file("one", ("a", "c"), ("c", "e")), file("other", ("b", None))
    both = directory(one, other)

    assert (len(both), both.paths(), "one" in both, "none" in both) == (2, ["one", "other"], True, False)
    assert (both.blocks("one"), both.blocks("other")) == (tuple(one), tuple(other))
    assert both.find(ALL, ["other", "one"]) == [one[0], other[0], one[1]]


RUN = file("run", ("a", "c"), ("c", "f"), ("f", "k"), ("k", "q"), ("q", OPEN))
WIDE = file("wide", ("b", "p"))
EARLY = file("early", ("a", "b"), ("b", "c"))
LATE = file("late", ("x", "y"), ("y", "z"))
# One key in five row groups: only the expiration slot differs, if at all.
LONG = file("long", ("a", "c"), ("g", "g\x01"), ("g", "g\x01"), ("g", "g\x01"), ("g", "g\x02"), ("g", "m"), ("m", "n"))


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ([], []),
        ([("g", "g\x01")], [("run", 2), ("wide", 0), ("long", 1), ("long", 2), ("long", 3), ("long", 4), ("long", 5)]),
        ([("g\x01", "h")], [("run", 2), ("wide", 0), ("long", 4), ("long", 5)]),
        ([("g\x03", "h")], [("run", 2), ("wide", 0), ("long", 5)]),
        ([("", "a")], []),
        ([("a", "a\x00")], [("run", 0), ("early", 0), ("long", 0)]),
        ([("w", "x")], [("run", 4)]),
        ([("z", None)], [("run", 4)]),
        ([("x", None)], [("run", 4), ("late", 0), ("late", 1)]),
        ([("a", "b"), ("b", "b\x00"), ("z", None)], [("run", 0), ("run", 4), ("wide", 0), ("early", 0), ("early", 1), ("long", 0)]),
        ([("e", "e"), ("y", "y")], [("run", 1), ("run", 4), ("wide", 0)]),
    ],
    ids=["nothing", "a long run", "its later part", "its end", "before all", "the least", "in a gap", "after all",
         "open", "several", "empty intervals within blocks"],
)  # fmt: skip
def test_blocks_that_meet_an_interval_are_found_in_all_files(
    asked: list[tuple[str, str | None]], expected: list[tuple[str, int]]
) -> None:
    everything = directory(RUN, WIDE, EARLY, LATE, LONG)

    assert set(found(everything, *asked)) == set(expected)
    assert len(found(everything, *asked)) == len(expected)


def test_a_block_that_meets_several_intervals_is_found_once() -> None:
    assert found(directory(WIDE), ("c", "d"), ("e", "f"), ("g", None)) == [("wide", 0)]


def test_what_is_found_is_in_the_order_of_starts_then_files_then_row_groups() -> None:
    everything = directory(LONG, RUN, file("b", ("g", None)), file("a", ("g", "h"), ("g", "i")))

    assert found(everything, ("f", "m")) == [
        ("run", 2), ("a", 0), ("a", 1), ("b", 0), ("long", 1), ("long", 2), ("long", 3), ("long", 4), ("long", 5), ("run", 3),
    ]  # fmt: skip


def test_blocks_of_every_file_are_found() -> None:
    both = directory(RUN)
    both.add("early", EARLY)

    assert found(both, ("b", "c")) == [("run", 0), ("early", 1)]


def test_only_blocks_of_the_named_files_are_found() -> None:
    everything = directory(RUN, WIDE, EARLY)

    assert found(everything, ("b", "c"), paths=["early", "run"]) == [("run", 0), ("early", 1)]
    assert found(everything, ("b", "c"), paths=[]) == []


MANY = [(chr(n), chr(n) + "\x00") for n in range(0x20, 0x7F)]  # one character each: more than are looked up one by one


@pytest.mark.parametrize("count", [1, 63, 64, 65, 66, 95])
def test_many_intervals_find_what_few_do(count: int) -> None:
    everything = directory(RUN, WIDE, EARLY, LATE, LONG)
    asked = MANY[-count:]
    expected = {hit for one in asked for hit in found(everything, one)}

    assert set(found(everything, *asked)) == expected
    assert len(found(everything, *asked)) == len(expected)


@pytest.mark.parametrize(
    ("ends", "is_found"),
    [
        (("", " "), False),
        (("", " \x00"), True),
        ((" \x00", "!"), False),
        (("a\x00", "b"), False),
        (("a\x00", "b\x00"), True),
        (("~\x00", None), False),
        (("~", None), True),
        (("\x7f", "\x80"), False),
        (("", None), True),
    ],
)
def test_a_block_between_many_intervals_is_not_found(ends: tuple[str, str | None], *, is_found: bool) -> None:
    assert found(directory(file("f", ends)), *MANY) == [("f", 0)] * is_found


def test_the_last_of_many_intervals_may_be_open() -> None:
    many = [*MANY, ("\x7f", None)]

    assert found(directory(file("f", ("\x80", "\x81"))), *many) == [("f", 0)]
    assert found(directory(file("f", ("~\x00", "\x7f"))), *many) == []


@pytest.mark.parametrize("ends", [("b", "p"), ("b", None)])
def test_a_row_group_of_unknown_keys_between_others_is_found(ends: tuple[str, str | None]) -> None:
    """A footer keeps no statistics of texts of several kilobytes: such a row group can be anywhere in its file."""
    unknown = ("", OPEN)
    where = directory(file("f", unknown, ("b", "c"), unknown, unknown, ("x", "z")), file("g", ends))

    assert found(where, ("m", "n"), paths=["f"]) == [("f", 2), ("f", 3)]
    assert found(where, ("a", "b"), paths=["f"]) == [("f", 0)]
    assert found(where, ("b", "c"), paths=["f"]) == [("f", 0), ("f", 1), ("f", 2), ("f", 3)]
    assert found(where, ("y", None), paths=["f"]) == [("f", 2), ("f", 3), ("f", 4)]
    assert found(where, ("z", None), paths=["f"]) == []
    assert found(where, *MANY, paths=["f"]) == [("f", 0), ("f", 1), ("f", 2), ("f", 3), ("f", 4)]
    assert where.blocks("f")[2] == block("f", 2, "b", "z")


@pytest.mark.parametrize("ends", [[("", OPEN), ("x", "z")], [("a", "b"), ("", OPEN), ("x", "z")]])
def test_a_row_group_of_unknown_keys_before_the_last_one_is_found(ends: list[tuple[str, str | None]]) -> None:
    assert found(directory(file("f", *ends)), ("m", "n")) == [("f", len(ends) - 2)]


def test_a_file_of_unknown_keys_may_hold_any() -> None:
    where = directory(file("f", ("", OPEN), ("", OPEN)))

    assert found(where, ("m", "n")) == found(where, ("", "\x00")) == [("f", 0), ("f", 1)]


def test_a_discarded_file_is_found_no_more_and_the_others_stay() -> None:
    everything = directory(RUN, WIDE, LONG)
    everything.discard("long")

    assert (len(everything), everything.paths(), "long" in everything) == (2, ["run", "wide"], False)
    assert found(everything, ("g", "g\x01")) == [("wide", 0), ("run", 2)]
    with pytest.raises(KeyError):
        everything.blocks("long")


def test_discarding_an_unknown_file_changes_nothing() -> None:
    where = directory(RUN)
    where.discard("none")
    Directory().discard("none")

    assert where.find(ALL, ["run"]) == RUN


def test_a_file_that_was_forgotten_can_be_taken_in_again() -> None:
    where = directory(RUN)
    where.discard("run")
    where.discard("run")
    assert "run" not in where
    where.add("run", RUN[:2])

    assert where.find(ALL, ["run"]) == RUN[:2]


def sized(*blocks: tuple[str, int]) -> list[Block]:
    return [block("f", group, start, None, size) for group, (start, size) in enumerate(blocks)]


@pytest.mark.parametrize(
    ("blocks", "first", "most", "expected"),
    [
        ([], 4, 16, []),
        ([("a", 1)], 4, 16, [([0], None)]),
        ([("a", 99)], 4, 16, [([0], None)]),
        ([("a", 1), ("b", 1), ("c", 1)], 4, 16, [([0, 1, 2], None)]),
        ([("a", 4), ("b", 1)], 4, 16, [([0], b"b"), ([1], None)]),
        ([("a", 3), ("b", 1), ("c", 1)], 4, 16, [([0, 1], b"c"), ([2], None)]),
        ([(key, 1) for key in "abcdefghij"], 1, 16, [([0], b"b"), ([1, 2], b"d"), ([3, 4, 5, 6], b"h"), ([7, 8, 9], None)]),
        ([(key, 1) for key in "abcdefgh"], 1, 2, [([0], b"b"), ([1, 2], b"d"), ([3, 4], b"f"), ([5, 6], b"h"), ([7], None)]),
        ([(key, 1) for key in "abcde"], 2, 1, [([0, 1], b"c"), ([2], b"d"), ([3], b"e"), ([4], None)]),
        ([("a", 9), ("a", 9), ("a", 9)], 1, 16, [([0, 1, 2], None)]),
        ([("a", 9), ("a", 9), ("b", 9), ("b", 9), ("c", 9)], 1, 1, [([0, 1], b"b"), ([2, 3], b"c"), ([4], None)]),
        ([("a", 1), ("b", 9), ("b", 9), ("c", 9)], 2, 9, [([0, 1], b"b"), ([2], b"c"), ([3], None)]),
        ([("a", 0), ("b", 0), ("c", 0)], 0, 0, [([0], b"b"), ([1], b"c"), ([2], None)]),
    ],
    ids=["none", "one", "one large", "all at once", "just full", "full with the second", "doubling", "to a limit",
         "a limit below the first", "one start only", "equal starts stay together", "a cut within equal starts",
         "no budget"],
)  # fmt: skip
def test_stripes_are_cut_where_they_are_large_enough_and_a_later_key_follows(
    blocks: list[tuple[str, int]], first: int, most: int, expected: list[tuple[list[int], bytes | None]]
) -> None:
    cut = [([b.row_group for b in part], bound) for part, bound in stripes(sized(*blocks), first, most)]

    assert cut == expected


def test_small_blocks_count_for_the_least_in_a_stripe() -> None:
    blocks = sized(("a", 1), ("b", 0), ("c", 9), ("d", 1))
    cut = [[b.row_group for b in part] for part, _ in stripes(blocks, 8, 8, least_bytes=4)]
    assert cut == [[0, 1], [2], [3]]


NAME, PATH = "part-7.parquet", "u7-ab/0/_g=1/_e=2/part-7.parquet"
PLAIN = (
    Block(PATH, 0, b"", code(("a",)), 1, 1),
    Block(PATH, 1, code(("a",)), code(("a",)) + b"\x00", 2**32 - 1, 2**64 - 1),
    Block(PATH, 2, code(("b", 7)), None, 0, 0),
)
FILTERED = (
    Block(PATH, 0, code((1,)), successor(code((9,))), 10, 4096, (Filter(4, 47, 0xDEADBEEF), Filter(0, 0, 0))),
    Block(PATH, 1, code((9,)), None, 20, 9999, (Filter(2**64 - 1, 2**32 - 1, 2**32 - 1), Filter(51, 1, 1))),
)
KEPT: dict[str, tuple[Block, ...]] = {
    "none": (),
    "one": (Block(PATH, 0, b"k", b"l", 5, 6),),
    "one open": (Block(PATH, 0, b"", None, 5, 6),),
    "an empty stop": (Block(PATH, 0, b"", b"", 5, 6),),
    "several": PLAIN,
    "with filters": FILTERED,
    "long keys": (Block(PATH, 0, b"a" * 70_000, b"b" * 70_000, 5, 6),),
}


@pytest.mark.parametrize("kept", KEPT.values(), ids=KEPT)
def test_what_is_written_down_is_read_back(kept: tuple[Block, ...]) -> None:
    assert load_blocks(NAME, PATH, dump_blocks(NAME, kept)) == kept


def test_blocks_are_written_as_these_bytes() -> None:
    """They are kept on disk: another layout needs another version in the first eight bytes."""
    blocks = (
        Block("p", 0, b"ab", b"c", 3, 4, (Filter(5, 6, 7),)),
        Block("p", 1, b"d", None, 8, 9, (Filter(10, 11, 12),)),
    )
    content = (
        struct.pack("<III", 2, 1, 2) + "é".encode()
        + struct.pack("<II", 3, 8) + struct.pack("<QQ", 4, 9)
        + struct.pack("<QQ", 5, 10) + struct.pack("<II", 6, 11) + struct.pack("<II", 7, 12)
        + struct.pack("<II", 2, 1) + struct.pack("<II", 1, 2**32 - 1)
        + b"ab" b"d" b"c"
    )  # fmt: skip

    assert dump_blocks("é", blocks) == b"EBBKEYS1" + struct.pack("<I", zlib.crc32(content)) + content


def test_blocks_get_the_path_that_they_are_read_for() -> None:
    loaded = load_blocks(NAME, "elsewhere", dump_blocks(NAME, PLAIN))

    assert loaded == tuple(b._replace(path="elsewhere") for b in PLAIN)


def test_blocks_with_different_numbers_of_filters_cannot_be_written() -> None:
    with pytest.raises(ValueError, match=r"shorter|longer"):
        dump_blocks(NAME, [FILTERED[0], PLAIN[1]])


@pytest.mark.parametrize("kept", [KEPT["none"], PLAIN, FILTERED], ids=["none", "several", "with filters"])
def test_no_flipped_byte_goes_unnoticed(kept: tuple[Block, ...]) -> None:
    data = dump_blocks(NAME, kept)
    for place in range(len(data)):
        for flip in (*(1 << bit for bit in range(8)), 0xFF):
            damaged = data[:place] + bytes([data[place] ^ flip]) + data[place + 1 :]

            assert load_blocks(NAME, PATH, damaged) is None, (place, flip)


@pytest.mark.parametrize("kept", [KEPT["none"], PLAIN, FILTERED], ids=["none", "several", "with filters"])
def test_no_missing_or_further_byte_goes_unnoticed(kept: tuple[Block, ...]) -> None:
    data = dump_blocks(NAME, kept)
    cut = [data[:length] for length in range(len(data))] + [data[length:] for length in range(1, len(data))]
    grown = [data + tail for tail in (b"\x00", b"\xff", b"\x00" * 4096, data)] + [b"\x00" + data]

    assert {load_blocks(NAME, PATH, damaged) for damaged in cut + grown} == {None}


@pytest.mark.parametrize(
    "name", ["", "part-8.parquet", "part-7.parque", "part-7.parquet2", "PART-7.parquet", "é", PATH]
)
def test_blocks_of_another_file_are_not_believed(name: str) -> None:
    assert load_blocks(name, PATH, dump_blocks(NAME, PLAIN)) is None
    assert load_blocks(NAME, PATH, dump_blocks(name, PLAIN)) is None


@pytest.mark.parametrize("magic", [b"EBBKEYS0", b"EBBKEYS2", b"PAR1PAR1", b"\x00" * 8])
def test_another_version_is_not_read(magic: bytes) -> None:
    assert load_blocks(NAME, PATH, magic + dump_blocks(NAME, PLAIN)[8:]) is None


def test_random_bytes_are_not_blocks() -> None:
    random = Random(20240301)
    for size in [*range(200), 4096, 100_000]:
        noise = random.randbytes(size)

        assert load_blocks(NAME, PATH, noise) is None
        assert load_blocks(NAME, PATH, b"EBBKEYS1" + noise) is None
        assert load_blocks(NAME, PATH, b"\x00" * size) is None
        assert load_blocks(NAME, PATH, b"EBBKEYS1" + b"\x00" * size) is None
