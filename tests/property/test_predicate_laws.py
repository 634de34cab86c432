"""Laws of --where: what is written is what is read, and nothing ends in a crash."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from index.errors import UsageError
from index.predicate import And, Compare, In, IsNull, Literal, Name, Not, Or, Predicate, parse_predicate

laws = settings(deadline=None, max_examples=60)
names = st.text(st.characters(codec="utf-8", exclude_characters='"'), min_size=1, max_size=8).map(Name)
literals = st.one_of(
    st.integers().map(lambda number: Literal(str(number))),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda number: Literal(repr(number))),
    st.text(max_size=8).map(lambda text: Literal(text, is_text=True)),
    st.sampled_from([Literal("true"), Literal("false")]),
)
operands = names | literals
signs = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
leaves: st.SearchStrategy[Predicate] = st.one_of(
    st.builds(Compare, operands, signs, operands),
    st.builds(In, names, st.lists(literals, min_size=1, max_size=3).map(tuple)),
    st.builds(IsNull, names),
)
predicates = st.recursive(
    leaves, lambda inner: st.builds(Not, inner) | st.builds(And, inner, inner) | st.builds(Or, inner, inner)
)
words = st.sampled_from([*"()=<>,'\"`-.;", "and", "or", "not", "in", "between", "is", "null", "a", "1", "'x'", " "])


def written(predicate: Predicate | Name | Literal) -> str:
    """Write a predicate the long way, with brackets around everything."""
    match predicate:
        case Name(name):
            return f'"{name}"'
        case Literal(text, is_text):
            return "'" + text.replace("'", "''") + "'" if is_text else text
        case Compare(left, sign, right):
            return f"{written(left)} {sign} {written(right)}"
        case In(name, values):
            return f"{written(name)} in ({', '.join(map(written, values))})"
        case IsNull(name):
            return f"{written(name)} is null"
        case Not(inner):
            return f"not ({written(inner)})"
        case And(left, right):
            return f"({written(left)}) and ({written(right)})"
        case Or(left, right):
            return f"({written(left)}) or ({written(right)})"


@laws
@given(predicates)
def test_a_predicate_that_is_written_is_read_back(predicate: Predicate) -> None:
    assert parse_predicate(written(predicate)) == predicate


@laws
@given(st.text() | st.lists(words, max_size=30).map(" ".join) | st.lists(words, max_size=30).map("".join))
def test_any_text_is_a_predicate_or_refused(text: str) -> None:
    with suppress(UsageError):
        parse_predicate(text)
