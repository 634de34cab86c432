"""Codes of keys: the bytes, their order, and the intervals that probes ask for."""

from __future__ import annotations

import itertools
import math
import struct
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from ebb.index.keys import Interval, Part, code, successor, wanted_keys

INF, NAN = math.inf, math.nan
NEGATIVE_NAN, OTHER_NAN = struct.unpack(">2d", bytes.fromhex("fff80000000000007ff8000000000001"))
NINES = "9" * 38

# Of each type, values in the order that keys of that type have.
ORDERED: dict[str, tuple[Part, ...]] = {
    "boolean": (False, True),
    "bigint": (-(2**63), 1 - 2**63, -(2**32), -257, -256, -1, 0, 1, 255, 256, 2**31, 2**32, 2**63 - 2, 2**63 - 1),
    "double": (-INF, -1.7976931348623157e308, -1.5, -1.0, -2.2250738585072014e-308, -1e-310, -5e-324, 0.0, 5e-324,
               1e-310, 2.2250738585072014e-308, 1.0, math.nextafter(1.0, 2.0), 1.5, 1.7976931348623157e308, INF, NAN),
    "string": ("", "\x00", "\x00\x00", "\x00\x01", "\x00a", "\x01", "\x01\x00", "\x01\x01", "a", "a\x00", "a\x00\x00",
               "a\x00b", "a\x01", "a ", "aa", "ab", "b", "\x7f", "\x80", "é", "ÿ", "\ud7ff", "\uffff", "\U00010000",
               "\U0001f600", "\U0010ffff", "\U0010ffff\x00"),
    "binary": (b"", b"\x00", b"\x00\x00", b"\x00\x01", b"\x00\xfe", b"\x00\xff", b"\x00\xff\x00", b"\x01", b"\x01\xff",
               b"a", b"a\x00", b"a\x01", b"a\xff", b"\xfe\xff", b"\xff", b"\xff\x00", b"\xff\x01", b"\xff\xff"),
    "decimal": tuple(Decimal(f"{digits}E-2") for digits in (
               f"-{NINES}", f"-{NINES[1:]}8", "-256", "-255", "-1", "0", "1", "9", "10", "255", "256", NINES[1:], NINES)),
    "date": (date.min, date(1582, 10, 4), date(1969, 12, 30), date(1969, 12, 31), date(1970, 1, 1), date(1970, 1, 2),
             date(2000, 2, 29), date.max),
    "timestamp": (datetime.min.replace(tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999998, UTC),
                  datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), datetime(1970, 1, 1, tzinfo=UTC),
                  datetime(1970, 1, 1, 0, 0, 0, 1, UTC), datetime.max.replace(tzinfo=UTC)),
}  # fmt: skip
PAIRS = list(itertools.product(ORDERED, repeat=2))


def is_rising(codes: list[bytes]) -> bool:
    return all(low < high for low, high in itertools.pairwise(codes))


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (False, "00"),
        (True, "01"),
        (-(2**63), "0000000000000000"),
        (-1, "7fffffffffffffff"),
        (0, "8000000000000000"),
        (2**63 - 1, "ffffffffffffffff"),
        (-INF, "000fffffffffffff"),
        (-1.5, "4007ffffffffffff"),
        (0.0, "8000000000000000"),
        (-0.0, "8000000000000000"),
        (5e-324, "8000000000000001"),
        (INF, "fff0000000000000"),
        (NAN, "fff8000000000000"),
        ("", "0001"),
        ("N14", "4e3134 0001"),
        ("a\x00\x01", "61 00ff 01 0001"),
        ("é\U0001f600", "c3a9 f09f9880 0001"),
        (b"\x00\xff", "00ff ff 0001"),
        (Decimal("0.00"), "80" + "00" * 15),
        (Decimal("-0.01"), "7f" + "ff" * 15),
        (Decimal("2.56"), "80" + "00" * 13 + "0100"),
        (Decimal(NINES), "cb3b4ca85a86c47a098a223fffffffff"),
        (Decimal(f"-{NINES}"), "34c4b357a5793b85f675ddc000000001"),
        (date(1970, 1, 1), "8000000000000000"),
        (date(1969, 12, 31), "7fffffffffffffff"),
        (datetime(1970, 1, 2, tzinfo=UTC), "800000141dd76000"),
        (datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), "7fffffffffffffff"),
    ],
    ids=repr,
)  # fmt: skip
def test_the_bytes_of_a_part_are_those_that_are_kept_on_disk(part: Part, expected: str) -> None:
    assert code((part,)) == bytes.fromhex(expected)


@pytest.mark.parametrize("kind", ORDERED)
def test_codes_are_in_the_order_of_the_values(kind: str) -> None:
    assert is_rising([code((part,)) for part in ORDERED[kind]])


