"""What a process knows of the files of a table: which row groups may hold a key, footers and filters, all bounded.

If a side file is missing or damaged, the blocks come from the data file's footer instead, and are written down again
where that is allowed.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from pathlib import Path

from ebb.index.cellfile import CellFile
from ebb.index.columns import Column
from ebb.index.directory import Block, Directory, Filter
from ebb.index.keys import Key, Wanted
from ebb.index.sidefile import load_blocks
from ebb.warehouse.parquet.arrow import arrow_schema
from ebb.warehouse.parquet.blocks import blocks_of, has_plain_bytes, plain_bytes, write_side_file
from ebb.warehouse.parquet.bloom import may_hold, xxh64
from ebb.warehouse.parquet.datafile import DataFile, read_bytes
from ebb.warehouse.parquet.sizes import ReadSizes
from ebb.warehouse.read.recent import Recent
from ebb.warehouse.read.request import Cost
from ebb.warehouse.store.files import refuse_links, remove_file
from ebb.warehouse.store.paths import side_file

__all__ = ["Finder"]

_BLOOM_BLOCK = 32  # bytes: a filter is a header and blocks of this size


_FILTERED_KEYS = 64  # for more keys than this, filters cost more than they save


class Finder:
    """What this process knows of the files of one table.  Shared by its windows and by threads."""

    def __init__(self, table: str, key: Sequence[Column], sizes: ReadSizes | None = None) -> None:
        self.table = table
        self.sizes = sizes or ReadSizes()
        self._names = [column.name for column in key]
        self._kinds = [field.type for field in arrow_schema(key)][: len(key)]
        self._directory = Directory()
        self._footers: Recent[DataFile] = Recent(self.sizes.footer_chunks)
        self._filters: Recent[bytes] = Recent(self.sizes.filter_bytes)
        self._lock = threading.Lock()

    def open(self, file: CellFile, *, keep: bool = True, cost: Cost | None = None) -> DataFile:
        """Return a data file with its footer, which is kept; if ``keep`` is false, only as long as few are."""
        data = self._footers.get(file.path)
        if data is None:
            data = DataFile.open(self.table, file)
            if cost is not None:
                cost.count(directory=data.footer_bytes)
            chunks = data.row_groups * len(data.names)
            if keep or self._footers.total + chunks <= self.sizes.few_chunks:
                self._footers.put(file.path, data, chunks)
        return data

    def find(self, files: Sequence[CellFile], wanted: Wanted, cost: Cost) -> list[Block]:
        """Return the blocks of these files that may hold what is wanted, in the order of their starts."""
        with self._lock:
            self._take_in(files, cost)
            return self._directory.find(wanted.intervals, {file.path for file in files})

    def row_groups(self, files: Sequence[CellFile], cost: Cost) -> int:
        """Return how many row groups these files have."""
        with self._lock:
            self._take_in(files, cost)  # a later window may have forgotten some meanwhile
            return sum(len(self._directory.blocks(file.path)) for file in files)

    def keep(self, files: Sequence[CellFile]) -> None:
        """Forget the blocks of other files than these, once there are many."""
        with self._lock:
            stale = set(self._directory.paths()) - {file.path for file in files}
            if len(stale) > self.sizes.stale_files:
                for path in stale:
                    self._directory.discard(path)

    def _take_in(self, files: Sequence[CellFile], cost: Cost) -> None:
        for file in files:
            if file.path not in self._directory:
                self._directory.add(file.path, self._blocks(file, cost))

    def _blocks(self, file: CellFile, cost: Cost) -> Sequence[Block]:
        side = side_file(file.path)
        refuse_links(self.table, file.path)
        refuse_links(self.table, side)
        with contextlib.suppress(OSError), open(f"{self.table}/{side}", "rb", buffering=0) as opened:
            data = opened.read()
            cost.count(directory=len(data))
            loaded = load_blocks(file.path.rsplit("/", 1)[-1], file.path, data)
            if loaded:
                return loaded
        blocks = blocks_of(self.open(file, cost=cost), self._names)
        with contextlib.suppress(OSError):
            write_side_file(self.table, file.path, blocks)
            if not Path(self.table, file.path).exists():  # erased meanwhile: nothing of it may come back
                remove_file(f"{self.table}/{side}")
        return blocks

    def filtered(self, blocks: Sequence[Block], wanted: Wanted, cost: Cost) -> list[Block]:
        """Leave out the blocks whose Bloom filters know that no wanted key is in them."""
        if not wanted.keys or len(wanted.keys) > _FILTERED_KEYS:
            return list(blocks)
        hashes = [self._hashes(key) for key in wanted.keys]
        return [block for block in blocks if self._may_hold(block, wanted, hashes, cost)]

    def _hashes(self, key: Key) -> list[int | None]:
        return [
            xxh64(plain_bytes(part, kind)) if has_plain_bytes(kind) else None
            for part, kind in zip(key, self._kinds, strict=False)
        ]

    def _may_hold(self, block: Block, wanted: Wanted, hashes: Sequence[Sequence[int | None]], cost: Cost) -> bool:
        candidates = [h for interval, h in zip(wanted.intervals, hashes, strict=True) if block.meets(interval)]
        for place, where in enumerate(block.filters):
            if where.length:
                bits = self._bits(block.path, where, cost)
                candidates = [
                    h for h in candidates if place >= len(h) or h[place] is None or may_hold(bits, h[place] or 0)
                ]
        return bool(candidates)

    def _bits(self, path: str, where: Filter, cost: Cost) -> bytes:
        bits = self._filters.get((path, where.offset))
        if bits is None:
            data = read_bytes(self.table, path, where.offset, where.length, where.checksum)
            cost.count(directory=len(data))
            bits = data[-(len(data) // _BLOOM_BLOCK * _BLOOM_BLOCK) :]
            self._filters.put((path, where.offset), bits, len(bits))
        return bits
