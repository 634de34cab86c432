"""probe and scan on a table without records: what is accepted, what is refused."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from ebb import UsageError
from tests.builders import open_warehouse
from tests.unit.cli.command import Command
from tests.unit.cli.conftest import DECLARED, TIMES

_HEADER = "id  key  inserted  expires  pay\n──  ───  ────────  ───────  ───\n(0 records)\n"


def test_a_table_without_records_is_read_as_an_empty_one(with_table: Command) -> None:
    for _ in range(2):
        assert with_table.right("scan", "t").out == _HEADER
        assert with_table.right("probe", "t", "a").out == _HEADER
        assert with_table.right("scan", "t", "--format", "csv").out == "id,key,inserted,expires,pay\n"
        assert with_table.right("scan", "t", "--format", "jsonl").out == ""
        with_table.right("update", "t", "--at", "1")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--columns", "id,nope"), 2, "table t has no column 'nope'; it has id, key, inserted, expires, pay"),
        (("--columns", ","), 2, "names no column"),
        (("--columns", "id,id"), 2, "names a column twice"),
        (("--columns", "_exp_slot"), 2, "has no column '_exp_slot'"),
        (("--where", "nope > 1"), 2, "names 'nope', which is not a column: there are id, key"),
        (("--where", "id >"), 2, "stands where a column or value should be"),
        (("--where", "system('rm')"), 2, "stands where a comparison should be"),
        (("--where", "id = 1; drop table t"), 2, "cannot read"),
        (("--where", ")" * 5), 2, "stands where a column or value should be"),
        (("--where", "(" * 500), 2, "nested deeper than"),
        (("--limit", "-1"), 2, "'-1' is not a whole number"),
        (("--limit", "many"), 2, "'many' is not a whole number"),
        (("--format", "xml"), 2, "'xml' is not one of"),
        (("--isolation", "dirty"), 2, "'dirty' is not"),
        (("--as-of", "noon"), 2, "time 'noon' is not an integer"),
        (("--as-of", "1"), 1, "is before the clock"),
        (("--output", "no/such/x.csv"), 1, "no/such/x.csv cannot be written: there is no folder no/such; make it"),
        (("--output", ".", "--format", "csv"), 1, ". cannot be written: it is a folder"),
        (("--output", "x.xlsx"), 2, "the name x.xlsx tells no format: .xlsx is none of .txt, .csv, .jsonl"),
        (("--output", "x.csv.gz"), 2, "x.csv.gz tells no format: .gz is none of"),
    ],
)
def test_a_wrong_scan_is_refused(with_table: Command, arguments: tuple[str, ...], code: int, says: str) -> None:
    with_table.right("update", "t", "--at", "5")

    assert says in with_table.wrong("scan", "t", *arguments, code=code)
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "exactly one of them"),
        (("a", "--prefix", "a"), "exactly one of them"),
        (("--from", "a", "--keys-from", "x"), "exactly one of them"),
        (("--columns", "nope", "a"), "has no column 'nope'"),
        (("\udcff",), "is not UTF-8"),
    ],
)
def test_a_wrong_probe_is_refused(with_table: Command, arguments: tuple[str, ...], says: str) -> None:
    assert says in with_table.wrong("probe", "t", *arguments, code=2)


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("x.parquet", b"PAR1"),
        ("X.PQ", b"PAR1"),
        ("x.csv", b"id,key,"),
        ("x.jsonl", b""),
        ("x.arrow", b"\xff\xff\xff\xff"),
        ("x.txt", b"id  key"),
        ("x", b"id  key"),
    ],
)
@pytest.mark.parametrize("read", [("scan", "t"), ("probe", "t", "a"), ("sql", "SELECT * FROM t")], ids=lambda c: c[0])
def test_the_suffix_of_a_file_tells_its_format(
    with_table: Command, read: tuple[str, ...], name: str, begins: bytes
) -> None:
    """A table for people was written into x.parquet."""
    with_table.right(*read, "--output", name)
    data = Path(name).read_bytes()
    assert data.startswith(begins)
    assert bool(data) == bool(begins)

    with_table.right(*read, "--output", name, "--format", "csv")
    assert Path(name).read_bytes().startswith(b"id,key,")


_TYPES = {
    "INT": (["7", "-7"], ["x", "7.5", "2147483648", ""]),
    "BIGINT": (["9223372036854775807"], ["9223372036854775808"]),
    "DOUBLE": (["1e3", "-0.0"], ["one"]),
    "BOOLEAN": (["true", "FALSE"], ["yes"]),
    "DATE": (["2013-01-31"], ["2013-02-30", "31.1.2013"]),
    "TIMESTAMP": (["2013-01-31T05:00:00Z", "2013-01-31"], ["noon"]),
    "DECIMAL(5,2)": (["1.25"], ["1.234", "12345.67", "x"]),
    "BINARY": (["0xdeadbeef", "00ff"], ["xyz"]),
    "STRING": (["", "ü", "a,b", "'; drop table t", "../x"], []),
}


@pytest.mark.parametrize("type_", _TYPES)
def test_a_key_is_read_by_the_type_of_its_column(ebb: Command, type_: str) -> None:
    schema = f"k {type_}, inserted BIGINT, expires BIGINT"
    ebb.right("create", "t", "--schema", schema, "--key", "k", *TIMES, "--tick", "1", "--span", "6")
    ebb.right("update", "t", "--at", "1")
    right, wrong = _TYPES[type_]

    for key in right:
        assert ebb.right("probe", "t", "--", key).out.endswith("(0 records)\n")
    for key in wrong:
        assert "does not fit column k of type" in ebb.wrong("probe", "t", "--", key, code=2)


def test_composite_keys_are_csv_and_may_be_leading_parts(ebb: Command) -> None:
    schema = "a STRING, b INT, c STRING, inserted BIGINT, expires BIGINT"
    ebb.right("create", "t", "--schema", schema, "--key", "a,b,c", *TIMES, "--tick", "1", "--span", "6")

    for key in ("x", "x,1", 'x,1,"with, comma"', '"x"', ","):
        if key != ",":
            ebb.right("probe", "t", key)
            ebb.right("probe", "t", "--from", key)
    ebb.right("probe", "t", "--prefix", "x,1,wi")
    assert "does not fit column b" in ebb.wrong("probe", "t", ",", code=2)
    assert "has 4 parts; the key is a,b,c" in ebb.wrong("probe", "t", "x,1,y,z", code=2)
    assert "has 0 parts" in ebb.wrong("probe", "t", "", code=2)
    assert "cannot be read" in ebb.wrong("probe", "t", '"x', code=2)
    assert "must end in a part of a text or binary column" in ebb.wrong("probe", "t", "--prefix", "x,1", code=2)


def test_a_prefix_needs_a_text_column(ebb: Command) -> None:
    schema = "k INT, inserted BIGINT, expires BIGINT"
    ebb.right("create", "t", "--schema", schema, "--key", "k", *TIMES, "--tick", "1", "--span", "6")

    assert "must end in a part of a text or binary column; the key is k int" in ebb.wrong(
        "probe", "t", "--prefix", "1", code=2
    )


def test_keys_come_from_a_file_or_from_standard_input(with_table: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("keys").write_text("a\n\nb\n", encoding="utf-8")
    Path("odd").write_bytes(b"\xff\xfe")
    monkeypatch.setattr("sys.stdin", io.StringIO("a\nb\n"))

    assert with_table.right("probe", "t", "--keys-from", "keys").out == _HEADER
    assert with_table.right("probe", "t", "--keys-from", "-").out == _HEADER
    assert "the keys cannot be read" in with_table.wrong("probe", "t", "--keys-from", "none", code=1)
    assert "the keys cannot be read" in with_table.wrong("probe", "t", "--keys-from", "odd", code=1)


def test_the_beginning_of_a_binary_key_is_given_as_a_key_is(ebb: Command) -> None:
    """The command refused what Python accepted."""
    schema = "k BINARY, inserted BIGINT, expires BIGINT"
    ebb.right("create", "t", "--schema", schema, "--key", "k", *TIMES, "--tick", "1", "--span", "6")
    ebb.right("update", "t", "--at", "1")

    assert ebb.right("probe", "t", "--prefix", "0a1b").out.endswith("(0 records)\n")
    assert "hexadecimal" in ebb.wrong("probe", "t", "--prefix", "xy", code=2)


def test_settings_of_spark_are_not_ignored_where_it_is_not_started(with_table: Command) -> None:
    for command in (["scan", "t"], ["sql", "SELECT 1"]):
        engine = "direct" if command[0] == "scan" else "duckdb"

        assert "is not KEY=VALUE" in with_table.wrong(*command, "--conf", "nonsense", code=2)
        for option in (["--master", "local[1]"], ["--conf", "a=b"]):
            refused = with_table.wrong(*command, "--engine", engine, *option, code=2)
            assert refused == (
                f"--master and --conf are for Spark, and --engine {engine} does not start it; leave them or it out"
            )
    assert "leave --engine, --master and --conf out" in with_table.wrong(
        "scan", "t", "--isolation", "latest", "--master", "local[1]", code=2
    )


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("SELECT * FROM pg_a", "the query cannot be run: there is no table pg_a; the tables are t, u"),
        ("SELECT * FROM t JOIN T2 ON true", "there is no table T2; the tables are t, u"),
        ("SELECT * FROM (SELECT 1) x, information_schema.nope", "there is no table nope; the tables are t, u"),
        ("SELECT foo(key) FROM t", 'Scalar Function with name foo does not exist; Did you mean "floor"?'),
        ("SELECT nope FROM t", '"nope" not found in FROM clause; Candidate bindings:'),
        ("SELECT key + 1 FROM t", "You might need to add explicit type casts"),
    ],
)
def test_a_query_that_cannot_be_run_is_told_in_words_about_our_tables(
    with_table: Command, query: str, says: str
) -> None:
    """The engine proposed tables of its own: did you mean pg_am?"""
    with_table.right("create", "u", *DECLARED)
    told = with_table.wrong("sql", query, code=2)

    assert says in told
    assert not told.endswith((":", "!"))


def test_a_query_of_a_warehouse_without_tables_says_so(ebb: Command) -> None:
    ebb.root.mkdir()

    assert ebb.wrong("sql", "SELECT * FROM t", code=2).endswith("there is no table t; the warehouse has no tables yet")


@pytest.mark.parametrize(
    ("moment", "code", "says"),
    [
        ("noon", 2, "table t: time 'noon' is not an integer"),
        ("now", 2, "time 'now' is for timestamps and dates, and table t counts time in integers"),
        ("1", 1, "time 1 is before the clock 5 of table t"),
    ],
)
def test_a_moment_that_does_not_fit_names_the_table(with_table: Command, moment: str, code: int, says: str) -> None:
    with_table.right("update", "t", "--at", "5")

    for read in (["sql", "SELECT * FROM t"], ["scan", "t"]):
        assert says in with_table.wrong(*read, "--as-of", moment, code=code)


@pytest.mark.parametrize("command", ["scan", "forget"])
def test_a_condition_that_is_empty_does_not_stand_for_every_record(with_table: Command, command: str) -> None:
    """A script whose variable was not set exported the whole table."""
    for empty in ("", " "):
        assert with_table.wrong(command, "t", "--where", empty, code=2).startswith("the condition is empty")
    for wrong in (5, ""):
        with pytest.raises(UsageError, match="condition"):
            open_warehouse(with_table.root).table("t").scan(where=wrong)  # type: ignore[arg-type]


def test_an_explanation_is_not_written_as_records_are(with_table: Command, tmp_path: Path) -> None:
    for option in (["--output", str(tmp_path / "o.csv")], ["--format", "csv"]):
        assert f"so {option[0]} is not for it" in with_table.wrong("probe", "t", "a", "--explain", *option, code=2)


def test_what_is_not_utf_8_is_told_as_such(with_table: Command) -> None:
    assert with_table.wrong("probe", "t", "a\udcff", code=2) == "key 'a\\udcff' is not UTF-8; write it in UTF-8"
    assert "is not UTF-8; write it in UTF-8" in with_table.wrong("sql", "select '\udcff'", code=2)


def test_nobody_is_advised_to_change_a_setting_that_cannot_be_changed(with_table: Command) -> None:
    told = with_table.wrong("sql", "SELECT 1/0", code=1)
    assert told == (
        "the query failed: Division by zero in expression (1.0 / 0.0). Use TRY(...) to return NULL for this expression; "
        "fix the query, or ask with --engine spark"
    )
    assert with_table.right("sql", "SELECT TRY(1/0) AS x").out
    assert "Did you mean" not in with_table.wrong("sql", "SELECT current_setting('x')", code=2)
