"""Laws of the ledger: it says what a list of records would say, and survives being written down."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from ebb.index.fingerprints import Fingerprints, Segment, fingerprint, merges, survivors
from ebb.index.histogram import Histogram
from ebb.index.ledger import Change, Ledger, remembered_ticks
from ebb.index.timeline import TimeKind, Timeline

LINE = Timeline(kind=TimeKind.INTEGER, origin=0, tick=1, span=12)
laws = settings(deadline=None, max_examples=60)

slots = st.integers(-(2**40), 2**40)
# Slots close together and far apart, with counts of every width.
counts = st.builds(
    lambda start, some: {start + offset: count for offset, count in some.items()},
    slots,
    st.dictionaries(st.integers(0, 600) | st.integers(0, 12), st.integers(1, 2**50) | st.integers(1, 9), max_size=20),
)
changes = st.builds(
    Change,
    clock=st.none() | slots,
    arrivals=counts,
    digest=st.none() | st.text("0123456789abcdef", max_size=16),
    erased_version=st.none() | st.integers(0, 10**6),
)


@laws
@given(changes)
def test_what_a_commit_says_is_read_back(change: Change) -> None:
    assert Change.restored(change.stored()) == change


@laws
@given(counts, st.none() | slots)
def test_a_state_is_read_back(live: dict[int, int], clock: int | None) -> None:
    ledger = Ledger(clock=clock, live_records=sum(live.values()), base=Histogram.of(live))

    assert Ledger.loads(ledger.dumps()) == (ledger, [])


@laws
@given(counts, st.lists(counts, max_size=3), slots)
def test_a_histogram_counts_as_a_list_would(first: dict[int, int], later: list[dict[int, int]], shift: int) -> None:
    start = min(first, default=shift)
    later = [{slot - min(some) + start: count for slot, count in some.items()} for some in later if some]
    everything = Counter(first)
    for some in later:
        everything.update(some)
    histogram = Histogram.of(first)
    for after in (start - 1, start, start + 3, start + 700):
        merged = histogram.merged(after, later)
        assert dict(merged.items()) == {slot: count for slot, count in everything.items() if slot > after}
        for through in (after, after + 1, after + 40):
            assert histogram.between(after, through) == sum(n for s, n in first.items() if after < s <= through)


@laws
@given(st.lists(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 2**64 - 1) | st.integers(0, 5)), max_size=9)))
def test_segments_remember_as_a_list_would(arriving: list[list[tuple[int, int]]]) -> None:
    segments: list[Segment] = []
    everything: list[tuple[int, int]] = []
    for number, recent in enumerate(some for some in arriving if some):
        everything += recent
        count = merges([len(segment) for segment in segments], len(recent))
        data = Segment.dumps(survivors(segments[len(segments) - count :], recent, 0))
        segments[len(segments) - count :] = [Segment.loads(str(number), data)]
    remembered = Fingerprints(tuple(segments))

    for since in (0, 25):
        for number in {number for _, number in everything} | {7}:
            expected = max((slot for slot, seen in everything if seen == number), default=-1)
            assert remembered.slot_of(number, since=since) == (expected if expected >= since else None)
    assert [slot for slot in range(52) if remembered.has(slot)] == sorted({slot for slot, _ in everything})
    assert len(segments) <= 1 + max(1, len(everything)).bit_length()


@laws
@given(st.lists(st.integers(0, 30)), st.integers(-1, 31))
def test_the_expired_are_counted_as_a_list_of_records_would(expirations: list[int], slot: int) -> None:
    ledger = Ledger(clock=-1, live_records=len(expirations), base=Histogram.of(Counter(expirations)))

    assert ledger.expired_by(slot) == len([expires for expires in expirations if expires <= slot])
    assert ledger.live_records == len(expirations)


steps = st.lists(st.tuples(st.integers(1, 4), st.lists(st.integers(1, 12), max_size=5)), max_size=20)


@laws
@given(steps)
def test_a_ledger_that_advances_counts_the_window_of_the_model(history: list[tuple[int, list[int]]]) -> None:
    ledger, window, slot = Ledger(clock=0), list[int](), 0
    for ticks, lives in history:
        slot += ticks
        expired = ledger.expired_by(slot)
        arrivals = [slot + life for life in lives]
        survivors = [expires for expires in window if expires > slot]

        ledger = ledger.advanced(Change(clock=slot, arrivals=Counter(arrivals), digest=f"batch {slot}"))
        if slot % 3 == 0:  # written down, and read back
            ledger = Ledger.loads(ledger.settled([]).dumps())[0]

        assert expired == len(window) - len(survivors)
        window = survivors + arrivals
        assert (ledger.clock, ledger.live) == (slot, Counter(window))
        assert ledger.live_records == len(window)


@laws
@given(steps)
def test_every_batch_that_is_remembered_is_recognised_under_any_slot(history: list[tuple[int, list[int]]]) -> None:
    ledger, slot = Ledger(clock=0), 0
    applied: list[tuple[int, str]] = []
    for ticks, lives in history:
        slot += ticks
        ledger = ledger.advanced(Change(clock=slot, digest=f"batch {slot}" if lives else None))
        applied += [(slot, f"batch {slot}")] if lives else []

    for at, digest in applied:
        if at >= ledger.remembered_since(remembered_ticks(LINE)):
            assert fingerprint(digest) in {number for _, number in ledger.fingerprints.recent}
            assert {
                ledger.check_repeat(when, digest, LINE, remembered_ticks(LINE)) for when in (0, at, slot, slot + 1)
            } == {at}
    assert ledger.check_repeat(slot + 1, "another batch", LINE, remembered_ticks(LINE)) is None
