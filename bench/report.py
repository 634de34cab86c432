"""Results to tables: reads ``bench/results/*.jsonl``, prints Markdown and puts it into docs and README.

    python -m bench.report

The numbers in the docs are made here and never typed.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.measure import RESULTS, median
from bench.report_reads import reads_in_short, reads_text

__all__ = ["main"]

ROOT = Path(__file__).parent.parent
MACHINE = ("kind", "date", "commit", "python", "cores", "memory_gb")  # the others are packages
BARS = {
    "retire + seal": "mean ≤ 1.2, median ≤ 1.0, bytes ≤ 2.1",
    "rebuild 4x4": "≤ 2.5 at 250 MB",
}


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(line) + " |" for line in [header, ["---"] * len(header), *rows]]


def updates_table(rows: list[dict[str, Any]]) -> list[str]:
    counted = [r for r in rows if r["kind"] == "update" and r["counted"]]
    if not counted:
        return []
    layouts = list(dict.fromkeys(r["layout"] for r in counted))
    seconds = {name: [r["seconds"] for r in counted if r["layout"] == name] for name in layouts}
    floor_mean, floor_median = statistics.mean(seconds["append"]), median(seconds["append"])
    delete = statistics.mean(seconds["append + DELETE"])
    lines = []
    for name in layouts:
        mine = [r for r in counted if r["layout"] == name]
        written = statistics.mean(r["bytes_written"] for r in mine)
        batch = statistics.mean(r["batch_bytes"] for r in mine)
        mean, middle = statistics.mean(seconds[name]), median(seconds[name])
        lines.append(
            [
                name, f"{middle:.2f}", f"{mean:.2f}", f"{middle / floor_median:.2f}×", f"{mean / floor_mean:.2f}×",
                f"{delete / mean:.1f}×", f"{written / 1e6:.0f}", f"{written / batch:.2f}×", BARS.get(name, ""),
            ]
        )  # fmt: skip
    header = [
        "layout",
        "median s",
        "mean s",
        "median / append",
        "mean / append",
        "faster than DELETE",
        "MB written",
        "bytes / batch",
        "bar",
    ]
    return [
        f"{counted[0]['workload']} workload, {len(seconds['append'])} updates counted:",
        "",
        *table(header, lines),
    ]


def other_lines(rows: list[dict[str, Any]]) -> list[str]:
    lines: list[list[str]] = []
    scans = {r["layout"]: r["seconds"] for r in rows if r["kind"] == "scan"}
    if scans:
        ours, plain = scans["retire + seal"], scans["one sorted Parquet folder"]
        lines.append(
            [
                "Spark scan of the window / one sorted Parquet folder",
                f"{ours:.2f} s / {plain:.2f} s = {ours / plain:.2f}×",
                "≤ 1.2×",
            ]
        )
    flat = [r for r in rows if r["kind"] == "flat" and r["counted"]]
    if flat:
        names = list(dict.fromkeys(r["workload"] for r in flat))
        big, small = (median([r["seconds"] for r in flat if r["workload"] == name]) for name in names)
        lines.append(
            [
                f"the small batch on the {names[0]} table / on the {names[1]} one",
                f"{big:.2f} s / {small:.2f} s = {big / small:.2f}×",
                "≤ 1.3×",
            ]
        )
    for command, bar in (("empty tick", "≤ 0.5 s"), ("update of a small batch", "≤ 10 s")):
        seconds = [r["seconds"] for r in rows if r["kind"] == "shell" and r["command"] == command]
        if seconds:
            lines.append([f"`ebb update`, {command}, from the shell", f"{median(seconds):.2f} s", bar])
    return table(["measurement", "result", "bar"], lines) if lines else []


def report(bench: str, tables: Callable[[list[dict[str, Any]]], list[str]]) -> str:
    """Return the tables of each run of one bench, under its size and where it was measured."""
    text: list[str] = []
    for path in sorted(RESULTS.glob(f"{bench}-*.jsonl")):
        if path.stem.endswith("tiny"):
            continue
        machine, *rows = rows_of(path)
        packages = [f"{name} {version}" for name, version in machine.items() if name not in MACHINE]
        text += [
            f"### {path.stem.removeprefix('updates-').replace('-', ', ')}",
            "",
            f"{machine['cores']} cores, {machine['memory_gb']} GB, {machine['date']}, commit {machine['commit']}; {', '.join(packages)}.",
            "",
            *tables(rows),
        ]
    return "\n".join(text)


def updates_text(rows: list[dict[str, Any]]) -> list[str]:
    return [*updates_table(rows), "", *other_lines(rows), ""]


def main() -> None:
    text, reads = report("updates", updates_text), report("reads", reads_text)
    print(text, reads, sep="\n")
    target = ROOT / "docs" / "results.md"
    target.write_text(
        "# Results\n\nMade by `python -m bench.report` from `bench/results/*.jsonl`; `make bench` measures again.\n"
        "Seconds are only compared within one run; *append* is Spark's plain Delta append of the same batch.\n\n"
        + (text + "\n" + reads).strip()
        + "\n",
        encoding="utf-8",
    )
    readme = ROOT / "README.md"
    present = readme.read_text(encoding="utf-8")
    before, rest = present.split("<!-- results:start -->")
    after = rest.split("<!-- results:end -->")[1]
    shown = text + "\n" + report("reads", reads_in_short)
    made = f"{before}<!-- results:start -->\n{shown.strip()}\n<!-- results:end -->{after}"
    if made != present:
        readme.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
