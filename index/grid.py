"""The doubly partitioned grid: which cell a record belongs to, which cells an update touches.

Two axes: G groups over insertion slots and E cohorts over expiration slots. A ``Ring`` gives ``run`` consecutive
slots to one partition before the next has its turn; a ``Shuffle`` permutes the turns within each cycle by a
seeded hash. Update j adds to one group (at most E cells) and expires from one cohort (at most G cells), so it
touches at most G + E - 1 cells whatever the lifetimes are. A grid belongs to a layout generation, and so does every
cell that it makes: cells of two generations are never the same. Pure: no Spark, no I/O.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from ebb.index.errors import UsageError

__all__ = ["HELD", "Axis", "Cell", "Grid", "Ring", "Shuffle"]


HELD = -2  # the cohort of held records; -1 is that of a file that says none


class Cell(NamedTuple):
    """One (group, cohort) of one layout generation: a partition of the Delta table.

    >>> str(Cell(1, 2)), str(Cell(1, 2, generation=3))
    ('(1, 2)', '(1, 2) of generation 3')
    """

    group: int
    cohort: int
    generation: int = 0

    @property
    def is_held(self) -> bool:
        """Whether it is that of a group's held records: no cohort's turn ever comes to it."""
        return self.cohort == HELD

    @property
    def held(self) -> Cell:
        """Return the cell of the same group's held records."""
        return self._replace(cohort=HELD)

    def __str__(self) -> str:
        return f"({self.group}, {self.cohort})" + (f" of generation {self.generation}" if self.generation else "")


@dataclass(frozen=True, slots=True)
class Ring:
    """``count`` partitions that take turns, ``run`` slots each."""

    count: int
    run: int = 1

    def __post_init__(self) -> None:
        if self.count < 1 or self.run < 1:
            msg = f"an axis of {self.count} partitions with runs of {self.run} slots; both must be at least 1"
            raise UsageError(msg)

    def partition(self, slot: int) -> int:
        """Return the partition of a slot, also before the origin.

        >>> [Ring(2, 3).partition(slot) for slot in range(1, 9)]
        [0, 0, 0, 1, 1, 1, 0, 0]
        """
        return (slot - 1) // self.run % self.count

    def run_of(self, slot: int) -> int:
        """Return the number of the run that holds a slot; run r covers slots r*run+1 to (r+1)*run."""
        return (slot - 1) // self.run

    def end_of_run(self, slot: int) -> int:
        """Return the last slot of the run that holds ``slot``."""
        return (self.run_of(slot) + 1) * self.run

    def next_turn(self, partition: int, after: int) -> int:
        """Return the first slot after ``after`` that is the partition's.  O(1).

        >>> Ring(2, 3).next_turn(1, after=1), Ring(2, 3).next_turn(1, after=4), Ring(2, 3).next_turn(1, after=6)
        (4, 5, 10)
        """
        runs_ahead = (partition - self.run_of(after + 1)) % self.count
        return after + 1 if not runs_ahead else (self.run_of(after + 1) + runs_ahead) * self.run + 1


@dataclass(frozen=True, slots=True)
class Shuffle:
    """``count`` partitions, each with one turn per cycle, in an order drawn per cycle from ``seed``."""

    count: int
    seed: int

    def __post_init__(self) -> None:
        if self.count < 1:
            msg = f"an axis of {self.count} partitions; it must have at least 1"
            raise UsageError(msg)

    @property
    def run(self) -> int:
        """Every slot is a run of its own."""
        return 1

    def partition(self, slot: int) -> int:
        """Return the partition of a slot.

        >>> sorted(Shuffle(4, seed=7).partition(slot) for slot in range(5, 9))
        [0, 1, 2, 3]
        """
        cycle, turn = divmod(slot - 1, self.count)
        return _order(self.count, self.seed, cycle)[turn]

    def run_of(self, slot: int) -> int:
        """Return the number of the run that holds a slot."""
        return slot - 1

    def end_of_run(self, slot: int) -> int:
        """Return the last slot of the run that holds ``slot``."""
        return slot

    def next_turn(self, partition: int, after: int) -> int:
        """Return the first slot after ``after`` that is the partition's: in this cycle or the next.  O(count)."""
        slot = after + 1
        while self.partition(slot) != partition:
            slot += 1
        return slot


