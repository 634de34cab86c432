"""The slow truth about files: records kept in named files, and plans carried out on them to the letter.

A run is the records of one folder and cell in key order, cut into parts of a few records, so that the parts of one
run can die at different times. ``apply`` refuses a plan that would lose, double or invent a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ebb.index.cellfile import CellFile
from ebb.index.grid import Cell, Grid
from ebb.maintenance.plan.change import Plan
from ebb.maintenance.plan.update import UpdatePlan

PART_RECORDS = 3


class Record(NamedTuple):
    """A record as the layout sees it; the number is its key and its identity."""

    number: int
    inserted: int
    expires: int


def cell_file(
    path: str = "a/1",
    cell: tuple[int, ...] = (0, 0),
    ins: tuple[int, int] = (1, 1),
    exp: tuple[int, int] = (2, 2),
    records: int = 1,
) -> CellFile:
    """Return what the log would say about a file with these slots."""
    return CellFile(
        path=path,
        cell=Cell(*cell),
        size_bytes=100 * records,
        records=records,
        min_ins=ins[0],
        max_ins=ins[1],
        min_exp=exp[0],
        max_exp=exp[1],
    )


class FileStore:
    """Files with their records: what is live, what is staged, and what each plan makes of it."""

    def __init__(self, grid: Grid, part_records: int = PART_RECORDS) -> None:
        self.grid = grid
        self._part_records = part_records
        self._contents: dict[str, tuple[Record, ...]] = {}
        self._live: dict[str, CellFile] = {}
        self._folders = 0

    @property
    def live(self) -> list[CellFile]:
        """Return the files of the table."""
        return list(self._live.values())

    def stage(self, records: Iterable[Record]) -> list[CellFile]:
        """Write records into a folder of their own, one run per cell, without adding them to the table."""
        cells: dict[Cell, list[Record]] = {}
        for record in records:
            cells.setdefault(self.grid.cell_of(record.inserted, record.expires), []).append(record)
        return self._write(cells.items())

    def admit(self, records: Iterable[Record]) -> None:
        """Stage records and add them to the table."""
        self._live |= {file.path: file for file in self.stage(records)}

    def apply(self, plan: Plan) -> None:
        """Carry out a plan as one commit."""
        removed, added = {f.path for f in plan.removes}, {f.path for f in plan.adds}
        read = [f.path for rewrite in plan.rewrites for f in rewrite.inputs]
        assert len(removed) == len(plan.removes)
        assert removed <= self._live.keys()
        assert len(added) == len(plan.adds)
        assert not added & self._live.keys()
        assert len(set(read)) == len(read), "a file is read by two rewrites"
        assert not set(read) & added, "a staged file is both added and rewritten"
        assert set(read) & self._live.keys() <= removed, "a live file is rewritten and kept"
        assert all(f.cell == rewrite.cell for rewrite in plan.rewrites for f in rewrite.inputs)

        rewritten = self._write(
            (task.cell, [r for f in task.inputs for r in self._contents[f.path] if r.expires > task.clock])
            for task in plan.rewrites
        )
        for path in removed:
            del self._live[path]
        self._live |= {file.path: file for file in (*plan.adds, *rewritten)}

    def apply_all(self, plan: UpdatePlan) -> None:
        """Carry out the commits of an update, one after the other."""
        for commit in plan.commits.values():
            self.apply(commit)

    def records_of(self, files: Iterable[CellFile]) -> list[Record]:
        """Return every record of these files, expired ones included."""
        return sorted(record for file in files for record in self._contents[file.path])

    def records(self) -> list[Record]:
        """Return every record of the table, expired ones included."""
        return self.records_of(self._live.values())

    def visible(self, clock: int) -> list[Record]:
        """Return the window at a clock."""
        return [record for record in self.records() if record.expires > clock]

    def expired(self, clock: int) -> list[Record]:
        """Return the records that are over at a clock and still in a live file."""
        return [record for record in self.records() if record.expires <= clock]

    def runs(self) -> dict[Cell, set[str]]:
        """Return, per cell, the folders that hold a run of it."""
        runs: dict[Cell, set[str]] = {}
        for file in self._live.values():
            runs.setdefault(file.cell, set()).add(file.folder)
        return runs

    def _write(self, runs: Iterable[tuple[Cell, Sequence[Record]]]) -> list[CellFile]:
        self._folders += 1
        files: list[CellFile] = []
        for cell, records in runs:
            ordered = sorted(records)
            for start in range(0, len(ordered), self._part_records):
                part = tuple(ordered[start : start + self._part_records])
                ins, exp = [r.inserted for r in part], [r.expires for r in part]
                path = f"c{self._folders}/{len(files)}"
                file = cell_file(path, cell, (min(ins), max(ins)), (min(exp), max(exp)), len(part))
                self._contents[path] = part
                files.append(file)
        return files
