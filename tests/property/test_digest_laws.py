"""The digest against its definition in docs/format.md, written down once more without any vectors, and its laws."""

from __future__ import annotations

import itertools
import math
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebb.warehouse.intake.digest import Digest

MASK = 2**64 - 1
GAMMAS = (0x9E3779B97F4A7C15, 0xD1B54A32D192ED03)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def mix(x: int) -> int:
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def words_of(value: Any, kind: pa.DataType) -> list[int]:
    if pa.types.is_list(kind):
        return [len(value), *(word for item in value for word in pair(item, kind.value_type))]
    if pa.types.is_map(kind):
        entry = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        return words_of([{"key": k, "value": v} for k, v in value], pa.list_(entry))
    if pa.types.is_struct(kind):
        return [word for field in kind for word in pair(value[field.name], field.type)]
    if pa.types.is_decimal(kind):
        unscaled = int(Fraction(value) * 10**kind.scale) & (2**128 - 1)
        return [unscaled & MASK, unscaled >> 64]
    if pa.types.is_floating(kind):
        number = 0.0 if value == 0 else value
        return [0x7FF8000000000000 if math.isnan(number) else struct.unpack("<Q", struct.pack("<d", number))[0]]
    if pa.types.is_timestamp(kind):
        since = value - EPOCH
        return [(since.days * 86_400_000_000 + since.seconds * 1_000_000 + since.microseconds) & MASK]
    if pa.types.is_date(kind):
        return [(value - EPOCH.date()).days & MASK]
    if isinstance(value, str | bytes):
        raw = value.encode() if isinstance(value, str) else value
        rest = 8 - len(raw) % 8
        raw += bytes([rest]) * rest
        return [int.from_bytes(raw[i : i + 8], "little") for i in range(0, len(raw), 8)]
    return [int(value) & MASK]


def pair(value: Any, kind: pa.DataType) -> tuple[int, int]:
    if value is None:
        return 0, 0
    mixed = [mix(word + place * GAMMAS[0] & MASK) for place, word in enumerate(words_of(value, kind))]
    return sum(mixed) & MASK, sum((2 * place + 1) * x for place, x in enumerate(mixed)) & MASK


def naive(rows: list[dict[str, Any]], schema: pa.Schema, raw: list[str | None] | None = None) -> Digest:
    sums = [0, 0]
    for row, text in zip(rows, raw or [None] * len(rows), strict=True):
        values = [(place, row[field.name], field.type) for place, field in enumerate(schema)]
        values.append((-1, text, pa.string()))
        for way, gamma in enumerate(GAMMAS):
            inner = sum(
                mix(pair(value, kind)[way] + (place + 1) * gamma & MASK)
                for place, value, kind in values
                if value is not None
            )
            sums[way] = sums[way] + mix(inner & MASK) & MASK
    return Digest(sums[0], sums[1], len(rows))


SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("bytes", pa.binary()),
        ("whole", pa.int64()),
        ("small", pa.int16()),
        ("real", pa.float64()),
        ("single", pa.float32()),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("moment", pa.timestamp("us", "UTC")),
        ("money", pa.decimal128(38, 4)),
        ("list", pa.list_(pa.string())),
        ("tree", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.struct([("c", pa.binary())])))])),
        ("lookup", pa.map_(pa.string(), pa.float64())),
    ]
)


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


def rows() -> st.SearchStrategy[list[dict[str, Any]]]:
    texts, binaries = st.text(max_size=20), st.binary(max_size=20)
    leaves = st.lists(maybe(st.fixed_dictionaries({"c": maybe(binaries)})), max_size=3)
    row = st.fixed_dictionaries(
        {
            "text": maybe(texts),
            "bytes": maybe(binaries),
            "whole": maybe(st.integers(-(2**63), 2**63 - 1)),
            "small": maybe(st.integers(-(2**15), 2**15 - 1)),
            "real": maybe(st.floats()),
            "single": maybe(st.floats(width=32)),
            "flag": maybe(st.booleans()),
            "day": maybe(st.dates()),
            "moment": maybe(st.datetimes(timezones=st.just(UTC))),
            "money": maybe(st.decimals(-(10**33), 10**33, places=4)),
            "list": maybe(st.lists(maybe(texts), max_size=4)),
            "tree": maybe(st.fixed_dictionaries({"a": maybe(st.integers(0, 9)), "b": maybe(leaves)})),
            "lookup": maybe(st.lists(st.tuples(texts, maybe(st.floats())), max_size=3)),
        }
    )
    return st.lists(row, max_size=8)


