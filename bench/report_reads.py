"""The tables of the bench of reads, from its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from bench.measure import median
from bench.tables import Bar, markdown, verdicts

__all__ = ["reads_in_short", "reads_text"]

Rows = list[dict[str, Any]]
FILE, AT_ONCE = "one sorted file", "one sorted file, at once"
COLD_BARS = {"small": 0.45, "large": 0.6}
PROBE_BARS = {("large", 100): 1.5}  # times one sorted file; 3 for all others
PROBE_MS = 3
MANY_RECORDS = 20  # of a key, for the bar of bytes: a workload of 25 on average has keys with fewer
WHY = {  # bars are missed, by how their names start
    f"warm probe / {FILE}": "A window has many files, and a probe reads and checks a row group of each one that has the"
    " key; the sorted file has all its records in one. With few records per key, that is most of what is read.",
    "bytes read": "The records of a key lie in many files, about one in each: of every one a page of 32 KiB is read. Smaller"
    " pages would make scans slower.",
    "warm probe in ms": "A window has many files, and each one that holds the key costs a read, a check and a page to decode.",
    "scan / polars": "In a profile a third of a scan's CPU time was reading into memory, half was Arrow's decoding, an eighth was"
    " Python; checksums did not show. Files are not mapped, because one that is cut would end the process.",
    f"scan / {FILE}": "Ebb checks every byte it reads against a checksum, which the sorted file is read without; *pages"
    " verified* is the same file read with the checksums it has.",
    "peak memory of a scan in Python": "The records in work take 40 MB. The rest is Python, its libraries, and what"
    " Arrow's default allocator keeps; `ebb scan` chooses another one, and a program can do the same.",
}


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
    return [title, "", *markdown(["reader", *columns], lines), ""] if lines else []


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
    return ["What one probe reads:", "", *markdown(header, lines), ""]


def _shell(rows: Rows) -> list[str]:
    names = ("seconds", "start", "log", "directory", "read")
    lines = [
        [f"{keys:,}", *(f"{median([r[name] for r in _of(rows, 'shell', keys=keys)]):.3f} s" for name in names)]
        for keys in _all_keys(rows)
    ]
    header = ["keys", "`ebb probe`", "`ebb --version`", "log", "directory", "read"]
    return ["One key from the shell, the whole process; and parts of it:", "", *markdown(header, lines), ""]


def _scan_ratio(rows: Rows, keys: int) -> float:
    """Return how long a scan takes beside the faster way to read one sorted file."""
    plain = min(_middle(rows, "scan", keys=keys, reader=name) for name in (FILE, AT_ONCE))
    return _middle(rows, "scan", keys=keys, reader="Ebb") / plain


def _bars(rows: Rows) -> Iterator[Bar]:
    """Yield what was to be reached."""
    size = _of(rows, "table")[0]["workload"]
    for keys in _all_keys(rows):
        ours, file, spark = (_middle(rows, "probe", keys=keys, reader=name) for name in ("Ebb", FILE, "Spark"))
        at = f"{keys:,} keys"
        yield Bar(
            f"warm probe / {FILE}, {at}", f"{ours / file:.1f}×", ours / file, "≤", PROBE_BARS.get((size, keys), 3)
        )
        yield Bar(f"Spark / warm probe, {at}", f"{spark / ours:.1f}×", spark / ours, "≥", 10)
        if (size, keys) != ("large", 100):
            yield Bar(f"warm probe in ms, {at}", f"{ours * 1000:.1f}", ours * 1000, "≤", PROBE_MS)
        mine = _of(rows, "cost", keys=keys, reader="Ebb")
        if median([r["records"] for r in mine]) >= MANY_RECORDS:
            ratio = median([r["bytes_read"] / r["bytes_returned"] for r in mine])
            yield Bar(f"bytes read / returned, {at}", f"{ratio:.1f}×", ratio, "≤", 3)
        if size in COLD_BARS:
            cold = median([r["seconds"] for r in _of(rows, "shell", keys=keys)])
            yield Bar(f"`ebb probe` from the shell in s, {at}", f"{cold:.2f}", cold, "≤", COLD_BARS[size])
        scan = _scan_ratio(rows, keys)
        yield Bar(f"scan / {FILE}, {at}", f"{scan:.2f}×", scan, "≤", 1.2)
        polars = _middle(rows, "scan", keys=keys, reader="Ebb") / _middle(rows, "scan", keys=keys, reader="polars")
        yield Bar(f"scan / polars, {at}", f"{polars:.2f}×", polars, "≤", 1.5)
        for reader in dict.fromkeys(r["reader"] for r in _of(rows, "memory", keys=keys)):
            peak = max(r["bytes"] for r in _of(rows, "memory", keys=keys, reader=reader)) / 1e6
            yield Bar(f"peak memory of {reader} in MB, {at}", f"{peak:.0f}", peak, "<", 300)


def _by_keys(rows: Rows) -> dict[str, dict[str, Any]]:
    return {f"{keys:,} keys": {"keys": keys} for keys in _all_keys(rows)}


def _probes(rows: Rows) -> list[str]:
    return _by_reader(rows, "probe", _by_keys(rows), _milliseconds, "Warm probe of one key:")


def _scans(rows: Rows) -> list[str]:
    return _by_reader(rows, "scan", _by_keys(rows), _seconds, "Scan of all columns:")


def _range(values: list[float], form: Callable[[float], str]) -> str:
    """Return the least and the greatest of some figures."""
    low, high = form(min(values)), form(max(values))
    return low if low == high else f"{low} to {high}"


def reads_in_short(rows: Rows) -> dict[str, str]:
    """Return what somebody wants to know first of one run."""
    every = _all_keys(rows)
    probes = [_middle(rows, "probe", keys=k, reader="Ebb") / _middle(rows, "probe", keys=k, reader=FILE) for k in every]
    cold = [median([r["seconds"] for r in _of(rows, "shell", keys=keys)]) for keys in every]
    return {
        "warm probe of a key / one sorted Parquet file": _range(probes, lambda x: f"{x:.1f}×"),
        "scan / one sorted Parquet file": _range([_scan_ratio(rows, keys) for keys in every], lambda x: f"{x:.2f}×"),
        "`ebb probe`, whole process": _range(cold, lambda x: f"{x:.2f} s"),
    }


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
        *verdicts(_bars(rows), WHY),
    ]
