"""Whatever is removed and whoever reads: what is erased, kept and ended is what a plain reading of the rules says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from ebb.index.cellfile import Removal
from ebb.index.lease import Lease
from ebb.index.timeline import TimeKind, Timeline
from ebb.maintenance.plan.erase import plan_erase

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TICK = 10
LINE = Timeline(kind=TimeKind.INTEGER, origin=0, tick=TICK, span=400)


def lease(version: int, number: int = 0) -> Lease:
    return Lease(
        id=f"{number:012x}", version=version, clock=1, pid=1, host="h", user="u", what="scan", process="p", since=0, until=1
    )  # fmt: skip


def removal(version: int, slot: int, due: int | None) -> Removal:
    return Removal(
        version=version,
        committed_ms=0,
        slot=slot,
        paths=(f"u{version}/a", f"u{version}/b"),
        size_bytes=version,
        exposed_since=None if due is None or due > LINE.end_of(slot) else due,
        due_from=due,
    )


@st.composite
def removed(draw: st.DrawFn) -> list[Removal]:
    """Return removals of rising versions and slots."""
    versions = sorted(draw(st.sets(st.integers(1, 40), max_size=8)))
    slots = sorted(draw(st.lists(st.integers(1, 12), min_size=len(versions), max_size=len(versions))))
    dues = [draw(st.none() | st.integers(0, 200)) for _ in versions]
    return [removal(*each) for each in zip(versions, slots, dues, strict=True)]


@given(
    removed(), st.lists(st.integers(-1, 41), max_size=5), st.integers(1, 14), st.integers(0, 50), st.integers(10, 150)
)
def test_leases_keep_what_was_removed_after_their_version_unless_that_breaks_the_bound(
    removals: list[Removal], versions: list[int], clock: int, grace_period: int, bound: int
) -> None:
    leases = [lease(version, number) for number, version in enumerate(versions)]

    plan = plan_erase(removals, LINE, grace_period=grace_period, bound=bound, clock=clock, now=NOW, leases=leases)

    over = _over(removals, clock, grace_period)
    urgent = [r for r in over if _due(r) + bound <= LINE.end_of(clock + 1)]
    ended = [one for one in leases if any(r.version > one.version for r in urgent)]
    pinned = [r for r in over if any(r.version > one.version for one in leases if one not in ended)]
    assert list(plan.ended) == ended
    assert list(plan.leased) == pinned
    assert list(plan.erased) == [r for r in over if r not in pinned]
    assert list(plan.waiting) == removals[len(over) :]
    assert [*plan.erased, *plan.leased, *plan.waiting] == removals, "in order: the ledger keeps one number"
    assert not set(urgent) & set(plan.kept)


def _over(removals: Sequence[Removal], clock: int, grace_period: int) -> list[Removal]:
    """Return what has waited for the grace period, up to the first that has not."""
    ticks = -(-grace_period // TICK)
    found = []
    for each in removals:
        if each.slot is None or each.slot + ticks > clock:
            break
        found.append(each)
    return found


def _due(each: Removal) -> int:
    return LINE.end_of((each.slot or 0) + 1) if each.due_from is None else each.due_from


@given(removed(), st.integers(1, 14), st.integers(0, 50), st.integers(10, 150))
def test_without_leases_the_grace_period_alone_decides(
    removals: list[Removal], clock: int, grace_period: int, bound: int
) -> None:
    plan = plan_erase(removals, LINE, grace_period=grace_period, bound=bound, clock=clock, now=NOW)

    assert list(plan.erased) == _over(removals, clock, grace_period)
    assert (plan.leased, plan.ended) == ((), ())


@given(st.data(), st.integers(0, 3), st.integers(1, 4), st.integers(0, 6), st.lists(st.integers(-1, 30), max_size=4))
def test_no_reader_can_break_the_bound(
    data: st.DataObject, grace_ticks: int, run: int, slack_ticks: int, versions: list[int]
) -> None:
    """Whoever looks at every tick never finds anything on disk for longer than the bound, however many read for ever."""
    bound = (run + 1 + grace_ticks + slack_ticks) * TICK  # at least what create insists on
    leases = [lease(version, number) for number, version in enumerate(versions)]
    kept: list[Removal] = []
    for clock in range(1, 25):
        late = [each for each in kept if _due(each) + bound < LINE.end_of(clock)]
        assert late == [], "what was due before this look has not been on disk for too long"
        plan = plan_erase(kept, LINE, grace_period=grace_ticks * TICK, bound=bound, clock=clock, now=NOW, leases=leases)
        kept = list(plan.kept)
        leases = [one for one in leases if one not in plan.ended]
        # What is removed now has been due for a run of slots at most, or will be.
        due = LINE.end_of(clock) + data.draw(st.integers(-run, 3)) * TICK
        kept.append(replace(removal(clock, clock, due), version=clock))
