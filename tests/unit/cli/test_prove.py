"""Evidence reports and metrics on the command line, and what status --check finds."""

from __future__ import annotations

import random
import re
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebb.cli.output.page import page, read_written
from ebb.cli.output.prometheus import exposition
from ebb.index.errors import CorruptionError, UsageError
from ebb.maintenance.inspect.metrics import Metric
from ebb.maintenance.inspect.watch import Limits, watch
from tests.builders import integer_table, open_warehouse, records, write_batch
from tests.evidence import WAYS, WallTable
from tests.foreign import planted
from tests.seeds import drawn_seed, rounds
from tests.unit.cli.command import Command
from tests.unit.cli.conftest import DECLARED

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
_SAMPLE = re.compile(rf"({_NAME})(?:\{{(.*)\}})? (-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)")
_HELP = re.compile(rf"# HELP ({_NAME}) ((?:[^\\\n]|\\\\|\\n)*)")
_TYPE = re.compile(rf"# TYPE ({_NAME}) (counter|gauge|histogram|summary|untyped)")


def parsed(text: str) -> dict[str, dict[str | None, float]]:
    """Read the text format strictly: help, type, samples of one metric, then the next; no metric and no sample twice."""
    found: dict[str, dict[str | None, float]] = {}
    helped = typed = ""
    assert text.endswith("\n")
    for line in text[:-1].split("\n"):
        if match := _HELP.fullmatch(line):
            assert match[1] not in found
            helped, found[match[1]] = match[1], {}
        elif match := _TYPE.fullmatch(line):
            assert match[1] == helped
            typed = match[1]
        else:
            match = _SAMPLE.fullmatch(line)
            assert match, line
            assert match[1] == typed
            labels = dict(_LABEL.findall(match[2] or ""))
            assert ",".join(f'{name}="{value}"' for name, value in labels.items()) == (match[2] or "")
            table = labels.get("table")
            table = None if table is None else re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], table)
            assert table not in found[typed]
            found[typed][table] = float(match[3])
    assert all(found.values()), "a metric without a sample"
    return found


