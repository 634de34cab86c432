"""Laws of the directory: it finds what a filter over all blocks would, merges lose nothing, stripes leave nothing behind."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from ebb.index.contents import ChunkPages, Contents, RowGroup
from ebb.index.directory import Block, FileBlocks, blocks_in, blocks_in_order, copied_blocks, find, only_key, stripes
from ebb.index.keys import Interval, code, successor

laws = settings(deadline=None, max_examples=120)

KEYS = 160  # keys are the numbers below
ALL = [Interval(b"", None)]


@dataclass(frozen=True)
class File:
    """A sorted file: its blocks and, of each, the codes of its records."""

    path: str
    blocks: list[Block]
    codes: list[list[bytes]]


def ends(codes: Sequence[bytes], *, is_exact: bool) -> Interval:
    """Return what is known of a block from its records, or from statistics of the first part of their keys."""
    return Interval(codes[0], codes[-1] + b"\x00") if is_exact else Interval(codes[0][:8], successor(codes[-1][:8]))


# Many records of few keys, so that the runs of some keys are cut over several blocks and begin and end alike.
keys = st.sampled_from([0, 40, 41, 42, 159]) | st.integers(0, KEYS - 1)
records = st.lists(st.tuples(keys, st.integers(0, 2)), min_size=1, max_size=16).map(sorted)


@st.composite
def tables(draw: st.DrawFn) -> list[File]:
    """Draw up to six files."""
    drawn = st.tuples(records, st.integers(1, 4), st.booleans(), st.booleans(), st.integers(0, 9))
    files = []
    for number, (found, per_block, is_exact, is_open, size) in enumerate(draw(st.lists(drawn, max_size=6))):
        path = f"f{number}"
        codes = [[code(record) for record in found[at : at + per_block]] for at in range(0, len(found), per_block)]
        known = [ends(group, is_exact=is_exact) for group in codes]
        blocks = [
            Block(path, group, known[group].start, known[group].stop, len(held), (size * (group + 1)) % 10)
            for group, held in enumerate(codes)
        ]
        if is_open:
            blocks[-1] = blocks[-1]._replace(stop=None)
        files.append(File(path, blocks, codes))
    return files


@st.composite
def few_intervals(draw: st.DrawFn) -> list[Interval]:
    """Draw sorted intervals that do not overlap; some touch, the first may begin and the last may end openly."""
    edge = st.tuples(keys, st.integers(0, 2), st.sampled_from([b"", b"\x00"])).map(lambda e: code(e[:2]) + e[2])
    edges: list[bytes | None] = [*sorted(draw(st.sets(edge | keys.map(lambda key: code((key,))), max_size=8)))]
    edges = [b"", *edges] if draw(st.booleans()) else edges
    edges = [*edges, None] if draw(st.booleans()) else edges
    kept = draw(st.lists(st.booleans(), min_size=len(edges), max_size=len(edges)))
    pairs = zip(itertools.pairwise(edges), kept, strict=False)
    return [Interval(start, stop) for (start, stop), is_kept in pairs if is_kept and start is not None]


@st.composite
def many_intervals(draw: st.DrawFn) -> list[Interval]:
    """Draw more intervals than are looked up one by one: of all keys but some, or of some of their expiration slots."""
    low = draw(st.integers(0, KEYS - 70))
    left_out = set(range(low, low + draw(st.integers(0, 60)))) | draw(st.sets(keys, max_size=20))
    parts: list[tuple[int, ...]] = draw(st.sampled_from([[()], [(1,)], [(0,), (2,)]]))
    found = [Interval.of_key((key, *part)) for key in range(KEYS) if key not in left_out for part in parts]
    assert len(found) > 64
    return found


intervals = few_intervals() | many_intervals()


def contents_of(blocks: Sequence[Block]) -> Contents:
    """Return the contents of a file with these row groups."""

    def row_group(block: Block) -> RowGroup:
        chunk = ChunkPages(4, block.size_bytes, block.records, 1, 0, (block.size_bytes,), (block.records,), (0,))
        return RowGroup(
            records=block.records, raw_bytes=0, interval=Interval(block.start, block.stop), slots=(1, 1, 2, 2),
            chunks=[chunk], filters=(),
        )  # fmt: skip

    return Contents(Contents.dump(b"", [row_group(block) for block in blocks]))


def directory_of(files: Sequence[File]) -> list[FileBlocks]:
    return [blocks_in(file.path, contents_of(file.blocks)) for file in files]


def in_order(blocks: Collection[Block]) -> list[Block]:
    return sorted(blocks, key=lambda block: (block.start, block.path, block.row_group))


def meeting(files: Sequence[File], asked: Sequence[Interval]) -> list[Block]:
    """Return the blocks that a filter over all of them lets through."""
    blocks = [block for file in files for block in file.blocks]
    return in_order([block for block in blocks if any(block.meets(interval) for interval in asked)])


def holding(files: Sequence[File], asked: Sequence[Interval]) -> set[tuple[str, int]]:
    """Return the row groups that have a record in one of the intervals."""
    return {
        (file.path, group)
        for file in files
        for group, codes in enumerate(file.codes)
        if any(interval.holds(found) for found in codes for interval in asked)
    }


def groups(blocks: Sequence[Block]) -> list[tuple[str, int]]:
    return [(block.path, block.row_group) for block in blocks]


@laws
@given(tables(), intervals, st.sets(st.integers(0, 5)))
def test_a_directory_finds_what_a_filter_over_all_blocks_would(
    files: list[File], asked: list[Interval], left_out: set[int]
) -> None:
    """Also where blocks of one file overlap within a key, and where their intervals hold more than their records."""
    named = [file for number, file in enumerate(files) if number not in left_out]

    assert find(directory_of(files), asked) == meeting(files, asked)
    assert find(directory_of(named), asked) == meeting(named, asked)


@laws
@given(tables(), intervals, st.randoms(use_true_random=False))
def test_blocks_in_any_order_are_found_as_those_in_order(
    files: list[File], asked: list[Interval], random: random.Random
) -> None:
    shuffled = [blocks_in_order(random.sample(file.blocks, len(file.blocks))) for file in files]

    assert find(shuffled, asked) == meeting(files, asked)


@laws
@given(tables(), intervals)
def test_no_record_that_is_asked_for_lies_outside_the_blocks_found(files: list[File], asked: list[Interval]) -> None:
    assert holding(files, asked) <= set(groups(find(directory_of(files), asked)))


def blurred(block: Block, known: str) -> Block:
    """Return a block of which only so much is known: all, the first part of its keys, or nothing."""
    if known == "all":
        return block
    is_open = known == "nothing" or block.stop is None
    stop = None if is_open else successor((block.stop or b"")[:8])
    return block._replace(start=b"" if known == "nothing" else block.start[:8], stop=stop)


@laws
@given(tables(), intervals, st.lists(st.sampled_from(["all", "first part", "nothing"]), min_size=16, max_size=16))
def test_blocks_of_which_more_or_less_is_known_lose_no_record(
    files: list[File], asked: list[Interval], known: list[str]
) -> None:
    told = [replace(file, blocks=[*map(blurred, file.blocks, known)]) for file in files]
    found = find([blocks_in_order(file.blocks) for file in told], asked)

    assert found == meeting(told, asked)
    assert holding(told, asked) <= set(groups(found))


def key_of(record: bytes) -> bytes:
    return record[:-8]


@laws
@given(tables())
def test_the_only_key_of_a_block_is_that_of_all_its_records(files: list[File]) -> None:
    for file in files:
        for block, codes in zip(file.blocks, file.codes, strict=True):
            if block.stop is not None and block.stop == codes[-1] + b"\x00":  # as our files have it
                found = {key_of(record) for record in codes}
                assert only_key(block) == (found.pop() if len(found) == 1 else None)


def merged_with_copies(
    blocks: Sequence[Block], taken: Sequence[Block], records: dict[Block, list[bytes]]
) -> list[bytes]:
    """Merge as a merge does: the records of what is not copied in order, and among them what is, each where it belongs.

    Before the first record that is not before it; if it has one key, after all records of that key.
    """
    rest = sorted(record for block in blocks if block not in taken for record in records[block])
    merged: list[bytes] = []
    for block in taken:
        only = only_key(block)
        bound = block.start if only is None else successor(only)
        while rest and (bound is None or rest[0] < bound):
            merged.append(rest.pop(0))
        merged += records[block]
    return merged + rest


@laws
@given(tables(), st.sets(st.tuples(st.integers(0, 5), st.integers(0, 15)), max_size=12))
def test_a_merge_that_copies_blocks_keeps_keys_in_order_and_loses_nothing(
    files: list[File], refused: set[tuple[int, int]]
) -> None:
    """The naive truth is that all records are sorted by key.  Another tool's files are read, never copied."""
    blocks = find(directory_of(files), ALL)
    records = {block: codes for file in files for block, codes in zip(file.blocks, file.codes, strict=True)}
    left_out = {(f"f{number}", group) for number, group in refused}
    left_out |= {(block.path, block.row_group) for block, codes in records.items() if block.start != codes[0]}

    taken = copied_blocks(blocks, lambda block: (block.path, block.row_group) not in left_out)

    assert taken == [block for block in blocks if block in set(taken)], "in their order"
    assert not left_out & set(groups(taken))
    everything = [record for codes in records.values() for record in codes]
    merged = merged_with_copies(blocks, taken, records)
    assert Counter(merged) == Counter(everything)
    assert [key_of(record) for record in merged] == sorted(key_of(record) for record in everything)


