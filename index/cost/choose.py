"""Choosing grid, runs and strategy from the declared deletion bound.

The figures behind the rules (thesis workload, see bench/results): removing cohorts whole costs no more than an
append, and files are what a probe pays for. A tick adds p/w files, one per cohort; sealing a group of v ticks
merges them. On average v/2 * p/w files wait for sealing and p*p/(2*v*w) are sealed, which is least for v = sqrt(p).
The bound buys w: a cohort of w slots waits for its last one. Where the bound is so short that retiring would
leave too many files, a square grid that rewrites only files with expired records is the better choice. Pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ebb.index.errors import UsageError
from ebb.index.grid import Grid, Ring
from ebb.index.policy import make_grid
from ebb.index.strategy import Strategy, check_strategy, lag_ticks
from ebb.index.timeline import TimeKind, Timeline

__all__ = ["Choice", "choose", "default_bound", "default_log_retention", "default_reader_time", "expected_files"]

_MOST_FILES = 256  # more live files than this make a probe more expensive than the rewriting they save
_SQUARE = 4  # G = E = 4: the optimum of thesis 4.4 for small data, and still good for large
_HOUR_US = 3_600_000_000
_HISTORY_TICKS = 1000  # about two megabytes of log


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A grid, a strategy and one line that says why."""

    grid: Grid
    strategy: Strategy
    reason: str


def default_reader_time(timeline: Timeline) -> int:
    """Return how long removed files wait for readers: a tick, and for timestamps not over an hour."""
    return min(timeline.tick, _HOUR_US) if timeline.kind is TimeKind.TIMESTAMP else timeline.tick


def default_bound(timeline: Timeline) -> int:
    """Return the deletion bound of a table that declares none: a quarter of the span, at least four ticks."""
    return max(timeline.span // 4, 4 * timeline.tick)


def default_log_retention(timeline: Timeline, bound: int) -> int:
    """Return how long commits are kept in the log: what an audit of the deletion bound needs, and some history."""
    return max(bound, _HISTORY_TICKS * timeline.tick)


def expected_files(p: int, v: int, w: int) -> float:
    """Return the mean number of live files under retire with sealing."""
    return (v / 2) * math.ceil(p / w) + p * p / (2 * v * w)


def choose(
    timeline: Timeline,
    *,
    bound: int,
    reader_time: int,
    shape: tuple[int, int] | None = None,
    policy: str | None = None,
    strategy: Strategy | None = None,
) -> Choice:
    """Fill in what was not declared, and refuse what does not fit together.

    >>> from ebb.index.timeline import TimeKind
    >>> hours = Timeline(kind=TimeKind.INTEGER, origin=0, tick=1, span=36)
    >>> print(choose(hours, bound=9, reader_time=1).reason)
    retire with cohorts of 7 ticks: the bound of 9 leaves that much room, and expired data goes without rewriting
    """
    p = timeline.ticks_per_span
    show = timeline.kind.show_duration
    if policy is not None and shape is None:
        shape = (min(_SQUARE, p), min(_SQUARE, p)) if not policy[:1].isdigit() else _shape_for_runs(policy, p)
    if shape is None:
        w = min(p, max(1, lag_ticks(bound, timeline, reader_time) + 1))
        v = max(1, round(math.sqrt(p)))
        retire = Grid(Ring(_groups_for(p, v, w), v), Ring(-(-p // w) + 1, w))
        square = Grid(Ring(min(_SQUARE, p)), Ring(min(_SQUARE, p)))
        files = expected_files(p, v, w)
        if strategy is Strategy.RETIRE or (strategy is None and files <= _MOST_FILES):
            reason = (
                f"retire with cohorts of {w} tick{'s' * (w > 1)}: the bound of {show(bound)} leaves that much room, "
                "and expired data goes without rewriting"
            )
            choice = Choice(grid=retire, strategy=Strategy.RETIRE, reason=reason)
        else:
            chosen = strategy or Strategy.NOREBUILD
            reason = (
                f"{chosen.value} on {square}: as declared"
                if strategy
                else f"norebuild on {square}: within the bound of {show(bound)} retiring would keep about {files:.0f} files"
            )
            choice = Choice(grid=square, strategy=chosen, reason=reason)
    else:
        choice = _on_shape(p, shape, policy, strategy)
    check_strategy(choice.strategy, choice.grid, timeline, bound=bound, reader_time=reader_time)
    return choice


def _groups_for(p: int, v: int, w: int) -> int:
    """Return the fewest groups of v slots that are exclusive beside cohorts of w slots."""
    return -(-(p + v + w - 1) // v)


def _shape_for_runs(policy: str, p: int) -> tuple[int, int]:
    """Return the fewest groups and cohorts that are exclusive with the runs that were declared."""
    runs = make_grid(policy, 1, 1, p)
    v, w = runs.groups.run, runs.cohorts.run
    return _groups_for(p, v, w), -(-p // w) + 1


def _on_shape(p: int, shape: tuple[int, int], policy: str | None, strategy: Strategy | None) -> Choice:
    groups, cohorts = shape
    if strategy is Strategy.RETIRE and policy is None:
        if cohorts == 1:
            msg = f"strategy retire needs at least 2 cohorts, and grid {groups}x1 has 1; choose a grid with more"
            raise UsageError(msg)
        w = -(-p // (cohorts - 1))
        v = -(-(p + w - 1) // (groups - 1)) if groups > 1 else p
        return Choice(
            grid=Grid(Ring(groups, v), Ring(cohorts, w)),
            strategy=strategy,
            reason=f"runs of {v} and {w} ticks: the shortest whose cohorts die as a whole on {groups}x{cohorts}",
        )
    grid = make_grid("round-robin" if policy is None else policy, groups, cohorts, p)
    if strategy is not None:
        return Choice(grid=grid, strategy=strategy, reason=f"{strategy.value} on {grid}: as declared")
    if grid.has_exclusive_cohorts(p):
        return Choice(grid=grid, strategy=Strategy.RETIRE, reason=f"retire on {grid}: its cohorts die as a whole")
    return Choice(
        grid=grid,
        strategy=Strategy.REBUILD,
        reason=f"rebuild on {grid}: its cohorts mix lifetimes, and one sorted run per cell keeps probes fast",
    )
