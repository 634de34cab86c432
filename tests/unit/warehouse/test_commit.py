"""A commit knows whether it happened (P32): the log decides, whatever was raised on the way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ebb.index.errors import ConflictError, EngineError, InDoubtError
from ebb.warehouse.store.disk import Disk
from ebb.warehouse.store.paths import entry_name
from ebb.warehouse.table.commit import append, new_id, remove_unfinished
from ebb.warehouse.table.log import LogEntry, commit_action, encoded
from tests.faults import Interruption, armed, broken_disk, full_disk


def entry(id: str) -> list[dict[str, object]]:
    return [commit_action("update", {"id": id, "op": "update"}, 0)]


def commit(log: Path, version: int, id: str) -> None:
    append(log, version, entry(id), id=id, table="t", disk=Disk())


def test_an_entry_is_there_whole_and_alone(tmp_path: Path) -> None:
    commit(tmp_path, 0, "a")

    assert [p.name for p in tmp_path.iterdir()] == [entry_name(0)]
    there = LogEntry.read(tmp_path, 0)
    assert there is not None
    assert there.id == "a"


def test_the_entry_of_another_is_a_conflict_and_stays(tmp_path: Path) -> None:
    commit(tmp_path, 0, "a")
    before = (tmp_path / entry_name(0)).read_bytes()

    with pytest.raises(ConflictError):
        commit(tmp_path, 0, "b")

    assert (tmp_path / entry_name(0)).read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_an_entry_of_a_tool_that_knows_no_ids_is_a_conflict(tmp_path: Path) -> None:
    (tmp_path / entry_name(0)).write_text(json.dumps({"commitInfo": {"timestamp": 1}}) + "\n")

    with pytest.raises(ConflictError):
        commit(tmp_path, 0, "b")


def test_a_commit_whose_answer_was_lost_is_a_success(tmp_path: Path) -> None:
    (tmp_path / entry_name(0)).write_bytes(encoded(entry("a")))

    commit(tmp_path, 0, "a")


def test_an_entry_that_cannot_be_read_is_in_doubt(tmp_path: Path) -> None:
    (tmp_path / entry_name(0)).write_text("{ not JSON")

    with pytest.raises(InDoubtError, match="nothing was deleted, and the next run settles it"):
        commit(tmp_path, 0, "a")


def test_a_folder_in_the_place_of_the_entry_is_in_doubt(tmp_path: Path) -> None:
    (tmp_path / entry_name(0)).mkdir()

    with pytest.raises(InDoubtError):
        commit(tmp_path, 0, "a")


def test_without_a_log_nothing_was_changed(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="nothing was changed") as raised:
        commit(tmp_path / "none", 0, "a")

    assert not isinstance(raised.value, InDoubtError)


@pytest.mark.parametrize("at", [0, 1])
def test_after_an_error_of_the_disk_it_is_tried_once_more(at: int, tmp_path: Path) -> None:
    with armed(tmp_path, broken_disk(), at) as fault:
        commit(tmp_path, 0, "a")

    assert fault.seen[at].split()[0] == ("open", "os.link")[at]
    assert [p.name for p in tmp_path.iterdir()] == [entry_name(0)]


def test_an_error_after_the_entry_was_made_is_a_success(tmp_path: Path) -> None:
    with armed(tmp_path, full_disk(), 2) as fault:
        commit(tmp_path, 0, "a")

    assert fault.seen[2].startswith("os.remove")
    assert LogEntry.read(tmp_path, 0) is not None


@pytest.mark.parametrize("at", [0, 1, 2])
def test_an_interruption_is_handed_on_and_the_log_tells_what_happened(at: int, tmp_path: Path) -> None:
    with armed(tmp_path, Interruption(), at), pytest.raises(Interruption):
        commit(tmp_path, 0, "a")

    assert (LogEntry.read(tmp_path, 0) is not None) == (at == 2)


def test_what_a_killed_commit_left_goes(tmp_path: Path) -> None:
    (tmp_path / f"_commit_{new_id()}.json.tmp").write_text("half")
    commit(tmp_path, 0, "a")

    remove_unfinished(tmp_path)

    assert [p.name for p in tmp_path.iterdir()] == [entry_name(0)]
