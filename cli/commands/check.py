"""check, repair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ebb.cli.hints import finding_step
from ebb.cli.interrupts import guarded
from ebb.cli.options import DryRun, Json, Name, Wait, state
from ebb.cli.output import render

if TYPE_CHECKING:
    from ebb.maintenance.inspect.check import Checked
    from ebb.maintenance.inspect.findings import Finding

__all__ = ["check", "repair"]


def check(
    ctx: typer.Context,
    name: Name,
    deep: Annotated[
        bool, typer.Option("--deep", help="Look at every byte and every record, in the time of a few scans.")
    ] = False,
    json: Json = False,
) -> None:
    """Derive from disk alone whether everything is as it should be; exit with 1 if anything is not.

    Log, head record, ledger, data files, side files, key ranges, quarantine and landing folder are compared with each
    other. Nothing is changed, no lock is taken, and others may write meanwhile.
    """
    table = state(ctx).open().table(name)
    done = table.check(deep=deep, progress=render.progress)
    render.clear_progress()
    if json:
        render.json_object({**asdict(done), "is_sound": done.is_sound, "findings": _facts(name, done.findings)})
    else:
        render.lines([_summary(done), *_lines(name, done.findings)])
    _end(name, done.findings)


def repair(
    ctx: typer.Context,
    name: Name,
    confirm_restore: Annotated[
        bool, typer.Option("--confirm-restore", help="The log is whole as it is: write a lost head record again.")
    ] = False,
    wait: Wait = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Put in order what ebb check finds, as far as that needs no guess; exit with 1 if anything is left.

    Lost or damaged side files, key ranges and checkpoints are made again, files that no commit names are removed.
    """
    table = state(ctx).open().table(name)
    with guarded(table):
        done = table.repair(confirm_restore=confirm_restore, wait=wait, dry_run=dry_run)
    if json:
        told = {"fixed": _facts(name, done.fixed), "left": _facts(name, done.left)}
        render.json_object({**asdict(done), **told})
    else:
        would = "would be repaired" if dry_run else "repaired"
        count = render.counted(len(done.fixed), "finding")
        first = f"{name}: {count} {would}" if done.fixed else f"{name}: nothing to repair"
        fixed = [(found.code, found.where, found.fact) for found in done.fixed]
        rows = render.table_text(fixed, ("repaired", "where", "what"))[2:] if fixed else []
        left = ["left as it is:", *_lines(name, done.left)] if done.left else []
        render.lines([first, *(f"  {row}" for row in rows), *left, *map(render.visible, done.warnings)])
    _end(name, done.left)


def _summary(done: Checked) -> str:
    at = "it cannot be opened" if done.version is None else f"version {done.version}"
    what = f"{render.counted(done.files, 'file')}, {render.counted(done.records, 'record')}, {render.bytes_text(done.bytes)}"
    verdict = "sound" if done.is_sound else _counts(done.findings)
    how = "every byte and record" if done.deep else "log, footers and what lies beside them"
    return f"{done.name}: {at}, {what}: {verdict} ({how}, {done.seconds:.2f} s)"


def _counts(findings: Sequence[Finding]) -> str:
    counts = Counter(found.severity.value for found in findings)
    return " and ".join(render.counted(count, kind) for kind, count in sorted(counts.items()))


def _lines(name: str, findings: Sequence[Finding]) -> list[str]:
    """Return a line for each finding, aligned."""
    rows = [(f.severity.value, f.code, f.where, f"{f.fact}; {finding_step(f.code, f.step, name)}") for f in findings]
    return [f"  {row}" for row in render.table_text(rows, ("", "", "", ""))[2:]] if rows else []


def _facts(name: str, findings: Sequence[Finding]) -> list[dict[str, Any]]:
    return [
        {"code": f.code, "severity": f.severity.value, "where": f.where, "fact": f.fact, "step": finding_step(f.code, f.step, name)}
        for f in findings
    ]  # fmt: skip


def _end(name: str, findings: Sequence[Finding]) -> None:
    if findings:
        render.error(f"table {name} is not as it should be: {_counts(findings)}")
        raise typer.Exit(1)
