"""Writing sorted runs of cells, with Arrow, wherever a task runs.

A run is one or more Parquet files in the order of key, then expiration. Row groups end where a key ends, so that
a probe reads little more than it needs: keys with many records have row groups of their own, short ones share. A file's
name ends in the hash of its footer, and beside it lies what the directory knows of it. The same functions serve
Spark's tasks and a thread of this process; they know folders and files, not tables.
"""

from __future__ import annotations

import bisect
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ebb.index.cellfile import CellFile
from ebb.index.columns import EXPIRES_SLOT, INSERTED_SLOT
from ebb.index.grid import Cell
from ebb.index.keys import Interval
from ebb.warehouse.parquet.arrow import Codes, key_starts
from ebb.warehouse.parquet.blocks import blocks_of, has_plain_bytes, write_side_file
from ebb.warehouse.parquet.checksums import leaves, room_for_sums, write_checksums
from ebb.warehouse.parquet.datafile import DataFile
from ebb.warehouse.parquet.sizes import WriteSizes
from ebb.warehouse.store.files import make_file, make_folder, rename, size_of
from ebb.warehouse.store.paths import cell_folder, hashed_name, new_data_file

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
    """The files of one or more runs and how many records expire in each slot."""

    files: list[CellFile] = field(default_factory=list)
    expirations: Counter[int] = field(default_factory=Counter)

    def add(self, other: Written) -> None:
        """Take over what another writer wrote."""
        self.files.extend(other.files)
        self.expirations.update(other.expirations)

    def dumps(self) -> str:
        """Write it as JSON, to bring it from a task to the driver."""
        return json.dumps({"files": [asdict(f) for f in self.files], "expirations": list(self.expirations.items())})

    @staticmethod
    def loads(text: str) -> Written:
        """Read what :meth:`dumps` wrote."""
        value = json.loads(text)
        files = [CellFile(**{**f, "cell": Cell(*f["cell"])}) for f in value["files"]]
        return Written(files=files, expirations=Counter(dict(value["expirations"])))


