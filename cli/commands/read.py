"""probe, scan, changes, sql, publish."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ebb.cli.interrupts import Terminated, terminable
from ebb.cli.options import Conf, DryRun, Json, Limit, Master, Name, check_spark_settings, state
from ebb.cli.output import render
from ebb.cli.output.records import Format, format_of, limited, write_records
from ebb.cli.output.tokens import keep_token, kept_token
from ebb.index.errors import TooLateError, UnreadableInputError, UsageError
from ebb.maintenance.values import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from ebb.maintenance.api.table import OpenTable
    from ebb.maintenance.reading import Changes, Cost, Window

__all__ = [
    "Columns",
    "Form",
    "Guard",
    "Output",
    "changes",
    "cost_lines",
    "probe",
    "publish",
    "read_lines",
    "scan",
    "split_columns",
    "sql",
]


class Isolation(StrEnum):
    """What a read sees of the updates that are committed while it runs."""

    window = "window"  # one true window, the newest when the read starts
    latest = "latest"  # one true window that reflects every update committed before the read is done


class Engine(StrEnum):
    """Which engine reads."""

    direct = "direct"
    spark = "spark"


class SqlEngine(StrEnum):
    """Which engine answers SQL."""

    duckdb = "duckdb"
    spark = "spark"


AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of", metavar="T", help="Hide records that have expired at T: now, or a time that is not before the clock."
    ),
]
Form = Annotated[
    Format | None,
    typer.Option(
        "--format", help="How records are written; by default as the suffix of --output says, a table without one."
    ),
]
Output = Annotated[
    Path | None, typer.Option("--output", metavar="FILE", help="Write to a file instead of standard output.")
]
Columns = Annotated[
    list[str] | None,
    typer.Option("--columns", metavar="A,B", help="Only these columns; may be given several times."),
]
Level = Annotated[
    Isolation,
    typer.Option(
        "--isolation",
        help="window: the table as of when the read starts. latest: includes updates committed while it runs.",
    ),
]
Guard = Annotated[
    bool, typer.Option("--guard-formulas", help="In CSV, quote values that a spreadsheet would run as formulas.")
]


def split_columns(texts: Sequence[str] | None) -> list[str] | None:
    """Read names of columns, joined by commas or given one by one."""
    if not texts:
        return None
    text = ",".join(texts)
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names or len(set(names)) < len(names):
        msg = f"--columns {text!r} names {'a column twice' if names else 'no column'}; write it like A,B"
        raise UsageError(msg)
    return names


def read_lines(path: Path) -> list[str]:
    """Return the keys in a file, or on standard input."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableInputError(path, f"the keys cannot be read ({error})", "check --keys-from") from error
    # Not splitlines: it cuts at more than line ends, and a key may hold the rest.
    return [line for line in (line.removesuffix("\r") for line in text.split("\n")) if line]


def _window(table: OpenTable, as_of: str | None, isolation: Isolation) -> Window:
    return table.up_to_date(as_of) if isolation is Isolation.latest else table.at_latest(as_of)


def probe(
    ctx: typer.Context,
    name: Name,
    key: Annotated[list[str] | None, typer.Argument(metavar="KEY", help="Keys; parts of a composite key joined by commas, leading parts alone are enough.", show_default=False)] = None,
    low: Annotated[str | None, typer.Option("--from", metavar="K", help="Keys from K, inclusive.")] = None,
    high: Annotated[str | None, typer.Option("--to", metavar="K", help="Keys up to K, inclusive.")] = None,
    prefix: Annotated[str | None, typer.Option("--prefix", metavar="K", help="Keys that start with K.")] = None,
    keys_from: Annotated[Path | None, typer.Option("--keys-from", metavar="FILE", help="Read keys from a file, one per line; - for standard input.")] = None,
    columns: Columns = None, as_of: AsOf = None, isolation: Level = Isolation.window, limit: Limit = None,
    form: Form = None, output: Output = None, guard_formulas: Guard = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show what the probe reads instead of the records.")] = False,
    json: Json = False,
) -> None:  # fmt: skip
    """Read the live records of some keys, ordered by key and expiration."""
    from ebb.maintenance.reading import read_wanted  # before the clock starts: its time is not the log's

    if json and not explain:
        msg = "--json is for --explain; records come as JSON with --format jsonl"
        raise UsageError(msg)
    if explain and (output is not None or form is not None):
        msg = f"--explain shows no records, so {'--output' if output is not None else '--format'} is not for it; leave one of them out"
        raise UsageError(msg)
    if sum([bool(key), low is not None or high is not None, prefix is not None, keys_from is not None]) != 1:
        msg = "probe takes keys, or --from and --to, or --prefix, or --keys-from: exactly one of them"
        raise UsageError(msg)
    form = form or format_of(output)
    began = time.perf_counter()
    window = _window(state(ctx).open().table(name), as_of, isolation)
    opened = time.perf_counter()
    keys = key or [] if keys_from is None else read_lines(keys_from)
    wanted = read_wanted(window, keys, low=low, high=high, prefix=prefix)
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
    times = f"; {cost.bytes_read / cost.bytes_returned:.1f} times what is returned" if cost.bytes_returned else ""
    finding = (
        f", {render.bytes_text(cost.directory_bytes)} of it to find the row groups" if cost.directory_bytes else ""
    )
    passed = f"; {cost.files_passed:,} passed by their key ranges" if cost.files_passed else ""
    reading = read_seconds - cost.directory_seconds
    return render.pairs(
        {
            "window": f"slot {cost.clock} of version {cost.version}",
            "files": f"{cost.files_read:,} read of {cost.files:,}{passed}",
            "row groups": f"{cost.groups_read:,} read of {cost.groups:,}; {cost.groups_met:,} have the key in their range",
            "bytes": f"{render.bytes_text(cost.bytes_read)} read{finding}{times}",
            "found": f"{counted(cost.records, 'record')}, {render.bytes_text(cost.bytes_returned)}",
            "seconds": f"{log_seconds:.3f} log, {cost.directory_seconds:.3f} directory, {reading:.3f} reading",
        }
    )


