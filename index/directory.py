"""The directory: for every file of every cell, the sorted map from key ranges to the row groups that hold them.

A block is one row group and an interval of encoded keys (see ``index.keys``) that holds all of its records, each encoded as
its key and expiration slot. Blocks of one file follow each other in key order, because the file is sorted; blocks of
different files overlap as they like. Pure.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from sortedcontainers import SortedKeyList

from ebb.index.keys import Interval

__all__ = ["Block", "Directory", "Filter", "stop_order", "stripes"]

_FEW = 64  # intervals up to this many are looked up one by one; for more, every block is looked at


class Filter(NamedTuple):
    """Where the Bloom filter of a row group's key column lies in its file."""

    offset: int
    length: int
    checksum: int


class Block(NamedTuple):
    """One row group of one file."""

    path: str
    row_group: int
    start: bytes
    stop: bytes | None
    records: int
    size_bytes: int
    filters: tuple[Filter, ...] = ()  # one per key column, or none

    def meets(self, interval: Interval) -> bool:
        """Whether records of it may lie in an interval."""
        return (interval.stop is None or self.start < interval.stop) and (
            self.stop is None or self.stop > interval.start
        )


_End = tuple[bool, bytes]  # a stop in an order in which open comes last


def stop_order(stop: bytes | None) -> _End:
    """Return what brings stops in order."""
    return stop is None, stop or b""


def _end_of(block: Block) -> _End:
    return stop_order(block.stop)


class Directory:
    """The blocks of some files of a table."""

    def __init__(self) -> None:
        self._files: dict[str, SortedKeyList] = {}  # in the order of their stops, which is also that of their starts

    def __contains__(self, path: str) -> bool:
        return path in self._files

    def __len__(self) -> int:
        return len(self._files)

    def paths(self) -> list[str]:
        """Return the files that are in it."""
        return list(self._files)

    def blocks(self, path: str) -> Sequence[Block]:
        """Return the blocks of a file in the order of their keys."""
        blocks: Sequence[Block] = self._files[path]
        return blocks

    def add(self, path: str, blocks: Sequence[Block]) -> None:
        """Take in what is known of a file."""
        if any(one.start > other.start or _end_of(one) > _end_of(other) for one, other in itertools.pairwise(blocks)):
            blocks = _narrowed(blocks)
        self._files[path] = SortedKeyList(blocks, key=_end_of)

    def discard(self, path: str) -> None:
        """Forget a file."""
        self._files.pop(path, None)

    def find(self, intervals: Sequence[Interval], paths: Collection[str]) -> list[Block]:
        """Return the blocks of these files that may hold a record of one of the intervals, in the order of their starts.

        Requires: the files are in it; the intervals are sorted and do not overlap.
        O(files × intervals × log blocks + those found), or O(blocks × log intervals) for many intervals.
        """
        if len(intervals) <= _FEW:
            met = {block for path in paths for interval in intervals for block in self._in_file(path, interval)}
        else:
            starts = [interval.start for interval in intervals]
            met = {
                block
                for path in paths
                for block in self._files[path]
                if block.meets(intervals[max(0, _last_before(starts, block.stop))])
            }
        return sorted(met, key=lambda block: (block.start, block.path, block.row_group))

    def _in_file(self, path: str, interval: Interval) -> Iterator[Block]:
        following = self._files[path].irange_key(min_key=stop_order(interval.start), inclusive=(False, True))
        return itertools.takewhile(lambda block: interval.stop is None or block.start < interval.stop, following)


def _narrowed(blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks of a file with starts and stops that never go back.

    Footers have no statistics of very long texts, and say more or less of a key's parts; but each block lies between
    those before and after it.
    """
    starts = itertools.accumulate((block.start for block in blocks), max)
    stops = itertools.accumulate((block.stop for block in reversed(blocks)), lambda *two: min(two, key=stop_order))
    return [
        block._replace(start=start, stop=stop)
        for block, start, stop in zip(blocks, starts, reversed(list(stops)), strict=True)
    ]


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
