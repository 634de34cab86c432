"""Laws of key ranges: objects name live files only, each once; few files are left without, and there are few objects."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from ebb.index.cellfile import RangesObject
from ebb.index.keys import Interval
from ebb.index.ranges import Cohort, FileRange, KeyRanges, plan_ranges

laws = settings(deadline=None, max_examples=100)
FEW = 4
COHORTS: list[Cohort] = [(0, 0), (0, 1), (1, 0)]

# A commit: how many files each cohort gets, and which of its files (by draw) leave.
commits = st.lists(
    st.tuples(st.tuples(*[st.integers(0, 6)] * 3), st.tuples(*[st.sets(st.integers(0, 40), max_size=4)] * 3)),
    max_size=25,
)


@laws
@given(commits, st.sets(st.integers(0, 99)))
def test_after_every_commit_objects_tell_of_live_files_and_of_nearly_all(
    history: list[tuple[tuple[int, ...], tuple[set[int], ...]]], lost: set[int]
) -> None:
    live: dict[Cohort, list[str]] = {cohort: [] for cohort in COHORTS}
    objects: list[RangesObject] = []
    held: dict[str, list[str]] = {}
    made = 0
    for number, (added, removed) in enumerate(history):
        changed, shrunk = set(), set()
        for cohort, count, places in zip(COHORTS, added, removed, strict=True):
            gone = {live[cohort][place] for place in places if place < len(live[cohort])}
            new = [f"{number}/{cohort}/{n}" for n in range(count)]
            live[cohort] = [path for path in live[cohort] if path not in gone] + new
            changed |= {cohort} if gone or new else set()
            shrunk |= {cohort} if gone else set()

        plan = plan_ranges(objects, live, changed=changed, shrunk=shrunk, files_of=lambda one: held[one.name], few=FEW)
        objects = [one for one in objects if one not in plan.dropped]
        for cohort, paths in plan.written:
            made += 1
            if made in lost:  # it could not be written
                continue
            held[f"o{made}"] = list(paths)
            objects.append(RangesObject(*cohort, f"o{made}", len(paths)))

        for cohort in COHORTS:
            mine = [one for one in objects if (one.generation, one.cohort) == cohort]
            told = [path for one in mine for path in held[one.name]]
            assert len(told) == len(set(told)), "a file is in two objects"
            assert set(told) <= set(live[cohort]), "an object holds keys of a file that left"
            assert [one.files for one in mine] == [len(held[one.name]) for one in mine]
            if not lost and cohort in changed:
                assert len(live[cohort]) - len(told) < FEW, "too many files have to be looked into"
                assert len(mine) <= 2 + 2 * math.log2(1 + len(live[cohort])), "too many objects"


ends = st.tuples(st.binary(max_size=2), st.binary(max_size=2) | st.none()).filter(lambda e: e[1] is None or e[0] < e[1])


@laws
@given(st.lists(ends, max_size=12), st.lists(st.binary(max_size=2), max_size=6, unique=True))
def test_what_meets_an_interval_is_what_a_filter_lets_through(
    files: list[tuple[bytes, bytes | None]], edges: list[bytes]
) -> None:
    ranges = [FileRange(str(n), start, stop, 1) for n, (start, stop) in enumerate(files)]
    edges = sorted(edges)
    intervals = [Interval(low, high) for low, high in zip(edges[::2], edges[1::2], strict=False)]
    known = KeyRanges()
    known.add(ranges)

    def meets(found: FileRange, one: Interval) -> bool:
        return (one.stop is None or found.start < one.stop) and (found.stop is None or found.stop > one.start)

    assert known.meeting(intervals) == {f.path for f in ranges if any(meets(f, one) for one in intervals)}
