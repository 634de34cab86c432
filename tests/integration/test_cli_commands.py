"""The commands with records in the table: load, update, run, probe, scan, sql, quarantine, seal, purge, erase, drop."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from ebb import OpenTable
from ebb.cli.main import main
from tests.builders import integer_table, open_warehouse, records, write_batch
from tests.unit.cli.command import Command, state_of

_FIRST = records(
    (1, "a", 1, 4), (2, "b", 2, 6), (3, "b", 2, 5), (4, "ab", 2, 8), (5, "", 2, 7), (6, "=1+1", 2, 7),
    (7, "\x1b[31mred", 2, 7), (8, 'ü,"x"', 2, 7),
)  # fmt: skip
_SECOND = records((9, "c", 3, 9), (10, None, 3, 9), (11, "late", 1, 3), (12, "long", 3, 99), (13, "c", 9, 12))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> Path:
    """Return a warehouse with a table t at clock 3 in which every key is odd in its own way."""
    folder = tmp_path_factory.mktemp("filled")
    table = integer_table(open_warehouse(folder / "w"))
    table.load(write_batch(folder / "first.parquet", _FIRST), at=2)
    table.update(write_batch(folder / "second.csv", _SECOND), at=3)
    return folder / "w"


@pytest.fixture
def ebb(filled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Return the command on a copy of that warehouse."""
    shutil.copytree(filled, tmp_path / "w")
    monkeypatch.chdir(tmp_path)
    return Command(tmp_path / "w", capsys)


def _ids(text: str) -> list[int]:
    return sorted(int(row["id"]) for row in csv.DictReader(io.StringIO(text, newline="")))


# load and update


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl", "csv.gz"])
def test_a_batch_is_loaded_from_any_format_and_a_repeat_changes_nothing(ebb: Command, suffix: str) -> None:
    integer_table(open_warehouse(ebb.root), "u")
    file = write_batch(Path(f"first.{suffix}"), _FIRST)

    told = ebb.right("load", "u", file, "--at", "2", "--json").json
    assert (told["slot"], told["received"], told["admitted"], told["live"], told["version"]) == (2, 8, 8, 8, 1)
    before = state_of(ebb.root)
    assert (
        ebb.right("load", "u", file).out
        == "u: already applied at slot 2 (2); nothing changed, the clock did not move\n"
    )
    again = ebb("update", "u", file, "--json")
    assert (again.code, again.json["already_applied"]) == (3, True)
    assert state_of(ebb.root) == before
    other = write_batch(Path("other.csv"), _SECOND)
    assert "has been loaded already, its clock is at 2; use ebb update u" in ebb.wrong("load", "u", other, code=1)


def test_an_update_tells_the_fate_of_every_record(ebb: Command) -> None:
    batch = records(
        (20, "a", 4, 9), (21, None, 4, 9), (22, "a", 2, 4), (23, "a", 4, 4), (24, "a", 4, 11), (25, "a", 5, 6)
    )

    lines = ebb.right("update", "t", write_batch(Path("b.csv"), batch)).out.splitlines()
    assert lines[0] == "t: slot 4 (4), version 3"
    assert lines[1] == "  received 6 = admitted 1 + expired on arrival 1 + quarantined 4"
    assert lines[2].startswith("  expired 1, live 9; touched ")
    assert lines[4:8] == [
        "  quarantined: 1 × expires at or before its insertion",
        "  quarantined: 1 × inserted in the future",
        "  quarantined: 1 × key key is null",
        "  quarantined: 1 × lives longer than the span 6",
    ]


def test_a_dry_run_of_a_batch_counts_everything_and_changes_nothing(ebb: Command) -> None:
    batch = write_batch(Path("b.csv"), records((20, "a", 4, 9), (21, None, 4, 9)))
    before = state_of(ebb.root)

    told = ebb.right("update", "t", batch, "--dry-run", "--json").json
    assert (told["received"], told["admitted"], told["quarantined"], told["dry_run"]) == (2, 1, 1, True)
    assert "(dry run: nothing was changed)" in ebb.right("update", "t", batch, "--dry-run").out
    assert state_of(ebb.root) == before
    applied = ebb.right("update", "t", batch, "--json").json
    for field in (
        "slot",
        "ticks",
        "received",
        "admitted",
        "quarantined",
        "expired",
        "live",
        "cells_touched",
        "cells_bound",
    ):
        assert applied[field] == told[field]


