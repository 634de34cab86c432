"""The directory of a table, on disk and in memory: which row groups may hold a key.

Beside each data file lies a small one with the blocks of that file (``part-….keys``): whoever writes the data file
writes it, whoever deletes the data file deletes it, and nobody believes it more than the log. If it is missing or
damaged, the blocks come from the file's footer instead, and are written down again where that is allowed.
"""

from __future__ import annotations

import contextlib
import os
import struct
import threading
import uuid
import zlib
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any, Generic, TypeVar

import pyarrow as pa

from index.bloom import may_hold, xxh64
from index.cellfile import CellFile
from index.directory import Block, Directory, Filter, dump_blocks, load_blocks
from index.keys import Interval, code, successor
from warehouse.keys import Key, Wanted
from warehouse.parquet import DataFile, read_bytes, refuse_links
from warehouse.schema import Column, arrow_schema
from warehouse.table import SIDE_SUFFIX, side_file

__all__ = ["Finder", "blocks_of", "has_plain_bytes", "write_side_file"]

_BLOOM_BLOCK = 32  # a filter is a header and blocks of so many bytes
_NO_FILTER = Filter(0, 0, 0)
_FILTERED_KEYS = 64  # for more keys than this, filters cost more than they save
_STALE_FILES = 64  # the blocks of files that are no longer live are forgotten once there are so many
_FOOTER_CHUNKS = 200_000  # footers are kept up to so many column chunks in them, each about a kilobyte
_FEW_CHUNKS = 20_000  # or up to so many, by whoever can do without
_FILTER_BYTES = 64 * 1024 * 1024  # Bloom filters that were asked are kept up to so many bytes

_Value = TypeVar("_Value")


def write_side_file(table: str, path: str, blocks: Sequence[Block]) -> None:
    """Keep the blocks of a data file beside it, in one step."""
    side = f"{table}/{side_file(path)}"
    partial = f"{side.removesuffix(SIDE_SUFFIX)}.{uuid.uuid4().hex[:8]}{SIDE_SUFFIX}"  # known for what it is if left
    try:
        with open(partial, "xb") as opened:
            opened.write(dump_blocks(os.path.basename(path), blocks))
        os.rename(partial, side)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise


def has_plain_bytes(kind: pa.DataType) -> bool:
    """Whether equal values of a type have equal bytes in a file, so that filters can be asked for them."""
    tests = (pa.types.is_integer, pa.types.is_string, pa.types.is_binary, pa.types.is_date32, pa.types.is_timestamp)
    return any(test(kind) for test in tests)


