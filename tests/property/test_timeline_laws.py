"""Laws of the timeline: slots cover time without gaps, and what is shown can be read."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ebb.index.timeline import TimeKind, Timeline

times = st.integers(-(10**12), 10**12)
timelines = st.builds(
    lambda kind, origin, tick, ticks: Timeline(kind=kind, origin=origin, tick=tick, span=tick * ticks),
    st.sampled_from(TimeKind),
    times,
    st.integers(1, 10**9),
    st.integers(1, 1000),
)
laws = settings(deadline=None, max_examples=60)


@laws
@given(timelines, times)
def test_a_slot_begins_right_after_the_one_before(line: Timeline, time: int) -> None:
    slot = line.slot_of(time)

    assert line.end_of(slot - 1) < time <= line.end_of(slot)


@laws
@given(timelines, times)
def test_the_clock_is_the_last_slot_that_is_over(line: Timeline, time: int) -> None:
    clock = line.clock_at(time)

    assert line.end_of(clock) <= time < line.end_of(clock + 1)
    assert line.slot_of(time) - clock == (0 if time == line.end_of(clock) else 1)


@laws
@given(timelines, times, st.data())
def test_no_record_lives_for_more_slots_than_a_span_has_ticks(line: Timeline, time: int, data: st.DataObject) -> None:
    life = data.draw(st.integers(1, line.span))

    assert 0 <= line.slot_of(time + life) - line.slot_of(time) <= line.ticks_per_span


@laws
@given(st.sampled_from(TimeKind), st.integers(-700_000, 2_900_000))
def test_a_time_that_is_shown_can_be_read(kind: TimeKind, time: int) -> None:
    assert kind.time(kind.show_time(time)) == time


@laws
@given(st.sampled_from(TimeKind), st.integers(1, 10**12))
def test_a_duration_that_is_shown_can_be_read(kind: TimeKind, duration: int) -> None:
    assert kind.duration(kind.show_duration(duration)) == duration
