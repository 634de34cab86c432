"""create, alter, drop."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ebb.cli.options import (
    DryRun,
    Encoding,
    Extra,
    Json,
    Label,
    Name,
    Remember,
    Rename,
    Separator,
    Strict,
    Wait,
    Yes,
    input_rules,
    state,
)  # fmt: skip
from ebb.cli.output import render
from ebb.index.errors import UsageError

if TYPE_CHECKING:
    from ebb.maintenance.landing_place import Kept

__all__ = ["ANEW", "alter", "create", "drop"]

# What to do about what alter cannot change.
ANEW = "write the table out (ebb scan NAME --format parquet --output FILE), create another one, and load FILE"


def create(
    ctx: typer.Context,
    name: Name,
    key: Annotated[str, typer.Option(metavar="COL[,COL]", help="The columns that records are found by.")],
    inserted: Annotated[
        str,
        typer.Option(metavar="COL|EXPR", help="The insertion time: a column, or now, or an expression (now AS came)."),
    ],
    tick: Annotated[str, typer.Option(metavar="D", help="The time between two updates (e.g. 5m, 1h).")],
    span: Annotated[str, typer.Option(metavar="D", help="The longest lifetime of a record (e.g. 7d).")],
    expires: Annotated[
        str | None,
        typer.Option(
            metavar="COL|EXPR",
            help='The expiration time: a column, or an expression ("came + 30d", "coalesce(until, came + 7d)").',
        ),
    ] = None,
    lifetime: Annotated[
        str | None,
        typer.Option(
            metavar="D|COL", help="Instead of --expires: how long a record lives, or the column that says it."
        ),
    ] = None,
    like: Annotated[Path | None, typer.Option(metavar="FILE", help="Take the columns from this sample file.")] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="DDL", help='The columns (e.g. "tail STRING, dep TIMESTAMP"); with --like, those that differ.'
        ),
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
        str | None,
        typer.Option(
            metavar="D",
            help="The grace period: how long removed files stay on disk for readers without a lease; 0 for not at all.",
        ),
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
    label: Label = None,
    remember: Remember = None,
    strict: Strict = None,
    extra: Extra = None,
    rename: Rename = None,
    separator: Separator = None,
    encoding: Encoding = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Create a table."""
    warehouse = state(ctx).open()
    declared = warehouse.declare(
        name, key=[part.strip() for part in key.split(",") if part.strip()], inserted=inserted, expires=expires,
        tick=tick, span=span, like=like, schema=schema, origin=origin, grid=grid, policy=policy, strategy=strategy,
        deletion_bound=deletion_bound, reader_time=reader_time, quarantine_time=quarantine_time,
        log_retention=log_retention, landing=landing, group=group, lifetime=lifetime, label=label, remember=remember,
        inputs=input_rules(strict, extra, rename, separator, encoding),
    )  # fmt: skip
    if not dry_run:
        warehouse.create_declared(declared)
    table = declared.description
    if json:
        more = {"reason": declared.reason, "dry_run": dry_run, "folder": str(declared.folder)}
        render.json_object({**asdict(table), **more})
        return
    done = "would be created" if dry_run else "created"
    text = [f"table {name} {done} in {declared.folder}", f"grid {table.grid}, runs {table.policy}: {declared.reason}"]
    if like is not None:
        text.append(f"columns {', '.join(f'{c.name} {c.type.upper()}' for c in table.columns)}")
    text += [
        f"{column} is computed: {expression}"
        for column, expression in ((table.inserted, table.inserted_as), (table.expires, table.expires_as))
        if expression
    ]
    render.lines([render.visible(line) for line in text])


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
    evidence_retention: Annotated[
        str | None, typer.Option(metavar="D", help='How long the evidence of deletions is kept; "" for ever.')
    ] = None,
    label: Label = None,
    remember: Remember = None,
    strict: Strict = None,
    extra: Extra = None,
    rename: Rename = None,
    separator: Separator = None,
    encoding: Encoding = None,
    wait: Wait = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Change a table's deletion bound, other times, landing folder, group or rules for batches, or add a column."""
    inputs = input_rules(strict, extra, rename, separator, encoding)
    changes = (
        deletion_bound,
        quarantine_time,
        log_retention,
        landing,
        group,
        add_column,
        evidence_retention,
        label,
        remember,
        *inputs.values(),
    )
    if all(change is None for change in changes):
        msg = f"alter changes nothing; see ebb alter --help for what can be changed. To change anything else, {ANEW}"
        raise UsageError(msg)
    altered = state(ctx).open().table(name).alter(
        deletion_bound=deletion_bound, quarantine_time=quarantine_time, log_retention=log_retention,
        landing=landing, group=group, add_column=add_column, label=label, remember=remember, inputs=inputs,
        evidence_retention=evidence_retention, wait=wait, dry_run=dry_run,
    )  # fmt: skip
    before, after = asdict(altered.before), asdict(altered.after)
    if json:
        render.json_object({**after, "left_behind": _object(altered.left_behind), "dry_run": dry_run})
        return
    changed = [
        f"{field.replace('_', ' ')}: {_shown(before[field])} → {_shown(after[field])}"
        for field in after
        if field != "columns" and not field.endswith("_seconds") and before[field] != after[field]
    ]
    changed += [f"column {c.name} {c.type} added" for c in altered.after.columns[len(altered.before.columns) :]]
    changed += _left_lines(altered.left_behind, altered.after.landing)
    if dry_run:
        changed.append("(dry run: nothing was changed)")
    render.lines([render.visible(line) for line in changed] or ["nothing to change: the table is like that already"])


