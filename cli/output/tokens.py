"""The file in which a follower keeps where it is: one line with a token, replaced as a whole."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from ebb.index.errors import EngineError, UnreadableInputError

__all__ = ["keep_token", "kept_token"]


def kept_token(file: Path) -> str | None:
    """Return the token in a file; None if there is no such file."""
    try:
        text = file.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableInputError(file, f"the token cannot be read ({error})", "check --resume") from error
    if not text:
        raise UnreadableInputError(file, "it holds no token", "remove it, and say where to start with --since")
    return text


def keep_token(file: Path, token: str) -> None:
    """Replace the token in a file, or make the file.  Whoever is killed leaves the old one or the new one."""
    partial = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        with partial.open("wb") as opened:
            opened.write(f"{token}\n".encode())
            opened.flush()
            os.fsync(opened.fileno())
        partial.replace(file)
    except OSError as error:
        what, step = f"the token cannot be kept in {file}", "check --resume and the free space"
        raise EngineError(what, error.strerror or error, step) from error
    finally:
        with suppress(OSError):  # it is there only if something went wrong
            partial.unlink()
