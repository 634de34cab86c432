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


def test_a_case_is_held_shown_and_released(ebb: Command, table: OpenTable) -> None:
    assert ebb.right("held", "t").out == "nothing is held in t\n"
    planned = ebb.right("hold", "t", "k0", "k4", "--case", "c-1", "--dry-run").out
    assert planned == "t: case c-1 would hold 2 records (dry run: nothing was changed)\n"
    assert (
        ebb.right("hold", "t", "k0", "k4", "--case", "c-1", "--actor", "judge").out
        == "t: case c-1 holds 2 records, version 3\n"
    )
    assert (
        ebb.right("hold", "t", "k0", "k4", "--case", "c-1").out
        == "t: case c-1: nothing to hold, or it is held already\n"
    )
    later = ebb.right("hold", "t", "--where", "id > 3", "--arrivals", "--case", "c-2", "--json").json
    assert (later["records"], later["arrivals"], later["op"]) == (1, True, "hold")
    table.update(at=3, catch_up=True)

    assert ebb.right("held", "t").out.splitlines()[2:] == [
        "c-1   judge  1      2 keys                 1        1",
        f"c-2   {later['by']:5}  1      id > 3  also           1        0",
    ]
    assert [case["live"] for case in ebb.right("held", "t", "--json").json["cases"]] == [1, 1]
    shown = ebb.right("held", "t", "--case", "c-1", "--columns", "id,expires", "--format", "csv").out
    assert sorted(shown.splitlines()) == ["0,3", "4,7", "id,expires"]
    assert "held: 2 records, see ebb held t" in " ".join(ebb.right("status", "t").out.split()).replace(
        "held 2", "held: 2"
    )
    refused = ebb("forget", "t", "k4")
    assert refused.err == (
        "ebb: table t: 1 of the records are held and cannot be forgotten: cases c-1, c-2; "
        "run ebb release t --case ID first, if the case allows it\n"
    )
    released = ebb.right("release", "t", "--case", "c-1").out
    assert released.startswith("t: case c-1 released: 1 record held no longer, 1 of them expired, version ")


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (("hold", "t", "k0"), 2, "missing option"),
        (
            ("hold", "t", "--all", "--case", "c"),
            2,
            "covers what arrives later or does not; pass --arrivals or --no-arrivals",
        ),
        (("release", "t", "--case", "c"), 1, "table t has no hold for case c; it has none"),
        (("held", "t", "--case", "c"), 1, "table t has no hold for case c"),
        (("held", "t", "--case", "c", "--json"), 2, "--json is for the list of cases"),
    ],
)
@pytest.mark.usefixtures("table")
def test_a_hold_that_makes_no_sense_is_refused(arguments: tuple[str, ...], code: int, error: str, ebb: Command) -> None:
    refused = ebb(*arguments)

    assert refused.code == code
    assert error in refused.err
