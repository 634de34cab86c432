"""The directory: for every file of every cell, the sorted map from key ranges to the row groups that hold them.

A block is one row group and an interval of encoded keys (see ``index.keys``) that holds all of its records, each encoded as
its key and expiration slot. Blocks of one file follow each other in the order of their starts, and overlap only where
several of them hold one and the same key; blocks of different files overlap as they like. Pure.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ebb.index.contents import Contents
from ebb.index.keys import Interval

__all__ = [
    "SLOT_BYTES",
    "Block",
    "FileBlocks",
    "blocks_in",
    "blocks_in_order",
    "copied_blocks",
    "find",
    "only_key",
    "stop_order",
    "stripes",
]

SLOT_BYTES = 8  # of the code of a slot
_FEW = 64  # intervals up to this many are looked up one by one; for more, every block is looked at


class Block(NamedTuple):
    """One row group of one file."""

    path: str
    row_group: int
    start: bytes
    stop: bytes | None
    records: int
    size_bytes: int

    def meets(self, interval: Interval) -> bool:
        """Whether records of it may lie in an interval."""
        return (interval.stop is None or self.start < interval.stop) and (
            self.stop is None or self.stop > interval.start
        )


_End = tuple[bool, bytes]  # a stop in an order in which open comes last


def stop_order(stop: bytes | None) -> _End:
    """Return what brings stops in order."""
    return stop is None, stop or b""


class FileBlocks(NamedTuple):
    """The blocks of one file in the order of their starts, made when they are asked for."""

    starts: Sequence[bytes]
    reach: Sequence[_End]  # of each block, how far it or one before it goes
    block: Callable[[int], Block]

    def met(self, interval: Interval) -> Iterator[Block]:
        """Yield the blocks that meet an interval.  O(log blocks + those between)."""
        place = bisect.bisect_right(self.reach, (False, interval.start))
        while place < len(self.starts) and (interval.stop is None or self.starts[place] < interval.stop):
            block = self.block(place)
            if block.meets(interval):
                yield block
            place += 1


def blocks_in(path: str, contents: Contents) -> FileBlocks:
    """Return the blocks of a file of ours: its row groups lie in the order of their first records."""

    def block(place: int) -> Block:
        start, stop = contents.starts[place], contents.stops[place] or None
        return Block(path, place, start, stop, contents.records[place], contents.row_group_bytes(place))

    ends = (stop_order(stop or None) for stop in contents.stops)
    return FileBlocks(contents.starts, list(itertools.accumulate(ends, max)), block)


def blocks_in_order(blocks: Iterable[Block]) -> FileBlocks:
    """Return the blocks of a file that may be in any order."""
    ordered = sorted(blocks, key=lambda block: block.start)
    reach = itertools.accumulate((stop_order(block.stop) for block in ordered), max)
    return FileBlocks([block.start for block in ordered], list(reach), ordered.__getitem__)


def find(files: Iterable[FileBlocks], intervals: Sequence[Interval]) -> list[Block]:
    """Return the blocks of files that may hold a record of one of the intervals, in the order of their starts.

    Requires: the intervals are sorted and do not overlap.
    O(files × intervals × log blocks + those found), or O(blocks × log intervals) for many intervals.
    """
    if len(intervals) <= _FEW:
        met = {block for file in files for interval in intervals for block in file.met(interval)}
    else:
        starts = [interval.start for interval in intervals]
        met = {
            block
            for file in files
            for block in map(file.block, range(len(file.starts)))
            if block.meets(intervals[max(0, _last_before(starts, block.stop))])
        }
    return sorted(met, key=lambda block: (block.start, block.path, block.row_group))


def copied_blocks(blocks: Sequence[Block], can_be_copied: Callable[[Block], bool]) -> list[Block]:
    """Return the blocks that a merge can take over as they are, in their order.  Requires the order of their starts.

    A block that no other one's records lie between, and one whose records have one and the same key: they need not be
    in the order of their expirations.
    """
    found = []
    reach: _End = (False, b"")
    for block, following in itertools.zip_longest(blocks, blocks[1:]):
        is_apart = (False, block.start) >= reach and (
            following is None or (block.stop is not None and block.stop <= following.start)
        )
        reach = max(reach, stop_order(block.stop))
        if (is_apart or only_key(block) is not None) and can_be_copied(block):
            found.append(block)
    return found


def only_key(block: Block) -> bytes | None:
    """Return the code of the key that all records of a block have; None if there are several, or if it is not known.

    Requires a block of a file of ours: statistics of another tool's tell too little.
    """
    # A code ends in that of the expiration slot, and a stop is the code of the last record with a byte more.
    if block.stop is None or block.start[:-SLOT_BYTES] != block.stop[: -SLOT_BYTES - 1]:
        return None
    return block.start[:-SLOT_BYTES]


def _last_before(starts: Sequence[bytes], stop: bytes | None) -> int:
    """Return the place of the last interval that starts before ``stop``: if a block misses it, it misses all."""
    return (len(starts) if stop is None else bisect.bisect_left(starts, stop)) - 1


def stripes(
    blocks: Sequence[Block], first_bytes: int, most_bytes: int, least_bytes: int = 0
) -> Iterator[tuple[list[Block], bytes | None]]:
    """Cut blocks in the order of their starts into parts to be read one after the other.

    Yields blocks to read and the code up to which, not included, all records have then been read; None at the end.
    The first part is small, so that somebody who wants little need not wait; each is twice the one before. A block
    counts for ``least_bytes`` at least.
    """
    part: list[Block] = []
    budget, size = first_bytes, 0
    for block, following in itertools.zip_longest(blocks, blocks[1:]):
        part.append(block)
        size += max(block.size_bytes, least_bytes)
        if following is None:
            yield part, None
        elif size >= budget and following.start > part[0].start:
            yield part, following.start
            part, size, budget = [], 0, min(2 * budget, most_bytes)