def _shown(value: object) -> str:
    if isinstance(value, dict):  # the rules for batches
        renamed = [f"rename {old}={new}" for old, new in value["rename"].items()]
        others = [f"{name} {value[name]}" for name in ("extra", "separator", "encoding") if value[name] is not None]
        return ", ".join([*(["strict"] if value["strict"] else []), *others, *renamed])
    return "none" if value is None else str(value)


def _object(kept: Kept | None) -> dict[str, Any] | None:
    return None if kept is None else asdict(kept)


def _left_lines(kept: Kept | None, new: str | None) -> list[str]:
    """Return what stays in a landing folder that a table has given up, and what to do about it; ``new``: its next one."""
    if kept is None:
        return []
    lost = f"move to {new}" if new else "in no table: keep, delete, or move to the landing folder of another table"
    parts = (
        ("waiting", kept.waiting, lost),
        ("waiting, in _taken", kept.taken, lost),
        ("refused, in _refused", kept.refused, f"fix and {lost}" if new else lost),
        ("applied, in _applied", kept.applied, "copies of what was applied, which nobody erases now: delete"),
    )
    return [
        f"left in {kept.folder}, where ebb run does not look any more:",
        *(f"  {where}: {render.counted(count, 'file')}; {step}" for where, count, step in parts if count),
    ]


def drop(ctx: typer.Context, name: Name, yes: Yes = False, dry_run: DryRun = False, json: Json = False) -> None:
    """Delete a table, its records and its quarantine. Its landing folder stays; what is in it is told."""
    warehouse = state(ctx).open()
    content = warehouse.drop(name, dry_run=True)
    summary = f"table {name}, whose records cannot be counted"
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
        left = {"left_behind": _object(content.left_behind), "backups": list(content.backups)}
        render.json_object(
            {"name": name, "dropped": not dry_run, "live_records": content.live_records, "files": content.files} | left
        )
    else:
        done = f"{summary} {'would be' if dry_run else 'was'} deleted"
        stay = [f"its backup {place} stays, and nothing is erased there any more" for place in content.backups]
        render.lines([done, *map(render.visible, [*_left_lines(content.left_behind, None), *stay])])
