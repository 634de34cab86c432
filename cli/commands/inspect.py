"""status, history, explain, quarantine."""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ebb.cli.commands.ingest import NOTHING_MOVED, show_report
from ebb.cli.hints import error_text
from ebb.cli.interrupts import guarded
from ebb.cli.options import DryRun, Json, Name, Wait, count_option, limit_option, state
from ebb.cli.output import leases, render
from ebb.cli.output.records import write_lines
from ebb.cli.output.refused import refused_lines, written_lines
from ebb.cli.output.standing import backup_texts, live_text
from ebb.index.errors import UsageError, WarehouseError

if TYPE_CHECKING:
    from ebb.maintenance.inspect.history import Commit
    from ebb.maintenance.inspect.status import Status

__all__ = ["explain", "history", "quarantine", "status"]


class Measure(StrEnum):
    """What the heat map shows."""

    records = "records"
    bytes = "bytes"
    files = "files"


def status(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The table; all tables if omitted.", show_default=False)
    ] = None,
    show: Annotated[Measure, typer.Option(help="What the heat map shows.")] = Measure.records,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Exit with 1 if somebody has to look after a table: its bound is broken or soon will be, updates or checks are overdue, too much is refused, it cannot be read or written, or another tool wrote to it.",
        ),
    ] = False,
    within: Annotated[
        int, count_option("--within", "With --check: for how many ticks the bound must hold from now on.")
    ] = 1,
    behind: Annotated[int, count_option("--behind", "With --check: how many overdue ticks are tolerated.")] = 2,
    most_refused: Annotated[
        float, typer.Option(metavar="SHARE", help="With --check: the share of what came lately that may be refused.")
    ] = 0.5,
    check_every: Annotated[
        str | None, typer.Option(metavar="D", help="With --check: how often ebb check is to be run (e.g. 7d).")
    ] = None,
    json: Json = False,
) -> None:
    """Show the state of tables: clock, size, cells, deletion bound, commits of other tools."""
    from ebb.maintenance.inspect.watch import read_limits, watch

    limits = read_limits(within, behind, most_refused, check_every)
    warehouse = state(ctx).open()
    if name is not None:
        table = warehouse.table(name).status()
        if json:
            render.json_object(_facts(table))
        else:
            render.lines(_status_lines(table, show.value))
        _end(watch(table, limits) if check else ())
        return
    tables: list[Status] = []
    broken: dict[str, WarehouseError] = {}
    for each in warehouse.tables():
        try:
            tables.append(each.status())
        except WarehouseError as error:  # the others can be shown
            broken[each.name] = error
    if json:
        errors = [{"name": table, "error": error_text(error)} for table, error in broken.items()]
        render.json_object({"warehouse": str(warehouse.root), "tables": [*map(_facts, tables), *errors]})
    else:
        _show_tables(warehouse.root, tables, is_empty=not tables and not broken)
    _end([*broken.values(), *(found for table in tables if check for found in watch(table, limits))])


def _facts(table: Status) -> dict[str, Any]:
    """Return a status as JSON shows it: of the last update what it said."""
    last = table.last_update
    return {**asdict(table), "last_update": None if last is None else _said(last)}


def _said(commit: Commit) -> dict[str, Any]:
    return {field: value for field, value in asdict(commit).items() if value is not None}


def _end(problems: Sequence[WarehouseError]) -> None:
    """Say what is wrong, a line each; the command fails if anything is."""
    for problem in problems:
        render.error(error_text(problem))
    if problems:
        raise typer.Exit(1)


def _show_tables(root: Path, tables: Sequence[Status], *, is_empty: bool) -> None:
    if is_empty:
        render.lines([f"no tables in {root}; create one with ebb create, see ebb create --help"])
        return
    rows = [
        (
            t.name, t.clock_time or "not loaded", _behind(t), "?" if t.live_records is None else f"{t.live_records:,}",
            t.files, render.bytes_text(t.bytes), t.grid, t.strategy, "kept" if t.deletion_bound_kept else "BROKEN",
        )
        for t in tables
    ]  # fmt: skip
    header = ("table", "clock", "behind", "live", "files", "size", "grid", "strategy", "bound")
    foreign = [
        f"{t.name}: {render.counted(len(t.foreign_commits), 'commit')} of other tools, see ebb status {t.name}"
        for t in tables
        if t.foreign_commits
    ]
    features = [render.visible(t.not_writable) for t in tables if t.not_writable]
    features += [error_text(copy) for t in tables if (copy := t.unconfirmed)]
    aside = [f"{t.name}: {where}: {told}" for t in tables for where, told in _aside(t).items()]
    render.lines([*render.table_text(rows, header, right=(3, 4, 5)), *foreign, *features, *aside])


