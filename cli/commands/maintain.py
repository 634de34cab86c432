"""seal, purge, erase."""

from __future__ import annotations

from typing import Any

import typer

from ebb.cli.interrupts import guarded
from ebb.cli.options import Conf, DryRun, Json, Master, Name, Wait, seconds, state
from ebb.cli.output import render

__all__ = ["erase", "purge", "seal"]


def _show(name: str, told: dict[str, Any], *, json: bool, dry_run: bool) -> None:
    render.clear_progress()
    if json:
        render.json_object({"name": name, **told, "dry_run": dry_run})
        return
    would = " (dry run: nothing was changed)" if dry_run else ""
    if told["op"] == "erase":
        erased = f"{_files(told['files_erased'])} {'would be erased' if dry_run else 'erased'}"
        text = f"{erased} ({render.bytes_text(told['bytes_erased'])}), {told['files_waiting']} wait for readers"
    elif not told["files_removed"]:
        text = f"nothing to {told['op']}"
    else:
        became = "would become" if dry_run else "became"
        text = f"{_files(told['files_removed'])} {became} {told['files_added']}, cells touched: {told['cells_touched']}"
        if not dry_run:
            text += f" ({render.bytes_text(told['bytes_written'])}), version {told['version']}, {told['seconds']:.2f} s"
    warnings = [f"  warning: {render.visible(warning)}" for warning in told.get("warnings", ())]
    render.lines([f"{name}: {text}{would}", *warnings])


def _files(count: int) -> str:
    return f"{count} file{'s' * (count != 1)}"


def seal(
    ctx: typer.Context, name: Name, wait: Wait = None, dry_run: DryRun = False, json: Json = False,
    master: Master = None, conf: Conf = None,
) -> None:  # fmt: skip
    """Merge the files of each completed group into one sorted run per cell."""
    table = state(ctx).open(master, conf).table(name)
    with guarded(table):
        _show(name, table.seal(wait=seconds(wait), dry_run=dry_run), json=json, dry_run=dry_run)


def purge(
    ctx: typer.Context, name: Name, wait: Wait = None, dry_run: DryRun = False, json: Json = False,
    master: Master = None, conf: Conf = None,
) -> None:  # fmt: skip
    """Rewrite every file that holds expired records, without them."""
    table = state(ctx).open(master, conf).table(name)
    with guarded(table):
        _show(name, table.purge(wait=seconds(wait), dry_run=dry_run), json=json, dry_run=dry_run)


def erase(ctx: typer.Context, name: Name, wait: Wait = None, dry_run: DryRun = False, json: Json = False) -> None:
    """Delete from disk the files that no version within the readers' time names."""
    table = state(ctx).open().table(name)
    with guarded(table):
        _show(name, table.erase(wait=seconds(wait), dry_run=dry_run), json=json, dry_run=dry_run)
