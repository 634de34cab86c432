"""Reading one window without a JVM: pinned files, read with Arrow, expired records hidden.

A window is a snapshot at its clock, or at a later moment ``as_of`` for which records are hidden by their exact
expiration time. A probe asks the directory which row groups can hold its keys and reads those, in key order; a scan
reads file after file and leaves out the row groups whose statistics exclude its predicate. Both read several row
groups at a time and hold no more than those: answers may be larger than memory.
"""

from __future__ import annotations

import bisect
import contextlib
import itertools
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from index.cellfile import CellFile
from index.directory import Block, stop_order, stripes
from index.errors import InputError, UsageError
from index.predicate import Extent, Predicate, may_match, parse_predicate
from warehouse import where as predicates
from warehouse.cells import conform, key_starts
from warehouse.directory import Finder, has_plain_bytes
from warehouse.keys import Codes, Wanted, key_value, key_values, wanted_keys, wanted_prefix, wanted_range
from warehouse.parquet import DataFile, Part, read_parts
from warehouse.schema import EXPIRES_SLOT, INSERTED_SLOT, arrow_schema
from warehouse.table import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from typing_extensions import Self

__all__ = ["Cost", "Read", "Window", "in_key_order", "in_parallel", "portions"]

_FIRST_BYTES = 8 * 1024 * 1024  # what a probe reads at first; then twice as much each time, up to the following
_SHARE_BYTES = 8 * 1024 * 1024  # what one thread of a probe reads at a time, or less if there are many threads
_MOST_BYTES = 32 * 1024 * 1024
_SCAN_BYTES = 4 * 1024 * 1024  # what one thread of a scan reads at a time
_LEAST_BYTES = 64 * 1024  # what a row group counts for at least: a small one may be large when it is unpacked
_FEW = 8  # so many keys in a part are looked for one by one

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(slots=True)
class Cost:
    """Which window was read, and what that took."""

    version: int = 0
    clock: int | None = None
    files: int = 0  # with something visible
    files_read: int = 0
    groups: int = 0  # row groups of these files
    groups_met: int = 0  # whose key range holds a wanted key
    groups_read: int = 0
    bytes_read: int = 0
    records: int = 0
    bytes_returned: int = 0
    directory_seconds: float = 0.0  # of probes


@dataclass(frozen=True, slots=True)
class Read:
    """What is read of a window."""

    columns: tuple[str, ...]
    where: Predicate | None = None
    wanted: Wanted | None = None  # None for all, in no order
    after: int | None = None  # only what was inserted after this slot
    with_marks: bool = False  # also what order and visibility need, under its names

    @property
    def is_probe(self) -> bool:
        """Whether keys are asked for, and records come in their order."""
        return self.wanted is not None


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="ebb-read")


os.register_at_fork(after_in_child=_pool.cache_clear)  # threads stay with the parent


