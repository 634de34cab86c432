"""load, update and run as far as they need no JVM: empty ticks, Parquet, and what is refused before Spark starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ebb.cli.main import main
from ebb.warehouse.store.lock import locked
from tests.builders import records, write_batch
from tests.unit.cli.command import Command, state_of
from tests.unit.cli.conftest import DECLARED

_PROMISED = {
    "slot", "ticks", "version", "received", "admitted", "expired_on_arrival", "quarantined", "expired",
    "cells_touched", "cells_bound", "files_added", "files_removed", "bytes_written", "already_applied", "seconds",
}  # fmt: skip


def test_an_empty_tick_moves_the_clock(with_table: Command) -> None:
    shown = with_table.right("update", "t", "--at", "1").out.splitlines()

    assert shown[0] == "t: slot 1 (1), version 1"
    assert shown[1] == "  received 0 = admitted 0 + expired on arrival 0 + quarantined 0"
    assert shown[2] == "  expired 0, live 0; touched 0 of at most 8 cells"
    assert shown[3].startswith("  files +0 −0, 0 B written, ")


def test_an_update_as_json_has_all_that_is_promised(with_table: Command) -> None:
    told = with_table.right("update", "t", "--at", "3", "--json").json

    assert set(told) >= _PROMISED
    assert (told["slot"], told["version"], told["cells_bound"], told["already_applied"]) == (3, 1, 8, False)


def test_a_tick_that_was_applied_changes_nothing_and_says_so(with_table: Command) -> None:
    with_table.right("update", "t", "--at", "1")
    before = state_of(with_table.root)

    assert (
        with_table.right("update", "t", "--at", "1").out
        == "t: slot 1 (1) is over already, and this brings no records; nothing changed, the clock did not move\n"
    )
    assert with_table.right("update", "t", "--at", "1", "--json").json["already_applied"] is True
    assert state_of(with_table.root) == before


def test_a_dry_run_of_an_update_changes_nothing(with_table: Command) -> None:
    with_table.right("update", "t", "--at", "1")
    before = state_of(with_table.root)

    assert "(dry run: nothing was changed)" in with_table.right("update", "t", "--at", "2", "--dry-run").out
    assert with_table.right("update", "t", "--dry-run", "--json").json["dry_run"] is True
    assert state_of(with_table.root) == before


def test_without_at_an_integer_table_goes_on_by_one_tick(with_table: Command) -> None:
    assert "integers have no now" in with_table.wrong("update", "t", code=2)
    with_table.right("update", "t", "--at", "7")

    assert with_table.right("update", "t", "--json").json["slot"] == 8


def test_more_than_one_tick_needs_catch_up(with_table: Command) -> None:
    with_table.right("update", "t", "--at", "1")

    assert "3 ticks after the clock 1; pass --catch-up" in with_table.wrong("update", "t", "--at", "4", code=1)
    assert with_table.right("update", "t", "--at", "4", "--catch-up", "--json").json["ticks"] == 3


def test_a_tick_that_is_not_over_is_refused_on_the_wall_clock(ebb: Command) -> None:
    times = ("--inserted", "i", "--expires", "x", "--tick", "36500d", "--span", "36500d")
    ebb.right("create", "t", "--schema", "k INT, i TIMESTAMP, x TIMESTAMP", "--key", "k", *times)
    ebb.right("update", "t", "--at", "1970-01-02")

    assert "is not over before 2069-12-07T00:00:00Z" in ebb.wrong("update", "t", code=1)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--at", "soon"), 2, "time 'soon' is not an integer"),
        (("--at", "1.5"), 2, "time '1.5' is not an integer"),
        (("--at", "9" * 19), 2, "at most 18 digits"),
        (("--wait", "forever"), 2, "duration 'forever'"),
        (("--conf", "spark.x"), 2, "Spark setting 'spark.x' is not KEY=VALUE"),
        (("--conf", "=4"), 2, "Spark setting '=4' is not KEY=VALUE"),
        (("none.csv", "--at", "1"), 1, "none.csv: no such file, folder or match"),
        (("*.pq", "--at", "1"), 1, "*.pq: no such file"),
        (("", "--at", "1"), 1, "no such file"),
        (("empty", "--at", "1"), 1, "empty: there is no file in it"),
        (("text.txt", "--at", "1"), 1, "does not tell a format that Ebb reads"),
        (("bad.parquet", "--at", "1"), 1, "not a readable Parquet file"),
        (("wrong.csv", "--at", "1"), 1, "wrong.csv: column kei is not in the table"),
        (("--unknown",), 2, "no such option: --unknown"),
    ],
)
def test_a_wrong_update_is_refused_before_spark_starts(
    with_table: Command, arguments: tuple[str, ...], code: int, says: str
) -> None:
    Path("empty").mkdir()
    Path("text.txt").write_text("a", encoding="utf-8")
    Path("bad.parquet").write_bytes(b"PAR1 and then nothing")
    Path("wrong.csv").write_text("id,kei\n1,a\n", encoding="utf-8")

    assert says in with_table.wrong("update", "t", *arguments, code=code)
    with_table.wrong("load", "t", *arguments, code=code)


def test_load_needs_a_file(with_table: Command) -> None:
    assert "names no file with records" in with_table.wrong("load", "t", "--at", "1", code=2)


@pytest.mark.parametrize(
    "command",
    [
        "load",
        "update",
        "probe",
        "scan",
        "changes",
        "history",
        "explain",
        "quarantine",
        "alter",
        "drop",
        "seal",
        "purge",
        "erase",
    ],
)
def test_a_table_that_is_not_there_is_named_with_those_that_are(with_table: Command, command: str) -> None:
    extra = {"alter": ["--deletion-bound", "9"], "probe": ["a"], "changes": ["--since", "1"], "load": ["x.csv"]}.get(
        command, []
    )

    told = with_table.wrong(command, "flights", *extra, code=1)
    assert told == f"there is no table flights in {with_table.root}; it has t"


def test_run_needs_a_landing_folder(with_table: Command) -> None:
    assert "has a landing folder" in with_table.wrong("run", "--once", code=2)
    assert "there is no table x" in with_table.wrong("run", "--once", "--table", "x", code=1)


def test_run_says_which_of_the_named_tables_has_no_landing_folder(with_table: Command) -> None:
    """It said that no table has one, and beside other tables it said nothing."""
    with_table.right("create", "u", *DECLARED, "--landing", "landing")
    with_table.right("update", "u", "--at", "1")
    Path("landing/_taken/2").mkdir(parents=True)
    told = "t: table t has no landing folder; run ebb alter t --landing FOLDER"

    assert with_table.wrong("run", "--once", "--table", "t", code=2) == told
    beside = with_table("run", "--once", "--table", "t", "--table", "u")
    assert (beside.code, beside.err) == (2, f"ebb: {told}\n")
    assert beside.out.startswith("u  2  "), "the others are run"


def test_run_finds_nothing_to_do_in_an_empty_landing_folder(with_table: Command) -> None:
    with_table.right("alter", "t", "--landing", "landing")

    assert with_table.right("run", "--once").out == "nothing to do: no tick is due, and no files have arrived\n"
    assert with_table.right("run", "--once", "--json").json == {"outcomes": [], "failed": False}
    assert "time 'x' is not ISO 8601" in with_table.wrong("run", "--once", "--at", "x", code=2)


def test_run_says_which_landing_folder_is_gone(with_table: Command) -> None:
    with_table.right("alter", "t", "--landing", "landing")
    Path("landing").rmdir()

    assert "landing folder" in with_table.wrong("run", "--once", code=1)


def test_a_file_with_another_header_is_set_aside_with_its_reason(with_table: Command) -> None:
    with_table.right("update", "t", "--at", "1")
    with_table.right("alter", "t", "--landing", "landing")
    Path("landing/2-wrong.csv").write_text("a,b\n1,2\n", encoding="utf-8")

    result = with_table("run", "--once")

    assert result.code == 1
    assert "column a is not in the table" in result.err
    assert "_refused/2" in result.err
    assert result.out.startswith("t  2  "), "the tick itself was applied"


HEADS = {
    "extra": ("id,key,inserted,expires,x", 'remove it, or run ebb alter t --add-column "x TYPE", or ebb alter t --extra ignore'),
    "case": ("id,KEY,inserted,expires", 'rename it, or run ebb alter t --rename "KEY=key"'),
    "missing": ("id,key,inserted", 'or name the column that holds it: ebb alter t --rename "OLD=expires"'),
    "latin": ("id,key,inserted,expires\n1,\xe9,2,5", "run ebb alter t --encoding ENCODING, for example latin-1"),
}  # fmt: skip


@pytest.mark.parametrize("head", HEADS)
def test_run_says_what_to_do_about_a_file_in_whole_commands_and_where_it_is_now(
    with_table: Command, head: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It named options that run does not have, a table called NAME, and a folder that the file had left."""
    monkeypatch.setenv("EBB_ENGINE", "direct")
    with_table.right("alter", "t", "--landing", "landing", "--encoding", "ascii")
    Path("landing/2-x.csv").write_text(HEADS[head][0] + "\n", encoding="latin-1")
    told = with_table("run", "--once").err

    assert told.startswith(f"ebb: t, slot 2: {Path.cwd()}/landing/_refused/2/2-x.csv: ")
    assert HEADS[head][1] in told
    assert "NAME" not in told
    assert "pass --" not in told
    (line,) = Path("landing/_refused/2/_reasons.jsonl").read_text("utf-8").splitlines()
    assert json.loads(line)["reason"].startswith("2-x.csv")


