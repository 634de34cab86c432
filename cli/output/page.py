"""An evidence report for people: lines for a terminal, and a page that holds its own data.

The page needs nothing but itself. The report lies in it as JSON, and the page is made of that alone, so that whoever
verifies it can make it again and compare. Everything that comes from the table is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from html import escape
from typing import TYPE_CHECKING, Any

from ebb.cli.output import render
from ebb.index.errors import CorruptionError

if TYPE_CHECKING:
    from ebb.maintenance.inspect.proof import Evidence

__all__ = ["evidence_lines", "page", "read_written"]

_START, _BEGIN, _END = "<!doctype html>", '<script type="application/json" id="report">', "</script>"
_SHOWN = 20  # rows on a terminal
_VERDICTS = {True: "kept", False: "BROKEN", None: "unknown"}
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#1d2733}
h1{font-size:1.5rem;margin-bottom:.2rem}h2{font-size:1.1rem;margin:2rem 0 .4rem}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;width:100%}
th,td{text-align:left;padding:.25rem .7rem .25rem 0;border-bottom:1px solid #dde3ea;vertical-align:top}
th{color:#5a6b7d;font-weight:600}td.n,th.n{text-align:right}code{font-size:.85em;overflow-wrap:anywhere}
.verdict{display:inline-block;padding:.2rem .7rem;border-radius:.4rem;font-weight:600}
.kept{background:#dff3e4;color:#12622f}.broken{background:#fbdcdc;color:#8f1414}.unknown{background:#fff0cf;color:#755000}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1.2rem}dt{color:#5a6b7d}dd{margin:0}
.quiet{color:#5a6b7d}@media print{body{margin:0;max-width:none;font-size:11px}}
"""
# Title, what is left out without a word, and the columns: name in the report, heading, whether it is a number.
_TABLES: dict[str, tuple[str, str, tuple[tuple[str, str, bool], ...]]] = {
    "ticks": (
        "What expired when",
        "No tick was applied in this period.",
        (
            ("time", "tick ended", False), ("version", "version", True), ("admitted", "admitted", True),
            ("expired", "expired", True), ("removed_by", "files removed by", False), ("erased", "bytes erased", False),
            ("erased_by", "told by", True), ("delay", "delay", True), ("kept", "bound", False),
        ),
    ),
    "removals": (
        "Files that left the table",
        "No commit removed files.",
        (
            ("version", "version", True), ("op", "what", False), ("committed", "removed", False), ("files", "files", True),
            ("bytes", "bytes", True), ("due", "due since", False), ("erased", "erased", False), ("erased_by", "told by", True),
            ("delay", "delay", True), ("kept", "bound", False),
        ),
    ),
    "requests": (
        "What was asked for",
        "Nobody amended, forgot, held or released records.",
        (
            ("committed", "when", False), ("version", "version", True), ("op", "what", False), ("by", "by", False),
            ("case", "case", False), ("records", "records", True), ("copies", "copies", True), ("to", "expire at", False), ("erase_by", "erase by", False),
            ("erased", "erased", False), ("kept", "in time", False), ("asked", "hash of what was asked", False),
        ),
    ),
    "foreign": (
        "Commits of other tools",
        "No other tool wrote to the table.",
        (
            ("committed", "when", False), ("version", "version", True), ("operation", "what", False),
            ("files_added", "files added", True), ("files_removed", "files removed", True), ("adopted_by", "adopted by", True),
        ),
    ),
    "missing": (
        "What the journal cannot tell",
        "Nothing is missing.",
        (("what", "what", False), ("first", "from version", True), ("last", "to version", True)),
    ),
}  # fmt: skip


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return _VERDICTS[value]
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


