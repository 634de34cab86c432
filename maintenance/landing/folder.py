"""A landing folder on disk: what has arrived, and where its files go.

    FILE                 arrived; its producer may put another one under the same name at any time
    _taken/SLOT.part/    arrived too: a batch that is being put together, or whose tick was applied without it
    _taken/SLOT/         a whole batch, in one step: whatever dies now, the next run finds the very same batch, and the
                         ledger tells whether it was applied
    _applied/SLOT/       applied; erased with the quarantine's time
    _refused/SLOT/       not applied, with reasons; erased like that

Files go down this list and never back to where producers write. Everything but FILE belongs to the one run that holds
the lock, so a name that is free there stays free until it is used: nothing is ever replaced, and no hard links are
needed, which Linux refuses for files of other users. A second file or batch of one name gets a number.

What goes wrong with the folder comes as our own errors, with the folder named.
"""

from __future__ import annotations

import errno
import functools
import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from ebb.index.errors import EngineError
from ebb.index.timeline import Timeline
from ebb.maintenance.landing.steps import Landed, slot_of_file
from ebb.maintenance.landing_place import has_arrived
from ebb.warehouse.store.disk import Disk
from ebb.warehouse.store.files import (
    append_line,
    free_place,
    make_folder,
    nearest_folder,
    remove_empty_folders,
    remove_empty_parents,
    remove_file,
    remove_tree,
    rename,
)
from ebb.warehouse.store.lock import locked
from ebb.warehouse.store.paths import (
    LANDING_APPLIED,
    LANDING_LOCK,
    LANDING_REASONS,
    LANDING_REFUSED,
    LANDING_TAKEN,
    numbered_batch,
    numbered_file,
)

__all__ = [
    "arrived",
    "erase_old",
    "keep_applied",
    "kept_batches",
    "locked_folder",
    "put_back",
    "refuse_file",
    "remove_kept",
    "settle",
    "slot_of",
    "take",
    "taken_batches",
]

_BATCH = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_UNFINISHED = ".part"
_STEPS = {
    errno.ENOENT: "create it",
    errno.ENOTDIR: "name another landing folder",
    errno.EACCES: "let the user of this process read and write it",
    errno.EPERM: "let the user of this process read and write it",
    errno.EROFS: "mount its disk for writing",
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
}
P = ParamSpec("P")
T = TypeVar("T")


def _translated(work: Callable[Concatenate[Path, P], T]) -> Callable[Concatenate[Path, P], T]:
    """Turn errors of the file system into ours; the first argument of such a function is the landing folder."""

    @functools.wraps(work)
    def translated(folder: Path, /, *arguments: P.args, **named: P.kwargs) -> T:
        try:
            return work(folder, *arguments, **named)
        except OSError as error:
            place = f" ({error.filename})" if error.filename not in (None, str(folder)) else ""
            reason = f"{error.strerror or error}{place}"
            step = _STEPS.get(error.errno or 0, "check its disk")
            raise EngineError(f"landing folder {folder} cannot be used", reason, step) from error

    return translated


@contextmanager
def locked_folder(folder: Path, *, wait: float) -> Iterator[None]:
    """Be the one run that works on a landing folder, waiting for another at most ``wait`` seconds."""
    _look(folder)  # locking would make it anew
    with locked(folder / LANDING_LOCK, f"landing folder {folder}", wait=wait):
        yield


@_translated
def _look(folder: Path) -> None:
    next(folder.iterdir(), None)


@_translated
def arrived(folder: Path, line: Timeline, label: str = "end") -> list[Landed]:
    """Return the files that have arrived and are part of no batch yet, and the slots they belong to."""
    paths = list(folder.iterdir())
    for unfinished in _named(folder / LANDING_TAKEN, _UNFINISHED):
        paths += _entries(unfinished)
    return [landed for path in paths if (landed := _landed(path, line, label))]


def _entries(place: Path) -> list[Path]:
    """Return what is in a folder of ours; nothing if it is not there, or not any more."""
    try:
        return list(place.iterdir())
    except FileNotFoundError:
        return []


def _landed(path: Path, line: Timeline, label: str) -> Landed | None:
    if not has_arrived(path):
        return None
    try:
        modified_us = path.stat().st_mtime_ns // 1000
    except FileNotFoundError:  # taken away again
        return None
    return Landed(path, slot_of_file(path.name, modified_us, line, label))


@_translated
def taken_batches(folder: Path) -> list[Path]:
    """Return the batches that a run took and did not finish, in the order of their slots."""
    return _named(folder / LANDING_TAKEN)