def test_of_a_line_that_is_wrong_run_says_where_the_file_is_now(
    with_table: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It named the file in _taken, where it was read, and not in _refused."""
    monkeypatch.setenv("EBB_ENGINE", "direct")
    with_table.right("alter", "t", "--landing", "landing")
    good = {"id": 1, "key": "a", "inserted": 2, "expires": 5}
    Path("landing/2-x.jsonl").write_text(f"{json.dumps(good)}\n{json.dumps(good | {'z': 1})}\n", encoding="utf-8")
    told = with_table("run", "--once").err

    place = f"{Path.cwd()}/landing/_refused/2"
    assert told.startswith(f"ebb: t, slot 2: {place}/2-x.jsonl, line 2: column z is not in the table; ")
    assert told.endswith(f"; set aside in {place}, move it back when it fits\n")


def test_run_names_the_files_that_came_before(with_table: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counted their records only."""
    monkeypatch.setenv("EBB_ENGINE", "direct")
    with_table.right("alter", "t", "--landing", "landing")
    row = records((1, "a", 1, 6))
    write_batch(Path("landing/1-a.csv"), row)
    with_table.right("run", "--once")
    write_batch(Path("landing/2-again.csv"), row)
    write_batch(Path("landing/2-new.csv"), records((2, "b", 2, 6)))
    write_batch(Path("landing/3-alone.csv"), row)

    second, third = with_table.right("run", "--once").out.splitlines()
    assert second.endswith("left out 1 record that came before, at slot 1: 2-again.csv")
    assert third.endswith("left out 1 record that came before, at slot 1: 3-alone.csv")


def test_a_tick_that_was_never_applied_is_not_called_an_empty_one(with_table: Command) -> None:
    """Neither one before the first update, nor one that a catch-up passed over: nobody knows more than the clock."""
    with_table.right(
        "update", "t", write_batch(Path("a.csv"), records((1, "a", 1, 5))), "--at", 3, "--engine", "direct"
    )
    with_table.right("update", "t", "--at", 5, "--catch-up", "--yes")
    other = write_batch(Path("b.csv"), records((2, "b", 1, 5)))
    for slot in (2, 4, 5):
        told = with_table.wrong("update", "t", other, "--at", slot, "--engine", "direct", code=1)
        assert told == (
            f"slot {slot} ({slot}) is not after the clock 5, and this batch is not the one applied there: "
            "no records were; pass a later --at, late records are admitted too"
        )
        assert with_table.right("update", "t", "--at", slot).out == (
            f"t: slot {slot} ({slot}) is over already, and this brings no records; nothing changed, the clock did not move\n"
        )


def test_an_update_names_the_table_that_a_column_can_be_added_to(with_table: Command) -> None:
    Path("x.csv").write_text("id,key,inserted,expires,x\n", encoding="utf-8")

    told = with_table.wrong("update", "t", "x.csv", "--at", "1", "--engine", "direct", code=1)
    assert 'with ebb alter t --add-column "x TYPE", or pass --extra ignore' in told


def test_a_killed_runs_file_does_not_replace_a_new_one_of_the_same_name(with_table: Command) -> None:
    with_table.right("update", "t", "--at", "1")
    with_table.right("alter", "t", "--landing", "landing")
    for place, text in (("landing/_taken/2.part", "killed,run\n"), ("landing", "new,file\n")):
        Path(place).mkdir(parents=True, exist_ok=True)
        Path(place, "2-cars.csv").write_text(text, encoding="utf-8")

    with_table.right("run", "--once", "--dry-run")
    assert main(["--warehouse", str(with_table.root), "run", "--once"]) == 1

    kept = {path.name: path.read_text(encoding="utf-8") for path in Path("landing/_refused/2").glob("*.csv")}
    assert sorted(kept.values()) == ["killed,run\n", "new,file\n"]
    reasons = [json.loads(line) for line in Path("landing/_refused/2/_reasons.jsonl").read_text("utf-8").splitlines()]
    assert sorted(name for reason in reasons for name in reason["files"]) == sorted(kept)


def test_a_broken_table_is_told_and_the_others_are_run(with_table: Command) -> None:
    for name in ("a", "b", "c"):
        with_table.right("create", name, *DECLARED, "--landing", f"landing-{name}")
        with_table.right("update", name, "--at", "1")
    (with_table.root / "b/_delta_log/00000000000000000001.json").write_text("", encoding="utf-8")
    (with_table.root / "b/_delta_log/00000000000000000000.json").unlink()
    for name in ("a", "c"):  # an empty tick, without a JVM
        Path(f"landing-{name}/_taken/2").mkdir(parents=True)

    result = with_table("run", "--once")

    assert result.code == 1
    assert result.err.startswith("ebb: b: ")
    assert [line.split()[:2] for line in result.out.splitlines()] == [["a", "2"], ["c", "2"]]


def test_a_landing_folder_that_another_run_works_on_is_told_with_its_holder(with_table: Command) -> None:
    with_table.right("alter", "t", "--landing", "landing")

    with locked(Path("landing/_lock"), "it"):
        told = with_table.wrong("run", "--once", "--wait", "1s", code=1)

    assert told.startswith(f"t: landing folder {Path('landing').resolve()} is being written by process ")
    assert told.endswith("waited 1 s; pass --wait to wait longer")


@pytest.mark.parametrize("command", ["seal", "purge", "erase"])
def test_housekeeping_with_nothing_to_do_says_so(with_table: Command, command: str) -> None:
    with_table.right("update", "t", "--at", "1")

    shown = with_table.right(command, "t").out
    assert (
        shown
        == {
            "seal": "t: nothing to seal\n",
            "purge": "t: nothing to purge\n",
            "erase": "t: 0 files erased (0 B), 0 wait for readers\n",
        }[command]
    )
    assert "(dry run: nothing was changed)" in with_table.right(command, "t", "--dry-run").out
    told = with_table.right(command, "t", "--dry-run", "--json").json
    assert (told["name"], told["op"], told["dry_run"]) == ("t", command, True)


def test_a_date_table_takes_iso_dates(ebb: Command) -> None:
    times = ("--inserted", "i", "--expires", "x", "--tick", "1d", "--span", "7d")
    ebb.right("create", "d", "--schema", "k INT, i DATE, x DATE", "--key", "k", *times)

    assert ebb.right("update", "d", "--at", "2013-01-05", "--json").json["time"] == "2013-01-05"
    assert "is not ISO 8601" in ebb.wrong("update", "d", "--at", "05.01.2013", code=2)


def test_declared_is_what_the_other_tests_think_it_is(ebb: Command) -> None:
    assert ebb.right("create", "t", *DECLARED, "--json").json["ticks_per_span"] == 6


def test_parquet_is_loaded_and_updated_without_a_jvm(with_table: Command, tmp_path: Path) -> None:
    first = write_batch(tmp_path / "5.parquet", records((1, "a", 4, 8), (2, "b", 5, 9)))
    second = write_batch(tmp_path / "6.parquet", records((3, "a", 6, 7), (4, None, 6, 8)))

    assert with_table.right("load", "t", first, "--engine", "direct", "--json").json["slot"] == 5
    shown = with_table.right("update", "t", second, "--engine", "auto").out.splitlines()
    assert shown[1] == "  received 2 = admitted 1 + expired on arrival 0 + quarantined 1"
    again = with_table("update", "t", second, "--engine", "direct")
    assert (again.code, "already applied at slot 6" in again.out) == (3, True)
    assert sorted(with_table.right("scan", "t", "--columns", "id", "--format", "csv").out.split()) == [
        "1",
        "2",
        "3",
        "id",
    ]


@pytest.mark.parametrize("way", ["file", "environment"])
def test_the_engine_comes_from_the_settings_too(
    way: str, with_table: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "file":
        Path("ebb.toml").write_text('engine = "direct"\n', encoding="utf-8")
    else:
        monkeypatch.setenv("EBB_ENGINE", "direct")
    text = write_batch(tmp_path / "5.csv", records((1, "a", 5, 8)))

    assert with_table.right("update", "t", write_batch(tmp_path / "5.parquet", records((1, "a", 5, 8))), "--at", 5)
    assert with_table("update", "t", text).code == 3  # the same records, read without a JVM


def test_an_engine_that_is_none_is_refused(with_table: Command, tmp_path: Path) -> None:
    assert "'fast' is not one of" in with_table.wrong("update", "t", "--engine", "fast", code=2)
    Path("ebb.toml").write_text('engine = "fast"\n', encoding="utf-8")
    said = with_table.wrong("update", "t", "--at", "1", code=2)
    assert said == "engine is 'fast'; it must be one of spark, direct, auto"


@pytest.mark.parametrize("command", ["load", "update"])
def test_settings_of_spark_are_not_ignored_by_what_does_not_start_it(with_table: Command, command: str) -> None:
    for option in (["--master", "local[1]"], ["--conf", "a=b"]):
        said = with_table.wrong(command, "t", "a.csv", "--engine", "direct", *option, code=2)
        assert said == "--master and --conf are for Spark, and --engine direct does not start it; leave them or it out"
