"""What every command shares: the warehouse, and the options that many of them have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ebb.maintenance.api import Warehouse

__all__ = ["Conf", "DryRun", "Json", "Master", "Name", "State", "Wait", "Yes", "state"]

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


@dataclass(frozen=True, slots=True)
class State:
    """What was said before the command's name."""

    warehouse: str | None = None

    def open(self, master: str | None = None, conf: list[str] | None = None) -> Warehouse:
        """Return the warehouse with its settings put together."""
        from ebb.maintenance.api import open_warehouse

        return open_warehouse(self.warehouse, master=master, conf=conf or ())


def state(ctx: typer.Context) -> State:
    """Return the state of this run."""
    found = ctx.find_object(State)
    return found if found is not None else State()
