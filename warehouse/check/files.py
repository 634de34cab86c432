"""What a data file and what lies beside it look like on disk, for those who compare it with the log.  Changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
from zlib_ng.zlib_ng import crc32

from ebb.index.cellfile import CellFile, RangesObject
from ebb.index.contents import Contents, load_side_file
from ebb.index.directory import stop_order
from ebb.index.errors import CorruptionError
from ebb.index.ranges import FileRange, load_ranges
from ebb.warehouse.check.records import Problem, check_bytes, count_records
from ebb.warehouse.parquet.datafile import DataFile
from ebb.warehouse.read.pool import in_parallel
from ebb.warehouse.store.errors import first_line
from ebb.warehouse.store.files import is_there, names_in, read_file
from ebb.warehouse.store.lock import is_held
from ebb.warehouse.store.paths import LOCK, footer_hash_in, is_data_file, side_file
from ebb.warehouse.table.snapshot import Snapshot, Table

__all__ = ["FileFacts", "RangesFacts", "is_writing", "look_at_files", "look_at_ranges", "side_problem", "unnamed"]


@dataclass(frozen=True, slots=True)
class FileFacts:
    """One live data file: what the log says of it, and what it says itself."""

    file: CellFile
    error: CorruptionError | None = None  # why nothing of it can be believed
    contents: Contents | None = None
    side: str | None = None  # what is wrong with its side file
    problems: Sequence[Problem] = ()  # with its records, if they were looked at
    expirations: Mapping[int, int] = field(default_factory=dict)  # live records by slot, if they were looked at

    @property
    def key_range(self) -> FileRange | None:
        """Return what an object with key ranges has to say of it."""
        if self.contents is None:
            return None
        last = max(stop_order(stop or None) for stop in self.contents.stops)
        stop = None if last == stop_order(None) else last[1]
        return FileRange(self.file.path, min(self.contents.starts), stop, self.contents.row_groups)


def look_at_files(snapshot: Snapshot, *, deep: bool) -> Iterator[FileFacts]:
    """Look at all live files of Ebb, in parallel; ``deep``: at every byte and record."""
    ours = [file for file in snapshot.files if footer_hash_in(file.path)]
    return in_parallel(partial(_look, snapshot, deep=deep), ours)


def _look(snapshot: Snapshot, file: CellFile, *, deep: bool) -> FileFacts:
    folder, clock = str(snapshot.table.folder), snapshot.ledger.clock
    try:
        data = DataFile.open(folder, file)
        side = side_problem(folder, file, data.contents)
        if not deep:
            return FileFacts(file, contents=data.contents, side=side)
        check_bytes(data, file.size_bytes)
        counted = Counter[int](), list[Problem]()
        if clock is not None:
            counted = count_records(data, snapshot.spec, file.cell, clock)
    except CorruptionError as error:
        return FileFacts(file, error=error)
    except (pa.ArrowException, KeyError) as error:  # columns that are not those of the table
        what = f"{file.path}: its columns are not those of the table ({first_line(error)})"
        return FileFacts(file, error=CorruptionError("a data file is damaged", what, ""))
    return FileFacts(file, None, data.contents, side, counted[1], counted[0])


def side_problem(folder: str, file: CellFile, contents: Contents) -> str | None:
    """Return what is wrong with the side file of a data file; None if nothing is."""
    side = side_file(file.path)
    try:
        data = read_file(f"{folder}/{side}")
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({first_line(error)})"
    found = load_side_file(file.path.rsplit("/", 1)[-1], data, crc32)
    if found is None:
        return "is damaged"
    if found.block != contents.block or not _has_filters(found):
        return "tells something else than its data file"
    return None


def _has_filters(side: Contents) -> bool:
    """Whether the Bloom filters in a side file are those of the data file."""
    for column in range(side.key_columns):
        for row_group in range(side.row_groups):
            where = side.filter(column, row_group)
            if where.length and crc32(side.filter_bits(column, row_group)) != where.checksum:
                return False
    return True


@dataclass(frozen=True, slots=True)
class RangesFacts:
    """An object with key ranges that the ledger names."""

    named: RangesObject
    ranges: Sequence[FileRange] = ()
    problem: str | None = None


def look_at_ranges(snapshot: Snapshot) -> tuple[list[RangesFacts], list[str]]:
    """Look at the objects that the ledger names; returns them, and the names of other files beside them."""
    table = snapshot.table
    found = [_ranges(table, named) for named in snapshot.ledger.ranges]
    try:
        names = set(names_in(table.ranges))
    except FileNotFoundError:
        names = set()
    return found, sorted(names - {named.name for named in snapshot.ledger.ranges})


def _ranges(table: Table, named: RangesObject) -> RangesFacts:
    try:
        data = read_file(f"{table.ranges}/{named.name}")
    except FileNotFoundError:
        return RangesFacts(named, problem="is missing")
    except OSError as error:
        return RangesFacts(named, problem=f"cannot be read ({first_line(error)})")
    ranges = load_ranges(data)
    return RangesFacts(named, problem="is damaged") if ranges is None else RangesFacts(named, ranges)


def is_writing(table: Table) -> bool:
    """Whether somebody is writing to a table, as far as the lock's card tells; no lock is taken."""
    return is_held(table.hidden / LOCK)


def unnamed(table: Table, newest: Callable[[], Snapshot], *, is_writer: bool = False) -> list[str]:
    """Return the files below a table that no commit needs and that nobody is writing; ``is_writer``: we hold the lock.

    First what is there, then who is at work, then the newest version: a writer who ends in between has named its files or
    removed them.
    """
    there = list(table.all_files())
    if not is_writer and is_writing(table):
        return []
    snapshot = newest()
    named = {file.path for file in snapshot.files}
    named.update(path for removal in snapshot.removals() for path in removal.paths)
    named.update([side_file(path) for path in named if is_data_file(path)])
    return [path for path in there if path not in named and is_there(table.folder / path)]
