"""The bench of reads: one window, sealed and unsealed groups in it, against the same records in other stores.

    python -m bench.run --size tiny|small|large --only reads

Every answer is compared with the batches themselves before anything is timed. Then the readers take turns key by key:
a probe of one key, of many, scans and SQL, all warm; and ``ebb probe`` from the shell, which is not.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from bench import contestants
from bench.measure import BATCHES, Recorder, in_turns, median, peak_memory, say, timed, work_folder
from bench.readers import (
    Digest,
    DuckDb,
    Ebb,
    Polars,
    Reader,
    RocksDb,
    SortedFile,
    Spark,
    Sqlite,
    digest,
    sorted_file,
    unfiltered,
)
from bench.workloads import Workload
from ebb import OpenTable, Warehouse
from ebb.warehouse.read.request import Cost
from ebb.warehouse.read.window import Window
from ebb.warehouse.sql.duckdb import DuckSession

__all__ = ["reads"]

KEYS = {"tiny": (100, 10_000), "small": (100, 10_000, 100_000), "large": (100, 100_000)}
UPDATES = 9  # six of them complete a group, which is sealed; three are unsealed
PROBED = 30
LISTS = (1_000, 50_000)  # keys at once
LIST_TURNS = 3
SCAN_TURNS = {"tiny": 3, "small": 9, "large": 5}
SHELL_TURNS = 9
QUERY = "SELECT count(*), sum(k), max(exp) FROM t"
QUERY_TURNS = 9
SCANS = {  # processes that do nothing else
    "`ebb scan --format arrow`": """
from ebb.cli.main import entry
sys.argv = ["ebb", "--warehouse", sys.argv[1], "scan", "t", "--format", "arrow"]
entry()
""",
    "a scan in Python": """
from ebb import Warehouse
for batch in Warehouse.open(sys.argv[1]).table("t").at_latest().scan(): pass
""",
}

_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Bench:
    """One workload in one table, and what it must answer."""

    workload: Workload
    table: OpenTable
    window: Window
    spark: Any
    recorder: Recorder
    probed: list[list[int]]
    lists: list[list[int]]
    truth: dict[tuple[int, ...], Digest]  # by the keys asked for; nothing stands for all

    def note(self, kind: str, **row: Any) -> None:
        self.recorder.add(kind=kind, workload=self.workload.name, keys=self.workload.keys, **row)

    def check(self, name: str, keys: Sequence[int], parts: Iterable[Any]) -> None:
        found = digest(parts)
        assert found == self.truth[tuple(keys)], (name, len(keys), found, self.truth[tuple(keys)])


def reads(base: Workload, spark: Any, recorder: Recorder) -> None:
    """Measure all reads, for each number of keys."""
    for keys in KEYS[base.name]:
        workload = replace(base, keys=keys)
        say(f"reads, {workload.name}, {keys:,} keys")
        with work_folder("reads") as root:
            measure(prepare(workload, root, spark, recorder), root)


def measure(bench: Bench, root: Path) -> None:
    """Give everybody the same records, then ask."""
    path = sorted_file(bench.window, root / "others")
    file = SortedFile(path)
    everybody: list[Reader] = [
        Ebb("Ebb", lambda: bench.window),
        file,
        Spark(bench.spark),
        *(make(path, root / "others") for make in (Sqlite, DuckDb, RocksDb)),
        Polars(path),
    ]
    probes(bench, everybody)
    lists(bench, everybody)
    scans(bench, everybody, file)
    queries(bench)
    shell(bench, root)


def prepare(workload: Workload, root: Path, spark: Any, recorder: Recorder) -> Bench:
    """Make the table: a full window is loaded, then updated a few times."""
    entrant = contestants.Ebb("ebb", root, workload, **contestants.RETIRE)
    p, clock = workload.ticks_per_span, workload.ticks_per_span + UPDATES
    batches = [workload.batch(slot, BATCHES) for slot in range(1, clock + 1)]
    entrant.load(batches[:p], p)
    for slot in range(p + 1, clock + 1):
        entrant.update(batches[slot - 1], slot)
    entrant.warehouse.register(spark)
    rng = random.Random(f"{workload.seed}/{workload.name}/{workload.keys}")
    probed = [[key] for key in rng.sample(range(workload.keys), PROBED)]
    many = [rng.sample(range(workload.keys), size) for size in LISTS if size < workload.keys for _ in range(LIST_TURNS)]
    truth = answers(batches, clock, [(), *map(tuple, probed), *map(tuple, many)])
    window = entrant.table.at_latest()
    bench = Bench(workload, entrant.table, window, spark, recorder, probed, many, truth)
    bench.check("Ebb", [], window.scan())
    files = window.visible_files()
    bench.note("table", records=truth[()][0], files=len(files), bytes=sum(file.size_bytes for file in files))
    return bench


def answers(batches: Sequence[Path], clock: int, questions: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], Digest]:
    """Return what the batches themselves answer at a clock."""
    wanted = [pl.Series(question, dtype=pl.Int64) for question in questions]
    found = [(0, 0)] * len(questions)
    for batch in batches:
        live = pl.read_parquet(batch).filter(pl.col("exp") > clock)
        hashes = pl.DataFrame({"k": live["k"], "hash": live.hash_rows()})
        for place, keys in enumerate(wanted):
            mine = hashes.filter(hashes["k"].is_in(keys.implode()))["hash"] if len(keys) else hashes["hash"]
            count, total = found[place]
            found[place] = (count + len(mine), (total + int(mine.sum())) % 2**64)
    return dict(zip(questions, found, strict=True))


def turns(works: Mapping[str, Callable[[_Item], Any]], items: Sequence[_Item]) -> dict[str, list[float]]:
    """Let everybody take turns, and Spark come last: its JVM goes on working after an answer, at the cost of the next."""
    last = {name: work for name, work in works.items() if name == "Spark"}
    return in_turns({name: work for name, work in works.items() if name not in last}, items) | in_turns(last, items)


def probes(bench: Bench, everybody: Sequence[Reader]) -> None:
    """One key at a time; for Ebb also what it reads, and what it would read without Bloom filters."""
    blind = unfiltered(bench.window)
    variants = [Ebb("Ebb, new window", bench.table.at_latest), Ebb("Ebb, no Bloom filters", lambda: blind)]
    works = {reader.name: reader.probe for reader in [*everybody, *variants]}
    for name, probe in works.items():
        for keys in bench.probed:
            bench.check(name, keys, [probe(keys)])
    for name, seconds in turns(works, bench.probed).items():
        bench.note("probe", reader=name, seconds=seconds)
        say(f"  probe of a key, {name}: {median(seconds) * 1000:.2f} ms")
    for name, window in {"Ebb": bench.window, "Ebb, no Bloom filters": blind}.items():
        for keys in bench.probed:
            fresh = replace(window, cost=Cost())
            fresh.probe(*keys)
            bench.note("cost", reader=name, **asdict(fresh.cost))


def lists(bench: Bench, everybody: Sequence[Reader]) -> None:
    """Many keys at once."""
    for asked in sorted({len(keys) for keys in bench.lists}):
        questions = [keys for keys in bench.lists if len(keys) == asked]
        for reader in everybody:
            bench.check(reader.name, questions[0], [reader.probe(questions[0])])
        for name, seconds in turns({reader.name: reader.probe for reader in everybody}, questions).items():
            bench.note("list", reader=name, asked=asked, seconds=seconds)
            say(f"  probe of {asked:,} keys, {name}: {median(seconds):.3f} s")


def scans(bench: Bench, everybody: Sequence[Reader], file: SortedFile) -> None:
    """Everything, part after part; and the peak memory of processes that do nothing but Ebb's scan."""
    ways = {reader.name: reader.scan for reader in everybody} | {
        f"{file.name}, at once": file.scan_at_once,
        f"{file.name}, at once, pages verified": lambda: file.scan_at_once(is_verified=True),
    }
    for name, scan in (ways | {reader.name: reader.parts for reader in everybody if isinstance(reader, Spark)}).items():
        bench.check(name, [], scan())

    def consumed(scan: Callable[[], Iterable[Any]]) -> Callable[[int], None]:
        def work(_: int) -> None:
            for _part in scan():
                pass

        return work

    for name, seconds in turns(
        {name: consumed(scan) for name, scan in ways.items()}, range(SCAN_TURNS[bench.workload.name])
    ).items():
        bench.note("scan", reader=name, seconds=seconds)
        say(f"  scan, {name}: {median(seconds):.3f} s")
    for name, code in SCANS.items():
        for _ in range(3):
            peak = peak_memory(code, str(bench.table.warehouse.root))
            bench.note("memory", reader=name, bytes=peak)
        say(f"  peak memory of {name}: {peak / 1e6:.0f} MB")