@pytest.mark.parametrize(("first", "second"), PAIRS, ids=["-".join(pair) for pair in PAIRS])
def test_codes_of_two_parts_are_in_the_order_of_the_first_and_then_the_second(first: str, second: str) -> None:
    assert is_rising([code(key) for key in itertools.product(ORDERED[first], ORDERED[second])])


def test_codes_of_three_parts_of_any_types_are_in_order() -> None:
    few = {kind: [*dict.fromkeys((parts[0], parts[len(parts) // 2], parts[-1]))] for kind, parts in ORDERED.items()}
    for kinds in itertools.product(few, repeat=3):
        assert is_rising([code(key) for key in itertools.product(*(few[kind] for kind in kinds))]), kinds


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (0.0, -0.0),
        (NAN, NEGATIVE_NAN),
        (NAN, OTHER_NAN),
        (Decimal("0.00"), Decimal("-0.00")),
        (datetime(2024, 3, 1, 12, tzinfo=UTC), datetime(2024, 3, 1, 7, tzinfo=timezone(timedelta(hours=-5)))),
        (datetime(1969, 12, 31, 23, tzinfo=UTC), datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=2)))),
        ("é", "é".encode()),
    ],
    ids=["zeros", "NaN with a sign", "NaN with other bits", "decimal zeros", "zones", "zones before 1970", "text as bytes"],
)  # fmt: skip
def test_equal_parts_have_one_code(one: Part, other: Part) -> None:
    assert code((one,)) == code((other,))


def test_texts_that_look_equal_are_two_keys_if_their_bytes_differ() -> None:
    assert code(("é",)) != code(("e\u0301",))


def test_the_code_of_no_parts_is_empty() -> None:
    assert code(()) == b""


@pytest.mark.parametrize(
    ("part", "error"),
    [
        (2**63, OverflowError),
        (-(2**63) - 1, OverflowError),
        (datetime(2024, 1, 1), TypeError),  # noqa: DTZ001 - a time that is nowhere
        ("\ud800", UnicodeEncodeError),
    ],
    ids=["above 64 bits", "below 64 bits", "without a zone", "half a character"],
)
def test_what_no_column_can_hold_is_an_error_and_never_another_code(part: Part, error: type[Exception]) -> None:
    with pytest.raises(error):
        code((part,))


def test_null_has_no_code() -> None:
    with pytest.raises(TypeError):
        code((7, None))  # type: ignore[arg-type] # what is tested


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (b"", None),
        (b"\xff", None),
        (b"\xff" * 9, None),
        (b"\x00", b"\x01"),
        (b"a", b"b"),
        (b"\xfe", b"\xff"),
        (b"a\xff", b"b"),
        (b"a\xff\xff\xff", b"b"),
        (b"\xff\xfe\xff", b"\xff\xff"),
        (b"\xff\x00\xff", b"\xff\x01"),
        (b"a\xffb", b"a\xffc"),
    ],
)
def test_the_successor_adds_one_to_the_last_byte_that_can_grow(start: bytes, expected: bytes | None) -> None:
    assert successor(start) == expected


def test_between_a_start_and_its_successor_is_exactly_what_begins_with_it() -> None:
    texts = [bytes(t) for size in range(4) for t in itertools.product((0, 1, 0xFE, 0xFF), repeat=size)]
    for start in texts:
        interval = Interval(start, successor(start))

        assert [t for t in texts if interval.holds(t)] == [t for t in texts if t.startswith(start)], start


@pytest.mark.parametrize(
    ("interval", "held", "left_out"),
    [
        (Interval(b"", None), [b"", b"\x00", b"\xff\xff"], []),
        (Interval(b"b", None), [b"b", b"b\x00", b"\xff"], [b"", b"a\xff"]),
        (Interval(b"", b"b"), [b"", b"a\xff"], [b"b", b"b\x00"]),
        (Interval(b"b", b"c"), [b"b", b"b\xff\xff"], [b"a\xff", b"c"]),
        (Interval(b"b", b"b"), [], [b"a", b"b", b"b\x00"]),
        (Interval(b"c", b"b"), [], [b"a", b"b", b"b\x00", b"c", b"d"]),
    ],
    ids=["all", "open above", "open below", "closed", "empty", "reversed"],
)
def test_an_interval_holds_its_start_and_not_its_stop(
    interval: Interval, held: list[bytes], left_out: list[bytes]
) -> None:
    assert [interval.holds(found) for found in held + left_out] == [True] * len(held) + [False] * len(left_out)


Key = tuple[Part, ...]


