"""P23: a log that was rolled back, truncated or swapped is noticed by whoever opens the table, and adopted only on request."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import ebb
from ebb import OpenTable
from ebb.index.head import Head, places
from ebb.warehouse.store.paths import entry_name
from tests.builders import arrow_batch, gauge, integer_table, open_warehouse, scanned_ids
from tests.faults import Interruption, armed, full_disk
from tests.foreign import READS, WAYS, WRITES, append, delta, filled, fresh, ids
from tests.model import Model, Record
from tests.unit.cli.command import Command


@pytest.fixture
def table(tmp_path: Path) -> OpenTable:
    return integer_table(open_warehouse(tmp_path / "w"), reader_time="1", **WAYS["retire"])


@pytest.fixture
def model(table: OpenTable) -> Model:
    return filled(table)


def head(table: OpenTable) -> Head:
    found = places((table.table.hidden / "head").read_bytes())
    assert found.head is not None
    assert found.is_whole
    return found.head


def entry(table: OpenTable, version: int) -> Path:
    return table.table.log / entry_name(version)


def roll_back(table: OpenTable, commits: int = 1) -> None:
    newest = table.table.snapshot().version
    for version in range(newest - commits + 1, newest + 1):
        entry(table, version).unlink()


# Kept


def test_every_commit_leaves_a_head_record_and_names_the_entry_before(table: OpenTable, model: Model) -> None:
    table.alter(deletion_bound="7")
    table.update(at=5)
    snapshot = fresh(table).table.snapshot()

    found = head(table)

    assert (found.version, found.clock, found.table) == (snapshot.version, 5, snapshot.table_id)
    entries = list(table.table.entries(snapshot.version))[::-1]
    assert [e.ebb.get("after") for e in entries] == [None, *(e.hash for e in entries[:-1])]
    assert (found.entry, found.commit) == (entries[-1].hash, entries[-1].id)


def test_a_new_table_has_one_from_its_first_moment_on(table: OpenTable) -> None:
    assert (head(table).version, head(table).clock) == (0, None)


def test_the_head_record_says_how_far_back_the_log_goes(tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"), reader_time="1", log_retention="10")
    for slot in range(1, 111):
        table.update(at=slot)

    oldest = table.oldest_version()

    assert oldest > 0
    assert head(table).oldest == oldest
    assert table.check().is_sound
    entry(table, oldest).unlink()
    assert [found.where for found in table.check().findings] == [f"_delta_log/{entry_name(oldest)}"]


# Noticed


def _newest(table: OpenTable, copy: Path) -> None:
    roll_back(table)


def _some(table: OpenTable, copy: Path) -> None:
    roll_back(table, 3)


def _replayed(table: OpenTable, copy: Path) -> None:
    """An old copy of the whole log, put in place of the one that is there."""
    shutil.rmtree(table.table.log)
    shutil.copytree(copy, table.table.log)


def _continued(table: OpenTable, copy: Path) -> None:
    """An old copy of the log that somebody went on with: as long as the other one."""
    newest, kept = table.table.snapshot().version, (table.table.hidden / "head").read_bytes()
    _replayed(table, copy)
    (table.table.hidden / "head").unlink()
    other = fresh(table)
    other.adopt(yes=True)
    for slot in range(3, 20):
        if other.table.snapshot().version < newest:
            other.update(arrow_batch([Record(100 + slot, "k", slot, slot + 3)]), at=slot)
    (table.table.hidden / "head").write_bytes(kept)


def _swapped(table: OpenTable, copy: Path) -> None:
    other = integer_table(table.warehouse, "other", reader_time="1", **WAYS["retire"])
    filled(other, range(1, 8))
    shutil.rmtree(table.table.log)
    shutil.copytree(other.table.log, table.table.log)


ROLLED_BACK: dict[str, Callable[[OpenTable, Path], None]] = {
    "the newest entry": _newest, "three entries": _some, "an old copy": _replayed, "an old copy that went on": _continued,
    "the log of another table": _swapped,
}  # fmt: skip


@pytest.mark.parametrize("how", sorted(ROLLED_BACK))
def test_readers_and_writers_refuse_a_log_that_was_rolled_back(tmp_path: Path, table: OpenTable, how: str) -> None:
    filled(table, range(1, 3))
    shutil.copytree(table.table.log, tmp_path / "copy")
    filled(table, range(3, 5))
    version = table.table.snapshot().version
    ROLLED_BACK[how](table, tmp_path / "copy")

    for opened in (table, fresh(table)):
        for name, work in (READS | WRITES).items():
            with pytest.raises(ebb.RolledBackError, match=f"and version {version} was committed"):
                work(opened)
            assert name
        with pytest.raises(ebb.RolledBackError):
            opened.status()
    assert {"rolled-back", "unreadable"} & {found.code for found in table.check().findings}


def _removed(path: Path) -> None:
    path.unlink()


def _truncated(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def _changed(path: Path) -> None:
    """A text in it, so that it can be read as well as before."""
    path.write_text(
        path.read_text(encoding="utf-8").replace('"engineInfo":"ebb"', '"engineInfo":"eb"'), encoding="utf-8"
    )


ENTRY: dict[str, Callable[[Path], None]] = {"removed": _removed, "truncated": _truncated, "changed": _changed}


def test_every_entry_that_is_removed_truncated_or_changed_is_noticed(
    tmp_path: Path, table: OpenTable, model: Model, record_property: Callable[[str, object], None]
) -> None:
    """P23: the newest, the oldest, and each between them. A check names it; whoever opens the table is refused.

    But for entries that were changed so that they can be read: only a check reads those that are not the newest.
    """
    newest, seen = table.table.snapshot().version, []
    assert newest == 6
    for how, damage in ENTRY.items():
        for version in range(newest + 1):
            root = tmp_path / f"{how} {version}"
            shutil.copytree(table.table.root, root)
            other = open_warehouse(root).table("t")
            damage(entry(other, version))
            is_seen = how == "changed" and version < newest
            if not is_seen:
                for work in (scanned_ids, lambda found: found.update(at=5)):
                    with pytest.raises(ebb.CorruptionError):
                        work(fresh(other))
            where = "_delta_log" if version == newest and how != "truncated" else f"_delta_log/{entry_name(version)}"
            seen.append((how, version, where in {found.where for found in other.check().findings}))
            shutil.rmtree(root)

    assert [one for one in seen if not one[2]] == []
    record_property(
        "figures", f"log entries removed, truncated or changed: {len(seen)}, noticed {sum(one[2] for one in seen)}"
    )


@pytest.mark.parametrize("known", [1, 2, 3])
def test_who_saw_an_older_version_does_not_go_on_with_a_log_that_was_rolled_back(table: OpenTable, known: int) -> None:
    """A handle that is behind the entries that are lost, at the last one that is left, and at one that is lost."""
    other = fresh(table)
    for slot in range(1, 7):
        if slot == known + 1:
            assert other.table.snapshot().version == known
        table.update(at=slot)
    before = head(table)
    roll_back(table, 4)

    for _ in range(2):
        with pytest.raises(ebb.RolledBackError):
            other.table.snapshot()
        with pytest.raises(ebb.RolledBackError):
            other.update(at=7)

    assert head(table) == before
    assert not entry(table, 3).exists()


def test_who_saw_an_older_version_does_not_follow_another_log(tmp_path: Path, table: OpenTable, model: Model) -> None:
    """The entry after the one that it saw is not the one that was committed."""
    other = fresh(table)
    known = other.table.snapshot()
    table.update(at=5)
    path = entry(table, known.version + 1)
    path.write_text(path.read_text(encoding="utf-8").replace(known.hash, "0" * 32), encoding="utf-8")

    with pytest.raises(ebb.RolledBackError):
        other.table.snapshot()


def test_a_commit_does_not_hide_that_the_log_was_cut_since_it_was_read(table: OpenTable, model: Model) -> None:
    snapshot = fresh(table).table.snapshot()
    table.update(at=5)
    table.update(at=6)
    before = head(table)
    roll_back(table, before.version - snapshot.version)

    with pytest.raises(ebb.RolledBackError):
        snapshot.commit_metadata(snapshot.metadata, {"op": "alter", "slot": 4}, 0)

    assert head(table) == before
    assert not entry(table, snapshot.version + 1).exists()


# A log that goes on after the head record


def test_a_crash_between_commit_and_head_record_is_settled_by_the_next_commit(table: OpenTable, model: Model) -> None:
    before = (table.table.hidden / "head").read_bytes()
    table.update(at=5)
    model.apply(5, [])
    (table.table.hidden / "head").write_bytes(before)

    other = fresh(table)
    assert scanned_ids(other) == ids(model)
    assert other.check().is_sound
    assert other.status().findings == ()
    other.update(at=6)

    assert head(table).version == fresh(table).table.snapshot().version


def test_an_update_is_whole_wherever_the_head_record_fails(table: OpenTable, model: Model) -> None:
    """Every call to the operating system for it, by a full disk and by a signal."""
    for error in (full_disk(), Interruption()):
        at = 0
        while True:
            other, slot = fresh(table), (table.table.snapshot().ledger.clock or 0) + 1
            with suppress(Interruption, ebb.EngineError), armed(table.table.hidden / "head", error, at) as fault:
                other.update(at=slot)
            at += 1
            found = fresh(table)
            clock = found.table.snapshot().ledger.clock or 0
            assert clock in (slot, slot - 1)
            if clock == slot:
                model.apply(slot, [])
            assert scanned_ids(found) == ids(model)
            assert [str(one) for one in found.check().findings if one.code != "bound"] == []
            if at > len(fault.seen):
                break
        assert at > 2, "nothing was broken"


def test_what_another_tool_adds_to_the_log_is_no_rollback(table: OpenTable, model: Model) -> None:
    append(table, [Record(900, "k9", 4, 9)])

    with pytest.warns(ebb.ForeignCommitWarning):
        assert 900 in scanned_ids(fresh(table))
    fresh(table).adopt()

    assert fresh(table).check(deep=True).findings == ()
    assert head(table).version == delta(table).version()


# Lost


@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_without_a_head_record_readers_warn_and_writers_refuse(
    table: OpenTable, model: Model, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    path = table.table.hidden / "head"
    assert gauge(table, "ebb_table_writable") == 1
    assert fresh(table).status().bound_missed_at is None
    path.unlink() if how == "missing" else path.write_bytes(path.read_bytes().replace(b"EBB", b"EBC"))

    for work in WRITES.values():
        with pytest.raises(ebb.LostHeadError, match=f"the head record of table t is {how}"):
            work(fresh(table))
    with pytest.warns(ebb.LostHeadWarning, match=f"the head record of table t is {how}"):
        assert scanned_ids(fresh(table)) == ids(model)
    assert [found.facts for found in fresh(table).status().findings] == [
        f"the head record of table t is {how}, so nothing tells whether its log is whole"
    ]
    assert gauge(table, "ebb_table_writable") == 0
    assert fresh(table).status().bound_missed_at is not None, "no update will remove what expires"
    command = Command(table.table.root, capsys)
    assert command("scan", "t", "--limit", 1).err.startswith("ebb: warning: the head record of table t is")
    assert "run ebb repair t --confirm-restore" in command("status", "--check").err
    assert "head record" in command.right("status", "t").out


def test_who_knows_the_newest_commit_needs_no_head_record(table: OpenTable, model: Model) -> None:
    (table.table.hidden / "head").unlink()

    table.update(at=5)

    assert head(table).clock == 5


# Adopted


@pytest.mark.parametrize("commits", [1, 2, 3])
def test_a_rolled_back_log_is_adopted_only_on_request_and_the_clock_stays(
    table: OpenTable, model: Model, commits: int
) -> None:
    table_id, clock = table.table.snapshot().table_id, 4
    roll_back(table, commits)
    other = fresh(table)

    with pytest.raises(ebb.RolledBackError):
        other.adopt()
    planned = other.adopt(dry_run=True)
    done = other.adopt(yes=True)

    assert planned.lost_versions == done.lost_versions == commits
    assert done.slot == clock == fresh(table).table.snapshot().ledger.clock
    found = fresh(table)
    assert found.check(deep=True).findings == () or {one.code for one in found.check().findings} == {"stray-file"}
    window = scanned_ids(found)
    assert set(window) <= set(ids(model)), "nothing comes back that had expired"
    assert done.live == len(window)
    assert found.table.snapshot().table_id != table_id
    assert found.update(at=5).slot == 5
    assert found.check(deep=True).findings == ()


@pytest.mark.parametrize("commits", [1, 3])
def test_an_adoption_holds_wherever_its_head_record_fails(
    tmp_path: Path, table: OpenTable, model: Model, commits: int
) -> None:
    """The table has another id then, and the head record is still that of the former one, unless it is tried again."""
    stale = head(table)
    roll_back(table, commits)
    left_behind = set()
    for error in (full_disk(), Interruption()):
        for at in range(100):
            root = tmp_path / f"{type(error).__name__} {at}"
            shutil.copytree(table.table.root, root)
            opened = open_warehouse(root).table("t")
            with suppress(Interruption, ebb.EngineError), armed(opened.table.hidden / "head", error, at) as fault:
                opened.adopt(yes=True)
            if at >= len(fault.seen):
                break
            made = opened.table.entry(stale.version - commits + 1)
            if made is None or "was rolled back" not in made.ebb["confirmed"]:
                continue  # it failed before the commit, or could not read the head record
            left_behind.add((type(error), head(opened) == stale))
            assert fresh(opened).status().clock == 4
            assert fresh(opened).adopt(yes=True).lost_versions == 0
            assert fresh(opened).update(at=5).slot == 5
            assert head(opened).table == fresh(opened).table.snapshot().table_id
            assert {one.code for one in fresh(opened).check(deep=True).findings} <= {"stray-file"}
    assert (OSError, True) not in left_behind, "it is tried again after the commit"
    assert (Interruption, True) in left_behind


def test_nobody_goes_on_following_a_table_that_was_rolled_back(table: OpenTable, model: Model) -> None:
    changes = table.changes(0)
    list(changes)
    token = changes.token
    roll_back(table)
    fresh(table).adopt(yes=True)

    with pytest.raises(ebb.WarehouseError):
        list(fresh(table).changes(token))


def test_the_log_of_another_table_is_never_adopted(tmp_path: Path, table: OpenTable, model: Model) -> None:
    _swapped(table, tmp_path)

    with pytest.raises(ebb.AdoptionError, match="it is the log of another table"):
        fresh(table).adopt(yes=True)


def test_commands_say_what_to_do(table: OpenTable, model: Model, capsys: pytest.CaptureFixture[str]) -> None:
    roll_back(table)
    command = Command(table.table.root, capsys)

    line = command.wrong("update", "t", "--at", "5", code=1)
    assert line.endswith("or run ebb adopt t --yes to go on without the commits that it lacks")
    assert command("status", "--check").err == f"ebb: {line}\n"
    assert command.wrong("adopt", "t", code=1) == line
    assert "the log would be adopted as it is, 1 lost commit given up" in command.right("adopt", "t", "--dry-run").out
    assert command.right("adopt", "t", "--yes", "--json").json["lost_versions"] == 1
    assert command.right("status", "--check").err == ""


def test_a_swept_table_that_was_restored_can_be_dropped(table: OpenTable, model: Model) -> None:
    roll_back(table)

    table.warehouse.drop("t")

    assert table.warehouse.tables() == []


def test_a_folder_that_is_copied_back_as_a_whole_is_not_seen(tmp_path: Path, table: OpenTable, model: Model) -> None:
    """What the head record cannot know, and the documents say so."""
    shutil.copytree(table.table.folder, tmp_path / "copy")
    table.update(at=5)
    shutil.rmtree(table.table.folder)
    shutil.copytree(tmp_path / "copy", table.table.folder)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert scanned_ids(fresh(table)) == ids(model)


def test_the_head_record_is_two_lines_that_say_what_they_are(table: OpenTable, model: Model) -> None:
    path = table.table.hidden / "head"
    lines = path.read_text(encoding="ascii").splitlines()

    assert path.stat().st_size == 1024
    serials = []
    for line in lines:
        magic, checksum, text = line.split(" ", 2)
        assert (magic, len(checksum)) == ("EBBHEAD1", 8)
        assert set(json.loads(text)) == {"table", "version", "commit", "entry", "clock", "oldest", "serial"}
        serials.append(json.loads(text)["serial"])
    assert abs(serials[0] - serials[1]) == 1


@pytest.mark.parametrize("place", [0, 512])
def test_a_head_record_that_was_written_half_leaves_the_one_before(table: OpenTable, model: Model, place: int) -> None:
    """Whichever of the two places it is, the other one vouches for the log; a check tells, and the next commit heals it."""
    path = table.table.hidden / "head"
    data = path.read_bytes()
    path.write_bytes(data[:place] + data[place : place + 100] + b"?" * 412 + data[place + 512 :])

    assert scanned_ids(fresh(table)) == ids(model)
    assert [found.code for found in fresh(table).check().findings] == ["head-place"]
    assert [found.code for found in fresh(table).repair().fixed] == ["head-place"]
    assert fresh(table).check().is_sound
    roll_back(table)
    with pytest.raises(ebb.RolledBackError):
        fresh(table).scan()
