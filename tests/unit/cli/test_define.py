from __future__ import annotations

import grp
import os
from pathlib import Path

import pytest

from tests.unit.cli.command import Command, state_of
from tests.unit.cli.conftest import DECLARED, SCHEMA, TIMES

_DECLARATION = {
    "name", "kind", "reader_features", "writer_features", "columns", "key", "inserted", "expires", "tick", "span", "origin", "ticks_per_span", "grid", "policy",
    "strategy", "deletion_bound", "reader_time", "quarantine_time", "log_retention", "landing",
    "tick_seconds", "span_seconds", "deletion_bound_seconds", "reader_time_seconds",
    "quarantine_time_seconds", "log_retention_seconds",
    "evidence_retention", "evidence_retention_seconds", "group", "label", "remember", "remember_seconds", "inserted_as", "expires_as", "inputs",
}  # fmt: skip
GROUP = grp.getgrgid(os.getegid()).gr_name


def test_create_says_where_the_table_is_and_why_it_is_laid_out_so(ebb: Command) -> None:
    created = ebb.right("create", "t", *DECLARED)

    first, second = created.out.splitlines()
    assert first == f"table t created in {ebb.root / 't'}"
    assert second.startswith("grid 5x4, runs 2x2: retire with cohorts of 2 ticks: ")


def test_create_as_json_is_the_declaration_with_its_reason(ebb: Command) -> None:
    told = ebb.right("create", "t", *DECLARED, "--json").json

    assert set(told) == _DECLARATION | {"reason", "dry_run", "folder"}
    assert told["columns"][1] == {"name": "key", "type": "string"}
    assert told["dry_run"] is False


def test_a_dry_run_of_create_makes_nothing(ebb: Command) -> None:
    told = ebb.right("create", "t", *DECLARED, "--landing", "landing", "--dry-run")

    assert "would be created" in told.out
    assert not ebb.root.exists()
    assert not Path("landing").exists()


def test_a_dry_run_of_create_refuses_what_create_would_refuse(with_table: Command) -> None:
    assert "exists already" in with_table.wrong("create", "t", *DECLARED, "--dry-run", code=1)


def test_a_table_can_be_declared_like_a_file(ebb: Command) -> None:
    Path("sample.csv").write_text("id,key,inserted,expires\n1,a,2013-01-01,2013-02-01\n", encoding="utf-8")
    times = ("--inserted", "inserted", "--expires", "expires", "--tick", "1d", "--span", "60d")

    told = ebb.right("create", "t", "--like", "sample.csv", "--key", "key,id", *times, "--json").json

    assert [column["type"] for column in told["columns"]] == ["bigint", "string", "date", "date"]
    assert (told["key"], told["tick"], told["span"]) == (["key", "id"], "1d", "60d")


def test_everything_that_can_be_declared_is_kept(ebb: Command) -> None:
    ebb.right(
        "create", "t", "--schema", SCHEMA, "--key", "key,id", *TIMES, "--tick", "2", "--span", "12", "--origin", "-7",
        "--grid", "3x4", "--policy", "chronological", "--strategy", "norebuild", "--deletion-bound", "40",
        "--reader-time", "3", "--quarantine-time", "9", "--landing", "landing",
    )  # fmt: skip

    told = ebb.right("status", "t", "--json").json
    assert (told["key"], told["origin"], told["grid"], told["policy"]) == (["key", "id"], "-7", "3x4", "2x2")
    assert (told["strategy"], told["deletion_bound"], told["reader_time"]) == ("norebuild", "40", "3")
    assert (told["quarantine_time"], told["landing"]) == ("9", str(Path("landing").resolve()))
    assert Path("landing").is_dir()


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        (("--schema", "id BIGINT"), 2, "'key', which is not a column"),
        (("--schema", "id BLOB"), 2, "type 'blob' is not known"),
        (("--schema", ""), 2, "it ends where"),
        (("--schema", SCHEMA + ", ID INT"), 2, "differ in case at most"),
        (
            ("--schema", SCHEMA + ", ID INT, `a b` INT, `c=d` INT, _EXP_SLOT INT"),
            2,
            "columns id and ID differ in case at most; column name _EXP_SLOT is reserved for Ebb; column names 'a b', 'c=d' hold one of the characters",
        ),
        (("--schema", SCHEMA + ", `a b` INT"), 2, 'that Delta tables refuse; pass --rename "a b=NEW"'),
        (("--schema", SCHEMA + ", _exp_slot INT"), 2, "reserved for Ebb"),
        (("--schema", SCHEMA + ", `a b` INT"), 2, "that Delta tables refuse"),
        (("--like", "there-is-no-such.csv"), 1, "no such file, folder or match"),
        (("--key", "nokey"), 2, "'nokey', which is not a column; the columns are id, key"),
        (("--key", ","), 2, "the key names no column"),
        (("--key", "key,key"), 2, "names a column twice"),
        (("--inserted", "pay"), 2, "must be timestamp, date, bigint or int"),
        (("--tick", "0"), 2, "not a positive integer"),
        (("--tick", "5m"), 2, "not a positive integer"),
        (("--tick", "7"), 2, "span 6 is shorter than the tick 7"),
        (("--span", "x"), 2, "duration 'x'"),
        (("--origin", "noon"), 2, "time 'noon' is not an integer"),
        (("--grid", "4by4"), 2, "grid '4by4' is not two positive numbers"),
        (("--grid", "0x4"), 2, "grid '0x4' is not two positive numbers"),
        (("--grid", "1000x1000"), 2, "the limit is 10000"),
        (("--policy", "zigzag"), 2, "policy 'zigzag' is not"),
        (("--strategy", "magic"), 2, "strategy 'magic' is not"),
        (("--strategy", "retire", "--grid", "4x4", "--policy", "random"), 2, "which policy random does not give"),
        (("--deletion-bound", "1"), 2, "deletion bound 1 is shorter than"),
        (("--nonsense", "1"), 2, "no such option"),
    ],
)
def test_a_wrong_declaration_is_refused_with_its_reason(
    ebb: Command, change: tuple[str, ...], code: int, says: str
) -> None:
    told = ebb.wrong("create", "t", *DECLARED, *change, code=code)

    assert says in told
    assert not (ebb.root / "t").exists()


