"""Cell files: how sorted runs are written and merged, with Arrow, wherever a task runs.

A run is one or more Parquet files in the order of key, then expiration. Row groups end where a key ends, so that
a probe reads little more than it needs: keys with long runs have row groups of their own, short ones share. A file's
name ends in the hash of its footer, and beside it lies what the directory knows of it. The same functions serve
Spark's tasks and a thread of this process; they know folders and files, not tables.
"""

from __future__ import annotations

import bisect
import contextlib
import itertools
import json
import os
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from index.cellfile import CellFile, Rewrite
from index.grid import Cell
from index.keys import Interval
from warehouse.directory import blocks_of, has_plain_bytes, write_side_file
from warehouse.keys import Codes
from warehouse.parquet import DataFile, leaves, room_for_sums, seal_file
from warehouse.schema import EXPIRES_SLOT, INSERTED_SLOT
from warehouse.table import side_file

__all__ = ["Layout", "RunWriter", "Written", "conform", "merge_runs", "remove_all_but", "remove_folder", "split_cells"]

GROUP_BYTES = 512 * 1024  # a row group ends at the last key boundary before so many bytes
LEAST_GROUP_BYTES = 128 * 1024  # or before so many, if the file is small; a run of so many has row groups of its own
GROUPS_PER_FILE = 64  # a file has about so many row groups, between these sizes
RUNS_PER_GROUP = 2  # of long keys: so many runs that have LEAST_GROUP_BYTES together fill a row group
KEY_GROUP_BYTES = 1024 * 1024  # the run of one key is cut into row groups of so many bytes
FILE_BYTES = 128 * 1024 * 1024  # a run continues in another file at the first key boundary after so many bytes
BUFFER_BYTES = 16 * 1024 * 1024  # rows wait for their row group in memory until there are so many
STRIPE_BYTES = 256 * 1024 * 1024  # a merge holds so many uncompressed bytes at once
WIDE_BYTES = 64  # no statistics of wider values: they would make footers large and tell little
FILTERED_KEYS = 16  # row groups with fewer keys than this need no Bloom filter