def held_by(interval: Interval, keys: list[Key]) -> list[Key]:
    """Return the keys that an interval holds, alone and with any expiration slot after them: with all or none."""
    found = []
    for key in keys:
        answers = [interval.holds(code((*key, *slot))) for slot in ((), (-(2**63),), (0,), (2**63 - 1,))]
        assert answers in ([True] * 4, [False] * 4), key
        found += [key] if answers[0] else []
    return found


NUMBERS: list[Key] = [(n,) for n in ORDERED["bigint"]]
TEXTS: list[Key] = [(text,) for text in ORDERED["string"]]
FLIGHTS: list[Key] = [
    ("", 1), ("A", 7), ("AA", -1), ("AA", 1), ("AA", 2), ("AA\x00", 1), ("AB", 1), ("\U0010ffff", 2**63 - 1),
]  # fmt: skip


@pytest.mark.parametrize("kind", ORDERED)
def test_the_interval_of_a_key_holds_this_key_alone(kind: str) -> None:
    keys: list[Key] = [(part,) for part in ORDERED[kind]]
    for key in keys:
        assert held_by(Interval.of_key(key), keys) == [key]


@pytest.mark.parametrize(
    ("parts", "found"),
    [((), FLIGHTS), (("AA",), FLIGHTS[2:5]), (("AA", 1), FLIGHTS[3:4]), (("",), FLIGHTS[:1]), (("B",), [])],
)
def test_the_interval_of_leading_parts_holds_all_that_they_lead(parts: Key, found: list[Key]) -> None:
    assert held_by(Interval.of_key(parts), FLIGHTS) == found


@pytest.mark.parametrize(
    ("keys", "low", "high", "found"),
    [
        (NUMBERS, None, None, NUMBERS),
        (NUMBERS, (-(2**63),), (2**63 - 1,), NUMBERS),
        (NUMBERS, (2**63 - 1,), None, NUMBERS[-1:]),
        (NUMBERS, None, (-(2**63),), NUMBERS[:1]),
        (NUMBERS, (-1,), (1,), [(-1,), (0,), (1,)]),
        (NUMBERS, (2,), (254,), []),
        (NUMBERS, (1,), (0,), []),
        (TEXTS, ("",), ("",), [("",)]),
        (TEXTS, ("a",), ("a\x00\x00",), [("a",), ("a\x00",), ("a\x00\x00",)]),
        (TEXTS, ("\U0010ffff",), None, [("\U0010ffff",), ("\U0010ffff\x00",)]),
        (FLIGHTS, ("AA",), ("AA",), FLIGHTS[2:5]),
        (FLIGHTS, ("AA", 1), ("AA",), FLIGHTS[3:5]),
        (FLIGHTS, ("AA",), ("AA", 1), FLIGHTS[2:4]),
        (FLIGHTS, ("AA", 2), ("AB", 0), FLIGHTS[4:6]),
        (FLIGHTS, ("AB",), ("AA",), []),
    ],
)  # fmt: skip
def test_a_range_holds_both_of_its_ends_and_what_they_lead(
    keys: list[Key],
    low: Key | None,
    high: Key | None,
    found: list[Key],
) -> None:
    assert held_by(Interval.of_range(low, high), keys) == found


@pytest.mark.parametrize("kind", ["string", "binary"])
def test_a_prefix_holds_the_texts_that_start_with_it(kind: str) -> None:
    texts = [part for part in ORDERED[kind] if isinstance(part, str | bytes)]
    for start in texts:
        expected = [(text,) for text in texts if text[: len(start)] == start]

        assert held_by(Interval.of_prefix((start,)), [(text,) for text in texts]) == expected


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ((7, ""), [(7, ""), (7, "a"), (7, "ab")]),
        ((7, "a"), [(7, "a"), (7, "ab")]),
        ((7, "b"), []),
        ((8, ""), [(8, "a")]),
    ],
)
def test_a_prefix_after_leading_parts_stays_with_them(parts: Key, found: list[Key]) -> None:
    keys: list[Key] = [(6, "a"), (7, ""), (7, "a"), (7, "ab"), (8, "a")]

    assert held_by(Interval.of_prefix(parts), keys) == found


def test_a_prefix_that_no_byte_string_is_above_is_open() -> None:
    assert Interval.of_prefix((b"\xff\xff",)) == Interval(b"\xff\xff", None)
    assert Interval.of_prefix(("",)) == Interval(b"", None)


def test_only_texts_have_beginnings() -> None:
    with pytest.raises(AssertionError):
        Interval.of_prefix(("AA", 7))


def test_a_key_that_is_asked_for_twice_or_led_by_another_is_answered_once() -> None:
    wanted = wanted_keys([("b",), ("a", 2), ("a",), ("a", 1), ("b",)])

    assert wanted.keys == (("a",), ("b",))
    assert [interval.start for interval in wanted.intervals] == [code(("a",)), code(("b",))]
