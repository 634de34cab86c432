"""Checkpoints of a Delta log, and how long its entries are kept.

A checkpoint is what opening a table starts from, and what lets older entries go. Both are steps of their own after a
commit, never part of one: a commit is made when its entry is there, and what fails here is tried again after the next.
Ebb cleans up its logs itself, because Delta's rules count in whole days.

delta-rs writes checkpoints, and waits for no disk. A checkpoint that a power failure has cut off would keep everybody from
opening the table, so it is written in a folder of its own, beside names of the entries that it is made of, and comes into
the log when it is on the disk.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from ebb.warehouse.store.disk import Disk
from ebb.warehouse.store.errors import disk_error, disk_errors
from ebb.warehouse.store.files import link, make_folder, names_in, remove_file, remove_tree, rename
from ebb.warehouse.store.modes import fit_files
from ebb.warehouse.store.paths import LAST_CHECKPOINT, LOG
from ebb.warehouse.table.log import LogEntry

__all__ = [
    "CHECKPOINT_INTERVAL", "checkpoint_if_due", "clean_log", "first_kept", "log_until", "remove_checkpoint", "superseded",
    "write_checkpoint",
]  # fmt: skip

CHECKPOINT_INTERVAL = 50  # commits; opening a table reads the entries since the last checkpoint
_VERSION = re.compile(r"([0-9]{20})\.(json|checkpoint)")


def checkpoint_if_due(folder: Path, version: int, *, aside: Path, disk: Disk) -> bool:
    """Write down what a Delta table looks like if enough commits were made since the last time; returns if it was.

    ``aside``: the place of a folder in which it is made, on the same disk.
    """
    if version - _last(folder / LOG) < CHECKPOINT_INTERVAL:
        return False
    write_checkpoint(folder, version, aside=aside, disk=disk)
    return True


def write_checkpoint(folder: Path, version: int, *, aside: Path, disk: Disk) -> None:
    """Write down what a Delta table looks like at a version.

    ``aside``: the place of a folder in which it is made, on the same disk.
    """
    from deltalake.exceptions import DeltaError

    try:
        remove_tree(aside)  # of one who was killed
        try:
            _checkpoint(folder / LOG, version, aside, disk)
        finally:
            remove_tree(aside)
    except (DeltaError, OSError) as error:
        what, step = f"the checkpoint of version {version} cannot be written", "the next commit tries again"
        raise disk_error(error, what, note="nothing is lost", step=step) from error


def remove_checkpoint(log: Path, version: int) -> None:
    """Remove a checkpoint that cannot be read, and what names it.  Requires the entries since the one before it."""
    what = f"the checkpoint of version {version} cannot be removed"
    with disk_errors(what):
        remove_file(log / LAST_CHECKPOINT)
        for name in names_in(log):
            if name.startswith(f"{version:020}.checkpoint"):
                remove_file(log / name)


def _checkpoint(log: Path, version: int, aside: Path, disk: Disk) -> None:
    from deltalake import DeltaTable

    here = aside / LOG
    make_folder(here, parents=True)
    older = [name for name in names_in(log) if (match := _VERSION.match(name)) and _is_older(match, version)]
    needed = set(older) - set(superseded(older, version))
    for name in needed:
        link(log / name, here / name)
    DeltaTable(aside, version=version).create_checkpoint()
    made = set(names_in(here)) - needed
    fit_files(here, made)
    disk.sync(here / name for name in made)
    for name in sorted(made - {LAST_CHECKPOINT}):
        rename(here / name, log / name)
    disk.sync([log])  # first: whoever finds the other name must find these
    rename(here / LAST_CHECKPOINT, log / LAST_CHECKPOINT)
    disk.sync([log])


def _is_older(match: re.Match[str], version: int) -> bool:
    """Whether a file of a log is needed for a checkpoint of a version: an entry of it, or a checkpoint before it."""
    return int(match[1]) + (match[2] == "checkpoint") <= version


def _last(log: Path) -> int:
    """Return the version of the last checkpoint; 0 if there is none, or none that can be read."""
    try:
        return int(json.loads((log / LAST_CHECKPOINT).read_bytes())["version"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def clean_log(
    log: Path, *, needed_from: int, is_kept: Callable[[LogEntry], bool], announce: Callable[[int], None]
) -> int:
    """Remove the entries and checkpoints that nobody needs any more; returns how many files went.

    ``needed_from``: the first commit that the table itself needs. ``is_kept``: whether a commit is within the
    retention; if one is, so are all that follow it. ``announce`` is told, before anything goes, the first commit that stays.
    """
    try:
        names = names_in(log)
        commits = sorted(int(match[1]) for name in names if (match := _VERSION.match(name)) and match[2] == "json")
        keep_from = min(needed_from, first_kept(commits, lambda version: _is_kept(log, version, is_kept)))
        gone = superseded(names, keep_from)
        if gone:
            announce(1 + max(int(name[:20]) for name in gone))
        for name in gone:
            remove_file(log / name)
    except OSError as error:
        what, step = "old entries of the log cannot be removed", "a later commit tries again"
        raise disk_error(error, what, note="nothing is lost", step=step) from error
    return len(gone)


def _is_kept(log: Path, version: int, is_kept: Callable[[LogEntry], bool]) -> bool:
    entry = LogEntry.read(log, version)
    return entry is None or is_kept(entry)


def first_kept(commits: list[int], is_kept: Callable[[int], bool]) -> int:
    """Return the first commit within the retention; the one after the last if there is none.  O(log commits).

    >>> first_kept([3, 4, 5, 6, 7], lambda version: version >= 6)
    6
    """
    low, high = 0, len(commits)
    while low < high:
        middle = (low + high) // 2
        if is_kept(commits[middle]):
            high = middle
        else:
            low = middle + 1
    return commits[low] if low < len(commits) else (commits[-1] + 1 if commits else 0)


def superseded(names: Iterable[str], keep_from: int) -> list[str]:
    """Return the files of a log that are not needed to read version ``keep_from`` or a later one.

    That takes the newest checkpoint not after it, and every entry since that one.

    >>> log = [f"{v:020}.json" for v in range(8)] + [f"{v:020}.checkpoint.parquet" for v in (2, 5)]
    >>> [name[18:] for name in superseded(log, 6)]
    ['00.json', '01.json', '02.checkpoint.parquet', '02.json', '03.json', '04.json']
    """
    versions = {name: int(match[1]) for name in names if (match := _VERSION.match(name))}
    checkpoints = [version for name, version in versions.items() if ".checkpoint" in name and version <= keep_from]
    start = max(checkpoints, default=0)
    return sorted(name for name, version in versions.items() if version < start)


def log_until(names: Iterable[str], version: int) -> list[str]:
    """Return the files of a log that tell of a version and the commits before it: entries, and the newest checkpoint.

    >>> log = [f"{v:020}.json" for v in range(3, 8)] + [f"{v:020}.checkpoint.parquet" for v in (2, 5, 7)]
    >>> [name[18:] for name in log_until(log, 6)]
    ['03.json', '04.json', '05.checkpoint.parquet', '05.json', '06.json']
    """
    versions = {name: int(match[1]) for name in names if (match := _VERSION.match(name)) and int(match[1]) <= version}
    newest = max((found for name, found in versions.items() if ".checkpoint" in name), default=None)
    return sorted(name for name, found in versions.items() if ".checkpoint" not in name or found == newest)
