"""evidence, metrics."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ebb.cli.options import Json, state
from ebb.cli.output import render
from ebb.cli.output.page import evidence_lines, page, read_written
from ebb.cli.output.prometheus import exposition
from ebb.cli.output.records import read_bytes, write_bytes
from ebb.index.errors import CorruptionError, InputError, UnknownTableError, UsageError

if TYPE_CHECKING:
    from ebb.maintenance.api.warehouse import Warehouse
    from ebb.maintenance.inspect.proof import Evidence, Verified

__all__ = ["evidence", "metrics"]


class Form(StrEnum):
    """How a report is written."""

    json = "json"
    html = "html"
    text = "text"


_SUFFIXES = {".json": Form.json, ".html": Form.html, ".htm": Form.html}


def evidence(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The table; with --verify that of the report.", show_default=False)
    ] = None,
    since: Annotated[
        str | None, typer.Option("--from", metavar="T", help="Only ticks that end after T; from the first by default.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", metavar="T", help="Only ticks that end at T or before; all by default.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the report to a file: .json, or .html for people.")
    ] = None,
    form: Annotated[Form | None, typer.Option("--format", help="How; by the name of the file, or text.", show_default=False)] = None,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 unless the bound was kept and nothing is missing.")] = False,
    verify: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Verify a report: by itself and, if its table is there, against the journal and the log."),
    ] = None,
    json: Json = False,
) -> None:  # fmt: skip
    """Report what expired when, when its bytes were erased and who asked, with the proof; or verify such a report."""
    warehouse = state(ctx).open()
    if verify is not None:
        if since or until or output or form:
            msg = "--verify takes a report as it is; pass it alone"
            raise UsageError(msg)
        found = _verified(warehouse, verify, name)
        if json:
            render.json_object(asdict(found))
        else:
            render.lines([render.visible(line) for line in _verified_lines(found, verify)])
        _judge(found.name, kept=found.kept, complete=found.complete, check=check)
        return
    if name is None:
        msg = "evidence needs the name of a table, or a report with --verify"
        raise UsageError(msg)
    report = warehouse.table(name).evidence(since, until)
    form = Form.json if json else form or _form_of(output)
    data = {Form.json: lambda: report.json, Form.html: lambda: page(report), Form.text: lambda: _text(report)}[form]()
    write_bytes(data, output)
    if output is not None and not json:
        render.lines(
            [
                f"evidence of {name} written to {render.visible(output)}: {_verdict(report)}",
                f"  hash {report.hash}",
                f"  journal's head {report.chain.head}, note it elsewhere",
            ]
        )
    _judge(name, kept=report.findings.kept, complete=report.findings.complete, check=check)


def _form_of(output: Path | None) -> Form:
    if output is None:
        return Form.text
    return _SUFFIXES.get(output.suffix.lower(), Form.text)


def _text(report: Evidence) -> bytes:
    return "".join(f"{line}\n" for line in evidence_lines(report)).encode()


def _verdict(report: Evidence) -> str:
    kept = "bound kept" if report.findings.kept else "bound BROKEN"
    return kept if report.findings.complete else f"{kept}, as far as the journal can tell"


def _judge(name: str, *, kept: bool, complete: bool, check: bool) -> None:
    """End with 1 if that is asked for and a promise was broken, or cannot be shown to be kept."""
    if not check or (kept and complete):
        return
    problem = "cannot be shown to be kept: something is missing" if kept else "was broken"
    render.error(f"a promise of table {name} {problem}; see the report")
    raise typer.Exit(1)


def _verified(warehouse: Warehouse, file: Path, name: str | None) -> Verified:
    """Verify a report as far as it can be."""
    from ebb.maintenance.inspect.proof import agrees, verified

    data = read_bytes(file)
    try:
        report = read_written(data)
        if name is not None and name != report.given.name:
            msg = f"{file} is about table {report.given.name}, not {name}"
            raise UsageError(msg)
        try:
            table = warehouse.table(report.given.name)
        except (UnknownTableError, InputError):
            return verified(report)
        return agrees(report, table.table.snapshot())
    except CorruptionError as error:
        raise CorruptionError(f"{file}: {error.args[0]}", *error.args[1:]) from error


def _verified_lines(found: Verified, file: Path) -> list[str]:
    """Tell what was verified, and what was not."""
    kept = "kept" if found.kept else "BROKEN"
    text = [
        f"{file} is as it was written: table {found.name}, made {found.made}, {render.counted(found.lines, 'commit line')}",
        f"  deletion bound {kept}" + ("" if found.complete else ", as far as the journal could tell"),
        f"  hash {found.hash}",
    ]
    if found.compared_lines is None:
        return [*text, "  its table is not here: the journal and the log were not compared; try --warehouse"]
    text.append(
        f"  the journal has {found.compared_lines:,} of its lines, "
        f"the log {found.compared_entries or 0:,} of their entries: all agree"
    )
    if found.dropped_lines:
        text.append(f"  {render.counted(found.dropped_lines, 'line')} left the journal when their retention was over")
    return text


def metrics(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Tables; all of them by default.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write to a file, whole and at once, for node_exporter's textfile collector: FILE.prom."),
    ] = None,
) -> None:  # fmt: skip
    """Print how tables stand as metrics for Prometheus."""
    if output is not None and output.suffix != ".prom":
        msg = f"the textfile collector reads files whose names end in .prom, and not {output}; rename it"
        raise UsageError(msg)
    found = state(ctx).open().metrics(*(names or ()))
    # Names of tables and numbers, no values: the collector is another user.
    write_bytes(exposition(found).encode(), output, mode=0o644)
