"""Who may read what is on disk: the mode and the group of every file and folder that Ebb makes.

A folder with the set-group-id bit is shared: what is made in it belongs to its group, whose members may read it (2750,
0640). Any other folder is its owner's alone, and so is what is made in it (0700, 0600). So the folder of a table decides for
everything below it, no option has to be passed around, and the umask decides nothing. What goes wrong comes as OSError.

Root may read every table. What it leaves behind as a reader is ``for_owner``: it belongs to the owner of the folder that it
is made in, who could neither read nor remove it otherwise.
"""

from __future__ import annotations

import contextlib
import grp
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from ebb.index.errors import UsageError
from ebb.warehouse.store.paths import shared_with

__all__ = ["fit_files", "group_id", "let_in", "make_folder", "new_file", "share"]

_FOLDER, _FILE = (0o700, 0o2750), (0o600, 0o640)  # alone, and shared with a group


def make_folder(path: str | Path, *, exist_ok: bool = False, parents: bool = False, for_owner: bool = False) -> None:
    """Make a folder that those may look into who may look into the folder that it belongs to; else we alone."""
    place = Path(path)
    if parents and not place.parent.exists():
        make_folder(place.parent, exist_ok=True, parents=True)
    try:
        os.mkdir(place, _FOLDER[False])
    except FileExistsError:
        if not exist_ok or not place.is_dir():
            raise
        return
    # In a shared folder it is shared from its first moment on, so that nobody who is faster makes anything else in it.
    beside = shared_with(place.name)
    model = _status(place.with_name(beside) if beside else place.parent)
    is_shared = model is not None and _is_shared(model)
    if is_shared and model is not None and os.stat(place).st_gid != model.st_gid:
        os.chown(place, -1, model.st_gid)
    os.chmod(place, _FOLDER[is_shared])
    if for_owner and _is_for_another(place.parent):
        opened = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _hand_over(opened, place.parent)
        finally:
            os.close(opened)


def new_file(path: str | Path, *, is_new: bool = True, for_owner: bool = False) -> int:
    """Make a file that those may read who may look into its folder; returns it, open to be written.

    ``is_new``: FileExistsError if there is one; otherwise that is emptied.
    """
    flags = os.O_EXCL if is_new else os.O_TRUNC
    opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | flags, _FILE[False])
    try:
        os.fchmod(opened, _FILE[_is_shared(os.stat(Path(path).parent))])
        if for_owner and _is_for_another(Path(path).parent):
            _hand_over(opened, Path(path).parent)
    except BaseException:
        os.close(opened)
        raise
    return opened


def fit_files(folder: Path, names: Iterable[str]) -> None:
    """Give files that somebody else made for us in a folder the mode that ours have there."""
    mode = _FILE[_is_shared(os.stat(folder))]
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            if stat.S_IMODE(os.stat(folder / name, follow_symlinks=False).st_mode) != mode:
                os.chmod(folder / name, mode)


def group_id(name: str) -> int:
    """Return the number of a group that files can be given to."""
    try:
        number = grp.getgrnam(name).gr_gid
    except (KeyError, ValueError):
        msg = f"there is no group {name!r} on this machine"
        raise UsageError(msg, "name another one, or have it made") from None
    if os.geteuid() != 0 and number not in (os.getegid(), *os.getgroups()):
        msg = f"this user is not a member of group {name!r}, and cannot give files to it"
        raise UsageError(msg, "join it and log in again, or name another one")
    return number


def share(folder: Path, group: int | None) -> None:
    """Let the members of a group read everything in a folder, or nobody but its owner."""
    # Closed from above and opened from below: nobody sees half of it.
    for place, _, names in os.walk(folder, topdown=group is None):
        for name in names:
            if not os.path.islink(f"{place}/{name}"):
                _set(f"{place}/{name}", group, _FILE)
        _set(place, group, _FOLDER)


def _set(path: str, group: int | None, modes: tuple[int, int]) -> None:
    with contextlib.suppress(FileNotFoundError):  # a reader's unfinished file
        os.chown(path, -1, os.getegid() if group is None else group)
        os.chmod(path, modes[group is not None])


def let_in(folder: Path, group: int) -> bool:
    """Let the members of a group into a folder that nobody but us may enter; returns whether they may now.

    A folder that another group may enter is left alone.
    """
    status = os.stat(folder)
    mode = stat.S_IMODE(status.st_mode)
    if mode & stat.S_IXOTH or (status.st_gid == group and mode & stat.S_IXGRP):
        return True
    if mode & stat.S_IRWXG:
        return False
    os.chown(folder, -1, group)
    os.chmod(folder, mode | stat.S_IRGRP | stat.S_IXGRP)  # noqa: S103 - that is what was asked for
    return True


def _is_for_another(folder: Path) -> bool:
    return os.geteuid() == 0 and os.stat(folder).st_uid != 0


def _hand_over(opened: int, folder: Path) -> None:
    """Give what root made to the owner of its folder: what is open, since names there may lead elsewhere by now."""
    with contextlib.suppress(OSError):  # a file system that does not let root
        os.fchown(opened, os.stat(folder).st_uid, -1)


def _status(path: Path) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _is_shared(status: os.stat_result) -> bool:
    return bool(status.st_mode & stat.S_ISGID)
