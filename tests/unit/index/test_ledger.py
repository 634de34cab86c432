"""What a table remembers: repeats, jumps, the next slot."""

from __future__ import annotations

import sys
import zlib
from types import SimpleNamespace

import pytest

from ebb.index.errors import AppliedSlotError, JumpError, NotDueError, OverDeletionError, UsageError
from ebb.index.fingerprints import Fingerprints, Segment, fingerprint
from ebb.index.histogram import Histogram
from ebb.index.ledger import Change, Ledger, check_span, next_slot, remembered_ticks
from ebb.index.timeline import TimeKind, Timeline

HOURS = Timeline(kind=TimeKind.INTEGER, origin=0, tick=10, span=80)
DAYS = Timeline(kind=TimeKind.DATE, origin=0, tick=1, span=8)
REMEMBERED = 64  # ticks: the span of HOURS is shorter


def ledger_of(clock: int | None, live: dict[int, int], *batches: tuple[int, str]) -> Ledger:
    """Return a ledger as a state would hold it."""
    segment = Segment.loads("s", Segment.dumps([(slot, fingerprint(digest)) for slot, digest in batches]))
    return Ledger(
        clock=clock,
        live_records=sum(live.values()),
        base=Histogram.of(live),
        fingerprints=Fingerprints((segment,) if batches else ()),
    )


APPLIED = ledger_of(5, {6: 2, 8: 1}, (2, "aa"), (5, "bb"))


def test_a_new_ledger_has_no_clock_and_no_records() -> None:
    ledger = Ledger()

    assert (ledger.clock, ledger.live_records, ledger.expired_by(99), ledger.live) == (None, 0, 0, {})


@pytest.mark.parametrize(("slot", "expired"), [(5, 0), (6, 2), (7, 2), (8, 3), (99, 3)])
def test_moving_the_clock_expires_what_is_due_by_then(slot: int, expired: int) -> None:
    assert APPLIED.expired_by(slot) == expired


def test_an_update_drops_the_expired_and_counts_the_arrivals() -> None:
    after = APPLIED.advanced(Change(clock=6, arrivals={8: 4, 9: 1}, digest="cc"))

    assert (after.clock, after.live, after.live_records) == (6, {8: 5, 9: 1}, 6)
    assert [after.slot_applied(digest, remembered_ticks(HOURS)) for digest in ("aa", "bb", "cc")] == [2, 5, 6]


def test_an_empty_tick_leaves_no_digest() -> None:
    assert APPLIED.advanced(Change(clock=6)).fingerprints == APPLIED.fingerprints


def test_a_batch_is_remembered_for_a_span_and_64_ticks_at_least() -> None:
    ledger = Ledger()
    for slot in range(1, REMEMBERED + 3):
        ledger = ledger.advanced(Change(clock=slot, digest=f"digest {slot}"))

    assert ledger.slot_applied("digest 2", remembered_ticks(HOURS)) is None
    assert ledger.slot_applied("digest 3", remembered_ticks(HOURS)) == 3
    year = Timeline(kind=TimeKind.INTEGER, origin=0, tick=1, span=1000)
    assert ledger.slot_applied("digest 2", remembered_ticks(year)) == 2


def test_a_batch_applied_twice_is_known_by_the_newer_slot() -> None:
    assert ledger_of(9, {}, (1, "aa"), (9, "aa")).slot_applied("aa", remembered_ticks(HOURS)) == 9


def test_what_was_erased_is_known_until_more_is() -> None:
    after = APPLIED.advanced(Change(clock=6, erased_version=40))

    assert (APPLIED.erased_version, after.erased_version) == (-1, 40)
    assert after.advanced(Change(clock=7)).erased_version == 40


