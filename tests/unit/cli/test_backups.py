from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import records, write_batch
from tests.unit.cli.command import Command, state_of


@pytest.fixture
def filled(with_table: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Return the command with a table of two records that expire at 4 and at 7."""
    monkeypatch.setenv("EBB_ENGINE", "direct")
    with_table.right("update", "t", write_batch(Path("b.csv"), records((1, "a", 1, 4), (2, "b", 1, 7))), "--at", "1")
    return with_table


def test_a_backup_says_what_it_copied_and_where_it_is(filled: Command) -> None:
    place = Path.cwd() / "b" / "t"
    would = filled.right("backup", "t", "b", "--dry-run").out.splitlines()
    assert would[0] == f"t: version 1, at 1, 2 records → {place} (dry run: nothing was changed)"
    assert not place.exists()

    first, second = filled.right("backup", "t", "b").out.splitlines()
    assert first == f"t: version 1, at 1, 2 records → {place}"
    assert second.startswith("  2 files copied (")
    assert ", these read back, " in second
    told = filled.right("backup", "t", "b", "--verify", "--json").json
    assert (told["files_copied"], told["verified"], told["dry_run"]) == (0, True, False)
    assert f"backup       {place}: version 1, 0s old" in filled.right("status", "t").out
    assert filled.right("status", "t", "--json").json["backups"][0]["place"] == str(place)


def test_damaged_copies_are_told(filled: Command) -> None:
    filled.right("backup", "t", "b")
    copy = next((Path.cwd() / "b").rglob("u*/**/*.parquet"))
    copy.write_bytes(b"PAR1" + copy.read_bytes()[4:-1] + b"!")

    assert (
        f"  1 damaged copy made anew: {copy.relative_to(Path.cwd() / 'b/t/t.backup')}"
        in filled.right("backup", "t", "b", "--verify").out
    )


def test_a_table_comes_back_and_waits_to_be_adopted(filled: Command) -> None:
    filled.right("backup", "t", "b")
    assert "its backup" in filled.right("drop", "t", "--yes").out

    assert "every byte of them is as it was written (dry run" in filled.right("restore", "b", "t", "--dry-run").out
    out = filled.right("restore", "b", "t", "--at", "5").out.splitlines()

    assert out[0].startswith("t: 1 record restored in 1 file, ")
    assert out[2:] == [
        "  1 record expired since and did not come back",
        "  nothing is written to it before ebb adopt t: the original may be alive",
    ]
    refusal = (
        "table t was restored from a backup of version 1, and nothing is written to it yet; "
        "run ebb adopt t if it goes on in place of the original, or ebb drop t"
    )
    assert filled.wrong("update", "t", "--at", "2", code=1) == refusal
    assert refusal in filled.right("status").out
    assert f"restored     {refusal}" in filled.right("status", "t").out
    assert filled("status", "--check").code == 1
    told = "t: it goes on in place of the table that version 1 of the backup was made of"
    assert filled.right("adopt", "t", "--dry-run").out == told.replace("goes", "would go") + (
        " (dry run: nothing was changed)\n"
    )
    assert filled.right("adopt", "t").out == told + "\n"
    assert filled.right("adopt", "t").out == "t: nothing to adopt: every commit is Ebb's own\n"
    assert filled.right("status", "--check").code == 0


def test_a_copy_of_another_name_leaves_the_landing_folder_to_the_original(filled: Command) -> None:
    filled.right("alter", "t", "--landing", "landing")
    filled.right("backup", "t", "b")

    out = filled.right("restore", "b", "t", "--as", "u").out
    assert f"  without a landing folder: {Path.cwd()}/landing stays the original's" in out
    told = filled.right("restore", "b", "t", "--as", "v", "--json").json
    assert (told["name"], told["records"], told["is_confirmed"]) == ("v", 2, True)
    filled.right("update", "u", "--at", "2")


def test_a_backup_is_let_go_of(filled: Command) -> None:
    filled.right("backup", "t", "b")

    stays = "t: b: nothing is erased there any more, and what is there stays\n"
    assert filled.right("backup", "t", "b", "--stop-managing").out == stays
    assert not filled.right("backup", "t", "b", "--stop-managing", "--json").json["was_managed"]
    assert "goes with no other option" in filled.wrong("backup", "t", "b", "--stop-managing", "--verify", code=2)
    assert "\nbackup " not in filled.right("status", "t").out


def test_what_cannot_be_restored_is_refused_with_a_next_step(filled: Command) -> None:
    filled.right("backup", "t", "b")
    before = state_of(Path.cwd())

    assert "exists already" in filled.wrong("restore", "b", "t", code=1)
    assert "there is no backup of table u in" in filled.wrong("restore", "b", "u", code=1)
    assert "table name '../u'" in filled.wrong("restore", "b", "t", "--as", "../u", code=2)
    assert "time 0 is before 1" in filled.wrong("restore", "b", "t", "--as", "u", "--at", "0", code=2)
    assert "is inside the warehouse" in filled.wrong("backup", "t", filled.root, code=2)
    assert "cannot be" in filled.wrong("backup", "t", "b.csv", code=1)

    assert state_of(Path.cwd()) == before
