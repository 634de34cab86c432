"""backup, restore."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from ebb.cli.interrupts import guarded, terminable
from ebb.cli.options import DryRun, Json, Name, Wait, state
from ebb.cli.output import render
from ebb.index.errors import UsageError

if TYPE_CHECKING:
    from ebb.maintenance.backup import Backup
    from ebb.maintenance.restore import Restoration

__all__ = ["backup", "restore"]

Folder = Annotated[
    str, typer.Argument(metavar="DIR", help="The folder that holds backups, one per table.", show_default=False)
]


def _backed_up(done: Backup, *, dry_run: bool) -> list[str]:
    would = " (dry run: nothing was changed)" if dry_run else ""
    at = "not loaded yet" if done.time is None else f"at {done.time}"
    copied = f"{render.counted(done.files_copied, 'file')} {'would be copied' if dry_run else 'copied'}"
    lines = [
        f"{done.name}: version {done.version}, {at}, {render.counted(done.records, 'record')} → {done.place}{would}",
        f"  {copied} ({render.bytes_text(done.bytes_copied)}) of {done.files:,} ({render.bytes_text(done.bytes)})"
        + (f", {done.files_dropped} dropped" if done.files_dropped else "")
        + ("" if dry_run else f", {'all' if done.verified else 'these'} read back, {done.seconds:.2f} s"),
    ]
    if done.repaired:
        lines.append(f"  {render.counted(len(done.repaired), 'damaged copy')} made anew: {', '.join(done.repaired)}")
    return lines


def backup(
    ctx: typer.Context,
    name: Name,
    folder: Folder,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Read back the whole backup, not only what is new; damaged copies are made anew."),
    ] = False,
    stop_managing: Annotated[
        bool,
        typer.Option("--stop-managing", help="Back up nothing; look after this backup no more. What is there stays."),
    ] = False,
    wait: Wait = None, dry_run: DryRun = False, json: Json = False,
) -> None:  # fmt: skip
    """Copy a table into DIR/NAME: its newest version, while others go on writing. Only what is new is copied.

    Ebb looks after it from then on: what expires in the table leaves the backup within the same deletion bound.
    """
    table = state(ctx).open().table(name)
    if stop_managing:
        if verify or dry_run:
            msg = "--stop-managing goes with no other option but --wait and --json"
            raise UsageError(msg)
        was_known = table.stop_managing(folder, wait=wait)
        if json:
            render.json_object({"name": name, "folder": folder, "was_managed": was_known})
        else:
            stays = (
                "nothing is erased there any more, and what is there stays" if was_known else "it was not looked after"
            )
            render.lines([f"{name}: {render.visible(folder)}: {stays}"])
        return
    with guarded(table):
        done = table.backup(folder, verify=verify, wait=wait, dry_run=dry_run, progress=render.progress)
    render.clear_progress()
    if json:
        render.json_object({**asdict(done), "dry_run": dry_run})
    else:
        render.lines([render.visible(line) for line in _backed_up(done, dry_run=dry_run)])


def _restored(done: Restoration, *, dry_run: bool) -> list[str]:
    taken = datetime.fromtimestamp(done.taken_ms / 1000, tz=UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    at = "not loaded yet" if done.time is None else f"at {done.time}"
    what = f"{render.counted(done.files, 'file')}, {render.bytes_text(done.bytes)}"
    if dry_run:
        head = f"{done.name}: {what} would be restored, every byte of them is as it was written (dry run: nothing was changed)"
    else:
        head = f"{done.name}: {render.counted(done.records or 0, 'record')} restored in {what}, {done.seconds:.2f} s"
    lines = [head, f"  version {done.version}, {at}, backed up {taken}"]
    if done.expired:
        lines.append(f"  {render.counted(done.expired, 'record')} expired since and did not come back")
    if done.landing_left:
        lines.append(f"  without a landing folder: {done.landing_left} stays the original's")
    if not done.is_confirmed:
        lines.append(f"  nothing is written to it before ebb adopt {done.name}: the original may be alive")
    return [*lines, *(f"  warning: {warning}" for warning in done.warnings)]


def restore(
    ctx: typer.Context,
    folder: Folder,
    name: Name,
    new_name: Annotated[
        str | None,
        typer.Option("--as", metavar="NEW", help="Give it another name; it is a table of its own then, without a landing folder."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="T", help="Leave out what has expired at T (default: now; for integers, the clock of the backup)."),
    ] = None,
    dry_run: DryRun = False, json: Json = False,
) -> None:  # fmt: skip
    """Bring a table back from DIR/NAME, every byte checked, without what has expired since.

    The table must not exist. Under its own name nothing is written to it before ebb adopt: the original may be alive.
    """
    warehouse = state(ctx).open()
    with terminable():
        done = warehouse.restore(folder, name, new_name=new_name, at=at, dry_run=dry_run, progress=render.progress)
    render.clear_progress()
    if json:
        render.json_object({**asdict(done), "dry_run": dry_run})
    else:
        render.lines([render.visible(line) for line in _restored(done, dry_run=dry_run)])