@laws
@given(tables())
def test_every_block_that_can_be_copied_without_a_loss_of_order_is(files: list[File]) -> None:
    """One that meets no other, and one that has one key."""
    blocks = find(directory_of(files), ALL)
    taken = copied_blocks(blocks, lambda _: True)
    for number, block in enumerate(blocks):
        others = blocks[:number] + blocks[number + 1 :]
        is_apart = not any(other.meets(Interval(block.start, block.stop)) for other in others)
        assert (block in taken) == (is_apart or only_key(block) is not None)


sizes = st.integers(0, 40)


@laws
@given(tables(), sizes, sizes)
def test_every_record_before_the_bound_of_a_stripe_has_been_read_by_then(
    files: list[File], first_bytes: int, most_bytes: int
) -> None:
    blocks = find(directory_of(files), ALL)
    cut = list(stripes(blocks, first_bytes, most_bytes))
    codes = {(file.path, group): held for file in files for group, held in enumerate(file.codes)}

    assert [block for part, _ in cut for block in part] == blocks
    assert [bound for _, bound in cut[-1:]] == [None] * bool(blocks)
    for number, (part, bound) in enumerate(cut[:-1], 1):
        assert bound is not None
        assert part[0].start < bound, "a stripe that gets nowhere"
        later = groups([block for following, _ in cut[number:] for block in following])
        assert all(found >= bound for place in later for found in codes[place])


@laws
@given(tables(), sizes, sizes)
def test_a_stripe_is_as_large_as_asked_for_and_no_larger_than_keys_make_it(
    files: list[File], first_bytes: int, most_bytes: int
) -> None:
    blocks = find(directory_of(files), ALL)
    budget = first_bytes
    for part, bound in stripes(blocks, first_bytes, most_bytes):
        for size, block in enumerate(part[1:], 1):
            assert sum(b.size_bytes for b in part[:size]) < budget or block.start == part[0].start, "cut too late"
        assert bound is None or sum(block.size_bytes for block in part) >= budget, "cut too early"
        budget = min(2 * budget, most_bytes)