def _plain_bytes(value: Any, kind: pa.DataType) -> bytes:
    """Return a value as Parquet writes it plainly, which is what filters hash."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    number = value if isinstance(value, int) else pa.scalar(value, kind).value
    return struct.pack("<q" if kind.bit_width == 64 else "<i", number)


def blocks_of(file: DataFile, key: Sequence[str], ends: Sequence[Interval] | None = None) -> list[Block]:
    """Return the blocks of a file from its footer; ``ends`` if the codes of its row groups are known exactly."""
    leaves = [file.leaf(name) for name in key]
    blocks = []
    for group in range(file.groups):
        facts = file.footer.row_group(group)
        interval = ends[group] if ends else _first_part(facts.column(leaves[0]).statistics)
        filters = tuple(_filter(file, group, leaf) for leaf in leaves)
        blocks.append(
            Block(file.path, group, interval.start, interval.stop, facts.num_rows, file.group_bytes(group), filters)
        )
    return blocks


def _filter(file: DataFile, group: int, leaf: int) -> Filter:
    column = file.footer.row_group(group).column(leaf)
    if not column.bloom_filter_offset or not column.bloom_filter_length:
        return _NO_FILTER
    checksum = file.filter_sum(group, leaf)
    if checksum is None:  # then what is there now has to be believed
        found = read_bytes(file.table, file.path, column.bloom_filter_offset, column.bloom_filter_length)
        checksum = zlib.crc32(found)
    return Filter(column.bloom_filter_offset, column.bloom_filter_length, checksum)


def _first_part(statistics: Any) -> Interval:
    """Return an interval that holds all keys whose first part lies within the statistics."""
    if statistics is None or not statistics.has_min_max:
        return Interval(b"", None)
    try:
        low, high = (
            end.replace(tzinfo=timezone.utc) if isinstance(end, datetime) and end.tzinfo is None else end
            for end in (statistics.min, statistics.max)
        )
    except OverflowError:  # a time that Python has no value for
        return Interval(b"", None)
    return Interval(code([low]), successor(code([high])))


class Finder:
    """What this process knows of the files of one table.  Shared by its windows and by threads."""

    def __init__(self, table: str, key: Sequence[Column]) -> None:
        self.table = table
        self._names = [column.name for column in key]
        self._kinds = [field.type for field in arrow_schema(key)][: len(key)]
        self._directory = Directory()
        self._footers: _Recent[DataFile] = _Recent(_FOOTER_CHUNKS)
        self._filters: _Recent[bytes] = _Recent(_FILTER_BYTES)
        self._lock = threading.Lock()

    def open(self, file: CellFile, *, keep: bool = True) -> DataFile:
        """Return a data file with its footer, which is kept; if ``keep`` is false, only as long as few are."""
        known = self._footers.get(file.path)
        if known is None:
            known = DataFile.open(self.table, file)
            chunks = known.groups * len(known.names)
            if keep or self._footers.total + chunks <= _FEW_CHUNKS:
                self._footers.put(file.path, known, chunks)
        return known

    def find(self, files: Sequence[CellFile], wanted: Wanted) -> list[Block]:
        """Return the blocks of these files that may hold what is wanted, in the order of their starts."""
        with self._lock:
            self._take_in(files)
            return self._directory.find(wanted.intervals, {file.path for file in files})

    def groups(self, files: Sequence[CellFile]) -> int:
        """Return how many row groups these files have."""
        with self._lock:
            self._take_in(files)  # a later window may have forgotten some meanwhile
            return sum(len(self._directory.blocks(file.path)) for file in files)

    def keep(self, files: Sequence[CellFile]) -> None:
        """Forget the blocks of other files than these, once there are many."""
        with self._lock:
            stale = set(self._directory.paths()) - {file.path for file in files}
            if len(stale) > _STALE_FILES:
                for path in stale:
                    self._directory.discard(path)

    def _take_in(self, files: Sequence[CellFile]) -> None:
        for file in files:
            if file.path not in self._directory:
                self._directory.add(file.path, self._blocks(file))

    def _blocks(self, file: CellFile) -> Sequence[Block]:
        side = side_file(file.path)
        refuse_links(self.table, file.path)
        refuse_links(self.table, side)
        with contextlib.suppress(OSError), open(f"{self.table}/{side}", "rb", buffering=0) as opened:
            known = load_blocks(os.path.basename(file.path), file.path, opened.read())
            if known:
                return known
        blocks = blocks_of(self.open(file), self._names)
        with contextlib.suppress(OSError):
            write_side_file(self.table, file.path, blocks)
            if not os.path.exists(f"{self.table}/{file.path}"):  # erased meanwhile: nothing of it may come back
                os.unlink(f"{self.table}/{side}")
        return blocks

    def filtered(self, blocks: Sequence[Block], wanted: Wanted) -> list[Block]:
        """Leave out the blocks whose Bloom filters know that no wanted key is in them."""
        if not wanted.keys or len(wanted.keys) > _FILTERED_KEYS:
            return list(blocks)
        hashes = [self._hashes(key) for key in wanted.keys]
        return [block for block in blocks if self._may_hold(block, wanted, hashes)]

    def _hashes(self, key: Key) -> list[int | None]:
        return [
            xxh64(_plain_bytes(part, kind)) if has_plain_bytes(kind) else None
            for part, kind in zip(key, self._kinds, strict=False)
        ]

    def _may_hold(self, block: Block, wanted: Wanted, hashes: Sequence[Sequence[int | None]]) -> bool:
        asked = [h for interval, h in zip(wanted.intervals, hashes, strict=True) if block.meets(interval)]
        for place, where in enumerate(block.filters):
            if where.length:
                bits = self._bits(block.path, where)
                asked = [h for h in asked if place >= len(h) or h[place] is None or may_hold(bits, h[place] or 0)]
        return bool(asked)

    def _bits(self, path: str, where: Filter) -> bytes:
        known = self._filters.get((path, where.offset))
        if known is None:
            found = read_bytes(self.table, path, where.offset, where.length, where.checksum)
            known = found[-(len(found) // _BLOOM_BLOCK * _BLOOM_BLOCK) :]
            self._filters.put((path, where.offset), known, len(known))
        return known


class _Recent(Generic[_Value]):
    """What was used last, up to a limit.  For several threads."""

    def __init__(self, limit: int) -> None:
        self.total, self._limit = 0, limit
        self._found: OrderedDict[Any, tuple[_Value, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: Any) -> _Value | None:
        """Return what is known under a key."""
        with self._lock:
            if key not in self._found:
                return None
            self._found.move_to_end(key)
            return self._found[key][0]

    def put(self, key: Any, value: _Value, weight: int) -> None:
        """Keep a value, and forget those that have not been used for longest."""
        with self._lock:
            self.total += weight - self._found.pop(key, (value, 0))[1]
            self._found[key] = value, weight
            while self.total > self._limit and len(self._found) > 1:
                self.total -= self._found.popitem(last=False)[1][1]
