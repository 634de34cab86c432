"""Positions in the log of a table, and what one commit means to a follower."""

from __future__ import annotations

from typing import Any

import pytest

from ebb.index.changes import AfterSlot, AfterVersion, Start, moved, parse_since, token_text
from ebb.index.errors import UsageError
from ebb.index.timeline import TimeKind, Timeline
from tests.filestore import cell_file

NUMBERS = Timeline(kind=TimeKind.INTEGER, origin=0, tick=10, span=30)
HOURS = Timeline(kind=TimeKind.TIMESTAMP, origin=0, tick=3_600_000_000, span=7_200_000_000)
POSITION = "13-3f2a9c00000040008000000000000001"


@pytest.mark.parametrize(
    ("text", "line", "position"),
    [
        ("start", NUMBERS, Start()),
        ("0", NUMBERS, AfterVersion(0)),
        (" 12 ", HOURS, AfterVersion(12)),
        (POSITION, NUMBERS, AfterVersion(13, "3f2a9c00000040008000000000000001")),
        ("slot:4", HOURS, AfterSlot(4)),
        ("slot:-4", NUMBERS, AfterSlot(-4)),
        ("time:49", NUMBERS, AfterSlot(4)),
        ("1970-01-01T05:59:59Z", HOURS, AfterSlot(5)),
        ("time:1970-01-02", HOURS, AfterSlot(24)),
    ],
)
def test_a_position_is_a_version_a_slot_a_time_a_token_or_the_start(
    text: str, line: Timeline, position: object
) -> None:
    assert parse_since(text, line) == position


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", NUMBERS), ("-1", NUMBERS), ("1.5", NUMBERS), ("slot:", NUMBERS), ("slot:x", NUMBERS), ("time:", NUMBERS),
        ("time:1970-01-01", NUMBERS), ("1970-01-01", NUMBERS), ("12-3f2a", NUMBERS), (POSITION.upper(), NUMBERS),
        ("9" * 19, NUMBERS), ("now", HOURS), ("yesterday", HOURS), ("time:5", HOURS), ("Start", HOURS), ("", HOURS),
    ],
)  # fmt: skip
def test_anything_else_is_refused_with_what_to_write(text: str, line: Timeline) -> None:
    with pytest.raises(UsageError) as refused:
        parse_since(text, line)

    assert repr(text.removeprefix("time:")) in str(refused.value) or repr(text) in str(refused.value)


def test_a_token_is_read_back_as_what_it_names() -> None:
    token = token_text("3f2a9c00-0000-4000-8000-000000000001", 13)

    assert token == POSITION
    assert parse_since(token, NUMBERS) == AfterVersion(13, POSITION.split("-")[1])


def said(op: str, **more: Any) -> dict[str, Any]:
    return {"op": op, "slot": 9, "ticks": 2, "admitted": 5, "expired": 3, **more}


NEW = cell_file("n/1", ins=(9, 9), exp=(12, 14))
MIXED = cell_file("r/1", ins=(4, 9), exp=(10, 14))
SURVIVORS = cell_file("r/2", ins=(4, 7), exp=(10, 14))
EXPIRING = cell_file("a/1", ins=(4, 4), exp=(8, 12))
DEAD_BEFORE = cell_file("b/1", ins=(4, 4), exp=(6, 7))
LATER = cell_file("c/1", ins=(4, 4), exp=(10, 12))


@pytest.mark.parametrize("op", ["create", "alter", "retire", "seal", "purge", "erase", "adopt"])
def test_a_commit_that_does_not_move_the_clock_tells_nothing(op: str) -> None:
    assert moved(4, {"op": op, "slot": 9}, [NEW], [EXPIRING]) is None


def test_a_commit_of_another_tool_tells_nothing() -> None:
    assert moved(4, {}, [NEW], [EXPIRING]) is None


def test_an_update_is_read_from_the_files_with_new_records_and_with_those_that_expire_in_it() -> None:
    found = moved(4, said("update"), [NEW, MIXED, SURVIVORS], [EXPIRING, DEAD_BEFORE, LATER])

    assert found is not None
    assert (found.version, found.before, found.slot, found.admitted, found.expired) == (4, 7, 9, 5, 3)
    assert (found.adding, found.expiring) == ((NEW, MIXED), (EXPIRING,))
    assert found.files == (NEW, MIXED, EXPIRING)


def test_all_records_of_a_load_are_new_and_none_expires() -> None:
    found = moved(1, said("load", ticks=1), [NEW, SURVIVORS], [])

    assert found is not None
    assert (found.before, found.adding, found.expiring) == (None, (NEW, SURVIVORS), ())