def _row(row: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Return the cells of a row; versions are names and not amounts."""
    is_open = "erased" in row and row["erased"] is None and (row.get("removed_by") or row.get("files"))
    texts = {name: str(row[name]) if name == "version" else _cell(row[name]) for name in names}
    still = "held" if row.get("held") else "not yet" if is_open else texts.get("erased", "")
    return [still if name == "erased" else texts[name] for name in names]


def _verdict(report: Evidence) -> tuple[str, str]:
    """Return what the report comes to, and how serious that is."""
    found = report.findings
    if not found.kept:
        return "a promise was BROKEN", "broken"
    return (
        ("the deletion bound was kept", "kept")
        if found.complete
        else ("kept as far as the journal can tell", "unknown")
    )


def _facts(report: Evidence) -> dict[str, str]:
    """Return the report in short."""
    found, about = report.findings, report.about
    since, until = f"after {about['from']}" if about["from"] else "from the first tick", about["to"] or "now"
    longest = "nothing expired was on disk"
    if found.longest is not None:
        where = (
            "in a live file" if found.longest_removed_by is None else f"removed by version {found.longest_removed_by}"
        )
        longest = f"{found.longest} after its expiry, {where}"
    return {
        "table": f"{about['table']} (id {about['table_id']})",
        "period": f"{since}, up to {until}; clock {about['clock'] or 'not set'}, version {about['version']}",
        "made": f"{about['made']} by Ebb {about['ebb']}",
        "declared": f"bound {about['deletion_bound']}, tick {about['tick']}, span {about['span']}, grace period {about['grace_period']}, strategy {about['strategy']}",
        "expired": f"{render.counted(found.expired, 'record')} in {render.counted(len(found.ticks), 'commit')}",
        "erased": f"{render.counted(found.erased_files, 'file')}, {render.bytes_text(found.erased_bytes)}; {render.counted(found.waiting_files, 'file')} removed and not erased yet",
        "longest": f"{longest}; the bound is {found.bound}",
    }


def _proof(report: Evidence) -> dict[str, str]:
    """Return what fixes the report."""
    return {
        "report": report.hash,
        "journal": f"{report.chain.head or 'empty'} (line {report.chain.head_line}, version {report.chain.head_version})",
        "lines": f"{len(report.lines):,}, from number {report.chain.first}",
    }


def evidence_lines(report: Evidence) -> list[str]:
    """Return a report for a terminal: in short, with the last rows of each table that has any."""
    text = [_verdict(report)[0], "", *render.pairs(_facts(report))]
    findings = asdict(report.findings)
    for name, (title, _, columns) in _TABLES.items():
        rows = findings[name]
        if not rows:
            continue
        cells = [_row(row, [column for column, _, _ in columns]) for row in rows[-_SHOWN:]]
        used = [at for at in range(len(columns)) if any(row[at] for row in cells)]
        header = [columns[at][1] for at in used]
        right = [place for place, at in enumerate(used) if columns[at][2]]
        more = f" (the last {_SHOWN} of {len(rows):,}; --format json or html has all)" if len(rows) > _SHOWN else ""
        text += [
            "",
            f"{title}{more}",
            *render.table_text([[row[at] for at in used] for row in cells], header, right=right),
        ]
    return [*text, "", *render.pairs(_proof(report))]


def _table(
    title: str, nothing: str, columns: Sequence[tuple[str, str, bool]], rows: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    yield f"<h2>{title}</h2>"
    if not rows:
        yield f'<p class="quiet">{nothing}</p>'
        return
    kind = [' class="n"' if is_number else "" for _, _, is_number in columns]
    yield (
        "<table><thead><tr>"
        + "".join(f"<th{k}>{name}</th>" for k, (_, name, _) in zip(kind, columns, strict=True))
        + "</tr></thead><tbody>"
    )
    for row in rows:
        cells = _row(row, [name for name, _, _ in columns])
        yield (
            "<tr>"
            + "".join(f"<td{k}>{escape(render.visible(cell))}</td>" for k, cell in zip(kind, cells, strict=True))
            + "</tr>"
        )
    yield "</tbody></table>"


def _list(values: Mapping[str, str], *, code: bool = False) -> str:
    tag = ("<code>", "</code>") if code else ("", "")
    rows = (
        f"<dt>{name}</dt><dd>{tag[0]}{escape(render.visible(value))}{tag[1]}</dd>" for name, value in values.items()
    )
    return f"<dl>{''.join(rows)}</dl>"


def page(report: Evidence) -> bytes:
    """Return a report as a page, with its data in it."""
    verdict, grade = _verdict(report)
    name = escape(render.visible(report.given.name))
    findings = asdict(report.findings)
    text = [
        _START,
        '<html lang="en"><head><meta charset="utf-8">',
        f"<title>Evidence of deletion: {name}</title><style>{_STYLE}</style></head><body>",
        f"<h1>Evidence of deletion: {name}</h1>",
        f'<p><span class="verdict {grade}">{verdict}</span></p>',
        _list(_facts(report)),
        "<h2>How it was measured</h2><ul>",
        *(f"<li>{escape(sentence)}</li>" for sentence in report.parts["measured"]),
        "</ul>",
        *(
            line
            for key, (title, nothing, columns) in _TABLES.items()
            for line in _table(title, nothing, columns, findings[key])
        ),
        "<h2>Proof</h2>",
        (
            "<p>Hashes are BLAKE2b-256. Whoever has noted the hash of the report, or the journal's head, knows that nothing was changed since. "
            "<code>ebb evidence --verify FILE</code> checks this page, and compares it with the table if that is there.</p>"
        ),
        _list(_proof(report), code=True),
        _BEGIN + report.json.decode().replace("<", "\\u003c") + _END,
        "</body></html>",
    ]
    return "\n".join(text).encode() + b"\n"


def read_written(data: bytes) -> Evidence:
    """Return a report, or that of a page, that is as it was written: a page shows what is in it, and nothing else."""
    from ebb.maintenance.inspect.proof import read_report, report_text

    if not data.startswith(_START.encode()):
        return read_report(data)
    _, _, rest = data.partition(_BEGIN.encode())
    text, found, _ = rest.partition(_END.encode())
    try:
        report = read_report(report_text(json.loads(text) if found else None))
    except ValueError as error:
        raise CorruptionError(
            "the page is not as it was written", "the report in it cannot be read", "make it again"
        ) from error
    if page(report) != data:
        where = f"it shows something else than Ebb {report.about['ebb']} makes of its data"
        raise CorruptionError("the page is not as it was written", where, "make it again")
    return report
