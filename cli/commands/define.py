"""create, alter, drop."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ebb.cli.options import DryRun, Json, Name, Wait, Yes, state
from ebb.cli.output import render
from ebb.index.errors import UsageError

__all__ = ["alter", "create", "drop"]


def create(
    ctx: typer.Context,
    name: Name,
    key: Annotated[str, typer.Option(metavar="COL[,COL]", help="The columns that records are found by.")],
    inserted: Annotated[str, typer.Option(metavar="COL", help="The column with a record's insertion time.")],
    expires: Annotated[str, typer.Option(metavar="COL", help="The column with a record's expiration time.")],
    tick: Annotated[str, typer.Option(metavar="D", help="The time between two updates (e.g. 5m, 1h).")],
    span: Annotated[str, typer.Option(metavar="D", help="The longest lifetime of a record (e.g. 7d).")],
    like: Annotated[Path | None, typer.Option(metavar="FILE", help="Take the columns from this sample file.")] = None,
    schema: Annotated[
        str | None, typer.Option(metavar="DDL", help='The columns (e.g. "tail STRING, dep TIMESTAMP").')
    ] = None,
    origin: Annotated[str | None, typer.Option(metavar="T", help="When slot 1 starts; 1970 or 0 by default.")] = None,
    grid: Annotated[
        str | None, typer.Option(metavar="GxE", help="Groups by cohorts; chosen from the deletion bound by default.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(metavar="P", help="round-robin, chronological, random, or runs VxW.")
    ] = None,
    strategy: Annotated[str | None, typer.Option(metavar="S", help="rebuild, norebuild or retire.")] = None,
    deletion_bound: Annotated[
        str | None,
        typer.Option(
            metavar="D",
            help="How long after its expiration a record may stay on disk; a quarter of the span by default.",
        ),
    ] = None,
    reader_time: Annotated[
        str | None, typer.Option(metavar="D", help="The grace period of readers: how long removed files stay on disk.")
    ] = None,
    quarantine_time: Annotated[
        str | None, typer.Option(metavar="D", help="How long refused records are kept; the deletion bound by default.")
    ] = None,
    log_retention: Annotated[
        str | None,
        typer.Option(
            metavar="D", help="How long commits stay in the log; the bound, or 1,000 ticks if that is longer."
        ),
    ] = None,
    landing: Annotated[
        str | None, typer.Option(metavar="DIR", help="The folder that ebb run takes batches from.")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(metavar="GROUP", help="Let members of this group of the operating system read the table's files."),
    ] = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Create a table."""
    warehouse = state(ctx).open()
    declared = warehouse.declare(
        name, key=[part.strip() for part in key.split(",") if part.strip()], inserted=inserted, expires=expires,
        tick=tick, span=span, like=like, schema=schema, origin=origin, grid=grid, policy=policy, strategy=strategy,
        deletion_bound=deletion_bound, reader_time=reader_time, quarantine_time=quarantine_time,
        log_retention=log_retention, landing=landing, group=group,
    )  # fmt: skip
    if not dry_run:
        warehouse.create_declared(declared)
    table = declared.description
    if json:
        more = {"reason": declared.reason, "dry_run": dry_run, "folder": str(declared.folder)}
        render.json_object({**asdict(table), **more})
        return
    done = "would be created" if dry_run else "created"
    choice = f"grid {table.grid}, runs {table.policy}: {declared.reason}"
    render.lines([f"table {name} {done} in {declared.folder}", choice])


def alter(
    ctx: typer.Context,
    name: Name,
    deletion_bound: Annotated[str | None, typer.Option(metavar="D", help="The new deletion bound.")] = None,
    quarantine_time: Annotated[str | None, typer.Option(metavar="D", help="How long refused records are kept.")] = None,
    log_retention: Annotated[str | None, typer.Option(metavar="D", help="How long commits stay in the log.")] = None,
    landing: Annotated[str | None, typer.Option(metavar="DIR", help='The landing folder; "" for none.')] = None,
    group: Annotated[
        str | None, typer.Option(metavar="GROUP", help='The group that may read the files; "" for the owner alone.')
    ] = None,
    add_column: Annotated[
        str | None, typer.Option(metavar='"C TYPE"', help="A new column, null in existing records.")
    ] = None,
    wait: Wait = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Change a table's bound, times, landing folder or group, or add a column."""
    changes = (deletion_bound, quarantine_time, log_retention, landing, group, add_column)
    if all(change is None for change in changes):
        msg = "alter changes nothing; pass --deletion-bound, --quarantine-time, --log-retention, --landing, --group or --add-column"
        raise UsageError(msg)
    altered = state(ctx).open().table(name).alter(
        deletion_bound=deletion_bound, quarantine_time=quarantine_time, log_retention=log_retention,
        landing=landing, group=group, add_column=add_column, wait=wait, dry_run=dry_run,
    )  # fmt: skip
    before, after = asdict(altered.before), asdict(altered.after)
    if json:
        render.json_object({**after, "dry_run": dry_run})
        return
    changed = [
        f"{field.replace('_', ' ')}: {before[field] or 'none'} → {after[field] or 'none'}"
        for field in after
        if field != "columns" and not field.endswith("_seconds") and before[field] != after[field]
    ]
    changed += [f"column {c.name} {c.type} added" for c in altered.after.columns[len(altered.before.columns) :]]
    if dry_run:
        changed.append("(dry run: nothing was changed)")
    render.lines([render.visible(line) for line in changed] or ["nothing to change: the table is like that already"])


def drop(ctx: typer.Context, name: Name, yes: Yes = False, dry_run: DryRun = False, json: Json = False) -> None:
    """Delete a table, its records and its quarantine."""
    warehouse = state(ctx).open()
    content = warehouse.drop(name, dry_run=True)
    summary = f"table {name}, whose log cannot be read"
    if content.live_records is not None:
        records, files = render.counted(content.live_records, "live record"), render.counted(content.files or 0, "file")
        summary = f"table {name} with {records} in {files}"
    if not dry_run and not yes:
        if not sys.stdin.isatty():
            msg = f"drop deletes {summary}; pass --yes if that is meant"
            raise UsageError(msg)
        typer.confirm(f"Delete {summary}?", abort=True)
    if not dry_run:
        warehouse.drop(name)
    if json:
        render.json_object(
            {"name": name, "dropped": not dry_run, "live_records": content.live_records, "files": content.files}
        )
    else:
        render.lines([f"{summary} {'would be' if dry_run else 'was'} deleted"])