def test_other_content_for_an_applied_slot_is_refused(ebb: Command) -> None:
    other = write_batch(Path("b.csv"), records((99, "a", 3, 9)))

    told = ebb.wrong("update", "t", other, "--at", "3", code=1)
    assert told.startswith("slot 3 (3) is not after the clock 3, and this batch is not the one applied there")
    assert "slot 2 (2) is not after the clock 3" in ebb.wrong("update", "t", other, "--at", "2", code=1)


def test_a_jump_that_would_empty_the_table_wants_to_be_told(ebb: Command) -> None:
    assert "would expire all 9 live records; pass --yes" in ebb.wrong("update", "t", "--at", "30", "--catch-up", code=1)

    told = ebb.right("update", "t", "--at", "30", "--catch-up", "--yes", "--json").json
    assert (told["expired"], told["live"], told["ticks"]) == (9, 0, 27)
    assert ebb.right("scan", "t", "--format", "jsonl").out == ""


def test_drifted_files_are_refused_with_the_column_named(ebb: Command) -> None:
    Path("extra.jsonl").write_text(
        '{"id": 1, "key": "a", "inserted": 4, "expires": 5, "pay": "p", "more": 1}\n', encoding="utf-8"
    )
    Path("order.csv").write_text("key,id,inserted,expires,pay\na,1,4,5,p\n", encoding="utf-8")
    Path("case.csv").write_text("ID,key,inserted,expires,pay\n1,a,4,5,p\n", encoding="utf-8")
    Path("broken.parquet").write_bytes(write_batch(Path("fine.parquet"), _FIRST).read_bytes()[:-9])

    assert "column more is not in the table" in ebb.wrong("update", "t", "extra.jsonl", code=1)
    assert "column key stands at place 1, and id should" in ebb.wrong("update", "t", "order.csv", "--strict", code=1)
    assert "column ID is called id in the table" in ebb.wrong("update", "t", "case.csv", code=1)
    assert "broken.parquet" in ebb.wrong("update", "t", "broken.parquet", code=1)


def test_a_column_that_was_added_is_null_before_and_there_afterwards(ebb: Command) -> None:
    ebb.right("alter", "t", "--add-column", "z INT")
    Path("b.csv").write_text("id,key,inserted,expires,pay,z\n50,zz,4,9,p,7\n", encoding="utf-8")
    ebb.right("update", "t", "b.csv")

    rows = [
        json.loads(line) for line in ebb.right("scan", "t", "--columns", "id,z", "--format", "jsonl").out.splitlines()
    ]
    assert {row["id"]: row["z"] for row in rows} == {**dict.fromkeys([2, 3, 4, 5, 6, 7, 8, 9]), 50: 7}


# probe and scan


@pytest.mark.parametrize(
    ("arguments", "ids"),
    [
        (("a",), [1]), (("b",), [2, 3]), (("a", "b", "nope"), [1, 2, 3]), (("",), [5]), (('ü,"x"',), [8]),
        (("--prefix", "a"), [1, 4]), (("--prefix", ""), [1, 2, 3, 4, 5, 6, 7, 8, 9]), (("--from", "b"), [2, 3, 8, 9]),
        (("--to", "a"), [1, 5, 6, 7]), (("--from", "ab", "--to", "b"), [2, 3, 4]), (("--from", "b", "--to", "a"), []),
        (("late",), []), (("--keys-from", "keys"), [1, 9]), (("a", "--as-of", "4"), []), (("a", "--as-of", "3"), [1]),
        (("b", "--limit", "1"), [3]), (("--", "-1"), []),
    ],
)  # fmt: skip
def test_a_probe_finds_exactly_the_records_of_its_keys(
    ebb: Command, arguments: tuple[str, ...], ids: list[int]
) -> None:
    Path("keys").write_text("a\nc\n", encoding="utf-8")

    assert _ids(ebb.right("probe", "t", "--format", "csv", *arguments).out) == ids


def test_a_probe_is_ordered_by_key_then_expiration(ebb: Command) -> None:
    shown = ebb.right("probe", "t", "c", "b", "--columns", "id").out

    assert shown == "id\n──\n 3\n 2\n 9\n(3 records)\n"


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("id > 8", [9]), ("key = 'b' and expires < 6", [3]), ("key in ('a', 'c')", [1, 9]), ("not id between 2 and 9", [1]),
        ("pay is null", []), ("pay is not null and id <= 2", [1, 2]), ("key = '=1+1' or `key` = ''", [5, 6]),
        ('"id" <> 1 and id != 2 and id < 4', [3]), ("expires = inserted", []), ("id > 1.5 and id < 3", [2]),
        ("key = 'it''s'", []),
    ],
)  # fmt: skip
def test_a_scan_keeps_what_the_predicate_says(ebb: Command, where: str, ids: list[int]) -> None:
    assert _ids(ebb.right("scan", "t", "--where", where, "--format", "csv").out) == ids


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("id = 'x'", "value 'x' does not fit column id of type bigint"), ("key = 5", "write it '5'"),
        ("1 = 1", "compares two values"), ("key > id", "types that do not compare"), ("id in ()", "stands where"),
    ],
)  # fmt: skip
def test_a_predicate_that_does_not_fit_is_refused(ebb: Command, where: str, says: str) -> None:
    assert says in ebb.wrong("scan", "t", "--where", where, code=2)


