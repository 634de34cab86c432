"""The evidence journal against the log it is made of: through kills, cleaned logs, retention, rollbacks and damage."""

from __future__ import annotations

import contextlib
import itertools
import random
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from ebb import OpenTable
from ebb.index.errors import CorruptionError, WarehouseError
from ebb.index.journal import Line, counting, hash_of
from ebb.maintenance.carry_out import keep_evidence
from ebb.maintenance.update import Report
from ebb.warehouse.store.disk import Disk
from ebb.warehouse.store.files import names_in
from ebb.warehouse.store.paths import entry_name, entry_version
from ebb.warehouse.table import journal
from ebb.warehouse.table.journal import backlog, bring_up_to_date, whole_journal
from tests.builders import NOW, arrow_batch, integer_table, open_warehouse
from tests.evidence import lines_of
from tests.faults import Interruption, armed, broken_disk
from tests.foreign import WAYS, fresh
from tests.model import Record
from tests.seeds import drawn_seed, rounds


class Saved:
    """A copy of every log entry, made before anybody can remove it."""

    def __init__(self, table: OpenTable) -> None:
        self.table = table
        self.entries: dict[int, bytes] = {}

    def look(self) -> None:
        log = self.table.table.log
        for version in map(entry_version, names_in(log)):
            if version is not None and version not in self.entries:
                self.entries[version] = (log / entry_name(version)).read_bytes()

    def check(self) -> list[Line]:
        """Compare the journal with what the log had: each entry has its line, in order."""
        lines = lines_of(self.table)
        assert [(line.version, line.facts["entry"]) for line in counting(lines)] == [
            (version, hash_of(data)) for version, data in sorted(self.entries.items())
        ]
        return lines


def tick(table: OpenTable, dice: random.Random, ticks: int = 1) -> Report:
    """Bring some records, or none, and move the clock."""
    slot = (table.table.snapshot().ledger.clock or 0) + ticks
    batch = [
        Record(dice.randrange(10**9), f"k{n}", slot, slot + dice.randrange(1, 5)) for n in range(dice.randrange(3))
    ]
    return table.update(arrow_batch(batch) if batch else None, at=slot, catch_up=True, yes=True)


def clean(table: OpenTable, *, keep: int = 3) -> None:
    """Remove old log entries as another tool does that does not care."""
    log = table.table.log
    DeltaTable(table.table.folder).create_checkpoint()
    for version in sorted(v for v in map(entry_version, names_in(log)) if v is not None)[:-keep]:
        (log / entry_name(version)).unlink()


