"""The directory: which blocks it finds, which a merge can take over, and how they are cut into stripes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ebb.index.contents import ChunkPages, Contents, RowGroup, shortened
from ebb.index.directory import Block, FileBlocks, blocks_in, blocks_in_order, copied_blocks, find, only_key, stripes
from ebb.index.keys import Interval, code

ALL = [Interval(b"", None)]
OPEN = None


def block(path: str, group: int, start: str, stop: str | None, size_bytes: int = 1) -> Block:
    return Block(path, group, start.encode(), None if stop is None else stop.encode(), 1, size_bytes)


def file(path: str, *ends: tuple[str, str | None]) -> list[Block]:
    return [block(path, group, start, stop) for group, (start, stop) in enumerate(ends)]


def contents_of(blocks: Sequence[Block]) -> Contents:
    """Return the contents of a file with these row groups."""

    def row_group(one: Block) -> RowGroup:
        chunk = ChunkPages(4, one.size_bytes, one.records, 1, 0, (one.size_bytes,), (one.records,), (0,))
        return RowGroup(
            records=one.records,
            raw_bytes=0,
            interval=Interval(one.start, one.stop),
            slots=(1, 1, 2, 2),
            chunks=[chunk],
            filters=(),
        )

    return Contents(Contents.dump(b"", [row_group(one) for one in blocks]))


def directory(*files: Sequence[Block]) -> list[FileBlocks]:
    return [blocks_in(blocks[0].path, contents_of(blocks)) for blocks in files]


def interval(start: str, stop: str | None) -> Interval:
    return Interval(start.encode(), None if stop is None else stop.encode())


def found(where: Sequence[FileBlocks], *ends: tuple[str, str | None]) -> list[tuple[str, int]]:
    return [(b.path, b.row_group) for b in find(where, [interval(*asked) for asked in ends])]


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
    only = block("f", 0, *ends)

    assert only.meets(interval(*asked)) == meets
    assert found(directory([only]), asked) == [("f", 0)] * meets
    assert found([blocks_in_order([only])], asked) == [("f", 0)] * meets


@pytest.mark.parametrize("asked", [ALL, [Interval.of_key((n,)) for n in range(65)]], ids=["few", "many"])
def test_where_nothing_is_nothing_is_found(asked: list[Interval]) -> None:
    empty = Contents(Contents.dump(b"", []))

    assert find([], asked) == find([blocks_in("f", empty)], asked) == find([blocks_in_order([])], asked) == []


def test_the_contents_of_a_file_are_its_blocks() -> None:
    one = [block("one", 0, "a", "c", 7), block("one", 1, "c", "e", 8), block("one", 2, "e", OPEN, 9)]

    assert find(directory(one), ALL) == one
    assert find([blocks_in_order(reversed(one))], ALL) == one


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


def test_row_groups_in_any_order_are_found() -> None:
    """Another tool need not have sorted its file; a row group of which nothing is known may hold any key."""
    unknown = ("", OPEN)
    where = [blocks_in_order(file("f", ("x", "z"), unknown, ("b", "c"), ("a", "y"), unknown, ("b", "bb")))]

    assert found(where, ("m", "n")) == [("f", 1), ("f", 4), ("f", 3)]
    assert found(where, ("b", "b\x00")) == [("f", 1), ("f", 4), ("f", 3), ("f", 2), ("f", 5)]
    assert found(where, ("y", OPEN)) == [("f", 1), ("f", 4), ("f", 0)]
    assert found(where, *MANY) == [("f", 1), ("f", 4), ("f", 3), ("f", 2), ("f", 5), ("f", 0)]


def test_only_blocks_that_are_met_are_made() -> None:
    """A file may have thousands of row groups, and a probe needs one of them."""
    made: list[int] = []
    inner = blocks_in_order(file("f", *((f"{n:03}", f"{n + 1:03}") for n in range(500))))

    def counted(place: int) -> Block:
        made.append(place)
        return inner.block(place)

    assert [b.row_group for b in inner._replace(block=counted).met(interval("250", "252"))] == [250, 251]
    assert made == [250, 251]


SLOTS = [code((slot,)) for slot in range(10)]  # of expirations
A, B, C = (code((name,)) for name in "abc")


def of_records(first: bytes, last: bytes, path: str = "f", row_group: int = 0) -> Block:
    """Return the block whose first and last record have these codes."""
    return Block(path, row_group, first, last + b"\x00", 1, 1)


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ((A + SLOTS[1], A + SLOTS[9]), A),
        ((A + SLOTS[1], A + SLOTS[1]), A),
        ((A + SLOTS[1], B + SLOTS[1]), None),
        ((code((1, 2, 3)), code((1, 2, 9))), code((1, 2))),
        ((code((1, 2, 3)), code((1, 3, 3))), None),
        ((code(("", 3)), code(("", 4))), code(("",))),
        ((code(("", 3)), code(("\0", 3))), None),
    ],
    ids=["one key", "one record", "two keys", "a key of two parts", "two of them", "the empty text", "a longer one"],
)
def test_the_only_key_of_a_block_is_known_from_its_ends(ends: tuple[bytes, bytes], expected: bytes | None) -> None:
    assert only_key(of_records(*ends)) == expected


@pytest.mark.parametrize("length", [200, 245, 246, 247, 248, 254, 255, 256, 257, 300])
@pytest.mark.parametrize("byte", [b"a", b"\xff", b"\0"])
def test_the_only_key_of_a_block_is_never_a_part_of_it(length: int, byte: bytes) -> None:
    """Long ends are cut, so that the key is not known; never are two keys taken for one."""
    long = byte * length
    one = shortened(Interval(code((long, 1)), code((long, 9)) + b"\0"))
    several = [
        shortened(Interval(code((long[:first], 1)), code((long[:last] + end, 9)) + b"\0"))
        for first in range(length - 14, length + 1)
        for last in range(first, length + 1)
        for end in (b"", b"b")
        if last > first or end
    ]

    assert only_key(Block("f", 0, one.start, one.stop, 1, 1)) in (None, code((long,)))
    assert {only_key(Block("f", 0, found.start, found.stop, 1, 1)) for found in several} == {None}
    assert only_key(Block("f", 0, code((long, 1)), None, 1, 1)) is None


def copied(*blocks: Block) -> list[int]:
    numbered = [block._replace(row_group=number) for number, block in enumerate(blocks)]
    return [block.row_group for block in copied_blocks(numbered, lambda _: True)]


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ([], []),
        ([of_records(A + SLOTS[1], C + SLOTS[1])], [0]),
        ([of_records(A + SLOTS[1], B + SLOTS[1]), of_records(B + SLOTS[2], C + SLOTS[1])], [0, 1]),
        ([of_records(A + SLOTS[1], B + SLOTS[2]), of_records(B + SLOTS[1], C + SLOTS[1])], []),
        ([of_records(A + SLOTS[1], C + SLOTS[2]), of_records(B + SLOTS[1], B + SLOTS[9])], [1]),
        ([of_records(A + SLOTS[1], C + SLOTS[2]), of_records(B + SLOTS[1], C + SLOTS[1]), of_records(C + SLOTS[1], C + SLOTS[9])], [2]),
        ([of_records(A + SLOTS[1], A + SLOTS[9]), of_records(A + SLOTS[1], A + SLOTS[9]), of_records(A + SLOTS[3], B + SLOTS[1])], [0, 1]),
        ([of_records(A + SLOTS[1], C + SLOTS[1]), of_records(A + SLOTS[2], B + SLOTS[1]), of_records(B + SLOTS[5], C + SLOTS[0])], []),
        ([Block("f", 0, b"", None, 1, 1)], [0]),
        ([Block("f", 0, b"", None, 1, 1), of_records(B + SLOTS[5], C + SLOTS[0])], []),
        ([of_records(A + SLOTS[1], B + SLOTS[1]), Block("f", 0, C, None, 1, 1)], [0, 1]),
    ],
    ids=["none", "one", "side by side", "overlapping", "one key within another block", "one key at its end",
         "one key twice and before others", "within one that reaches far", "unknown keys alone",
         "unknown keys before others", "an open one at the end"],
)  # fmt: skip
def test_a_block_that_meets_no_other_or_has_one_key_is_taken_over(blocks: list[Block], expected: list[int]) -> None:
    assert copied(*blocks) == expected


def test_a_block_that_must_not_be_copied_is_not_but_keeps_others_from_it() -> None:
    first, second = of_records(A + SLOTS[1], C + SLOTS[1], "f"), of_records(B + SLOTS[1], C + SLOTS[2], "g")

    assert copied_blocks([first, second], lambda block: block.path == "g") == []
    assert copied_blocks([first], lambda block: block.path == "g") == []


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
