"""Writing sorted runs of cells, with Arrow, wherever a task runs.

A run is one or more Parquet files in the order of key, then expiration. Row groups end where a key ends; keys with many
records have row groups of their own, so that they can be copied, short ones share. Each file is put together in memory and
written once, and beside it lies what the directory knows of it. The same functions serve Spark's tasks and a thread of
this process; they know folders and files, not tables.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from ebb.index.cellfile import CellFile
from ebb.index.grid import Cell
from ebb.warehouse.parquet.arrow import key_starts
from ebb.warehouse.parquet.builder import CopiedRowGroup, FileBuilder
from ebb.warehouse.parquet.sizes import WriteSizes
from ebb.warehouse.store.files import make_folder
from ebb.warehouse.store.paths import cell_folder

__all__ = ["Layout", "RunWriter", "Written", "split_cells"]


@dataclass(frozen=True, slots=True)
class Layout:
    """What a writer must know about a table."""

    schema: pa.Schema
    key: tuple[str, ...]
    table: str  # the table's folder
    folder: str  # the folder of this commit, below it
    sizes: WriteSizes = field(default_factory=WriteSizes)


@dataclass(slots=True)
class Written:
    """The files of one or more runs."""

    files: list[CellFile] = field(default_factory=list)

    def add(self, other: Written) -> None:
        """Take over what another writer wrote."""
        self.files.extend(other.files)

    def dumps(self) -> str:
        """Write it as JSON, to bring it from a task to the driver."""
        return json.dumps([asdict(file) for file in self.files])

    @staticmethod
    def loads(text: str) -> Written:
        """Read what :meth:`dumps` wrote."""
        return Written([CellFile(**{**file, "cell": Cell(*file["cell"])}) for file in json.loads(text)])


class RunWriter:
    """Writes one sorted run of one cell.  Feed it sorted tables and row groups to copy, then close it.

    In memory are the records that wait for their row group, up to ``buffer_bytes``, and one file, up to ``file_bytes``
    and a row group more.
    """

    def __init__(self, layout: Layout, cell: Cell) -> None:
        self.layout = layout
        self.cell = cell
        self.written = Written()
        self._waiting: list[pa.Table] = []
        self._waiting_bytes = 0
        self._file: FileBuilder | None = None

    def add(self, table: pa.Table) -> None:
        """Take the next records of the run."""
        if not table.num_rows:
            return
        self._waiting.append(table)
        self._waiting_bytes += table.nbytes
        if self._waiting_bytes >= self.layout.sizes.buffer_bytes:
            self._flush(last=False)

    def copy(self, row_group: CopiedRowGroup) -> None:
        """Take a row group of another file as the next records of the run.  Requires the same columns."""
        self._flush(last=True)
        self._open_file().copy(row_group)
        self._close_if_full()

    def close(self) -> Written:
        """Write what is waiting and return what was written."""
        self._flush(last=True)
        self._close_file()
        return self.written

    def _flush(self, *, last: bool) -> None:
        if not self._waiting:
            return
        table = pa.concat_tables(self._waiting)
        cuts = _row_group_cuts(table, self.layout)
        if not last and len(cuts) > 2:
            cuts.pop()
        row_groups = [table.slice(start, end - start) for start, end in itertools.pairwise(cuts)]
        # As many at once as belong to one file: Arrow takes long to start.
        while row_groups:
            file, size, count = self._open_file(), 0, 0
            room = self.layout.sizes.file_bytes - file.size_bytes
            while count < len(row_groups) and size < room:
                size += row_groups[count].nbytes
                count += 1
            file.encode(row_groups[:count])
            row_groups = row_groups[count:]
            self._close_if_full()
        rest = table.slice(cuts[-1])
        self._waiting = [rest] if rest.num_rows else []
        self._waiting_bytes = rest.nbytes

    def _open_file(self) -> FileBuilder:
        if self._file is None:
            self._file = FileBuilder(self.layout.schema, self.layout.key, self.layout.sizes)
        return self._file

    def _close_if_full(self) -> None:
        if self._file is not None and self._file.size_bytes >= self.layout.sizes.file_bytes:
            self._close_file()

    def _close_file(self) -> None:
        if self._file is None:
            return
        folder = cell_folder(self.layout.folder, self.cell)
        # Not the folder above: it is there, or its work has been given up.
        cell = Path(self.layout.table, folder)
        make_folder(cell.parent, exist_ok=True)
        make_folder(cell, exist_ok=True)
        path, size_bytes = self._file.close(self.layout.table, folder)
        facts = self._file.row_groups
        slots = list(zip(*(row_group.slots for row_group in facts), strict=True))
        self.written.files.append(
            CellFile(
                path=path,
                cell=self.cell,
                size_bytes=size_bytes,
                records=sum(row_group.records for row_group in facts),
                min_ins=min(slots[0]),
                max_ins=max(slots[1]),
                min_exp=min(slots[2]),
                max_exp=max(slots[3]),
            )
        )
        self._file = None


def _row_group_cuts(table: pa.Table, layout: Layout) -> list[int]:
    """Return where row groups start and end: at key boundaries, except within one key that fills several."""
    starts = np.append(key_starts(table, layout.key), table.num_rows)
    row_bytes = max(1, table.nbytes // table.num_rows)
    rows = max(1, layout.sizes.row_group_bytes // row_bytes)
    long = np.diff(starts) >= max(2, layout.sizes.long_key_bytes // row_bytes)
    alone = np.unique(np.concatenate([starts[:-1][long], starts[1:][long]]))
    cuts = [0]
    while cuts[-1] < table.num_rows:
        start = cuts[-1]
        boundary = starts[np.searchsorted(starts, start + rows, side="right") - 1]
        following = np.searchsorted(alone, start, side="right")
        if following < len(alone):
            boundary = min(boundary, alone[following])
        if boundary <= start:  # this key fills more than a row group
            boundary = min(starts[np.searchsorted(starts, start, side="right")], start + rows)
        cuts.append(int(boundary))
    return cuts


def split_cells(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Cell, pa.Table]]:
    """Cut batches that are sorted by cell into tables of one cell each."""
    for batch in batches:
        if batch.num_rows:
            table = pa.Table.from_batches([batch])
            starts = [*key_starts(table, ("_g", "_e")).tolist(), table.num_rows]
            for start, end in itertools.pairwise(starts):
                records = table.slice(start, end - start)
                yield Cell(records["_g"][0].as_py(), records["_e"][0].as_py()), records
