"""probe, scan, sql."""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ebb.cli.options import Conf, Json, Master, Name, state
from ebb.cli.output import render
from ebb.cli.output.records import Format, limited, write_records
from ebb.index.errors import UnreadableInputError, UsageError

if TYPE_CHECKING:
    from ebb.index.columns import Column
    from ebb.index.keys import Wanted
    from ebb.warehouse.read.request import Cost
    from ebb.warehouse.read.window import Window

__all__ = ["cost_lines", "probe", "scan", "split_columns", "sql", "wanted_of"]


class Isolation(str, Enum):
    """What a read sees of the updates that are committed while it runs."""

    window = "window"  # one true window, the newest when the read starts
    latest = "latest"  # one true window that reflects every update committed before the read is done


class Engine(str, Enum):
    """Who reads."""

    auto = "auto"
    direct = "direct"
    spark = "spark"


class SqlEngine(str, Enum):
    """Who answers SQL."""

    duckdb = "duckdb"
    spark = "spark"


AsOf = Annotated[
    str | None, typer.Option("--as-of", metavar="T", help="Hide what has expired at T, which is not before the clock.")
]
Limit = Annotated[int | None, typer.Option("--limit", min=0, max=2**63 - 1, help="At most so many records.")]
Form = Annotated[Format, typer.Option("--format", help="How records are written.")]
Output = Annotated[
    Path | None, typer.Option("--output", metavar="FILE", help="Write to a file instead of standard output.")
]
Columns = Annotated[str | None, typer.Option("--columns", metavar="A,B", help="Only these columns.")]
Level = Annotated[
    Isolation,
    typer.Option(
        "--isolation", help="The newest window at the start, or one with all that is committed until the end."
    ),
]
Guard = Annotated[bool, typer.Option("--guard-formulas", help="In CSV, quote what a spreadsheet would run.")]


def split_columns(text: str | None) -> list[str] | None:
    """Read names of columns."""
    if text is None:
        return None
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names or len(set(names)) < len(names):
        msg = f"--columns {text!r} names {'a column twice' if names else 'no column'}; write it like A,B"
        raise UsageError(msg)
    return names


def _parts(text: str, columns: Sequence[Column]) -> list[str]:
    try:
        text.encode()
        return next(csv.reader([text], strict=True), []) if len(columns) > 1 else [text]
    except (csv.Error, UnicodeEncodeError) as error:
        msg = f"key {text!r} cannot be read ({error}); write parts with commas or quotes in them CSV-quoted"
        raise UsageError(msg) from error


def _key(text: str, columns: Sequence[Column]) -> tuple[object, ...]:
    """Read a key: for composite keys its parts joined by commas, CSV-quoted."""
    from ebb.index.values import parse_value

    parts = _parts(text, columns)
    if not 1 <= len(parts) <= len(columns):
        msg = f"key {text!r} has {len(parts)} parts; the key is {','.join(c.name for c in columns)}"
        raise UsageError(msg)
    return tuple(parse_value(column, part) for column, part in zip(columns, parts, strict=False))


def _lines(path: Path) -> list[str]:
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableInputError(path, f"the keys cannot be read ({error})", "check --keys-from") from error
    # Not splitlines: it cuts at more than line ends, and a key may hold the rest.
    return [line for line in (line.removesuffix("\r") for line in text.split("\n")) if line]


def wanted_of(
    window: Window,
    given: Sequence[str],
    *,
    low: str | None = None,
    high: str | None = None,
    prefix: str | None = None,
    file: Path | None = None,
) -> Wanted:
    """Read what a probe asks for."""
    spec = window.snapshot.spec
    columns = [spec.column(name) for name in spec.key]
    ways = [bool(given), low is not None or high is not None, prefix is not None, file is not None]
    if sum(ways) != 1:
        msg = "probe takes keys, or --from and --to, or --prefix, or --keys-from: exactly one of them"
        raise UsageError(msg)
    if prefix is not None:
        parts = _parts(prefix, columns)
        if not parts or len(parts) > len(columns) or columns[len(parts) - 1].type != "string":
            msg = f"prefix {prefix!r} must end in a part of a text column; the key is {', '.join(f'{c.name} {c.type}' for c in columns)}"
            raise UsageError(msg)
        return window.wanted((), prefix=_key(prefix, columns))
    if low is not None or high is not None:
        ends = [None if end is None else _key(end, columns) for end in (low, high)]
        return window.wanted((), ends[0], ends[1])
    texts = given if file is None else _lines(file)
    return window.wanted([_key(text, columns) for text in texts])


def _window(ctx: typer.Context, name: str, as_of: str | None, isolation: Isolation) -> Window:
    table = state(ctx).open().table(name)
    return table.up_to_date(as_of) if isolation is Isolation.latest else table.at_latest(as_of)


