"""Every call to the operating system that reads, makes, moves or removes a file of a table or landing folder.

What goes wrong comes as OSError: the callers know what it means for their users. Nothing here follows a symbolic link
below a table.
"""

from __future__ import annotations

import contextlib
import gzip
import itertools
import mmap
import os
import shutil
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from ebb.index.errors import CorruptionError
from ebb.warehouse.store.disk import Disk
from ebb.warehouse.store.modes import make_folder, new_file
from ebb.warehouse.store.paths import doomed_folder, side_file, unfinished_file

__all__ = [
    "absolute",
    "append_line",
    "copy_file",
    "create",
    "files_below",
    "fill",
    "folders_in",
    "free_place",
    "identity",
    "is_there",
    "link",
    "make_file",
    "make_folder",
    "mapped",
    "names_in",
    "nearest_folder",
    "new_file",
    "open_text",
    "opened_file",
    "overwrite",
    "read_at",
    "read_file",
    "refuse_links",
    "remove_all_but",
    "remove_empty_folders",
    "remove_empty_parents",
    "remove_file",
    "remove_folder",
    "remove_tree",
    "rename",
    "replace_file",
    "size_of",
    "write_new",
]

_COPY_BYTES = 4 * 1024 * 1024  # at a time
_MOST_PARTS = 512  # of one call to write: the operating system takes 1024


def absolute(path: str | Path) -> str:
    """Return a path for tasks that do not run where we do."""
    return os.path.abspath(path)


def make_file(path: str | Path, *, exist_ok: bool = False) -> None:
    """Make an empty file for an engine to fill: it keeps the mode that it is made with."""
    with contextlib.suppress(*[FileExistsError] * exist_ok):
        os.close(new_file(path))