@pytest.mark.parametrize(
    ("ledger", "slot", "digest", "answer"),
    [
        (Ledger(), 3, "aa", None),
        (Ledger(), 3, None, None),
        (APPLIED, 6, "cc", None),
        (APPLIED, 6, None, None),
        (APPLIED, 6, "bb", 5),
        (APPLIED, 5, "bb", 5),
        (APPLIED, 2, "bb", 5),
        (APPLIED, 9, "aa", 2),
        (APPLIED, 4, None, 4),
    ],
    ids=["new", "new and empty", "next", "next and empty", "again without slot", "again", "again elsewhere",
         "an old one again", "an empty tick again"],
)  # fmt: skip
def test_the_same_content_is_recognised_and_new_content_may_be_applied(
    ledger: Ledger, slot: int, digest: str | None, answer: int | None
) -> None:
    assert ledger.check_repeat(slot, digest, HOURS, remembered_ticks(HOURS)) == answer


@pytest.mark.parametrize(
    ("slot", "digest", "known"),
    [
        (5, "cc", "other records were applied there"),
        (2, None, "other records were applied there"),
        (3, "cc", "no records were"),
    ],
)
def test_other_content_for_a_slot_that_is_over_is_refused(slot: int, digest: str | None, known: str) -> None:
    with pytest.raises(AppliedSlotError) as caught:
        APPLIED.check_repeat(slot, digest, HOURS, remembered_ticks(HOURS))

    assert caught.value.args == (slot, str(10 * slot), 5, known)


def test_an_empty_batch_for_a_slot_whose_batch_is_forgotten_is_refused() -> None:
    ledger = Ledger()
    for slot in range(1, REMEMBERED + 2):
        ledger = ledger.advanced(Change(clock=slot, digest=f"digest {slot}")).settled([])

    with pytest.raises(AppliedSlotError, match="no longer remembered"):
        ledger.check_repeat(1, None, HOURS, remembered_ticks(HOURS))


@pytest.mark.parametrize(
    ("ledger", "slot", "catch_up", "yes"),
    [
        (Ledger(), 1000, False, False),
        (APPLIED, 6, False, False),
        (APPLIED, 7, True, False),
        (APPLIED, 8, True, True),
        (Ledger(clock=5), 1000, True, False),
    ],
    ids=["no clock yet", "one tick", "some records stay", "meant", "nothing to lose"],
)
def test_the_clock_may_move(ledger: Ledger, slot: int, *, catch_up: bool, yes: bool) -> None:
    ledger.check_jump(slot, catch_up=catch_up, yes=yes)


@pytest.mark.parametrize("yes", [False, True])
def test_more_than_one_tick_ahead_needs_catch_up(*, yes: bool) -> None:
    with pytest.raises(JumpError) as caught:
        APPLIED.check_jump(7, catch_up=False, yes=yes)

    assert caught.value.args == (7, 2, 5)


def test_a_jump_that_would_empty_the_table_needs_a_yes() -> None:
    with pytest.raises(OverDeletionError) as caught:
        APPLIED.check_jump(8, catch_up=True, yes=False)

    assert caught.value.args == (8, 3, 3)


def test_one_tick_may_empty_the_table() -> None:
    ledger_of(5, {6: 9}).check_jump(6, catch_up=True, yes=False)


@pytest.mark.parametrize(
    ("clock", "at", "now", "catch_up", "slot"),
    [
        (None, 59, None, False, 5),
        (5, 20, 99, False, 2),
        (None, None, 59, False, 5),
        (5, None, None, False, 6),
        (5, None, None, True, 6),
        (5, None, 60, False, 6),
        (5, None, 99, False, 6),
        (5, None, 99, True, 9),
        (5, None, 60, True, 6),
    ],
    ids=["at", "at before the clock", "the first by now", "integers", "integers catching up", "just over",
         "one at a time", "catching up", "nothing to catch up"],
)  # fmt: skip
def test_an_update_is_for_the_slot_that_is_due(
    clock: int | None, at: int | None, now: int | None, slot: int, *, catch_up: bool
) -> None:
    assert next_slot(Ledger(clock=clock), HOURS, at=at, now=now, catch_up=catch_up) == slot