def scan(
    ctx: typer.Context,
    name: Name,
    columns: Columns = None,
    where: Annotated[str | None, typer.Option("--where", metavar="EXPR", help="Only records for which this holds: comparisons, and, or, not, in, between, like, is null.")] = None,
    as_of: AsOf = None, isolation: Level = Isolation.window, limit: Limit = None,
    engine: Annotated[Engine | None, typer.Option("--engine", help="Which engine reads the table: direct in this process, spark in a JVM. direct unless --master or --conf is given.")] = None,
    form: Form = None, output: Output = None, guard_formulas: Guard = False,
    master: Master = None, conf: Conf = None,
) -> None:  # fmt: skip
    """Read the live records of a table."""
    form = form or format_of(output)
    names = split_columns(columns)
    table = state(ctx).open(master, conf).table(name)
    if _by_spark(engine, master, conf):
        if isolation is Isolation.latest:
            msg = "--isolation latest is for --engine direct; leave --engine, --master and --conf out"
            raise UsageError(msg)
        render.progress("starting Spark")
        found = table.scan_by_spark(names, where, as_of)
        render.clear_progress()
    else:
        found = _window(table, as_of, isolation).scan(names, where)
    write_records(limited(found, limit), found.schema, form=form, output=output, guard_formulas=guard_formulas)


def changes(
    ctx: typer.Context,
    name: Name,
    since: Annotated[str | None, typer.Option("--since", metavar="POSITION", help="What came after this: a version, slot:N, a time (time:N where times are integers), a token, or start for all that is still there.")] = None,
    expiries: Annotated[bool, typer.Option("--expiries", help="Also the records that expired, each with its slot.")] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for new commits until Ctrl-C; records come as JSON lines unless --format says otherwise.")] = False,
    resume: Annotated[Path | None, typer.Option("--resume", metavar="FILE", help="Go on after the token in FILE if it is there, and keep the newest one in it; records come as JSON lines unless --format or --output says otherwise. --output must name a file that is not there yet.")] = None,
    columns: Columns = None, limit: Limit = None, form: Form = None, output: Output = None, guard_formulas: Guard = False,
) -> None:  # fmt: skip
    """Read what was admitted, and on request what expired, commit by commit, each record once.

    _change says what happened to a record (admitted, amended, forgotten or expired), _version in which commit, _slot in which tick.
    """
    form = _change_format(form, output, follow=follow, resume=resume, limit=limit)
    since = (None if resume is None else kept_token(resume, expiries=expiries)) or since
    if since is None:
        msg = "changes needs to know where to start; pass --since, for example --since start"
        raise UsageError(msg)

    def keep(token: str) -> None:
        if resume is not None:
            keep_token(resume, token, expiries=expiries)

    try:
        table = state(ctx).open().table(name)
        feed = table.changes(since, expiries=expiries, follow=follow, columns=split_columns(columns))
        keep(feed.token)  # before anything is printed: now it can be helped
        with terminable() if follow else nullcontext():
            # What was flushed to standard output has been delivered; a file is there when it is complete.
            parts = limited(_flushed(feed, keep if output is None else lambda _: None), limit)
            write_records(parts, feed.schema, form=form, output=output, guard_formulas=guard_formulas)
    except Terminated as ended:  # that is how it ends
        raise typer.Exit(ended.code) from None
    except TooLateError as error:
        if resume is None or not resume.exists():
            raise
        raise TooLateError(
            *error.args, resume, hint="too_late_resumed"
        ) from error  # the token in it goes before --since
    keep(feed.token)


