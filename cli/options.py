"""What every command shares: the warehouse, and the options that many of them have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ebb.maintenance.api.warehouse import Warehouse

__all__ = ["Conf", "DryRun", "Json", "Limit", "Master", "Name", "State", "Wait", "Yes", "limit_option", "state"]


def _count(value: str | int) -> int:
    """Read how many of something are wanted; a default comes as a number."""
    text = str(value)
    if not (text.isascii() and text.isdigit()):
        msg = f"{text!r} is not a whole number from 0 on"
        raise typer.BadParameter(msg)
    return int(text[-18:]) if set(text[:-18]) <= {"0"} else 10**18


def limit_option(help: str) -> Any:
    """Return the option for the most records or commits that are shown."""
    return typer.Option("--limit", metavar="N", parser=_count, help=help)


Name = Annotated[str, typer.Argument(metavar="NAME", help="The table.", show_default=False)]


Limit = Annotated[int | None, limit_option("Return at most N records.")]


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, without changing anything.")]


Wait = Annotated[
    str | None, typer.Option("--wait", metavar="D", help="How long to wait for another writer (e.g. 30s, 5m).")
]


Master = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="Spark's master (e.g. local[2], spark://host:7077).")
]


Conf = Annotated[
    list[str] | None, typer.Option("--conf", metavar="K=V", help="A Spark setting; may be given several times.")
]


Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


@dataclass(frozen=True, slots=True)
class State:
    """What was said before the command's name."""

    warehouse: str | None = None

    def open(self, master: str | None = None, conf: list[str] | None = None) -> Warehouse:
        """Return the warehouse with its settings put together."""
        from ebb.maintenance.api.warehouse import open_warehouse

        return open_warehouse(self.warehouse, master=master, conf=conf or ())


def state(ctx: typer.Context) -> State:
    """Return the state of this run."""
    found = ctx.find_object(State)
    return found if found is not None else State()
