"""probe, scan, sql."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import render
from cli.output import Format, limited, write_records
from cli.state import Conf, Master, Name, state
from index.errors import UnreadableInputError, UsageError

if TYPE_CHECKING:
    from warehouse.schema import Column
    from warehouse.window import Keys, Window

__all__ = ["probe", "scan", "sql"]


class Isolation(str, Enum):
    """What a read sees of the updates that are committed while it runs."""

    window = "window"  # one true window, the newest when the read starts


AsOf = Annotated[
    str | None, typer.Option("--as-of", metavar="T", help="Hide what has expired at T, which is not before the clock.")
]
Limit = Annotated[int | None, typer.Option("--limit", min=0, help="At most so many records.")]
Form = Annotated[Format, typer.Option("--format", help="How records are written.")]
Output = Annotated[
    Path | None, typer.Option("--output", metavar="FILE", help="Write to a file instead of standard output.")
]
Columns = Annotated[str | None, typer.Option("--columns", metavar="A,B", help="Only these columns.")]
Level = Annotated[Isolation, typer.Option("--isolation", help="One true window.")]
Guard = Annotated[bool, typer.Option("--guard-formulas", help="In CSV, quote what a spreadsheet would run.")]


def _split(text: str | None) -> list[str] | None:
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
    from warehouse.window import parse_value

    parts = _parts(text, columns)
    if not 1 <= len(parts) <= len(columns):
        msg = f"key {text!r} has {len(parts)} parts; the key is {','.join(c.name for c in columns)}"
        raise UsageError(msg)
    return tuple(parse_value(column, part) for column, part in zip(columns, parts, strict=False))


def _lines(path: Path) -> list[str]:
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableInputError(path, f"the keys cannot be read ({error})", "check --keys-from") from error
    return [line for line in text.splitlines() if line]


def _keys(
    window: Window, given: Sequence[str], low: str | None, high: str | None, prefix: str | None, file: Path | None
) -> Keys:
    from warehouse.window import KeyList, KeyPrefix, KeyRange

    columns = [window.spec.column(name) for name in window.spec.key]
    ways = [bool(given), low is not None or high is not None, prefix is not None, file is not None]
    if sum(ways) != 1:
        msg = "probe takes keys, or --from and --to, or --prefix, or --keys-from: exactly one of them"
        raise UsageError(msg)
    if prefix is not None:
        parts = _parts(prefix, columns)
        if not parts or len(parts) > len(columns) or columns[len(parts) - 1].type != "string":
            msg = f"prefix {prefix!r} must end in a part of a text column; the key is {', '.join(f'{c.name} {c.type}' for c in columns)}"
            raise UsageError(msg)
        return KeyPrefix(_key(prefix, columns))
    if low is not None or high is not None:
        return KeyRange(None if low is None else _key(low, columns), None if high is None else _key(high, columns))
    texts = given if file is None else _lines(file)
    return KeyList(tuple(_key(text, columns) for text in texts))


def probe(
    ctx: typer.Context,
    name: Name,
    key: Annotated[list[str] | None, typer.Argument(metavar="KEY", help="Keys; composite ones with commas, also leading parts.", show_default=False)] = None,
    low: Annotated[str | None, typer.Option("--from", metavar="K", help="Keys from K on, included.")] = None,
    high: Annotated[str | None, typer.Option("--to", metavar="K", help="Keys up to K, included.")] = None,
    prefix: Annotated[str | None, typer.Option("--prefix", metavar="K", help="Keys that start with K.")] = None,
    keys_from: Annotated[Path | None, typer.Option("--keys-from", metavar="FILE", help="Keys from a file, one a line; - for standard input.")] = None,
    columns: Columns = None, as_of: AsOf = None, limit: Limit = None,
    isolation: Level = Isolation.window,  # noqa: ARG001 - there is one level so far
    form: Form = Format.table, output: Output = None, guard_formulas: Guard = False,
) -> None:  # fmt: skip
    """Read the live records of some keys, ordered by key and expiration."""
    window = state(ctx).open().table(name).window(as_of)
    wanted = _split(columns)
    found = window.probe(_keys(window, key or [], low, high, prefix, keys_from), wanted)
    write_records(limited([found], limit), found.schema, form=form, output=output, guard_formulas=guard_formulas)


def scan(
    ctx: typer.Context,
    name: Name,
    columns: Columns = None,
    where: Annotated[str | None, typer.Option("--where", metavar="EXPR", help="Comparisons, and, or, not, in, between, is null.")] = None,
    as_of: AsOf = None,
    isolation: Level = Isolation.window,  # noqa: ARG001 - there is one level so far
    limit: Limit = None,
    form: Form = Format.table, output: Output = None, guard_formulas: Guard = False,
) -> None:  # fmt: skip
    """Read the live records of a table."""
    import pyarrow as pa

    from index.predicate import parse_predicate

    window = state(ctx).open().table(name).window(as_of)
    wanted = _split(columns) or list(window.columns)
    schema = pa.schema([window.schema.field(window.spec.column(column).name) for column in wanted])
    parts: Iterable[pa.Table] = window.scan(wanted, parse_predicate(where) if where else None)
    write_records(limited(parts, limit), schema, form=form, output=output, guard_formulas=guard_formulas)


def sql(
    ctx: typer.Context,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="A query; tables appear as views of their live window.", show_default=False)],
    limit: Limit = None, form: Form = Format.table, output: Output = None, guard_formulas: Guard = False,
    master: Master = None, conf: Conf = None,
) -> None:  # fmt: skip
    """Ask Spark SQL; every table is a view of its live window."""
    from warehouse.sql import answer

    warehouse = state(ctx).open(master, conf)
    render.progress("starting Spark")
    spark = warehouse.spark(delta=True)
    warehouse.register(spark)
    render.progress("asking Spark")
    found = answer(spark, query, limit)
    render.clear_progress()
    write_records([found], found.schema, form=form, output=output, guard_formulas=guard_formulas)