def queries(bench: Bench) -> None:
    """A query that needs two columns: through DuckDB, with a session of its own or a kept one, and through Spark."""
    warehouse: Warehouse = bench.table.warehouse
    kept = DuckSession(["t"], lambda _: bench.table.at_latest())
    works: dict[str, Callable[[int], Any]] = {
        "Ebb": lambda _: warehouse.sql(QUERY).read_all(),
        "Ebb, session kept": lambda _: kept.answer(QUERY).read_all(),
        "Spark": lambda _: bench.spark.sql(QUERY).toArrow(),
    }
    found = {tuple(column[0].as_py() for column in work(0).columns) for work in works.values()}
    assert len(found) == 1, found
    assert found.pop()[0] == bench.truth[()][0]
    for name, seconds in turns(works, range(QUERY_TURNS)).items():
        bench.note("sql", reader=name, seconds=seconds)
        say(f"  sql, {name}: {median(seconds) * 1000:.1f} ms")


def shell(bench: Bench, root: Path) -> None:
    """``ebb probe`` from the shell, from the start of the process to its end; and where the time goes."""
    ebb = [str(Path(sys.executable).parent / "ebb"), "--warehouse", str(root / "ebb")]

    def command(*words: str) -> str:
        return subprocess.run([*ebb, *words], check=True, capture_output=True, text=True).stdout

    for keys in bench.probed[:SHELL_TURNS]:
        start, _ = timed(command, "--version")
        seconds, shown = timed(command, "probe", "t", str(keys[0]), "--format", "jsonl")
        assert shown.count("\n") == bench.truth[tuple(keys)][0]
        told = json.loads(command("probe", "t", str(keys[0]), "--explain", "--json"))
        parts = {name: told[f"{name}_seconds"] for name in ("log", "directory", "read")}
        bench.note("shell", seconds=seconds, start=start, **parts)
    mine = [row for row in bench.recorder.rows if row["kind"] == "shell" and row["keys"] == bench.workload.keys]
    say(f"  ebb probe from the shell: {median([row['seconds'] for row in mine]):.3f} s")
