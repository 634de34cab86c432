"""The ``ebb`` command.  Each command parses, calls one function and shows its result; errors are told here.

Also a main for spark-submit: ``spark-submit cli/main.py run --once``.
"""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from ebb.cli.commands import backups, define, ingest, maintain, prove, read, records
from ebb.cli.commands import check as sound
from ebb.cli.commands import inspect as see
from ebb.cli.commands import shell as prompt
from ebb.cli.hints import error_text
from ebb.cli.interrupts import Terminated
from ebb.cli.options import State
from ebb.cli.output import render
from ebb.index.errors import WarehouseError
from ebb.index.foreign import ForeignCommitWarning
from ebb.index.head import LostHeadWarning

__all__ = ["app", "main"]

app = typer.Typer(
    name="ebb",
    help="A stream warehouse on Delta Lake in which every record carries its own expiration time.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_GROUPS: dict[str, tuple[Callable[..., None], ...]] = {
    "Define": (define.create, define.alter, define.drop),
    "Ingest": (ingest.load, ingest.update, ingest.run),
    "Read": (read.probe, read.scan, read.changes, read.sql, prompt.shell, read.publish),
    "See": (see.status, see.history, see.explain, see.quarantine, sound.check, prove.evidence, prove.metrics),
    "Records": (records.amend, records.forget, records.hold, records.release, records.held),
    "Maintain": (maintain.adopt, sound.repair, maintain.seal, maintain.purge, maintain.erase),
    "Keep safe": (backups.backup, backups.restore),
}


_ANSWERS = {command.__name__ for title in ("Read", "See") for command in _GROUPS[title]}
_TOLD = (ForeignCommitWarning, LostHeadWarning)


class _Command(TyperCommand):
    """A command whose usage line is NAME [KEY]..., as everywhere else, and not {NAME} [KEY]."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line."""
        arguments = [
            piece.strip("{}") + "..." * (parameter.nargs == -1)
            for parameter in self.get_params(ctx)
            for piece in parameter.get_usage_pieces(ctx)
        ]
        return ["[OPTIONS]", *arguments]


for _title, _commands in _GROUPS.items():
    for _command in _commands:
        app.command(rich_help_panel=_title, cls=_Command)(_command)


def _version(value: bool) -> None:  # noqa: FBT001 - typer's callback
    if value:
        from importlib.metadata import version

        render.lines([f"ebb {version('ebb')}"])
        raise typer.Exit


@app.callback()
def options(
    ctx: typer.Context,
    warehouse: Annotated[
        str | None, typer.Option(metavar="DIR", help="The folder that holds the tables; also EBB_WAREHOUSE.")
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback after an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Set what all commands share."""
    del version, debug  # the first is answered by its callback, the second is for main, which tells errors
    ctx.obj = State(warehouse=warehouse, command=ctx.invoked_subcommand or "ebb")


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code: 0 fine, 2 wrong usage, 1 anything else of ours."""
    os.umask(0o077)  # for what commands write elsewhere; the files of tables have modes of their own
    arguments = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in arguments
    try:
        with _told_warnings():
            code = app(arguments, standalone_mode=False, prog_name="ebb")
        render.flush()
        if render.is_lost() and _command_of(arguments).strip() in _ANSWERS:  # what was done stays done
            return 1
    except typer.TyperException as error:
        if debug:
            raise
        if text := _usage_text(error, _command_of(arguments)):  # without any argument the help has been shown instead
            render.error(text)
        return int(getattr(error, "exit_code", 2))
    except typer.Abort:
        render.error("stopped; nothing was changed")
        return 1
    except WarehouseError as error:
        if debug:
            raise
        render.error(error_text(error))
        return error.exit_code
    except Terminated as interruption:
        render.error("interrupted")
        return interruption.code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except Exception as error:  # the one place that may: everything else must reach the user as one line
        if debug:
            raise
        render.error(
            f"something went wrong inside Ebb: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}; run again with --debug and report it"
        )
        return 1
    return code if isinstance(code, int) else 0


@contextmanager
def _told_warnings() -> Iterator[None]:
    """Tell each warning of ours in one line, once in a command."""
    told: set[str] = set()
    with warnings.catch_warnings():
        others = warnings.showwarning

        def tell(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
            if not issubclass(category, _TOLD):
                others(message, category, *where, **more)
            elif (text := error_text(message.args[0])) not in told:
                told.add(text)
                render.warning(text)

        for told_one in _TOLD:
            warnings.simplefilter("always", told_one)
        warnings.showwarning = tell  # as the documentation says
        yield


def _usage_text(error: Exception, command: str) -> str:
    """Return what is wrong with a command."""
    option = getattr(error, "option_name", None)
    if command == "alter " and option in _options_of("create"):
        return f"{option} is fixed when a table is created; {define.ANEW}"
    text = str(error.format_message() if hasattr(error, "format_message") else error).rstrip(".")
    return f"{text[:1].lower()}{text[1:]}; see ebb {command}--help" if text else ""


def _options_of(command: str) -> set[str]:
    return {name for parameter in typer.main.get_group(app).commands[command].params for name in parameter.opts}


def _command_of(arguments: list[str]) -> str:
    """Return the command among arguments: the first word that is neither an option nor the value of one."""
    words = iter(arguments)
    for word in words:
        if word == "--warehouse":
            next(words, None)
        elif not word.startswith("-"):
            known = {command.__name__ for commands in _GROUPS.values() for command in commands}
            return f"{word} " if word in known else ""
    return ""


class _NoPandas(MetaPathFinder):
    """Keeps Arrow from importing pandas, which takes longer than a probe.  Spark insists on it, and gets it."""

    def find_spec(self, fullname: str, _path: object, _target: object = None) -> None:
        """Deny that there is one."""
        if fullname == "pandas" and "pyspark" not in sys.modules:
            raise ModuleNotFoundError(fullname, name=fullname)


def entry() -> None:
    """Start from the console."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # not every terminal has every character
    sys.meta_path.insert(0, _NoPandas())
    sys.exit(main())


if __name__ == "__main__":
    entry()
