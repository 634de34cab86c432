"""``ebb check`` and ``ebb repair``: a line for each finding, exit codes for monitoring, one object for programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ebb import OpenTable
from ebb.warehouse.store.paths import side_file
from tests.builders import open_warehouse
from tests.foreign import filled
from tests.unit.cli.command import Command


@pytest.fixture
def table(with_table: Command) -> OpenTable:
    found = open_warehouse(with_table.root).table("t")
    filled(found)
    return found


def lose_side_files(table: OpenTable, count: int) -> list[str]:
    paths = [side_file(file.path) for file in table.table.snapshot().files[:count]]
    for path in paths:
        Path(table.table.folder, path).unlink()
    return paths


def test_a_sound_table_is_told_in_one_line(with_table: Command, table: OpenTable) -> None:
    version, files = table.table.snapshot().version, len(table.table.snapshot().files)

    quick, deep = with_table.right("check", "t").out, with_table.right("check", "t", "--deep").out

    assert quick.startswith(f"t: version {version}, {files} files, ")
    assert ": sound (log, footers and what lies beside them, " in quick
    assert ": sound (every byte and record, " in deep
    assert quick.count("\n") == deep.count("\n") == 1
    told = with_table.right("check", "t", "--json").json
    assert (told["is_sound"], told["findings"], told["version"], told["deep"]) == (True, [], version, False)


def test_findings_are_aligned_lines_and_the_command_fails(with_table: Command, table: OpenTable) -> None:
    lost = lose_side_files(table, 2)
    Path(table.table.folder, table.table.snapshot().files[2].path).unlink()

    told = with_table("check", "t")

    lines = told.out.splitlines()
    assert told.code == 1
    assert told.err == "ebb: table t is not as it should be: 1 damage and 2 warnings\n"
    assert ": 1 damage and 2 warnings (log, footers" in lines[0]
    warnings = [line for line in lines if line.startswith("  warning  side-file     ")]
    assert len({line.index("is missing; run ebb repair t") for line in warnings}) == 1
    assert sorted(line.split()[2] for line in warnings) == sorted(lost)
    assert [line.split()[1] for line in lines if line.startswith("  damage ")] == ["file-missing"]
    as_json = with_table("check", "t", "--json")
    assert as_json.code == 1
    assert {found["step"] for found in as_json.json["findings"]} == {"run ebb repair t", "restore it from a backup"}
    assert set(as_json.json["findings"][0]) == {"code", "severity", "where", "fact", "step"}


def test_a_repair_says_what_it_did_and_what_is_left(with_table: Command, table: OpenTable) -> None:
    lose_side_files(table, 2)
    dry = with_table.right("repair", "t", "--dry-run")
    assert dry.out.startswith("t: 2 findings would be repaired\n  side-file")
    assert with_table("check", "t").code == 1
    assert len(with_table.right("repair", "t", "--json").json["fixed"]) == 2
    assert with_table.right("repair", "t").out == "t: nothing to repair\n"
    assert with_table.right("check", "t", "--deep").code == 0

    lose_side_files(table, 1)
    Path(table.table.folder, table.table.snapshot().files[2].path).unlink()
    told = with_table("repair", "t")

    assert told.code == 1
    assert told.err == "ebb: table t is not as it should be: 1 damage\n"
    assert "t: 1 finding repaired\n" in told.out
    assert "left as it is:\n  damage  file-missing" in told.out


def test_a_lost_head_record_is_confirmed(with_table: Command, table: OpenTable) -> None:
    (table.table.hidden / "head").unlink()

    assert "run ebb repair t --confirm-restore" in with_table("check", "t").out
    assert with_table("repair", "t").code == 1
    assert with_table.right("repair", "t", "--confirm-restore").out.startswith("t: 1 finding repaired")
    assert with_table.right("update", "t", "--at", "5").code == 0


def test_a_table_that_is_not_there_is_an_error_and_no_finding(with_table: Command) -> None:
    assert with_table.wrong("check", "nothing", code=1).startswith("there is no table nothing in ")
