"""Who runs this process, as the operating system knows it and not as the environment says."""

from __future__ import annotations

import os
import pwd

__all__ = ["user_name"]


def user_name() -> str:
    """Return the name of the user; a number if nobody has given one."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
