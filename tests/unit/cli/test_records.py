"""The commands that change single records: what they print, and what they refuse."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from ebb import OpenTable
from tests.builders import arrow_batch, integer_table, open_warehouse, scanned_ids
from tests.model import Record
from tests.unit.cli.command import Command


@pytest.fixture
def ebb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(tmp_path / "w", capsys)


@pytest.fixture
def table(ebb: Command) -> OpenTable:
    """Return a table with five records, one of each key."""
    found = integer_table(open_warehouse(ebb.root), grid="1x1", strategy="norebuild")
    found.update(arrow_batch([Record(n, f"k{n}", 1, 3 + n) for n in range(5)]), at=1)
    return found


def test_forget_says_what_it_did_and_what_happens_to_the_bytes(ebb: Command, table: OpenTable) -> None:
    first, *rest = ebb.right("forget", "t", "k0", "k1").out.splitlines()

    assert first.startswith("t: 2 live records forgotten, version 2, ")
    assert rest[0].startswith("  1 file became 1 (")
    assert rest[1] == "  their bytes are on disk until 3 at the latest: updates erase them, or ebb erase t"
    assert scanned_ids(table) == [2, 3, 4]
    assert ebb.right("forget", "t", "k0").out == "t: nothing to forget: no record was found\n"
    assert "  2 files erased from the disk" in ebb.right("forget", "t", "k2", "--within", 0).out


def test_a_dry_run_says_so(ebb: Command, table: OpenTable) -> None:
    out = ebb.right("forget", "t", "k0", "--dry-run").out.splitlines()

    assert out == [
        "t: 1 live record would be forgotten",
        "  1 file would become 1, cells touched: 1",
        "(dry run: nothing was changed)",
    ]
    assert scanned_ids(table) == [0, 1, 2, 3, 4]


def test_keys_come_from_standard_input_so_that_nobody_sees_them(
    ebb: Command, table: OpenTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("k0\nk3\n"))

    told = ebb.right("forget", "t", "--keys-from", "-", "--case", "c-1", "--actor", "ann", "--json").json

    assert (told["records"], told["case"], told["by"], told["is_committed"]) == (2, "c-1", "ann", True)
    assert scanned_ids(table) == [1, 2, 4]


def test_a_condition_for_more_than_half_needs_consent(ebb: Command, table: OpenTable) -> None:
    refused = ebb("forget", "t", "--where", "id > 1")

    assert (refused.code, refused.err) == (
        1, "ebb: it would forget 3 of 5 live records, more than half of them; pass --yes if that is meant\n",
    )  # fmt: skip
    ebb.right("forget", "t", "--where", "id > 1", "--yes")
    assert scanned_ids(table) == [0, 1]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((), "it takes keys or a condition, one of them; pass KEY..., --keys-from or --where"),
        (("k0", "--where", "id = 1"), "it takes keys or a condition, one of them; pass KEY..., --keys-from or --where"),
        (("k0", "--within", "soon"), "duration 'soon' is not a positive integer"),
        (("k0", "--case", "a\x1bb"), "case 'a\\x1bb' is not a short text"),
        (("k0", "--actor", ""), "actor '' is not a short text"),
        (("--where", "nope = 1"), "is not a column"),
    ],
)
@pytest.mark.usefixtures("table")
def test_what_makes_no_sense_is_refused(arguments: tuple[str, ...], error: str, ebb: Command) -> None:
    refused = ebb("forget", "t", *arguments)

    assert refused.code == 2
    assert error in refused.err


def test_amend_says_when_records_expire_and_how_many_of_them_sooner(ebb: Command, table: OpenTable) -> None:
    planned = ebb.right("amend", "t", "k0", "k4", "--expires", 5, "--dry-run").out.splitlines()
    first, second = ebb.right("amend", "t", "k0", "k4", "--expires", 5).out.splitlines()

    assert planned == [
        "t: 2 records would expire at 5 (slot 5)",
        "  1 file would become 2, cells touched: 1; 1 of them sooner than before",
        "(dry run: nothing was changed)",
    ]
    assert first.startswith("t: 2 records expire at 5 (slot 5), version 2, ")
    assert second.startswith("  1 file became 2 (")
    assert [row["expires"] for row in table.probe("k0", "k4").to_pylist()] == [5, 5]
    again = ebb.right("amend", "t", "k0", "--expires", 5).out
    assert again == "t: nothing to amend: no live record was found that expires at another time\n"
    told = ebb.right("amend", "t", "--where", "id = 3", "--expires", 4, "--json").json
    assert (told["records"], told["to_slot"], told["shortened"], told["is_committed"]) == (1, 4, 1, True)


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (("k0",), 2, "missing option"),
        (("k0", "--expires", 1), 1, "records cannot expire at 1: the clock of table t is at 1; choose a later time, or run ebb forget"),
        (("k0", "--expires", 9), 1, "longer than the span 6 if it expired at 9; choose a time up to 7, or choose other records"),
        (("--where", "id >= 0", "--expires", 2, "--yes"), 0, ""),
        (("--where", "id >= 0", "--expires", 2), 1, "it would shorten the lives of 5 of 5 live records, more than half of them; pass --yes if that is meant"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("table")
def test_what_cannot_be_amended_is_refused(arguments: tuple[object, ...], code: int, error: str, ebb: Command) -> None:
    refused = ebb("amend", "t", *arguments)

    assert refused.code == code
    assert error in refused.err
