"""Merging the sorted files of a cell into one run, without what has expired and what else is to be left out.

The directory brings the row groups into the order of their encoded keys, as it does for probes, so no value of a key
is ever compared here. A row group without expired records that no other one's keys overlap, or that has a long key to
itself, is copied as it is: its bytes are verified, but neither unpacked nor packed. All others are read once, merged and
written again: statistics decide how much is held at a time, not what is kept.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ebb.index.cellfile import Rewrite
from ebb.index.columns import EXPIRES_SLOT
from ebb.index.directory import Block, copied_blocks, find, only_key, stripes
from ebb.index.keys import Interval, successor
from ebb.warehouse.parquet.arrow import Codes, conform, moment_of
from ebb.warehouse.parquet.builder import parquet_schema
from ebb.warehouse.parquet.chunks import read_row_groups
from ebb.warehouse.parquet.copies import CopySource
from ebb.warehouse.parquet.datafile import DataFile
from ebb.warehouse.parquet.order import in_key_order
from ebb.warehouse.parquet.statistics import blocks_of
from ebb.warehouse.parquet.writer import Layout, RunWriter, Written
from ebb.warehouse.store.files import make_folder, remove_empty_folders

__all__ = ["merge_runs"]


def merge_runs(layout: Layout, task: Rewrite) -> Written:
    """Merge the input files into one sorted run, leaving out what has expired and what the task leaves out.

    Holds about ``stripe_bytes`` at once, and of each file one row group more; and what its writer holds.
    """
    if task.part:
        layout = replace(layout, folder=f"{layout.folder}/{task.part}")
        make_folder(f"{layout.table}/{layout.folder}", exist_ok=True)
    sources = {file.path: DataFile.open(layout.table, file) for file in task.inputs}
    everything = [Interval(b"", None)]
    blocks = find([blocks_of(source, layout.key) for source in sources.values()], everything)
    if task.only is not None:
        blocks = [block for block in blocks if block.row_group in task.only.get(block.path, ())]
    copies = {path: CopySource(source, layout.key) for path, source in sources.items() if _has_columns(source, layout)}

    def can_be_copied(block: Block) -> bool:
        contents = sources[block.path].contents
        return (
            task.only is None
            and block.row_group not in task.without.get(block.path, ())
            and block.path in copies
            and contents.min_exp[block.row_group] > task.clock
            and contents.raw_bytes[block.row_group] >= layout.sizes.long_key_bytes
        )

    copied = copied_blocks(blocks, can_be_copied)
    taken = set(copied)
    read = [_unpacked(block, sources) for block in blocks if block not in taken]
    writer = RunWriter(replace(layout, sizes=layout.sizes.settled()), task.cell)
    for step in _in_order(_merged(read, sources, layout, task), copied, layout.key):
        if isinstance(step, Block):
            writer.copy(copies[step.path].row_group(step.row_group))
        else:
            writer.add(step)
    written = writer.close()
    if task.part and not written.files:
        remove_empty_folders(Path(layout.table, layout.folder))
    return written


def _has_columns(source: DataFile, layout: Layout) -> bool:
    return source.is_ours and source.contents.schema == parquet_schema(layout.schema)


def _unpacked(block: Block, sources: Mapping[str, DataFile]) -> Block:
    """Return a block with the size that it has when it is unpacked."""
    return block._replace(size_bytes=sources[block.path].contents.raw_bytes[block.row_group])


def _merged(
    blocks: Sequence[Block], sources: Mapping[str, DataFile], layout: Layout, task: Rewrite
) -> Iterator[pa.Table]:
    """Yield what is taken of blocks as tables that follow each other in order."""
    paths = {block.path for block in blocks}
    is_in_order = len(paths) == 1 and all(sources[path].is_ours for path in paths) and _follow_each_other(blocks)
    order = () if is_in_order else (*layout.key, EXPIRES_SLOT)

    def read(stripe: Sequence[Block]) -> Iterator[pa.Table]:
        row_groups: dict[str, list[int]] = {}
        for block in stripe:
            row_groups.setdefault(block.path, []).append(block.row_group)
        for path, numbers in row_groups.items():
            numbers.sort()
            table = conform(read_row_groups([(sources[path], numbers)], layout.schema.names), layout.schema)
            yield _taken(table, task, path, [(number, sources[path].contents.records[number]) for number in numbers])

    size = layout.sizes.stripe_bytes
    return in_key_order(stripes(blocks, size, size), read, layout.key, order)


def _follow_each_other(blocks: Sequence[Block]) -> bool:
    """Whether blocks lie one after the other: row groups that were copied with one and the same key need not."""
    # A stop is the code of the last record with a byte 0 after it.
    return all(one.stop is not None and one.stop <= after.start + b"\x00" for one, after in itertools.pairwise(blocks))


def _taken(table: pa.Table, task: Rewrite, path: str, row_groups: Sequence[tuple[int, int]]) -> pa.Table:
    """Return what a task takes of row groups of a file, given by their numbers and how many records they have."""
    mask = pc.greater(table[EXPIRES_SLOT], task.clock).to_numpy()
    named = task.without if task.only is None else task.only
    if path in named:
        is_named, start = np.zeros(len(mask), np.bool_), 0
        for number, records in row_groups:
            is_named[start + np.asarray(named[path].get(number, ()), np.int64)] = True
            start += records
        mask = mask & (is_named if task.only is not None else ~is_named)
    table = table if mask.all() else table.filter(pa.array(mask))
    if task.expires is None:
        return table
    name, time, slot = task.expires
    kind = table.schema.field(name).type
    for column, value in ((name, moment_of(time, kind).cast(kind)), (EXPIRES_SLOT, pa.scalar(slot, pa.int64()))):
        values = pa.repeat(value, table.num_rows)
        table = table.set_column(table.column_names.index(column), column, values)
    return table


def _in_order(tables: Iterator[pa.Table], copied: Sequence[Block], key: Sequence[str]) -> Iterator[pa.Table | Block]:
    """Yield tables that follow each other in order, cut where blocks that are copied belong, and the blocks."""
    waiting = list(reversed(copied))
    for table in tables:
        codes, start = Codes(table, key), 0
        while waiting:
            # After the records of its key, if it has one: others of these may be in a table that follows.
            only = only_key(waiting[-1])
            bound = waiting[-1].start if only is None else successor(only)
            place = table.num_rows if bound is None else bisect.bisect_left(codes, bound, lo=start)
            if place == table.num_rows:
                break
            yield table.slice(start, place - start)
            yield waiting.pop()
            start = place
        yield table.slice(start)
    yield from reversed(waiting)