def _aside(table: Status) -> dict[str, str]:
    """Return what lies around the table, as far as there is anything to look at."""
    told: dict[str, str] = {}
    if table.quarantined != 0:
        count = "it cannot be read" if table.quarantined is None else render.counted(table.quarantined, "record")
        told["quarantine"] = f"{count}, see ebb quarantine {table.name}"
    counts = (("waiting", table.landing_waiting), ("refused", table.landing_refused))
    if files := [render.counted(count, f"{state} file") for state, count in counts if count]:
        told["landing"] = " and ".join(files)
    elif table.landing and table.landing_waiting is None:
        told["landing"] = "it cannot be looked into"
    if table.holds:
        told["held"] = f"{render.counted(table.held_records, 'record')}, see ebb held {table.name}"
    head = f"it {table.head_problem}, and nothing is written; see ebb check {table.name}"
    return told | ({"head record": head} if table.head_problem else {})


def _behind(table: Status) -> str:
    ticks = table.ticks_behind
    return "" if ticks is None else "on time" if ticks == 0 else f"{render.counted(ticks, 'tick')} behind"


def _status_lines(table: Status, measure: str) -> list[str]:
    last = table.last_update
    values = {
        "table": f"{table.name} in {table.folder}",
        "key, times": f"{', '.join(table.key)}; {table.inserted} → {table.expires}",
        "tick, span": f"{table.tick}, {table.span} = {render.counted(table.ticks_per_span, 'tick')}",
        "grid": f"{table.grid}, runs {table.policy}, strategy {table.strategy}",
        "clock": "not loaded yet"
        if table.clock is None
        else f"{table.clock_time} (slot {table.clock})" + (f", {_behind(table)}" if _behind(table) else ""),
        "live": live_text(table),
        "deletion": f"bound {table.deletion_bound}; "
        + (
            f"oldest expired byte on disk for {table.oldest_expired_age}: {'kept' if table.deletion_bound_kept else 'BROKEN'}"
            if table.oldest_expired_age
            else "nothing expired on disk: kept"
        )
        + (
            f"; removed files that wait for readers: {table.files_waiting_for_erase}"
            if table.files_waiting_for_erase
            else ""
        ),
        "landing": table.landing or "none",
    }
    for where, told in (_aside(table) | leases.readers(table)).items():
        values[where] = f"{values[where]}; {told}" if where in values else told
    if last is not None:
        values["last update"] = (
            f"{last.committed}: +{last.admitted or 0:,} −{last.expired or 0:,}, into "
            f"{render.counted(last.cells_touched or 0, 'cell')}, {last.seconds or 0:.2f} s"
        )
    others = [
        f"{c.operation} in version {c.version}, {c.committed}: files +{c.files_added} −{c.files_removed}"
        for c in table.foreign_commits
    ]
    if others:
        values["other tools"] = f"{'; '.join(others)}. Nothing is written before ebb adopt {table.name}"
    if table.not_writable:
        values["features"] = table.not_writable
    values |= backup_texts(table)
    if copy := table.unconfirmed:
        values["restored"] = error_text(copy)
    if table.uncounted_files:
        values["not counted"] = "; ".join(table.uncounted_files)
    return [*render.pairs(values), "", *render.heat_map(table, measure)]


def history(
    ctx: typer.Context,
    name: Name,
    limit: Annotated[int | None, limit_option("Show at most N commits.")] = None,
    phases: Annotated[bool, typer.Option("--phases", help="Show what took how long before each commit.")] = False,
    json: Json = False,
) -> None:
    """List the commits of a table, newest first, as far back as the log goes."""
    table = state(ctx).open().table(name)
    commits, oldest = table.history(limit), table.oldest_version()
    if json:
        about = table.describe()
        kept = {"log_retention": about.log_retention, "log_retention_seconds": about.log_retention_seconds}
        render.json_object({"name": name, "oldest_version": oldest, **kept, "commits": [_said(c) for c in commits]})
        return

    def number(value: int | None) -> str:
        return "" if value is None else f"{value:,}"

    if phases:
        took = [(c, ", ".join(f"{name} {seconds:.2f}" for name, seconds in (c.phases or {}).items())) for c in commits]
        rows = [
            (c.version, c.op, c.time, "–" if c.seconds is None else f"{c.seconds:.2f}", text or "–") for c, text in took
        ]
        render.lines(render.table_text(rows, ("version", "op", "slot time", "seconds", "of which"), right=(0, 3)))
        return
    shown = [
        (
            c.version, c.committed, c.op, c.time, number(c.admitted), number(c.expired),
            number(c.cells_touched) if c.cells_bound is None else f"{c.cells_touched}/{c.cells_bound}",
            f"+{c.files_added} −{c.files_removed}", render.bytes_text(c.bytes_written),
            "" if c.seconds is None else f"{c.seconds:.2f}",
        )
        for c in commits
    ]  # fmt: skip
    header = ("version", "committed", "op", "slot time", "admitted", "expired", "cells", "files", "written", "seconds")
    lines = render.table_text(shown, header, right=(0, 4, 5, 6, 7, 8, 9))
    if oldest:
        lines.append(f"(the log goes back to version {oldest:,}; older commits left it after the log retention)")
    render.lines(lines)


