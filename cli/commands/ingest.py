"""load, update, run."""

from __future__ import annotations

from dataclasses import asdict, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ebb.cli.hints import error_text
from ebb.cli.interrupts import guarded, terminable
from ebb.cli.options import (
    AllowRepeats,
    Conf,
    DryRun,
    Encoding,
    Extra,
    Json,
    Master,
    Name,
    Rename,
    Separator,
    Strict,
    Wait,
    check_spark_settings,
    input_rules,
    state,
)  # fmt: skip
from ebb.cli.output import render

if TYPE_CHECKING:
    from ebb.maintenance.landing.run import Outcome
    from ebb.maintenance.update import Report

__all__ = ["NOTHING_MOVED", "load", "run", "show_report", "update"]


NOTHING_MOVED = 3  # the exit code of an update whose batch was applied before and that names no tick


class BatchEngine(StrEnum):
    """What reads the files of a batch."""

    spark = "spark"
    direct = "direct"
    auto = "auto"


Yes = Annotated[
    bool, typer.Option("--yes", help="Allow a catch-up that expires every record, and a batch of which none is kept.")
]
At = Annotated[str | None, typer.Option("--at", metavar="T", help="The time of the update, rounded down to its tick.")]
Files = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILE", help="Files, folders or globs of Parquet, CSV or JSON lines.", show_default=False),
]
Engine = Annotated[
    BatchEngine | None,
    typer.Option(
        "--engine",
        help="Which engine reads the files. direct starts no JVM; auto is direct for up to 64 MB.",
        show_default="spark",
    ),
]


def load(
    ctx: typer.Context, name: Name, files: Files = None, at: At = None, engine: Engine = None,
    yes: Annotated[bool, typer.Option("--yes", help="Allow a batch of which no record is kept.")] = False,
    strict: Strict = None, extra: Extra = None, rename: Rename = None, separator: Separator = None, encoding: Encoding = None,
    wait: Wait = None, dry_run: DryRun = False, json: Json = False, master: Master = None, conf: Conf = None,
) -> None:  # fmt: skip
    """Load the first records in bulk and set the clock."""
    check_spark_settings(engine, BatchEngine.direct.value, master, conf)
    table = state(ctx).open(master, conf).table(name)
    with guarded(table):
        report = table.load(
            files or [],
            at=at,
            yes=yes,
            inputs=input_rules(strict, extra, rename, separator, encoding),
            engine=_named(engine),
            wait=wait,
            dry_run=dry_run,
            progress=render.progress,
        )
    show_report(name, report, json=json)


def update(
    ctx: typer.Context, name: Name, files: Files = None, at: At = None,
    catch_up: Annotated[bool, typer.Option("--catch-up", help="Apply all ticks up to --at, or to now, in one commit.")] = False,
    yes: Yes = False,
    allow_repeats: AllowRepeats = False,
    strict: Strict = None, extra: Extra = None, rename: Rename = None, separator: Separator = None, encoding: Encoding = None,
    engine: Engine = None, wait: Wait = None, dry_run: DryRun = False, json: Json = False, master: Master = None, conf: Conf = None,
) -> None:  # fmt: skip
    """Add a batch and let expired records go, in one moment; advances the clock by a tick.

    A batch that was applied before is left out. If --at names a new tick, that tick is applied without it (exit code 0);
    without --at nothing changes (exit code 3).
    """
    check_spark_settings(engine, BatchEngine.direct.value, master, conf)
    table = state(ctx).open(master, conf).table(name)
    with guarded(table):
        report = table.update(
            files or None,
            at=at,
            catch_up=catch_up,
            yes=yes,
            allow_repeats=allow_repeats,
            inputs=input_rules(strict, extra, rename, separator, encoding),
            engine=_named(engine),
            wait=wait,
            dry_run=dry_run,
            progress=render.progress,
        )
    show_report(name, report, json=json)
    if report.already_applied and at is None:
        raise typer.Exit(NOTHING_MOVED)


def _named(engine: BatchEngine | None) -> str | None:
    return engine.value if engine else None


def show_report(name: str, report: Report, *, json: bool) -> None:
    """Print what an update did."""
    render.clear_progress()
    if json:
        render.json_object(asdict(report))
    else:
        render.lines(report_lines(name, report))


def report_lines(name: str, report: Report) -> list[str]:
    """Return what an update did, for people."""
    if report.already_applied:
        slot = f"slot {report.slot} ({report.time})"
        what = (
            f"already applied at {slot}" if report.repeated else f"{slot} is over already, and this brings no records"
        )
        return [f"{name}: {what}; nothing changed, the clock did not move"]
    would = " (dry run: nothing was changed)" if report.dry_run else ""
    text = [
        f"{name}: slot {report.slot} ({report.time}), version {report.version}{would}",
        f"  received {report.received:,} = {_fates(report)}",
        f"  expired {report.expired:,}, live {report.live:,}; touched {report.cells_touched} of at most {report.cells_bound} cells",
        f"  files +{report.files_added} −{report.files_removed}, {render.bytes_text(report.bytes_written)} written, {report.seconds:.2f} s",
    ]
    if report.repeated:
        text.append(f"  {_left_out(report)}")
    text += [f"  quarantined: {count:,} × {render.visible(reason)}" for reason, count in report.reasons.items()]
    if report.sealed_cells:
        text.append(
            f"  sealed {render.counted(report.sealed_cells, 'cell')} ({render.bytes_text(report.sealed_bytes)})"
        )
    return text + [f"  warning: {render.visible(warning)}" for warning in report.warnings]


