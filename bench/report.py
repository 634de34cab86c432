"""Results to tables: reads ``bench/results/*.jsonl``, writes ``docs/results.md`` and the six numbers of the README.

    python -m bench.report

The numbers in the docs are made here and never typed.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.measure import RESULTS, median, say
from bench.report_constants import constants_text
from bench.report_durable import durable_text
from bench.report_log import log_text
from bench.report_reads import reads_in_short, reads_text
from bench.seals import MERGED, SORTED
from bench.tables import Bar, markdown, measured_on, verdicts

__all__ = ["documents", "main"]

ROOT = Path(__file__).parent.parent
Rows = list[dict[str, Any]]
RETIRE, REBUILD, APPEND, DELETE = "retire + seal", "rebuild 4x4", "append", "append + DELETE"
DIRECT = ("retire + seal, direct", "retire + seal, Arrow")  # without a JVM
SIZES = {"small": "250 MB live", "large": "2.5 GB live"}
COMMANDS = {"empty tick": 0.5, "update of a small batch": 10, "a batch, --engine direct": 1.2}  # in seconds
WHY = {
    f"{RETIRE}, mean": "Every sixth update also seals a group: it merges six batches.",
    "decoding and sorting a group again": "With few records per key the runs overlap everywhere: all records are decoded, merged"
    " and encoded again. Sorting them is a small part of that.",
    f"{RETIRE}, median": "A batch is sorted into cells; an append writes it as it comes.",
    "Spark scan": "Spark opens about forty files where the folder has a few, whatever the size of the table.",
}


def rows_of(path: Path) -> Rows:
    """Return the rows of one run; the first one says where it was measured."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _seconds(rows: Rows) -> dict[str, list[float]]:
    """Return the seconds of the updates that count, by layout."""
    seconds: dict[str, list[float]] = {}
    for row in rows:
        if row["kind"] == "update" and row["counted"]:
            seconds.setdefault(row["layout"], []).append(row["seconds"])
    return seconds


def _bytes_ratio(rows: Rows, layout: str) -> tuple[float, float]:
    """Return the mean of the bytes that an update writes, and how many that is for a byte of the batch."""
    mine = [r for r in rows if r["kind"] == "update" and r["counted"] and r["layout"] == layout]
    written = statistics.mean(r["bytes_written"] for r in mine)
    return written, written / statistics.mean(r["batch_bytes"] for r in mine)


def updates_table(rows: Rows) -> list[str]:
    seconds = _seconds(rows)
    if not seconds:
        return []
    floor_mean, floor_median = statistics.mean(seconds[APPEND]), median(seconds[APPEND])
    delete = statistics.mean(seconds[DELETE])
    lines = []
    for name, taken in seconds.items():
        written, ratio = _bytes_ratio(rows, name)
        mean, middle = statistics.mean(taken), median(taken)
        lines.append(
            [
                name, f"{middle:.2f}", f"{mean:.2f}", f"{middle / floor_median:.2f}×", f"{mean / floor_mean:.2f}×",
                f"{delete / mean:.1f}×", f"{written / 1e6:.0f}", f"{ratio:.2f}×",
            ]
        )  # fmt: skip
    header = ["layout", "median s", "mean s", "median / append", "mean / append", "faster than DELETE", "MB written", "bytes / batch"]  # fmt: skip
    return [f"{len(seconds[APPEND])} updates counted:", "", *markdown(header, lines), ""]


def update_bars(rows: Rows) -> Iterator[Bar]:
    """Yield what updates were to reach."""
    seconds = _seconds(rows)
    if seconds:
        workload = next(r["workload"] for r in rows if r["kind"] == "update")
        mean = statistics.mean(seconds[RETIRE]) / statistics.mean(seconds[APPEND])
        middle = median(seconds[RETIRE]) / median(seconds[APPEND])
        ratio = _bytes_ratio(rows, RETIRE)[1]
        yield Bar(f"{RETIRE}, mean / append", f"{mean:.2f}×", mean, "≤", 1.0)
        yield Bar(f"{RETIRE}, median / append", f"{middle:.2f}×", middle, "≤", 1.0)
        yield Bar(f"{RETIRE}, bytes / batch", f"{ratio:.2f}×", ratio, "≤", 2.1)
        if workload == "small":
            rebuild = statistics.mean(seconds[REBUILD]) / statistics.mean(seconds[APPEND])
            yield Bar(f"{REBUILD}, mean / append", f"{rebuild:.2f}×", rebuild, "≤", 2.0)
            for name in DIRECT:
                if name in seconds:
                    direct = median(seconds[name]) / median(seconds[APPEND])
                    yield Bar(f"{name}, median / append", f"{direct:.2f}×", direct, "≤", 0.5)
    scans = {r["layout"]: r["seconds"] for r in rows if r["kind"] == "scan"}
    if scans:
        ours, plain = scans[RETIRE], scans["one sorted Parquet folder"]
        result = f"{ours:.2f} s / {plain:.2f} s = {ours / plain:.2f}×"
        yield Bar("Spark scan of the window / one sorted Parquet folder", result, ours / plain, "≤", 1.15)
    for keys in dict.fromkeys(r["keys"] for r in rows if r["kind"] == "seal" and r["workload"] == "large"):
        merged, resorted = (
            median([r["seconds"] for r in rows if r["kind"] == "seal" and (r["keys"], r["way"]) == (keys, way)])
            for way in (MERGED, SORTED)
        )
        result = f"{resorted:.2f} s / {merged:.2f} s = {resorted / merged:.1f}×"
        yield Bar(f"decoding and sorting a group again / merging it, {keys:,} keys", result, resorted / merged, "≥", 2)
    flat = [r for r in rows if r["kind"] == "flat" and r["counted"]]
    if flat:
        names = list(dict.fromkeys(r["workload"] for r in flat))
        big, small = (median([r["seconds"] for r in flat if r["workload"] == name]) for name in names)
        result = f"{big:.2f} s / {small:.2f} s = {big / small:.2f}×"
        name = f"the small batch on the {names[0]} table / on the {names[1]} one"
        yield Bar(name, result, big / small, "≤", 1.3)
    for command, bar in COMMANDS.items():
        taken = _shell(rows, command)
        if taken:
            yield Bar(f"`ebb update`, {command}, from the shell in s", f"{median(taken):.2f}", median(taken), "≤", bar)