def test_every_format_gives_the_same_records_on_standard_output_and_in_a_file(ebb: Command) -> None:
    live = {r.id: r.key for r in (*_FIRST, _SECOND[0])}

    def read(form: str, data: bytes) -> dict[int, str | None]:
        match form:
            case "csv":
                return {int(row["id"]): row["key"] for row in csv.DictReader(io.StringIO(data.decode(), newline=""))}
            case "jsonl":
                rows = [json.loads(line) for line in data.splitlines()]
            case "arrow":
                rows = pyarrow.ipc.open_stream(data).read_all().to_pylist()
            case _:
                rows = pq.read_table(io.BytesIO(data)).to_pylist()
        return {row["id"]: row["key"] for row in rows}

    for form in ("csv", "jsonl", "arrow", "parquet"):
        printed = io.BytesIO()
        with contextlib.redirect_stdout(io.TextIOWrapper(printed)) as _kept:
            assert main(["--warehouse", str(ebb.root), "scan", "t", "--format", form]) == 0
        assert read(form, printed.getvalue()) == live
        assert ebb.right("scan", "t", "--format", form, "--output", f"out.{form}").out == ""
        assert read(form, Path(f"out.{form}").read_bytes()) == live


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_what_a_scan_writes_can_be_loaded_again(ebb: Command, form: str) -> None:
    ebb.right("scan", "t", "--format", form, "--output", f"out.{form}")
    integer_table(open_warehouse(ebb.root), "again")

    told = ebb.right("load", "again", f"out.{form}", "--at", "3", "--json").json
    assert (told["admitted"], told["quarantined"]) == (9, 0)
    first = sorted(ebb.right("scan", "t", "--format", "jsonl").out.splitlines())
    assert sorted(ebb.right("scan", "again", "--format", "jsonl").out.splitlines()) == first


def test_values_cannot_speak_to_the_terminal_or_to_a_spreadsheet(ebb: Command) -> None:
    shown = ebb.right("probe", "t", "--from", "", "--columns", "key").out
    assert "\\x1b[31mred" in shown
    assert "\x1b" not in shown

    text = ebb.right("scan", "t", "--columns", "key", "--format", "csv", "--guard-formulas").out
    assert "'=1+1" in text.splitlines()


def test_a_limit_holds_for_a_scan(ebb: Command) -> None:
    assert len(_ids(ebb.right("scan", "t", "--limit", "4", "--format", "csv").out)) == 4
    assert ebb.right("scan", "t", "--limit", "0").out.endswith("(0 records)\n")


def test_composite_keys_of_many_types_are_found_by_their_leading_parts(ebb: Command) -> None:
    schema = "day DATE, n INT, name STRING, i BIGINT, x BIGINT"
    ebb.right(
        "create",
        "c",
        "--schema",
        schema,
        "--key",
        "day,n,name",
        "--inserted",
        "i",
        "--expires",
        "x",
        "--tick",
        "1",
        "--span",
        "6",
    )
    Path("c.csv").write_text(
        'day,n,name,i,x\n2013-01-01,1,"a,b",1,4\n2013-01-01,1,ax,1,4\n2013-01-01,2,a,1,4\n2013-01-02,1,a,1,4\n',
        encoding="utf-8",
    )
    ebb.right("load", "c", "c.csv", "--at", "1")

    def found(*arguments: str) -> int:
        return len(ebb.right("probe", "c", *arguments, "--format", "jsonl").out.splitlines())

    assert found("2013-01-01") == 3
    assert found("2013-01-01,1") == 2
    assert found('2013-01-01,1,"a,b"') == 1
    assert found("--prefix", "2013-01-01,1,a") == 2
    assert found("--from", "2013-01-01,2") == 2
    assert found("--from", "2013-01-01,1,ax", "--to", "2013-01-01,2") == 2
    assert found("2013-01-02,1,a", "2013-01-01,2,a") == 2
    assert "does not fit column day" in ebb.wrong("probe", "c", "soon", code=2)


# sql


