"""Key ranges of the files of one cohort: which files a probe need not look into at all.

A table of many files keeps, for each cohort, a few objects that say from which key to which each of some files goes. An
object names live files only, so that it holds no key of a record that is gone, and it never changes: whoever removes one
of its files from the table drops it, and what is left is told by another one. A file is in one object at most; a file
that is in none is looked into. Pure.
"""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sortedcontainers import SortedKeyList

from ebb.index.cellfile import RangesObject
from ebb.index.contents import shortened
from ebb.index.directory import stop_order
from ebb.index.keys import Interval
from ebb.index.stored import unpacked

__all__ = [
    "FEW_FILES", "Cohort", "FileRange", "KeyRanges", "RangesPlan", "dump_ranges", "load_ranges", "plan_ranges",
]  # fmt: skip

FEW_FILES = 16  # as many files of a cohort are looked into rather than kept in an object
_MAGIC = b"EBBRNGS1"
_MOST_BYTES = 128 * 1024 * 1024  # of an object when it is unpacked: of about 200,000 files

Cohort = tuple[int, int]  # its generation and its number


class FileRange(NamedTuple):
    """From which code to which the records of a file go."""

    path: str
    start: bytes
    stop: bytes | None
    row_groups: int


def dump_ranges(ranges: Sequence[FileRange]) -> bytes:
    """Write an object."""
    ends = [shortened(Interval(found.start, found.stop)) for found in ranges]
    starts, stops = [end.start for end in ends], [end.stop or b"" for end in ends]  # an empty stop is an open one
    paths, count = "\n".join(found.path for found in ranges).encode(), len(ranges)
    numbers = [found.row_groups for found in ranges], list(map(len, starts)), list(map(len, stops))
    arrays = [struct.pack(f"<{count}I", *column) for column in numbers]
    body = zlib.compress(b"".join([struct.pack("<II", count, len(paths)), *arrays, paths, *starts, *stops]))
    return _MAGIC + struct.pack("<I", zlib.crc32(body)) + body


def load_ranges(data: bytes) -> tuple[FileRange, ...] | None:
    """Read what :func:`dump_ranges` wrote; None if it is damaged or of another version."""
    if data[:8] != _MAGIC or len(data) < 12 or struct.unpack_from("<I", data, 8)[0] != zlib.crc32(data[12:]):
        return None
    try:
        return _loaded(unpacked(data[12:], _MOST_BYTES))
    except (ValueError, struct.error):
        return None


def _loaded(body: bytes) -> tuple[FileRange, ...]:
    count, path_bytes = struct.unpack_from("<II", body)
    groups, starts, stops = (struct.unpack_from(f"<{count}I", body, 8 + 4 * count * place) for place in range(3))
    at = 8 + 12 * count
    paths = body[at : at + path_bytes].decode().split("\n") if count else []
    ends = itertools.accumulate([*starts, *stops], initial=at + path_bytes)
    texts = [body[low:high] for low, high in itertools.pairwise(ends)]
    return tuple(map(FileRange, paths, texts[:count], [stop or None for stop in texts[count:]], groups))


class KeyRanges:
    """What a reader knows of the key ranges of files."""

    def __init__(self) -> None:
        self._by_path: dict[str, FileRange] = {}
        self._by_stop: SortedKeyList = SortedKeyList(key=lambda found: stop_order(found.stop))

    def __contains__(self, path: str) -> bool:
        return path in self._by_path

    def __len__(self) -> int:
        return len(self._by_path)

    def add(self, ranges: Iterable[FileRange]) -> None:
        """Take in ranges; those of files that it knows say the same."""
        new = {found.path: found for found in ranges if found.path not in self._by_path}
        self._by_path |= new
        self._by_stop.update(new.values())

    def keep(self, paths: Collection[str]) -> None:
        """Forget the ranges of other files than these."""
        kept = [found for path, found in self._by_path.items() if path in paths]
        self._by_path = {found.path: found for found in kept}
        self._by_stop = SortedKeyList(kept, key=lambda found: stop_order(found.stop))

    def row_groups(self, path: str) -> int:
        """Return how many row groups a file has.  Requires that it is known."""
        return self._by_path[path].row_groups

    def meeting(self, intervals: Sequence[Interval]) -> set[str]:
        """Return the files that it knows with records that may lie in one of the intervals.

        Requires intervals that are sorted and do not overlap.  O(intervals × (log files + those that end later)).
        """
        if not intervals:
            return set()
        after = self._by_stop.irange_key(min_key=stop_order(intervals[0].start), inclusive=(False, True))
        return {
            found.path
            for found in after
            if any(
                (one.stop is None or found.start < one.stop) and stop_order(found.stop) > (False, one.start)
                for one in intervals
            )
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RangesPlan:
    """Which objects a commit drops, and for which files of a cohort it writes a new one."""

    dropped: tuple[RangesObject, ...] = ()
    written: tuple[tuple[Cohort, tuple[str, ...]], ...] = ()


def plan_ranges(
    objects: Sequence[RangesObject],
    live: Mapping[Cohort, Collection[str]],
    *,
    changed: Collection[Cohort],
    shrunk: Collection[Cohort],
    files_of: Callable[[RangesObject], Collection[str]],
    few: int = FEW_FILES,
) -> RangesPlan:
    """Return what becomes of the objects of a table when its files change.

    ``live``: the files after the commit, by cohort. ``changed``: the cohorts with other files than before; ``shrunk``:
    those of them that lost some. ``files_of`` reads the paths in an object, none if it cannot be read; it is asked only
    where it has to be. A new object takes in those before it that are not much larger, so that there are few.
    """
    dropped: list[RangesObject] = []
    written: list[tuple[Cohort, tuple[str, ...]]] = []
    for cohort in sorted(changed):
        mine = [found for found in objects if (found.generation, found.cohort) == cohort]
        there = live.get(cohort, ())
        if not there:
            dropped += mine
            continue
        if cohort in shrunk:
            paths = set(there)
            gone = [found for found in mine if not (files := files_of(found)) or not paths.issuperset(files)]
            dropped += gone
            mine = [found for found in mine if found not in gone]
        left = len(there) - sum(found.files for found in mine)
        if left < few:
            continue
        for found in sorted(mine, key=lambda found: found.files):
            if found.files > 2 * left:
                break
            dropped.append(found)
            mine.remove(found)
            left += found.files
        covered = {path for found in mine for path in files_of(found)}
        written.append((cohort, tuple(sorted(path for path in there if path not in covered))))
    return RangesPlan(dropped=tuple(dropped), written=tuple(written))
