"""Refused records: shown with where they stand, written out, applied again, removed (F5, F15, B12)."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
from pathlib import Path

import pytest

from tests.builders import open_warehouse
from tests.faults import Interruption, armed
from tests.unit.cli.command import Command
from tests.unit.cli.conftest import DECLARED

LINES = ["id,key,inserted,expires,pay", "1,a,5,9,x", "2,b,9,12,x", "3,,5,9,x", "four,d,5,9,x", "5,e,5"]


@pytest.fixture
def refused(ebb: Command, tmp_path: Path) -> Command:
    ebb.right("create", "t", *DECLARED, "--quarantine-time", 20)
    (tmp_path / "b.csv").write_text("\n".join(LINES) + "\n")
    result = ebb("update", "t", tmp_path / "b.csv", "--at", 5, "--engine", "direct")
    assert result.code == 0
    return ebb


def counts(command: Command) -> dict[str, int]:
    reasons: dict[str, int] = command.right("quarantine", "t", "--json").json["reasons"]
    return reasons


def test_a_batch_of_which_most_is_refused_warns(refused: Command) -> None:
    shown = refused.right("history", "t", "--json", "--limit", 1).json["commits"][0]
    assert (shown["received"], shown["quarantined"]) == (5, 4)


def test_where_a_record_stands_is_shown(refused: Command) -> None:
    text = refused.right("quarantine", "t").out

    assert "b.csv:3" in text
    records = refused.right("quarantine", "t", "--json").json["records"]
    assert {(r["file"], r["line"], r["column"], r["reason"]) for r in records} == {
        ("b.csv", 3, None, "inserted in the future"),
        ("b.csv", 4, None, "key key is null"),
        ("b.csv", 5, "id", "id does not fit bigint"),
        ("b.csv", 6, None, "it has too few fields"),
    }


def test_a_reason_that_no_record_has_is_told_as_such(refused: Command) -> None:
    said = refused.right("quarantine", "t", "--reason", "after", "--output", "q.jsonl").out

    assert said == "none of the 4 records in the quarantine of t has a reason with 'after'\n"
    assert not Path("q.jsonl").exists()


def test_records_are_written_out_repaired_and_applied(refused: Command) -> None:
    said = refused.right("quarantine", "t", "--reason", "id does", "--output", "q.jsonl").out
    assert said == "1 record written to q.jsonl; repair it, then: ebb quarantine t --retry q.jsonl\n"
    assert json.loads(Path("q.jsonl").read_text())["id"] == "four"
    Path("q.jsonl").write_text(Path("q.jsonl").read_text().replace("four", "4"))
    report = refused.right("quarantine", "t", "q.jsonl", "--retry", "--at", 6, "--json").json
    assert (report["slot"], report["admitted"]) == (6, 1)
    assert refused.right("quarantine", "t", "--clear", "--reason", "id does").out == (
        "1 record removed from the quarantine of t\n"
    )

    assert counts(refused) == {"inserted in the future": 1, "key key is null": 1, "it has too few fields": 1}


def test_what_was_written_out_can_be_applied_or_is_said_to_be_written_anew(ebb: Command, tmp_path: Path) -> None:
    """Lines of CSV among lines of JSON were written out as if the file could be applied."""
    ebb.right("create", "t", *DECLARED, "--quarantine-time", 20)
    lines = [*LINES, '"6\n6",f', "seven,g,5,9,x"]
    (tmp_path / "b.csv").write_text("\n".join(lines) + "\n")
    ebb("update", "t", tmp_path / "b.csv", "--at", 5, "--engine", "direct")
    said = ebb.right("quarantine", "t", "--output", "q q.jsonl").out.splitlines()
    written = Path("q q.jsonl").read_text()
    unread = [n for n, line in enumerate(written.splitlines(), start=1) if line[0] not in "{6"]

    assert said == [
        "6 records written to q q.jsonl; repair them, then: ebb quarantine t --retry 'q q.jsonl'",
        f"lines {unread[0]}, {unread[1]} could not be read as records of the table: write each as a JSON object with its columns, or remove it",
    ]
    told = {r["reason"]: r["is_readable"] for r in ebb.right("quarantine", "t", "--json").json["records"]}
    assert [reason for reason, is_readable in told.items() if not is_readable] == ["it has too few fields"]
    kept = [line for line in written.replace("four", "4").replace("seven", "7").splitlines() if line.startswith("{")]
    Path("q q.jsonl").write_text("\n".join(kept))
    report = ebb("quarantine", "t", "--retry", "q q.jsonl", "--at", 6, "--json").json
    assert (report["received"], report["admitted"]) == (4, 2)
    assert report["reasons"] == {"key key is null": 1, "inserted in the future": 1}


def test_records_that_were_written_out_and_not_repaired_are_said_to_be_known(ebb: Command, tmp_path: Path) -> None:
    """The command that applies them as they are is another one."""
    ebb.right("create", "t", *DECLARED, "--quarantine-time", 20)
    (tmp_path / "b.csv").write_text("id,key,inserted,expires\n1,a,6,9\n")
    ebb("update", "t", tmp_path / "b.csv", "--at", 5, "--engine", "direct")
    ebb.right("quarantine", "t", "--output", "q.jsonl")
    said = ebb.right("quarantine", "t", "--retry", "q.jsonl", "--at", 6).out.splitlines()

    assert said[-2:] == [
        "  left out 1 record that came before, at slot 5: q.jsonl",
        "  what was refused then and is fine as it is: ebb quarantine t --retry",
    ]
    assert ebb("quarantine", "t", "--retry", "--at", 7, "--json").json["admitted"] == 1


def test_what_was_written_out_is_utf_8_whatever_the_table_declares(ebb: Command, tmp_path: Path) -> None:
    ebb.right("create", "t", *DECLARED, "--quarantine-time", 20, "--encoding", "latin-1")
    (tmp_path / "b.csv").write_bytes("id,key,inserted,expires\none,é,5,9\n".encode("latin-1"))
    ebb("update", "t", tmp_path / "b.csv", "--at", 5, "--engine", "direct")
    ebb.right("quarantine", "t", "--output", "q.jsonl")
    Path("q.jsonl").write_text(Path("q.jsonl").read_text(encoding="utf-8").replace("one", "1"), encoding="utf-8")
    assert ebb.right("quarantine", "t", "--retry", "q.jsonl", "--at", 6, "--json").json["admitted"] == 1
    (tmp_path / "c.csv").write_bytes("id,key,inserted,expires\n2,ü,7,9\n".encode("latin-1"))
    assert ebb.right("quarantine", "t", "--retry", tmp_path / "c.csv", "--at", 7, "--json").json["admitted"] == 1

    assert ebb.right("sql", "SELECT key FROM t ORDER BY id", "--format", "csv").out == "key\né\nü\n"


@pytest.mark.parametrize(
    "name", ["q", "q.csv", "q.txt", "q.parquet", "q.jsonl.gz", "_q.jsonl", ".q.jsonl", "a:b.jsonl"]
)
def test_a_name_that_could_not_be_applied_again_is_refused(refused: Command, name: str) -> None:
    assert "; name it like refused.jsonl" in refused.wrong("quarantine", "t", "--output", name, code=2)
    assert not Path(name).exists()


def test_records_that_are_fine_now_are_applied_as_they_are(refused: Command) -> None:
    refused.right("update", "t", "--at", 9, "--catch-up", "--yes")
    report = refused("quarantine", "t", "--retry", "--at", 10, "--json").json
    assert (report["received"], report["admitted"], report["quarantined"]) == (3, 1, 2)

    assert counts(refused) == {"key key is null": 1, "id does not fit bigint": 1, "it has too few fields": 1}
    assert refused.right("scan", "t", "--columns", "id", "--format", "csv").out == "id\n2\n"


def test_a_retry_that_is_interrupted_anywhere_admits_nothing_twice_and_loses_nothing(
    refused: Command, tmp_path: Path
) -> None:
    refused.right("update", "t", "--at", 9, "--catch-up", "--yes")
    shutil.copytree(refused.root, tmp_path / "before")
    for at in itertools.count():
        shutil.rmtree(refused.root)
        shutil.copytree(tmp_path / "before", refused.root)
        table = open_warehouse(refused.root).table("t")
        with contextlib.suppress(Interruption), armed(refused.root, Interruption(), at) as fault:
            table.retry_quarantine(at=10)
        clock = refused.right("status", "t", "--json").json["clock"]
        again = refused("quarantine", "t", "--retry", "--reason", "future", "--at", clock + 1)

        assert again.code in (0, 1), f"interrupted at step {at}"
        assert refused.right("scan", "t", "--columns", "id", "--format", "csv").out == "id\n2\n"
        left = {"key key is null": 1, "id does not fit bigint": 1, "it has too few fields": 1}
        assert counts(refused) == left, f"interrupted at step {at}"
        if len(fault.seen) <= at:
            break
    assert at > 20


def test_what_is_refused_again_stays_with_where_it_stood_however_often(refused: Command) -> None:
    """The second retry took the records for applied ones and cleared them."""
    before = refused.right("quarantine", "t", "--json").json["records"]
    for slot in (6, 7, 8):
        said = refused.wrong("quarantine", "t", "--retry", "--at", slot, code=1)
        assert (
            "that can be applied as it is: id does not fit bigint (1), inserted in the future (1), key key is" in said
        )
    assert refused.right("status", "t", "--json").json["clock"] == 5, "the clock does not move for nothing"

    after = refused.right("quarantine", "t", "--json").json["records"]
    shown = [sorted((r["file"], r["line"], r["reason"], str(r["record"])) for r in some) for some in (before, after)]
    assert shown[0] == shown[1]


def test_what_is_refused_again_leaves_when_the_time_of_its_first_refusal_is_over(refused: Command) -> None:
    refused.right("update", "t", "--at", 9, "--catch-up", "--yes")
    report = refused.right("quarantine", "t", "--retry", "--at", 10, "--dry-run", "--json").json
    assert (report["received"], report["admitted"], report["quarantined"]) == (3, 1, 2)
    refused("quarantine", "t", "--retry", "--at", 10)
    slots = {r["slot"] for r in refused.right("quarantine", "t", "--json").json["records"]}
    assert slots == {5}
    refused.right("update", "t", "--at", 26, "--catch-up", "--yes")
    refused.right("erase", "t")

    assert counts(refused) == {}


def test_a_batch_that_came_too_early_is_applied_by_a_retry(ebb: Command, tmp_path: Path) -> None:
    """Its content had been recorded as applied, although every record was refused."""
    ebb.right("create", "t", *DECLARED, "--quarantine-time", 20)
    for slot in (5, 6):
        (tmp_path / "b.csv").write_text(f"id,key,inserted,expires\n1,a,7,12\n{slot},b,7,11\n")
        ebb("update", "t", tmp_path / "b.csv", "--at", slot, "--engine", "direct")
    assert ebb("quarantine", "t", "--retry", "--reason", "future", "--at", 7, "--json").json["admitted"] == 4

    assert sorted(ebb.right("scan", "t", "--columns", "id", "--format", "csv").out.split()) == [
        "1",
        "1",
        "5",
        "6",
        "id",
    ]
    assert counts(ebb) == {}


def test_a_retry_keeps_to_the_rule_and_to_every_digit(ebb: Command, tmp_path: Path) -> None:
    ebb.right("create", "t", "--schema", "k STRING, d DECIMAL(38,20), came INT, until INT", "--key", "k",
              "--inserted", "came", "--expires", "until", "--tick", 1, "--span", 9, "--quarantine-time", 20)  # fmt: skip
    lines = ['{"k": "a", "d": 0.12345678901234567891, "came": 6, "until": 9}', '{"k": 5, "d": 1, "came": 5, "until": 9}',
             '{"k": "\\ud800", "d": 1, "came": 5, "until": 9}']  # fmt: skip
    (tmp_path / "b.jsonl").write_text("\n".join(lines))
    ebb("update", "t", tmp_path / "b.jsonl", "--at", 5, "--engine", "direct")
    assert ebb("quarantine", "t", "--retry", "--at", 6, "--json").json["admitted"] == 1

    assert ebb.right("scan", "t", "--columns", "d", "--format", "csv").out == "d\n0.12345678901234567891\n"
    assert counts(ebb) == {"k does not fit string": 2}


def test_the_quarantine_is_cleared_and_nothing_of_it_is_left(refused: Command) -> None:
    assert refused.right("quarantine", "t", "--clear", "--dry-run").out == (
        "4 records would be removed from the quarantine of t\n"
    )
    assert refused.right("quarantine", "t", "--clear", "--json").json == {"name": "t", "cleared": 4, "dry_run": False}
    assert list((refused.root / "t.quarantine").rglob("*.parquet")) == []
    assert refused.right("quarantine", "t").out == "the quarantine of t is empty\n"
    assert "holds no record that can be applied" in refused.wrong("quarantine", "t", "--retry", "--at", 6, code=1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--retry", "--clear"), "are three things to do; pass one of them"),
        (("x.csv",), "files and --at go with --retry"),
        (("--at", "5"), "files and --at go with --retry"),
        (("x.csv", "--retry", "--reason", "x"), "pass one of them"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments: tuple[str, ...], said: str, refused: Command) -> None:
    assert said in refused.wrong("quarantine", "t", *arguments, code=2)


def test_an_erasure_names_the_files_of_the_quarantine_that_it_deletes(ebb: Command, tmp_path: Path) -> None:
    """Neither the text nor the dry run told of them."""
    ebb.right("create", "t", *DECLARED[:-3], "10", "--span", "60", "--quarantine-time", "95")
    (tmp_path / "b.csv").write_text("id,key,inserted,expires\n1,,55,90\n2,b,55,90\n", encoding="utf-8")
    ebb("update", "t", tmp_path / "b.csv", "--at", 60, "--engine", "direct")
    assert "quarantine" not in ebb.right("erase", "t").out
    ebb.right("update", "t", "--at", 140, "--catch-up", "--yes")

    would = ebb.right("erase", "t", "--dry-run").out
    assert would.endswith("; 1 file of the quarantine would be erased (dry run: nothing was changed)\n")
    assert ebb.right("erase", "t", "--dry-run", "--json").json["quarantine_files_erased"] == 1
    assert ebb.right("quarantine", "t", "--json").json["quarantined"] == 1
    assert ebb.right("erase", "t").out.endswith("; 1 file of the quarantine erased\n")
    assert ebb.right("quarantine", "t", "--json").json["quarantined"] == 0
