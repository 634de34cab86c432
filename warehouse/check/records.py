"""Looking at every byte and every record of a data file: what its contents, its place and the log promise of them.

Bytes are compared with checksums without being unpacked. Of the records the columns are read that Ebb itself goes by: key,
times and slots. Whole row groups at a time, no record alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from zlib_ng.zlib_ng import crc32

from ebb.index.columns import EXPIRES_SLOT, INSERTED_SLOT, SLOT_COLUMNS
from ebb.index.grid import Axis, Cell
from ebb.warehouse.parquet.arrow import Codes
from ebb.warehouse.parquet.chunks import read_row_groups
from ebb.warehouse.parquet.datafile import DataFile, not_written, read_errors
from ebb.warehouse.parquet.footer import damaged
from ebb.warehouse.parquet.thrift import MAGIC
from ebb.warehouse.store.files import opened_file, read_at
from ebb.warehouse.table.spec import TableSpec

__all__ = ["Problem", "check_bytes", "count_records"]


class Problem(NamedTuple):
    """What is wrong with a file: which promise, and the fact."""

    code: str
    fact: str


def check_bytes(data: DataFile, size_bytes: int) -> None:
    """Read a whole data file; CorruptionError if a byte is not as it was written.  Its footer and contents are believed."""
    contents, at = data.contents, len(MAGIC)
    with read_errors(data.path), opened_file(data.table, data.path) as opened:
        if read_at(opened, at, 0) != MAGIC:
            raise not_written(data.path, 0, at)
        for row_group in range(contents.row_groups):
            first = row_group * contents.leaves
            start, length = contents.chunk_starts[first], contents.row_group_bytes(row_group)
            if start != at:
                raise damaged(f"{data.path}: nothing vouches for its bytes from {at:,} on")
            held = memoryview(read_at(opened, length, start))
            for chunk in range(first, first + contents.leaves):
                size = contents.chunk_bytes[chunk]
                offset = contents.chunk_starts[chunk] - start
                if offset != at - start or crc32(held[offset : offset + size]) != contents.chunk_sums[chunk]:
                    raise not_written(data.path, start + offset, size)
                at += size
        for column in range(contents.key_columns):
            for row_group in range(contents.row_groups):
                where = contents.filter(column, row_group)
                if where.length and crc32(read_at(opened, where.length, where.offset)) != where.checksum:
                    raise not_written(data.path, where.offset, where.length)
                at += where.length
    if at + len(contents.block) + len(data.tail) != size_bytes:
        raise damaged(f"{data.path}: nothing vouches for some of its bytes from {at:,} on")


def count_records(data: DataFile, spec: TableSpec, cell: Cell, clock: int) -> tuple[Counter[int], list[Problem]]:
    """Look at the records of a data file of ours; returns how many live ones expire in each slot, and what is wrong.

    One problem of each kind: the first one.
    """
    expirations: Counter[int] = Counter()
    problems: dict[str, Problem] = {}
    names = list(dict.fromkeys([*spec.key, spec.inserted, spec.expires, *SLOT_COLUMNS]))
    for row_group in range(data.row_groups):
        table = read_row_groups([(data, [row_group])], names).combine_chunks()
        for problem in _problems(data, row_group, table, spec, cell, clock):
            problems.setdefault(problem.code, problem)
        slots = table[EXPIRES_SLOT].drop_null().to_numpy()
        live, counts = np.unique(slots[slots > clock], return_counts=True)
        expirations.update(dict(zip(live.tolist(), counts.tolist(), strict=True)))
    return expirations, list(problems.values())


def _problems(
    data: DataFile, row_group: int, table: pa.Table, spec: TableSpec, cell: Cell, clock: int
) -> Iterator[Problem]:
    if empty := [name for name in table.column_names if table[name].null_count]:
        yield Problem("slots" if empty[0] in SLOT_COLUMNS else "record", f"a record has no {empty[0]}")
        return
    inserted, expires = table[INSERTED_SLOT].to_numpy(), table[EXPIRES_SLOT].to_numpy()
    yield from _slot_problems(table, spec, clock, inserted, expires)
    line = [(spec.grid.groups, inserted, cell.group), (spec.grid.cohorts, expires, cell.cohort)]
    if cell.is_held:
        line.pop()
    if any(_is_elsewhere(axis, slots, place) for axis, slots, place in line):
        yield Problem("cell", f"a record lies in cell {cell}, and its slots belong to another one")
    if not _is_sorted(table, (*spec.key, EXPIRES_SLOT)):
        yield Problem("order", f"its row group {row_group} is not in the order of key and expiration")
        return
    yield from _told_problems(data, row_group, table, spec, inserted, expires)


def _slot_problems(table: pa.Table, spec: TableSpec, clock: int, inserted: Any, expires: Any) -> Iterator[Problem]:
    came, until = _times(table[spec.inserted]), _times(table[spec.expires])
    line = spec.timeline
    if wrong := np.count_nonzero(expires != -((line.origin - until) // line.tick)):
        yield Problem("slots", f"{wrong:,} records have another {EXPIRES_SLOT} than that of their {spec.expires}")
    early = np.count_nonzero(inserted < -((line.origin - came) // line.tick))
    if early and not spec.inserted_as:
        yield Problem("slots", f"{early:,} records have an {INSERTED_SLOT} before that of their {spec.inserted}")
    if late := np.count_nonzero(inserted > clock):
        yield Problem("slots", f"{late:,} records have an {INSERTED_SLOT} after the clock")
    if long := np.count_nonzero(until - came > line.span):
        yield Problem("record", f"{long:,} records live longer than the span")


def _times(column: pa.ChunkedArray) -> Any:
    """Return times as 64-bit integers."""
    return (column.cast(pa.int32()) if pa.types.is_date32(column.type) else column).cast(pa.int64()).to_numpy()


def _is_elsewhere(axis: Axis, slots: Any, place: int) -> bool:
    return any(axis.partition(slot) != place for slot in np.unique(slots).tolist())


def _is_sorted(table: pa.Table, names: tuple[str, ...]) -> bool:
    """Whether records are in the order of columns.  O(records × columns), less where keys differ early."""
    tied = np.ones(max(0, table.num_rows - 1), bool)
    for name in names:
        column = table[name].cast(pa.int8()) if pa.types.is_boolean(table[name].type) else table[name]
        one, next_one = column.slice(0, len(tied)), column.slice(1)
        if (tied & pc.less(next_one, one).to_numpy()).any():
            return False
        tied &= pc.equal(one, next_one).to_numpy()
        if not tied.any():
            break
    return True


def _told_problems(
    data: DataFile, row_group: int, table: pa.Table, spec: TableSpec, inserted: Any, expires: Any
) -> Iterator[Problem]:
    """Compare records with what the contents tell of them: a reader passes over row groups by that."""
    facts = data.contents.row_group(row_group)
    found = (int(inserted.min()), int(inserted.max()), int(expires.min()), int(expires.max()))
    if (table.num_rows, found) != (facts.records, facts.slots):
        yield Problem("contents", f"its row group {row_group} has other slots or records than its contents say")
    codes = Codes(table, spec.key)
    if not all(facts.interval.holds(codes[place]) for place in (0, table.num_rows - 1)):
        yield Problem("contents", f"its row group {row_group} has other keys than its contents say")
