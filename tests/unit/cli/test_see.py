from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from ebb import Warehouse
from ebb.cli.main import main
from ebb.cli.output import render
from tests.builders import arrow_batch, integer_table, open_warehouse, records, write_batch
from tests.foreign import planted, vouch
from tests.model import Record
from tests.unit.cli.command import Command
from tests.unit.cli.conftest import DECLARED

_STATUS = {
    "name", "kind", "reader_features", "writer_features", "not_writable", "head_problem", "columns", "key", "inserted", "expires", "tick", "span", "origin", "ticks_per_span", "grid", "policy",
    "strategy", "deletion_bound", "reader_time", "quarantine_time", "log_retention", "landing", "label", "remember", "inserted_as", "expires_as", "inputs", "folder", "version", "clock",
    "clock_time", "ticks_behind", "next_due", "live_records", "stored_records", "files", "bytes",
    "files_waiting_for_erase", "expired_files_on_disk", "oldest_expired_age", "deletion_bound_kept", "filling_group",
    "next_cohort", "cells", "last_update", "foreign_commits", "uncounted_files", "group", "oldest_expired_age_seconds",
    "tick_seconds", "span_seconds", "deletion_bound_seconds", "reader_time_seconds",
    "quarantine_time_seconds", "log_retention_seconds", "remember_seconds",
    "quarantined", "landing_waiting", "landing_refused", "evidence_retention", "evidence_retention_seconds", "bound_missed_at",
    "bound_missed_in_ticks", "recent_received", "recent_quarantined", "evidence_behind", "evidence_lost", "checked", "checked_seconds_ago",
    "check_failed",
    "backups", "restored_version", "files_leased", "leases", "holds", "held_records", "forgotten_since",
}  # fmt: skip


def test_status_of_an_empty_warehouse_says_how_to_begin(ebb: Command) -> None:
    ebb.root.mkdir()
    assert ebb.right("status").out == f"no tables in {ebb.root}; create one with ebb create, see ebb create --help\n"
    assert ebb.right("status", "--json").json == {"warehouse": str(ebb.root), "tables": []}


def test_status_lists_tables_and_tells_about_one(with_table: Command) -> None:
    with_table.right("update", "t", "--at", "3")

    header, _, row = with_table.right("status").out.splitlines()
    assert header.split() == ["table", "clock", "behind", "live", "files", "size", "grid", "strategy", "bound"]
    assert row.split() == ["t", "3", "0", "0", "0", "B", "5x4", "retire", "kept"]
    told = with_table.right("status", "t", "--json").json
    assert set(told) == _STATUS
    assert (told["clock"], told["clock_time"], told["next_due"]) == (3, "3", "4")
    assert with_table.right("status", "--json").json["tables"] == [told]
    lines = with_table.right("status", "t").out.splitlines()
    assert "clock        3 (slot 3)" in lines
    assert all(line == line.rstrip() for line in lines)


