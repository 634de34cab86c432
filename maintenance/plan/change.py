"""A plan: what one commit does to the files.  Decided by pure functions, carried out elsewhere."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ebb.index.cellfile import CellFile, Rewrite
from ebb.index.grid import Cell

__all__ = ["Plan", "by_cell", "rewrites_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One commit: what is removed, what is written anew, what is added as it was staged."""

    removes: tuple[CellFile, ...] = ()
    rewrites: tuple[Rewrite, ...] = ()
    adds: tuple[CellFile, ...] = ()
    # The cells that this kind of plan may touch: checked when it is carried out, no part of what it does.
    within: frozenset[Cell] = field(default=frozenset(), compare=False)

    @property
    def cells_touched(self) -> frozenset[Cell]:
        """Return the cells whose files change."""
        return frozenset([f.cell for f in self.removes] + [r.cell for r in self.rewrites] + [f.cell for f in self.adds])

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.removes or self.rewrites or self.adds)


def rewrites_of(files: Sequence[CellFile], clock: int) -> tuple[Rewrite, ...]:
    """Merge files with live records, cell by cell."""
    cells = by_cell(files).items()
    return tuple(Rewrite(cell=cell, inputs=tuple(in_cell), clock=clock) for cell, in_cell in cells)


def by_cell(files: Iterable[CellFile]) -> dict[Cell, list[CellFile]]:
    """Return files cell by cell."""
    cells: dict[Cell, list[CellFile]] = defaultdict(list)
    for file in files:
        cells[file.cell].append(file)
    return cells
