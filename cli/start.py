"""Where the ``ebb`` command starts: before anything is imported, so that Ctrl-C is silent from the first moment on."""

from __future__ import annotations

import os
import signal
import sys

__all__ = ["entry"]

_INTERRUPTED = 130  # 128 and the signal, as shells count


def entry() -> None:
    """Start from the console."""
    # Nothing is open while modules are imported, and an exception there would be told by whoever it interrupts.
    is_ours = (
        signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )  # not where nobody may interrupt, as in nohup
    if is_ours:
        signal.signal(signal.SIGINT, lambda _signal, _frame: os._exit(_INTERRUPTED))
    from ebb.cli import main

    try:
        if is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        main.entry()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
