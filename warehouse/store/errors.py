"""What the operating system and the engines refuse, in our words: which thing, why, and what to do about it.

The one place that tells apart missing, damaged, forbidden, read-only, full and too many open files. Engines hand on an
error of the operating system as text, and put the places of their own source below it: of both, one line is kept.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from ebb.index.errors import CorruptionError, EngineError, WarehouseError

__all__ = ["RESTORE", "disk_error", "disk_errors", "first_line", "memory_errors", "read_error", "refusal"]

RESTORE = "restore it from a backup"
_FORBIDDEN = ("permission denied", "give this user access to it")
_FULL = ("the disk is full", "make room and run it again")
_NO_MEMORY = ("there is not enough memory", "give the process more and run it again")
# What a file that is as it should be can be refused for: reason and next step.
_REFUSALS = {
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
    errno.EMFILE: ("this process has too many open files", "raise its limit (ulimit -n) and run it again"),
    errno.ENFILE: ("this machine has too many open files", "close other programs and run it again"),
    errno.EROFS: ("the file system is read-only", "make it writable and run it again"),
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: ("a file may not become that large", "raise the limit (ulimit -f) and run it again"),
    errno.EIO: ("the disk reports an error", "check the disk and run it again"),
    errno.ENOMEM: _NO_MEMORY,
}
_SIGNS = {os.strerror(number): number for number in (*_REFUSALS, errno.ENOENT)}
_SIGN = re.compile("|".join(map(re.escape, sorted(_SIGNS, key=len, reverse=True))))  # one begins like another
_LINE_LENGTH = 200
_NO_THREAD = "can't start new thread"  # in Python's words: there is no room for its stack, or there are too many


def _number(error: BaseException) -> int | None:
    """Return the operating system's number of an error that is its own, or that an engine hands on as text."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    match = _SIGN.search(str(error))
    return _SIGNS[match[0]] if match else None


def first_line(error: BaseException) -> str:
    r"""Return what an error says, without what an engine adds below it.

    >>> first_line(ValueError("Kernel error: no such column\n   0: <unknown>\n   1: start_thread"))
    'no such column'
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = (lines[0] if lines else type(error).__name__).removeprefix("Kernel error: ")
    return text if len(text) <= _LINE_LENGTH else f"{text[: _LINE_LENGTH - 1]}…"


def refusal(error: BaseException) -> tuple[str, str] | None:
    """Return why the operating system refused something, and what to do about it; None if it is not that."""
    return _REFUSALS.get(_number(error) or 0)


def disk_error(error: BaseException, what: str, *, note: str = "", step: str = "check its folder") -> EngineError:
    """Return the error for something that could not be done: ``what`` says what.

    ``note`` stands before the next step, which is ``step`` if nothing better is known.

    >>> str(disk_error(OSError(errno.EROFS, ""), "table t cannot be written", note="nothing was changed"))
    'table t cannot be written: the file system is read-only; nothing was changed; make it writable and run it again'
    """
    reason, next_step = refusal(error) or (first_line(error), step)
    return EngineError(what, reason, f"{note}; {next_step}" if note else next_step)


def read_error(
    error: BaseException, what: str, path: object, *, missing: str = RESTORE, damaged: str = RESTORE
) -> WarehouseError:
    """Return the error for a file that has to be there and cannot be read: ``what`` is like "a data file".

    ``missing`` and ``damaged`` are the next steps if it is gone, and if it is not what was written.
    """
    if refusal(error):
        return disk_error(error, f"{what} cannot be read: {path}")
    if _number(error) == errno.ENOENT:
        return CorruptionError(f"{what} is missing", path, missing)
    return CorruptionError(f"{what} is damaged", f"{path} ({first_line(error)})", damaged)


@contextmanager
def disk_errors(what: str, *, note: str = "") -> Iterator[None]:
    """Translate what the operating system refuses inside; ``what`` says what could not be done then."""
    try:
        yield
    except OSError as error:
        raise disk_error(error, what, note=note) from error


@contextmanager
def memory_errors(what: str) -> Iterator[None]:
    """Translate that memory has run out inside; ``what`` says what could not be done then.  Also a decorator."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:  # Arrow's is of the first kind too
        if isinstance(error, RuntimeError) and str(error) != _NO_THREAD:
            raise
        raise EngineError(what, *_NO_MEMORY) from error
