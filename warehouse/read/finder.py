"""What a process knows of the files of a table: which row groups may hold a key, and footers, all bounded."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ebb.index.cellfile import CellFile
from ebb.index.columns import Column
from ebb.index.directory import Block, FileBlocks, find
from ebb.index.keys import Key, Wanted
from ebb.index.ranges import FEW_FILES, KeyRanges
from ebb.warehouse.parquet.arrow import arrow_schema
from ebb.warehouse.parquet.bloom import has_plain_bytes, may_hold, plain_bytes, xxh64
from ebb.warehouse.parquet.chunks import OpenFiles, Part, read_parts
from ebb.warehouse.parquet.datafile import DataFile
from ebb.warehouse.parquet.sizes import ReadSizes
from ebb.warehouse.parquet.statistics import blocks_of
from ebb.warehouse.ranges import read_ranges
from ebb.warehouse.read.recent import Recent
from ebb.warehouse.read.request import Cost
from ebb.warehouse.table.snapshot import Snapshot

__all__ = ["Finder"]

_FILTERED_KEYS = 64  # for more keys than this, filters cost more than they save


class Finder:
    """What this process knows of the files of one table.  Shared by its windows and by threads."""

    def __init__(self, table: str, key: Sequence[Column], sizes: ReadSizes | None = None) -> None:
        self.table = table
        self.sizes = sizes or ReadSizes()
        self._names = [column.name for column in key]
        self._kinds = [field.type for field in arrow_schema(key)][: len(key)]
        self._known: Recent[tuple[DataFile, FileBlocks]] = Recent(self.sizes.known_bytes)
        self._footers: Recent[DataFile] = Recent(self.sizes.footer_chunks)
        self._narrow: Recent[pa.Table] = Recent(self.sizes.narrow_bytes)
        self._ranges, self._objects = KeyRanges(), set[str]()  # of files, and from which objects they are known
        self._lock = threading.Lock()

    def open(self, file: CellFile, *, keep: bool = True, cost: Cost | None = None) -> DataFile:
        """Return a data file with its footer, which is kept; if ``keep`` is false, only as long as few are."""
        data = self._footers.get(file.path)
        if data is None:
            data = DataFile.open(self.table, file)
            if cost is not None:
                cost.count(directory=data.known_bytes)
            chunks = data.row_groups * len(data.names)
            if keep or self._footers.total + chunks <= self.sizes.few_chunks:
                self._footers.put(file.path, data, chunks)
        return data

    def look_up(self, file: CellFile, cost: Cost) -> DataFile:
        """Return a data file with its contents, which are kept."""
        return self._look_up(file, cost)[0]

    def _look_up(self, file: CellFile, cost: Cost) -> tuple[DataFile, FileBlocks]:
        known = self._known.get(file.path)
        if known is None:
            data = DataFile.look_up(self.table, file)
            cost.count(directory=data.known_bytes)
            known = data, blocks_of(data, self._names)
            self._known.put(file.path, known, data.known_bytes)
        return known

    def narrow(self, parts: Sequence[Part], names: Sequence[str], opened: OpenFiles, cost: Cost) -> pa.Table:
        """Return narrow columns of row groups, one after the other.  They are kept: they are small, and tell where keys are."""
        found = [self._narrow.get((data.path, number, *names)) for data, number in parts]
        left = [place for place, table in enumerate(found) if table is None]
        if left:
            read, at = read_parts([parts[place] for place in left], names, opened), 0
            for place in left:
                data, number = parts[place]
                records = data.contents.records[number]
                # A copy: a slice would keep all that was read with it.
                found[place] = table = read.take(np.arange(at, at + records))
                at += records
                cost.count(data=data.column_bytes([number], names))
                self._narrow.put((data.path, number, *names), table, table.nbytes)
        return pa.concat_tables(found)

    def find(self, snapshot: Snapshot, files: Sequence[CellFile], wanted: Wanted, cost: Cost) -> list[Block]:
        """Return the blocks of these files that may hold what is wanted, in the order of their starts."""
        self._learn_ranges(snapshot, files, cost)
        with self._lock:
            met = self._ranges.meeting(wanted.intervals)
            passed = {
                f.path: self._ranges.row_groups(f.path) for f in files if f.path in self._ranges and f.path not in met
            }
        cost.groups += sum(passed.values())
        cost.files_passed += len(passed)
        known = [self._look_up(file, cost)[1] for file in files if file.path not in passed]
        cost.groups += sum(len(blocks.starts) for blocks in known)
        return find(known, wanted.intervals)

    def _learn_ranges(self, snapshot: Snapshot, files: Sequence[CellFile], cost: Cost) -> None:
        """Read the key ranges of cohorts with many files that nothing is known of."""
        objects = [found for found in snapshot.ledger.ranges if found.name not in self._objects]
        if not objects:
            return
        with self._lock:
            unknown = Counter(
                (f.cell.generation, f.cell.cohort)
                for f in files
                if f.path not in self._ranges and f.path not in self._known
            )
            for found in objects:
                if unknown[found.generation, found.cohort] >= FEW_FILES:
                    ranges, size_bytes = read_ranges(snapshot.table, found.name)
                    cost.count(directory=size_bytes)
                    self._ranges.add(ranges)
                    self._objects.add(found.name)
            if len(self._ranges) > 2 * len(files) + FEW_FILES:  # most of them of files that are gone
                self._ranges.keep({file.path for file in files})
                self._objects &= {found.name for found in snapshot.ledger.ranges}

    def filtered(self, blocks: Sequence[Block], files: Sequence[CellFile], wanted: Wanted, cost: Cost) -> list[Block]:
        """Leave out the blocks whose Bloom filters know that no wanted key is in them."""
        if not wanted.keys or len(wanted.keys) > _FILTERED_KEYS:
            return list(blocks)
        hashes = [self._hashes(key) for key in wanted.keys]
        by_path = {file.path: file for file in files}
        return [block for block in blocks if _may_hold(self.look_up(by_path[block.path], cost), block, wanted, hashes)]

    def _hashes(self, key: Key) -> list[int | None]:
        return [
            xxh64(plain_bytes(part, kind)) if has_plain_bytes(kind) else None
            for part, kind in zip(key, self._kinds, strict=False)
        ]


def _may_hold(data: DataFile, block: Block, wanted: Wanted, hashes: Sequence[Sequence[int | None]]) -> bool:
    contents = data.contents
    if not contents.has_bits:
        return True
    candidates = [h for interval, h in zip(wanted.intervals, hashes, strict=True) if block.meets(interval)]
    for place in range(contents.key_columns):
        bits = contents.filter_bits(place, block.row_group)
        if len(bits):
            candidates = [h for h in candidates if place >= len(h) or h[place] is None or may_hold(bits, h[place] or 0)]
    return bool(candidates)