def _left_out(report: Report) -> str:
    """Return which records were left out because they came before."""
    where = "" if report.repeated_of is None else f", at slot {report.repeated_of}"
    names = f": {', '.join(map(render.visible, report.repeated_files))}" if report.repeated_files else ""
    return f"left out {render.counted(report.repeated, 'record')} that came before{where}{names}"


def _fates(report: Report) -> str:
    fates = {
        "admitted": report.admitted,
        "expired on arrival": report.expired_on_arrival,
        "quarantined": report.quarantined,
    }
    return " + ".join(f"{fate} {count:,}" for fate, count in fates.items())


def run(
    ctx: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Apply what has arrived and stop, for cron.")] = False,
    table: Annotated[list[str] | None, typer.Option("--table", metavar="NAME", help="Only this table; may be given many times.")] = None,
    at: Annotated[str | None, typer.Option("--at", metavar="T", help="Take this for now: replays the past.")] = None,
    yes: Yes = False,
    allow_repeats: AllowRepeats = False,
    wait: Wait = None, dry_run: DryRun = False, json: Json = False, master: Master = None, conf: Conf = None,
) -> None:  # fmt: skip
    """Apply what has arrived in the landing folders, tick by tick, in order.

    A file belongs to the tick whose end its name starts with (2026-03-01T0900Z-x.csv; for tables with --label start, its
    start), or in which it was last modified. A file that cannot be read is set aside alone.
    """
    from ebb.index.errors import UsageError
    from ebb.maintenance.schedule import Round
    from ebb.maintenance.values import read_moment

    warehouse = state(ctx).open(master, conf)
    until = None if at is None else read_moment(at)
    once = once or dry_run
    failed: list[int] = []  # the exit codes of what failed in the last round
    with terminable():
        for event in warehouse.run(
            *(table or ()),
            until=until,
            once=once,
            yes=yes,
            allow_repeats=allow_repeats,
            wait=wait,
            dry_run=dry_run,
            progress=render.progress,
        ):
            if not isinstance(event, Round):
                if not json:
                    render.clear_progress()
                    _show_outcome(event)
                continue
            failed = [1 if o.cause is None else o.cause.exit_code for o in event.outcomes if o.error is not None]
            if once and not event.tables and not failed:
                msg = f"no table in {warehouse.root} has a landing folder; set one with ebb alter NAME --landing DIR"
                raise UsageError(msg)
            if json and (once or event.is_news):
                outcomes = [_outcome_object(outcome) for outcome in event.outcomes]
                render.json_object({"outcomes": outcomes, "failed": event.failed})
            elif once and not json and not event.outcomes:
                waiting = f"{render.counted(event.waiting, 'file')} wait" + ("s" * (event.waiting == 1))
                arrived = f"{waiting} for a tick that is not over" if event.waiting else "no files have arrived"
                render.lines([f"nothing to do: no tick is due, and {arrived}"])
            render.flush()
    if failed:
        raise typer.Exit(min(failed))


def _error_text(outcome: Outcome) -> str | None:
    return outcome.error if outcome.cause is None else error_text(outcome.cause, outcome.table)


def _outcome_object(outcome: Outcome) -> dict[str, Any]:
    known = asdict(replace(outcome, cause=None, error=_error_text(outcome)))
    return {name: value for name, value in known.items() if name != "cause"}


def _show_outcome(outcome: Outcome) -> None:
    report = outcome.report
    if report is None and outcome.error is None:
        render.lines([f"{outcome.table}, slot {outcome.slot}: would apply {render.counted(outcome.files, 'file')}"])
        return
    if report is None:
        kept = f"; set aside in {outcome.set_aside}, move it back when it fits" if outcome.set_aside else ""
        slot = "" if outcome.slot is None else f", slot {outcome.slot}"
        render.error(f"{outcome.table}{slot}: {_error_text(outcome)}{kept}")
        return
    if report.already_applied:
        render.lines(report_lines(outcome.table, report))
        return
    cells = (
        f"{outcome.table}  {report.time}",
        f"+{report.admitted:,}".rjust(8) + f" −{report.expired:,}".rjust(9) + f" = {report.live:,} live".rjust(15),
        f"{report.cells_touched}/{report.cells_bound} cells".rjust(11),
        f"{report.seconds:.2f} s".rjust(7),
        f"{report.expired_on_arrival:,} expired on arrival" if report.expired_on_arrival else "",
        f"{report.quarantined:,} quarantined" if report.quarantined else "",
        f"sealed {render.counted(report.sealed_cells, 'cell')}" if report.sealed_cells else "",
        _left_out(report) if report.repeated else "",
    )
    render.lines(["  ".join(cell for cell in cells if cell)])
    for warning in report.warnings:
        render.note(f"ebb: {outcome.table}, slot {outcome.slot}: warning: {render.visible(warning)}")
