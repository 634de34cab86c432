"""The tables of the bench of reads, from its rows."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

from bench.measure import median

__all__ = ["reads_in_short", "reads_text"]

Rows = list[dict[str, Any]]
FILE, AT_ONCE = "one sorted file", "one sorted file, at once"
_REACHED = "reached"
COLD_BARS = {"small": 0.6, "large": 0.8}
WHY = {  # bars are missed, by how their names start
    f"warm probe / {FILE}": "A window has many files, and a probe reads and checks a row group of each one that has the"
    " key; the sorted file has all its records in one. With few records per key, that is most of what is read.",
    f"scan / {FILE}": "Ebb checks every byte it reads against a checksum, which the sorted file is read without; *pages"
    " verified* is the same file read with the checksums it has.",
    "peak memory of a scan in Python": "The records in work take 40 MB. The rest is Python, its libraries, and what"
    " Arrow's default allocator keeps; `ebb scan` chooses another one, and a program can do the same.",
}


def _table(header: list[str], lines: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(line) + " |" for line in [header, ["---"] * len(header), *lines]]


def _of(rows: Rows, kind: str, **wanted: Any) -> Rows:
    return [r for r in rows if r["kind"] == kind and all(r[name] == value for name, value in wanted.items())]


def _all_keys(rows: Rows) -> list[int]:
    return list(dict.fromkeys(r["keys"] for r in rows if "keys" in r))


def _middle(rows: Rows, kind: str, **wanted: Any) -> float:
    return median([float(s) for r in _of(rows, kind, **wanted) for s in r["seconds"]])


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms" if seconds < 0.01 else f"{seconds * 1000:.0f} ms"


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f} s" if seconds < 1 else f"{seconds:.2f} s"


def _by_reader(
    rows: Rows, kind: str, columns: dict[str, dict[str, Any]], show: Callable[[float], str], title: str
) -> list[str]:
    """Return medians as a table: a line for each reader, a column for each of some conditions."""
    names = list(dict.fromkeys(r["reader"] for r in _of(rows, kind)))
    lines = [
        [name, *(show(_middle(rows, kind, reader=name, **wanted)) for wanted in columns.values())] for name in names
    ]
    return [title, "", *_table(["reader", *columns], lines), ""] if lines else []


def _costs(rows: Rows) -> list[str]:
    lines = []
    for keys in _all_keys(rows):
        for reader in ("Ebb", "Ebb, no Bloom filters"):
            mine = _of(rows, "cost", keys=keys, reader=reader)
            names = ("records", "files_read", "groups_met", "groups_read", "bytes_read", "bytes_returned")
            records, files, met, read, size, returned = (median([r[name] for r in mine]) for name in names)
            seconds = _milliseconds(_middle(rows, "probe", keys=keys, reader=reader))
            counts = [f"{n:,.0f}" for n in (records, files, met, read)]
            sizes = [f"{size / 1e6:.2f} MB", f"{returned / 1e6:.3f} MB", f"{size / returned:.1f}×"]
            lines.append([f"{keys:,}", reader, *counts, *sizes, seconds])
    header = ["keys", "reader", "records", "files read", "row groups met", "read", "bytes read", "returned", "ratio", "time"]  # fmt: skip
    return ["What one probe reads:", "", *_table(header, lines), ""]


def _shell(rows: Rows) -> list[str]:
    names = ("seconds", "start", "log", "directory", "read")
    lines = [
        [f"{keys:,}", *(f"{median([r[name] for r in _of(rows, 'shell', keys=keys)]):.3f} s" for name in names)]
        for keys in _all_keys(rows)
    ]
    header = ["keys", "`ebb probe`", "`ebb --version`", "log", "directory", "read"]
    return ["One key from the shell, the whole process; and parts of it:", "", *_table(header, lines), ""]


def _bars(rows: Rows) -> Iterator[tuple[str, str, float, str, float]]:
    """Yield what was to be reached: measurement, result in words, value, comparison, bar."""
    size = _of(rows, "table")[0]["workload"]
    for keys in _all_keys(rows):
        ours, file, spark = (_middle(rows, "probe", keys=keys, reader=name) for name in ("Ebb", FILE, "Spark"))
        at = f"{keys:,} keys"
        yield f"warm probe / {FILE}, {at}", f"{ours / file:.1f}×", ours / file, "≤", 3
        yield f"Spark / warm probe, {at}", f"{spark / ours:.1f}×", spark / ours, "≥", 10
        if size == "small" and keys >= 10_000:
            yield f"warm probe in ms, {at}", f"{ours * 1000:.1f}", ours * 1000, "≤", 10
        if keys == 100:
            mine = _of(rows, "cost", keys=keys, reader="Ebb")
            ratio = median([r["bytes_read"] / r["bytes_returned"] for r in mine])
            yield f"bytes read / returned, {at}", f"{ratio:.1f}×", ratio, "≤", 4
        if size in COLD_BARS:
            cold = median([r["seconds"] for r in _of(rows, "shell", keys=keys)])
            yield f"`ebb probe` from the shell in s, {at}", f"{cold:.2f}", cold, "≤", COLD_BARS[size]
        scan = _middle(rows, "scan", keys=keys, reader="Ebb")
        plain = min(_middle(rows, "scan", keys=keys, reader=name) for name in (FILE, AT_ONCE))
        yield f"scan / {FILE}, {at}", f"{scan / plain:.2f}×", scan / plain, "≤", 1.2
        for reader in dict.fromkeys(r["reader"] for r in _of(rows, "memory", keys=keys)):
            peak = max(r["bytes"] for r in _of(rows, "memory", keys=keys, reader=reader)) / 1e6
            yield f"peak memory of {reader} in MB, {at}", f"{peak:.0f}", peak, "<", 300


def _verdict(value: float, sign: str, bar: float) -> str:
    reached = {"≤": operator.le, "≥": operator.ge, "<": operator.lt}[sign](value, bar)
    return _REACHED if reached else f"missed by {max(value / bar, bar / value):.2f}×"


def _by_keys(rows: Rows) -> dict[str, dict[str, Any]]:
    return {f"{keys:,} keys": {"keys": keys} for keys in _all_keys(rows)}


def _probes(rows: Rows) -> list[str]:
    return _by_reader(rows, "probe", _by_keys(rows), _milliseconds, "Warm probe of one key:")


def _scans(rows: Rows) -> list[str]:
    return _by_reader(rows, "scan", _by_keys(rows), _seconds, "Scan of all columns:")


def _verdicts(rows: Rows) -> list[str]:
    bars = [[name, told, f"{sign} {bar:g}", _verdict(value, sign, bar)] for name, told, value, sign, bar in _bars(rows)]
    missed = [name for name, *_, verdict in bars if verdict != _REACHED]
    reasons = [f"- {start}: {why}" for start, why in WHY.items() if any(name.startswith(start) for name in missed)]
    told = ["", "Why bars were missed:", "", *reasons] if reasons else []
    return [*_table(["measurement", "result", "bar", ""], bars), *told, ""]


def reads_in_short(rows: Rows) -> list[str]:
    """Return what somebody wants to know first of one run."""
    return [*_probes(rows), *_scans(rows), *_verdicts(rows)]


def reads_text(rows: Rows) -> list[str]:
    """Return all tables of one run."""
    asked = dict.fromkeys((r["keys"], r["asked"]) for r in _of(rows, "list"))
    by_list: dict[str, dict[str, Any]] = {f"{n:,} of {keys:,} keys": {"keys": keys, "asked": n} for keys, n in asked}
    sizes = ", ".join(f"{r['records']:,} with {r['keys']:,} keys" for r in _of(rows, "table"))
    return [
        f"Live records of 1000 bytes: {sizes}.",
        "",
        *_probes(rows),
        *_costs(rows),
        *_by_reader(rows, "list", by_list, _seconds, "Probe of many keys at once:"),
        *_scans(rows),
        *_by_reader(rows, "sql", _by_keys(rows), _milliseconds, "`SELECT count(*), sum(k), max(exp) FROM t`:"),
        *_shell(rows),
        *_verdicts(rows),
    ]
