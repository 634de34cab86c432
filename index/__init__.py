"""How a table is laid out and found: slots, grid, policies, costs.  Pure: no Spark, no I/O."""

from index.cellfile import CellFile, Rewrite
from index.cost import Choice, choose
from index.grid import Cell, Grid, Ring, Shuffle
from index.policy import Strategy
from index.timeline import TimeKind, Timeline

__all__ = [
    "Cell",
    "CellFile",
    "Choice",
    "Grid",
    "Rewrite",
    "Ring",
    "Shuffle",
    "Strategy",
    "TimeKind",
    "Timeline",
    "choose",
]