class RunWriter:
    """Writes one sorted run of one cell.  Feed it sorted tables, then close it."""

    def __init__(self, layout: Layout, cell: Cell) -> None:
        self.layout = layout
        self.cell = cell
        self.written = Written()
        self._waiting: list[pa.Table] = []
        self._waiting_bytes = 0
        self._writer: pq.ParquetWriter | None = None
        self._path = ""
        self._file_bytes = 0
        self._slots: list[pa.Table] = []  # of the records in the file
        self._ends: list[Interval] = []  # of the codes of each row group
        self._sums = 0  # how many checksums a row group has

    def add(self, table: pa.Table) -> None:
        """Take the next records of the run."""
        if not table.num_rows:
            return
        self._waiting.append(table)
        self._waiting_bytes += table.nbytes
        if self._waiting_bytes >= self.layout.sizes.buffer_bytes:
            self._flush(last=False)

    def close(self) -> Written:
        """Write what is waiting and return what was written."""
        self._flush(last=True)
        self._close_file()
        return self.written

    def _flush(self, *, last: bool) -> None:
        if not self._waiting:
            return
        table = pa.concat_tables(self._waiting).combine_chunks()
        cuts = _row_group_cuts(
            table, self.layout, self._row_group_bytes(table.nbytes, is_whole=last and not self._slots)
        )
        if not last and len(cuts) > 2:
            cuts.pop()
        for start, end in itertools.pairwise(cuts):
            self._write_row_group(table.slice(start, end - start))
        rest = table.slice(cuts[-1])
        self._waiting = [rest] if rest.num_rows else []
        self._waiting_bytes = rest.nbytes

    def _row_group_bytes(self, table_bytes: int, *, is_whole: bool) -> int:
        """Return how large row groups are: in a small file a probe should not have to read a large part of it."""
        sizes = self.layout.sizes
        if not is_whole:
            return sizes.row_group_bytes
        return max(sizes.least_row_group_bytes, min(sizes.row_group_bytes, table_bytes // sizes.row_groups_per_file))

    def _write_row_group(self, row_group: pa.Table) -> None:
        if self._writer is None or self._file_bytes >= self.layout.sizes.file_bytes:
            self._close_file()
            self._open_file(row_group)
        assert self._writer is not None  # noqa: S101 - opened above
        self._writer.write_table(row_group, row_group_size=row_group.num_rows)
        self._file_bytes += row_group.nbytes
        self._slots.append(row_group.select([INSERTED_SLOT, EXPIRES_SLOT]))
        codes = Codes(row_group, self.layout.key)
        self._ends.append(Interval(codes[0], codes[row_group.num_rows - 1] + b"\x00"))

    def _open_file(self, sample: pa.Table) -> None:
        folder = cell_folder(self.layout.folder, self.cell)
        # Not the folder above: it is there, or its work has been given up.
        cell = Path(self.layout.table, folder)
        make_folder(cell.parent, exist_ok=True)
        make_folder(cell, exist_ok=True)
        self._path = new_data_file(folder)
        filters = _filtered(sample, self.layout)
        self._sums = sum(leaves(column.type) for column in self.layout.schema) + len(filters or ())
        make_file(f"{self.layout.table}/{self._path}")
        self._writer = pq.ParquetWriter(
            f"{self.layout.table}/{self._path}",
            self.layout.schema,
            compression="snappy",
            use_dictionary=_repetitive(sample),
            write_statistics=_described(sample, self.layout),
            bloom_filter_options=filters,
            write_page_checksum=True,
            store_schema=False,
            coerce_timestamps="us",
        )
        self._file_bytes, self._slots, self._ends = 0, [], []

    def _close_file(self) -> None:
        if self._writer is None:
            return
        self._writer.add_key_value_metadata(room_for_sums(self._sums * len(self._ends)))
        self._writer.close()
        self._writer = None
        written = self._path
        self._path = hashed_name(written, write_checksums(self.layout.table, written))
        rename(f"{self.layout.table}/{written}", f"{self.layout.table}/{self._path}")
        slots = pa.concat_tables(self._slots)
        inserted, expires = (pc.min_max(slots[name]).as_py() for name in (INSERTED_SLOT, EXPIRES_SLOT))
        for item in pc.value_counts(slots[EXPIRES_SLOT]).to_pylist():
            self.written.expirations[item["values"]] += item["counts"]
        file = CellFile(
            path=self._path,
            cell=self.cell,
            size_bytes=size_of(f"{self.layout.table}/{self._path}"),
            records=slots.num_rows,
            min_ins=inserted["min"],
            max_ins=inserted["max"],
            min_exp=expires["min"],
            max_exp=expires["max"],
        )
        blocks = blocks_of(DataFile.open(self.layout.table, file), self.layout.key, self._ends)
        write_side_file(self.layout.table, file.path, blocks)
        self.written.files.append(file)


def _repetitive(sample: pa.Table) -> list[str]:
    """Return the columns that a dictionary makes smaller, judged by the first row group of a file."""
    plain = [f.name for f in sample.schema if not pa.types.is_nested(f.type) and not pa.types.is_boolean(f.type)]
    return [name for name in plain if pc.count_distinct(sample[name]).as_py() * 2 <= sample.num_rows]


def _described(sample: pa.Table, layout: Layout) -> list[str]:
    """Return the columns of which row groups keep the least and the greatest value."""
    narrow = [
        f.name
        for f in sample.schema
        if not pa.types.is_nested(f.type) and sample[f.name].nbytes <= layout.sizes.wide_bytes * sample.num_rows
    ]
    return list(dict.fromkeys([*layout.key, *narrow]))


def _filtered(sample: pa.Table, layout: Layout) -> dict[str, dict[str, float]] | None:
    """Return the Bloom filters that keep a probe from row groups without its key: one per key column of many values."""
    counts = {
        name: pc.count_distinct(sample[name]).as_py() for name in layout.key if has_plain_bytes(sample[name].type)
    }
    return {name: {"ndv": n, "fpp": 0.01} for name, n in counts.items() if n >= layout.sizes.filtered_keys} or None


def _row_group_cuts(table: pa.Table, layout: Layout, row_group_bytes: int) -> list[int]:
    """Return where row groups start and end: at key boundaries, except within one key that fills several."""
    starts = [*key_starts(table, layout.key), table.num_rows]
    sizes = layout.sizes
    row_bytes = max(1, table.nbytes // table.num_rows)
    rows, key_rows = max(1, row_group_bytes // row_bytes), max(1, sizes.key_row_group_bytes // row_bytes)
    few_keys = sizes.keys_per_row_group * table.num_rows // (len(starts) - 1)
    if few_keys * row_bytes >= sizes.least_row_group_bytes:
        rows = min(rows, few_keys)
    long_rows = max(2, sizes.least_row_group_bytes // row_bytes)
    long = [(low, high) for low, high in itertools.pairwise(starts) if high - low >= long_rows]
    alone = sorted({edge for edges in long for edge in edges})
    cuts = [0]
    while cuts[-1] < table.num_rows:
        start = cuts[-1]
        boundary = starts[bisect.bisect_right(starts, start + rows) - 1]
        following = bisect.bisect_right(alone, start)
        if following < len(alone):
            boundary = min(boundary, alone[following])
        if boundary <= start:  # this key fills more than a row group
            boundary = min(starts[bisect.bisect_right(starts, start)], start + key_rows)
        cuts.append(boundary)
    return cuts


def split_cells(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Cell, pa.Table]]:
    """Cut batches that are sorted by cell into tables of one cell each."""
    for batch in batches:
        if batch.num_rows:
            table = pa.Table.from_batches([batch])
            starts = [*key_starts(table, ("_g", "_e")), table.num_rows]
            for start, end in itertools.pairwise(starts):
                records = table.slice(start, end - start)
                yield Cell(records["_g"][0].as_py(), records["_e"][0].as_py()), records
