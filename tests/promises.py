"""What Ebb promises, which tests prove it, and what they counted last: the source of ``docs/promises.md``.

    EBB_FIGURES=bench/results/figures.json .venv/bin/python -m pytest ...     keeps what the tests of a run counted
    .venv/bin/python -m tests.promises                                        writes the page

A promise without a test does not exist, so every one names at least one, and a test of the tests looks for each.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

__all__ = ["PROMISES", "Promise", "keep_figures", "page", "proofs_of"]

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/promises.md"
FIGURES = ROOT / "bench/results/figures.json"


@dataclass(frozen=True, slots=True)
class Promise:
    """One promise: ``tests`` are files, or tests in files; ``figures`` are how the lines begin that they count in."""

    number: str
    text: str
    tests: tuple[str, ...]
    figures: tuple[str, ...] = ()


_HISTORIES = ("tests/integration/test_random_histories.py", "tests/property/test_direct_histories.py")
_ISOLATION = "tests/crash/test_isolation.py"
_KILLS = "tests/crash/test_kills.py"
_ONCE = "tests/integration/test_exactly_once.py"
_DAMAGE = "tests/integration/test_damage.py"
_DELETION = ("tests/integration/test_deletion.py", "tests/integration/test_deletion_histories.py")
_HOSTILE = "tests/unit/warehouse/test_hostile_logs.py"
_INTERRUPTS = ("tests/unit/cli/test_interrupt_moments.py", "tests/crash/test_interrupts.py")
_BACKUPS = ("tests/unit/maintenance/test_backup.py", "tests/property/test_backup_histories.py")

PROMISES: dict[str, tuple[Promise, ...]] = {
    "Answers": (
        Promise("P1", "No read at a clock returns a record that has expired by it, even if it is still on disk.", _HISTORIES),
        Promise("P2", "A read returns every admitted record that is live at its clock, and each once.", _HISTORIES),
        Promise(
            "P3",
            "The commits of an update change at most G + E − 1 cells (E + cG − c after a kill or when catching up over c cohorts);"
            " all other cells keep their files.",
            ("tests/property/test_plan_laws.py", "tests/property/test_grid_laws.py", _HISTORIES[0]),
        ),
        Promise("P4", "One read sees one window, never a mix of two clocks.", (_ISOLATION,), ("isolation under",)),
        Promise(
            "P4b",
            "A `latest` read also reflects every update committed before it commits, and ends although updates never do.",
            (_ISOLATION,),
            ("isolation beside", "isolation, broken"),
        ),
        Promise("P5", "One rule for keys on every path: model, Spark and the path without a JVM agree.", ("tests/integration/test_odd_keys.py",)),
        Promise("P6", "Times are UTC; time zone, language and hash seed of a process change nothing.", ("tests/integration/test_times.py",)),
    ),
    "Updates": (
        Promise("P7", "An update is all or nothing under SIGKILL of Python, of the JVM, or of both.", (_KILLS,), ("kills under",)),
        Promise(
            "P8",
            "What was acknowledged is there after any death of a process and, unless `durable = false`, after a power cut.",
            (_KILLS, "tests/property/test_power_cuts.py", "tests/unit/maintenance/test_landing_power_cuts.py"),
            ("power cuts", "syncs left out"),
        ),
        Promise("P9", "A batch has one effect, however often, in whatever order and in whatever files it comes.", (_ONCE,)),
        Promise(
            "P10",
            "Received = admitted + expired on arrival + quarantined, and the reasons add up.",
            ("tests/integration/test_intake.py", "tests/property/test_judge_laws.py"),
        ),
        Promise(
            "P11",
            "A full disk, no memory, no right, too many files: an error of ours, the table as it was, and the next update works.",
            ("tests/unit/test_world.py", "tests/integration/test_commit_faults.py", "tests/unit/warehouse/test_disk_errors.py"),
            ("limits of",),
        ),
        Promise("P12", "A dead JVM or too little memory is an error within 10 s, never half an answer.", (_KILLS, "tests/crash/test_interrupts.py")),
        Promise(
            "P13",
            "One writer per table; a second one is refused with the holder named, or waits; readers never wait.",
            ("tests/crash/test_lock.py", "tests/unit/test_many_readers.py"),
            ("readers at once",),
        ),
        Promise("P14", "A JVM that outlives its Python process changes nothing.", (_KILLS,)),
        Promise(
            "P15",
            "The clock never goes back; a wall clock that jumps revives, hides and loses nothing.",
            ("tests/unit/test_many_readers.py", "tests/integration/test_times.py"),
            ("wall clock jumps",),
        ),
        Promise("P16", "Columns that do not fit are refused with their name; the table does not move.", ("tests/integration/test_schema_drift.py",)),
    ),
    "Deletion": (
        Promise("P17", "A deletion bound after its expiry, no byte of a record is on disk, in backups neither.", (*_DELETION, *_BACKUPS), ("backups, ",)),
        Promise("P18", "Seal, purge, erase and checkpoints change no answer and delete nothing early.", _DELETION),
        Promise(
            "P19",
            "With a lease or within the grace period a reader misses no file; else it gets an error of ours, never a short answer. No lease breaks the bound.",
            (_ISOLATION, "tests/crash/test_leases.py", "tests/property/test_erase_laws.py"),
            ("lease races", "readers killed", "a reader that sleeps"),
        ),
        Promise(
            "P20",
            "A jump of more than a tick needs `--catch-up`; one that empties the table, a batch that has expired as a whole, and"
            " a condition that takes most records away need `--yes`.",
            (_ONCE, "tests/unit/maintenance/test_arrival.py", "tests/unit/maintenance/test_forget.py"),
        ),
    ),
    "Damage": (
        Promise("P21", "A damaged data file gives an error that names it, never another answer.", (_DAMAGE,), ("damage,",)),
        Promise("P22", "A missing file gives an error, never fewer records.", (_DAMAGE,)),
        Promise(
            "P23",
            "A damaged, missing or rolled-back log is noticed.",
            ("tests/unit/warehouse/test_head.py",),
            ("log entries removed",),
        ),
        Promise(
            "P24",
            "`ebb check` finds every seeded damage from disk alone, changes nothing, and finds nothing in a sound table.",
            ("tests/unit/maintenance/test_check.py", _HISTORIES[1]),
            ("seeded damages",),
        ),
    ),
    "Input and access": (
        Promise(
            "P25",
            "No input ends in a traceback, a hang, or a changed table that says it failed.",
            ("tests/unit/cli/test_fuzz.py", "tests/unit/cli/test_fuzz_files.py", "tests/unit/test_doors.py"),
            ("fuzzed",),
        ),
        Promise(
            "P26",
            "Names never form a path outside the warehouse, and values never become code.",
            ("tests/unit/warehouse/test_hostile_keys.py", "tests/unit/cli/test_names.py", "tests/unit/warehouse/test_where.py"),
            ("hostile keys", "traversing names"),
        ),
        Promise(
            "P27",
            "What stands in a log, beside files or in a backup is hostile too: it leads nowhere and takes no more memory than it may.",
            (_HOSTILE, _DAMAGE, "tests/unit/warehouse/test_paths.py"),
            ("hostile log", "hostile hidden", "hostile side", "hostile manifests"),
        ),
        Promise("P28", "No pickle, no eval, no stored functions, no shell.", ("tests/architecture/test_layers.py",)),
        Promise("P29", "Folders are 0700 and files 0600, unless a group is declared; no port but loopback.", ("tests/unit/warehouse/test_modes.py", "tests/integration/test_outside.py")),
        Promise("P30", "What is printed is escaped; no value of a record is in an error of ours.", ("tests/unit/cli/test_output.py", "tests/property/test_output_laws.py", "tests/integration/test_outside.py")),
        Promise("P31", "Packages are pinned with hashes, and jars are checked by SHA-256.", ("tests/unit/test_hashes.py", "tests/unit/warehouse/test_jars.py")),
    ),
    "Commits, landing folders, changes": (
        Promise(
            "P32",
            "A commit knows whether it happened: files that the log names stay, others go, and the message is true.",
            ("tests/integration/test_commit_faults.py", *_INTERRUPTS),
            ("faults around a commit", "Ctrl-C at any", "SIGTERM at any"),
        ),
        Promise(
            "P33",
            "A landed file is applied once, or set aside alone with its reason; it never stops the clock.",
            (
                "tests/unit/maintenance/test_landing_crashes.py",
                "tests/unit/maintenance/test_landing_bad_files.py",
                "tests/crash/test_landing_runs.py",
            ),
            ("landing folders",),
        ),
        Promise(
            "P34",
            "What proves the deletion bound comes from the log; a commit that Ebb did not make is noticed.",
            ("tests/unit/warehouse/test_foreign.py", "tests/integration/test_foreign_commits.py"),
        ),
        Promise(
            "P35",
            "Followers of a table get every admitted record once, or an error that names the oldest version; never a gap.",
            ("tests/integration/test_followers.py", "tests/property/test_change_laws.py"),
            ("followers",),
        ),
    ),
    "Single records, evidence, backups": (
        Promise(
            "P36",
            "Amended, forgotten and held records are as the model says after any history; a forgotten record is found by no byte search after its time.",
            ("tests/property/test_record_histories.py", "tests/unit/maintenance/test_forget.py", "tests/unit/maintenance/test_holds.py"),
            ("amendments and holds", "forgetting stopped", "forgotten canaries"),
        ),
        Promise(
            "P38",
            "The evidence journal has a line for every commit; a change of any byte of it or of a report is found.",
            ("tests/unit/warehouse/test_journal.py", "tests/unit/maintenance/test_evidence.py", "tests/unit/cli/test_prove.py"),
            ("commits under", "kills while the journal", "bytes of", "ticks whose erasure"),
        ),
        Promise(
            "P39",
            "A backup is whole or not there; what comes back is what the model says, without what has expired.",
            _BACKUPS,
            ("kills of backups", "damages of a backup"),
        ),
    ),
}  # fmt: skip


def proofs_of(promise: Promise) -> Iterable[tuple[Path, str | None]]:
    """Yield the files of a promise's tests, each with the test in it that is meant, if it is one."""
    for test in promise.tests:
        file, _, name = test.partition("::")
        yield ROOT / file, name or None


