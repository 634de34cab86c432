"""Policies: which slots share a partition.  They turn two counts into the two axes of a grid.  Pure."""

from __future__ import annotations

import re

from ebb.index.errors import UsageError
from ebb.index.grid import Grid, Ring, Shuffle

__all__ = ["MAX_CELLS", "check_size", "make_grid", "parse_pair"]

MAX_CELLS = 10_000  # every cell is a folder and at least one file


_SEED = 2006  # fixed: the order of turns is part of a table's layout, not of a run


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


def check_size(groups: int, cohorts: int) -> None:
    """Refuse a grid with more cells than a table may have."""
    if groups * cohorts > MAX_CELLS:
        msg = f"grid {groups}x{cohorts} has {groups * cohorts} cells; the limit is {MAX_CELLS}, choose a smaller grid"
        raise UsageError(msg)


def make_grid(policy: str, groups: int, cohorts: int, ticks_per_span: int) -> Grid:
    """Return the grid of a policy: round-robin, chronological, random or explicit runs ``VxW``.

    >>> make_grid("chronological", 2, 4, 8)
    Grid(groups=Ring(count=2, run=4), cohorts=Ring(count=4, run=2), generation=0)
    """
    check_size(groups, cohorts)
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