def _shell(rows: Rows, command: str) -> list[float]:
    return [r["seconds"] for r in rows if r["kind"] == "shell" and r["command"] == command]


def updates_text(rows: Rows) -> list[str]:
    return [*updates_table(rows), *verdicts(update_bars(rows), WHY)]


def report(bench: str, tables: Callable[[Rows], list[str]]) -> str:
    """Return the tables of each run of one bench, under its size and where it was measured."""
    text: list[str] = []
    for path in sorted(RESULTS.glob(f"{bench}-*.jsonl")):
        if path.stem.endswith("tiny"):
            continue
        machine, *rows = rows_of(path)
        size = path.stem.removeprefix(f"{bench}-")
        text += [f"## {bench.capitalize()}, {SIZES.get(size, size)}", "", measured_on(machine), "", *tables(rows)]
    return "\n".join(text)


def six_numbers() -> str:
    """Return what somebody wants to know first, for both sizes."""
    columns: list[dict[str, str]] = []
    for size in SIZES:
        machine, *updates = rows_of(RESULTS / f"updates-{size}.jsonl")
        _, *reads = rows_of(RESULTS / f"reads-{size}.jsonl")
        seconds = {name: statistics.mean(taken) for name, taken in _seconds(updates).items()}
        middle = median(_seconds(updates)[RETIRE]) / median(_seconds(updates)[APPEND])
        columns.append(
            {
                "update with expiry / plain Delta append, mean (median)": f"{seconds[RETIRE] / seconds[APPEND]:.2f}× ({middle:.2f}×)",
                "append and DELETE / update with expiry": f"{seconds[DELETE] / seconds[RETIRE]:.1f}×",
                **reads_in_short(reads),
                "a tick without a batch, whole process": f"{median(_shell(updates, 'empty tick')):.2f} s",
            }
        )
    names = list(columns[0])
    lines = [[name, *(column[name] for column in columns)] for name in names]
    place = f"{machine['cores']} cores, {machine['memory_gb']} GB of memory, local disk, {machine['date']}"
    return "\n".join([*markdown(["", *SIZES.values()], lines), "", f"Measured on {place}; ranges are over keys with few and with many records."])  # fmt: skip


def _between_marks(path: Path, text: str) -> str:
    """Return a document with what stands between its marks replaced."""
    before, rest = path.read_text(encoding="utf-8").split("<!-- results:start -->")
    after = rest.split("<!-- results:end -->")[1]
    return f"{before}<!-- results:start -->\n{text.strip()}\n<!-- results:end -->{after}"


def log_section() -> str:
    """Return what the log costs, under where it was measured."""
    machine, *rows = rows_of(RESULTS / "log.jsonl")
    return "\n".join(["## The log and the ledger", "", measured_on(machine), "", *log_text(rows)])


def documents() -> dict[Path, str]:
    """Return the documents with numbers in them, as they should be."""
    durable = report("durable", durable_text)  # nothing before it was measured for the first time
    sections = [report("updates", updates_text), report("reads", reads_text), log_section()]
    tables = "\n".join([*sections, *filter(None, [durable])])
    results = (
        "# Results\n\nMade by `python -m bench.report` from `bench/results/*.jsonl`; `make bench` measures again. A *bar*"
        " is a figure that was\nset before measuring; the verdict beside it says whether it was reached. Seconds are only"
        " compared within one run;\n*append* is Spark's plain Delta append of the same batch, *DELETE* is an append"
        " followed by a `DELETE` of what has expired.\n\n"
    )
    arithmetic = ROOT / "docs" / "arithmetic.md"
    return {
        ROOT / "docs" / "results.md": results + tables.strip() + "\n",
        ROOT / "README.md": _between_marks(ROOT / "README.md", six_numbers()),
        arithmetic: _between_marks(arithmetic, constants_text(rows_of(RESULTS / "constants.jsonl"))),
    }


def main() -> None:
    for path, text in documents().items():
        if text != (path.read_text(encoding="utf-8") if path.exists() else ""):
            path.write_text(text, encoding="utf-8")
            say(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
