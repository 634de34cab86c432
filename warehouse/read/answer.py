"""How one request is answered: which columns and row groups are read, and which of their records are visible.

A probe asks the directory which row groups can hold its keys and reads those, in key order; a scan reads file after
file and leaves out the row groups whose statistics exclude its predicate. Both read several row groups at a time and
hold no more than those.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ebb.index.cellfile import CellFile
from ebb.index.columns import EXPIRES_SLOT, INSERTED_SLOT
from ebb.index.directory import Block, stop_order, stripes
from ebb.index.keys import Wanted
from ebb.index.predicate.pruning import Extent, may_match
from ebb.index.predicate.typed import names, value
from ebb.warehouse.parquet.arrow import arrow_schema, conform, moment_of
from ebb.warehouse.parquet.chunks import (
    OpenFiles,
    RowGroups,
    alike,
    narrow_columns,
    read_parts,
    read_row_groups,
    read_runs,
)
from ebb.warehouse.parquet.datafile import DataFile
from ebb.warehouse.parquet.footer import damaged
from ebb.warehouse.parquet.order import in_key_order
from ebb.warehouse.parquet.sizes import ReadSizes
from ebb.warehouse.parquet.statistics import bounds
from ebb.warehouse.read.finder import Finder
from ebb.warehouse.read.mask import mask as predicate_mask
from ebb.warehouse.read.order import runs_of, shared_out, wanted_places
from ebb.warehouse.read.pool import in_parallel
from ebb.warehouse.read.request import Cost, Read
from ebb.warehouse.table.snapshot import Snapshot

__all__ = ["Answer", "portions"]

_FEW_KEYS = 64  # up to so many, a probe reads some pages of a row group
_FEW_RUNS = 16  # up to so many runs of records in a row group, the pages that hold them are looked for
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 24 * 60 * 60 * 1_000_000  # microseconds: a date beside a time is its first moment


class Answer:
    """How one request is answered: which columns are needed, and what is kept of a row group."""

    def __init__(
        self, snapshot: Snapshot, finder: Finder, request: Read, *, clock: int, as_of: int | None, cost: Cost
    ) -> None:
        spec = snapshot.spec
        self.snapshot = snapshot
        self.finder, self.request, self.clock, self.as_of, self.cost = finder, request, clock, as_of, cost
        self.key, self.expires = spec.key, spec.expires
        self.column_of, self.user_columns = spec.column, spec.columns
        self.schema = arrow_schema(spec.columns)
        order = (*spec.key, spec.expires, EXPIRES_SLOT) if request.is_probe else ()
        marks = (*order, EXPIRES_SLOT) if request.with_marks else ()
        self.shown = tuple(dict.fromkeys([*request.columns, *marks]))

    def schema_of(self, files: Iterable[CellFile], columns: Sequence[str]) -> pa.Schema:
        """Return the columns that have to be read of files for some of them."""
        needed = dict.fromkeys([*columns, *self._deciding(list(files))])
        return pa.schema([self.schema.field(name) for name in needed])

    def _deciding(self, files: Sequence[CellFile]) -> list[str]:
        """Return the columns that decide which records of files are visible."""
        needed = list(names(self.request.where))
        if any(file.has_expired(self.clock) for file in files):
            needed.append(EXPIRES_SLOT)
        if any(self._has_older(file) for file in files):
            needed.append(INSERTED_SLOT)
        if self.as_of is not None:
            needed.append(self.expires)
        return needed

    def _has_older(self, file: CellFile) -> bool:
        """Whether a file has records that were inserted before those asked for."""
        return self.request.after is not None and file.min_ins <= self.request.after

    def visible(self, table: pa.Table, files: Sequence[CellFile]) -> pa.Table:
        """Leave out what has expired, what was there before, and what the predicate does not want."""
        mask = self._mask(table, files)
        return table if mask is None else table.filter(mask)

    def _mask(self, table: pa.Table, files: Sequence[CellFile]) -> Any:
        """Return which records of files are visible; None if all are."""
        masks: list[Any] = []
        if any(file.has_expired(self.clock) for file in files):
            masks.append(pc.greater(table[EXPIRES_SLOT], self.clock))
        if self.as_of is not None:
            masks.append(pc.greater(table[self.expires], moment_of(self.as_of, table[self.expires].type)))
        if any(self._has_older(file) for file in files):
            masks.append(pc.greater(table[INSERTED_SLOT], self.request.after))
        if self.request.where is not None:
            masks.append(predicate_mask(table, self.request.where, self.user_columns))
        for other in masks[1:]:
            masks[0] = pc.and_kleene(masks[0], other)
        return None if not masks or pc.all(masks[0], skip_nulls=False).as_py() else masks[0]

    def scan(self, files: Sequence[CellFile]) -> Iterator[pa.Table]:
        """Yield the records of files in no particular order."""
        cost = self.cost

        def work(task: tuple[CellFile, DataFile, list[int]]) -> pa.Table:
            file, data, row_groups = task
            schema = self.schema_of([file], self.shown)
            cost.count(data=data.column_bytes(row_groups, schema.names))
            records = read_row_groups([(data, row_groups)], schema.names)
            return self.visible(conform(records, schema), [file]).select(self.shown)

        def tasks() -> Iterator[tuple[CellFile, DataFile, list[int]]]:
            for file in files:
                # Who reads everything waits for that more than for footers, which take memory in a large window.
                data = self.finder.open(file, keep=self.request.where is not None, cost=cost)
                cost.files_read += 1
                cost.groups += data.row_groups
                for row_groups in portions(data, self.row_groups(data), self.finder.sizes):
                    cost.groups_read += len(row_groups)
                    yield file, data, row_groups

        for table in in_parallel(work, tasks()):
            if table.num_rows:
                yield table

    def row_groups(self, data: DataFile) -> Iterator[int]:
        """Yield the row groups of a file that may match."""
        looked_at = sorted(names(self.request.where) & data.names)
        leaves = {name: data.leaf(name) for name in looked_at if self.column_of(name).is_sortable}
        for row_group in range(data.row_groups):
            if self.request.where is None or self._may_match(data, row_group, leaves):
                yield row_group

    def _may_match(self, data: DataFile, row_group: int, leaves: dict[str, int]) -> bool:
        extents = {}
        for name, leaf in leaves.items():
            facts, ends = data.footer.row_group(row_group), bounds(data, row_group, leaf)
            nulls = facts.column(leaf).statistics
            if ends is None or not nulls.has_null_count:
                continue
            kind = self.column_of(name).type
            low, high = (end * _DAY if kind == "date" else end for end in ends)
            extents[name] = Extent(
                low=low,
                high=None if kind in ("float", "double") else high,  # NaN is greater, and not in the statistics
                has_nulls=nulls.null_count > 0,
                has_values=nulls.null_count < facts.num_rows,
            )
        assert self.request.where is not None  # noqa: S101 - the caller looked
        return may_match(self.request.where, extents, lambda text, name: _ordered(value(text, self.column_of(name))))

    def probe(self, files: Sequence[CellFile], wanted: Wanted) -> Iterator[pa.Table]:
        """Yield the records of what is wanted in the order of key and expiration."""
        cost, finder = self.cost, self.finder
        by_path = {file.path: file for file in files}
        began = time.perf_counter()
        met = finder.find(self.snapshot, files, wanted, cost)
        blocks = finder.filtered(met, files, wanted, cost)
        cost.directory_seconds += time.perf_counter() - began
        cost.groups_met += len(met)
        read: set[str] = set()
        sizes, order = finder.sizes, (*self.key, self.expires)
        weighed = self._weighed(blocks, wanted)
        cut = list(stripes(weighed, sizes.first_bytes, sizes.most_bytes, sizes.least_bytes))
        codes = (EXPIRES_SLOT,) if len(cut) > 1 else ()  # stripes are cut by codes, which end in the slot
        columns = tuple(dict.fromkeys([*self.shown, *order, *codes]))

        def read_stripe(stripe: Sequence[Block]) -> Iterator[pa.Table]:
            cost.groups_read += len(stripe)
            cost.files_read += len({block.path for block in stripe} - read)
            read.update(block.path for block in stripe)
            near = wanted.between(stripe[0].start, max((block.stop for block in stripe), key=stop_order))

            def work(share: list[tuple[CellFile, list[int]]]) -> pa.Table:
                return self._read_share(share, near, columns)

            shares = [
                [(by_path[path], row_groups) for path, row_groups in share]
                for share in shared_out(stripe, finder.sizes)
            ]
            return in_parallel(work, shares) if len(shares) > 1 else map(work, shares)

        for table in in_key_order(cut, read_stripe, self.key, order):
            yield table.select(self.shown)

    def _sorted(self, table: pa.Table) -> Any:
        """Return the places of records in the order of key and expiration."""
        return pc.sort_indices(table, [(name, "ascending") for name in (*self.key, self.expires)]).to_numpy()

    def _weighed(self, blocks: Sequence[Block], wanted: Wanted) -> Sequence[Block]:
        """Return blocks with about the sizes that are read of them: of those with several keys, for few keys, some pages."""
        if not wanted.keys or len(wanted.keys) > _FEW_KEYS:
            return blocks
        few_bytes = len(wanted.keys) * self.finder.sizes.page_bytes
        return [block._replace(size_bytes=min(block.size_bytes, few_bytes)) for block in blocks]

    def _read_share(
        self, share: Sequence[tuple[CellFile, list[int]]], wanted: Wanted, columns: Sequence[str]
    ) -> pa.Table:
        """Return some columns of the wanted records of row groups of some files."""
        files = {file.path: file for file, _ in share}
        schema = self.schema_of(files.values(), columns)
        opened = [(self.finder.look_up(file, self.cost), row_groups) for file, row_groups in share]
        tables = []
        for sources in alike(opened, schema.names):
            mine = [files[data.path] for data, _ in sources]
            with OpenFiles() as files_open:
                table = conform(self._read_wanted(sources, mine, schema, wanted, files_open), schema)
            tables.append(self.visible(table, mine).select(columns))
        return pa.concat_tables(tables)

    def _read_wanted(
        self,
        sources: Sequence[RowGroups],
        files: Sequence[CellFile],
        schema: pa.Schema,
        wanted: Wanted,
        opened: OpenFiles,
    ) -> pa.Table:
        """Return the wanted records of row groups that are alike: narrow columns whole, then pages of the wide ones."""
        first = sources[0][0]
        names = [name for name in schema.names if name in first.columns]
        if missing := [name for name in self.key if name not in first.columns]:
            raise damaged(f"{first.path}: it has no column {missing[0]}")
        if not first.is_ours:  # in no order that is known
            table = conform(read_row_groups(sources, names), schema)  # Arrow cannot sort all types of other tools
            self.cost.count(data=first.column_bytes(sources[0][1], names))
            table = table.sort_by([(name, "ascending") for name in (*self.key, EXPIRES_SLOT) if name in names])
            return table.take(wanted_places(table, self.key, wanted, [table.num_rows]))
        parts = [(data, number) for data, numbers in sources for number in numbers]
        narrow = narrow_columns(parts, names)
        whole = [name for name in names if name in narrow or name in self.key]
        if len(wanted.keys) <= _FEW_KEYS:
            table = self.finder.narrow(parts, whole, opened, self.cost)
        else:  # nearly every row group has some of many keys: what would be kept is everything
            table = read_parts(parts, whole, opened)
            self.cost.count(data=sum(data.column_bytes(numbers, whole) for data, numbers in sources))
        by_file = [sum(data.contents.records[number] for number in numbers) for data, numbers in sources]
        places = wanted_places(table, self.key, wanted, by_file)
        if len(places) < table.num_rows:
            table = table.take(places)
        if all(name in whole for name in self._deciding(files)):  # what is not visible need not be read
            mask = self._mask(table, files)
            if mask is not None:
                table, places = table.filter(mask), places[mask.to_numpy()]
        wide = [name for name in names if name not in whole]
        if not wide or not len(places):
            return table
        if np.count_nonzero(np.diff(places) != 1) > _FEW_RUNS * len(parts):
            self.cost.count(data=sum(data.column_bytes(numbers, wide) for data, numbers in sources))
            more = read_parts(parts, wide, opened).take(places)
            columns = [more[name] for name in wide]
        else:
            # Wide values are moved once: into the order in which they are wanted in the end.
            order = self._sorted(table) if self.expires in whole else np.arange(len(places))
            table = table.take(order)
            runs = runs_of(places, [data.contents.records[number] for data, number in parts])
            read = [read_runs(parts, runs, name, opened) for name in wide]
            self.cost.count(data=sum(found.size_bytes for found in read))
            columns = [found.values.take(found.places[order]) for found in read]
        return pa.table([*table.columns, *columns], names=[*whole, *wide])


def portions(data: DataFile, row_groups: Iterable[int], sizes: ReadSizes) -> Iterator[list[int]]:
    """Cut row groups of a file into portions for one thread."""
    portion: list[int] = []
    weighed = 0
    for row_group in row_groups:
        portion.append(row_group)
        weighed += max(data.contents.row_group_bytes(row_group), sizes.least_bytes)
        if weighed >= sizes.scan_bytes:
            yield portion
            portion, weighed = [], 0
    if portion:
        yield portion


def _ordered(literal: Any) -> Any:
    """Return a value as statistics have it: a date or time in microseconds since 1970, a text as its bytes."""
    if isinstance(literal, datetime):
        return (literal - _EPOCH) // timedelta(microseconds=1)
    if isinstance(literal, date):
        return (literal - _EPOCH.date()).days * _DAY
    return literal.encode() if isinstance(literal, str) else literal
