"""The file in which a follower keeps where it is: one line with a token, replaced as a whole.

After the token it says ``expiries`` if they were asked for: a follower that went on without them would miss some in silence.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from ebb.index.errors import EngineError, UnreadableInputError, UsageError

__all__ = ["keep_token", "kept_token"]

_EXPIRIES = "expiries"


def kept_token(file: Path, *, expiries: bool) -> str | None:
    """Return the token in a file; None if there is no such file.  Refuses one that was kept with other changes."""
    from ebb.maintenance.reading import is_token

    try:
        text = file.read_text(encoding="utf-8", errors="backslashreplace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableInputError(file, f"the token cannot be read ({error})", "check --resume") from error
    token, *more = text.split() or [""]
    if not is_token(token) or more not in ([], [_EXPIRIES]):
        msg = f"{file} holds no token of ebb changes; check --resume, or remove the file and say where to start with --since"
        raise UsageError(msg)
    if bool(more) != expiries:
        went, now = ("with", "without") if more else ("without", "with")
        msg = f"{file} was kept {went} --expiries, and going on {now} them would leave some out in silence"
        raise UsageError(
            f"{msg}; {'pass' if more else 'leave out'} --expiries, or pass to --resume a file that is not there yet"
        )
    return token


def keep_token(file: Path, token: str, *, expiries: bool) -> None:
    """Replace the token in a file, or make the file.  Whoever is killed leaves the old one or the new one."""
    line = f"{token} {_EXPIRIES}\n" if expiries else f"{token}\n"
    partial = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        with partial.open("wb") as opened:
            opened.write(line.encode())
            opened.flush()
            os.fsync(opened.fileno())
        partial.replace(file)
    except OSError as error:
        what, step = f"the token cannot be kept in {file}", "check --resume and the free space"
        raise EngineError(what, error.strerror or error, step) from error
    finally:
        with suppress(OSError):  # it is there only if something went wrong
            partial.unlink()