def test_a_scan_that_is_told_how_to_start_spark_uses_it(ebb: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The options were ignored."""
    asked: list[str] = []
    by_spark = OpenTable.scan_by_spark

    def watched(table: OpenTable, *arguments: Any) -> Any:
        asked.append(table.name)
        return by_spark(table, *arguments)

    monkeypatch.setattr(OpenTable, "scan_by_spark", watched)
    for options in (["--conf", "spark.sql.ansi.enabled=true"], ["--engine", "spark"], ["--engine", "direct"], []):
        found = ebb.right("scan", "t", "--format", "csv", *options).out
        assert sorted(_ids(found)) == [1, 2, 3, 4, 5, 6, 7, 8, 9]

    assert asked == ["t", "t"]


def test_sql_sees_the_live_window_of_every_table(ebb: Command) -> None:
    assert (
        ebb.right("sql", "SELECT key, count(*) AS n FROM t WHERE key = 'b' GROUP BY key").out
        == "key  n\n───  ─\nb    2\n(1 record)\n"
    )
    assert _ids(ebb.right("sql", "SELECT id FROM t ORDER BY id", "--limit", "2", "--format", "csv").out) == [1, 2]
    ebb.right("sql", "SELECT id FROM t", "--format", "parquet", "--output", "out.parquet")
    assert sorted(pq.read_table("out.parquet")["id"].to_pylist()) == [1, 2, 3, 4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize(
    ("query", "spark_says", "duckdb_says"),
    [
        ("SELECT", "the query cannot be run: [PARSE_SYNTAX_ERROR]", "the query cannot be run: SELECT clause without"),
        ("SELECT * FROM nope", "there is no table nope; the tables are ", "there is no table nope; the tables are "),
        ("SELECT nope FROM t", "[UNRESOLVED_COLUMN", '"nope" not found'),
        ("DROP VIEW t", "only queries are answered", "one query is answered at a time, and this is DROP"),
        ("INSERT INTO t VALUES (1)", "only queries are answered", "this is INSERT"),
        ("CREATE TABLE x (a INT)", "only queries are answered", "this is CREATE"),
        ("SELECT 1; SELECT 2", "[PARSE_SYNTAX_ERROR]", "this is SELECT and SELECT"),
        ("SELECT reflect('java.lang.System', 'exit', 1)", "may not call reflect", "reflect does not exist"),
        ("SELECT * FROM read_csv('/etc/passwd')", "[UNRESOLVABLE_TABLE_VALUED_FUNCTION]", "operations are disabled"),
        ("SELECT 1 AS a, 2 AS a", "two columns have one name", "two columns have one name"),
        ("", "the query cannot be run", "this is nothing"),
    ],
)
def test_a_query_that_is_none_is_refused(ebb: Command, query: str, spark_says: str, duckdb_says: str) -> None:
    arguments = ("--format", "jsonl") if "AS a" in query else ()

    assert spark_says in ebb.wrong("sql", query, "--engine", "spark", *arguments, code=2)
    assert duckdb_says in ebb.wrong("sql", query, "--engine", "duckdb", *arguments, code=2)


def test_a_query_that_fails_is_one_line(ebb: Command) -> None:
    assert "DIVIDE_BY_ZERO" in ebb.wrong("sql", "SELECT 1 / 0", "--engine", "spark", code=1)
    assert "Division by zero" in ebb.wrong("sql", "SELECT id / 0 FROM t", "--engine", "duckdb", code=1)


# quarantine


def test_refused_records_are_shown_with_their_reasons(ebb: Command) -> None:
    lines = ebb.right("quarantine", "t").out.splitlines()
    assert lines[0] == "records  reason"
    assert sorted(lines[2:5]) == [
        "      1  inserted in the future", "      1  key key is null", "      1  lives longer than the span 6",
    ]  # fmt: skip
    told = ebb.right("quarantine", "t", "--json").json
    assert told["quarantined"] == 3
    assert sum(told["reasons"].values()) == 3
    assert sorted(record["record"]["id"] for record in told["records"]) == [10, 12, 13]
    assert len(ebb.right("quarantine", "t", "--limit", "1", "--json").json["records"]) == 1
    assert "(1 of 3 shown; see --limit and --output)" in ebb.right("quarantine", "t", "--limit", "1").out
    assert ebb.right("quarantine", "t", "--reason", "null", "--json").json["quarantined"] == 1


def test_refused_records_can_be_mended_and_handed_in_again(ebb: Command) -> None:
    ebb.right("quarantine", "t", "--reason", "null", "--output", "fixed.jsonl")
    record = json.loads(Path("fixed.jsonl").read_text(encoding="utf-8"))
    Path("fixed.jsonl").write_text(json.dumps({**record, "key": "repaired"}) + "\n", encoding="utf-8")

    ebb.right("update", "t", "fixed.jsonl")
    assert _ids(ebb.right("probe", "t", "repaired", "--format", "csv").out) == [10]


# see


def test_status_history_and_explain_tell_of_the_records(ebb: Command) -> None:
    told = ebb.right("status", "t", "--json").json
    assert (told["live_records"], told["clock"], told["deletion_bound_kept"]) == (9, 3, True)
    assert sum(cell["records"] for cell in told["cells"]) == told["stored_records"]
    assert told["last_update"]["admitted"] == 1
    assert "live         9 records in" in ebb.right("status", "t").out
    row = ebb.right("status").out.splitlines()[2].split()
    assert row[:3] == ["t", "3", "9"]

    commits = ebb.right("history", "t", "--json").json["commits"]
    assert [commit["op"] for commit in commits] == ["update", "load", "create"]
    assert (commits[0]["admitted"], commits[0]["quarantined"], commits[0]["expired_on_arrival"]) == (1, 3, 1)
    assert "expires 1 record, all in cohort" in ebb.right("explain", "t").out


# housekeeping


def test_seal_purge_and_erase_change_no_answer(ebb: Command) -> None:
    integer_table(open_warehouse(ebb.root), "h", strategy="norebuild", grid="1x1", deletion_bound="30", reader_time="1")
    for slot in range(1, 5):
        batch = records(*[(slot * 10 + life, "k", slot, slot + life) for life in range(1, 7)])
        ebb.right("update", "h", write_batch(Path(f"h{slot}.parquet"), batch), "--at", slot)
    window = ebb.right("probe", "h", "k", "--columns", "id", "--format", "csv").out
    hidden = ebb.right("status", "h", "--json").json
    assert hidden["stored_records"] > hidden["live_records"]

    shown = ebb.right("purge", "h", "--dry-run").out
    assert shown == "h: 3 files would become 1, cells touched: 1 (dry run: nothing was changed)\n"
    assert ebb.right("purge", "h", "--json").json["files_removed"] == 3, "the newest file holds nothing expired"
    assert ebb.right("purge", "h").out == "h: nothing to purge\n"
    told = ebb.right("status", "h", "--json").json
    assert told["stored_records"] == told["live_records"] == hidden["live_records"]
    assert told["files_waiting_for_erase"] > 0
    ebb.right("seal", "h")
    ebb.right("update", "h", "--at", "5")
    assert ebb.right("erase", "h", "--json").json["files_waiting"] == 0

    after = ebb.right("probe", "h", "k", "--columns", "id", "--format", "csv").out.splitlines()
    gone = {str(slot * 10 + life) for slot in range(1, 5) for life in range(1, 7) if slot + life == 5}
    assert sorted(after) == sorted(line for line in window.splitlines() if line not in gone)
    live = {f.path for f in open_warehouse(ebb.root).table("h").table.snapshot().files}
    assert set(open_warehouse(ebb.root).table("h").table.data_files()) == live


def test_drop_says_what_it_deletes(ebb: Command) -> None:
    assert "9 live records" in ebb.wrong("drop", "t", code=2)

    ebb.right("drop", "t", "--yes")
    assert os.listdir(ebb.root) == []


# run


def test_run_applies_what_has_landed_tick_by_tick(ebb: Command) -> None:
    ebb.right("alter", "t", "--landing", "landing")
    write_batch(Path("landing/4-a.csv"), records((40, "l", 4, 9)))
    write_batch(Path("landing/6.parquet"), records((60, "l", 6, 9), (61, None, 6, 9)))
    Path("landing/5-wrong.csv").write_text("a,b\n1,2\n", encoding="utf-8")

    result = ebb("run", "--once")

    assert result.code == 1
    assert "column a is not in the table" in result.err
    assert [line.split()[:2] for line in result.out.splitlines()] == [["t", "4"], ["t", "5"], ["t", "6"]]
    assert _ids(ebb.right("probe", "t", "l", "--format", "csv").out) == [40, 60]
    assert sorted(os.listdir("landing")) == ["_applied", "_lock", "_refused", "_taken"]
    assert ebb.right("run", "--once").out == "nothing to do: no tick is due, and no files have arrived\n"


def test_run_as_json_is_one_object(ebb: Command) -> None:
    ebb.right("alter", "t", "--landing", "landing")
    write_batch(Path("landing/4.csv"), records((40, "l", 4, 9)))

    told = ebb.right("run", "--once", "--json", "--table", "t").json
    assert told["failed"] is False
    assert [outcome["report"]["slot"] for outcome in told["outcomes"]] == [4]
