"""Comparing what was read, without reading anything: entries of a log with each other and with the head record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ebb.index.head import Head
from ebb.maintenance.inspect.findings import history_findings, log_findings, quarantine_findings
from ebb.warehouse.check.log import EntryFacts, LogFacts
from ebb.warehouse.table.head import Known


def entry(version: int, op: str = "update", clock: int | None = None, **said: Any) -> EntryFacts:
    """Return an entry of a sound log: version v is the update of slot v, which admits two records and expires one."""
    at = version if clock is None else clock
    known: Mapping[str, Any] = {
        "op": op, "slot": at, "ticks": 1, "received": 3, "admitted": 2, "expired_on_arrival": 1, "quarantined": 0, "expired": 1,
        "live": 10 + version, "ledger": {"clock": at}, "after": f"hash {version - 1}",
    }  # fmt: skip
    if op != "update":
        known = {name: known[name] for name in ("op", "slot", "ledger", "after")}
    return EntryFacts(version=version, hash=f"hash {version}", clock=at, ebb={**known, **said}, files=0)


SOUND = [entry(1), entry(2), entry(3, "seal", clock=2), replace(entry(4, clock=3, live=13)), entry(5, "erase", clock=3)]


def codes(*entries: EntryFacts) -> list[tuple[str, str]]:
    return [(found.code, found.where[-6:-5]) for found in history_findings(entries)]


def test_a_sound_history_has_no_findings() -> None:
    assert codes(*SOUND) == []
    assert codes() == []


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        (entry(4, clock=3, live=13, after="another"), [("log-entry", "3")]),
        (entry(4, clock=4, live=13), [("history", "4")]),
        (entry(4, clock=3, live=14), [("counts", "4")]),
        (entry(4, clock=3, live=13, received=4), [("counts", "4")]),
        (replace(entry(4, clock=3, live=13), clock=9), [("clock", "4")]),
        (entry(4, clock=3, live="many"), [("counts", "4"), ("log-entry", "4")]),
        (entry(4, clock=3, live=13, ledger={}), [("log-entry", "4")]),
        (entry(4, clock=3, live=13, ticks=None), [("log-entry", "4")]),
    ],
)
def test_each_kind_of_contradiction_is_found(wrong: EntryFacts, found: list[tuple[str, str]]) -> None:
    assert codes(*SOUND[:3], wrong) == found


def test_what_lies_between_two_entries_that_are_there_is_not_guessed() -> None:
    assert codes(SOUND[0], entry(7)) == []


def test_commits_of_other_tools_are_followed_and_not_understood() -> None:
    other = EntryFacts(version=2, hash="hash 2", clock=None, ebb={}, files=0)

    assert codes(entry(1), other, entry(3, clock=2, live=12)) == []


def test_a_commit_that_changes_counts_in_its_own_way_begins_them_anew() -> None:
    assert codes(entry(1), entry(2, "forget", clock=1), entry(3, clock=2, live=4), entry(4, clock=3, live=5)) == []


def log(*versions: int, oldest: int | None = 0, **more: Any) -> LogFacts:
    head = None if oldest is None else Head(table="t", version=9, commit=None, entry="", clock=None, oldest=oldest)
    return LogFacts(head=Known(head), entries=[entry(v) for v in versions], **more)


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        (log(0, 1, 2), []),
        (log(1, 2), ["log-entry"]),
        (log(5, 6, oldest=5), []),
        (log(5, 6, oldest=4), ["log-entry"]),
        (log(5, 6, oldest=None), ["log-entry"]),
        (log(5, 6, oldest=None, checkpoints=(5,)), []),
        (log(0, 2, missing=(1,)), ["log-entry"]),
        (log(0, damaged={1: "x"}), ["log-entry"]),
        (log(0, checkpoint_problem="is gone"), ["checkpoint"]),
    ],
)
def test_a_log_begins_where_the_head_record_or_a_checkpoint_says(facts: LogFacts, found: list[str]) -> None:
    assert [one.code for one in log_findings(facts)] == found


@pytest.mark.parametrize(
    ("there", "is_cleared", "found"),
    [
        ({1: 2}, False, 0),
        ({1: 1}, False, 1),
        ({1: 1}, True, 0),
        ({1: 3}, True, 1),
        ({}, False, 1),
        ({1: 2, 9: 5}, False, 0),
    ],
)
def test_the_quarantine_holds_what_updates_refused(there: dict[int, int], *, is_cleared: bool, found: int) -> None:
    entries = [entry(1, quarantined=2, received=5)]

    findings = quarantine_findings(there, entries, clock=4, kept_after=0, is_cleared=is_cleared)

    assert len(list(findings)) == found


def test_what_the_quarantine_need_not_keep_any_more_is_no_finding() -> None:
    assert list(quarantine_findings({}, [entry(1, quarantined=2)], clock=9, kept_after=1, is_cleared=False)) == []
