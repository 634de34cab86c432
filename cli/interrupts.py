"""How Ctrl-C and SIGTERM end a command: everything is put in order first, and the user learns what was changed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from ebb.cli.output import render
from ebb.index.errors import RolledBackError

if TYPE_CHECKING:
    from ebb.maintenance.api.table import OpenTable

__all__ = ["Terminated", "guarded", "terminable"]


class Terminated(BaseException):
    """SIGTERM or Ctrl-C, turned into an exception so that everything is put back in order."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code  # 128 and the signal, as shells count


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM end the work inside as Ctrl-C does: everything is put back in order first."""

    def stop(_signal: int, _frame: object) -> None:
        raise Terminated(143)

    previous = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt:
        raise Terminated(130) from None  # typer would end in silence
    finally:
        signal.signal(signal.SIGTERM, previous)


@contextmanager
def guarded(table: OpenTable) -> Iterator[None]:
    """Say after an interruption what the table looks like now."""
    before = _version(table)
    try:
        with terminable():
            yield
    except Terminated as interruption:
        render.clear_progress()
        if _version(table) == before:
            at = "" if before is None else f", at version {before}"
            render.error(f"interrupted; table {table.name} is as it was{at}")
        else:
            after = table.table.snapshot()
            render.error(
                f"interrupted after the commit; table {table.name} is at version {after.version}, slot {after.ledger.clock}"
            )
        raise typer.Exit(interruption.code) from None


def _version(table: OpenTable) -> int | None:
    """Return the newest version of a table; None if its log was rolled back, which the work itself is about."""
    try:
        return table.table.snapshot().version
    except RolledBackError:
        return None
