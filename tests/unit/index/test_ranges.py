"""Key ranges of files: what is written down is read back, and damage is noticed."""

from __future__ import annotations

from random import Random

import pytest

from ebb.index.cellfile import RangesObject
from ebb.index.keys import Interval, code
from ebb.index.ranges import FileRange, KeyRanges, dump_ranges, load_ranges, plan_ranges

RANGES = [
    FileRange("u7-ab/_g=1/_e=2/part-x.parquet", code(("a",)), code(("c",)), 3),
    FileRange("r9-cd/_g=0/_e=2/part-é.parquet", b"", None, 1),
    FileRange("u8-ef/_g=0/_e=2/part-y.parquet", code(("b",)), code(("b", 7)), 2**32 - 1),
]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_what_is_written_down_is_read_back(count: int) -> None:
    assert load_ranges(dump_ranges(RANGES[:count])) == tuple(RANGES[:count])


def test_very_long_keys_are_cut_so_that_a_range_holds_more() -> None:
    (found,) = load_ranges(dump_ranges([FileRange("f", b"k" * 999, b"p" * 999, 1)])) or ()

    assert found.start == b"k" * 256
    assert found.stop == b"p" * 255 + b"q"


def test_no_flipped_missing_or_further_byte_goes_unnoticed() -> None:
    data = dump_ranges(RANGES)
    damaged = [data[:n] + bytes([data[n] ^ 1 << n % 8]) + data[n + 1 :] for n in range(len(data))]
    damaged += [data[:n] for n in range(len(data))] + [data + b"\0", b"EBBRNGS0" + data[8:]]
    random = Random(7)
    damaged += [b"EBBRNGS1" + random.randbytes(size) for size in range(100)]

    assert {load_ranges(found) for found in damaged} == {None}


def test_files_outside_an_interval_need_not_be_looked_into() -> None:
    known = KeyRanges()
    known.add(
        [FileRange(name, low, high, 1) for name, low, high in (("a", b"a", b"c"), ("b", b"b", b"d"), ("c", b"x", None))]
    )
    known.add([FileRange("a", b"a", b"c", 1)])  # once more

    assert len(known) == 3
    assert known.meeting([]) == set()
    assert known.meeting([Interval(b"c", b"c\0")]) == {"b"}
    assert known.meeting([Interval(b"", b"b")]) == {"a"}
    assert known.meeting([Interval(b"d", b"e"), Interval(b"y", None)]) == {"c"}
    assert known.meeting([Interval(b"", None)]) == {"a", "b", "c"}
    known.keep({"b", "z"})
    assert ("a" in known, "b" in known, len(known)) == (False, True, 1)
    assert known.meeting([Interval(b"", None)]) == {"b"}


COHORT = (0, 4)


def test_few_files_need_no_object() -> None:
    plan = plan_ranges([], {COHORT: ["a", "b", "c"]}, changed={COHORT}, shrunk=(), files_of=dict, few=4)  # type: ignore[arg-type]

    assert (plan.dropped, plan.written) == ((), ())


def test_an_object_that_cannot_be_read_is_dropped_when_files_leave_its_cohort() -> None:
    lost = RangesObject(*COHORT, "lost", 9)

    plan = plan_ranges([lost], {COHORT: ["a"]}, changed={COHORT}, shrunk={COHORT}, files_of=lambda _: [], few=4)

    assert (plan.dropped, plan.written) == ((lost,), ())


def test_a_cohort_without_files_keeps_no_object_and_others_are_left_alone() -> None:
    mine, other = RangesObject(*COHORT, "mine", 9), RangesObject(0, 5, "other", 9)

    plan = plan_ranges([mine, other], {}, changed={COHORT}, shrunk={COHORT}, files_of=lambda _: 1 / 0, few=4)  # type: ignore[arg-type,return-value]

    assert (plan.dropped, plan.written) == ((mine,), ())
