"""Objects with key ranges on disk: written before the commit that names them, read by whoever looks for keys.

They spare readers work and nothing else: one that is missing or damaged is done without. What no commit names any more is
removed at once, because readers can do without it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

from ebb.index.cellfile import CellFile, RangesObject
from ebb.index.directory import stop_order
from ebb.index.errors import WarehouseError
from ebb.index.ranges import FEW_FILES, Cohort, FileRange, dump_ranges, load_ranges, plan_ranges
from ebb.warehouse.store.files import make_folder, names_in, read_file, remove_file, write_new
from ebb.warehouse.store.paths import is_ranges, ranges_name
from ebb.warehouse.table.snapshot import Snapshot, Table

__all__ = ["ChangedRanges", "changed_ranges", "read_ranges", "remove_other_ranges"]


@dataclass(frozen=True, slots=True)
class ChangedRanges:
    """Objects that a commit adds, and the names of those that it drops."""

    added: tuple[RangesObject, ...] = ()
    dropped: tuple[str, ...] = ()


def read_ranges(table: Table, name: str) -> tuple[tuple[FileRange, ...], int]:
    """Return the key ranges in an object, none if it is gone or damaged, and how many bytes were read."""
    if not is_ranges(name):  # a commit names it, and may name any file
        return (), 0
    with suppress(OSError):
        data = read_file(f"{table.ranges}/{name}")
        return load_ranges(data) or (), len(data)
    return (), 0


def changed_ranges(
    snapshot: Snapshot,
    *,
    adds: Sequence[CellFile],
    removes: Sequence[CellFile],
    lost: Collection[str] = (),
    few: int = FEW_FILES,
) -> ChangedRanges:
    """Write the objects that a commit needs, and return what changes; ``lost``: the names of those that are damaged."""
    table, objects = snapshot.table, snapshot.ledger.ranges
    shrunk = {_cohort(file) for file in removes}
    shrunk |= {(found.generation, found.cohort) for found in objects if found.name in lost}
    if snapshot.foreign:  # another tool may have removed any file
        shrunk |= {(found.generation, found.cohort) for found in objects}
    changed = shrunk | {_cohort(file) for file in adds}
    if not objects and len(snapshot.files) + len(adds) < few:
        return ChangedRanges()
    gone = {file.path for file in removes}
    live: dict[Cohort, dict[str, CellFile]] = defaultdict(dict)
    for file in (*snapshot.files, *adds):
        if (cohort := _cohort(file)) in changed and file.path not in gone:
            live[cohort][file.path] = file
    known: dict[str, FileRange] = {}  # what was read of them

    @cache
    def files_of(found: RangesObject) -> list[str]:
        if found.name in lost:
            return []
        ranges, _ = read_ranges(table, found.name)
        known.update({one.path: one for one in ranges})
        return [one.path for one in ranges]

    plan = plan_ranges(objects, live, changed=changed, shrunk=shrunk, files_of=files_of, few=few)
    for found in plan.dropped:
        if any(cohort == (found.generation, found.cohort) for cohort, _ in plan.written):
            files_of(found)
    added = []
    for cohort, paths in plan.written:
        # Without an object the files are looked into: no reason to give up the commit.
        with suppress(OSError, WarehouseError):
            ranges = [known.get(path) or _range_of(table, live[cohort][path]) for path in paths]
            added.append(_write(table, cohort, ranges))
    return ChangedRanges(tuple(added), tuple(found.name for found in plan.dropped))


def _cohort(file: CellFile) -> Cohort:
    return file.cell.generation, file.cell.cohort


def _range_of(table: Table, file: CellFile) -> FileRange:
    from ebb.warehouse.parquet.datafile import DataFile  # Arrow is imported only where files are read

    contents = DataFile.look_up(str(table.folder), file).contents
    last = max(stop_order(stop or None) for stop in contents.stops)
    return FileRange(
        file.path, min(contents.starts), None if last == stop_order(None) else last[1], contents.row_groups
    )


def _write(table: Table, cohort: Cohort, ranges: Sequence[FileRange]) -> RangesObject:
    name = ranges_name(*cohort)
    make_folder(table.ranges, exist_ok=True, parents=True)
    write_new(f"{table.ranges}/{name}", [dump_ranges(ranges)])
    return RangesObject(*cohort, name, len(ranges))


def remove_other_ranges(table: Table, named: Collection[RangesObject]) -> None:
    """Remove the objects that the newest commit does not name.  Requires the writer's lock."""
    names = {found.name for found in named}
    with suppress(FileNotFoundError):
        for name in names_in(table.ranges):
            if name not in names:
                remove_file(table.ranges / name)
