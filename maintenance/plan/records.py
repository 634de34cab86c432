"""What forgetting, amending, holding or releasing chosen records does to the files.  Pure.

Only files that hold chosen records are written again: run by run, so that a run stays sorted and what lies between is
copied as it is.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ebb.index.cellfile import AMENDED, HELD_PART, RELEASED, CellFile, Chosen, Places, Rewrite
from ebb.index.grid import Cell, Grid
from ebb.maintenance.plan.change import Plan

__all__ = ["NEVER", "Release", "counts_of", "plan_amend", "plan_forget", "plan_hold", "plan_release"]

NEVER = -(2**63)  # a clock at which nothing has expired


def plan_forget(chosen: Sequence[Chosen], *, clock: int) -> Plan:
    """Write the files that hold chosen records again without them, and without what has expired."""
    files = [some.file for some in chosen]
    rewrites = _left(chosen, clock)
    return Plan(removes=tuple(files), rewrites=rewrites, within=frozenset(file.cell for file in files))


def plan_amend(grid: Grid, chosen: Sequence[Chosen], *, clock: int, expires: tuple[str, int, int]) -> Plan:
    """Write the files that hold chosen records again without them, and these into the cells of their new expiration slot.

    They stay in their groups: when they were inserted does not change. ``expires``: the column, the time, the slot.
    """
    plan = plan_forget(chosen, clock=clock)
    cohort = grid.cohorts.partition(expires[2])
    groups: dict[Cell, list[Chosen]] = defaultdict(list)
    for some in chosen:
        groups[some.file.cell._replace(cohort=cohort)].append(some)
    amended = (
        Rewrite(
            cell=cell,
            inputs=_files(group),
            clock=clock,
            part=AMENDED,
            only={some.file.path: some.places for some in group},
            expires=expires,
        )
        for cell, group in sorted(groups.items())
    )
    return replace(plan, rewrites=(*plan.rewrites, *amended), within=plan.within | grid.cells_of_cohorts([cohort]))


def counts_of(chosen: Iterable[Chosen]) -> Counter[int]:
    """Return how many chosen records that have not expired expire in each slot."""
    return sum((Counter(some.live) for some in chosen), Counter[int]())


def _left(chosen: Sequence[Chosen], clock: int) -> tuple[Rewrite, ...]:
    """Return what writes the rest of files again; nothing is left of a dead one, or of one that is chosen as a whole."""
    runs: dict[tuple[str, Cell], list[Chosen]] = defaultdict(list)
    for some in chosen:
        if not some.file.is_dead(clock) and some.records < some.file.records:
            runs[some.file.folder, some.file.cell].append(some)
    rewrites = (
        Rewrite(
            cell=cell,
            inputs=_files(run),
            clock=clock,
            without={some.file.path: some.places for some in run},
        )
        for (_, cell), run in sorted(runs.items())
    )
    return tuple(replace(rewrite, part=str(number)) for number, rewrite in enumerate(rewrites))


def _files(chosen: Iterable[Chosen]) -> tuple[CellFile, ...]:
    return tuple(some.file for some in chosen)


def plan_hold(chosen: Sequence[Chosen], *, clock: int) -> Plan:
    """Move chosen records to the held cells of their groups; those that are in one stay there."""
    moved = [some for some in chosen if not some.file.cell.is_held]
    plan = plan_forget(moved, clock=clock)
    groups: dict[Cell, list[Chosen]] = defaultdict(list)
    for some in moved:
        groups[some.file.cell.held].append(some)
    held = tuple(
        Rewrite(
            cell=cell,
            inputs=_files(group),
            clock=NEVER,
            part=HELD_PART,
            only={some.file.path: some.places for some in group},
        )
        for cell, group in sorted(groups.items())
    )
    return replace(plan, rewrites=(*plan.rewrites, *held), within=plan.within | frozenset(groups))


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What becomes of the records of one held file."""

    file: CellFile
    kept: Places  # another case holds them
    live: Mapping[int, Places]  # by the cohort to which they go back
    records: int  # that are held no longer
    expired: int  # of these, how many leave the table
    first: int | None = None  # the first slot in which one of them that has not expires


def plan_release(grid: Grid, releases: Sequence[Release], *, clock: int) -> Plan:
    """Let records go that are held no longer: live ones back to the cells of their slots, the others out of the table."""
    rewrites = []
    kept: dict[Cell, dict[str, Places]] = defaultdict(dict)
    back: dict[Cell, dict[str, Places]] = defaultdict(dict)
    by_path = {release.file.path: release.file for release in releases}
    for release in releases:
        if release.kept:
            kept[release.file.cell][release.file.path] = release.kept
        for cohort, places in release.live.items():
            back[release.file.cell._replace(cohort=cohort)][release.file.path] = places
    for cells, part, over in ((kept, HELD_PART, NEVER), (back, RELEASED, clock)):
        for cell, only in sorted(cells.items()):
            inputs = tuple(by_path[path] for path in only)
            rewrites.append(Rewrite(cell=cell, inputs=inputs, clock=over, part=part, only=only))
    removes = tuple(release.file for release in releases)
    cohorts = {cohort for release in releases for cohort in release.live}
    within = grid.cells_of_cohorts(cohorts) | {file.cell for file in removes}
    return Plan(removes=removes, rewrites=tuple(rewrites), within=within)
