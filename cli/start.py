"""Where the ``ebb`` command starts: before anything is imported, so that Ctrl-C is silent from the first moment on."""

from __future__ import annotations

import os
import signal
import sys

__all__ = ["entry"]

_INTERRUPTED = 130  # 128 and the signal, as shells count


def _open_closed_streams() -> None:
    """Open the standard streams that were closed when this process began, as if they led to /dev/null.

    Otherwise the next file that is opened gets their number, and whatever prints writes into it. A report of what was
    done may get lost so; commands that hand out records look at ``sys.__stdout__``, which stays None, and refuse.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the least free number, which is this one
            os.set_inheritable(number, True)  # noqa: FBT003 - its one form
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for as long as the process
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def entry() -> None:
    """Start from the console."""
    _open_closed_streams()
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
