"""amend, forget, hold, release, held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ebb.cli.commands.read import Columns, Form, Guard, Output, read_lines, split_columns
from ebb.cli.interrupts import guarded
from ebb.cli.options import DryRun, Json, Limit, Name, Wait, Yes, state
from ebb.cli.output import render
from ebb.cli.output.records import format_of, limited, write_records
from ebb.index.errors import UsageError

if TYPE_CHECKING:
    from ebb.maintenance.amend import Amended
    from ebb.maintenance.api.table import OpenTable
    from ebb.maintenance.forget import Forgotten
    from ebb.maintenance.holds import HeldCase, Holding

__all__ = ["amend", "forget", "held", "hold", "release"]

Keys = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY",
        help="Keys; parts of a composite key joined by commas, leading parts alone are enough.",
        show_default=False,
    ),
]
KeysFrom = Annotated[
    Path | None,
    typer.Option(
        "--keys-from",
        metavar="FILE",
        help="Read keys from a file, one per line; - for standard input, so that no key is in the list of processes.",
    ),
]
Where = Annotated[
    str | None,
    typer.Option("--where", metavar="EXPR", help="Records for which this holds; conditions are those of ebb scan."),
]
Case = Annotated[
    str | None, typer.Option("--case", metavar="ID", help="Under which case; the log keeps it, so no key in it.")
]
Actor = Annotated[
    str | None, typer.Option("--actor", metavar="WHO", help="Who asked; the user of this process by default.")
]


def keys_of(table: OpenTable, keys: list[str] | None, keys_from: Path | None) -> list[Any]:
    """Return the keys of a command as values."""
    from ebb.maintenance.reading import read_keys

    texts = [*(keys or ()), *(() if keys_from is None else read_lines(keys_from))]
    return read_keys(table.table.snapshot().spec, texts)


def forget(
    ctx: typer.Context, name: Name, key: Keys = None, keys_from: KeysFrom = None, where: Where = None,
    within: Annotated[str | None, typer.Option("--within", metavar="D", help="How long their bytes may stay on disk, 0 for not at all; the grace period and a tick by default.")] = None,
    case: Case = None, actor: Actor = None, yes: Yes = False, wait: Wait = None, dry_run: DryRun = False, json: Json = False,
) -> None:  # fmt: skip
    """Remove records now, and their bytes within a time: an erasure request.

    They also leave the quarantine, and files in the landing folder that hold them are deleted. Nothing of them stays in the
    log but how many there were, who asked, and a salted hash of what was asked. With --within less than the grace period,
    reads that are running may meet an erased file and fail; they never return a short answer.
    """
    table = state(ctx).open().table(name)
    with guarded(table):
        done = table.forget(
            *keys_of(table, key, keys_from),
            where=where,
            within=within,
            case=case,
            actor=actor,
            yes=yes,
            wait=wait,
            dry_run=dry_run,
            progress=render.progress,
        )
    render.clear_progress()
    if json:
        render.json_object(asdict(done))
    else:
        render.lines([*_forgotten(done), *(f"  warning: {render.visible(warning)}" for warning in done.warnings)])


def _forgotten(done: Forgotten) -> list[str]:
    """Tell what was forgotten."""
    if done.is_nothing:
        return [f"{done.name}: nothing to forget: no record was found"]
    would = "would be " if done.dry_run else ""
    hidden = done.expired_records + done.removed_records
    expired = f", {render.counted(hidden, 'expired or removed record')}" if hidden else ""
    text = [f"{done.name}: {render.counted(done.records, 'live record')}{expired} {would}forgotten"]
    if done.is_committed:
        text[0] += f", version {done.version}, {done.seconds:.2f} s"
    became = f"{render.counted(done.files_removed, 'file')} {'would become' if done.dry_run else 'became'} {done.files_added}"
    if done.files_removed:
        written = f" ({render.bytes_text(done.bytes_written)})" if done.is_committed else ""
        text.append(f"  {became}{written}, cells touched: {done.cells_touched}")
    if done.quarantined_records:
        text.append(f"  {render.counted(done.quarantined_records, 'record')} of the quarantine {would}removed")
    if done.landed_files:
        files = ", ".join(map(render.visible, done.landed_files))
        text.append(f"  {render.counted(len(done.landed_files), 'file')} of the landing folder {would}deleted: {files}")
    if done.erased_files:
        text.append(f"  {render.counted(done.erased_files, 'file')} erased from the disk")
    elif done.erase_by:
        text.append(
            f"  their bytes are on disk until {done.erase_by} at the latest: updates erase them, or ebb erase {done.name}"
        )
    return [*text, *(["(dry run: nothing was changed)"] if done.dry_run else [])]


def amend(
    ctx: typer.Context, name: Name,
    expires: Annotated[str, typer.Option("--expires", metavar="T", help="When the records expire from now on.")],
    key: Keys = None, keys_from: KeysFrom = None, where: Where = None,
    case: Case = None, actor: Actor = None, yes: Yes = False, wait: Wait = None, dry_run: DryRun = False, json: Json = False,
) -> None:  # fmt: skip
    """Shorten or prolong the lives of records: from now on they expire at another time.

    It must be after the clock, and at most a span after each of them was inserted. What has expired is not brought back; to
    remove records at once, there is ebb forget.
    """
    table = state(ctx).open().table(name)
    with guarded(table):
        done = table.amend(
            *keys_of(table, key, keys_from),
            expires=expires,
            where=where,
            case=case,
            actor=actor,
            yes=yes,
            wait=wait,
            dry_run=dry_run,
            progress=render.progress,
        )
    render.clear_progress()
    if json:
        render.json_object(asdict(done))
    else:
        render.lines([*_amended(done), *(f"  warning: {render.visible(warning)}" for warning in done.warnings)])


def _amended(done: Amended) -> list[str]:
    """Tell what was amended."""
    if not done.records:
        return [f"{done.name}: nothing to amend: no live record was found that expires at another time"]
    verb = "would expire" if done.dry_run else "expire"
    text = [f"{done.name}: {render.counted(done.records, 'record')} {verb} at {done.expires} (slot {done.to_slot})"]
    if done.is_committed:
        text[0] += f", version {done.version}, {done.seconds:.2f} s"
    became = f"{render.counted(done.files_removed, 'file')} {'would become' if done.dry_run else 'became'} {done.files_added}"
    written = f" ({render.bytes_text(done.bytes_written)})" if done.is_committed else ""
    text.append(
        f"  {became}{written}, cells touched: {done.cells_touched}; {done.shortened:,} of them sooner than before"
    )
    return [*text, *(["(dry run: nothing was changed)"] if done.dry_run else [])]


HoldCase = Annotated[
    str, typer.Option("--case", metavar="ID", help="The case that holds them; the log keeps it, so no key in it.")
]


def hold(
    ctx: typer.Context, name: Name, case: HoldCase, key: Keys = None, keys_from: KeysFrom = None, where: Where = None,
    everything: Annotated[bool, typer.Option("--all", help="Hold all records.")] = False,
    arrivals: Annotated[bool | None, typer.Option("--arrivals/--no-arrivals", help="Whether records that arrive later are held too; to be said of --where and --all.", show_default=False)] = None,
    actor: Actor = None, wait: Wait = None, dry_run: DryRun = False, json: Json = False,
) -> None:  # fmt: skip
    """Keep records on disk although they expire, until the case is released.

    Reads hide them when they expire, as ever; ebb held shows them. They can be neither amended nor forgotten. What has
    expired already is not held. An older Ebb can read the table from then on, and not write to it.
    """
    table = state(ctx).open().table(name)
    with guarded(table):
        done = table.hold(
            *keys_of(table, key, keys_from),
            case=case,
            where=where,
            everything=everything,
            arrivals=arrivals,
            actor=actor,
            wait=wait,
            dry_run=dry_run,
            progress=render.progress,
        )
    _show_holding(done, _held(done), json=json)


def release(
    ctx: typer.Context, name: Name, case: HoldCase, actor: Actor = None, wait: Wait = None, dry_run: DryRun = False, json: Json = False,
) -> None:  # fmt: skip
    """End a hold: what no other case holds and has expired leaves the table, and the disk within the deletion bound."""
    table = state(ctx).open().table(name)
    with guarded(table):
        done = table.release(case, actor=actor, wait=wait, dry_run=dry_run)
    would = "would be " if done.dry_run else ""
    text = f"case {done.case} {would}released: {render.counted(done.records, 'record')} held no longer, {done.expired:,} of them expired"
    _show_holding(done, text, json=json)


def _held(done: Holding) -> str:
    what = render.counted(done.records, "record")
    later = ", and those that arrive later" if done.arrivals else ""
    if done.dry_run:
        return f"case {done.case} would hold {what}{later}"
    if done.is_committed:
        return f"case {done.case} holds {what}{later}"
    return f"case {done.case}: nothing to hold, or it is held already"


def _show_holding(done: Holding, text: str, *, json: bool) -> None:
    render.clear_progress()
    if json:
        render.json_object(asdict(done))
        return
    version = f", version {done.version}" if done.is_committed else ""
    would = " (dry run: nothing was changed)" if done.dry_run else ""
    warnings = (f"  warning: {render.visible(warning)}" for warning in done.warnings)
    render.lines([render.visible(f"{done.name}: {text}{version}{would}"), *warnings])


def held(
    ctx: typer.Context, name: Name,
    case: Annotated[str | None, typer.Option("--case", metavar="ID", help="Show the records that this case holds.")] = None,
    columns: Columns = None, limit: Limit = None, form: Form = None, output: Output = None, guard_formulas: Guard = False,
    json: Json = False,
) -> None:  # fmt: skip
    """Show which cases hold records, or with --case the records themselves, whether they have expired or not."""
    table = state(ctx).open().table(name)
    if case is None:
        cases = table.holds()
        if json:
            render.json_object({"name": name, "cases": [asdict(each) for each in cases]})
        else:
            render.lines(_case_lines(name, cases))
        return
    if json:
        msg = "--json is for the list of cases; records come as JSON with --format jsonl"
        raise UsageError(msg)
    found = table.held(case, split_columns(columns))
    form = form or format_of(output)
    write_records(limited(found, limit), found.schema, form=form, output=output, guard_formulas=guard_formulas)


def _case_lines(name: str, cases: Sequence[HeldCase]) -> list[str]:
    if not cases:
        return [f"nothing is held in {name}"]
    rows = [
        (
            each.case, each.by, each.time, each.where or (render.counted(each.keys, "key") if each.keys else "all"),
            "also" if each.arrivals else "", f"{each.live:,}", f"{each.expired:,}",
        )
        for each in cases
    ]  # fmt: skip
    return render.table_text(rows, ("case", "by", "since", "what", "later ones", "live", "expired"), right=(5, 6))
