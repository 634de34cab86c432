"""Lines of the evidence journal: what a log entry may put into them, and what a changed line breaks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ebb.index.errors import CorruptionError
from ebb.index.journal import ORIGIN, Line, check_chain, commit_facts, counting, parsed_line, written_line


def chain(*facts: dict[str, Any]) -> list[Line]:
    lines: list[Line] = []
    for some in facts:
        lines.append(written_line(some, lines[-1].hash if lines else ORIGIN))
    return lines


def facts_of(ebb: Any, **more: Any) -> dict[str, Any]:
    known: dict[str, Any] = {
        "version": 3, "committed_ms": 5, "operation": "WRITE", "added": (0, 0), "removed": (0, 0),
    }  # fmt: skip
    return commit_facts(b"entry", ebb=ebb, **(known | more))


def test_a_line_is_read_back_as_it_was_written() -> None:
    line = written_line({"version": 1, "case": 'ü "x"'}, ORIGIN)

    assert parsed_line(line.data) == line
    assert (line.version, line.before, line.name) == (1, ORIGIN, "version 1")


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"{}", b'{"before":1}', b'{"version":"1","before":"x"}', b'{"version":1, "before":"x"}', b'{"before":"x"} '],
)  # fmt: skip
def test_what_is_no_line_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"no line|Expecting|Extra"):
        parsed_line(data)


def test_lines_are_a_chain_until_one_is_changed_left_out_or_put_in() -> None:
    lines = chain(*({"version": version} for version in range(5)))
    check_chain(lines, ORIGIN, "the journal")
    check_chain(lines[2:], None, "the journal")
    check_chain([], ORIGIN, "the journal")

    changed = [*lines[:2], written_line({"version": 2, "op": "other"}, lines[1].hash), *lines[3:]]
    with pytest.raises(CorruptionError, match="version 3 does not follow version 2: one of them was changed"):
        check_chain(changed, ORIGIN, "the journal")
    with pytest.raises(CorruptionError, match="version 3 does not follow version 1"):
        check_chain([*lines[:2], *lines[3:]], ORIGIN, "the journal")
    with pytest.raises(CorruptionError, match="version 1 does not follow what stood before it"):
        check_chain(lines[1:], ORIGIN, "the journal")


def test_replaced_commits_count_no_longer_and_lines_about_the_journal_are_none() -> None:
    lines = chain(
        {"gap": [0, 3]}, {"version": 4}, {"version": 5}, {"replaced": [5, 5]}, {"version": 5, "op": "x"},
        {"dropped": [0, 1], "hash": "", "ms": 0},
    )  # fmt: skip

    assert [line.facts.get("op") for line in counting(lines)] == [None, "x"]
    assert [line.name for line in lines] == [
        "gap 0 to 3",
        "version 4",
        "version 5",
        "replaced 5 to 5",
        "version 5",
        "dropped 0 to 1",
    ]
    assert written_line({}, ORIGIN).name == "unknown"


def test_only_what_has_the_right_type_enters_a_line() -> None:
    """An entry may be anybody's: nothing in it may break the journal, or bring values into it."""
    odd = {
        "id": "a" * 500, "op": ["x"], "slot": "7", "expired": 3.5, "received": True, "records": 4, "case": "c" * 500, "by": 7,
        "asked": None, "adopted_versions": [1, "2", None], "exposed": {"3": 4, "4": "x"}, "removed_slots": [1, "2"], "key": "secret",
    }  # fmt: skip

    facts = facts_of(odd)

    assert facts["id"] == "a" * 200
    assert (facts["op"], facts["case"]) == ("['x']", "c" * 200)
    assert (facts["records"], facts["adopted"], facts["exposed"]) == (4, [1], {"3": 4})
    assert not {"slot", "expired", "received", "by", "asked", "removed_slots", "key", "operation"} & set(facts)
    assert "secret" not in json.dumps(facts)
    assert facts_of({"removed_slots": [2, 3]}, removed=(1, 9))["removed_slots"] == [2, 3]


def test_of_another_tools_commit_its_name_and_counts_are_told() -> None:
    facts = facts_of({}, operation="DELETE" * 99, added=(1, 20), removed=(2, 30))

    assert (len(facts["operation"]), facts["added"], facts["removed"]) == (200, [1, 20], [2, 30])
    assert "op" not in facts


@pytest.mark.parametrize("configuration", [None, {}, {"ebb.tick": "x"}, {"ebb.deletionBound": "-1"}])
def test_a_table_may_say_nothing_of_its_bound(configuration: dict[str, str] | None) -> None:
    facts = facts_of({"id": "a"}, metadata={"id": "t", "configuration": configuration})

    assert (facts["table"], facts["declared"]) == ("t", {})


def test_a_table_says_what_bound_holds_from_then_on() -> None:
    facts = facts_of({"id": "a"}, metadata={"id": "t", "configuration": {"ebb.deletionBound": "40", "ebb.tick": "10"}})

    assert facts["declared"] == {"bound": 40, "tick": 10}
