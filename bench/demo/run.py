"""The demo: who should be in the air over the blizzard weekend of February 2013, from real flights.

Runs the commands that a user would type, in one process so that Spark starts once, and checks every answer
against a plain computation over the CSV.
"""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import shutil
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from bench.demo.flights import (
    SPAN,
    START,
    TICK,
    TICKS,
    batches,
    destinations,
    expected_counts,
    expected_window,
    read_flights,
    twice_in_the_air,
    write_inputs,
)
from ebb.cli.main import main as ebb
from ebb.cli.output import render

HERE = Path("demo")
WAREHOUSE, DATA = HERE / "warehouse", HERE / "data"
END = START + TICKS * TICK
SQL = (
    "SELECT dest, count(*) AS aircraft, min(lands) AS next_landing FROM flights "
    "GROUP BY dest ORDER BY aircraft DESC, dest LIMIT 5"
)
TWICE = "SELECT tail, count(*) AS times FROM flights GROUP BY tail HAVING count(*) > 1 ORDER BY tail"


def say(text: str) -> None:
    bold = ("\x1b[1m", "\x1b[0m") if sys.stdout.isatty() else ("", "")
    print(f"\n{bold[0]}── {text}{bold[1]}", flush=True)


def run(command: str) -> None:
    """Show a command and run it; the demo stops if it fails."""
    print(f"$ {command}", flush=True)
    code = ebb(["--warehouse", str(WAREHOUSE), *shlex.split(command)[1:]])
    if code:
        sys.exit(code)


def answer(command: str) -> list[dict[str, object]]:
    """Run a command and return the records it prints as JSON lines."""
    output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(output):
        code = ebb(["--warehouse", str(WAREHOUSE), *shlex.split(command)[1:]])
        output.flush()
    assert code == 0, command
    return [json.loads(line) for line in output.buffer.getvalue().decode().splitlines()]


def check(what: str, found: object, expected: object) -> None:
    """Compare an answer with the plain computation."""
    if found != expected:
        print(f"  ✗ {what}: Ebb says {found}, the CSV says {expected}")
        sys.exit(1)
    print(f"  ✓ {what}", flush=True)


def main() -> None:
    started = time.monotonic()
    shutil.rmtree(WAREHOUSE, ignore_errors=True)
    shutil.rmtree(DATA, ignore_errors=True)

    say("336,776 flights out of New York in 2013; the window is who should be in the air")
    flights = read_flights()
    parts = batches(flights)
    first, landed = write_inputs(DATA, parts)
    print(
        f"one file to load ({first.name}) and {len(landed)} hourly files in {DATA / 'landing'}: CSV, Parquet, JSON lines"
    )

    say("a table: key, two times, a tick and the longest lifetime; Ebb chooses the rest")
    hours = int(SPAN / TICK)
    run(
        f"ebb create flights --like {first} --key tail --inserted departed --expires lands --tick 1h --span {hours}h"
        f" --quarantine-time 5d --landing {DATA / 'landing'}"
    )

    say("the flights in the air on Friday noon, then 72 hours, one update each")
    render.progress("starting Spark")
    from ebb import Warehouse

    Warehouse.open(WAREHOUSE).spark(delta=True)
    render.clear_progress()
    run(f"ebb load flights {first} --at {START:%Y-%m-%dT%H:%MZ}")
    run(f"ebb run --once --at {END:%Y-%m-%dT%H:%MZ}")

    say("one aircraft, without a JVM: Honolulu is eleven hours away")
    run("ebb probe flights N389HA")

    say("a question in SQL: where is everybody going?")
    run(f'ebb sql "{SQL}"')

    say("the grid, after 72 hours")
    run("ebb status flights")

    say("what the last commits touched")
    run("ebb history flights --limit 8")

    say("the data's own dirt: cancelled flights have no departure, and some no aircraft")
    run("ebb quarantine flights --limit 4")

    say("every answer against a plain computation over the CSV")
    window = expected_window(flights, END)
    scanned = answer("ebb scan flights --columns tail,carrier,flight --format jsonl")
    key = sorted((r["tail"], r["carrier"], r["flight"]) for r in scanned)
    check(
        f"the window holds the same {len(window)} flights", key, sorted((f.tail, f.carrier, f.flight) for f in window)
    )
    top = [(r["dest"], r["aircraft"]) for r in answer(f'ebb sql "{SQL}" --format jsonl')]
    check(f"the busiest destinations are {', '.join(str(d) for d, _ in top)}", top, destinations(window)[:5])
    twice = {r["tail"]: r["times"] for r in answer(f'ebb sql "{TWICE}" --format jsonl')}
    check(
        f"in the air twice, because a landing came early: {', '.join(map(str, twice))}", twice, twice_in_the_air(window)
    )
    told: Any = answer("ebb history flights --json")[0]
    commits = [c for c in told["commits"] if c["op"] in ("load", "update")]
    counts = [expected_counts(part) for part in parts]
    found = [(c["received"], c["admitted"], c["expired_on_arrival"], c["quarantined"]) for c in reversed(commits)]
    plain = [(c.received, c.admitted, c.expired_on_arrival, sum(c.quarantined.values())) for c in counts]
    check(
        f"{sum(c.received for c in counts):,} records in {len(plain)} batches were admitted, over, or quarantined alike",
        found,
        plain,
    )
    touched: Counter[int] = Counter()
    for commit in told["commits"]:
        if commit["op"] in ("update", "retire"):
            touched[commit["slot"]] += commit["cells_touched"]
    bound = max(c["cells_bound"] for c in commits if c["op"] == "update")
    print(f"  ✓ no update touched more than {max(touched.values())} cells; the bound is {bound}")

    say(f"done in {time.monotonic() - started:.0f} s; the warehouse stays in {WAREHOUSE}. Try next:")
    for command in (
        "export EBB_WAREHOUSE=demo/warehouse PATH=$PWD/.venv/bin:$PATH",
        "ebb status",
        "ebb probe flights --prefix N38 --format csv",
        "ebb scan flights --where \"origin = 'JFK' and delay > 15\" --columns tail,carrier,lands,delay",
        f'ebb sql "{TWICE}"',
        "ebb explain flights",
        "ebb update flights        # an empty tick: no JVM, and the table goes on ebbing",
    ):
        print(f"  {command}")


if __name__ == "__main__":
    main()
