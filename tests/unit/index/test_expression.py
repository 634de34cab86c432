"""The language of computed times."""

from __future__ import annotations

import pytest

from ebb.index.columns import parse_columns
from ebb.index.errors import UsageError
from ebb.index.expression import (
    Amount,
    Call,
    Case,
    Field,
    Now,
    Sum,
    adds_to,
    columns_of,
    is_name,
    least_after,
    parse_expression,
    split_name,
)
from ebb.index.predicate.syntax import parse_predicate
from ebb.index.timeline import TimeKind

COLUMNS = parse_columns("came TIMESTAMP, until TIMESTAMP, day DATE, ttl INT, kind STRING, price DOUBLE")
NUMBERS = parse_columns("came BIGINT, ttl INT, kind STRING")
HOUR = 3_600_000_000


def read(text: str) -> object:
    return parse_expression(text, COLUMNS, TimeKind.TIMESTAMP)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("came", Field("came")),
        ("now", Now()),
        ("came + 1h", Sum(Field("came"), 1, Amount(HOUR))),
        ("came + ttl - 1h", Sum(Sum(Field("came"), 1, Field("ttl")), -1, Amount(HOUR))),
        ("came+(1h-ttl)", Sum(Field("came"), 1, Sum(Amount(HOUR), -1, Field("ttl")))),
        ("1h + `came`", Sum(Amount(HOUR), 1, Field("came"))),
        ('"day"', Field("day")),
        ("now + (until - came)", Sum(Now(), 1, Sum(Field("until"), -1, Field("came")))),
        ("coalesce(until, came + 1h)", Call("coalesce", (Field("until"), Sum(Field("came"), 1, Amount(HOUR))))),
        ("LEAST(until, greatest(now, day))", Call("least", (Field("until"), Call("greatest", (Now(), Field("day")))))),
        (
            "case when kind = 'then''s' and price > 1.5 then came when kind is null then until else now end",
            Case(
                (
                    (parse_predicate("kind = 'then''s' and price > 1.5"), Field("came")),
                    (parse_predicate("kind is null"), Field("until")),
                ),
                Now(),
            ),
        ),
        ("case when ttl > 5 then came end", Case(((parse_predicate("ttl > 5"), Field("came")),), None)),
    ],
)
def test_an_expression_is_read(text: str, tree: object) -> None:
    assert read(text) == tree


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("came + 30", "30 has no unit; write 30s, 30h or 30d"),
        ("came + came", "it adds two times"),
        ("1h - came", "it takes a time from a duration"),
        ("1h", "it is a duration and not a time"),
        ("until - came", "it is a duration and not a time"),
        ("coalesce(came, 1h)", "it chooses between a time and a duration"),
        ("came * 2", "'*' stands where its end should be"),
        ("gone + 1h", "'gone' is not a column, there are came, until"),
        ("price", "column price has type double, which is neither a time"),
        ("kind", "column kind has type string"),
        ("came +", "'the end' stands where a value should be"),
        ("came 1h", "'1h' stands where its end should be"),
        ("(came", "'the end' stands where ')' should be"),
        ("coalesce(came", "stands where ')' should be"),
        ("case when kind = 'x' came end", "when has no then"),
        ("case when", "when has no then"),
        ("case else came end", "case has no when"),
        ("case when ttl > 5 then came", "'the end' stands where 'end' should be"),
        ("case when nothing > 5 then came end", "names 'nothing', which is not a column"),
        ("came + 0s", "is not a positive number with a unit"),
        ("(" * 60 + "came" + ")" * 60, "it is nested too deeply"),
        ("sleep(came)", "'sleep' is not a column"),
        ("came" + " + 1h" * 1000, "it has 2001 words and signs, and 300 are enough"),
        ("", "'the end' stands where a value should be"),
    ],
)
def test_anything_else_is_refused_with_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(text)

    assert said in str(caught.value)


def test_integers_have_no_units_and_are_times_and_durations_alike() -> None:
    assert parse_expression("came + ttl + 30 - now", NUMBERS, TimeKind.INTEGER) == Sum(
        Sum(Sum(Field("came"), 1, Field("ttl")), 1, Amount(30)), -1, Now()
    )
    with pytest.raises(UsageError, match="not a positive integer"):
        parse_expression("came + 30d", NUMBERS, TimeKind.INTEGER)


def test_dates_count_in_days_and_know_no_hours() -> None:
    assert parse_expression("day + 1w", COLUMNS, TimeKind.DATE) == Sum(Field("day"), 1, Amount(7))
    with pytest.raises(UsageError, match="not a whole number of days"):
        parse_expression("day + 1h", COLUMNS, TimeKind.DATE)
    with pytest.raises(UsageError, match="column came has type timestamp"):
        parse_expression("came", COLUMNS, TimeKind.DATE)


def test_the_columns_of_an_expression_are_known() -> None:
    text = "case when kind = 'a' then came + ttl else coalesce(until, now) end"

    assert columns_of(parse_expression(text, COLUMNS, TimeKind.TIMESTAMP)) == {"kind", "came", "ttl", "until"}
    assert columns_of(parse_expression("case when ttl > 1 then came end", COLUMNS, TimeKind.TIMESTAMP)) == {
        "ttl",
        "came",
    }


def test_a_name_is_told_from_an_expression() -> None:
    assert [is_name(text) for text in ("until", " until ", "`odd name`", "now", "NOW", "came + 1h", "")] == [
        True, True, True, False, False, False, False,
    ]  # fmt: skip
    assert split_name("came + 30d AS `until`", "expires") == ("came + 30d", "until")
    assert split_name("now", "inserted") == ("now", "inserted")


@pytest.mark.parametrize(
    ("text", "least"),
    [
        ("came", 0),
        ("came + 30d", 30),
        ("2d + came - 1d", 1),
        ("came + (1d + 2d)", 3),
        ("now + 30d", 30),
        ("least(came + 9d, now + 7d)", 7),
        ("least(came + 9d, until)", None),
        ("greatest(came + 9d, until)", 9),
        ("greatest(case when kind = 'a' then came + 9d end, until)", None),
        ("greatest(until, until)", None),
        ("coalesce(came + 9d, came + 8d)", 8),
        ("coalesce(until, came + 9d)", None),
        ("case when kind = 'a' then came + 9d else came + 11d end", 9),
        ("came + ttl", None),
        ("came + (until - came)", None),
        ("until + 9d", None),
    ],
)
def test_how_long_after_a_time_an_expression_is_at_least(text: str, least: int | None) -> None:
    days = least_after(parse_expression(text, COLUMNS, TimeKind.TIMESTAMP), "came")

    assert days == (None if least is None else least * 86_400_000_000)


def test_choosing_a_column_is_told_from_counting_with_it() -> None:
    adding = ["until + 1d", "coalesce(until + 1d, came)", "case when kind = 'a' then came else until + 1d end"]
    choosing = ["coalesce(until, came + 1d)", "case when until > came then until end", "now"]

    assert [
        text for text in (*adding, *choosing) if adds_to(parse_expression(text, COLUMNS, TimeKind.TIMESTAMP), "until")
    ] == adding
