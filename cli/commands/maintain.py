"""adopt, seal, purge, erase."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from ebb.cli.interrupts import guarded
from ebb.cli.options import Conf, DryRun, Json, Master, Name, Wait, state
from ebb.cli.output import render

if TYPE_CHECKING:
    from ebb.maintenance.adopt import Adoption
    from ebb.maintenance.upkeep import Erasure, Upkeep

__all__ = ["adopt", "erase", "purge", "seal"]


def _show(
    name: str, done: Adoption | Upkeep | Erasure, text: str, *, warnings: Sequence[str] = (), json: bool, dry_run: bool
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
    text = (
        f"{render.counted(done.files_removed, 'file')} {became} {done.files_added}, cells touched: {done.cells_touched}"
    )
    if dry_run:
        return text
    return f"{text} ({render.bytes_text(done.bytes_written)}), version {done.version}, {done.seconds:.2f} s"


def _erased(done: Erasure, *, dry_run: bool) -> str:
    would = "would be erased" if dry_run else "erased"
    leased = f", {done.files_leased} kept for readers with a lease" if done.files_leased else ""
    text = f"{render.counted(done.files_erased, 'file')} {would} ({render.bytes_text(done.bytes_erased)}), {done.files_waiting} wait for readers{leased}"
    if done.leases_ended:
        text += f"; {render.counted(done.leases_ended, 'lease')} {'would be' if dry_run else 'was'} ended"
    if done.quarantine_files_erased:
        text += f"; {render.counted(done.quarantine_files_erased, 'file')} of the quarantine {would}"
    from_backups = done.backup_files_erased
    return f"{text}; {render.counted(from_backups, 'file')} erased from backups" if from_backups else text


def _adopted(done: Adoption, *, dry_run: bool) -> str:
    if not done.commits and done.restored_version is not None:
        goes = "would go" if dry_run else "goes"
        return f"it {goes} on in place of the table that version {done.restored_version} of the backup was made of"
    if not done.commits and done.confirmed is None:
        return "nothing to adopt: every commit is Ebb's own"
    what = ", ".join(f"{commit.operation} in version {commit.version}" for commit in done.commits)
    what = f"{render.counted(len(done.commits), 'commit')} {{}} ({what})" if done.commits else "the log {} as it is"
    text = what.format("would be adopted" if dry_run else "adopted")
    if done.lost_versions:
        text += f", {render.counted(done.lost_versions, 'lost commit')} given up"
    text += f"; live {done.live_before:,} → {render.counted(done.live, 'record')}"
    became = (
        f"{render.counted(done.files_removed, 'file')} {'would become' if dry_run else 'became'} {done.files_added}"
    )
    text += f"; {became}" if done.files_removed else "; no file had to be rewritten"
    return text if dry_run else f"{text}, version {done.version}, {done.seconds:.2f} s"


def adopt(
    ctx: typer.Context,
    name: Name,
    yes: Annotated[
        bool, typer.Option("--yes", help="Accept also a log that lacks commits, or that nothing vouches for.")
    ] = False,
    wait: Wait = None,
    dry_run: DryRun = False,
    json: Json = False,
    master: Master = None,
    conf: Conf = None,
) -> None:
    """Accept what another tool did to a table, or that a restored one goes on; until then nothing is written.

    Every live file must be there, and every record that another tool wrote must have its key, its times and the right
    slots and cell. Files that Ebb did not write are written again. What does not fit is refused: restore the table then.
    A log that was rolled back is accepted with --yes: the clock does not go back, and followers start again.
    """
    table = state(ctx).open(master, conf).table(name)
    with guarded(table):
        done = table.adopt(yes=yes, wait=wait, dry_run=dry_run, progress=render.progress)
    _show(name, done, _adopted(done, dry_run=dry_run), warnings=done.warnings, json=json, dry_run=dry_run)


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
    """Rewrite the files that hold expired records, without those records."""
    table = state(ctx).open(master, conf).table(name)
    with guarded(table):
        done = table.purge(wait=wait, dry_run=dry_run)
    _show(name, done, _rewritten(done, dry_run=dry_run), warnings=done.warnings, json=json, dry_run=dry_run)


def erase(ctx: typer.Context, name: Name, wait: Wait = None, dry_run: DryRun = False, json: Json = False) -> None:
    """Delete from disk the removed files whose grace period is over and that no reader has a lease on.

    A lease that would keep files beyond the deletion bound is ended. It frees files that updates, seals and purges have
    removed from the table already. It is no erasure request for somebody's records: for that there is ebb forget.
    """
    table = state(ctx).open().table(name)
    with guarded(table):
        done = table.erase(wait=wait, dry_run=dry_run)
    _show(name, done, _erased(done, dry_run=dry_run), warnings=done.warnings, json=json, dry_run=dry_run)
