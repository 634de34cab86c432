"""Times, durations and slots."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from ebb.index.errors import UsageError
from ebb.index.timeline import TimeKind, Timeline

STAMP, DATE, INTEGER = TimeKind.TIMESTAMP, TimeKind.DATE, TimeKind.INTEGER
SECOND = 1_000_000
DAY = 86_400 * SECOND


def line(*, origin: int = 0, tick: int = 10, span: int = 30, kind: TimeKind = INTEGER) -> Timeline:
    return Timeline(kind=kind, origin=origin, tick=tick, span=span)


@pytest.mark.parametrize(
    ("time", "slot"),
    [(-10, -1), (-9, 0), (0, 0), (1, 1), (9, 1), (10, 1), (11, 2), (20, 2), (21, 3)],
)
def test_a_time_on_a_boundary_belongs_to_the_earlier_slot(time: int, slot: int) -> None:
    assert line().slot_of(time) == slot


@pytest.mark.parametrize(("time", "clock"), [(-1, -1), (0, 0), (9, 0), (10, 1), (19, 1), (20, 2)])
def test_a_tick_is_over_only_at_its_end(time: int, clock: int) -> None:
    assert line().clock_at(time) == clock


def test_slots_are_counted_from_the_origin() -> None:
    late = line(origin=1000)

    assert (late.slot_of(1001), late.clock_at(1010), late.end_of(1)) == (1, 1, 1010)


@pytest.mark.parametrize(("span", "ticks"), [(10, 1), (11, 2), (30, 3), (31, 4)])
def test_a_span_that_is_not_a_multiple_of_the_tick_takes_one_tick_more(span: int, ticks: int) -> None:
    assert line(span=span).ticks_per_span == ticks


@pytest.mark.parametrize("tick", [0, -1])
def test_a_tick_that_is_not_positive_is_refused(tick: int) -> None:
    with pytest.raises(UsageError, match=f"tick {tick} is not positive; choose a longer tick"):
        line(tick=tick)


def test_the_shortest_tick_is_one_unit() -> None:
    assert line(tick=1, span=1).ticks_per_span == 1


def test_a_span_shorter_than_the_tick_is_refused_with_both_shown() -> None:
    with pytest.raises(UsageError, match="span 30m is shorter than the tick 1h; choose a longer span"):
        line(kind=STAMP, tick=3600 * SECOND, span=1800 * SECOND)


def test_a_slot_is_shown_by_the_time_it_ends() -> None:
    assert line(kind=STAMP, tick=3600 * SECOND, span=DAY).show_slot(5) == "1970-01-01T05:00:00Z"


@pytest.mark.parametrize(
    ("kind", "text", "time"),
    [
        (STAMP, "1970-01-01", 0),
        (STAMP, " 1970-01-01T00:00:01Z ", SECOND),
        (STAMP, "1970-01-01t00:00:01z", SECOND),
        (STAMP, "1970-01-01T00:00:01", SECOND),
        (STAMP, "1970-01-01T01:00:00.000001+01:00", 1),
        (STAMP, "1969-12-31T23:59:59.999999Z", -1),
        (STAMP, "0001-01-01T00:00:00+23:00", -62_135_596_800 * SECOND - 23 * 3600 * SECOND),
        (DATE, "1970-01-02", 1),
        (DATE, "1969-12-31T23:00:00", -1),
        (DATE, "1970-01-02T00:30:00+01:00", 0),
        (INTEGER, "42", 42),
        (INTEGER, " -7 ", -7),
        (INTEGER, "+999999999999999999", 999_999_999_999_999_999),
    ],
)
def test_times_are_read_as_utc_in_the_unit_of_their_kind(kind: TimeKind, text: str, time: int) -> None:
    assert kind.time(text) == time


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        (STAMP, "noon", "is not ISO 8601"),
        (STAMP, "", "is not ISO 8601"),
        (STAMP, "2013-02-30", "is not ISO 8601"),
        (DATE, "42", "is not ISO 8601"),
        (INTEGER, "2013-01-01", "is not an integer of at most 18 digits"),
        (INTEGER, "1.5", "is not an integer"),
        (INTEGER, "1234567890123456789", "is not an integer of at most 18 digits"),
        (INTEGER, "٣", "is not an integer"),
    ],
)
def test_a_text_that_is_no_time_is_refused(kind: TimeKind, text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        kind.time(text)


@pytest.mark.parametrize(
    ("kind", "text", "duration"),
    [
        (STAMP, "1us", 1),
        (STAMP, "1500ms", 1_500_000),
        (STAMP, "90s", 90 * SECOND),
        (STAMP, " 5m ", 300 * SECOND),
        (STAMP, "1h", 3600 * SECOND),
        (STAMP, "7d", 7 * DAY),
        (STAMP, "2w", 14 * DAY),
        (DATE, "48h", 2),
        (DATE, "86400000ms", 1),
        (DATE, "1w", 7),
        (INTEGER, "1", 1),
        (INTEGER, "10", 10),
    ],
)
def test_durations_are_read_in_the_unit_of_their_kind(kind: TimeKind, text: str, duration: int) -> None:
    assert kind.duration(text) == duration


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        (STAMP, "5", "write it like 90s, 5m, 1h or 7d"),
        (STAMP, "0s", "is not a positive number with a unit"),
        (STAMP, "-5m", "is not a positive number with a unit"),
        (STAMP, "5 minutes", "is not a positive number with a unit"),
        (DATE, "36h", "is not a whole number of days"),
        (DATE, "7", "is not a positive number with a unit"),
        (INTEGER, "5m", "is not a positive integer"),
        (INTEGER, "0", "is not a positive integer"),
        (INTEGER, "-1", "is not a positive integer"),
    ],
)
def test_a_text_that_is_no_duration_is_refused(kind: TimeKind, text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        kind.duration(text)


@pytest.mark.parametrize(
    ("kind", "moment", "time"),
    [
        (STAMP, datetime(1970, 1, 1, 0, 0, 0, 5, tzinfo=UTC), 5),
        (STAMP, datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), 0),
        (DATE, datetime(1970, 1, 2, 23, 59, tzinfo=UTC), 1),
        (DATE, datetime(1969, 12, 31, 23, 59, tzinfo=UTC), -1),
    ],
)
def test_a_moment_of_the_wall_clock_becomes_a_time(kind: TimeKind, moment: datetime, time: int) -> None:
    assert kind.from_datetime(moment) == time


@pytest.mark.parametrize(("kind", "moves"), [(STAMP, True), (DATE, True), (INTEGER, False)])
def test_no_wall_clock_moves_integers(kind: TimeKind, *, moves: bool) -> None:
    assert kind.has_wall_clock is moves


@pytest.mark.parametrize(("kind", "duration", "seconds"), [(STAMP, 1_500_000, 1.5), (DATE, 2, 172_800.0)])
def test_durations_have_a_length_in_seconds(kind: TimeKind, duration: int, seconds: float) -> None:
    assert kind.seconds(duration) == seconds


@pytest.mark.parametrize(
    ("kind", "time", "text"),
    [
        (STAMP, 1, "1970-01-01T00:00:00.000001Z"),
        (DATE, -1, "1969-12-31"),
        (INTEGER, -42, "-42"),
        (STAMP, 10**18, "1000000000000000000 us since 1970"),
        (DATE, 10**8, "100000000 days since 1970"),
        (DATE, 10**18, "1000000000000000000 days since 1970"),
    ],
)
def test_any_time_can_be_shown_even_one_no_calendar_holds(kind: TimeKind, time: int, text: str) -> None:
    assert kind.show_time(time) == text


@pytest.mark.parametrize(
    ("kind", "duration", "text"),
    [
        (STAMP, 1, "1us"),
        (STAMP, 1000, "1ms"),
        (STAMP, SECOND, "1s"),
        (STAMP, 90 * SECOND, "90s"),
        (STAMP, 60 * SECOND, "1m"),
        (STAMP, 3600 * SECOND, "1h"),
        (STAMP, 7 * DAY, "7d"),
        (DATE, 7, "7d"),
        (INTEGER, 7, "7"),
    ],
)
def test_a_duration_is_shown_in_the_largest_unit_and_can_be_read_back(kind: TimeKind, duration: int, text: str) -> None:
    shown = kind.show_duration(duration)

    assert shown == text
    assert kind.duration(shown) == duration
