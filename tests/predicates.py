"""Random predicates over columns of every type, random records, and what a literal means, the slow way."""

from __future__ import annotations

import math
import re
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from ebb.index.columns import Column
from ebb.index.predicate.syntax import And, Compare, In, IsNull, Like, Literal, Name, Not, Or, Predicate

__all__ = [
    "COLUMNS",
    "INF",
    "NAN",
    "SIGNS",
    "TEXTS",
    "TYPES",
    "UTC",
    "Record",
    "likes",
    "predicates",
    "records",
    "single",
    "typed",
]

Record = dict[str, Any]
NAN, INF = math.nan, math.inf
COLUMNS = tuple(
    Column(name, type)
    for name, type in {
        "s": "string", "z z": "string", "tiny": "tinyint", "small": "smallint", "i": "int", "big": "bigint",
        "f": "float", "d": "double", 'd"2': "double", "dec": "decimal(10,2)", "far`": "decimal(38,37)",
        "day": "date", "ts": "timestamp", "flag": "boolean", "AND": "boolean", "blob": "binary", "tags": "array<int>",
    }.items()
)  # fmt: skip
TYPES = {column.name: column.type for column in COLUMNS}
INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
SIGNS = ["=", "!=", "<", "<=", ">", ">="]
TEXTS = [
    "", "a", "b", "ab", "é", "\U0001f600", "\uffff", "'", "''", "\\", "\\'", "a\\", '"', "`", "\n", "\r\n", "\t", "\0", "a\0b",
    "${env:HOME}", "$1", "?", ":x", "{x}", "%s", "-- a", "/* a", "' OR 1=1 --", "\\' OR 1=1 --", "\\u0027", "\u2019", "x'41'", "NULL",
]  # fmt: skip
DECIMALS = ["-99999999.99", "-0.3", "0", "0.10", "0.3", "1.25", "3", "7.5", "99999999.99",
            "1.255", "-0.299", "0.005", "1e-9", "100000000", "-99999999.991", "1e300", "-1e300"]  # fmt: skip
MOMENTS = ["0001-01-01T00:00:00", "1969-12-31T23:59:59.999999", "1970-01-01", "2013-06-01T12:00:00.5", "9999-12-31T23:59:59.999999"]  # fmt: skip
FLOATS = ["nan", "-inf", "-1e300", "-1.5", "-0.0", "0", "5e-324", "0.1", "0.3", "3", "1e15", "9007199254740993", "inf"]


def texts_of(type: str) -> list[str]:
    """Return literals of a type as they are written."""
    if type in INTEGERS:
        end = 2 ** (INTEGERS[type] - 1)
        return ["-7", "0", "3", "127", str(-end), str(end - 1), "2.5", "3.0", "-0.5", "1.5e300", "-1.5e300", f"{end}.0", f"{-end}.5",
                "1e2", "-7E0", "127e-0", "25e-1", "1e-9", "1e300", "-1e18", str(end), str(-end - 1), "9" * 30]  # fmt: skip
    return {
        "string": TEXTS,
        "binary": ["", "00", "61", "0x6162", "ff", "c3a9"],
        "float": FLOATS,
        "double": FLOATS,
        "decimal(10,2)": DECIMALS,
        "decimal(38,37)": ["-9.9999", "0", "0.3", "1e-37", "7.5", "15e-38", "10", "-1e5"],
        "date": ["0001-01-01", "1969-12-31", "1970-01-01", "2013-06-01", "9999-12-31"],
        "timestamp": [*MOMENTS, "1970-01-01T01:00:00+01:00", "2013-06-01"],
        "boolean": ["true", "false"],
    }[type]


def typed(literal: Literal, name: str) -> Any:
    """Give a literal its type the slow way, without Arrow."""
    type, text = TYPES[name], literal.text
    match type:
        case "string":
            return text
        case "binary":
            return bytes.fromhex(text.removeprefix("0x"))
        case "float":
            return single(float(text))
        case "double":
            return float(text)
        case "date":
            return date.fromisoformat(text)
        case "timestamp":
            # Python 3.10 reads fractions of six digits only, and no Z.
            whole = re.sub(r"\.([0-9]+)", lambda match: f".{match[1]:0<6}", text.replace("Z", "+00:00"))
            moment = datetime.fromisoformat(whole)
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        case "boolean":
            return text == "true"
        case _:
            return Decimal(text)


