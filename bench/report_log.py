"""The log's results: what a commit costs however long the log, the span and the list of files are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.tables import Bar, markdown, verdicts

__all__ = ["log_text"]

Rows = list[dict[str, Any]]


def log_text(rows: Rows) -> list[str]:
    """Return the tables and verdicts."""
    ticks = [r for r in rows if r["kind"] == "tick"]
    ledgers = [r for r in rows if r["kind"] == "ledger"]
    files = [r for r in rows if r["kind"] == "files"]
    lines = [
        *markdown(
            ["commits before", "entries in the log", "empty tick, median ms", "mean ms"],
            [[f"{r['commits']:,}", f"{r['entries']:,}", _ms(r["median_s"]), _ms(r["mean_s"])] for r in ticks],
        ),
        "",
        *markdown(
            ["ticks of the span", "slots with live records", "batches remembered", "median ms", "mean ms", "kB per commit"],
            [
                [
                    f"{r['ticks_per_span']:,}", "all" if r["is_full"] else "one", f"{r['fingerprints']:,}",
                    _ms(r["median_s"]), _ms(r["mean_s"]), f"{r['bytes'] / 1000:.1f}",
                ]
                for r in ledgers
            ],
        ),
        "",
        *markdown(
            ["strategy", "live files", "update of one cell with 100 records, median ms", "mean ms"],
            [[r["strategy"], f"{r['files']:,}", _ms(r["median_s"]), _ms(r["mean_s"])] for r in files],
        ),
        "",
    ]  # fmt: skip
    return [*lines, *verdicts(_bars(ticks, ledgers, files), {})]


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f}"


def _bars(ticks: Rows, ledgers: Rows, files: Rows) -> Iterator[Bar]:
    for strategy in ("retire", "norebuild"):
        few, *_, many = (r for r in files if r["strategy"] == strategy)
        ratio = many["median_s"] / few["median_s"]
        name = f"{strategy}, update of one cell with {many['files']:,} live files / with {few['files']:,}"
        yield Bar(name, f"{ratio:.2f}×", ratio, "≤", 1.5)
    first, last = ticks[0], ticks[-1]
    yield Bar(
        f"empty tick after {first['commits']:,} commits in ms",
        _ms(first["median_s"]),
        first["median_s"] * 1000,
        "≤",
        30,
    )
    ratio = last["median_s"] / first["median_s"]
    yield Bar(f"after {last['commits']:,} commits / after {first['commits']:,}", f"{ratio:.2f}×", ratio, "≤", 1.2)
    base = ledgers[0]
    worst_ms = max(r["mean_s"] - base["mean_s"] for r in ledgers[1:]) * 1000
    worst_kb = max(r["bytes"] - base["bytes"] for r in ledgers[1:]) / 1000
    yield Bar("a year of minutes: ms more per commit", f"{worst_ms:.2f}", worst_ms, "≤", 10)
    yield Bar("a year of minutes: kB more per commit", f"{worst_kb:.1f}", worst_kb, "≤", 20)