def in_parallel(work: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
    """Yield the results of work in order, with as many items in work as there are threads and one waiting."""
    pool, left = _pool(), iter(items)
    ahead = deque(pool.submit(work, item) for item in itertools.islice(left, pool._max_workers + 1))
    try:
        while ahead:
            done: Future[_Result] = ahead.popleft()
            result = done.result()
            ahead.extend(pool.submit(work, item) for item in itertools.islice(left, 1))
            yield result
    finally:
        for waiting in ahead:
            waiting.cancel()


@dataclass(frozen=True)
class Window:
    """One window of one table.  Every method sees the same records, whatever is committed meanwhile."""

    snapshot: Snapshot
    finder: Finder
    as_of: int | None = None
    cost: Cost = field(default_factory=Cost, compare=False)  # of everything that was read through it

    def __post_init__(self) -> None:
        line = self.snapshot.spec.timeline
        if self.as_of is not None and self.clock is not None and self.as_of < line.end_of(self.clock):
            shown = line.kind.show_time(self.as_of)
            msg = f"--as-of {shown} is before the clock {line.show_slot(self.clock)}; what expired until then is gone, pass a later time"
            raise InputError(msg)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Let go of the window; there is nothing to close."""

    @property
    def clock(self) -> int | None:
        """Return the slot up to which the table had been updated; None before the first update."""
        return self.snapshot.ledger.clock

    @property
    def version(self) -> int:
        """Return the version of the Delta table that is pinned."""
        return self.snapshot.version

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        return tuple(column.name for column in self.snapshot.spec.columns)

    def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the Arrow schema of the columns, or of some of them."""
        whole = arrow_schema(self.snapshot.spec.columns)
        return pa.schema([whole.field(name) for name in self._names(columns)])

    def probe(
        self,
        *keys: Any,
        low: Any = None,
        high: Any = None,
        prefix: Any = None,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Return the records of some keys, of the keys from ``low`` to ``high``, or of those that start with ``prefix``.

        A composite key is a tuple; its leading parts alone stand for all keys that they lead. Ordered by key, then
        expiration.
        """
        return self.read(self.wanted(keys, low, high, prefix), columns).read_all()

    def wanted(self, keys: Sequence[Any], low: Any = None, high: Any = None, prefix: Any = None) -> Wanted:
        """Check what a probe asks for against the key's columns."""
        if sum([bool(keys), low is not None or high is not None, prefix is not None]) > 1:
            msg = "a probe takes keys, or low and high, or a prefix; pass one of them"
            raise UsageError(msg)
        key = [self.snapshot.spec.column(name) for name in self.snapshot.spec.key]
        if prefix is not None:
            start = key_value(key, prefix)
            last = key[len(start) - 1]
            if last.type not in ("string", "binary"):
                msg = (
                    f"prefix {prefix!r} ends in column {last.name} of type {last.type}, and only texts have a beginning"
                )
                raise UsageError(msg)
            return wanted_prefix(start)
        if low is not None or high is not None:
            ends = [None if end is None else key_value(key, end) for end in (low, high)]
            return wanted_range(ends[0], ends[1])
        return wanted_keys(key_values(key, keys))

    def read(self, wanted: Wanted, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """Stream the records of what is wanted, ordered by key, then expiration."""
        return self._reader(Read(self._names(columns), wanted=wanted))

    def scan(self, columns: Sequence[str] | None = None, where: str | None = None) -> pa.RecordBatchReader:
        """Stream the records of the window in no particular order; ``where`` as in ``ebb scan --where``."""
        return self._reader(Read(self._names(columns), where=self._predicate(where)))

    def scan_by_spark(
        self, spark: SparkSession, columns: Sequence[str] | None = None, where: str | None = None
    ) -> pa.RecordBatchReader:
        """Stream the same records through a Spark session that has Delta's jars."""
        from warehouse.sql import scan_window

        predicate = self._predicate(where)
        condition = None if predicate is None else predicates.to_sql(predicate, self.snapshot.spec.columns, "spark")
        names = self._names(columns)
        tables = scan_window(spark, self.snapshot, self.schema(), self.as_of, condition)
        return self._counted(Read(names), (table.select(names) for table in tables))

    def _predicate(self, where: str | None) -> Predicate | None:
        predicate = parse_predicate(where) if where else None
        if predicate is not None:
            predicates.check(predicate, self.snapshot.spec.columns)
        return predicate

    def _names(self, columns: Sequence[str] | None) -> tuple[str, ...]:
        if columns is None:
            return self.columns
        if isinstance(columns, str) or not columns or len(set(columns)) < len(columns):
            msg = f"columns {columns!r} is not a list of different names; pass it like ['a', 'b']"
            raise UsageError(msg)
        return tuple(self.snapshot.spec.column(name).name for name in columns)

    def _reader(self, asked: Read) -> pa.RecordBatchReader:
        self.cost.version, self.cost.clock = self.version, self.clock
        return self._counted(asked, self.tables(asked))

    def _counted(self, asked: Read, tables: Iterable[pa.Table]) -> pa.RecordBatchReader:
        def batches() -> Iterator[pa.RecordBatch]:
            for table in tables:
                self.cost.records += table.num_rows
                self.cost.bytes_returned += table.nbytes
                yield from table.to_batches()

        return pa.RecordBatchReader.from_batches(self.schema(asked.columns), batches())

    def tables(self, asked: Read, files: Sequence[CellFile] | None = None) -> Iterator[pa.Table]:
        """Yield what is asked for, of all visible files or of these."""
        live = self.visible_files() if files is None else files
        if self.clock is None or not live:
            return
        self.cost.files += len(live)
        self.finder.keep(live)
        plan = _Plan(self, self.clock, asked)
        yield from plan.probe(live, asked.wanted) if asked.wanted is not None else plan.scan(live)

    def visible_files(self) -> list[CellFile]:
        """Return the files with records that may be visible."""
        return [] if self.clock is None else [f for f in self.snapshot.files if not f.is_dead(self.clock)]


class _Plan:
    """How one request is answered: which columns are needed, and what is kept of a row group."""

    def __init__(self, window: Window, clock: int, asked: Read) -> None:
        spec = window.snapshot.spec
        self.window, self.clock, self.asked = window, clock, asked
        self.key, self.expires = spec.key, spec.expires
        self.column_of, self.user_columns = spec.column, spec.columns
        self.schema = arrow_schema(spec.columns)
        order = (*spec.key, spec.expires, EXPIRES_SLOT) if asked.is_probe else ()
        marks = (*order, EXPIRES_SLOT) if asked.with_marks else ()
        self.shown = tuple(dict.fromkeys([*asked.columns, *marks]))
        self.merged = tuple(dict.fromkeys([*self.shown, *order]))  # of every file, whatever else was needed of it

    def schema_of(self, files: Iterable[CellFile]) -> pa.Schema:
        """Return the columns that have to be read of files."""
        needed = [*self.merged, *predicates.names(self.asked.where)]
        for file in files:
            if file.has_expired(self.clock):
                needed.append(EXPIRES_SLOT)
            if self._has_older(file):
                needed.append(INSERTED_SLOT)
        if self.window.as_of is not None:
            needed.append(self.expires)
        return pa.schema([self.schema.field(name) for name in dict.fromkeys(needed)])

    def _has_older(self, file: CellFile) -> bool:
        """Whether a file has records that were inserted before those asked for."""
        return self.asked.after is not None and file.min_ins <= self.asked.after

    def visible(self, table: pa.Table, files: Sequence[CellFile], mask: Any = None) -> pa.Table:
        """Leave out what has expired, what was there before, what the predicate does not want, and what a mask does not."""
        masks = [] if mask is None else [mask]
        if any(file.has_expired(self.clock) for file in files):
            masks.append(pc.greater(table[EXPIRES_SLOT], self.clock))
        if self.window.as_of is not None:
            masks.append(_is_after(table[self.expires], self.window.as_of))
        if any(self._has_older(file) for file in files):
            masks.append(pc.greater(table[INSERTED_SLOT], self.asked.after))
        if self.asked.where is not None:
            masks.append(predicates.mask(table, self.asked.where, self.user_columns))
        for other in masks[1:]:
            masks[0] = pc.and_kleene(masks[0], other)
        is_all = not masks or pc.all(masks[0], skip_nulls=False).as_py()
        return table if is_all else table.filter(masks[0])

    def scan(self, files: Sequence[CellFile]) -> Iterator[pa.Table]:
        """Yield the records of files in no particular order."""
        cost = self.window.cost

        def work(task: tuple[CellFile, DataFile, list[int]]) -> pa.Table:
            file, data, groups = task
            schema = self.schema_of([file])
            return self.visible(conform(data.read(groups, schema.names), schema), [file]).select(self.shown)

        def tasks() -> Iterator[tuple[CellFile, DataFile, list[int]]]:
            for file in files:
                # Who reads everything waits for that more than for footers, which take memory in a large window.
                data = self.window.finder.open(file, keep=self.asked.where is not None)
                cost.files_read += 1
                cost.groups += data.groups
                for groups, size in portions(data, self._groups(data)):
                    cost.groups_read += len(groups)
                    cost.bytes_read += size
                    yield file, data, groups

        for table in in_parallel(work, tasks()):
            if table.num_rows:
                yield table

    def _groups(self, data: DataFile) -> Iterator[int]:
        """Yield the row groups of a file that may match."""
        looked_at = sorted(predicates.names(self.asked.where) & data.names)
        leaves = {name: data.leaf(name) for name in looked_at if self.column_of(name).is_sortable}
        for group in range(data.groups):
            if self.asked.where is None or self._may_match(data.footer.row_group(group), leaves):
                yield group

    def _may_match(self, facts: Any, leaves: dict[str, int]) -> bool:
        extents = {}
        for name, leaf in leaves.items():
            stats = facts.column(leaf).statistics
            if stats is None or not stats.has_min_max or not stats.has_null_count:
                continue
            is_open = self.column_of(name).type in ("float", "double")  # NaN is greater, and not in the statistics
            with contextlib.suppress(OverflowError):  # a time that Python has no value for
                extents[name] = Extent(
                    low=stats.min,
                    high=None if is_open else stats.max,
                    has_nulls=stats.null_count > 0,
                    has_values=stats.null_count < facts.num_rows,
                )
        assert self.asked.where is not None  # noqa: S101 - the caller looked
        return may_match(self.asked.where, extents, lambda text, name: predicates.value(text, self.column_of(name)))

    def probe(self, files: Sequence[CellFile], wanted: Wanted) -> Iterator[pa.Table]:
        """Yield the records of what is wanted in the order of key and expiration."""
        cost, finder = self.window.cost, self.window.finder
        by_path = {file.path: file for file in files}
        began = time.perf_counter()
        met = finder.find(files, wanted)
        blocks = finder.filtered(met, wanted)
        cost.directory_seconds += time.perf_counter() - began
        cost.groups += finder.groups(files)
        cost.groups_met += len(met)
        cost.groups_read += len(blocks)
        cost.files_read += len({block.path for block in blocks})
        cost.bytes_read += sum(block.size_bytes for block in blocks)

        def read_part(part: Sequence[Block]) -> Iterator[pa.Table]:
            near = wanted.between(part[0].start, max((block.stop for block in part), key=stop_order))

            def work(share: list[tuple[CellFile, list[int]]]) -> pa.Table:
                return self._read_share(share, near)

            shares = [[(by_path[path], groups) for path, groups in share] for share in _shares(part)]
            return in_parallel(work, shares) if len(shares) > 1 else map(work, shares)

        for table in in_key_order(blocks, read_part, self.key, self.expires):
            yield table.select(self.shown)

    def _read_share(self, share: Sequence[tuple[CellFile, list[int]]], wanted: Wanted) -> pa.Table:
        """Return the wanted records of row groups of some files."""
        files = {file.path: file for file, _ in share}
        schema = self.schema_of(files.values())
        opened = [(self.window.finder.open(file), groups) for file, groups in share]
        tables = []
        for parts, found in read_parts(opened, schema.names):
            table = conform(found, schema)
            mask = _key_mask(table, self.key, wanted)
            if mask is None:
                table = pa.concat_tables([_selected(run, self.key, wanted) for run in _runs(table, parts)])
            tables.append(self.visible(table, [files[data.path] for data, _ in parts], mask).select(self.merged))
        return pa.concat_tables(tables)


def portions(data: DataFile, groups: Iterable[int]) -> Iterator[tuple[list[int], int]]:
    """Cut row groups of a file into portions for one thread; with their compressed bytes."""
    portion: list[int] = []
    size = weighed = 0
    for group in groups:
        portion.append(group)
        group_bytes = data.group_bytes(group)
        size += group_bytes
        weighed += max(group_bytes, _LEAST_BYTES)
        if weighed >= _SCAN_BYTES:
            yield portion, size
            portion, size, weighed = [], 0, 0
    if portion:
        yield portion, size


def in_key_order(
    blocks: Sequence[Block],
    read: Callable[[Sequence[Block]], Iterable[pa.Table]],
    key: Sequence[str],
    expires: str,
) -> Iterator[pa.Table]:
    """Merge blocks, which come in the order of their starts: yield tables that follow each other by key and expiration.

    ``read`` returns tables with the records of some blocks. Held at a time are the records of one stripe and those of
    its blocks that reach into the next.
    """
    order = [(name, "ascending") for name in (*key, expires)]
    kept: list[pa.Table] = []
    for part, bound in stripes(blocks, _FIRST_BYTES, _MOST_BYTES, _LEAST_BYTES):
        merged = pa.concat_tables([*kept, *read(part)]).combine_chunks()  # sorting many chunks costs several times more
        merged = merged.sort_by(order)
        cut = merged.num_rows if bound is None else bisect.bisect_left(Codes(merged, key), bound)
        kept = [merged.slice(cut)]
        if cut:
            yield merged.slice(0, cut)


def _shares(blocks: Iterable[Block]) -> list[list[tuple[str, list[int]]]]:
    """Share blocks out, file by file, among as many threads as are worth it; the row groups of a file are in order."""
    groups: dict[str, list[int]] = {}
    sizes: Counter[str] = Counter()
    for block in blocks:
        groups.setdefault(block.path, []).append(block.group)
        sizes[block.path] += max(block.size_bytes, _LEAST_BYTES)
    # Threads cost more than they save where little is read.
    share_bytes = min(_SHARE_BYTES, max(_SHARE_BYTES // 4, 2 * sizes.total() // _pool()._max_workers))
    shares: list[list[tuple[str, list[int]]]] = [[]]
    size = 0
    for path, found in groups.items():
        if size >= share_bytes:
            shares.append([])
            size = 0
        shares[-1].append((path, sorted(found)))
        size += sizes[path]
    return shares


def _key_mask(table: pa.Table, key: Sequence[str], wanted: Wanted) -> Any:
    """Return which records of a table are wanted, in whatever order they are; None if Arrow cannot tell."""
    widths = {len(value) for value in wanted.keys}
    if len(widths) != 1 or (len(wanted.keys) > 1 and widths != {1}):
        return None
    mask: Any = None
    for name, values in zip(key, zip(*wanted.keys, strict=True), strict=False):
        column = table[name]
        if not has_plain_bytes(column.type):
            return None
        found = pc.is_in(column, value_set=pa.array(values, column.type))
        mask = found if mask is None else pc.and_(mask, found)
    return mask


def _runs(table: pa.Table, parts: Iterable[Part]) -> Iterator[pa.Table]:
    """Yield the records of each part, which are sorted."""
    start = 0
    for data, groups in parts:
        records = sum(data.footer.row_group(group).num_rows for group in groups)
        yield table.slice(start, records)
        start += records


def _selected(table: pa.Table, key: Sequence[str], wanted: Wanted) -> pa.Table:
    """Return the wanted records of a sorted table."""
    if not table.num_rows:
        return table
    codes = Codes(table, key)
    near = wanted.between(codes[0], codes[len(codes) - 1] + b"\x00")
    met = near.intervals
    if len(met) == 1 and met[0].holds(codes[0]) and met[0].holds(codes[len(codes) - 1]):
        return table
    if len(met) <= _FEW:
        slices = [table.slice(0, 0)]
        for interval in met:
            low = bisect.bisect_left(codes, interval.start)
            high = len(codes) if interval.stop is None else bisect.bisect_left(codes, interval.stop, lo=low)
            slices.append(table.slice(low, high - low))
        return pa.concat_tables(slices)
    # Many keys of several parts: one pass over those that are there.
    edges = [*key_starts(table, key), table.num_rows]
    mask = bytearray(table.num_rows)
    for low, high in itertools.pairwise(edges):
        found = codes[low]
        if met[max(0, bisect.bisect_right(near.starts, found) - 1)].holds(found):
            mask[low:high] = b"\x01" * (high - low)
    packed = pc.not_equal(pa.Array.from_buffers(pa.int8(), len(mask), [None, pa.py_buffer(mask)]), 0)
    return table.filter(packed)


def _is_after(times: pa.ChunkedArray, moment: int) -> Any:
    """Return which times are after a moment."""
    value: Any = moment
    if not pa.types.is_integer(times.type):
        width = pa.int32() if pa.types.is_date32(times.type) else pa.int64()
        value = pa.scalar(moment, width).cast(times.type)
    return pc.greater(times, value)