def single(number: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return math.copysign(INF, number)


def cells_of(type: str) -> st.SearchStrategy[Any]:
    """Return values of a type, often equal to a literal or next to it."""
    others: dict[str, st.SearchStrategy[Any]] = {
        "string": st.text(max_size=3),
        "binary": st.binary(max_size=2),
        "float": st.floats(width=32),
        "double": st.floats(),
        "decimal(10,2)": st.decimals(-99, 99, places=2),
        "decimal(38,37)": st.decimals(-9, 9, places=37),
        "date": st.dates(),
        "timestamp": st.datetimes(timezones=st.just(UTC)),
        "boolean": st.booleans(),
    }
    name = next(name for name, other in TYPES.items() if other == type)
    known = [typed(Literal(text), name) for text in texts_of(type)]
    if type in INTEGERS:
        end = 2 ** (INTEGERS[type] - 1)
        known = [int(number) for number in known if -end <= number < end and number == int(number)]
        return st.none() | st.sampled_from(known) | st.integers(-end, end - 1)
    if type.startswith("decimal"):
        precision, scale = map(int, type.removeprefix("decimal(").removesuffix(")").split(","))
        known = [
            number
            for number in known
            if abs(number) < 10 ** (precision - scale) and int(number.as_tuple().exponent) >= -scale
        ]
    return st.none() | st.sampled_from(known) | others[type]


records = st.fixed_dictionaries(
    {name: st.none() if type.startswith("array") else cells_of(type) for name, type in TYPES.items()}
)
GROUPS = [
    ["s", "z z", "blob"], ["tiny", "small", "i", "big", "f", "d", 'd"2', "dec"], ["d", "far`"], ["day", "ts"], ["flag", "AND"],
]  # fmt: skip


@st.composite
def likes(draw: st.DrawFn, names: list[str], texts: list[str]) -> Like:
    """Return a pattern with wildcards, made of texts that records hold too; an escape is before what it may be before."""
    escape = draw(st.none() | st.sampled_from(["!", "\\", "a", "é", "'", "$", "%", "_"]))
    special = "%_" if escape is None else f"%_{escape}"
    pieces = []
    for piece in draw(st.lists(st.sampled_from([*texts, "%", "%", "_", "%%", "_%"]), max_size=4)):
        is_literal = escape is not None and draw(st.booleans())
        pieces += [f"{escape}{sign}" if sign == escape or (is_literal and sign in special) else sign for sign in piece]
    return Like(Name(draw(st.sampled_from(names))), "".join(pieces), escape)


@st.composite
def leaves(draw: st.DrawFn) -> Predicate:
    name = draw(st.sampled_from([name for name in TYPES if name != "tags"]))
    literal = st.sampled_from(texts_of(TYPES[name])).map(lambda text: Literal(text, is_text=True))
    match draw(st.integers(0, 5)):
        case 0:
            return IsNull(Name(draw(st.sampled_from([name, "tags"]))))
        case 1:
            return In(Name(name), tuple(draw(st.lists(literal, min_size=1, max_size=4))))
        case 2:
            group = next(group for group in draw(st.permutations(GROUPS)) if name in group)
            return Compare(Name(name), draw(st.sampled_from(SIGNS)), Name(draw(st.sampled_from(group))))
        case 4:
            return draw(likes(["s", "z z"], TEXTS))
        case 3:
            return Compare(draw(literal), draw(st.sampled_from(SIGNS)), Name(name))
        case _:
            return Compare(Name(name), draw(st.sampled_from(SIGNS)), draw(literal))


predicates = st.recursive(
    leaves(),
    lambda inner: st.builds(Not, inner) | st.builds(And, inner, inner) | st.builds(Or, inner, inner),
    max_leaves=5,
)
