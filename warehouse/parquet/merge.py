"""Merging the sorted files of a cell into one run, without what has expired.

The directory brings the row groups into the order of their encoded keys, as it does for probes, so no value of a key
is ever compared here. Every row group is read once: statistics decide how much is held at a time, not what is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ebb.index.cellfile import Rewrite
from ebb.index.columns import EXPIRES_SLOT
from ebb.index.directory import Block, Directory, stripes
from ebb.index.keys import Interval
from ebb.warehouse.parquet.arrow import conform
from ebb.warehouse.parquet.blocks import blocks_of
from ebb.warehouse.parquet.datafile import DataFile
from ebb.warehouse.parquet.order import in_key_order
from ebb.warehouse.parquet.writer import Layout, RunWriter, Written
from ebb.warehouse.store.paths import footer_hash_in

__all__ = ["merge_runs"]


def merge_runs(layout: Layout, task: Rewrite) -> Written:
    """Merge the input files into one sorted run, leaving out what has expired.

    Holds about ``stripe_bytes`` at once, and of each file one row group more.
    """
    sources = {file.path: DataFile.open(layout.table, file) for file in task.inputs}
    is_in_order = len(sources) == 1 and all(map(footer_hash_in, sources))  # another tool's file need not be
    order = () if is_in_order else (*layout.key, EXPIRES_SLOT)

    def read(blocks: Sequence[Block]) -> Iterator[pa.Table]:
        row_groups: dict[str, list[int]] = {}
        for block in blocks:
            row_groups.setdefault(block.path, []).append(block.row_group)
        for path, numbers in row_groups.items():
            table = conform(sources[path].read(sorted(numbers)), layout.schema)
            yield table.filter(pc.greater(table[EXPIRES_SLOT], task.clock))

    writer = RunWriter(layout, task.cell)
    size = layout.sizes.stripe_bytes
    blocks = _blocks(sources, layout.key)
    for table in in_key_order(stripes(blocks, size, size), read, layout.key, order):
        writer.add(table)
    return writer.close()


def _blocks(sources: Mapping[str, DataFile], key: Sequence[str]) -> list[Block]:
    """Return the row groups of files in the order of their keys, with the sizes that they have when they are unpacked."""
    directory = Directory()
    for path, source in sources.items():
        directory.add(path, blocks_of(source, key))
    return [
        block._replace(size_bytes=sources[block.path].footer.row_group(block.row_group).total_byte_size)
        for block in directory.find([Interval(b"", None)], sources)
    ]