def _named(place: Path, suffix: str = "") -> list[Path]:
    """Return the folders that are named after slots, in their order."""
    named = [p for p in _entries(place) if p.name.endswith(suffix)]
    return sorted((p for p in named if _BATCH.fullmatch(p.name.removesuffix(suffix)) and p.is_dir()), key=slot_of)


def slot_of(batch: Path) -> int:
    """Return the slot that a batch's folder is named after."""
    return int(batch.name.split(".")[0])


@_translated
def take(folder: Path, slot: int, files: Sequence[Path]) -> Path | None:
    """Put a batch together: its folder has its name only when all files are in it.  None if no file is left."""
    unfinished = _unfinished(folder, slot)
    make_folder(unfinished)
    taken = [file for file in files if _moved(file, unfinished)]
    batch = _stored(unfinished, folder / LANDING_TAKEN, slot) if taken else None
    for place in _named(folder / LANDING_TAKEN, _UNFINISHED):
        remove_empty_folders(place)
    return batch


def _unfinished(folder: Path, slot: int) -> Path:
    """Return a new place for a batch that is not whole."""
    place = folder / LANDING_TAKEN
    make_folder(place, exist_ok=True)
    return free_place(place, (numbered_batch(slot, n) + _UNFINISHED for n in itertools.count()))


def _moved(file: Path, place: Path) -> bool:
    """Move a file into a folder of ours; False if it is gone."""
    target = free_place(place, (numbered_file(file.name, n) for n in itertools.count()))
    try:
        rename(file, target)
    except FileNotFoundError:
        if not place.is_dir():
            raise
        return False
    return True


def _stored(batch: Path, place: Path, slot: int) -> Path:
    """Move a whole batch in one step: a part of it left behind would look like another batch."""
    make_folder(place, exist_ok=True)
    target = free_place(place, (numbered_batch(slot, n) for n in itertools.count()))
    rename(batch, target)
    return target


@_translated
def settle(folder: Path, batch: Path, disk: Disk) -> None:
    """Wait until a batch that was taken stays where it is.

    Before the commit that applies it: after a power failure, what was applied is in ``_taken``, where it is known by its
    slot, and not with what arrives.
    """
    for place in (batch, batch.parent, folder):  # where the files are now, before where they came from
        disk.sync([place])


@_translated
def put_back(folder: Path, batch: Path) -> None:
    """Make the files of a batch arrive again: its tick was applied without them, so they are late."""
    rename(batch, _unfinished(folder, slot_of(batch)))


@_translated
def keep_applied(folder: Path, batch: Path) -> None:
    """Keep the files of a batch that was applied."""
    remove_empty_folders(batch)
    if batch.is_dir():
        _stored(batch, folder / LANDING_APPLIED, slot_of(batch))


@_translated
def refuse_file(folder: Path, file: Path, slot: int, reason: str) -> Path | None:
    """Set a file aside that cannot be read, with the reason beside it; it is kept from ``slot`` on.

    Returns where the file is now; None if it is gone.
    """
    if not file.is_file():
        return None
    place = folder / LANDING_REFUSED / str(slot)
    make_folder(place, exist_ok=True, parents=True)
    target = free_place(place, (numbered_file(file.name, n) for n in itertools.count()))
    # First the reason: no file is ever refused without one.
    append_line(place / LANDING_REASONS, json.dumps({"files": [target.name], "reason": reason}))
    rename(file, target)
    return target


@_translated
def erase_old(folder: Path, through: int) -> None:
    """Erase what was applied or refused up to a slot: the deletion bound would mean little if files stayed."""
    for place in (folder / LANDING_APPLIED, folder / LANDING_REFUSED):
        for batch in _named(place):
            if slot_of(batch) <= through:
                remove_tree(batch)


@_translated
def kept_batches(folder: Path) -> list[Path]:
    """Return the files that were applied or refused and are still kept."""
    batches = [batch for place in (LANDING_APPLIED, LANDING_REFUSED) for batch in _named(folder / place)]
    paths = (path for batch in batches for path in _entries(batch) if not path.name.startswith(("_", ".")))
    return sorted(path for path in paths if path.is_file() or path.is_symlink())


@_translated
def remove_kept(folder: Path, files: Sequence[Path], disk: Disk) -> None:
    """Remove some of these files before their time; when this returns, they do not come back after a power failure."""
    paths = [file.relative_to(folder).as_posix() for file in files]
    for path in paths:
        remove_file(folder / path)
        remove_empty_parents(folder, path)
    disk.sync(nearest_folder(folder, path) for path in paths)