def probe(
    ctx: typer.Context,
    name: Name,
    key: Annotated[list[str] | None, typer.Argument(metavar="KEY", help="Keys; composite ones with commas, also leading parts.", show_default=False)] = None,
    low: Annotated[str | None, typer.Option("--from", metavar="K", help="Keys from K on, included.")] = None,
    high: Annotated[str | None, typer.Option("--to", metavar="K", help="Keys up to K, included.")] = None,
    prefix: Annotated[str | None, typer.Option("--prefix", metavar="K", help="Keys that start with K.")] = None,
    keys_from: Annotated[Path | None, typer.Option("--keys-from", metavar="FILE", help="Keys from a file, one a line; - for standard input.")] = None,
    columns: Columns = None, as_of: AsOf = None, isolation: Level = Isolation.window, limit: Limit = None,
    form: Form = Format.table, output: Output = None, guard_formulas: Guard = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show what the probe reads instead of what it finds.")] = False,
    json: Json = False,
) -> None:  # fmt: skip
    """Read the live records of some keys, ordered by key and expiration."""
    import ebb.warehouse.read.window  # noqa: F401 - now, so that its time is not taken for the log's

    if json and not explain:
        msg = "--json is for --explain; records come as JSON with --format jsonl"
        raise UsageError(msg)
    began = time.perf_counter()
    window = _window(ctx, name, as_of, isolation)
    opened = time.perf_counter()
    wanted = wanted_of(window, key or [], low=low, high=high, prefix=prefix, file=keys_from)
    names = split_columns(columns)
    found = window.read(wanted, names)
    if not explain:
        write_records(limited(found, limit), found.schema, form=form, output=output, guard_formulas=guard_formulas)
        return
    for _ in limited(found, limit):
        pass
    _show_cost(window.cost, len(wanted.intervals), opened - began, time.perf_counter() - opened, json=json)


def _show_cost(cost: Cost, asked: int, log_seconds: float, read_seconds: float, *, json: bool) -> None:
    if not json:
        render.lines(cost_lines(cost, log_seconds, read_seconds))
        return
    seconds = {"log_seconds": log_seconds, "read_seconds": read_seconds - cost.directory_seconds}
    rounded = {name: round(value, 6) for name, value in (asdict(cost) | seconds).items() if name.endswith("_seconds")}
    render.json_object({"keys": asked} | asdict(cost) | rounded)


def cost_lines(cost: Cost, log_seconds: float, read_seconds: float) -> list[str]:
    """Tell what a probe took."""
    times = f", {cost.bytes_read / cost.bytes_returned:.1f} times what is returned" if cost.bytes_returned else ""
    reading = read_seconds - cost.directory_seconds
    return render.pairs(
        {
            "window": f"slot {cost.clock} of version {cost.version}",
            "files": f"{cost.files_read:,} read of {cost.files:,}",
            "row groups": f"{cost.groups_read:,} read of {cost.groups:,}; {cost.groups_met:,} have the key in their range",
            "bytes": f"{render.bytes_text(cost.bytes_read)} read{times}",
            "found": f"{cost.records:,} record{'s' * (cost.records != 1)}, {render.bytes_text(cost.bytes_returned)}",
            "seconds": f"{log_seconds:.3f} log, {cost.directory_seconds:.3f} directory, {reading:.3f} reading",
        }
    )


def scan(
    ctx: typer.Context,
    name: Name,
    columns: Columns = None,
    where: Annotated[str | None, typer.Option("--where", metavar="EXPR", help="Comparisons, and, or, not, in, between, is null.")] = None,
    as_of: AsOf = None, isolation: Level = Isolation.window, limit: Limit = None,
    engine: Annotated[Engine, typer.Option("--engine", help="Who reads: this process, or Spark. auto is direct.")] = Engine.auto,
    form: Form = Format.table, output: Output = None, guard_formulas: Guard = False,
    master: Master = None, conf: Conf = None,
) -> None:  # fmt: skip
    """Read the live records of a table."""
    names = split_columns(columns)
    if engine is Engine.spark:
        if isolation is Isolation.latest:
            msg = "--isolation latest is for --engine direct; leave --engine out"
            raise UsageError(msg)
        render.progress("starting Spark")
        found = state(ctx).open(master, conf).table(name).scan_by_spark(names, where, as_of)
        render.clear_progress()
    else:
        found = _window(ctx, name, as_of, isolation).scan(names, where)
    write_records(limited(found, limit), found.schema, form=form, output=output, guard_formulas=guard_formulas)


def sql(
    ctx: typer.Context,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="A query; tables appear as views of their live window.", show_default=False)],
    engine: Annotated[SqlEngine | None, typer.Option("--engine", help="duckdb answers in this process, spark in a JVM; duckdb unless --master or --conf is given.")] = None,
    limit: Limit = None, form: Form = Format.table, output: Output = None, guard_formulas: Guard = False,
    master: Master = None, conf: Conf = None,
) -> None:  # fmt: skip
    """Ask SQL; every table is a view of its live window."""
    warehouse = state(ctx).open(master, conf)
    if engine is SqlEngine.spark or (engine is None and (master or conf)):
        from ebb.warehouse.sql.spark import answer

        render.progress("starting Spark")
        spark = warehouse.spark(delta=True)
        warehouse.register(spark)
        render.progress("asking Spark")
        found = answer(spark, query, limit).to_reader()
        render.clear_progress()
    else:
        found = warehouse.sql(query, limit)
    write_records(limited(found, None), found.schema, form=form, output=output, guard_formulas=guard_formulas)
