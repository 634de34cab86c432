"""What every command shares: the warehouse, and the options that many of them have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ebb.index.errors import UsageError

if TYPE_CHECKING:
    from ebb.maintenance.api.warehouse import Warehouse

__all__ = [
    "AllowRepeats", "Conf", "DryRun", "Encoding", "Extra", "Json", "Label", "Limit", "Master", "Name", "Remember", "Rename",
    "Separator", "State", "Strict", "Wait", "Yes", "check_spark_settings", "count_option", "input_rules", "limit_option", "state",
]  # fmt: skip


def _count(value: str | int) -> int:
    """Read how many of something are wanted; a default comes as a number."""
    text = str(value)
    if not (text.isascii() and text.isdigit()):
        msg = f"{text!r} is not a whole number from 0 on"
        raise typer.BadParameter(msg)
    return int(text[-18:]) if set(text[:-18]) <= {"0"} else 10**18


def count_option(name: str, help: str) -> Any:
    """Return an option that says how many of something."""
    return typer.Option(name, metavar="N", parser=_count, help=help)


def limit_option(help: str) -> Any:
    """Return the option for the most records or commits that are shown."""
    return count_option("--limit", help)


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


Strict = Annotated[
    bool | None,
    typer.Option(
        "--strict/--no-strict", help="Want exactly the table's columns, in its order and types.", show_default=False
    ),
]


Extra = Annotated[
    str | None,
    typer.Option("--extra", metavar="refuse|ignore", help="What to do about columns that the table does not have."),
]


Rename = Annotated[
    list[str] | None,
    typer.Option("--rename", metavar='"OLD=NEW"', help="The table's name of a column in the files; may be repeated."),
]


Separator = Annotated[
    str | None, typer.Option("--separator", metavar="C", help="Between CSV fields; recognised by default.")
]


Encoding = Annotated[
    str | None, typer.Option("--encoding", metavar="E", help="Of CSV and JSON; UTF-8, or as a byte order mark says.")
]


Label = Annotated[
    str | None,
    typer.Option(
        "--label",
        metavar="start|end",
        help="Which moment of its tick the name of a landed file says; the end by default.",
    ),
]


Remember = Annotated[
    str | None,
    typer.Option(
        "--remember", metavar="D", help="How long a batch or file that comes again is recognised; the span by default."
    ),
]


AllowRepeats = Annotated[
    bool, typer.Option("--allow-repeats", help="Admit records again whose batch or file was applied before.")
]


def check_spark_settings(engine: str | None, without: str, master: str | None, conf: list[str] | None) -> None:
    """Refuse settings of Spark beside the engine ``without`` it: they would be ignored."""
    if engine == without and (master or conf):
        msg = f"--master and --conf are for Spark, and --engine {engine} does not start it; leave them or it out"
        raise UsageError(msg)


def input_rules(
    strict: bool | None,  # noqa: FBT001 - in the order of the options
    extra: str | None,
    rename: list[str] | None,
    separator: str | None,
    encoding: str | None,
) -> dict[str, Any]:
    """Return what the options say about how batches are read."""
    return {"strict": strict, "extra": extra, "rename": rename, "separator": separator, "encoding": encoding}


Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


@dataclass(frozen=True, slots=True)
class State:
    """What was said before the command's name."""

    warehouse: str | None = None
    command: str = "ebb"

    def open(self, master: str | None = None, conf: list[str] | None = None) -> Warehouse:
        """Return the warehouse with its settings put together."""
        from ebb.maintenance.api.warehouse import open_warehouse

        return open_warehouse(self.warehouse, master=master, conf=conf or (), purpose=self.command)


def state(ctx: typer.Context) -> State:
    """Return the state of this run."""
    found = ctx.find_object(State)
    return found if found is not None else State()
