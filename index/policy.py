"""Which slots share a partition (policies) and how an update gets expired records out (strategies).

Policies turn two counts into the two axes of a grid; strategies are names here and plans in ``maintenance``.
What a strategy needs from its grid and from the deletion bound is decided here. Pure.
"""

from __future__ import annotations

import re
from enum import Enum

from index.errors import UsageError
from index.grid import Grid, Ring, Shuffle
from index.timeline import Timeline

__all__ = ["MAX_CELLS", "Strategy", "check_strategy", "lag_ticks", "make_grid", "parse_pair", "shortest_bound"]

MAX_CELLS = 10_000  # every cell is a folder and at least one file
_SEED = 2006  # fixed: the order of turns is part of a table's layout, not of a run


class Strategy(str, Enum):
    """How an update gets expired records out of the live table."""

    REBUILD = "rebuild"
    NOREBUILD = "norebuild"
    RETIRE = "retire"


def parse_pair(text: str, what: str) -> tuple[int, int]:
    """Read ``GxE`` or ``VxW``.

    >>> parse_pair("4x8", "grid")
    (4, 8)
    """
    match = re.fullmatch(r"([0-9]{1,6})[xX×]([0-9]{1,6})", text.strip())
    if not match or not int(match[1]) or not int(match[2]):
        msg = f"{what} {text!r} is not two positive numbers; write it like 4x4"
        raise UsageError(msg)
    return int(match[1]), int(match[2])


def _check_size(groups: int, cohorts: int) -> None:
    if groups * cohorts > MAX_CELLS:
        msg = f"grid {groups}x{cohorts} has {groups * cohorts} cells; the limit is {MAX_CELLS}, pass a smaller --grid"
        raise UsageError(msg)


def make_grid(policy: str, groups: int, cohorts: int, ticks_per_span: int) -> Grid:
    """Return the grid of a policy: round-robin, chronological, random or explicit runs ``VxW``.

    >>> make_grid("chronological", 2, 4, 8)
    Grid(groups=Ring(count=2, run=4), cohorts=Ring(count=4, run=2))
    """
    _check_size(groups, cohorts)
    if policy == "round-robin":
        return Grid(Ring(groups), Ring(cohorts))
    if policy == "chronological":
        return Grid(Ring(groups, -(-ticks_per_span // groups)), Ring(cohorts, -(-ticks_per_span // cohorts)))
    if policy == "random":
        return Grid(Shuffle(groups, _SEED), Shuffle(cohorts, _SEED + 1))
    if re.match("[0-9]", policy):
        v, w = parse_pair(policy, "policy")
        return Grid(Ring(groups, v), Ring(cohorts, w))
    msg = f"policy {policy!r} is not round-robin, chronological, random or runs like 6x6"
    raise UsageError(msg)


def _ticks_until_out(strategy: Strategy, grid: Grid) -> int:
    """Return how many ticks after its expiry a record is out of the live table at the latest."""
    return grid.cohorts.run if strategy is Strategy.RETIRE else 1


def shortest_bound(strategy: Strategy, grid: Grid, timeline: Timeline, reader_time: int) -> int:
    """Return the shortest deletion bound that can be kept: w*tick until it leaves the live table, the
    readers' time, and one tick until the update that erases the file.
    """
    return (_ticks_until_out(strategy, grid) + 1) * timeline.tick + reader_time


def lag_ticks(bound: int, timeline: Timeline, reader_time: int) -> int:
    """Return how many ticks an expired record may stay in a live file before it must be rewritten."""
    return max(0, (bound - reader_time) // timeline.tick - 2)


def check_strategy(strategy: Strategy, grid: Grid, timeline: Timeline, *, bound: int, reader_time: int) -> None:
    """Refuse a strategy that the grid cannot carry or that cannot keep the deletion bound."""
    _check_size(grid.groups.count, grid.cohorts.count)
    p = timeline.ticks_per_span
    if strategy is Strategy.RETIRE and not grid.has_exclusive_cohorts(p):
        if isinstance(grid.cohorts, Shuffle):
            msg = "strategy retire needs cohorts that die as a whole, which policy random does not give; use rebuild or norebuild"
        else:
            e, w = grid.cohorts.count, grid.cohorts.run
            longer = "" if e == 1 else f", runs of at least {-(-p // (e - 1))} slots"
            msg = (
                f"strategy retire needs E*w >= p + w, and {e}*{w} < {p} + {w} on grid {grid}; "
                f"pass at least {-(-p // w) + 1} cohorts{longer}, or --strategy rebuild or norebuild"
            )
        raise UsageError(msg)
    shortest = shortest_bound(strategy, grid, timeline, reader_time)
    if bound < shortest:
        show = timeline.kind.show_duration
        ticks = _ticks_until_out(strategy, grid)
        run = "a run of one tick" if ticks == 1 else f"a run of {ticks} ticks"
        msg = (
            f"deletion bound {show(bound)} is shorter than the {show(shortest)} that strategy {strategy.value} "
            f"needs on this grid ({run}, one tick more, {show(reader_time)} "
            f"for readers); pass --deletion-bound {show(shortest)} or more, or shorter cohort runs"
        )
        raise UsageError(msg)