def explain(
    ctx: typer.Context,
    name: Name,
    sql: Annotated[
        bool, typer.Option("--sql", help="Print the query that shows the live window to other engines.")
    ] = False,
    lasting: Annotated[
        bool,
        typer.Option("--lasting", help="With --sql: a query that stays true while the table is updated, for views."),
    ] = False,
    json: Json = False,
) -> None:
    """Show the plan of the next update, or the query that shows the window to other engines."""
    if lasting and not sql:
        msg = "--lasting is about the query for other engines; pass --sql too"
        raise UsageError(msg)
    table = state(ctx).open().table(name)
    if sql:
        query = table.window_sql(lasting=lasting)
        if json:
            render.json_object({"name": name, "sql": query})
        else:
            render.lines([render.visible(query)])
        return
    explanation = table.explain()
    if json:
        render.json_object(asdict(explanation))
    elif explanation.slot is None:
        render.lines([f"{explanation.words[0]}; load it, or update it with --at"])
    else:
        render.lines([explanation.words[0], *(f"  {line}" for line in explanation.words[1:])])


def quarantine(
    ctx: typer.Context,
    name: Name,
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="With --retry: repaired records, in files.", show_default=False),
    ] = None,
    limit: Annotated[int, limit_option("Show at most N records.")] = 20,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only records whose reason contains this text.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the records to a file of JSON lines, to repair them; what could not be read stands there as it came.",
        ),
    ] = None,
    retry: Annotated[
        bool,
        typer.Option(
            "--retry", help="Apply the records, or the repaired ones of FILE, as an update, which moves the clock."
        ),
    ] = False,
    clear: Annotated[bool, typer.Option("--clear", help="Remove the records from the quarantine.")] = False,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="T", help="With --retry: the time of the update; the next tick by default."),
    ] = None,
    wait: Wait = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Show refused records with their reasons, write them out, apply them again, or remove them."""
    from ebb.maintenance.retry import repaired_rules

    _check_quarantine(files, output, reason, retry=retry, clear=clear, at=at)
    table = state(ctx).open().table(name)
    if retry:
        with guarded(table):
            if files:
                inputs = repaired_rules(files)
                report = table.update(
                    files, at=at, inputs=inputs, engine="auto", wait=wait, dry_run=dry_run, progress=render.progress
                )
            else:
                report = table.retry_quarantine(reason=reason, at=at, wait=wait, dry_run=dry_run)
        show_report(name, report, json=json)
        if files and report.repeated and not json:
            render.lines([f"  what was refused then and is fine as it is: ebb quarantine {name} --retry"])
        if report.already_applied and at is None:
            raise typer.Exit(NOTHING_MOVED)
        return
    if clear:
        done = table.clear_quarantine(reason=reason, wait=wait, dry_run=dry_run)
        if json:
            render.json_object({**asdict(done), "dry_run": dry_run})
        else:
            cleared = render.counted(done.cleared, "record") + " would be" * dry_run
            render.lines([f"{cleared} removed from the quarantine of {name}"])
        return
    refused = table.quarantine(reason)
    records, count = refused.records[:limit], len(refused.records)
    if output is not None and count:
        write_lines([r.record for r in refused.records], output)
    if json:
        shown = [{**asdict(r), "record": _parsed(r.record)} for r in records]
        render.json_object({"name": name, "quarantined": count, "reasons": refused.reasons, "records": shown})
    elif not count:
        there = render.counted(refused.quarantined, "record")
        none = f"none of the {there} in the quarantine of {name} has a reason with {reason!r}"
        render.lines([none if refused.quarantined else f"the quarantine of {name} is empty"])
    elif output is not None:
        render.lines([render.visible(line) for line in written_lines(name, refused.records, output)])
    else:
        render.lines(refused_lines(refused, records, limit))


def _check_quarantine(
    files: list[str] | None, output: Path | None, reason: str | None, *, retry: bool, clear: bool, at: str | None
) -> None:
    from ebb.maintenance.retry import check_written

    if sum([retry, clear, output is not None]) > 1:
        msg = "--retry, --clear and --output are three things to do; pass one of them"
        raise UsageError(msg)
    if not retry and (files or at is not None):
        msg = "files and --at go with --retry"
        raise UsageError(msg)
    if output is not None:
        check_written(output)
    if files and reason is not None:
        msg = "--reason chooses among the refused records, and FILE has its own; pass one of them"
        raise UsageError(msg)


def _parsed(record: str) -> Any:
    try:
        return json_module.loads(record)
    except ValueError:
        return record