def test_create_refuses_a_second_table_of_the_same_name(with_table: Command) -> None:
    assert "table t exists already" in with_table.wrong("create", "t", *DECLARED, code=1)


def test_what_create_misses_is_named(ebb: Command) -> None:
    assert ebb.wrong("create", code=2) == "missing argument 'NAME'; see ebb create --help"
    assert ebb.wrong("create", "t", code=2).startswith("missing option '--key'")
    assert "a table needs columns; pass --like FILE or --schema" in ebb.wrong(
        "create", "t", "--key", "key", *TIMES, "--tick", "1", "--span", "2", code=2
    )


def test_a_sample_file_that_cannot_be_read_is_named(ebb: Command) -> None:
    without = ("--key", "key", *TIMES, "--tick", "1", "--span", "6")
    Path("bad.parquet").write_bytes(b"not parquet")

    assert "none.csv: no such file" in ebb.wrong("create", "t", "--like", "none.csv", *without, code=1)
    assert "bad.parquet" in ebb.wrong("create", "t", "--like", "bad.parquet", *without, code=1)
    assert "does not tell a format" in ebb.wrong("create", "t", "--like", "/dev/null", *without, code=1)


def test_alter_shows_what_changed(with_table: Command) -> None:
    assert with_table.right("alter", "t", "--deletion-bound", "9").out == "deletion bound: 4 → 9\n"
    assert with_table.right("alter", "t", "--add-column", "z DECIMAL(9,2)").out == "column z decimal(9,2) added\n"
    assert "already" in with_table.right("alter", "t", "--deletion-bound", "9").out

    told = with_table.right("status", "t", "--json").json
    assert told["deletion_bound"] == "9"
    assert told["columns"][-1] == {"name": "z", "type": "decimal(9,2)"}


def test_a_dry_run_of_alter_changes_nothing(with_table: Command) -> None:
    before = state_of(with_table.root)

    shown = with_table.right("alter", "t", "--deletion-bound", "9", "--landing", "landing", "--dry-run").out
    told = with_table.right("alter", "t", "--quarantine-time", "3", "--dry-run", "--json").json

    assert "deletion bound: 4 → 9" in shown
    assert "nothing was changed" in shown
    assert told["quarantine_time"] == "3"
    assert told["dry_run"] is True
    assert state_of(with_table.root) == before
    assert not Path("landing").exists()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ((), "alter changes nothing"),
        (("--deletion-bound", "1"), "deletion bound 1 is shorter than"),
        (("--deletion-bound", "soon"), "duration 'soon'"),
        (("--add-column", "key INT"), "has a column key already, of type string"),
        (("--add-column", "KEY INT"), "differ in case at most"),
        (("--add-column", "a INT, b INT"), "names 2 columns"),
        (("--add-column", "a"), "it ends where"),
        (("--quarantine-time", "-1"), "not a positive integer"),
        (("--wait", "long", "--landing", "x"), "duration 'long'"),
    ],
)
def test_a_wrong_alteration_is_refused(with_table: Command, change: tuple[str, ...], says: str) -> None:
    assert says in with_table.wrong("alter", "t", *change, code=2)


