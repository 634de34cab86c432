"""The table of measured constants in ``docs/arithmetic.md``, from the rows of ``bench.constants``."""

from __future__ import annotations

from typing import Any

from bench.tables import markdown, measured_on

__all__ = ["constants_text", "log_bytes"]

Rows = list[dict[str, Any]]


def _size(count: float) -> str:
    if count < 10_000:
        return f"{count:,.0f} B"
    return f"{count / 1000:,.0f} kB" if count < 1e6 else f"{count / 1e6:,.0f} MB"


def log_bytes(rows: Rows) -> dict[str, float]:
    """Return what parts of the log take: a commit, a slot in which records of its batch expire, a file added and removed."""
    log = {r["what"]: r["bytes"] for r in rows if r["kind"] == "log"}
    return {
        "COMMIT": log["commit"],
        "SLOT": (log["commit, 36 slots"] - log["commit"]) / 36,
        "ADD": log["add"],
        "REMOVE": log["remove"],
        "CHECKPOINT": log["checkpoint"],
        "STATE": log["state"],
    }


def constants_text(rows: Rows) -> str:
    """Return the constants as a table."""
    machine, *rows = rows
    log = log_bytes(rows)
    lines = [
        ["log: a commit without a batch", _size(log["COMMIT"])],
        ["log: each slot in which records of the batch expire, up to 64", f"{log['SLOT']:.1f} B"],
        ["log: each file added", _size(log["ADD"])],
        ["log: each file removed", _size(log["REMOVE"])],
        ["log: a checkpoint, with about 40 live files and those removed in the last week", _size(log["CHECKPOINT"])],
        ["a state of the ledger, p = 36, with its fingerprints", _size(log["STATE"])],
    ]
    for row in rows:
        if row["kind"] == "file":
            name = f"data file of {row['records']:,} records / the batch as one Parquet file"
            lines.append([name, f"{row['bytes'] / row['batch_bytes']:.2f}×"])
            lines.append([f"`.keys` file beside {_size(row['bytes'])} of data", _size(row["side_bytes"])])
        elif row["kind"] == "memory":
            work = f" of {_size(row['work_bytes'])}" if row["work_bytes"] else ""
            lines.append([f"peak memory of {row['what']}{work}", _size(row["bytes"])])
    return "\n".join([*markdown(["constant", "measured"], lines), "", measured_on(machine)])