@pytest.fixture
def with_history(with_table: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Return the command with a table whose records have come and gone."""
    monkeypatch.setenv("EBB_ENGINE", "direct")
    with_table.right("update", "t", write_batch(Path("1.csv"), records((1, "a", 1, 2), (2, "b", 1, 5))), "--at", 1)
    for slot in range(2, 9):
        with_table.right("update", "t", "--at", slot)
    return with_table


def test_a_report_is_written_read_and_verified(with_history: Command, capsys: pytest.CaptureFixture[str]) -> None:
    text = with_history.right("evidence", "t").out
    assert text.startswith("the deletion bound was kept\n")
    assert "What expired when" in text
    assert "What was asked for" not in text
    for name in ("r.json", "r.html"):
        lines = with_history.right("evidence", "t", "--output", name).out.splitlines()
        assert lines[0] == f"evidence of t written to {name}: bound kept"
        assert lines[1] == f"  hash {with_history.right('evidence', '--verify', name, '--json').json['hash']}"
        shown = with_history.right("evidence", "--verify", name).out
        assert shown.startswith(f"{name} is as it was written: table t, ")
        assert "all agree" in shown
    assert with_history.right("evidence", "t", "--json").out.startswith('{"about":{"report":"evidence of deletion"')
    elsewhere = Command(with_history.root / "none", capsys)
    assert "its table is not here" in elsewhere.right("evidence", "--verify", "r.html").out


def test_a_part_of_a_report_is_asked_for_by_time(with_history: Command) -> None:
    told = with_history.right("evidence", "t", "--from", 2, "--to", 5, "--json").json

    assert [tick["slot"] for tick in told["findings"]["ticks"]] == [3, 4, 5]
    assert (told["about"]["from"], told["about"]["to"]) == ("2", "5")


def test_a_changed_report_is_named_and_fails(with_history: Command) -> None:
    for name in ("r.json", "r.html"):
        with_history.right("evidence", "t", "--output", name)
        data = Path(name).read_bytes()
        for place in (10, data.find(b"bound") + 2, len(data) // 2, len(data) - 9):
            Path(name).write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
            error = with_history.wrong("evidence", "--verify", name, code=1)
            assert error.startswith(f"{name}: the "), error
            assert "not as it was written" in error, error
    Path("r.html").write_bytes(b"<!doctype html>")
    assert "it has not the parts of a report" in with_history.wrong("evidence", "--verify", "r.html", code=1)


def test_a_report_of_another_table_or_none_is_refused(with_history: Command) -> None:
    with_history.right("evidence", "t", "--output", "r.json")

    assert "r.json is about table t, not u" in with_history.wrong("evidence", "u", "--verify", "r.json", code=2)
    assert "no.json cannot be read" in with_history.wrong("evidence", "--verify", "no.json", code=1)
    assert "needs the name of a table" in with_history.wrong("evidence", code=2)
    assert "pass it alone" in with_history.wrong("evidence", "--verify", "r.json", "--from", "1", code=2)
    assert "there is no folder" in with_history.wrong("evidence", "t", "--output", "no/where.json", code=1)


def test_a_broken_promise_fails_if_that_is_asked_for(with_history: Command) -> None:
    assert with_history.right("evidence", "t", "--check").out
    with_history.right("update", "t", write_batch(Path("9.csv"), records((3, "c", 9, 10))), "--at", 9)
    with_history.right("update", "t", "--at", 30, "--catch-up", "--yes")
    with_history.right("update", "t", "--at", 31)
    with_history.right("update", "t", "--at", 32)

    assert "a promise was BROKEN" in with_history.right("evidence", "t").out
    result = with_history("evidence", "t", "--check", "--output", "r.html")
    assert (result.code, result.err) == (1, "ebb: a promise of table t was broken; see the report\n")
    assert with_history("evidence", "--verify", "r.html", "--check").code == 1
    assert b'class="verdict broken"' in Path("r.html").read_bytes()


def test_what_comes_from_the_table_is_escaped_in_the_page(with_history: Command) -> None:
    planted(open_warehouse(with_history.root).table("t"), operation="<script>alert('1')</script>\x1b[31m")
    with_history.right("evidence", "t", "--output", "r.html")

    text = Path("r.html").read_text(encoding="utf-8")
    assert text.count("<script") == 1
    assert text.count("</script>") == 1
    assert "&lt;script&gt;alert(&#x27;1&#x27;)&lt;/script&gt;\\x1b[31m" in text
    assert with_history.right("evidence", "--verify", "r.html").out


def test_metrics_are_what_status_says(with_history: Command) -> None:
    with_history.right("create", "empty", *DECLARED)
    with_history.right("create", "broken", *DECLARED)
    next((with_history.root / "broken").glob("_delta_log/*.json")).write_text("{", encoding="utf-8")

    found = parsed(with_history.right("metrics").out)

    assert found["ebb_table_readable"] == {"broken": 0, "empty": 1, "t": 1}
    told = with_history.right("status", "t", "--json").json
    for name, field in {
        "ebb_clock_slot": "clock", "ebb_live_records": "live_records", "ebb_files": "files", "ebb_bytes": "bytes", "ebb_version": "version",
        "ebb_expired_files": "expired_files_on_disk", "ebb_deletion_bound_kept": "deletion_bound_kept", "ebb_quarantined_records": "quarantined",
        "ebb_evidence_behind_commits": "evidence_behind", "ebb_recent_received_records": "recent_received",
    }.items():  # fmt: skip
        assert found[name]["t"] == told[field], name
    assert "empty" not in found["ebb_clock_slot"]
    assert parsed(with_history.right("metrics", "t", "none").out)["ebb_table_readable"] == {"t": 1, "none": 0}
    assert list(parsed(with_history.right("metrics", "broken").out)) == [
        "ebb_scrape_timestamp_seconds",
        "ebb_table_readable",
    ]


def test_metrics_of_an_empty_warehouse_are_metrics(ebb: Command) -> None:
    ebb.root.mkdir()

    assert list(parsed(ebb.right("metrics").out)) == ["ebb_scrape_timestamp_seconds"]


def test_metrics_are_written_at_once_for_another_user(with_history: Command) -> None:
    assert with_history.right("metrics", "--output", "ebb.prom").out == ""

    assert parsed(Path("ebb.prom").read_text(encoding="utf-8"))["ebb_clock_slot"] == {"t": 8}
    assert stat.S_IMODE(Path("ebb.prom").stat().st_mode) == 0o644
    assert [path.name for path in Path().iterdir() if "part" in path.name] == []
    assert "names end in .prom" in with_history.wrong("metrics", "--output", "ebb.txt", code=2)


@given(st.text(), st.text(), st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53))
def test_any_label_and_number_can_be_read_back(help: str, table: str, value: float) -> None:
    found = (
        parsed(exposition([Metric("ebb_x", help, ((table, value),))]).replace("\r", " ")) if "\r" not in table else {}
    )

    assert not found or found["ebb_x"] == {table: value}


def test_a_bound_is_found_before_it_is_missed(tmp_path: Path) -> None:
    """Nobody updates the table any more."""
    wall = WallTable(tmp_path, random.Random(6), **WAYS["retire"])
    for _ in range(8):
        wall.wait(1)
        wall.update()
        assert wall.table.findings() == ()
    said: dict[str, float] = {}
    for quarter in range(60):
        wall.wait(0.25)
        for error in wall.table.findings(Limits(within=2, ticks_behind=99)):
            said.setdefault(str(error).split(" its ")[0], quarter / 4)

    assert list(said) == ["table t will miss", "table t breaks"]
    assert 1.75 <= said["table t breaks"] - said["table t will miss"] <= 2.25


@pytest.mark.parametrize(
    ("changes", "limits", "found"),
    [
        ({}, {}, []),
        ({"bound_missed_in_ticks": 0, "bound_missed_at": "9"}, {}, ["table t will miss its deletion bound of 4 at 9, within 1 tick"]),
        ({"bound_missed_in_ticks": 1, "bound_missed_at": "9"}, {}, []),
        ({"bound_missed_in_ticks": 1, "bound_missed_at": "9"}, {"within": 2}, ["table t will miss its deletion bound of 4 at 9, within 2 ticks"]),
        ({"bound_missed_in_ticks": 0, "deletion_bound_kept": False}, {}, ["table t breaks its deletion bound"]),
        ({"ticks_behind": 2}, {}, []),
        ({"ticks_behind": 3}, {}, ["table t is 3 ticks behind, and 2 are tolerated"]),
        ({"ticks_behind": 1}, {"ticks_behind": 0}, ["table t is 1 tick behind, and 0 are tolerated"]),
        ({"recent_received": 10, "recent_quarantined": 5}, {}, []),
        ({"recent_received": 10, "recent_quarantined": 6}, {}, ["of 10 records that table t received lately 6 were refused, and 50% are tolerated"]),
        ({"recent_received": 10, "recent_quarantined": 1}, {"most_refused": 0}, ["of 10 records that table t received lately 1 were refused"]),
        ({}, {"check_every": 60}, ["table t was never checked, and is to be every 1m 0s"]),
        ({"checked": "T", "checked_seconds_ago": 61.0}, {"check_every": 60}, ["table t was checked last at T, and is to be every 1m 0s"]),
        ({"checked": "T", "checked_seconds_ago": 60.0}, {"check_every": 60}, []),
        ({"checked": "T", "checked_seconds_ago": 1.0, "check_failed": True}, {}, ["the check of table t at T found something"]),
        ({"evidence_behind": 150}, {}, []),
        ({"evidence_behind": 151}, {}, ["the evidence journal of table t is 151 commits behind, and 150 are tolerated"]),
        ({"evidence_behind": None}, {}, ["the evidence journal of table t cannot be read"]),
        ({"evidence_lost": 2}, {}, ["the evidence of 2 commits of table t is lost"]),
    ],
)  # fmt: skip
def test_each_finding_says_the_value_and_the_limit(
    changes: dict[str, Any], limits: dict[str, Any], found: list[str], tmp_path: Path
) -> None:
    table = integer_table(open_warehouse(tmp_path)).status()

    told = watch(replace(table, **changes), Limits(**limits))

    assert len(told) == len(found)
    assert all(str(error).startswith(text) for error, text in zip(told, found, strict=True)), told
    assert all(error.next_step for error in told)


def test_limits_are_checked(with_table: Command) -> None:
    assert "a share of 2 is not between 0 and 1" in with_table.wrong("status", "--check", "--most-refused", "2", code=2)
    assert "is not a positive number with a unit" in with_table.wrong("status", "--check", "--check-every", "x", code=2)
    assert "'-1' is not a whole number" in with_table.wrong("status", "--check", "--within", "-1", code=2)
    with pytest.raises(UsageError):
        Limits(most_refused=-1)


def test_a_check_that_is_due_fails_until_it_is_made(with_table: Command) -> None:
    result = with_table("status", "t", "--check", "--check-every", "7d")
    assert result.err == "ebb: table t was never checked, and is to be every 7d 0h; run ebb check t\n"
    assert with_table.right("status", "t", "--check").out


def test_the_page_is_made_of_the_report_alone(with_history: Command) -> None:
    report = open_warehouse(with_history.root).table("t").evidence()

    assert page(report) == page(report)
    assert b"http" not in page(report), "it needs nothing but itself"


def test_every_byte_of_a_page_counts(with_history: Command, record_property: Callable[[str, object], None]) -> None:
    """What is shown, what is held, and what is around it."""
    report = open_warehouse(with_history.root).table("t").evidence()
    data, dice = page(report), random.Random(drawn_seed())
    for place in (places := sorted(dice.sample(range(len(data)), min(rounds(300), len(data))))):
        changed = data[:place] + bytes([data[place] ^ dice.randrange(1, 256)]) + data[place + 1 :]
        with pytest.raises(CorruptionError, match="not as it was written"):
            read_written(changed)
    record_property("figures", f"bytes of a page changed: {len(places)}, not found 0")