Axis = Ring | Shuffle


@lru_cache(maxsize=4096)
def _order(count: int, seed: int, cycle: int) -> tuple[int, ...]:
    def draw(partition: int) -> bytes:
        return hashlib.blake2b(f"{seed}/{cycle}/{partition}".encode(), digest_size=8).digest()

    return tuple(sorted(range(count), key=draw))


@dataclass(frozen=True, slots=True)
class Grid:
    """G groups by E cohorts."""

    groups: Axis
    cohorts: Axis
    generation: int = 0  # which layout of its table it is

    def __post_init__(self) -> None:
        if self.generation < 0:
            msg = f"a grid of generation {self.generation}; generations start at 0"
            raise UsageError(msg)

    def __str__(self) -> str:
        return f"{self.groups.count}x{self.cohorts.count}"

    @property
    def cells(self) -> frozenset[Cell]:
        """Return all cells."""
        return self._cells(range(self.groups.count), range(self.cohorts.count))

    def _cells(self, groups: Iterable[int], cohorts: Collection[int]) -> frozenset[Cell]:
        return frozenset(Cell(group, cohort, self.generation) for group in groups for cohort in cohorts)

    def cell_of(self, inserted: int, expires: int) -> Cell:
        """Return the cell of a record by its insertion and expiration slots."""
        return Cell(self.groups.partition(inserted), self.cohorts.partition(expires), self.generation)

    def cells_admitting(self, slot: int) -> frozenset[Cell]:
        """Return the cells that records inserted at ``slot`` can go to: one group, E cells."""
        return self.cells_of([self.groups.partition(slot)])

    def cells_of(self, groups: Iterable[int]) -> frozenset[Cell]:
        """Return the cells of some groups."""
        return self._cells(groups, range(self.cohorts.count))

    def cohorts_expiring(self, clock: int, slot: int) -> frozenset[int]:
        """Return the cohorts with expiration slots in ``(clock, slot]``.  O(min(ticks, cycle))."""
        cycle = self.cohorts.count * self.cohorts.run * 2  # two cycles of a Shuffle hold every partition
        return frozenset(self.cohorts.partition(s) for s in range(max(clock, slot - cycle) + 1, slot + 1))

    def cells_expiring(self, clock: int, slot: int) -> frozenset[Cell]:
        """Return the cells that records expiring in ``(clock, slot]`` can be in."""
        return self.cells_of_cohorts(self.cohorts_expiring(clock, slot))

    def cells_of_cohorts(self, cohorts: Collection[int]) -> frozenset[Cell]:
        """Return all cells of some cohorts: G each."""
        return self._cells(range(self.groups.count), cohorts)

    def cells_touched(self, clock: int, slot: int) -> frozenset[Cell]:
        """Return all cells that the update from ``clock`` to ``slot`` may add to or expire from.

        E + c*G - c for c expiring cohorts, G + E - 1 for one tick.

        >>> len(Grid(Ring(4), Ring(4)).cells_touched(17, 18))
        7
        """
        return self.cells_admitting(slot) | self.cells_expiring(clock, slot)

    def has_exclusive_cohorts(self, ticks_per_span: int) -> bool:
        """Whether no cohort ever holds records of two runs, so that a dead one can be removed whole."""
        w = self.cohorts.run
        return isinstance(self.cohorts, Ring) and self.cohorts.count * w >= ticks_per_span + w

    def has_exclusive_groups(self, ticks_per_span: int) -> bool:
        """Whether no group ever holds records of two runs, expired ones that wait for their cohort included."""
        v, w = self.groups.run, self.cohorts.run
        return isinstance(self.groups, Ring) and self.groups.count * v >= ticks_per_span + v + w - 1

    def next_turn(self, cohort: int, after: int) -> int:
        """Return the first slot after ``after`` whose expirations come from ``cohort``."""
        return self.cohorts.next_turn(cohort, after)
