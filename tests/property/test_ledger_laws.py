"""Laws of the ledger: it says what a list of records would say, and survives being written down."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from ebb.index.ledger import Ledger
from ebb.index.timeline import TimeKind, Timeline

LINE = Timeline(kind=TimeKind.INTEGER, origin=0, tick=1, span=12)
laws = settings(deadline=None, max_examples=60)

slots = st.integers(-(2**40), 2**40)
digests = st.text("0123456789abcdef", max_size=16)
batches = st.lists(st.tuples(slots, digests), max_size=6).map(tuple)
# The histogram is as long as the live slots are wide: some have to be longer than what is stored plainly.
histograms = st.builds(
    lambda start, counts: {start + offset: count for offset, count in counts.items()},
    slots,
    st.dictionaries(st.integers(0, 600), st.integers(1, 2**50), max_size=8),
)
ledgers = st.builds(Ledger, clock=st.none() | slots, live=histograms, batches=batches)


@laws
@given(ledgers)
def test_what_is_written_is_read_back(ledger: Ledger) -> None:
    assert Ledger.loads(ledger.dumps()) == ledger


@laws
@given(st.integers(257, 1000), st.integers(0, 2**32))
def test_a_full_histogram_of_many_slots_is_read_back(width: int, seed: int) -> None:
    random = Random(seed)
    ledger = Ledger(clock=7, live={8 + offset: random.randint(1, 10**6) for offset in range(width)})

    assert Ledger.loads(ledger.dumps()) == ledger


@laws
@given(st.lists(st.integers(0, 30)), st.integers(-1, 31))
def test_the_expired_are_counted_as_a_list_of_records_would(expirations: list[int], slot: int) -> None:
    ledger = Ledger(clock=-1, live=Counter(expirations))

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

        ledger = ledger.advanced(slot, Counter(arrivals), f"batch {slot}" if lives else None)

        assert expired == len(window) - len(survivors)
        window = survivors + arrivals
        assert (ledger.clock, ledger.live) == (slot, Counter(window))


@laws
@given(steps)
def test_every_batch_that_is_remembered_is_recognised_under_any_slot(history: list[tuple[int, list[int]]]) -> None:
    ledger, slot = Ledger(clock=0), 0
    for ticks, lives in history:
        slot += ticks
        ledger = ledger.advanced(slot, {}, f"batch {slot}" if lives else None)

    for applied, digest in ledger.batches:
        assert {ledger.check_repeat(at, digest, LINE) for at in (0, applied, slot, slot + 1)} == {applied}
    assert ledger.check_repeat(slot + 1, "another batch", LINE) is None