def _change_format(
    form: Format | None, output: Path | None, *, follow: bool, resume: Path | None, limit: int | None
) -> Format:
    """Return how changes are written, or say which options do not go together."""
    lines = Format.jsonl if output is None and (follow or resume is not None) else format_of(output)
    form = form or lines
    if follow and (output is not None or form in (Format.table, Format.parquet)):
        what = "--output" if output is not None else f"--format {form.value}"
        msg = f"--follow never ends, and {what} is complete only at the end; use --format jsonl, csv or arrow, and redirect it"
        raise UsageError(msg)
    if resume is not None and (limit is not None or form is Format.table):
        what = "--limit" if limit is not None else "--format table"
        msg = f"--resume goes on after what was printed, and {what} may leave some of it out; leave {what} out"
        raise UsageError(msg)
    if resume is not None and output is not None and output.is_file():
        msg = f"{output} is there, and with --resume a file gets only what came since; name a file that is not there yet, or leave --output out and append standard output"
        raise UsageError(msg)
    if resume is not None and form is Format.parquet and output is None:
        msg = "--resume cannot tell how much of --format parquet has arrived on standard output; pass --output FILE"
        raise UsageError(msg)
    return form


def _flushed(feed: Changes, keep: Callable[[str], None]) -> Iterator[pa.RecordBatch]:
    """Yield the records; when all of a commit have been written, flush them, and keep its token."""
    for commit in feed:
        yield from commit.records
        sys.stdout.buffer.flush()
        keep(commit.token)


def _by_spark(engine: Engine | SqlEngine | None, master: str | None, conf: list[str] | None) -> bool:
    """Whether Spark answers: if it is named, or if it is told how to start."""
    for without in (Engine.direct.value, SqlEngine.duckdb.value):
        check_spark_settings(engine, without, master, conf)
    return bool(master or conf) or engine == "spark"


def sql(
    ctx: typer.Context,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="A query; tables appear as views of their live window.", show_default=False)],
    engine: Annotated[SqlEngine | None, typer.Option("--engine", help="Which engine answers: duckdb in this process, spark in a JVM. duckdb unless --master or --conf is given.")] = None,
    as_of: AsOf = None, limit: Limit = None, form: Form = None, output: Output = None, guard_formulas: Guard = False,
    master: Master = None, conf: Conf = None,
) -> None:  # fmt: skip
    """Answer a SQL query; every table is a view of its live window."""
    form = form or format_of(output)
    by_spark = _by_spark(engine, master, conf)
    warehouse = state(ctx).open(master, conf)
    kind: Literal["duckdb", "spark"] = "spark" if by_spark else "duckdb"
    found = warehouse.sql(query, limit, engine=kind, as_of=as_of, progress=render.progress)
    render.clear_progress()
    narrower = "select fewer or use --format"
    write_records(
        limited(found, limit), found.schema, form=form, output=output, guard_formulas=guard_formulas, narrower=narrower
    )


def publish(
    ctx: typer.Context,
    name: Name,
    spark: Annotated[bool, typer.Option("--spark", help="In Spark's catalog; so far there is no other.")] = False,
    view: Annotated[str | None, typer.Option("--as", metavar="VIEW", help="The name of the view; the table's by default.")] = None,
    database: Annotated[str | None, typer.Option("--database", metavar="DB", help="The database of the view.")] = None,
    master: Master = None, conf: Conf = None, dry_run: DryRun = False, json: Json = False,
) -> None:  # fmt: skip
    """Create or replace a lasting view of a table, for other sessions and engines."""
    if not spark:
        msg = f"publish needs to know where to; run: ebb publish {name} --spark"
        raise UsageError(msg)
    if not dry_run:
        render.progress("starting Spark")
    table = state(ctx).open(master, conf).table(name)
    done = table.publish(view=view, database=database, dry_run=dry_run)
    render.clear_progress()
    if json:
        render.json_object(asdict(done))
    elif dry_run:
        render.lines([render.visible(done.sql)])
    else:
        render.lines([f"view {done.view} shows what has not expired of table {name}, whenever it is asked"])
