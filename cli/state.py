"""What every command shares: the warehouse, the options that many of them have, and how interruptions are told."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import render

if TYPE_CHECKING:
    from maintenance.api import OpenTable, Warehouse

__all__ = ["Json", "State", "Terminated", "guarded", "state", "terminable"]

Name = Annotated[str, typer.Argument(metavar="NAME", help="The table.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done and change nothing.")]
Wait = Annotated[
    str | None, typer.Option("--wait", metavar="D", help="Wait so long for another writer, like 30s or 5m.")
]
Master = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="Spark's master, like local[2] or spark://host:7077.")
]
Conf = Annotated[
    list[str] | None, typer.Option("--conf", metavar="K=V", help="A Spark setting; may be given many times.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without being asked.")]


class Terminated(BaseException):
    """SIGTERM or Ctrl-C, turned into an exception so that everything is put back in order."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code  # 128 and the signal, as shells count


@dataclass
class State:
    """What was said before the command's name."""

    warehouse: str | None = None
    debug: bool = False

    def open(self, master: str | None = None, conf: list[str] | None = None) -> Warehouse:
        """Return the warehouse with its settings put together."""
        from maintenance.api import Warehouse
        from warehouse.settings import load_settings

        named = os.environ.get("EBB_CONFIG")
        file = Path(named) if named else Path("ebb.toml")
        settings = load_settings(
            environment=os.environ,
            file=file if named or file.is_file() else None,
            warehouse=self.warehouse,
            master=master,
            conf=conf or (),
        )
        return Warehouse(settings)


def state(ctx: typer.Context) -> State:
    """Return the state of this run."""
    found = ctx.find_object(State)
    return found if found is not None else State()


def seconds(wait: str | None) -> float:
    """Read a waiting time."""
    from index.timeline import TimeKind

    return 0.0 if wait is None else TimeKind.TIMESTAMP.seconds(TimeKind.TIMESTAMP.duration(wait))


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
    before = table.table.snapshot().version
    try:
        with terminable():
            yield
    except Terminated as interruption:
        render.clear_progress()
        after = table.table.snapshot()
        if after.version == before:
            render.error(f"interrupted; table {table.name} is as it was, at version {before}")
        else:
            render.error(
                f"interrupted after the commit; table {table.name} is at version {after.version}, slot {after.ledger.clock}"
            )
        raise typer.Exit(interruption.code) from None
