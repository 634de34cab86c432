"""The head record as bytes: two places that take turns, and what of them can be believed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebb.index.head import Head, entry_hash, new_file, places, rolled_back

ONE = Head(table="t", version=7, commit="ab", entry=entry_hash(b"seven"), clock=-3, oldest=2, serial=4)
TWO = replace(ONE, version=8, commit=None, entry=entry_hash(b"eight"), clock=None, serial=5)


@pytest.mark.parametrize(("data", "next_at"), [(ONE.dumps() + TWO.dumps(), 0), (TWO.dumps() + ONE.dumps(), 512)])
def test_the_place_that_is_not_the_newest_is_written_next(data: bytes, next_at: int) -> None:
    assert places(data) == (TWO, next_at, True)


def test_the_next_one_after_a_rollback_was_adopted_has_a_lower_version_and_counts() -> None:
    assert places(replace(ONE, version=5, serial=6).dumps() + TWO.dumps()).head == replace(ONE, version=5, serial=6)


@pytest.mark.parametrize("at", range(0, 1024, 37))
def test_any_byte_that_is_not_as_it_was_is_noticed(at: int) -> None:
    data = bytearray(ONE.dumps() + TWO.dumps())
    data[at] ^= 1
    found = places(bytes(data))

    assert not found.is_whole
    assert found.head == (TWO if at < 512 else ONE)


@pytest.mark.parametrize(
    "data", [b"", b"\n" * 1024, b"x" * 1024, ONE.dumps()[:100], b"EBBHEAD1 00000000 {}", b"\xff" * 600]
)
def test_what_is_no_head_record_is_none(data: bytes) -> None:
    assert places(data).head is None
    assert not places(data).is_whole


def test_a_new_file_has_one_and_room_for_the_next() -> None:
    assert places(new_file(ONE)) == (ONE, 512, True)
    assert len(new_file(ONE)) == 1024


def test_a_head_record_with_long_names_fits_its_place() -> None:
    longest = Head(
        table="t" * 36, version=10**18, commit="a" * 32, entry="b" * 32, clock=-(10**18), oldest=10**18, serial=10**18
    )

    assert len(longest.dumps()) == 512


@pytest.mark.parametrize(
    ("table", "newest", "entry", "found"),
    [
        ("t", 7, ONE.entry, None),
        ("t", 9, ONE.entry, None),
        ("u", 9, ONE.entry, "is that of another table"),
        ("t", 6, None, "ends at version 6"),
        ("t", 9, None, "has no entry 7"),
        ("t", 7, entry_hash(b"other"), "has another entry 7 than the one committed"),
    ],
)
def test_a_log_may_go_on_after_the_head_record_and_lack_nothing_before(
    table: str, newest: int, entry: str | None, found: str | None
) -> None:
    refused = rolled_back("cars", ONE, table=table, newest=newest, entry=entry)

    assert (refused is None) == (found is None)
    assert refused is None or refused.args == ("cars", 7, newest, found)