@pytest.mark.parametrize("option", ["--tick", "--span", "--grid", "--policy", "--key", "--lifetime", "--reader-time"])
def test_what_is_fixed_at_creation_is_told_as_such(with_table: Command, option: str) -> None:
    """It was called no option, and another one was proposed."""
    told = with_table.wrong("alter", "t", option, "5", code=2)

    assert told.startswith(f"{option} is fixed when a table is created; write the table out (ebb scan NAME ")
    assert "no such option: --nonsense" in with_table.wrong("alter", "t", "--nonsense", "5", code=2)
    assert "no such option: --tick" in with_table.wrong("update", "t", "--tick", "5", code=2)


def test_a_landing_folder_can_be_taken_away_again(with_table: Command) -> None:
    with_table.right("alter", "t", "--landing", "landing")
    with_table.right("alter", "t", "--landing", "")

    assert with_table.right("status", "t", "--json").json["landing"] is None


def test_drop_asks_and_without_a_terminal_wants_to_be_told(with_table: Command) -> None:
    assert "pass --yes" in with_table.wrong("drop", "t", code=2)
    assert with_table.right("drop", "t", "--dry-run").out == "table t with 0 live records in 0 files would be deleted\n"
    assert (with_table.root / "t").is_dir()

    assert "was deleted" in with_table.right("drop", "t", "--yes").out
    assert list(with_table.root.iterdir()) == []
    assert "there is no table t" in with_table.wrong("drop", "t", "--yes", code=1)


def test_drop_as_json(with_table: Command) -> None:
    assert with_table.right("drop", "t", "--dry-run", "--json").json["dropped"] is False
    told = with_table.right("drop", "t", "--yes", "--json").json
    assert told == {"name": "t", "dropped": True, "live_records": 0, "files": 0, "left_behind": None, "backups": []}


