"""Strategies: how an update gets expired records out of the live table.

They are names here and plans in ``maintenance``. What a strategy needs from its grid and from the deletion bound is
decided here. Pure.
"""

from __future__ import annotations

from enum import StrEnum

from ebb.index.errors import UsageError
from ebb.index.grid import Grid, Shuffle
from ebb.index.policy import check_size
from ebb.index.timeline import Timeline

__all__ = ["Strategy", "check_strategy", "lag_ticks", "shortest_bound"]


class Strategy(StrEnum):
    """How an update gets expired records out of the live table."""

    REBUILD = "rebuild"
    NOREBUILD = "norebuild"
    RETIRE = "retire"


def _ticks_until_out(strategy: Strategy, grid: Grid) -> int:
    """Return how many ticks after its expiry a record is out of the live table at the latest."""
    return grid.cohorts.run if strategy is Strategy.RETIRE else 1


def shortest_bound(strategy: Strategy, grid: Grid, timeline: Timeline, reader_time: int) -> int:
    """Return the shortest deletion bound that can be kept: w*tick until it leaves the live table, the
    grace period of readers, and one tick until the update that erases the file.
    """
    return (_ticks_until_out(strategy, grid) + 1) * timeline.tick + reader_time


def lag_ticks(bound: int, timeline: Timeline, reader_time: int) -> int:
    """Return how many ticks an expired record may stay in a live file before it must be rewritten."""
    return max(0, (bound - reader_time) // timeline.tick - 2)


def check_strategy(strategy: Strategy, grid: Grid, timeline: Timeline, *, bound: int, reader_time: int) -> None:
    """Refuse a strategy that the grid cannot carry or that cannot keep the deletion bound."""
    check_size(grid.groups.count, grid.cohorts.count)
    p = timeline.ticks_per_span
    if strategy is Strategy.RETIRE and not grid.has_exclusive_cohorts(p):
        if isinstance(grid.cohorts, Shuffle):
            msg = "strategy retire needs cohorts that die as a whole, which policy random does not give; use rebuild or norebuild"
        else:
            e, w = grid.cohorts.count, grid.cohorts.run
            longer = "" if e == 1 else f", runs of at least {-(-p // (e - 1))} slots"
            msg = (
                f"strategy retire needs E*w >= p + w, and {e}*{w} < {p} + {w} on grid {grid}; "
                f"take at least {-(-p // w) + 1} cohorts{longer}, or strategy rebuild or norebuild"
            )
        raise UsageError(msg)
    shortest = shortest_bound(strategy, grid, timeline, reader_time)
    if bound < shortest:
        show = timeline.kind.show_duration
        ticks = _ticks_until_out(strategy, grid)
        run = "a run of one tick" if ticks == 1 else f"a run of {ticks} ticks"
        msg = (
            f"deletion bound {show(bound)} is shorter than the {show(shortest)} that strategy {strategy.value} "
            f"needs on this grid ({run}, one tick more, {show(reader_time)} for readers)"
        )
        step = f"take a bound of {show(shortest)} or more, or shorter cohort runs"
        raise UsageError(msg, step, show(shortest), hint="deletion_bound")
