"""A warm prompt over one table: probes, scans and SQL in milliseconds, without a JVM."""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ebb.cli.commands.read import cost_lines, split_columns
from ebb.cli.options import Name, state
from ebb.cli.output import render
from ebb.cli.output.records import Format, limited, write_records
from ebb.index.errors import UsageError, WarehouseError
from ebb.maintenance.values import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from ebb.maintenance.api.table import OpenTable
    from ebb.maintenance.reading import Window

__all__ = ["shell"]

_HELP = """\
KEY ...            the live records of some keys; composite keys with commas, quotes around blanks
.prefix TEXT       keys that start with a text
.range FROM TO     keys from one to another, both included; - for an open end
.scan [EXPR]       all records, or those for which it holds: .scan delay > 10 and origin = 'JFK'
.sql QUERY         SQL over every table; select, with and from start a query without .sql too
.explain KEY ...   what a probe reads
.columns [A,B]     show these columns, or all
.limit N           show at most N records; 0 for all
.format FORM       table, csv or jsonl
.asof T|now|off    hide what has expired at T, or at the present, also between ticks
.pin, .unpin       stay in this window, or follow the newest as at the start
.window            which window is read
.timing on|off     say how long an answer took
.quit              leave, as Ctrl-D does"""
_NAMED = (line.split()[0].rstrip(",") for line in _HELP.splitlines() if line.startswith("."))
_COMMANDS = (*_NAMED, ".unpin", ".help")
_QUERIES = ("select", "with", "from")
_LEAVING = (".quit", ".exit")
_COMPLETIONS = 40
_HISTORY_LINES = 1000


@dataclass
class _Prompt:
    """What the prompt remembers between lines."""

    table: OpenTable
    window: Window
    answer: Callable[[str], pa.RecordBatchReader]  # to SQL
    table_names: Sequence[str]
    columns: list[str] | None = None
    limit: int = 40
    form: Format = Format.table
    as_of: str | None = None
    is_pinned: bool = False
    is_timed: bool = True

    def run(self, line: str) -> None:
        """Answer one line."""
        name, _, rest = line.partition(" ")
        rest = rest.strip()
        if not self.is_pinned:  # a moment that the clock has passed can still be replaced
            self.window = self.table.at_latest(None if name == ".asof" else self.as_of)
        if name.lower() in _QUERIES:
            name, rest = ".sql", line
        elif not name.startswith("."):
            name, rest = ".keys", line
        match name:
            case ".keys":
                self._probe(_words(rest))
            case ".prefix":
                self._probe([], prefix=" ".join(_words(rest)))
            case ".range":
                ends = [None if end == "-" else end for end in _words(rest)]
                if len(ends) != 2:
                    msg = f".range takes two keys, and there are {len(ends)}; write - for an open end"
                    raise UsageError(msg)
                if ends == [None, None]:
                    msg = ".range - - is open at both ends; .scan shows all records"
                    raise UsageError(msg)
                self._probe([], low=ends[0], high=ends[1])
            case ".scan":
                began = time.perf_counter()
                self._show(self.window.scan(self.columns, rest or None), began)
            case ".sql":
                began = time.perf_counter()
                self._show(self.answer(rest), began)
            case ".explain":
                self._explain(_words(rest))
            case _:
                self._set(name, rest)

    def _probe(
        self, keys: list[str], *, low: str | None = None, high: str | None = None, prefix: str | None = None
    ) -> None:
        from ebb.maintenance.reading import read_wanted

        began = time.perf_counter()
        wanted = read_wanted(self.window, keys, low=low, high=high, prefix=prefix)
        self._show(self.window.read(wanted, self.columns), began)

    def _show(self, found: pa.RecordBatchReader, began: float) -> None:
        parts: Iterable[pa.Table] = limited(found, None)
        more = ""
        if self.limit:  # one more, to know whether that is all
            parts = list(limited(found, self.limit + 1))
            if sum(part.num_rows for part in parts) > self.limit:
                more = "there are more: .limit 0 shows all"
                parts[-1] = parts[-1].slice(0, parts[-1].num_rows - 1)
        write_records(parts, found.schema, form=self.form, output=None, narrower="use .columns or .format")
        took = f"{(time.perf_counter() - began) * 1000:.1f} ms" if self.is_timed else ""
        sys.stdout.flush()
        if took or more:
            render.note(", ".join(part for part in (more, took) if part))

    def _explain(self, keys: list[str]) -> None:
        from ebb.maintenance.reading import Cost, read_wanted

        if not keys:
            msg = ".explain takes at least one key"
            raise UsageError(msg)
        began = time.perf_counter()
        window = replace(self.window, cost=Cost())
        for _ in window.read(read_wanted(window, keys), self.columns):
            pass
        render.lines(cost_lines(window.cost, 0.0, time.perf_counter() - began))  # the window was there

    def _set(self, name: str, rest: str) -> None:
        match name, rest:
            case ".help", _:
                render.lines(_HELP.splitlines())
            case ".columns", "":
                self.columns = None
            case ".columns", _:
                wanted = split_columns([rest])
                self.window.schema(wanted)  # tells a column that is not there
                self.columns = wanted
            case ".limit", _ if rest.isdecimal():
                self.limit = int(rest)
            case ".format", "table" | "csv" | "jsonl":
                self.form = Format(rest)
            case ".timing", "on" | "off":
                self.is_timed = rest == "on"
            case ".asof", _ if rest:
                as_of = None if rest == "off" else rest
                self.window = self.table.at_moment(self.window, as_of)  # tells a time that is none
                self.as_of = as_of
            case ".pin", "":
                self.is_pinned = True
            case ".unpin", "":
                self.is_pinned = False
            case ".window", "":
                render.lines([self.title()])
            case _:
                msg = f"{name} {rest}".rstrip() + " is not a command; .help shows them"
                raise UsageError(msg)

    def title(self) -> str:
        """Say which window is read."""
        line, clock = self.window.snapshot.spec.timeline, self.window.clock
        if clock is None:
            return f"{self.table.name} is empty; load it first"
        live = self.window.snapshot.ledger.live_records
        moment = self.window.moment
        shown = "" if moment is None else f", without what has expired at {line.kind.show_time(moment)}"
        return f"{self.table.name} at {line.show_slot(clock)}, version {self.window.version}: {counted(live, 'live record')}{shown}"

    def completions(self, line: str, text: str) -> list[str]:
        """Return what the last word of a line may become: a command, a column, or a key that exists."""
        if line == text and text.startswith("."):
            return [name for name in _COMMANDS if name.startswith(text)]
        if line.startswith((".scan", ".sql", ".columns")) or line.split(" ", maxsplit=1)[0].lower() in _QUERIES:
            return [name for name in (*self.window.columns, *self.table_names) if name.startswith(text)]
        return self._keys_from(text)

    def _keys_from(self, text: str) -> list[str]:
        spec = self.window.snapshot.spec
        if spec.column(spec.key[0]).type != "string":
            return []
        found: dict[str, None] = {}
        for batch in self.window.read(self.window.wanted((), prefix=text), [spec.key[0]]):
            found.update(dict.fromkeys(batch.column(0).to_pylist()))
            if len(found) >= _COMPLETIONS:
                break
        return [shlex.quote(key) for key in itertools.islice(found, _COMPLETIONS)]


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        msg = f"{text!r} cannot be read: {error}; put quotes around a key with blanks or quotes in it"
        raise UsageError(msg) from error