@pytest.mark.parametrize("catch_up", [False, True])
def test_a_tick_that_is_not_over_is_refused(*, catch_up: bool) -> None:
    with pytest.raises(NotDueError) as caught:
        next_slot(Ledger(clock=5), DAYS, at=None, now=5, catch_up=catch_up)

    assert caught.value.args == (6, "1970-01-07", "1970-01-06")


def test_the_first_update_of_an_integer_table_needs_a_time() -> None:
    with pytest.raises(UsageError, match="the table has no clock yet, and integers have no now; load it first"):
        next_slot(Ledger(), HOURS, at=None, now=None, catch_up=False)


def test_a_span_of_too_many_ticks_is_refused_with_the_figure() -> None:
    minutes, second = 60_000_000, 1_000_000
    year = 365 * 24 * 60 * minutes
    check_span(Timeline(kind=TimeKind.TIMESTAMP, origin=0, tick=minutes, span=year))

    with pytest.raises(UsageError, match="span 365d has 31,536,000 ticks of 1s, and a table counts 4,000,000 at most"):
        check_span(Timeline(kind=TimeKind.TIMESTAMP, origin=0, tick=second, span=year))


def test_a_state_is_read_back_and_names_its_segments() -> None:
    ledger = APPLIED.advanced(Change(clock=6, arrivals={9: 1}, erased_version=3)).settled(APPLIED.fingerprints.segments)

    again, segments = Ledger.loads(ledger.dumps())

    assert segments == ["s"]
    assert (again.clock, again.live, again.live_records, again.erased_version) == (6, {8: 1, 9: 1}, 2, 3)


@pytest.mark.parametrize("at", [0, 9, 13, 40, -1])
def test_a_damaged_state_is_not_believed(at: int) -> None:
    data = bytearray(APPLIED.dumps())
    data[at] ^= 1

    with pytest.raises(ValueError, match="checksum"):
        Ledger.loads(bytes(data))


@pytest.mark.parametrize(("slots", "kind"), [(64, list), (65, str)])
def test_arrivals_in_more_than_64_slots_are_compressed(slots: int, kind: type) -> None:
    change = Change(clock=0, arrivals=dict.fromkeys(range(1, slots + 1), 7), digest="aa")

    stored = change.stored()

    assert isinstance(stored["arrivals"], kind)
    assert Change.restored(stored) == change


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is not a segment of fingerprints"),
        (b"EBBSEEN2" + bytes(8), "is not a segment of fingerprints"),
        (Segment.dumps([(7, 99)])[:-1], "has 31 bytes, and 1 fingerprints take 32"),
        (Segment.dumps([(7, 99)]) + b"x", "has 33 bytes, and 1 fingerprints take 32"),
    ],
)
def test_what_is_no_segment_of_fingerprints_is_not_read_as_one(data: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=f"s1 {said}"):
        Segment.loads("s1", data)


def test_equal_histograms_hash_alike_however_they_are_kept() -> None:
    close, scattered = Histogram.of({7: 300, 9: 1}), Histogram(scattered={9: 1, 7: 300})

    assert (close == scattered, hash(close) == hash(scattered)) == (True, True)


def test_a_histogram_is_the_same_bytes_on_every_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that keeps its numbers the other way round turns them when it writes and when it reads."""
    histograms = [Histogram.of({7: 300, 9: 1}), Histogram(scattered={10**9: 1, 7: 300})]
    other = "little" if sys.byteorder == "big" else "big"
    here = [zlib.decompress(histogram.dumps()[1]) for histogram in histograms]
    monkeypatch.setattr("ebb.index.histogram.sys", SimpleNamespace(byteorder=other))
    there = [zlib.decompress(histogram.dumps()[1]) for histogram in histograms]

    for ours, theirs, width in zip(here, there, (2, 8), strict=True):
        turned = [ours[at : at + width][::-1] for at in range(0, len(ours), width)]
        assert theirs == b"".join(turned)
    assert [Histogram.loads(*histogram.dumps()) for histogram in histograms] == histograms