@dataclass(frozen=True, slots=True)
class Layout:
    """What a writer must know about a table."""

    schema: pa.Schema
    key: tuple[str, ...]
    table: str  # the table's folder
    folder: str  # the folder of this commit, below it


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
        if self._waiting_bytes >= BUFFER_BYTES:
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
        cuts = _group_cuts(table, self.layout.key, self._group_bytes(table.nbytes, is_whole=last and not self._slots))
        if not last and len(cuts) > 2:
            cuts.pop()
        for start, end in itertools.pairwise(cuts):
            self._write_group(table.slice(start, end - start))
        rest = table.slice(cuts[-1])
        self._waiting = [rest] if rest.num_rows else []
        self._waiting_bytes = rest.nbytes

    @staticmethod
    def _group_bytes(table_bytes: int, *, is_whole: bool) -> int:
        """Return how large row groups are: in a small file a probe should not have to read a large part of it."""
        return max(LEAST_GROUP_BYTES, min(GROUP_BYTES, table_bytes // GROUPS_PER_FILE)) if is_whole else GROUP_BYTES

    def _write_group(self, group: pa.Table) -> None:
        if self._writer is None or self._file_bytes >= FILE_BYTES:
            self._close_file()
            self._open_file(group)
        assert self._writer is not None  # noqa: S101 - opened above
        self._writer.write_table(group, row_group_size=group.num_rows)
        self._file_bytes += group.nbytes
        self._slots.append(group.select([INSERTED_SLOT, EXPIRES_SLOT]))
        codes = Codes(group, self.layout.key)
        self._ends.append(Interval(codes[0], codes[group.num_rows - 1] + b"\x00"))

    def _open_file(self, sample: pa.Table) -> None:
        folder = f"{self.layout.folder}/_g={self.cell.group}/_e={self.cell.cohort}"
        # Not the folder above: it is there, or its work has been given up.
        cell = Path(self.layout.table, folder)
        cell.parent.mkdir(exist_ok=True)
        cell.mkdir(exist_ok=True)
        self._path = f"{folder}/part-{uuid.uuid4().hex}.parquet"
        filters = _filtered(sample, self.layout.key)
        self._sums = sum(leaves(column.type) for column in self.layout.schema) + len(filters or ())
        self._writer = pq.ParquetWriter(
            f"{self.layout.table}/{self._path}",
            self.layout.schema,
            compression="snappy",
            use_dictionary=_repetitive(sample),
            write_statistics=_described(sample, self.layout.key),
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
        hashed = seal_file(self.layout.table, written)
        self._path = f"{written.removesuffix('.parquet')}-{hashed}.parquet"
        os.rename(f"{self.layout.table}/{written}", f"{self.layout.table}/{self._path}")
        slots = pa.concat_tables(self._slots)
        inserted, expires = (pc.min_max(slots[name]).as_py() for name in (INSERTED_SLOT, EXPIRES_SLOT))
        for item in pc.value_counts(slots[EXPIRES_SLOT]).to_pylist():
            self.written.expirations[item["values"]] += item["counts"]
        file = CellFile(
            path=self._path,
            cell=self.cell,
            size_bytes=os.path.getsize(f"{self.layout.table}/{self._path}"),
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


def _described(sample: pa.Table, key: Sequence[str]) -> list[str]:
    """Return the columns of which row groups keep the least and the greatest value."""
    narrow = [
        f.name
        for f in sample.schema
        if not pa.types.is_nested(f.type) and sample[f.name].nbytes <= WIDE_BYTES * sample.num_rows
    ]
    return list(dict.fromkeys([*key, *narrow]))


def _filtered(sample: pa.Table, key: Sequence[str]) -> dict[str, dict[str, float]] | None:
    """Return the Bloom filters that keep a probe from row groups without its key: one per key column of many values."""
    counts = {name: pc.count_distinct(sample[name]).as_py() for name in key if has_plain_bytes(sample[name].type)}
    return {name: {"ndv": n, "fpp": 0.01} for name, n in counts.items() if n >= FILTERED_KEYS} or None


def key_starts(table: pa.Table, key: Sequence[str]) -> list[int]:
    """Return the offsets at which a new key starts; the first is 0."""
    changes: Any = None
    for name in key:
        column = table[name]
        differs = pc.not_equal(column.slice(1), column.slice(0, table.num_rows - 1))
        changes = differs if changes is None else pc.or_(changes, differs)
    return [0, *pc.add(pc.indices_nonzero(changes), 1).to_pylist()]


def _group_cuts(table: pa.Table, key: Sequence[str], group_bytes: int) -> list[int]:
    """Return where row groups start and end: at key boundaries, except within the long run of one key."""
    starts = [*key_starts(table, key), table.num_rows]
    row_bytes = max(1, table.nbytes // table.num_rows)
    rows, key_rows = max(1, group_bytes // row_bytes), max(1, KEY_GROUP_BYTES // row_bytes)
    few_runs = RUNS_PER_GROUP * table.num_rows // (len(starts) - 1)
    if few_runs * row_bytes >= LEAST_GROUP_BYTES:
        rows = min(rows, few_runs)
    long_rows = max(2, LEAST_GROUP_BYTES // row_bytes)
    long = [(low, high) for low, high in itertools.pairwise(starts) if high - low >= long_rows]
    alone = sorted({edge for run in long for edge in run})
    cuts = [0]
    while cuts[-1] < table.num_rows:
        start = cuts[-1]
        boundary = starts[bisect.bisect_right(starts, start + rows) - 1]
        following = bisect.bisect_right(alone, start)
        if following < len(alone):
            boundary = min(boundary, alone[following])
        if boundary <= start:  # the run of this key is longer than a row group
            boundary = min(starts[bisect.bisect_right(starts, start)], start + key_rows)
        cuts.append(boundary)
    return cuts


def merge_runs(layout: Layout, task: Rewrite) -> Written:
    """Merge the input files into one sorted run, leaving out what has expired.

    Reads at most about ``STRIPE_BYTES`` at once: larger inputs are merged one key range after the other.
    """
    sources = [DataFile.open(layout.table, file) for file in task.inputs]
    writer = RunWriter(layout, task.cell)
    order = [(name, "ascending") for name in (*layout.key, EXPIRES_SLOT)]
    for low, high in _stripes(sources, layout.key[0]):
        parts = list(_read_stripe(sources, layout, low, high, task.clock))
        if parts:
            # One chunk per column first: sorting and taking from many chunks costs several times more.
            merged = pa.concat_tables(parts).combine_chunks()
            writer.add(merged if len(sources) == 1 else merged.sort_by(order))
    return writer.close()


def _stripes(sources: Sequence[DataFile], key: str) -> list[tuple[Any, Any]]:
    """Return key ranges (low, high] of about ``STRIPE_BYTES`` each; None is open."""
    ends: list[tuple[Any, int]] = []
    for file in sources:
        column = file.leaf(key)
        for group in range(file.groups):
            facts = file.footer.row_group(group)
            stats = facts.column(column).statistics
            if stats is None or not stats.has_min_max:
                return [(None, None)]
            ends.append((stats.max, facts.total_byte_size))
    ends.sort(key=lambda end: end[0])
    stripes: list[tuple[Any, Any]] = []
    low, size = None, 0
    for high, bytes_ in ends[:-1]:
        size += bytes_
        if size >= STRIPE_BYTES and high != low:
            stripes.append((low, high))
            low, size = high, 0
    return [*stripes, (low, None)]


def _read_stripe(sources: Sequence[DataFile], layout: Layout, low: Any, high: Any, clock: int) -> Iterator[pa.Table]:
    key = layout.key[0]
    kind = layout.schema.field(key).type
    for file in sources:
        column = file.leaf(key)
        groups = []
        for group in range(file.groups):
            stats = file.footer.row_group(group).column(column).statistics
            above = low is not None and stats is not None and stats.has_min_max and stats.max <= low
            below = high is not None and stats is not None and stats.has_min_max and stats.min > high
            if not (above or below):
                groups.append(group)
        if not groups:
            continue
        table = conform(file.read(groups), layout.schema)
        mask = pc.greater(table[EXPIRES_SLOT], clock)
        if low is not None:
            mask = pc.and_(mask, pc.greater(table[key], pa.scalar(low, kind)))
        if high is not None:
            mask = pc.and_(mask, pc.less_equal(table[key], pa.scalar(high, kind)))
        yield table.filter(mask)


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Give a table the columns of ``schema``: those added after the file was written are null."""
    if table.schema.equals(schema):
        return table
    columns = [
        table[field.name].cast(field.type) if field.name in table.column_names else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def split_cells(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Cell, pa.Table]]:
    """Cut batches that are sorted by cell into tables of one cell each."""
    for batch in batches:
        if batch.num_rows:
            table = pa.Table.from_batches([batch])
            starts = [*key_starts(table, ("_g", "_e")), table.num_rows]
            for start, end in itertools.pairwise(starts):
                part = table.slice(start, end - start)
                yield Cell(part["_g"][0].as_py(), part["_e"][0].as_py()), part


def remove_folder(folder: Path) -> None:
    """Remove a folder of ours and everything in it, whatever state it is in and whoever still writes there."""
    import shutil

    # Under another name first: a late task fails instead of adding to what is being removed.
    grave = folder.with_name(f"x-{folder.name}")
    with contextlib.suppress(OSError):
        folder.rename(grave)
    shutil.rmtree(grave, ignore_errors=True)


def remove_all_but(table: Path, folder: str, kept: Collection[str]) -> None:
    """Remove what is in a folder of ours below a table, except some data files and what lies beside them."""
    kept = {place for path in kept if path.startswith(f"{folder}/") for place in (path, side_file(path))}
    if not kept:
        remove_folder(table / folder)
        return
    for place, _, names in os.walk(table / folder, topdown=False):
        for name in names:
            if os.path.relpath(f"{place}/{name}", table) not in kept:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(f"{place}/{name}")
        with contextlib.suppress(OSError):  # not empty
            os.rmdir(place)
