"""The language of --where."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ebb.index.columns import Column
from ebb.index.errors import UsageError
from ebb.index.predicate.pruning import Extent, may_match
from ebb.index.predicate.syntax import (
    And,
    Compare,
    In,
    IsNull,
    Like,
    Literal,
    Name,
    Not,
    Or,
    Predicate,
    parse_predicate,
)
from ebb.index.predicate.typed import ToList, ToValue, Typed, typed, value
from ebb.index.values import parse_value

N = Column("n", "tinyint")
A, B, C = Name("a"), Name("b"), Name("c")
ONE, TWO = Literal("1"), Literal("2")
A_IS_1, B_IS_2, C_IS_1 = Compare(A, "=", ONE), Compare(B, "=", TWO), Compare(C, "=", ONE)


@pytest.mark.parametrize(
    ("text", "predicate"),
    [
        ("a = 1", A_IS_1),
        ("a == 1", A_IS_1),
        ("a=1", A_IS_1),
        ("  a\n=\t1  ", A_IS_1),
        ("a != 1", Compare(A, "!=", ONE)),
        ("a <> 1", Compare(A, "!=", ONE)),
        ("a < 1", Compare(A, "<", ONE)),
        ("a <= 1", Compare(A, "<=", ONE)),
        ("a > 1", Compare(A, ">", ONE)),
        ("a >= 1", Compare(A, ">=", ONE)),
        ("1 = a", Compare(ONE, "=", A)),
        ("a < b", Compare(A, "<", B)),
    ],
)
def test_comparisons(text: str, predicate: Predicate) -> None:
    assert parse_predicate(text) == predicate


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("-5", Literal("-5")),
        ("1.5", Literal("1.5")),
        ("1.", Literal("1.")),
        (".5", Literal(".5")),
        ("-1.5e-3", Literal("-1.5e-3")),
        ("2E+10", Literal("2E+10")),
        ("true", Literal("true")),
        ("FALSE", Literal("false")),
        ("'JFK'", Literal("JFK", is_text=True)),
        ("''", Literal("", is_text=True)),
        ("'it''s'", Literal("it's", is_text=True)),
        ("'and (or) 1'", Literal("and (or) 1", is_text=True)),
    ],
)
def test_values_are_kept_as_they_were_written(text: str, literal: Literal) -> None:
    assert parse_predicate(f"a = {text}") == Compare(A, "=", literal)


@pytest.mark.parametrize(
    ("text", "name"),
    [("_x9", "_x9"), ('"and"', "and"), ('"two words"', "two words"), ("`Quoted`", "Quoted"), ("Null_", "Null_")],
)
def test_columns_may_be_quoted(text: str, name: str) -> None:
    assert parse_predicate(f"{text} = 1") == Compare(Name(name), "=", ONE)


@pytest.mark.parametrize(
    ("text", "predicate"),
    [
        ("a is null", IsNull(A)),
        ("a IS NOT NULL", Not(IsNull(A))),
        ("a in (1)", In(A, (ONE,))),
        ("a in (1, 'x', true)", In(A, (ONE, Literal("x", is_text=True), Literal("true")))),
        ("a not in (1, 2)", Not(In(A, (ONE, TWO)))),
        ("a like 'J%'", Like(A, "J%")),
        ("a NOT LIKE '50!%' ESCAPE '!'", Not(Like(A, "50!%", "!"))),
        ("a like 'it''s' or b = 2", Or(Like(A, "it's"), B_IS_2)),
        ("like like 'x' and escape = 1", And(Like(Name("like"), "x"), Compare(Name("escape"), "=", ONE))),
        ("a between 1 and 2", And(Compare(A, ">=", ONE), Compare(A, "<=", TWO))),
        ("a not between 1 and b", Not(And(Compare(A, ">=", ONE), Compare(A, "<=", B)))),
        ("1 between a and b", And(Compare(ONE, ">=", A), Compare(ONE, "<=", B))),
    ],
)
def test_tests_of_one_column(text: str, predicate: Predicate) -> None:
    assert parse_predicate(text) == predicate


@pytest.mark.parametrize(
    ("text", "predicate"),
    [
        ("a = 1 and b = 2", And(A_IS_1, B_IS_2)),
        ("a = 1 OR b = 2", Or(A_IS_1, B_IS_2)),
        ("a = 1 or b = 2 and c = 1", Or(A_IS_1, And(B_IS_2, C_IS_1))),
        ("a = 1 and b = 2 or c = 1", Or(And(A_IS_1, B_IS_2), C_IS_1)),
        ("(a = 1 or b = 2) and c = 1", And(Or(A_IS_1, B_IS_2), C_IS_1)),
        ("a = 1 and b = 2 and c = 1", And(And(A_IS_1, B_IS_2), C_IS_1)),
        ("a = 1 or b = 2 or c = 1", Or(Or(A_IS_1, B_IS_2), C_IS_1)),
        ("not a = 1 and b = 2", And(Not(A_IS_1), B_IS_2)),
        ("not (a = 1 and b = 2)", Not(And(A_IS_1, B_IS_2))),
        ("not not a = 1", Not(Not(A_IS_1))),
        ("a between 1 and 2 and b = 2", And(And(Compare(A, ">=", ONE), Compare(A, "<=", TWO)), B_IS_2)),
    ],
)
def test_and_binds_closer_than_or_and_not_closest(text: str, predicate: Predicate) -> None:
    assert parse_predicate(text) == predicate


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "'the end' stands where a column or value should be"),
        ("a", "'the end' stands where a comparison should be"),
        ("a =", "'the end' stands where a column or value should be"),
        ("a = 1 b", "'b' is left over"),
        ("a = 1)", "')' is left over"),
        ("(a = 1", "'the end' stands where ')' should be"),
        ("a ( 1", "'(' stands where a comparison should be"),
        ("a 1", "'1' stands where a comparison should be"),
        ("a not = 1", "'=' stands where a comparison should be"),
        ("a is 1", "'1' stands where 'null' should be"),
        ("a in 1", "'1' stands where '(' should be"),
        ("a in (1", "'the end' stands where ')' should be"),
        ("a in ()", "')' stands where a column or value should be"),
        ("a in (b)", "column 'b' stands where a value should be; texts are written 'so'"),
        ("1 in (2)", "'1' stands where a column should be"),
        ("'x' is null", "'x' stands where a column should be"),
        ("a like 5", "'5' stands where a pattern should be; texts are written 'so'"),
        ("a like b", "'b' stands where a pattern should be; texts are written 'so'"),
        ("a like", "'the end' stands where a pattern should be; texts are written 'so'"),
        ("'x' like 'y'", "'x' stands where a column should be"),
        ("a like 'x' escape '!!'", "escape '!!' is not one character"),
        ("a like 'x' escape ''", "escape '' is not one character"),
        ("a like 'x' escape 1", "'1' stands where a character should be; texts are written 'so'"),
        ("a like '!x' escape '!'", "'!x' in pattern '!x' escapes neither % nor _ nor '!'"),
        ("a like 'x!' escape '!'", "'!' in pattern 'x!' escapes neither % nor _ nor '!'"),
        (f"a like '{'x' * 1001}'", "a pattern of 1,001 characters is longer than 1,000"),
        ("a between 1 or 2", "'or' stands where 'and' should be"),
        ("a = null", "'null' stands where a column or value should be"),
        ("and", "'and' stands where a column or value should be"),
        ("a = 'x", 'cannot read "\'x"'),
        ('"" = 1', "cannot read '\"\" = 1'"),
        ("a = 1; drop", "cannot read '; drop'"),
        ("a = - 1", "cannot read '- 1'"),
        ("abs(a) = 1", "'(' stands where a comparison should be"),
        ("a = reflect('java.lang.System')", "'(' is left over"),
        ("a + 1 = 2", "cannot read '+ 1 = 2'"),
    ],
)
def test_what_is_not_in_the_language_is_refused_with_the_place(text: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_predicate(text)

    assert str(caught.value).startswith(f"condition {text!r}: {why}; it takes comparisons")


@pytest.mark.parametrize("before", ["", "(a = 1) and ((b = 2)) or "])
@pytest.mark.parametrize(("opening", "closing"), [("(", ")"), ("not ", "")])
def test_nesting_is_limited(before: str, opening: str, closing: str) -> None:
    parse_predicate(before + opening * 99 + "a = 1" + closing * 99)
    with pytest.raises(UsageError, match="it is nested deeper than 100"):
        parse_predicate(before + opening * 100 + "a = 1" + closing * 100)


@pytest.mark.parametrize("word", ["and", "or"])
def test_a_long_chain_does_not_make_a_deep_tree(word: str) -> None:
    """Whoever walks the tree does so by recursion: a thousand levels end in a RecursionError."""
    try:
        predicate: Predicate | None = parse_predicate(f" {word} ".join(["a = 1"] * 2000))
    except UsageError:
        predicate = None

    assert depth(predicate) <= 200


def test_digits_of_other_scripts_are_not_numbers() -> None:
    with pytest.raises(UsageError, match="cannot read"):
        parse_predicate("a = ٣")


def depth(predicate: Predicate | None) -> int:
    found, level = 0, [predicate]
    while any(level):
        found += 1
        level = [
            inner for outer in level for inner in ((outer.left, outer.right) if isinstance(outer, And | Or) else ())
        ]
    return found


SOME = Extent(low=3, high=7, has_nulls=False)
NULLS = Extent(has_values=False)
NAN = float("nan")


@pytest.mark.parametrize(
    ("text", "ranges", "may"),
    [
        # outside, at the ends, inside
        ("a = 2", {"a": SOME}, False), ("a = 3", {"a": SOME}, True), ("a = 7", {"a": SOME}, True), ("a = 8", {"a": SOME}, False),
        ("a < 3", {"a": SOME}, False), ("a < 4", {"a": SOME}, True), ("a <= 2", {"a": SOME}, False), ("a <= 3", {"a": SOME}, True),
        ("a > 7", {"a": SOME}, False), ("a > 6", {"a": SOME}, True), ("a >= 8", {"a": SOME}, False), ("a >= 7", {"a": SOME}, True),
        ("2 = a", {"a": SOME}, False), ("3 > a", {"a": SOME}, False), ("4 > a", {"a": SOME}, True), ("7 < a", {"a": SOME}, False),
        ("a != 5", {"a": SOME}, True), ("a != 5", {"a": Extent(low=5, high=5)}, False), ("a != 6", {"a": Extent(low=5, high=5)}, True),
        ("a in (1, 2, 8)", {"a": SOME}, False), ("a in (1, 5)", {"a": SOME}, True), ("a between 8 and 9", {"a": SOME}, False),
        # negation goes inward
        ("not a >= 3", {"a": SOME}, False), ("not a > 3", {"a": SOME}, True), ("not not a = 2", {"a": SOME}, False),
        ("not a = 5", {"a": Extent(low=5, high=5)}, False), ("not a != 2", {"a": SOME}, False),
        ("a not in (4, 5)", {"a": Extent(low=5, high=5)}, False), ("a not in (4, 6)", {"a": Extent(low=5, high=5)}, True),
        ("a not between 3 and 7", {"a": SOME}, False), ("a not between 3 and 6", {"a": SOME}, True),
        ("not (a < 3 or a > 7)", {"a": SOME}, True), ("not (a >= 3 or b = 1)", {"a": SOME}, False),
        ("not (a >= 3 and b = 1)", {"a": SOME}, True),
        # and, or
        ("a = 2 and b = 1", {"a": SOME}, False), ("a = 5 and b = 1", {"a": SOME}, True), ("a = 2 or b = 1", {"a": SOME}, True),
        ("a = 2 or a = 8", {"a": SOME}, False),
        # nulls
        ("a is null", {"a": SOME}, False), ("a is null", {"a": Extent(low=3, high=7)}, True), ("a is not null", {"a": SOME}, True),
        ("a is not null", {"a": NULLS}, False), ("a is null", {"a": NULLS}, True), ("a = 5", {"a": NULLS}, False),
        ("not a = 5", {"a": NULLS}, False), ("not not a = 5", {"a": NULLS}, False), ("a not in (5)", {"a": NULLS}, False),
        ("a = b", {"a": NULLS}, False), ("a = b", {"b": NULLS}, False), ("a = 5 or a is null", {"a": NULLS}, True),
        ("not a is null", {"a": Extent(has_nulls=False, has_values=False)}, False),
        # open ends and unknown columns
        ("a > 9", {"a": Extent(low=3)}, True), ("a < 3", {"a": Extent(low=3)}, False), ("a < 1", {"a": Extent(high=3)}, True),
        ("a > 3", {"a": Extent(high=3)}, False), ("a = 9", {}, True), ("not a = 9", {}, True), ("a is null", {}, True),
        # columns with columns
        ("a = b", {"a": SOME, "b": Extent(low=8, high=9)}, False), ("a = b", {"a": SOME, "b": Extent(low=7, high=9)}, True),
        ("a > b", {"a": SOME, "b": Extent(low=7)}, False), ("a >= b", {"a": SOME, "b": Extent(low=7)}, True),
        ("a < b", {"a": SOME, "b": Extent(high=3)}, False), ("a <= b", {"a": SOME, "b": Extent(high=3)}, True),
        ("a != b", {"a": Extent(low=5, high=5), "b": Extent(low=5, high=5)}, False), ("a > b", {"a": SOME}, True),
        ("not a < b", {"a": SOME, "b": Extent(low=8)}, False), ("1 = 2", {}, True),
        # an engine may round 2**53 + 1 before it compares it with a double
        ("a = b", {"a": Extent(low=2**53 + 1, high=2**53 + 1), "b": Extent(low=2.0**53, high=2.0**53)}, True),
        # NaN is the greatest
        ("f = 'nan'", {"f": Extent(low=1.0, high=2.0)}, False), ("f < 'nan'", {"f": Extent(low=1.0, high=2.0)}, True),
        ("f >= 'nan'", {"f": Extent(low=1.0)}, True), ("f > 9", {"f": Extent(low=1.0, high=NAN)}, True),
        ("f <= 9", {"f": Extent(low=NAN, high=NAN)}, False), ("f = 'nan'", {"f": Extent(low=NAN, high=NAN)}, True),
        ("f != 'nan'", {"f": Extent(low=NAN, high=NAN)}, False), ("f = 0", {"f": Extent(low=-0.0, high=-0.0)}, True),
        ("f != 0", {"f": Extent(low=-0.0, high=0.0)}, False),
    ],
)  # fmt: skip
def test_records_outside_of_the_extents_cannot_match(text: str, ranges: dict[str, Extent], may: bool) -> None:  # noqa: FBT001
    def value(literal: Literal, name: str) -> float:
        return float(literal.text) if name == "f" else int(literal.text)

    assert may_match(parse_predicate(text), ranges, value) is may


TEXTS = Extent(low="ab", high="ad", has_nulls=False)


@pytest.mark.parametrize(
    ("text", "extent", "may"),
    [
        ("s like 'ac%'", TEXTS, True), ("s like 'a%'", TEXTS, True), ("s like 'ab_'", TEXTS, True), ("s like 'ad%'", TEXTS, True),
        ("s like 'aa%'", TEXTS, False), ("s like 'ae_'", TEXTS, False), ("s like 'b%'", TEXTS, False), ("s like 'A%'", TEXTS, False),
        ("s like 'ada%'", TEXTS, False), ("s like 'aba%'", TEXTS, True), ("s like 'ac'", TEXTS, True), ("s like 'x'", TEXTS, False),
        ("s like '%x'", TEXTS, True), ("s like '_x'", TEXTS, True), ("s like '%'", TEXTS, True),
        ("s not like 'a%'", TEXTS, False), ("s not like 'ab%'", TEXTS, True), ("s not like 'a_'", TEXTS, True), ("s not like '%'", TEXTS, False),
        ("s not like 'x%'", TEXTS, True), ("s not like 'ab'", Extent(low="ab", high="ab"), False), ("s not like 'ab'", TEXTS, True),
        ("s like 'a%'", NULLS, False), ("s not like 'a%'", NULLS, False), ("s like 'a%'", Extent(), True), ("s not like 'a%'", Extent(), True),
        ("s not like '%'", Extent(), False), ("s like 'a%'", Extent(low="b"), True), ("s like 'a!%%' escape '!'", TEXTS, False),
    ],
)  # fmt: skip
def test_patterns_rule_out_by_what_texts_begin_with(text: str, extent: Extent, may: bool) -> None:  # noqa: FBT001
    as_bytes = Extent(
        low=extent.low and extent.low.encode(),
        high=extent.high and extent.high.encode(),
        has_nulls=extent.has_nulls,
        has_values=extent.has_values,
    )

    assert may_match(parse_predicate(text), {"s": extent}, lambda literal, _: literal.text) is may
    assert may_match(parse_predicate(text), {"s": as_bytes}, lambda literal, _: literal.text.encode()) is may


class Counted(str):
    """A text that counts what is copied of it."""

    __slots__ = ("pieces",)
    pieces: list[int]

    def __getitem__(self, place: Any) -> str:
        piece = super().__getitem__(place)
        self.pieces.append(len(piece))
        return piece


def test_reading_many_values_does_not_copy_the_rest_of_the_text_for_each() -> None:
    """60,000 values took two seconds."""
    text = Counted(f"id in ({', '.join(map(str, range(60_000)))})  ")
    text.pieces = []

    predicate = parse_predicate(text)

    assert isinstance(predicate, In)
    assert len(predicate.values) == 60_000
    assert sum(text.pieces) <= len(text)


@pytest.mark.parametrize(
    ("text", "leaf"),
    [
        ("n > 1e2", ToValue(N, ">", 100)),
        ("n = 1E2", ToValue(N, "=", 100)),
        ("n >= 100.0", ToValue(N, ">", 99)),
        ("n > 1.5", ToValue(N, ">", 1)),
        ("n < 15e-1", ToValue(N, "<=", 1)),
        ("n = 15e-1", ToValue(N, "<", -128)),
        ("n != 1e99", ToValue(N, ">=", -128)),
        ("n < 1e999999", ToValue(N, "<=", 127)),
        ("n > -1e999999", ToValue(N, ">=", -128)),
        ("n > 1e-999999", ToValue(N, ">", 0)),
        ("n in (1e2, 2.5, 7, 1e3)", ToList(N, (100, 7))),
        ("n = '1e2'", ToValue(N, "=", 100)),
    ],
)
def test_a_number_with_a_point_or_an_exponent_is_compared_with_integers_exactly(text: str, leaf: Typed) -> None:
    """`n > 1e2` was refused: 1e2 is not written like an integer."""
    compared = parse_predicate(text)
    assert isinstance(compared, Compare | In)

    assert typed(compared, (N,)) == leaf


@pytest.mark.parametrize("text", ["1e", "e5", "true", "1_0e1", "٣.0", "nan", "inf", ".", "1e99999999999999999999"])
def test_what_is_no_number_is_not_compared_with_integers(text: str) -> None:
    with pytest.raises(UsageError, match=f"value {text!r} does not fit column n of type tinyint"):
        value(Literal(text, is_text=True), N)


@pytest.mark.parametrize(("text", "number"), [("1e300", math.inf), ("-1e300", -math.inf), ("0.5", 0.5)])
def test_a_number_that_no_float_holds_is_beyond_all_of_them(text: str, number: float) -> None:
    assert value(Literal(text), Column("f", "float")) == number


def test_a_nested_value_is_not_read_from_text() -> None:
    with pytest.raises(UsageError, match="value '1' does not fit column a of type array<int>; write a array<int>"):
        parse_value(Column("a", "array<int>"), "1")
