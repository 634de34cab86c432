"""Which removed files may go: decided from the log, without looking at a folder."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from ebb.index.cellfile import CellFile, Removal
from ebb.index.grid import Cell
from ebb.index.timeline import TimeKind, Timeline
from ebb.maintenance.plan.erase import exposed_since, plan_erase

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOURS = Timeline(kind=TimeKind.TIMESTAMP, origin=0, tick=3_600_000_000, span=36_000_000_000)
TICKS = Timeline(kind=TimeKind.INTEGER, origin=0, tick=10, span=80)
HOUR = 3_600_000_000


def ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def removal(version: int, *, hours_ago: float = 0, slot: int | None = None) -> Removal:
    return Removal(
        version=version,
        committed_ms=ms(NOW - timedelta(hours=hours_ago)),
        slot=slot,
        paths=(f"u{version}/x.parquet", f"u{version}/y.parquet"),
        size_bytes=10,
        exposed_since=None,
    )


def file(min_exp: int, *, added: datetime = NOW) -> CellFile:
    return CellFile(
        path="u1/_g=0/_e=0/x.parquet", cell=Cell(0, 0), size_bytes=1, records=1, min_ins=1, max_ins=1,
        min_exp=min_exp, max_exp=99_999_999, added_ms=ms(added),
    )  # fmt: skip


def test_files_go_when_they_have_waited_for_the_grace_period() -> None:
    removals = [removal(3, hours_ago=5), removal(4, hours_ago=2), removal(7, hours_ago=1.9), removal(8)]

    plan = plan_erase(removals, HOURS, grace_period=2 * HOUR, bound=9 * HOUR, clock=1, now=NOW)

    assert (plan.through, plan.size_bytes, plan.files_waiting) == (4, 20, 4)
    assert plan.paths == ("u3/x.parquet", "u3/y.parquet", "u4/x.parquet", "u4/y.parquet")


def test_integers_wait_for_ticks() -> None:
    removals = [removal(3, slot=4), removal(4, slot=5), removal(5, slot=6)]

    assert plan_erase(removals, TICKS, grace_period=11, bound=900, clock=7, now=NOW).through == 4
    assert plan_erase(removals, TICKS, grace_period=10, bound=900, clock=7, now=NOW).through == 5
    assert plan_erase(removals, TICKS, grace_period=30, bound=900, clock=7, now=NOW).through == 3
    assert plan_erase(removals, TICKS, grace_period=31, bound=900, clock=7, now=NOW).through is None


def test_a_wall_clock_that_was_ahead_and_went_back_keeps_no_file_for_longer() -> None:
    """Commit 3 says that it was made next year; commit 4, which followed it, was made five hours ago."""
    removals = [removal(3, hours_ago=-9000), removal(4, hours_ago=5)]

    assert plan_erase(removals, HOURS, grace_period=HOUR, bound=9 * HOUR, clock=1, now=NOW).through == 4


def test_a_removal_in_slot_0_waits_no_longer_than_others() -> None:
    assert plan_erase([removal(3, slot=0)], TICKS, grace_period=10, bound=900, clock=7, now=NOW).through == 3


def test_a_commit_that_does_not_say_when_it_was_made_shortens_no_wait() -> None:
    unknown = replace(removal(4), committed_ms=0)

    assert plan_erase([removal(3), unknown], HOURS, grace_period=HOUR, bound=9 * HOUR, clock=1, now=NOW).through is None
    assert (
        plan_erase(
            [removal(3, hours_ago=2), unknown], HOURS, grace_period=HOUR, bound=9 * HOUR, clock=1, now=NOW
        ).through
        == 3
    )


def test_nothing_removed_is_nothing_to_erase() -> None:
    plan = plan_erase([], HOURS, grace_period=HOUR, bound=9 * HOUR, clock=None, now=NOW)

    assert (plan.paths, plan.through, plan.files_waiting) == ((), None, 0)


@pytest.mark.parametrize(("added", "since"), [(-9, -2), (-1, -1), (-2, -2)])
def test_exposure_counts_from_the_expiry_or_from_when_the_file_came_if_that_was_later(added: int, since: int) -> None:
    clock = HOURS.clock_at(TimeKind.TIMESTAMP.from_datetime(NOW))

    start = exposed_since([file(clock - 2, added=NOW + timedelta(hours=added)), file(clock + 1)], HOURS, clock=clock)

    assert start == TimeKind.TIMESTAMP.from_datetime(NOW + timedelta(hours=since))


def test_files_without_expired_records_expose_nothing() -> None:
    assert exposed_since([file(9), file(8)], TICKS, clock=7) is None
    assert exposed_since([file(7), file(8), file(6)], TICKS, clock=7) == 60


def test_files_that_must_be_gone_by_a_time_do_not_wait_if_a_tick_later_may_be_too_late() -> None:
    old, urgent, new = removal(3, hours_ago=1), removal(4, hours_ago=1), removal(5)

    def through(hours: float) -> int | None:
        by = ms(NOW + timedelta(hours=hours))
        removals = [old, replace(urgent, erase_by=by), new]
        return plan_erase(removals, HOURS, grace_period=2 * HOUR, clock=1, now=NOW).through

    assert [through(hours) for hours in (-3, 0, 1, 1.1)] == [4, 4, 4, None]


def test_slots_by_which_files_must_be_gone_are_looked_at_in_time() -> None:
    def through(by: int | None, clock: int | None) -> int | None:
        removals = [removal(3, slot=0), replace(removal(4, slot=0), erase_by=by), removal(5, slot=0)]
        return plan_erase(removals, TICKS, grace_period=90, clock=clock, now=NOW).through

    assert [through(0, -2), through(0, -1), through(3, 1), through(3, 2), through(3, 7)] == [None, 4, None, 4, 4]
    assert [through(None, 8), through(0, None)] == [None, None]