def test_status_and_erase_tell_of_readers(ebb: Command) -> None:
    """A shell is a reader, also while nobody types."""
    table = integer_table(open_warehouse(ebb.root), strategy="rebuild", grid="1x1", reader_time="0", deletion_bound="5")
    for slot in (1, 2):
        table.update(arrow_batch(records((slot, "a", slot, slot + 4))), at=slot)
    command = [sys.executable, "-m", "ebb.cli.main", "--warehouse", str(ebb.root), "shell", "t"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdin is not None
        assert shell.stdout is not None
        shell.stdin.write(".window\n")
        shell.stdin.flush()
        assert shell.stdout.readline().startswith("t at 2")
        table.update(arrow_batch(records((3, "a", 3, 7))), at=3)
        (lease,) = ebb.right("status", "t", "--json").json["leases"]
        assert (lease["what"], lease["pid"]) == ("shell", shell.pid)
        assert set(lease) == {"id", "pid", "host", "user", "what", "version", "since", "until"}
        line = next(line for line in ebb.right("status", "t").out.splitlines() if line.startswith("readers"))
        assert line.startswith(
            f"readers      1 lease, the oldest on version {lease['version']} since {lease['since']} (shell"
        )
        assert line.endswith("; 1 removed file kept for them")
        assert (
            ebb.right("erase", "t").out
            == "t: 0 files erased (0 B), 0 wait for readers, 1 kept for readers with a lease\n"
        )
        shell.stdin.close()
        assert shell.wait(30) == 0
    assert ebb.right("erase", "t", "--json").json["files_leased"] == 0
    assert ebb.right("status", "t", "--json").json["leases"] == []


def test_status_counts_what_is_in_quarantine_and_in_the_landing_folder(
    with_table: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody learnt of refused records and files who did not ask for them."""
    monkeypatch.setenv("EBB_ENGINE", "direct")
    with_table.right("alter", "t", "--landing", "landing")
    write_batch(Path("landing/1-a.csv"), records((1, "a", 1, 4), (2, None, 1, 4), (3, "c", 1, 99), (9, "b", 1, 4)))
    Path("landing/1-bad.csv").write_text("id\n1\n", encoding="utf-8")
    with_table("run", "--once")
    with_table.right("update", "t", write_batch(Path("2.csv"), records((4, None, 2, 5), (6, "d", 2, 5))))
    for file in (Path("landing/3-b.csv"), Path("landing/_taken/3/3-c.csv")):
        write_batch(file, records((5, "e", 3, 5)))

    told = with_table.right("status", "t", "--json").json
    assert (told["quarantined"], told["landing_waiting"], told["landing_refused"]) == (3, 2, 1)
    lines = with_table.right("status", "t").out.splitlines()
    assert f"landing      {Path.cwd()}/landing; 2 waiting files and 1 refused file" in lines
    assert "quarantine   3 records, see ebb quarantine t" in lines
    assert with_table.right("status").out.splitlines()[3:] == [
        "t: quarantine: 3 records, see ebb quarantine t",
        "t: landing: 2 waiting files and 1 refused file",
    ]


def test_status_says_nothing_of_an_empty_quarantine_and_landing_folder(with_table: Command) -> None:
    with_table.right("alter", "t", "--landing", "landing")

    assert len(with_table.right("status").out.splitlines()) == 3
    assert f"landing     {Path.cwd()}/landing" in with_table.right("status", "t").out.splitlines()
    told = with_table.right("status", "t", "--json").json
    assert (told["quarantined"], told["landing_waiting"], told["landing_refused"]) == (0, 0, 0)


def test_status_answers_although_quarantine_and_landing_folder_cannot_be_read(with_table: Command) -> None:
    with_table.right("alter", "t", "--landing", "landing")
    with_table.right(
        "update", "t", write_batch(Path("1.csv"), records((1, None, 1, 4))), "--at", 1, "--engine", "direct"
    )
    next(with_table.root.glob("t.quarantine/_slot=*/*")).write_bytes(b"damaged")
    Path("landing").rmdir()

    told = with_table.right("status", "t", "--json").json
    assert (told["quarantined"], told["landing_waiting"], told["landing_refused"]) == (None, None, None)
    assert with_table.right("status").out.splitlines()[3:] == [
        "t: quarantine: it cannot be read, see ebb quarantine t",
        "t: landing: it cannot be looked into",
    ]


@pytest.mark.parametrize("measure", ["records", "bytes", "files"])
def test_the_heat_map_shows_what_it_is_asked_for(with_table: Command, measure: str) -> None:
    assert f"  {measure:>8} " in with_table.right("status", "t", "--show", measure).out


def test_the_heat_map_shows_nothing_else(with_table: Command) -> None:
    assert "'weight' is not one of" in with_table.wrong("status", "t", "--show", "weight", code=2)


def test_history_is_newest_first_and_can_be_limited(with_table: Command) -> None:
    for slot in (1, 2, 3):
        with_table.right("update", "t", "--at", slot)

    commits = with_table.right("history", "t", "--json").json["commits"]
    assert [commit["version"] for commit in commits] == [3, 2, 1, 0]
    assert [commit["op"] for commit in commits] == ["update", "update", "update", "create"]
    assert len(with_table.right("history", "t", "--limit", "2").out.splitlines()) == 4
    assert len(with_table.right("history", "t", "--limit", "0").out.splitlines()) == 2
    assert "is not a whole number" in with_table.wrong("history", "t", "--limit", "-1", code=2)


def test_explain_tells_the_next_update_and_the_window_in_sql(with_table: Command) -> None:
    assert "no clock yet" in with_table.right("explain", "t").out
    assert with_table.right("explain", "t", "--json").json["slot"] is None
    with_table.right("update", "t", "--at", "3")

    shown = with_table.right("explain", "t").out.splitlines()
    assert shown[0] == "update to slot 4 (4), due now"
    assert shown[-2].startswith("  touches at most 8 of 20 cells")
    told = with_table.right("explain", "t", "--json").json
    assert (told["slot"], told["group"], told["cohorts"], told["cells_bound"]) == (4, 1, [1], 8)
    query = with_table.right("explain", "t", "--sql").out
    assert query.endswith("VERSION AS OF 1 WHERE _exp_slot > 3\n")
    assert with_table.right("explain", "t", "--sql", "--json").json == {"name": "t", "sql": query.rstrip("\n")}


def test_an_empty_quarantine_says_so(with_table: Command) -> None:
    assert with_table.right("quarantine", "t").out == "the quarantine of t is empty\n"
    assert with_table.right("quarantine", "t", "--json").json == {
        "name": "t", "quarantined": 0, "reasons": {}, "records": [],
    }  # fmt: skip
    assert (
        with_table.right("quarantine", "t", "--output", "no/such/folder/x.jsonl").out
        == "the quarantine of t is empty\n"
    )


def test_a_table_whose_log_is_broken_does_not_hide_the_others(with_table: Command) -> None:
    with_table.right("create", "broken", *DECLARED)
    entry = with_table.root / "broken" / "_delta_log" / f"{0:020}.json"
    entry.write_text("{", encoding="utf-8")

    shown = with_table("status")
    told = with_table("status", "--json")

    assert (shown.code, told.code) == (1, 1)
    assert shown.out.splitlines()[-1].startswith("t ")
    assert "broken" in shown.err
    assert [table["name"] for table in told.json["tables"]] == ["t", "broken"]
    assert "error" in told.json["tables"][1]


def test_a_warehouse_that_was_named_and_is_not_there_is_an_error(
    ebb: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A misspelt name looked like a warehouse without tables."""
    line = "check --warehouse, EBB_WAREHOUSE and ebb.toml, or run ebb create first"
    for arguments in ((), ("--json",), ("--check",)):
        assert ebb.wrong("status", *arguments, code=1) == f"there is no warehouse {ebb.root}; {line}"

    assert main(["status"]) == 0  # the default, which is made by the first table
    assert capsys.readouterr().out.startswith("no tables in warehouse-data; create one with ebb create")
    monkeypatch.setenv("EBB_WAREHOUSE", "elsewhere")
    assert main(["status"]) == 1
    assert capsys.readouterr().err == f"ebb: there is no warehouse elsewhere; {line}\n"
    monkeypatch.delenv("EBB_WAREHOUSE")
    Path("ebb.toml").write_text('warehouse = "there"\n', encoding="utf-8")
    assert main(["status"]) == 1
    assert capsys.readouterr().err.startswith("ebb: there is no warehouse there; ")


def test_durations_are_seconds_beside_their_text(ebb: Command) -> None:
    times = ("--schema", "k STRING, a TIMESTAMP, b TIMESTAMP", "--key", "k", "--inserted", "a", "--expires", "b")
    declared = ("--tick", "5m", "--span", "2h", "--log-retention", "3d")
    seconds = {
        "tick_seconds": 300, "span_seconds": 7200, "deletion_bound_seconds": 1800, "reader_time_seconds": 300,
        "quarantine_time_seconds": 1800, "log_retention_seconds": 259200,
    }  # fmt: skip

    created = ebb.right("create", "t", *times, *declared, "--json").json
    altered = ebb.right("alter", "t", "--landing", "x", "--json").json
    status = ebb.right("status", "t", "--json").json

    for told in (created, altered, status):
        assert {name: told[name] for name in seconds} == seconds
        assert told["tick"] == "5m"
    assert status["oldest_expired_age_seconds"] is None
    history = ebb.right("history", "t", "--json").json
    assert (history["log_retention"], history["log_retention_seconds"]) == ("3d", 259200)
    assert ebb.right("alter", "t", "--deletion-bound", "40m").out == "deletion bound: 30m → 40m\n"


def test_integers_have_no_seconds(with_table: Command) -> None:
    told = with_table.right("status", "t", "--json").json

    assert [name for name in told if name.endswith("_seconds")]
    assert {told[name] for name in told if name.endswith("_seconds")} == {None}


def test_a_check_fails_if_a_bound_is_broken(ebb: Command) -> None:
    times = ("--schema", "k STRING, a TIMESTAMP, b TIMESTAMP", "--key", "k", "--inserted", "a", "--expires", "b")
    ebb.right("create", "t", *times, "--tick", "1s", "--span", "6s", "--reader-time", "1s")
    now = datetime.now(UTC) - timedelta(seconds=30)
    batch = pa.table({"k": ["x"], "a": [now - timedelta(seconds=1)], "b": [now + timedelta(seconds=3)]})
    table = Warehouse.open(ebb.root).table("t")
    table.update(batch.cast(pa.schema([("k", pa.string()), *((n, pa.timestamp("us", "UTC")) for n in "ab")])), at=now)
    entry = max((ebb.root / "t" / "_delta_log").glob("*.json"))  # as if that had been a minute ago
    text = re.sub(r'"modificationTime":\d+', '"modificationTime":1', entry.read_text(encoding="utf-8"))
    entry.write_text(text, encoding="utf-8")
    vouch(table)

    assert ebb.right("status", "t").out.count("BROKEN") == 1
    told = ebb.right("status", "t", "--json").json
    assert told["oldest_expired_age_seconds"] > told["deletion_bound_seconds"]
    for arguments in (("t", "--check"), ("--check",), ("--check", "--json")):
        failed = ebb("status", *arguments, "--behind", 10**9)  # that it is behind is another finding
        assert failed.code == 1
        assert failed.out
        assert failed.err.startswith(
            "ebb: table t breaks its deletion bound: the oldest expired byte has been on disk for "
        )
        assert failed.err.endswith("; run ebb update t; or ebb purge t, then ebb erase t after the grace period\n")


def test_a_check_fails_if_another_tool_has_written_or_a_table_cannot_be_read(with_table: Command) -> None:
    assert with_table.right("status", "--check").out == with_table.right("status").out
    with_table.right("update", "t", "--at", "1")
    table = Warehouse.open(with_table.root).table("t")
    planted(table, {"remove": {"path": "x", "dataChange": True, "size": 1}}, operation="DELETE")

    assert "t: 1 commit of other tools, see ebb status t" in with_table.right("status").out.splitlines()
    failed = with_table("status", "--check")
    assert (failed.code, failed.err.count("\n")) == (1, 1)
    assert failed.err.startswith("ebb: table t was changed by another tool: DELETE in version 2; run ebb adopt t")
    assert with_table("status", "t", "--check").err == failed.err
    shown = with_table.right("status", "t").out
    assert "DELETE in version 2, 1970-01-01T00:00:00Z: files +0 −1. Nothing is written before ebb adopt t" in shown
    (told,) = with_table.right("status", "t", "--json").json["foreign_commits"]
    assert told == {
        "version": 2, "operation": "DELETE", "committed": "1970-01-01T00:00:00Z", "files_added": 0, "files_removed": 1,
    }  # fmt: skip

    assert with_table.right("adopt", "t", "--dry-run").out.startswith(
        "t: 1 commit would be adopted (DELETE in version 2)"
    )
    adopted = with_table.right("adopt", "t", "--json").json
    assert (adopted["version"], adopted["commits"], adopted["dry_run"]) == (3, [told], False)
    assert with_table.right("adopt", "t").out == "t: nothing to adopt: every commit is Ebb's own\n"
    assert with_table.right("history", "t", "--json").json["commits"][0]["adopted_versions"] == [2]
    (with_table.root / "t" / "_delta_log" / f"{3:020}.json").write_text("{", encoding="utf-8")
    assert with_table("status", "--check").code == 1


def test_every_commit_shows_what_took_how_long_or_that_nobody_knows(ebb: Command) -> None:
    """The lines of seal, purge and adopt were empty."""
    ebb.right("create", "t", *DECLARED, "--grid", "5x8", "--policy", "2x2", "--strategy", "retire")
    table = open_warehouse(ebb.root).table("t")
    for slot in (1, 2):  # a group, which is sealed when it is complete
        table.update(arrow_batch([Record(10 * slot + end, "a", slot, end) for end in (5, 6)]), at=slot)
    table.update(at=5, catch_up=True)
    table.purge()
    table.erase()
    table.alter(deletion_bound="9")
    DeltaTable(table.table.folder).delete("id = 16")
    table.adopt()

    lines = [line.split() for line in ebb.right("history", "t", "--phases").out.splitlines()[2:]]
    took = {line[1]: line[-3:] if line[-1] == "–" else line[-2:-1] for line in lines}
    assert {op: took.get(op) for op in ("seal", "purge", "erase", "adopt")} == {
        "seal": ["rewrite"], "purge": ["rewrite"], "erase": ["erase"], "adopt": ["rewrite"],
    }  # fmt: skip
    assert [took[op][-2:] for op in ("create", "alter", "delete")] == [["–", "–"]] * 3


@pytest.mark.parametrize(("count", "text"), [(0, "0 cells"), (1, "1 cell"), (2, "2 cells"), (1234, "1,234 cells")])
def test_one_is_not_several(count: int, text: str) -> None:
    assert render.counted(count, "cell") == text