def identity(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from another one that had or gets its name; None if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def is_there(path: Path) -> bool:
    """Whether there is a file; if nobody may tell, that is an error."""
    try:
        os.stat(path)
    except FileNotFoundError:
        return False
    return True


def size_of(file: int | str | Path) -> int:
    """Return the size of a file, by path or descriptor."""
    return os.stat(file).st_size


@contextmanager
def opened_file(table: str, path: str) -> Iterator[int]:
    """Open a file below a table for reading; a link is refused."""
    opened = os.open(f"{table}/{path}", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield opened
    finally:
        os.close(opened)


def read_at(file: int, length: int, offset: int) -> bytes:
    """Read some bytes of an open file."""
    return os.pread(file, length, offset)


def read_file(path: str) -> bytes:
    """Return the bytes of a file."""
    with open(path, "rb", buffering=0) as opened:
        return opened.read()


def fill(file: int, room: memoryview, offset: int) -> int:
    """Fill memory from a place in an open file on; returns where reading ended."""
    while room and (count := os.preadv(file, [room], offset)):
        room, offset = room[count:], offset + count
    return offset


def mapped(path: Path) -> memoryview:
    """Return the bytes of a file that never changes, without reading them all."""
    with path.open("rb") as opened:
        return memoryview(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ))


def open_text(path: str) -> IO[bytes]:
    """Open an input text for reading, unpacked."""
    return cast("IO[bytes]", gzip.open(path, "rb")) if path.lower().endswith(".gz") else open(path, "rb")


def write_new(path: str, parts: Sequence[bytes | memoryview], *, for_owner: bool = False) -> None:
    """Make a file of some parts, one after the other, with all that it will ever hold."""
    with open(new_file(path, for_owner=for_owner), "wb", buffering=0) as opened:
        left = deque(memoryview(part) for part in parts if len(part))
        while left:
            count = os.writev(opened.fileno(), list(itertools.islice(left, _MOST_PARTS)))
            while left and count >= len(left[0]):
                count -= len(left.popleft())
            if count:
                left[0] = left[0][count:]


def rename(old: str | Path, new: str | Path) -> None:
    """Give a file or folder another name; what has that name is replaced, unless it is a folder with something in it."""
    os.rename(old, new)


def link(old: Path, new: Path) -> None:
    """Give a file one more name."""
    os.link(old, new)


def free_place(folder: Path, names: Iterable[str]) -> Path:
    """Return the first place in a folder that nothing has.  It stays free while the caller alone puts things there."""
    return next(folder / name for name in names if not os.path.lexists(folder / name))


def append_line(path: Path, line: str) -> None:
    """Add a line to a text; a line before it that was cut off stays alone."""
    with contextlib.suppress(FileExistsError):
        os.close(new_file(path))
    with path.open("ab+") as text:
        end = text.seek(0, os.SEEK_END)
        is_cut = bool(end) and os.pread(text.fileno(), 1, end - 1) != b"\n"
        text.write(b"\n" * is_cut + line.encode() + b"\n")


def create(path: Path, data: bytes, *, unfinished: Path, disk: Disk) -> None:
    """Make a file that is there whole or not at all: FileExistsError if there is one.

    It is written under the name ``unfinished`` first, which is gone afterwards, and is on the disk before it has its own:
    whoever finds that after a power failure finds all of the file. The name itself is not synced here.
    """
    try:
        with open(new_file(unfinished, is_new=False), "wb") as opened:
            opened.write(data)
            opened.flush()
            disk.sync_open(opened.fileno())
        os.link(unfinished, path)
    finally:
        for _ in range(2):  # nobody would look for it: what fails once may not fail again
            with contextlib.suppress(OSError):
                unfinished.unlink(missing_ok=True)


def overwrite(path: Path, data: bytes, offset: int) -> None:
    """Write over some bytes of a file where they are; who reads meanwhile, or after a crash, may see half of them."""
    opened = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.pwrite(opened, data, offset)
    finally:
        os.close(opened)


def replace_file(path: Path, data: bytes, disk: Disk, *, for_owner: bool = False) -> None:
    """Give a small file other content, in one step: whoever reads it sees all of the one or all of the other.

    So does whoever reads it after a power failure; which of the two is not certain before its folder is synced.
    """
    unfinished = path.with_name(unfinished_file(path.name))
    try:
        with open(new_file(unfinished, for_owner=for_owner), "wb") as opened:
            opened.write(data)
            opened.flush()
            disk.sync_open(opened.fileno())
        os.rename(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise


def copy_file(source: Path, target: Path) -> None:
    """Copy a file; what stands at its new place is replaced, and what was copied of it stays if this fails."""
    read = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(read, "rb", buffering=0) as opened, open(new_file(target, is_new=False), "wb", buffering=0) as copy:
        shutil.copyfileobj(opened, copy, _COPY_BYTES)


def remove_file(path: str | Path) -> None:
    """Remove a file if it is there."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def remove_tree(folder: Path) -> None:
    """Remove a folder and everything in it; what cannot be removed stays."""
    shutil.rmtree(folder, ignore_errors=True)


def remove_folder(folder: Path) -> bool:
    """Remove a folder of ours and everything in it, whoever still writes there; returns whether it is gone."""
    # Under another name first: a late task fails instead of adding to what is being removed.
    doomed = folder.with_name(doomed_folder(folder.name))
    with contextlib.suppress(OSError):
        folder.rename(doomed)
    remove_tree(doomed)
    return not folder.exists() and not doomed.exists()


def remove_all_but(table: Path, folder: str, kept: Collection[str]) -> bool:
    """Remove what is in a folder of ours below a table, except some data files and what lies beside them.

    Returns whether it is gone.
    """
    kept = {place for path in kept if path.startswith(f"{folder}/") for place in (path, side_file(path))}
    if not kept:
        return remove_folder(table / folder)
    for place, _, names in os.walk(table / folder, topdown=False):
        for name in names:
            if os.path.relpath(f"{place}/{name}", table) not in kept:
                remove_file(f"{place}/{name}")
    remove_empty_folders(table / folder)
    return True


def remove_empty_folders(folder: Path) -> None:
    """Remove the folders below one that hold nothing, and itself if it then holds nothing."""
    for place, _, _ in os.walk(folder, topdown=False):
        with contextlib.suppress(OSError):  # not empty, or a reader is writing what it knows of a file there
            os.rmdir(place)


def nearest_folder(table: Path, path: str) -> Path:
    """Return the folder that a file below a table was in, or the first one above it that is still there."""
    return next((table / parent for parent in Path(path).parents if (table / parent).is_dir()), table)


def remove_empty_parents(table: Path, path: str) -> None:
    """Remove the folders above a file below a table that hold nothing any more."""
    for parent in list(Path(path).parents)[:-1]:
        try:
            os.rmdir(table / parent)
        except OSError:  # not empty, or gone already
            return


def names_in(folder: Path) -> list[str]:
    """Return the names of everything in a folder."""
    return os.listdir(folder)


def folders_in(folder: Path) -> list[str]:
    """Return the names of the folders in a folder; links are none."""
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]


def refuse_links(table: str, path: str) -> None:
    """Refuse a file to which a symbolic link leads: it may lead out of the table."""
    parts = path.split("/")
    for end in range(1, len(parts) + 1):
        place = "/".join(parts[:end])
        if os.path.islink(f"{table}/{place}"):
            raise _link(place)


def _link(place: str) -> CorruptionError:
    step = "see where it leads, and remove it"
    return CorruptionError("a symbolic link stands for a part of the table", place, step)


def files_below(folder: Path, *, leave_out: Collection[str] = ()) -> Iterator[str]:
    """Yield the relative path of every file below a folder; links are refused, because they may lead anywhere."""
    yield from _files_at(str(folder), "", leave_out)


def _files_at(place: str, path: str, leave_out: Collection[str] = ()) -> Iterator[str]:
    try:
        with os.scandir(place) as opened:
            entries = sorted(opened, key=lambda entry: entry.name)
    except FileNotFoundError:  # removed meanwhile
        return
    for entry in entries:
        if entry.name in leave_out:
            continue
        if entry.is_symlink():
            raise _link(f"{path}{entry.name}")
        if entry.is_dir(follow_symlinks=False):
            yield from _files_at(entry.path, f"{path}{entry.name}/")
        else:
            yield f"{path}{entry.name}"