def keep_figures(path: Path, told: Sequence[str], *, soak: int) -> None:
    """Write down what the tests of a run counted."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    value = {
        "when": datetime.now(UTC).date().isoformat(),
        "commit": commit.stdout.strip() or "unknown",
        "soak": soak,
        "figures": list(told),
    }
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def page(kept: dict[str, Any]) -> str:
    """Return the page of promises, with the figures of a run."""
    rounds = "`make test`" if kept["soak"] == 1 else f"`make soak`, {kept['soak']} times the rounds of `make test`"
    lines = [
        "# Promises",
        "",
        "What Ebb promises, the tests that prove it, and what they counted last. Made by `python -m tests.promises`.",
        "",
        f"Figures are of {kept['when']}, commit {kept['commit']}: {rounds}.",
        "`EBB_SEED` repeats a random test, `EBB_SOAK=10` makes it ten times as long.",
    ]
    for title, promises in PROMISES.items():
        lines += ["", f"## {title}", "", "| | promise | tests | last figures |", "| --- | --- | --- | --- |"]
        for promise in promises:
            tests = "<br>".join(f"[{Path(test).name}](../{test.partition('::')[0]})" for test in promise.tests)
            told = [line for line in kept["figures"] if line.startswith(promise.figures)] if promise.figures else []
            lines.append(f"| {promise.number} | {promise.text} | {tests} | {'<br>'.join(told)} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    PAGE.write_text(page(json.loads(FIGURES.read_text(encoding="utf-8"))), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
