"""Laws of the directory: it finds what a filter over all blocks would, and stripes leave nothing behind."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ebb.index.directory import Block, Directory, Filter, stripes
from ebb.index.keys import Interval, code, successor
from ebb.index.sidefile import dump_blocks, load_blocks

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


def directory_of(files: Sequence[File]) -> Directory:
    made = Directory()
    for file in files:
        made.add(file.path, file.blocks)
    return made


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
    directory = directory_of(files)
    named = [file for number, file in enumerate(files) if number not in left_out]

    assert directory.find(asked, {file.path for file in files}) == meeting(files, asked)
    assert directory.find(asked, {file.path for file in named}) == meeting(named, asked)


@laws
@given(tables(), intervals)
def test_no_record_that_is_asked_for_lies_outside_the_blocks_found(files: list[File], asked: list[Interval]) -> None:
    found = directory_of(files).find(asked, {file.path for file in files})

    assert holding(files, asked) <= set(groups(found))


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
    directory = directory_of(told)
    found = groups(directory.find(asked, {file.path for file in told}))

    assert holding(told, asked) <= set(found) <= set(groups(meeting(told, asked)))
    assert len(found) == len(set(found))
    for file in told:
        for block, codes in zip(directory.blocks(file.path), file.codes, strict=True):
            assert all(Interval(block.start, block.stop).holds(code) for code in codes)


@laws
@given(tables(), st.lists(st.integers(0, 5), max_size=16), intervals)
def test_after_any_files_have_come_and_gone_only_the_present_ones_are_found(
    files: list[File], turns: list[int], asked: list[Interval]
) -> None:
    directory, present = Directory(), dict[str, File]()
    for turn in turns:
        if turn >= len(files):
            directory.discard(f"f{turn}")  # never there
        elif files[turn].path in present:
            directory.discard(files[turn].path)
            del present[files[turn].path]
        else:
            directory.add(files[turn].path, files[turn].blocks)
            present[files[turn].path] = files[turn]

        there = list(present.values())
        assert directory.paths() == list(present)
        assert len(directory) == len(present)
        assert [path in directory for path in ("f0", "f1")] == [path in present for path in ("f0", "f1")]
        assert [directory.blocks(path) for path in present] == [tuple(file.blocks) for file in there]
        assert directory.find(ALL, present.keys()) == meeting(there, ALL)
        assert directory.find(asked, present.keys()) == meeting(there, asked)


sizes = st.integers(0, 40)


@laws
@given(tables(), sizes, sizes)
def test_every_record_before_the_bound_of_a_stripe_has_been_read_by_then(
    files: list[File], first_bytes: int, most_bytes: int
) -> None:
    blocks = directory_of(files).find(ALL, {file.path for file in files})
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
    blocks = directory_of(files).find(ALL, {file.path for file in files})
    budget = first_bytes
    for part, bound in stripes(blocks, first_bytes, most_bytes):
        for size, block in enumerate(part[1:], 1):
            assert sum(b.size_bytes for b in part[:size]) < budget or block.start == part[0].start, "cut too late"
        assert bound is None or sum(block.size_bytes for block in part) >= budget, "cut too early"
        budget = min(2 * budget, most_bytes)


u32, u64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)


@st.composite
def kept_blocks(draw: st.DrawFn) -> list[Block]:
    columns = draw(st.integers(0, 3))
    filters = st.tuples(*[st.builds(Filter, u64, u32, u32)] * columns)
    facts = st.tuples(st.binary(max_size=9), st.none() | st.binary(max_size=9), u32, u64, filters)
    return [Block("path", group, *drawn) for group, drawn in enumerate(draw(st.lists(facts, max_size=5)))]


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@laws
@given(kept_blocks(), names, names)
def test_what_is_written_down_is_read_back_for_the_same_file_only(blocks: list[Block], name: str, other: str) -> None:
    data = dump_blocks(name, blocks)

    assert load_blocks(name, "path", data) == tuple(blocks)
    assert (load_blocks(other, "path", data) is None) == (name != other)


edits = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 12), st.binary(max_size=12)), min_size=1, max_size=3)


@laws
@given(kept_blocks(), edits)
def test_whatever_is_overwritten_cut_out_or_put_in_goes_not_unnoticed(
    blocks: list[Block], changes: list[tuple[int, int, bytes]]
) -> None:
    data = dump_blocks("name", blocks)
    damaged = data
    for at, removed, added in changes:
        place = at % (len(damaged) + 1)
        damaged = damaged[:place] + added + damaged[place + removed :]
    assume(damaged != data)

    assert load_blocks("name", "path", damaged) is None
