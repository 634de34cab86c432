"""What a report says is compared with a clock on the wall, and every change of a byte of it is found."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from ebb.index.errors import CorruptionError
from ebb.index.journal import written_line
from ebb.maintenance.carry_out import keep_evidence
from ebb.maintenance.inspect.deletions import Given
from ebb.maintenance.inspect.evidence import derive
from ebb.maintenance.inspect.proof import Evidence, agrees, evidence, read_report
from tests.builders import ARROW, NOW, arrow_batch, integer_table, open_warehouse, records
from tests.evidence import HOUR, WAYS, WallTable, lines_of
from tests.seeds import drawn_seed, rounds


def grown(root: Path, dice: random.Random, way: str, steps: int) -> WallTable:
    """Return a table with a history of updates, most of them in time."""
    wall = WallTable(root, dice, **WAYS[way])
    for _ in range(steps):
        wall.wait(dice.choice([1, 1, 1, 1, 1, 2, 4]) + dice.random() / 100)
        wall.update()
        if not dice.randrange(8):
            wall.wait(dice.random() / 2)
            wall.erase()
    return wall


@pytest.mark.parametrize("way", WAYS)
def test_the_report_says_what_the_clock_on_the_wall_says(
    way: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    seed, ticks, exact = drawn_seed(), 0, 0
    for number in range(rounds(1)):
        wall = grown(tmp_path / str(number), random.Random(seed + number), way, 40)
        found = wall.table.evidence().findings
        assert timedelta(seconds=found.longest_seconds or 0) == wall.longest
        assert found.kept == (wall.longest <= 6 * HOUR)
        assert found.complete
        assert found.kept or not wall.table.status().deletion_bound_kept or wall.longest > 6 * HOUR
        for tick in found.ticks:
            end = datetime.fromisoformat(tick.time)
            expired = [id for id, over in wall.expires.items() if end - tick.ticks * HOUR < over <= end]
            assert tick.expired == len(expired)
            if expired and tick.erased is not None:
                last = max(wall.gone[id] for id in expired)
                assert datetime.fromisoformat(tick.erased) >= last.replace(microsecond=0)
                ticks, exact = ticks + 1, exact + (datetime.fromisoformat(tick.erased) == last.replace(microsecond=0))
            elif expired:  # a file waits that holds one of them, or might: the log knows its first and last slot only
                assert any(id not in wall.gone for id in expired) or wall.table.status().files_waiting_for_erase
    record_property("figures", f"ticks whose erasure was timed under {way}: {ticks}, exact {exact}, too early 0")
    assert exact > ticks // 2


def test_a_part_of_a_report_says_what_the_whole_says_of_it(tmp_path: Path) -> None:
    """Also what the lines of the period alone say: whoever verifies a report has no more."""
    dice = random.Random(drawn_seed())
    wall = grown(tmp_path, dice, "norebuild", 40)
    snapshot, whole = wall.table.table.snapshot(), wall.table.evidence()
    ticks = whole.findings.ticks
    for _ in range(20):
        first, last = sorted(dice.sample(range(len(ticks)), 2))
        line = snapshot.spec.timeline
        since, until = line.end_of(ticks[first].slot - 1), line.end_of(ticks[last].slot)
        part = evidence(snapshot, wall.now, since=since, until=until)
        assert part.findings.ticks == ticks[first : last + 1]
        assert {row.version for row in part.findings.removals} <= {row.version for row in whole.findings.removals}
        assert part.findings == derive(lines_of(wall.table), part.given)
        assert part.findings.complete
        assert read_report(part.json).json == part.json
        assert agrees(part, snapshot).compared_lines == len(part.lines) <= len(whole.lines)


def test_a_broken_bound_is_in_the_report_although_all_is_gone_by_now(tmp_path: Path) -> None:
    wall = WallTable(tmp_path, random.Random(1), **WAYS["retire"])
    for hours in (*[1] * 8, 20, 1, 1, 1):
        wall.wait(hours)
        wall.update()

    found = wall.table.evidence().findings
    assert not found.kept
    assert timedelta(seconds=found.longest_seconds or 0) == wall.longest > 6 * HOUR
    assert [row.kept for row in found.removals].count(False) >= 1


def test_a_bound_that_was_changed_counts_from_then_on(tmp_path: Path) -> None:
    wall = WallTable(tmp_path, random.Random(2), **WAYS["norebuild"])
    for hours in (1, 1, 1, 1, 1, 8, 1, 1, 1):
        wall.wait(hours)
        wall.update()
    before = wall.table.evidence().findings
    wall.table.alter(deletion_bound="40h")

    after = wall.table.evidence().findings
    assert (before.kept, before.bound) == (False, "6h")
    assert (after.kept, after.bound) == (False, "40h"), "what was promised then was broken then"
    assert [row.kept for row in after.removals] == [row.kept for row in before.removals]


@pytest.fixture(scope="module")
def table_and_report(tmp_path_factory: pytest.TempPathFactory) -> tuple[WallTable, Evidence]:
    wall = grown(tmp_path_factory.mktemp("report"), random.Random(7), "retire", 6)
    return wall, wall.table.evidence()


def test_every_byte_of_a_report_counts(
    table_and_report: tuple[WallTable, Evidence], record_property: Callable[[str, object], None]
) -> None:
    data, dice = table_and_report[1].json, random.Random(drawn_seed())
    places = range(len(data)) if len(data) <= rounds(1500) else sorted(dice.sample(range(len(data)), rounds(1500)))
    for place in places:
        other = dice.choice([byte for byte in range(256) if byte != data[place]])
        for changed in (data[:place] + bytes([other]) + data[place + 1 :], data[:place] + data[place + 1 :]):
            with pytest.raises(CorruptionError, match=r"is not as it was written|is broken"):
                read_report(changed)
    record_property("figures", f"bytes of a report changed or removed: {2 * len(places)}, not found 0")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda parts: parts["findings"].update(kept=False), "'findings' has not the hash"),
        (lambda parts: parts["given"].update(bound_now=1), "'given' has not the hash"),
        (lambda parts: parts["lines"].pop(3), "'lines' has not the hash"),
        (lambda parts: parts["hashes"].update(report="0" * 64), "its hashes are not those"),
        (lambda parts: parts.pop("chain"), "has not the parts of a report"),
    ],
)
def test_what_was_changed_is_named(
    change: Callable[[dict[str, object]], object], named: str, table_and_report: tuple[WallTable, Evidence]
) -> None:
    parts = json.loads(table_and_report[1].json)
    change(parts)

    with pytest.raises(CorruptionError, match=named):
        read_report(json.dumps(parts, separators=(",", ":")).encode() + b"\n")


def test_a_report_with_new_hashes_must_follow_from_its_lines(table_and_report: tuple[WallTable, Evidence]) -> None:
    """Who knows how hashes are made still cannot say what the lines do not."""
    report = table_and_report[1]
    forged = Evidence(
        about=report.about,
        given=report.given,
        findings=derive(report.lines[:-2], report.given),
        chain=report.chain,
        lines=report.lines,
    )

    with pytest.raises(CorruptionError, match="'findings' does not follow from its lines"):
        read_report(forged.json)


def test_a_report_with_another_chain_is_not_that_of_the_table(table_and_report: tuple[WallTable, Evidence]) -> None:
    """Somebody makes a whole new chain in which one commit says something else."""
    wall, report = table_and_report
    lines, before, changed = [], report.lines[0].before, report.findings.ticks[2].version
    for line in report.lines:
        facts = {name: value for name, value in line.facts.items() if name != "before"}
        if line.version == changed:
            facts["admitted"] += 1
        lines.append(written_line(facts, before))
        before = lines[-1].hash
    forged = Evidence(
        about=report.about,
        given=report.given,
        findings=derive(lines, report.given),
        chain=report.chain,
        lines=tuple(lines),
    )
    assert read_report(forged.json).findings != report.findings

    with pytest.raises(CorruptionError, match=f"version {changed} is another one in the journal"):
        agrees(forged, wall.table.table.snapshot())


def test_a_report_stays_true_while_the_table_goes_on(tmp_path: Path) -> None:
    dice = random.Random(3)
    wall = grown(tmp_path, dice, "retire", 10)
    report = wall.table.evidence()
    for _ in range(10):
        wall.wait(1)
        wall.update()

    found = wall.table.verify_evidence(report.json)
    assert (found.compared_lines, found.compared_entries) == (len(report.lines), len(report.lines))


def test_a_report_is_not_that_of_another_table(tmp_path: Path) -> None:
    warehouse = open_warehouse(tmp_path)
    one, other = integer_table(warehouse, "one"), integer_table(warehouse, "other")
    for table in (one, other):
        table.update(arrow_batch(records((1, "a", 1, 3))), at=1)

    with pytest.raises(CorruptionError, match="the report is about another table"):
        other.verify_evidence(one.evidence().json)


def test_amendments_holds_and_forgets_are_told_with_who_asked_and_never_what(tmp_path: Path) -> None:
    """Their commits carry these fields; a forget must be erased by a time of its own."""
    at = 1_767_225_600_000
    entries = [
        {"op": "create", "declared": {"bound": 6}, "ms": at},
        {"op": "update", "slot": 1, "ticks": 1, "expired": 0, "ms": at},
        {"op": "hold", "slot": 1, "case": "A-1", "records": 3, "by": "ann", "asked": "ab:cd", "ms": at},
        {"op": "amend", "slot": 1, "to_slot": 9, "records": 1, "by": "bob", "asked": "ab:ce", "ms": at},
        {"op": "forget", "slot": 1, "records": 2, "by": "ann", "asked": "ab:cf", "erase_by_ms": at + 5000, "removed": [1, 9], "ms": at},
        {"op": "erase", "slot": 1, "erased_version": 4, "erased_ms": at + 4000, "ms": at + 6000},
        {"op": "forget", "slot": 1, "records": 1, "by": "ann", "asked": "ab:d0", "erase_by_ms": at + 5000, "removed": [1, 9], "ms": at},
        {"op": "release", "slot": 1, "case": "A-1", "records": 3, "by": "ann", "ms": at},
    ]  # fmt: skip
    lines, before = [], "0"
    for version, facts in enumerate(entries):
        lines.append(written_line({"version": version, **facts}, before))
        before = lines[-1].hash
    given = Given(
        name="t", table_id="x", kind="integer", origin=0, tick=1, span=6, strategy="retire", bound=6, bound_now=6, reader_time=1,
        quarantine_time=6, clock=1, version=7, made_ms=at + 9000, first_slot=None, last_slot=None, is_cut=False, expired_files=0,
        expired_since=None, expired_slots=(),
    )  # fmt: skip

    found = derive(lines, given)

    told = [
        (row.op, row.by, row.case, row.records, row.asked, row.to, row.erased_by, row.kept) for row in found.requests
    ]
    assert told == [
        ("hold", "ann", "A-1", 3, "ab:cd", None, None, None),
        ("amend", "bob", None, 1, "ab:ce", "9", None, None),
        ("forget", "ann", None, 2, "ab:cf", None, 5, True),
        ("forget", "ann", None, 1, "ab:d0", None, None, False),
        ("release", "ann", "A-1", 3, None, None, None, None),
    ]
    assert not found.kept, "a forget was not erased in time"


def test_nothing_of_a_record_is_in_a_report_or_in_the_journal(tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path), grid="2x4", policy="2x2", strategy="retire", log_retention="5")
    for slot in range(1, 9):
        refused = [] if slot % 4 else records((9, None, slot, slot + 1))
        table.update(arrow_batch([*records((slot, f"secret{slot}", slot, slot + 2)), *refused]), at=slot)
    keep_evidence(table.table.snapshot(), NOW)

    written = b"".join(path.read_bytes() for path in table.table.evidence.iterdir())
    assert b'"version":9' in written
    assert b"secret" not in written + table.evidence().json
    assert ARROW.names[1].encode() + b'":' not in written


def test_the_evidence_of_a_table_comes_back_with_it(tmp_path: Path) -> None:
    """The log of the backup no longer has what the journal has; what was removed before has not come back."""
    table = integer_table(
        open_warehouse(tmp_path / "w"), grid="2x4", policy="2x2", strategy="retire", log_retention="5"
    )
    for slot in range(1, 58):
        table.update(arrow_batch(records((slot, f"k{slot}", slot, slot + 2))), at=slot)
    before = table.evidence()
    table.backup(tmp_path / "b")
    again = open_warehouse(tmp_path / "again")
    again.restore(tmp_path / "b", "t")

    copy = again.table("t")
    assert table.oldest_version() > 0
    found = copy.evidence().findings
    assert found.complete
    assert found.kept
    assert found.waiting_files == 0
    assert [tick.version for tick in found.ticks] == [tick.version for tick in before.findings.ticks]
    assert copy.verify_evidence(before.json).compared_lines == len(before.lines)


def test_held_records_are_told_and_break_no_bound(tmp_path: Path) -> None:
    """They stay for as long as their case needs, and are due to go from its release on."""
    table = integer_table(open_warehouse(tmp_path), grid="2x4", policy="2x2", strategy="retire", deletion_bound="4")
    table.update(arrow_batch(records((1, "a", 1, 3), (2, "b", 1, 3))), at=1)
    table.hold("a", case="A-1", actor="ann")
    for slot in range(2, 20):
        table.update(at=slot)

    found = table.evidence().findings
    assert (found.kept, found.complete, found.longest_removed_by is not None) == (True, True, True)
    assert [(row.op, row.by, row.case) for row in found.requests] == [("hold", "ann", "A-1")]
    (tick,) = (tick for tick in found.ticks if tick.expired)
    assert (tick.slot, tick.expired, tick.held, tick.erased, tick.kept) == (3, 2, True, None, True)
    assert table.status().bound_missed_at is None
    assert table.findings() == ()

    table.release("A-1", actor="bob")
    for slot in range(20, 26):
        table.update(at=slot)
    after = table.evidence().findings
    assert [(row.op, row.by, row.case) for row in after.requests][1:] == [("release", "bob", "A-1")]
    (tick,) = (tick for tick in after.ticks if tick.expired)
    assert (tick.held, tick.erased is not None, tick.kept) == (False, True, True)
    assert (after.kept, after.complete, after.waiting_files) == (True, True, 0)


def test_what_was_amended_and_forgotten_is_told(tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path), grid="2x4", policy="2x2", strategy="retire", deletion_bound="4")
    table.update(arrow_batch(records((1, "a", 1, 3), (2, "b", 1, 3), (3, "c", 1, 6), (4, "d", 1, 6))), at=1)
    table.amend("a", expires=5, actor="ann", case="B-2")
    table.forget("b", actor="bob", yes=True)
    for slot in range(2, 14):
        table.update(at=slot)

    found = table.evidence().findings
    told = [(row.op, row.by, row.case, row.records, row.to, row.kept) for row in found.requests]
    assert told == [("amend", "ann", "B-2", 1, "5", None), ("forget", "bob", None, 1, None, True)]
    assert all(row.asked and ":" in row.asked for row in found.requests)
    assert (found.kept, found.complete) == (True, True)
    assert read_report(table.evidence().json).findings == found