@pytest.mark.parametrize("way", WAYS)
def test_the_journal_has_a_line_for_every_commit_of_a_random_history(
    way: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Updates, upkeep, commits of other tools and adoptions, while the journal is written at any time."""
    dice, commits = random.Random(drawn_seed()), 0
    for number in range(rounds(1)):
        table = integer_table(open_warehouse(tmp_path / str(number)), **WAYS[way])
        saved = Saved(table)
        for _ in range(30):
            what = dice.choice(
                ["tick", "tick", "tick", "tick", "two", "purge", "erase", "alter", "foreign", "keep", "open"]
            )
            if what == "tick":
                tick(table, dice)
            elif what == "two":
                tick(table, dice, 2)
            elif what == "alter":
                table.alter(quarantine_time=str(dice.randrange(1, 9)))
            elif what == "foreign":
                DeltaTable(table.table.folder).delete(f"id % 7 = {dice.randrange(7)}")
                table.adopt()
            elif what == "keep":
                keep_evidence(table.table.snapshot(), NOW)
            elif what == "open":
                table = saved.table = fresh(table)
            else:
                getattr(table, what)()
            saved.look()
            if not dice.randrange(4):
                saved.check()
        commits += len(saved.check())
    record_property("figures", f"commits under {way}: {commits}, not in the journal 0")


def test_the_log_is_cleaned_only_after_the_journal_has_it(tmp_path: Path) -> None:
    dice = random.Random(drawn_seed())
    table = integer_table(open_warehouse(tmp_path), log_retention="5", **WAYS["retire"])
    saved = Saved(table)
    for _ in range(110):
        tick(table, dice)
        saved.look()

    assert table.oldest_version() > 0
    lines = saved.check()
    assert [line.facts for line in lines if line.version is None] == []
    assert backlog(table.table.evidence, table.table.log, table.table.snapshot().version).lost == 0


def test_a_journal_that_cannot_be_written_keeps_the_log_as_it_is(tmp_path: Path) -> None:
    dice = random.Random(drawn_seed())
    table = integer_table(open_warehouse(tmp_path), log_retention="5", **WAYS["retire"])
    tick(table, dice)
    table.table.evidence.write_bytes(b"no folder")
    warnings: list[str] = []
    for _ in range(60):
        warnings += tick(table, dice).warnings

    assert table.oldest_version() == 0
    assert any(
        "the evidence journal cannot be written" in text and "no log entry was removed" in text for text in warnings
    )
    table.table.evidence.unlink()
    for _ in range(50):
        tick(table, dice)
    assert table.oldest_version() > 0
    assert len(lines_of(table)) == table.table.snapshot().version + 1


def test_whatever_is_killed_while_the_journal_is_written_is_made_up_for(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """At every call to the operating system, by a signal and by a disk that fails."""
    dice, kills = random.Random(drawn_seed()), 0
    table = integer_table(open_warehouse(tmp_path / "w"), **WAYS["retire"])
    for _ in range(6):
        tick(table, dice)
    keep_evidence(table.table.snapshot(), NOW)
    tick(table, dice)
    for error in (Interruption(), broken_disk()):
        for at in itertools.count():
            copy = tmp_path / "copy"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(tmp_path / "w", copy)
            again = fresh(OpenTable(open_warehouse(copy), type(table.table)(copy, "t")))
            snapshot = again.table.snapshot()
            expected = [line.data for line in lines_of(again)]
            with armed(again.table.evidence, error, at) as fault, contextlib.suppress(Interruption, WarehouseError):
                keep_evidence(snapshot, NOW)
            assert [line.data for line in lines_of(again)] == expected
            keep_evidence(snapshot, NOW)
            assert [line.data for line in lines_of(again)] == expected
            assert names_in(again.table.evidence) == [f"{0:012}-{len(expected) - 1:012}.jsonl"]
            if at >= len(fault.seen):
                break
            kills += 1
    record_property("figures", f"kills while the journal was written: {kills}, lines lost or doubled 0")
    assert kills >= 6


def test_segments_are_closed_when_they_are_large_and_are_never_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "_SEGMENT_BYTES", 1500)
    dice = random.Random(drawn_seed())
    table = integer_table(open_warehouse(tmp_path), **WAYS["retire"])
    closed: dict[str, bytes] = {}
    for _ in range(25):
        tick(table, dice)
        keep_evidence(table.table.snapshot(), NOW)
        *large, _last = sorted(table.table.evidence.iterdir())
        for path in large:
            assert len(path.read_bytes()) >= 1500
            assert closed.setdefault(path.name, path.read_bytes()) == path.read_bytes()
    assert len(closed) >= 4
    assert len(lines_of(table)) == table.table.snapshot().version + 1


def test_old_segments_are_dropped_whole_and_the_chain_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "_SEGMENT_BYTES", 1500)
    dice = random.Random(drawn_seed())
    table = integer_table(open_warehouse(tmp_path), **WAYS["retire"])
    before = table.evidence()
    for _ in range(30):
        tick(table, dice)
        keep_evidence(table.table.snapshot(), NOW)
    report = table.evidence()
    assert table.alter(evidence_retention="10").after.evidence_retention == "10"
    for _ in range(2):
        keep_evidence(table.table.snapshot(), NOW)

    lines = lines_of(table)
    dropped = [line.facts for line in lines if "dropped" in line.facts]
    slots = [line.facts["slot"] for line in lines if "slot" in line.facts]
    clock = table.table.snapshot().ledger.clock or 0
    assert len(dropped) == 1, "it is said once"
    assert lines[0].before == dropped[0]["hash"]
    assert clock - 20 < min(slots) <= clock - 10
    assert not table.evidence().findings.complete
    assert table.evidence(since=clock - 9).findings.complete
    found = table.verify_evidence(report.json)
    assert found.dropped_lines == dropped[0]["dropped"][1] + 1 - report.chain.first
    assert (found.compared_lines or 0) + (found.dropped_lines or 0) == len(report.lines)
    assert table.verify_evidence(before.json).compared_lines == 0
    min(table.table.evidence.iterdir()).unlink()
    with pytest.raises(CorruptionError, match="a part of the evidence journal is missing: lines 0 to"):
        lines_of(table)
    assert table.alter(evidence_retention="").after.evidence_retention is None


def test_a_gap_is_recorded_and_never_hidden(tmp_path: Path) -> None:
    """Another tool cleans the log before the journal has it."""
    dice = random.Random(drawn_seed())
    table = integer_table(open_warehouse(tmp_path), **WAYS["retire"])
    for _ in range(5):
        tick(table, dice)
    keep_evidence(table.table.snapshot(), NOW)
    written = table.table.snapshot().version
    for _ in range(6):
        tick(table, dice)
    clean(table)
    oldest = table.oldest_version()

    state = table.status()
    assert state.evidence_lost == oldest - written - 1 > 0
    assert any(f"the evidence of {state.evidence_lost} commits of table t is lost" in str(f) for f in table.findings())
    keep_evidence(table.table.snapshot(), NOW)
    gaps = [line.facts["gap"] for line in lines_of(table) if "gap" in line.facts]
    assert gaps == [[written + 1, oldest - 1]]
    assert table.status().evidence_lost == 0
    found = table.evidence().findings
    assert [(row.what, row.first, row.last) for row in found.missing] == [("gap", written + 1, oldest - 1)]
    assert not found.complete


def test_a_journal_that_starts_late_says_what_it_does_not_know(tmp_path: Path) -> None:
    dice = random.Random(drawn_seed())
    table = integer_table(open_warehouse(tmp_path), **WAYS["norebuild"])
    for _ in range(9):
        tick(table, dice)
    clean(table)

    first = lines_of(table)[0]
    assert first.facts["gap"] == [0, table.oldest_version() - 1]
    assert not table.evidence().findings.complete


def test_a_log_that_was_taken_back_stays_in_the_journal(tmp_path: Path) -> None:
    """The deletions of the commits that are gone were made all the same; then others follow under their numbers."""
    dice = random.Random(drawn_seed())
    table = integer_table(open_warehouse(tmp_path), **WAYS["retire"])
    for _ in range(4):
        tick(table, dice)
    report = table.evidence()
    keep_evidence(table.table.snapshot(), NOW)
    newest = table.table.snapshot().version
    for version in (newest, newest - 1):
        (table.table.log / entry_name(version)).unlink()
    (table.table.log / entry_name(newest - 1)).write_text('{"commitInfo":{"operation":"OTHER"}}\n', encoding="utf-8")

    def written() -> list[Line]:
        folder, log = table.table.evidence, table.table.log
        bring_up_to_date(folder, log, newest - 1, disk=Disk())
        return whole_journal(folder, log, newest - 1)[0]

    lines = written()
    assert [line.facts.get("replaced") for line in lines[-2:]] == [[newest - 1, newest], None]
    assert [line.version for line in counting(lines)] == list(range(newest))
    assert counting(lines)[-1].facts["operation"] == "OTHER"
    assert [line.data for line in written()] == [line.data for line in lines], "it is said once"
    assert [line.data for line in lines[1 : newest + 1]] == [line.data for line in report.lines]


def test_every_byte_of_the_journal_counts(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    dice = random.Random(drawn_seed())
    table = integer_table(open_warehouse(tmp_path), **WAYS["retire"])
    for _ in range(4):
        tick(table, dice)
    keep_evidence(table.table.snapshot(), NOW)
    (path,) = table.table.evidence.iterdir()
    data = path.read_bytes()
    report = table.evidence()
    tick(table, dice)
    places = range(len(data)) if len(data) <= rounds(1200) else sorted(dice.sample(range(len(data)), rounds(1200)))
    for place in places:
        changed = dice.choice([byte for byte in range(256) if byte != data[place]])
        path.write_bytes(data[:place] + bytes([changed]) + data[place + 1 :])
        with pytest.raises(CorruptionError, match="journal"):
            table.verify_evidence(report.json)
    record_property("figures", f"bytes of the journal changed: {len(places)}, not found 0")


def test_what_was_changed_in_the_log_is_found_as_long_as_it_is_there(tmp_path: Path) -> None:
    dice = random.Random(drawn_seed())
    table = integer_table(open_warehouse(tmp_path), **WAYS["retire"])
    for _ in range(4):
        tick(table, dice)
    report = table.evidence()
    keep_evidence(table.table.snapshot(), NOW)
    entry = table.table.log / entry_name(2)
    entry.write_bytes(entry.read_bytes().replace(b'"WRITE"', b'"WRONG"'))

    with pytest.raises(CorruptionError, match="the report and the log disagree: version 2 is not what the log has now"):
        table.verify_evidence(report.json)


def test_the_journal_of_another_table_is_none(tmp_path: Path) -> None:
    dice = random.Random(drawn_seed())
    warehouse = open_warehouse(tmp_path)
    one, other = integer_table(warehouse, "one"), integer_table(warehouse, "other")
    for table in (one, other):
        tick(table, dice)
        keep_evidence(table.table.snapshot(), NOW)
    shutil.rmtree(other.table.evidence)
    shutil.copytree(one.table.evidence, other.table.evidence)

    lines = lines_of(other)
    assert "replaced" in lines[len(lines) // 2].facts, "what does not fit the log does not count"
    assert {line.facts["table"] for line in counting(lines) if "table" in line.facts} == {
        other.table.snapshot().table_id
    }


def test_wall_clock_tables_drop_evidence_by_the_time_of_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.evidence import WallTable

    monkeypatch.setattr(journal, "_SEGMENT_BYTES", 1500)
    wall = WallTable(tmp_path, random.Random(5), grid="3x3", strategy="norebuild")
    for _ in range(30):
        wall.wait(1)
        wall.update()
        keep_evidence(wall.table.table.snapshot(), wall.now)
    wall.table.alter(evidence_retention="10h")
    keep_evidence(wall.table.table.snapshot(), wall.now)

    oldest = min(line.facts["ms"] for line in counting(lines_of(wall.table)))
    assert timedelta(hours=9) < timedelta(milliseconds=wall.now.timestamp() * 1000 - oldest) < timedelta(hours=20)


def test_a_check_looks_at_the_journal(tmp_path: Path) -> None:
    dice = random.Random(drawn_seed())
    table = integer_table(open_warehouse(tmp_path), **WAYS["retire"])
    for _ in range(4):
        tick(table, dice)
    keep_evidence(table.table.snapshot(), NOW)
    assert table.check().findings == ()
    (path,) = table.table.evidence.iterdir()
    path.write_bytes(path.read_bytes().replace(b'"admitted":', b'"admitted":1', 1))

    (found,) = table.check().findings
    assert (found.code, found.where) == ("evidence", "_ebb/evidence")
    assert "the evidence journal is broken" in found.fact