def shell(
    ctx: typer.Context,
    name: Name,
    keep_history: Annotated[
        bool, typer.Option("--history/--no-history", help="Keep the history of lines in a file.")
    ] = True,
) -> None:
    """Open a prompt that answers probes, scans and SQL in milliseconds."""
    warehouse = state(ctx).open()
    table = warehouse.table(name)
    others = {other.name: other for other in warehouse.tables()}
    engine = warehouse.sql_session(
        lambda other: prompt.window if other == name else others[other].at_latest(prompt.as_of)
    )
    prompt = _Prompt(table, table.at_latest(), engine.answer, engine.names)
    if not sys.stdin.isatty():
        lines = itertools.takewhile(lambda line: line not in _LEAVING, (line.strip() for line in sys.stdin))
        failed = [line for line in lines if line and not _answered(prompt, line)]
        raise typer.Exit(1 if failed else 0)
    render.lines([prompt.title(), "a key, or .help"])
    with _line_editing(prompt, _history_file() if keep_history else None):
        while (line := _read_line(f"{name}> ")) is not None:
            if line in _LEAVING:
                break
            if line:
                _answered(prompt, line)


def _answered(prompt: _Prompt, line: str) -> bool:
    """Answer a line and say whether that went well; an error or Ctrl-C ends the line, not the prompt."""
    try:
        prompt.run(line)
    except WarehouseError as error:
        sys.stdout.flush()
        render.error(str(error))
        return False
    except KeyboardInterrupt:
        render.note("stopped")
        return False
    return True


def _read_line(text: str) -> str | None:
    while True:
        try:
            return input(text).strip()
        except EOFError:
            render.lines([""])
            return None
        except KeyboardInterrupt:
            render.lines([""])


def _history_file() -> Path:
    folder = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(folder, "ebb", "history")


@contextlib.contextmanager
def _line_editing(prompt: _Prompt, history: Path | None) -> Iterator[None]:
    """Let lines be edited, completed and, if asked for, remembered."""
    try:
        import readline
    except ImportError:  # Python was built without it
        yield
        return

    found: list[str] = []

    def complete(text: str, place: int) -> str | None:
        nonlocal found
        if place == 0:
            try:
                found = prompt.completions(readline.get_line_buffer().lstrip(), text)
            except WarehouseError:
                found = []
        return found[place] if place < len(found) else None

    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n,()=<>!")
    readline.parse_and_bind("tab: complete")
    if history is not None:
        with contextlib.suppress(OSError):
            readline.read_history_file(history)
    try:
        yield
    finally:
        if history is not None:
            with contextlib.suppress(OSError):
                history.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                readline.set_history_length(_HISTORY_LINES)
                readline.write_history_file(history)