@given(rows(), st.data())
def test_the_digest_is_the_one_of_its_definition_however_records_are_ordered_and_split(
    records: list[dict[str, Any]], data: st.DataObject
) -> None:
    wanted = naive(records, SCHEMA)
    order = data.draw(st.permutations(records))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(order)), max_size=3)))
    table = pa.Table.from_pylist(list(order), schema=SCHEMA)

    assert Digest.of_records(table) == wanted
    bounds = [0, *cuts, len(order)]
    slices = [table.slice(low, high - low) for low, high in itertools.pairwise(bounds)]
    assert sum((Digest.of_records(part) for part in slices), Digest()) == wanted
    assert Digest.of_records(pa.concat_tables(slices)) == wanted


@given(st.lists(st.tuples(maybe(st.text(max_size=9)), maybe(st.text(max_size=30))), max_size=6))
def test_the_text_of_unreadable_records_is_part_of_the_digest(found: list[tuple[str | None, str | None]]) -> None:
    schema = pa.schema([("key", pa.string())])
    table = pa.Table.from_pylist([{"key": key} for key, _ in found], schema=schema)
    raw = pa.chunked_array([[text for _, text in found]], pa.string())

    assert Digest.of_records(table, raw) == naive([{"key": k} for k, _ in found], schema, [t for _, t in found])


SPELLINGS: list[tuple[list[Any], list[pa.DataType]]] = [
    (["a", None, "", "ünï" * 9], [pa.string(), pa.large_string(), pa.string_view()]),
    ([b"a", None, b"", b"\0" * 9], [pa.binary(), pa.large_binary(), pa.binary_view()]),
    ([1, None, -1], [pa.int8(), pa.int16(), pa.int32(), pa.int64()]),
    ([1.5, None, -0.0, 0.0, float("nan")], [pa.float32(), pa.float64()]),
    ([Decimal("1.25"), None, Decimal("-3.00")], [pa.decimal128(9, 2), pa.decimal128(38, 2), pa.decimal64(9, 2)]),
    ([["a"], None, []], [pa.list_(pa.string()), pa.large_list(pa.large_string())]),
    ([datetime(2013, 3, 10, 7, tzinfo=UTC), None], [pa.timestamp("us", "UTC"), pa.timestamp("us", "Asia/Tokyo")]),
]  # fmt: skip


@pytest.mark.parametrize(("values", "kinds"), SPELLINGS, ids=[str(kinds[0]) for _, kinds in SPELLINGS])
def test_one_value_has_one_digest_in_every_type_that_holds_it(values: list[Any], kinds: list[pa.DataType]) -> None:
    digests = {Digest.of_records(pa.table({"c": pa.array(values, kind)})) for kind in kinds}

    assert len(digests) == 1


def test_what_compares_equal_has_one_digest_and_nothing_else_does() -> None:
    def digest(*values: Any, kind: pa.DataType) -> Digest:
        return Digest.of_records(pa.table({f"c{i}": pa.array([v], kind) for i, v in enumerate(values)}))

    equal = [(0.0, -0.0), (float("nan"), struct.unpack("<d", b"\1\0\0\0\0\0\xf8\xff")[0])]
    for one, other in equal:
        assert digest(one, kind=pa.float64()) == digest(other, kind=pa.float64())
    texts = [
        (),
        ("",),
        ("", None),
        (None, ""),
        ("\0",),
        ("\0\0",),
        ("a" * 8,),
        ("a" * 8 + "\0",),
        ("ab", "c"),
        ("a", "bc"),
    ]
    lists = [[], [None], [None, None], [""], ["", None], [None, ""], ["a", "b"], ["b", "a"], ["ab"]]
    assert len({digest(*values, kind=pa.string()) for values in texts}) == len(texts) - 1  # a null adds nothing
    assert len({digest(value, kind=pa.list_(pa.string())) for value in lists}) == len(lists)


def test_a_column_that_is_added_later_and_null_changes_nothing() -> None:
    table = pa.table({"a": ["x", None], "b": [1, 2]})

    for kind in (pa.string(), pa.int64(), pa.list_(pa.int64()), pa.decimal128(5, 2), pa.map_(pa.string(), pa.int8())):
        assert Digest.of_records(table.append_column("c", pa.nulls(2, kind))) == Digest.of_records(table)


def test_values_that_change_places_between_records_make_another_digest() -> None:
    base = Digest.of_records(pa.table({"a": [1, 2], "b": ["x", "y"]}))

    assert Digest.of_records(pa.table({"a": [2, 1], "b": ["x", "y"]})) != base
    assert Digest.of_records(pa.table({"a": [2, 1], "b": ["y", "x"]})) == base


def test_a_digest_of_these_records_stays_what_it_is_for_ever() -> None:
    """It is stored: a change here needs a new format version."""
    table = pa.table({"k": [1, 2], "pay": ["x" * 20, None], "at": [date(2013, 1, 2), None]})

    assert str(Digest.of_records(table)) == "7e64521000229c7b.80b086852fa8a5ae.2"
