"""seal, purge, erase."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from ebb.cli.interrupts import guarded
from ebb.cli.options import Conf, DryRun, Json, Master, Name, Wait, state
from ebb.cli.output import render

if TYPE_CHECKING:
    from ebb.maintenance.upkeep import Erasure, Upkeep

__all__ = ["erase", "purge", "seal"]


def _show(
    name: str, done: Upkeep | Erasure, text: str, *, warnings: Sequence[str] = (), json: bool, dry_run: bool
) -> None:
    render.clear_progress()
    if json:
        render.json_object({"name": name, **asdict(done), "dry_run": dry_run})
        return
    would = " (dry run: nothing was changed)" if dry_run else ""
    render.lines([f"{name}: {text}{would}", *(f"  warning: {render.visible(warning)}" for warning in warnings)])


def _rewritten(done: Upkeep, *, dry_run: bool) -> str:
    if not done.files_removed:
        return f"nothing to {done.op}"
    became = "would become" if dry_run else "became"
    text = f"{_files(done.files_removed)} {became} {done.files_added}, cells touched: {done.cells_touched}"
    if dry_run:
        return text
    return f"{text} ({render.bytes_text(done.bytes_written)}), version {done.version}, {done.seconds:.2f} s"


def _erased(done: Erasure, *, dry_run: bool) -> str:
    erased = f"{_files(done.files_erased)} {'would be erased' if dry_run else 'erased'}"
    return f"{erased} ({render.bytes_text(done.bytes_erased)}), {done.files_waiting} wait for readers"


def _files(count: int) -> str:
    return f"{count} file{'s' * (count != 1)}"


def seal(
    ctx: typer.Context, name: Name, wait: Wait = None, dry_run: DryRun = False, json: Json = False,
    master: Master = None, conf: Conf = None,
) -> None:  # fmt: skip
    """Merge the files of each completed group into one sorted run per cell."""
    table = state(ctx).open(master, conf).table(name)
    with guarded(table):
        done = table.seal(wait=wait, dry_run=dry_run)
    _show(name, done, _rewritten(done, dry_run=dry_run), warnings=done.warnings, json=json, dry_run=dry_run)


def purge(
    ctx: typer.Context, name: Name, wait: Wait = None, dry_run: DryRun = False, json: Json = False,
    master: Master = None, conf: Conf = None,
) -> None:  # fmt: skip
    """Rewrite every file that holds expired records, without them."""
    table = state(ctx).open(master, conf).table(name)
    with guarded(table):
        done = table.purge(wait=wait, dry_run=dry_run)
    _show(name, done, _rewritten(done, dry_run=dry_run), warnings=done.warnings, json=json, dry_run=dry_run)


def erase(ctx: typer.Context, name: Name, wait: Wait = None, dry_run: DryRun = False, json: Json = False) -> None:
    """Delete from disk the files that no version within the grace period of readers names."""
    table = state(ctx).open().table(name)
    with guarded(table):
        done = table.erase(wait=wait, dry_run=dry_run)
    _show(name, done, _erased(done, dry_run=dry_run), json=json, dry_run=dry_run)
