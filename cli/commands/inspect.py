"""status, history, explain, quarantine."""

from __future__ import annotations

import json as json_module
from collections import Counter
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from ebb.cli.options import Json, Name, state
from ebb.cli.output import render
from ebb.cli.output.records import write_lines
from ebb.index.errors import WarehouseError

__all__ = ["explain", "history", "quarantine", "status"]


class Measure(str, Enum):
    """What the heat map shows."""

    records = "records"
    bytes = "bytes"
    files = "files"


def status(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The table; all of them unless given.", show_default=False)
    ] = None,
    show: Annotated[Measure, typer.Option(help="What the heat map shows.")] = Measure.records,
    json: Json = False,
) -> None:
    """Show where tables stand: clock, size, cells, deletion bound."""
    warehouse = state(ctx).open()
    if name is not None:
        told = warehouse.table(name).status()
        if json:
            render.json_object(told)
        else:
            render.lines(_status_lines(told, show.value))
        return
    tables, broken = [], {}
    for table in warehouse.tables():
        try:
            tables.append(table.status())
        except WarehouseError as error:  # the others can be shown
            broken[table.name] = str(error)
    if json:
        errors = [{"name": table, "error": text} for table, text in broken.items()]
        render.json_object({"warehouse": str(warehouse.root), "tables": [*tables, *errors]})
    else:
        _show_tables(warehouse.root, tables, is_empty=not tables and not broken)
    for text in broken.values():
        render.error(text)
    if broken:
        raise typer.Exit(1)


def _show_tables(root: Path, tables: list[dict[str, Any]], *, is_empty: bool) -> None:
    if is_empty:
        render.lines([f"no tables in {root}; create one with ebb create, see ebb create --help"])
        return
    rows = [
        (
            t["name"], t["clock_time"] or "not loaded", _behind(t), f"{t['live_records']:,}", t["files"],
            render.bytes_text(t["bytes"]), t["grid"], t["strategy"], "kept" if t["deletion_bound_kept"] else "BROKEN",
        )
        for t in tables
    ]  # fmt: skip
    header = ("table", "clock", "behind", "live", "files", "size", "grid", "strategy", "bound")
    render.lines(render.table_text(rows, header, right=(3, 4, 5)))


def _behind(told: dict[str, Any]) -> str:
    ticks = told["ticks_behind"]
    return "" if ticks is None else "on time" if ticks == 0 else f"{ticks:,} ticks behind"


def _status_lines(told: dict[str, Any], measure: str) -> list[str]:
    last = told["last_update"]
    hidden = told["stored_records"] - told["live_records"]
    age = told["oldest_expired_age"]
    values = {
        "table": f"{told['name']} in {told['folder']}",
        "key, times": f"{', '.join(told['key'])}; {told['inserted']} → {told['expires']}",
        "tick, span": f"{told['tick']}, {told['span']} = {told['ticks_per_span']} ticks",
        "grid": f"{told['grid']}, runs {told['policy']}, strategy {told['strategy']}",
        "clock": "not loaded yet"
        if told["clock"] is None
        else f"{told['clock_time']} (slot {told['clock']})" + (f", {_behind(told)}" if _behind(told) else ""),
        "live": f"{told['live_records']:,} records in {told['files']} files, {render.bytes_text(told['bytes'])}"
        + (f"; {hidden:,} expired ones hidden" if hidden else ""),
        "deletion": f"bound {told['deletion_bound']}; "
        + (
            f"oldest expired byte on disk for {age}: {'kept' if told['deletion_bound_kept'] else 'BROKEN'}"
            if age
            else "nothing expired on disk: kept"
        )
        + (
            f"; removed files that wait for readers: {told['files_waiting_for_erase']}"
            if told["files_waiting_for_erase"]
            else ""
        ),
        "landing": told["landing"] or "none",
    }
    if last is not None:
        values["last update"] = (
            f"{last['time']}: +{last['admitted']:,} −{last['expired']:,}, {last['cells_touched']} of at most "
            f"{last['cells_bound']} cells, {last['seconds']:.2f} s"
        )
    return [*render.pairs(values), "", *render.heat_map(told, measure)]


