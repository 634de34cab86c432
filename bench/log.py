"""What a commit costs however long the log, the span and the list of files are.  No JVM.

    python -m bench.log

Three questions, each within one run: an empty tick after few and after many commits; a commit on a table whose span has
few and many ticks, with few and many remembered batches; an update of one cell with few and many live files.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.measure import Recorder, say, work_folder
from ebb import OpenTable, Warehouse
from ebb.index.cellfile import CellFile
from ebb.index.fingerprints import Fingerprints
from ebb.index.histogram import Histogram
from ebb.index.ledger import Change, Ledger
from ebb.maintenance.carry_out import carry_out
from ebb.maintenance.plan.change import Plan
from ebb.warehouse.settings import Settings
from ebb.warehouse.table.states import write_state

SCHEMA = "key STRING, inserted BIGINT, expires BIGINT"
COMMITS = (500, 1_000, 5_000, 50_000)
YEAR = 365 * 24 * 60  # of minutes
FILES = (100, 1_000, 10_000)
LAST = 200  # ticks that are timed at each length


def table_of(root: Path, span: int, **wish: Any) -> OpenTable:
    warehouse = Warehouse(Settings(warehouse=root), now=lambda: datetime(2026, 1, 1, tzinfo=UTC))
    declared = {"schema": SCHEMA, "key": ["key"], "inserted": "inserted", "expires": "expires", "tick": "1"}
    return warehouse.create("t", span=str(span), **(declared | wish))


def seconds_of(work: Callable[[int], object], numbers: range) -> list[float]:
    taken = []
    for number in numbers:
        started = time.perf_counter()
        work(number)
        taken.append(time.perf_counter() - started)
    return taken


def ticking(table: OpenTable) -> Callable[[int], object]:
    return lambda slot: table.update(at=slot)


def updating(table: OpenTable) -> Callable[[int], object]:
    return lambda slot: table.update(records_of(slot, [slot + 500]), at=slot)


def shown(taken: list[float]) -> dict[str, float]:
    return {"median_s": statistics.median(taken), "mean_s": statistics.fmean(taken), "max_s": max(taken)}


def ticks(recorder: Recorder) -> None:
    """Empty ticks as the log gets longer."""
    with work_folder("log") as root:
        table = table_of(root, 36)
        clock = 0
        for commits in COMMITS:
            seconds_of(ticking(table), range(clock + 1, commits - LAST + 1))
            taken = seconds_of(ticking(table), range(commits - LAST + 1, commits + 1))
            clock = commits
            entries = len(list(table.table.log.glob("*.json")))
            recorder.add(kind="tick", commits=commits, entries=entries, **shown(taken))
            say(f"  tick after {commits:,} commits: {statistics.median(taken) * 1000:.2f} ms, {entries:,} entries left")


def ledgers(recorder: Recorder) -> None:
    """Commits of a batch with records for 100 slots, on tables that have more and more to remember."""
    for span, is_full, prints in ((36, True, 64), (YEAR, False, 64), (YEAR, True, 64), (YEAR, True, 500_000)):
        rng = random.Random(span)
        with work_folder("log") as root:
            table = table_of(root, span, strategy="norebuild", grid="4x4")
            table.update(at=1)
            live = {slot: rng.randint(1, 900) for slot in range(2, span + 2)} if is_full else {2: 1}
            seen = tuple((1 - number % span, rng.getrandbits(64)) for number in range(prints))
            ledger = Ledger(
                clock=1,
                live_records=sum(live.values()),
                base=Histogram.of(live),
                fingerprints=Fingerprints(recent=seen),
            )
            snapshot = table.table.snapshot()
            settled, state = write_state(
                table.table.states, ledger, snapshot.version, snapshot.spec.remembered_ticks, table.table.disk
            )
            table.table._newest[:] = [replace(snapshot, ledger=settled, state=state)]
            written = 0

            def commit(slot: int, table: OpenTable = table, rng: random.Random = rng, span: int = span) -> None:
                with table.table.lock():
                    snapshot = table.table.snapshot()
                    arrivals = {slot + rng.randrange(1, span): 1 for _ in range(100)}
                    change = Change(clock=slot, arrivals=arrivals, digest=f"batch {slot}")
                    assert snapshot.ledger.check_repeat(slot, change.digest, snapshot.spec.timeline, span) is None
                    carry_out(
                        snapshot, Plan(), table.warehouse.context(), clock=slot, change=change, data_change=True,
                        report=lambda _: {"op": "update", "slot": slot},
                    )  # fmt: skip

            taken = []
            for slot in range(2, LAST + 2):
                states = {path.name for path in table.table.states.iterdir()}
                taken += seconds_of(commit, range(slot, slot + 1))
                new = [path for path in table.table.states.iterdir() if path.name not in states]
                entry = table.table.log / f"{table.table.snapshot().version:020}.json"
                written += entry.stat().st_size + sum(path.stat().st_size for path in new)
            row = {"ticks_per_span": span, "is_full": is_full, "fingerprints": prints, "bytes": written / LAST}
            recorder.add(kind="ledger", **row, **shown(taken))
            say(
                f"  p = {span:,}, {'full' if is_full else 'nearly empty'}, {prints:,} fingerprints: "
                f"{statistics.fmean(taken) * 1000:.2f} ms and {written / LAST / 1000:.1f} kB a commit"
            )


def files(recorder: Recorder) -> None:
    """Updates of one cell with 100 records, beside more and more live files: real ones, copies of each other."""
    for strategy, wish in (("retire", {}), ("norebuild", {"grid": "4x4"}), ("rebuild", {"grid": "4x4"})):
        for count in FILES:
            with work_folder("log") as root:
                table = table_of(root, 1000, strategy=strategy, deletion_bound="400", **wish)
                table.update(records_of(1, range(700, 1000)), at=1)
                beside = _copies(table, count)
                assert len(table.table.snapshot().files) == beside
                taken = seconds_of(updating(table), range(2, LAST + 2))
                report = table.status()
                assert report.live_records == 300 + 100 * LAST
                recorder.add(kind="files", strategy=strategy, files=beside, **shown(taken))
                say(
                    f"  {strategy}, {beside:,} live files: {statistics.median(taken) * 1000:.2f} ms an update of one cell"
                )


def records_of(slot: int, expiries: Iterable[int]) -> pa.Table:
    """Return a record for each expiration time, or 100 for one."""
    times = list(expiries)
    times = times * 100 if len(times) == 1 else times
    keys = [f"k{number}" for number in range(len(times))]
    return pa.table({"key": keys, "inserted": pa.array([slot] * len(times)), "expires": pa.array(times)})


def _copies(table: OpenTable, count: int) -> int:
    """Add copies of the live files to their cells, in the same folders, so that they are parts of sorted runs."""
    snapshot = table.table.snapshot()
    live, copies = snapshot.files, list[CellFile]()
    for number in range(count - len(live)):
        file = live[number % len(live)]
        path = file.path.replace("/part-", f"/part-{number:032x}", 1)
        os.link(table.table.folder / file.path, table.table.folder / path)
        copies.append(replace(file, path=path, records=0))
    snapshot.commit(
        adds=copies, removes=(), change=Change(clock=1), data_change=True, now_ms=0, report={"op": "update", "slot": 1}
    )
    return len(live) + len(copies)


def main() -> None:
    recorder = Recorder("log")
    with recorder.saved():
        ticks(recorder)
        ledgers(recorder)
        files(recorder)
    say(f"rows are in {recorder.path}")


if __name__ == "__main__":
    main()
