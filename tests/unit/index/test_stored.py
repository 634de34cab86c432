"""Values read back from disk are of the kind that was written, or a ValueError."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from ebb.index.histogram import Histogram
from ebb.index.inputs import InputRules
from ebb.index.ledger import Change
from ebb.index.ranges import load_ranges
from ebb.index.stored import items, members, number, number_or_none, parsed, text, unpacked


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, True, 1.0, "1", None, [1]])
def test_a_number_is_an_integer_of_64_bits(value: object) -> None:
    assert number(2**63 - 1) == 2**63 - 1
    assert number(-(2**63)) == -(2**63)
    with pytest.raises(ValueError, match="stands where an integer should be"):
        number(value)


def test_a_number_may_be_left_out_where_that_is_said() -> None:
    assert number_or_none(None) is None
    assert number_or_none(7) == 7


@pytest.mark.parametrize(("read", "value"), [(text, b"a"), (text, None), (items, (1,)), (items, "ab"), (members, [])])
def test_what_is_of_another_kind_is_refused(read: Any, value: object) -> None:
    with pytest.raises(ValueError, match=r"stands where an? (text|list|object) should be"):
        read(value)


def test_no_more_is_unpacked_than_may_be() -> None:
    packed = zlib.compress(bytes(1000))

    assert unpacked(packed, 1000) == bytes(1000)
    with pytest.raises(ValueError, match="more than 999 bytes"):
        unpacked(packed, 999)
    with pytest.raises(ValueError, match="cut off"):
        unpacked(packed[:-1], 1000)
    with pytest.raises(ValueError, match="incorrect header"):
        unpacked(b"no such thing", 1000)


def test_counts_of_another_kind_are_refused() -> None:
    with pytest.raises(ValueError, match="not written as 'd'"):
        Histogram.loads("close:d:0", zlib.compress(b""))
    with pytest.raises(ValueError, match="an integer"):
        Histogram.loads(f"close:B:{2**63}", zlib.compress(b""))


def test_fingerprints_that_are_cut_are_refused() -> None:
    with pytest.raises(ValueError, match="and each takes 8"):
        Change.restored({"clock": 1, "files": "abcd"})


def test_an_object_of_ranges_that_holds_something_else_is_none() -> None:
    body = zlib.compress(b"\xff" * 8)

    assert load_ranges(b"EBBRNGS1" + zlib.crc32(body).to_bytes(4, "little") + body) is None


@pytest.mark.parametrize(
    "rules", ["[]", '{"rename": 7}', '{"rename": {"a": 7}}', '{"separator": [","]}', '{"extra": 7}']
)
def test_rules_of_another_kind_are_refused(rules: str) -> None:
    with pytest.raises(ValueError, match="should be"):
        InputRules.loads(rules)


def test_json_that_is_nested_without_end_is_a_value_error_like_any_other() -> None:
    for data in ("[" * 100_000, b"[" * 100_000, "{"):
        with pytest.raises(ValueError, match=r"nested too deeply|Expecting"):
            parsed(data)
