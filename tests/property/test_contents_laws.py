"""Laws of contents: whatever is put into a file is read back, and no damage of a side file is believed."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ebb.index.contents import ChunkPages, Contents, Filter, RowGroup, dump_side_file, load_side_file, shortened
from ebb.index.keys import Interval

laws = settings(deadline=None, max_examples=120)

u32, u64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
slot = st.integers(-(2**63), 2**63 - 1)
ends = st.binary(max_size=9) | st.binary(max_size=3).map(lambda end: end * 200)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@st.composite
def chunks(draw: st.DrawFn) -> ChunkPages:
    """Draw a chunk with or without a dictionary."""
    pages = draw(st.lists(st.tuples(u32, st.integers(1, 2**32 - 1), u32), min_size=1, max_size=4))
    if draw(st.booleans()):
        pages.insert(0, (draw(u32), 0, draw(u32)))
    sizes, counts, sums = zip(*pages, strict=True)
    return ChunkPages(draw(u64), draw(u32), draw(u32), draw(st.integers(0, 255)), draw(u32), sizes, counts, sums)


@st.composite
def files(draw: st.DrawFn) -> tuple[bytes, list[RowGroup], list[bytes]]:
    """Draw a schema, row groups and the Bloom filters of those that have some, which lie one after the other."""
    count, leaves, keys = draw(st.integers(0, 4)), draw(st.integers(1, 3)), draw(st.integers(0, 2))
    at, bits = draw(st.integers(1, 2**40)), list[bytes]()
    places: list[list[Filter]] = [[] for _ in range(count)]
    for _, number in itertools.product(range(keys), range(count)):
        found = draw(st.binary(max_size=5))
        places[number].append(Filter(at, len(found), draw(u32)) if found else Filter(0, 0, 0))
        bits.append(found)
        at += len(found)
    groups = [
        RowGroup(
            records=draw(u32),
            raw_bytes=draw(u64),
            interval=Interval(draw(ends), draw(st.none() | ends.filter(bool))),
            slots=draw(st.tuples(slot, slot, slot, slot)),
            chunks=draw(st.lists(chunks(), min_size=leaves, max_size=leaves)),
            filters=places[number],
        )
        for number in range(count)
    ]
    return draw(st.binary(max_size=9)), groups, bits


def row_groups_in(contents: Contents) -> list[RowGroup]:
    return [contents.row_group(number) for number in range(contents.row_groups)]


def told(groups: Sequence[RowGroup]) -> list[RowGroup]:
    """Return row groups as contents keep them: long ends are cut."""
    return [
        RowGroup(
            records=group.records,
            raw_bytes=group.raw_bytes,
            interval=shortened(group.interval),
            slots=group.slots,
            chunks=list(group.chunks),
            filters=list(group.filters),
        )
        for group in groups
    ]


@laws
@given(files(), names, names)
def test_what_is_put_into_a_file_is_read_back_for_that_file_only(
    file: tuple[bytes, list[RowGroup], list[bytes]], name: str, other: str
) -> None:
    schema, groups, bits = file
    block = Contents.dump(schema, groups)
    side = dump_side_file(name, block, bits)

    found, beside = Contents(block), load_side_file(name, side)

    assert beside is not None
    assert found.schema == beside.schema == schema
    assert row_groups_in(found) == row_groups_in(beside) == told(groups)
    keys = itertools.product(range(beside.key_columns), range(beside.row_groups))
    assert [bytes(beside.filter_bits(*place)) for place in keys] == bits
    assert (load_side_file(other, side) is None) == (name != other)


@laws
@given(ends, st.none() | ends, st.binary(max_size=12))
def test_an_interval_with_shorter_ends_holds_whatever_it_held(start: bytes, stop: bytes | None, more: bytes) -> None:
    given_, kept = Interval(start, stop), shortened(Interval(start, stop))

    for code in (start, start + more, more, (stop or b"") + more, (stop or b"")[:-1] + more):
        assert kept.holds(code) or not given_.holds(code)
    assert max(len(kept.start), len(kept.stop or b"")) <= 256


edits = st.lists(st.tuples(st.integers(0, 800), st.integers(0, 12), st.binary(max_size=12)), min_size=1, max_size=3)


@laws
@given(files(), edits)
def test_whatever_is_overwritten_cut_out_or_put_in_goes_not_unnoticed(
    file: tuple[bytes, list[RowGroup], list[bytes]], changes: list[tuple[int, int, bytes]]
) -> None:
    schema, groups, bits = file
    data = dump_side_file("name", Contents.dump(schema, groups), bits)
    damaged = edited(data, changes)
    assume(damaged != data)

    assert load_side_file("name", damaged) is None


def edited(data: bytes, changes: Sequence[tuple[int, int, bytes]]) -> bytes:
    for at, removed, added in changes:
        place = at % (len(data) + 1)
        data = data[:place] + added + data[place + removed :]
    return data


@laws
@given(files(), edits)
def test_a_block_that_makes_no_sense_is_refused_and_nothing_else_happens(
    file: tuple[bytes, list[RowGroup], list[bytes]], changes: list[tuple[int, int, bytes]]
) -> None:
    """Its checksum is right, so that nothing but its own shape tells."""
    schema, groups, _ = file
    block = edited(Contents.dump(schema, groups), changes)

    found = load_side_file("name", dump_side_file("name", block, []))

    assert found is None or bytes(found.block) == block


@laws
@given(st.binary(max_size=400), st.integers(0, 6), st.integers(0, 3), st.integers(0, 2), st.integers(0, 9))
def test_random_bytes_with_a_true_head_are_contents_or_refused(
    noise: bytes, count: int, leaves: int, keys: int, pages: int
) -> None:
    block = struct.pack("<5I", count, leaves, keys, pages, 0) + noise

    found = load_side_file("name", dump_side_file("name", block, []))

    assert found is None or found.row_groups == count
