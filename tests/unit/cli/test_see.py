from __future__ import annotations

import pytest

from tests.unit.cli.command import Command
from tests.unit.cli.conftest import DECLARED

_STATUS = {
    "name", "columns", "key", "inserted", "expires", "tick", "span", "origin", "ticks_per_span", "grid", "policy",
    "strategy", "deletion_bound", "reader_time", "quarantine_time", "log_retention", "landing", "label", "remember", "inserted_as", "expires_as", "inputs", "folder", "version", "clock",
    "clock_time", "ticks_behind", "next_due", "live_records", "stored_records", "files", "bytes",
    "files_waiting_for_erase", "expired_files_on_disk", "oldest_expired_age", "deletion_bound_kept", "filling_group",
    "next_cohort", "cells", "last_update",
}  # fmt: skip


def test_status_of_an_empty_warehouse_says_how_to_begin(ebb: Command) -> None:
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
    assert with_table.right("quarantine", "t", "--output", "no/such/folder/x").out == "the quarantine of t is empty\n"


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
