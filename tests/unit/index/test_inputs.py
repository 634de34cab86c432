"""How columns of a batch meet those of a table."""

from __future__ import annotations

import pytest

from ebb.index.columns import parse_columns
from ebb.index.errors import SchemaDriftError, UsageError
from ebb.index.inputs import InputRules, InputSchema, best_separator, matched

TABLE = parse_columns("a INT, b STRING, c DATE")
STRICT = InputRules(strict=True)
LAX = InputRules(extra="ignore")


def meet(text: str, rules: InputRules | None = None, **wanted: object) -> dict[str, int]:
    found = parse_columns(text)
    schema = InputSchema(columns=TABLE, rules=rules or InputRules(), **wanted)  # type: ignore[arg-type]
    return matched("a file", [column.name for column in found], schema, lambda place: found[place].type)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("a INT, b STRING, c DATE", {"a": 0, "b": 1, "c": 2}),
        ("c DATE, a INT, b STRING", {"c": 0, "a": 1, "b": 2}),
        ("b STRING", {"b": 0}),
        ("a BIGINT, b STRING, c TIMESTAMP", {"a": 0, "b": 1, "c": 2}),
        ("a STRING, c STRING", {"a": 0, "c": 1}),
    ],
    ids=["the same", "another order", "some missing", "other widths", "texts"],
)
def test_columns_meet_by_name(text: str, places: dict[str, int]) -> None:
    assert meet(text) == places


@pytest.mark.parametrize(
    ("text", "column", "what"),
    [
        ("a INT, b STRING, c DATE, d INT", "d", "is not in the table"),
        ("a INT, B STRING, c DATE", "B", "is called b in the table"),
        ("a BOOLEAN, b STRING, c DATE", "a", "has type boolean, and the table has int"),
        ("a INT, b INT, c DATE", "b", "has type int, and the table has string"),
        ("a INT, a INT, b STRING, c DATE", "a", "stands there 2 times"),
    ],
)
@pytest.mark.parametrize("rules", [InputRules(), STRICT], ids=["usual", "strict"])
def test_what_does_not_fit_is_refused_with_the_column_named(
    text: str, column: str, what: str, rules: InputRules
) -> None:
    with pytest.raises(SchemaDriftError) as caught:
        meet(text, rules)

    assert caught.value.args[:2] == ("a file", column)
    assert what in str(caught.value)


@pytest.mark.parametrize(
    ("text", "column", "what"),
    [
        ("a INT, b STRING", "c", "is missing"),
        ("a BIGINT, b STRING, c DATE", "a", "has type bigint"),
        ("b STRING, a INT, c DATE", "b", "stands at place 1"),
    ],
)
def test_strict_rules_want_exactly_the_tables_columns(text: str, column: str, what: str) -> None:
    assert meet("a INT, b STRING, c DATE", STRICT) == {"a": 0, "b": 1, "c": 2}
    meet(text)
    with pytest.raises(SchemaDriftError) as caught:
        meet(text, STRICT)

    assert caught.value.args[:2] == ("a file", column)
    assert what in str(caught.value)


def test_all_columns_that_do_not_fit_are_told_at_once() -> None:
    """They were told one by one, each after the one before had been repaired."""
    with pytest.raises(SchemaDriftError) as caught:
        meet("d INT, B STRING, c BOOLEAN, e INT, e INT", required=("a", "b"))

    assert str(caught.value) == (
        "a file: column d is not in the table, column B is called b in the table, column c has type boolean, and the "
        "table has date, column e stands there 2 times, column a is missing; rename, remove or add "
        "columns until all of them fit"
    )
    assert caught.value.hint == "several_columns"
    with pytest.raises(SchemaDriftError, match=r"^a file: column b is missing"):
        meet("B STRING, a INT", LAX, required=("b",))
    with pytest.raises(SchemaDriftError, match="column x9 is not in the table, 3 more columns do not fit;"):
        meet(", ".join(f"x{i} INT" for i in range(13)))


def test_nothing_is_said_of_the_type_of_a_column_of_text() -> None:
    schema = InputSchema(columns=TABLE)
    with pytest.raises(
        SchemaDriftError, match=r"column d is not in the table; remove it, or add it to the table$"
    ) as text:
        matched("a file", ["a", "d"], schema)
    with pytest.raises(SchemaDriftError, match=r"or add it to the table as d int$") as typed:
        meet("a INT, d INT")

    assert (text.value.args[4], typed.value.args[4]) == ("d TYPE", "d int")


def test_extra_columns_are_ignored_if_the_rules_say_so_whatever_their_type() -> None:
    assert meet("x MAP<STRING,INT>, b STRING, B INT", LAX) == {"b": 1}
    with pytest.raises(SchemaDriftError, match="is not in the table"):
        meet("x INT, a INT, b STRING, c DATE", InputRules(strict=True, extra="ignore"))


def test_a_column_that_every_record_needs_must_be_there() -> None:
    with pytest.raises(SchemaDriftError, match="column a is missing; add it, as int"):
        meet("b STRING", required=("a",))


def test_a_column_that_the_table_computes_is_no_input() -> None:
    assert meet("a INT", required=("a",), computed={"c": "now"}) == {"a": 0}
    with pytest.raises(SchemaDriftError, match="column c is computed by the table, as now; leave it out"):
        meet("a INT, c DATE", computed={"c": "now"})
    assert meet("a INT, c DATE", LAX, computed={"c": "now"}) == {"a": 0}


def test_columns_are_renamed_before_they_meet() -> None:
    rules = InputRules(rename={"A": "a"})
    found = matched("a file", ["A", "b"], InputSchema(columns=TABLE, rules=rules))

    assert found == {"a": 0, "b": 1}
    with pytest.raises(SchemaDriftError, match="stands there 2 times"):
        matched("a file", ["A", "a"], InputSchema(columns=TABLE, rules=rules))


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"extra": "drop"}, "extra is 'drop'; it must be refuse or ignore"),
        ({"separator": "ab"}, "separator 'ab' must be one ASCII character"),
        ({"separator": '"'}, "must be one ASCII character"),
        ({"separator": "é"}, "must be one ASCII character"),
        ({"encoding": "klingon"}, "encoding 'klingon' is not known"),
        ({"rename": ["a"]}, "rename 'a' is not OLD=NEW"),
        ({"rename": ["=b"]}, "is not OLD=NEW"),
    ],
)
def test_wrong_rules_are_refused(wish: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        InputRules().changed(**wish)  # type: ignore[arg-type]


def test_rules_are_kept_and_changed_one_by_one() -> None:
    rules = InputRules().changed(strict=True, rename=["x=y = z"], separator="\\t", encoding="latin-1")

    assert rules == InputRules(strict=True, rename={"x=y": "z"}, separator="\t", encoding="latin-1")
    assert InputRules.loads(rules.dumps()) == rules
    assert InputRules().dumps() == ""
    assert rules.changed(strict=False, separator="", encoding="", rename={}) == InputRules()


@pytest.mark.parametrize(
    ("line", "separator"), [("a,b,c", ","), ("a;b;c", ";"), ("a\tb", "\t"), ("a|b|x", "|"), ("a", ","), ("x;y,z", ",")]
)
def test_the_separator_is_told_from_the_header(line: str, separator: str) -> None:
    assert best_separator({sign: line.split(sign) for sign in (",", ";", "\t", "|")}, ["a", "b", "c"]) == separator