@pytest.fixture
def landed(ebb: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Return the command with a table t whose landing folder holds a file of every sort."""
    monkeypatch.setenv("EBB_ENGINE", "direct")
    ebb.right("create", "t", *DECLARED, "--landing", "landing")
    head = "id,key,inserted,expires\n"
    Path("landing/1-good.csv").write_text(head + "1,a,1,4\n", encoding="utf-8")
    Path("landing/1-bad.csv").write_text("id,key\n1,a\n", encoding="utf-8")
    ebb("run", "--once")
    for place in ("landing", "landing/_taken/2"):
        Path(place).mkdir(exist_ok=True, parents=True)
        Path(place, "2-late.csv").write_text(head, encoding="utf-8")
    return ebb


LEFT = """left in {here}/landing, where ebb run does not look any more:
  waiting: 1 file; {lost}
  waiting, in _taken: 1 file; {lost}
  refused, in _refused: 1 file; {fix}
  applied, in _applied: 1 file; copies of what was applied, which nobody erases now: delete
"""


def test_drop_says_which_files_stay_in_the_landing_folder(landed: Command) -> None:
    """They were left there in silence."""
    before = state_of(Path("landing"))
    lost = "in no table: keep, delete, or move to the landing folder of another table"
    told = LEFT.format(here=Path.cwd(), lost=lost, fix=lost)

    assert (
        landed.right("drop", "t", "--dry-run").out == f"table t with 1 live record in 1 file would be deleted\n{told}"
    )
    left = landed.right("drop", "t", "--dry-run", "--json").json["left_behind"]
    assert left == {"folder": f"{Path.cwd()}/landing", "waiting": 1, "taken": 1, "refused": 1, "applied": 1}
    assert landed.right("drop", "t", "--yes").out.endswith(f"was deleted\n{told}")
    assert state_of(Path("landing")) == before


def test_alter_says_which_files_stay_in_the_landing_folder_that_is_given_up(landed: Command) -> None:
    """They were left there in silence."""
    before, here = state_of(Path("landing")), Path.cwd()
    to = f"move to {here}/other"
    told = LEFT.format(here=here, lost=to, fix=f"fix and {to}")

    assert told in landed.right("alter", "t", "--landing", "other", "--dry-run").out
    assert "keep, delete" in landed.right("alter", "t", "--landing", "", "--dry-run").out
    assert landed.right("alter", "t", "--landing", "landing", "--json").json["left_behind"] is None
    assert landed.right("alter", "t", "--landing", "other", "--json").json["left_behind"]["refused"] == 1
    assert landed.right("alter", "t", "--landing", "landing").out == f"landing: {here}/other → {here}/landing\n"
    assert state_of(Path("landing")) == before


def test_a_landing_folder_that_nobody_can_look_into_does_not_keep_a_table_from_being_dropped(ebb: Command) -> None:
    ebb.right("create", "t", *DECLARED, "--landing", "landing")
    Path("landing").rmdir()

    assert ebb.right("drop", "t", "--yes").out == "table t with 0 live records in 0 files was deleted\n"


@pytest.mark.parametrize(
    ("folder", "says"),
    [
        ("{root}", "is the warehouse {root}; choose a folder that is apart from the warehouse"),
        ("{root}/..", "contains the warehouse {root};"),
        ("{root}/t", "is inside the warehouse {root}, in the folder of table t;"),
        ("{root}/t.quarantine/x", "is inside the warehouse {root}, in the folder of table t;"),
        ("{root}/u/x", "is inside the warehouse {root}, in the folder of table u;"),
        ("{root}/elsewhere", "is inside the warehouse {root};"),
        (
            "landing",
            "landing folder {here}/landing is the landing folder of table t; choose one for table u that is apart",
        ),
        ("landing/x", "is inside {here}/landing, the landing folder of table t;"),
        (".", "landing folder {here} contains {here}/landing, the landing folder of table t;"),
        ("link", "landing folder {here}/landing is the landing folder of table t;"),
        ("link/x", "is inside {here}/landing, the landing folder of table t;"),
        ("loop", "landing folder loop cannot be found"),
        ("~no-such-user/x", "landing folder ~no-such-user/x cannot be found"),
    ],
)
def test_a_landing_folder_belongs_to_one_table_and_is_apart_from_the_warehouse(
    ebb: Command, folder: str, says: str
) -> None:
    """Two tables took each other's files, and a run moved the files of a table into folders of its own."""
    ebb.right("create", "t", *DECLARED, "--landing", "landing")
    Path("link").symlink_to("landing")
    Path("loop").symlink_to("loop")
    places = {"root": ebb.root.resolve(), "here": Path.cwd()}
    folder, says = folder.format(**places), says.format(**places)

    assert says in ebb.wrong("create", "u", *DECLARED, "--landing", folder, code=2)
    assert says in ebb.wrong("create", "u", *DECLARED, "--landing", folder, "--dry-run", code=2)
    ebb.right("create", "u", *DECLARED)
    assert says in ebb.wrong("alter", "u", "--landing", folder, code=2)
    assert ebb.right("status", "u", "--json").json["landing"] is None


def test_where_a_table_that_cannot_be_read_has_its_files_is_not_known(ebb: Command) -> None:
    ebb.right("create", "t", *DECLARED, "--landing", "landing")
    next((ebb.root / "t" / "_delta_log").glob("*.json")).write_text("damaged", encoding="utf-8")

    ebb.right("create", "u", *DECLARED, "--landing", "other")


def test_a_table_keeps_its_landing_folder_or_takes_one_inside_it(ebb: Command) -> None:
    ebb.right("create", "t", *DECLARED, "--landing", "landing")

    assert "already" in ebb.right("alter", "t", "--landing", "landing").out
    ebb.right("alter", "t", "--landing", "landing/inner")


def test_a_landing_folder_that_cannot_be_one_is_refused(with_table: Command) -> None:
    Path("file").write_text("", encoding="utf-8")

    assert "cannot be a folder" in with_table.wrong("alter", "t", "--landing", "file", code=1)
    assert "cannot be a folder" in with_table.wrong("create", "u", *DECLARED, "--landing", "file/below", code=1)
    assert "is not Unicode" in with_table.wrong("alter", "t", "--landing", "\udcff", code=2)


@pytest.mark.parametrize("name", ["no such group", "nul\0", "\udcff", "-1"])
def test_a_group_that_is_not_there_is_refused(ebb: Command, name: str) -> None:
    assert "there is no group" in ebb.wrong("create", "t", *DECLARED, f"--group={name}", code=2)
    assert "there is no group" in ebb.wrong("create", "t", *DECLARED, f"--group={name}", "--dry-run", code=2)
    ebb.right("create", "t", *DECLARED)
    assert "there is no group" in ebb.wrong("alter", "t", f"--group={name}", code=2)


def test_commands_take_a_group(ebb: Command) -> None:
    told = ebb.right("create", "t", *DECLARED, "--group", GROUP, "--json").json
    assert told["group"] == GROUP
    assert ebb.right("alter", "t", "--group", "").out == f"group: {GROUP} → none\n"
    assert ebb.right("alter", "t", "--group", GROUP).out == f"group: none → {GROUP}\n"
    assert ebb.right("status", "t", "--json").json["group"] == GROUP
