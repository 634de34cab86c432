"""Bringing row groups of many sorted files into the order of keys: what probes and merges have in common."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ebb.index.directory import Block
from ebb.warehouse.parquet.arrow import Codes

__all__ = ["in_key_order"]


def in_key_order(
    stripes: Iterable[tuple[Sequence[Block], bytes | None]],
    read: Callable[[Sequence[Block]], Iterable[pa.Table]],
    key: Sequence[str],
    order: Sequence[str],
) -> Iterator[pa.Table]:
    """Merge the blocks of :func:`ebb.index.directory.stripes`: yield tables that follow each other in order.

    ``read`` returns tables with records of some blocks; ``order`` names the columns to sort by, key first, and is
    empty if what is read is in order already. Held at a time are the records of one stripe and those of its blocks
    that reach into the next. Every block is read once.
    """
    waiting: list[pa.Table] = []
    for blocks, bound in stripes:
        # One chunk per column first: sorting and taking from many chunks costs several times more.
        merged = pa.concat_tables([*waiting, *read(blocks)]).combine_chunks()
        if order:
            places = pc.sort_indices(merged, [(name, "ascending") for name in order])
            # What is in order already, as the records of one key in few files often are, is not moved once more.
            if not places.equals(pa.array(np.arange(merged.num_rows, dtype=np.uint64))):
                merged = merged.take(places)
        cut = merged.num_rows if bound is None else bisect.bisect_left(Codes(merged, key), bound)
        waiting = [merged.slice(cut)]
        if cut:
            yield merged.slice(0, cut)
