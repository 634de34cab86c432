"""What a table remembers: repeats, jumps, the next slot."""

from __future__ import annotations

import json

import pytest

from ebb.index.errors import AppliedSlotError, JumpError, NotDueError, OverDeletionError, UsageError
from ebb.index.ledger import KEPT_BATCHES, Ledger, next_slot
from ebb.index.timeline import TimeKind, Timeline

HOURS = Timeline(kind=TimeKind.INTEGER, origin=0, tick=10, span=80)
DAYS = Timeline(kind=TimeKind.DATE, origin=0, tick=1, span=8)
APPLIED = Ledger(clock=5, live={6: 2, 8: 1}, batches=((2, "aa"), (5, "bb")))


def test_a_new_ledger_has_no_clock_and_no_records() -> None:
    ledger = Ledger()

    assert (ledger.clock, ledger.live_records, ledger.expired_by(99), ledger.batches) == (None, 0, 0, ())


@pytest.mark.parametrize(("slot", "expired"), [(5, 0), (6, 2), (7, 2), (8, 3), (99, 3)])
def test_moving_the_clock_expires_what_is_over_by_then(slot: int, expired: int) -> None:
    assert APPLIED.expired_by(slot) == expired


def test_an_update_drops_the_expired_and_counts_the_arrivals() -> None:
    after = APPLIED.advanced(6, {8: 4, 9: 1}, "cc")

    assert after == Ledger(clock=6, live={8: 5, 9: 1}, batches=((2, "aa"), (5, "bb"), (6, "cc")))
    assert after.live_records == 6


def test_an_empty_tick_leaves_no_digest() -> None:
    assert APPLIED.advanced(6, {}, None).batches == APPLIED.batches


def test_the_oldest_batches_are_forgotten() -> None:
    ledger = Ledger()
    for slot in range(1, KEPT_BATCHES + 3):
        ledger = ledger.advanced(slot, {}, f"digest {slot}")

    assert len(ledger.batches) == KEPT_BATCHES
    assert ledger.slot_applied("digest 2") is None
    assert ledger.slot_applied("digest 3") == 3


def test_a_batch_applied_twice_is_known_by_the_newer_slot() -> None:
    assert Ledger(clock=9, batches=((1, "aa"), (9, "aa"))).slot_applied("aa") == 9


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
    assert ledger.check_repeat(slot, digest, HOURS) == answer


@pytest.mark.parametrize(
    ("slot", "digest", "known"),
    [
        (5, "cc", "there it was bb, here it is cc"),
        (2, None, "there it was aa, here it is empty"),
        (3, "cc", "that was an empty tick"),
    ],
)
def test_other_content_for_a_slot_that_is_over_is_refused(slot: int, digest: str | None, known: str) -> None:
    with pytest.raises(AppliedSlotError) as caught:
        APPLIED.check_repeat(slot, digest, HOURS)

    assert caught.value.args == (slot, str(10 * slot), 5, known)


def test_an_empty_batch_for_a_slot_whose_batch_is_forgotten_is_refused() -> None:
    ledger = Ledger()
    for slot in range(1, KEPT_BATCHES + 2):
        ledger = ledger.advanced(slot, {}, f"digest {slot}")

    with pytest.raises(AppliedSlotError, match="no longer remembered"):
        ledger.check_repeat(1, None, HOURS)


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
    Ledger(clock=5, live={6: 9}).check_jump(6, catch_up=True, yes=False)


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


@pytest.mark.parametrize(
    ("ledger", "text"),
    [
        (Ledger(), '{"clock":null,"from":0,"live":[],"batches":[]}'),
        (APPLIED, '{"clock":5,"from":6,"live":[2,0,1],"batches":[[2,"aa"],[5,"bb"]]}'),
    ],
)
def test_a_ledger_is_written_as_compact_json(ledger: Ledger, text: str) -> None:
    assert ledger.dumps() == text
    assert Ledger.loads(text) == ledger


@pytest.mark.parametrize(("slots", "kind"), [(256, list), (257, str)])
def test_a_histogram_of_more_than_256_slots_is_compressed(slots: int, kind: type) -> None:
    ledger = Ledger(clock=0, live=dict.fromkeys(range(1, slots + 1), 7))

    text = ledger.dumps()

    assert isinstance(json.loads(text)["live"], kind)
    assert Ledger.loads(text) == ledger