def history(
    ctx: typer.Context,
    name: Name,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many commits.")] = None,
    json: Json = False,
) -> None:
    """List the commits of a table, newest first, as the Delta log tells them."""
    rows = state(ctx).open().table(name).history(limit)
    if json:
        render.json_object({"name": name, "commits": rows})
        return

    def number(row: dict[str, Any], field: str) -> str:
        return f"{row[field]:,}" if field in row else ""

    text = [
        (
            r["version"], r["committed"], r["op"], r.get("time", ""), number(r, "admitted"), number(r, "expired"),
            f"{r['cells_touched']}/{r['cells_bound']}" if "cells_bound" in r else str(r.get("cells_touched", "")),
            f"+{r['files_added']} −{r['files_removed']}", render.bytes_text(r["bytes_written"]),
            f"{r['seconds']:.2f}" if "seconds" in r else "",
        )
        for r in rows
    ]  # fmt: skip
    header = ("version", "committed", "op", "slot time", "admitted", "expired", "cells", "files", "written", "seconds")
    render.lines(render.table_text(text, header, right=(0, 4, 5, 6, 7, 8, 9)))


def explain(
    ctx: typer.Context,
    name: Name,
    sql: Annotated[bool, typer.Option("--sql", help="Print the query that shows the window to other engines.")] = False,
    json: Json = False,
) -> None:
    """Show the plan of the next update, or how other engines see the window."""
    from ebb.maintenance.inspect.explain import explain as plan_of
    from ebb.warehouse.sql.spark import window_sql

    warehouse = state(ctx).open()
    snapshot = warehouse.table(name).table.snapshot()
    if sql:
        query = window_sql(snapshot)
        if json:
            render.json_object({"name": name, "sql": query})
        else:
            render.lines([render.visible(query)])
        return
    told = plan_of(snapshot, warehouse.now())
    if json:
        render.json_object(told)
    else:
        render.lines([told["words"][0], *(f"  {line}" for line in told["words"][1:])])


def quarantine(
    ctx: typer.Context,
    name: Name,
    limit: Annotated[int, typer.Option(min=0, help="Show at most so many records.")] = 20,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only records whose reason holds this text.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Hand the records out for repair, as JSON lines or raw text lines."),
    ] = None,
    json: Json = False,
) -> None:
    """Show refused records with their reasons, or hand them out for repair."""
    from ebb.warehouse.intake.quarantine import read_refused

    table = state(ctx).open().table(name).table
    snapshot = table.snapshot()
    line, clock = snapshot.spec.timeline, snapshot.ledger.clock
    refused = [
        r
        for r in read_refused(table)
        if clock is not None and r.slot <= clock and (reason is None or reason in r.reason)
    ]
    reasons = Counter(r.reason for r in refused)
    if output is not None:
        write_lines([r.record for r in refused], output)
    if json:
        records = [
            {"slot": r.slot, "time": line.show_slot(r.slot), "reason": r.reason, "record": _parsed(r.record)}
            for r in refused[:limit]
        ]
        render.json_object({"name": name, "quarantined": len(refused), "reasons": dict(reasons), "records": records})
        return
    if not refused:
        render.lines([f"the quarantine of {name} is empty"])
        return
    rows = [(line.show_slot(r.slot), r.reason, r.record) for r in refused[:limit]]
    text = render.table_text([(f"{n:,}", why) for why, n in reasons.most_common()], ("records", "reason"), right=(0,))
    text += ["", *render.table_text(rows, ("slot time", "reason", "record"))]
    if len(refused) > limit:
        text.append(f"({limit} of {len(refused):,} shown; see --limit and --output)")
    if output is not None:
        text.append(f"{len(refused):,} records written to {output}; mend them and hand them to ebb update")
    render.lines(text)


def _parsed(record: str) -> Any:
    try:
        return json_module.loads(record)
    except ValueError:
        return record
