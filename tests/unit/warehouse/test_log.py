"""Log entries: what is written is read back, and paths survive whatever they hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ebb.warehouse.store.paths import entry_name
from ebb.warehouse.table.log import (
    LogEntry,
    add_action,
    commit_action,
    encoded,
    metadata_actions,
    new_metadata,
    remove_action,
)

laws = settings(deadline=None)

paths = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=30)
texts = st.dictionaries(st.text(max_size=5), st.integers() | st.text(st.characters(codec="utf-8")), max_size=3)


def read_back(folder: Path, actions: list[dict[str, Any]], version: int = 7) -> LogEntry:
    (folder / entry_name(version)).write_bytes(encoded(actions))
    entry = LogEntry.read(folder, version)
    assert entry is not None
    return entry


@laws
@given(st.lists(paths, max_size=4), st.lists(paths, max_size=4), texts, st.integers(0, 2**41))
def test_what_is_written_is_read_back(
    tmp_path_factory: Any, added: list[str], removed: list[str], ebb: dict[str, Any], now_ms: int
) -> None:
    entry = read_back(
        tmp_path_factory.mktemp("log"),
        [
            commit_action("update", {"id": "ab", **ebb}, now_ms),
            *(add_action(path, n, {}, now_ms, data_change=True, statistics="{}") for n, path in enumerate(added)),
            *(remove_action(path, 1, {}, now_ms, data_change=True) for path in removed),
        ],
    )

    assert entry.added == tuple(added)
    assert entry.removed == tuple(removed)
    assert entry.bytes_added == sum(range(len(added)))
    assert entry.ebb == {"id": "ab", **ebb}
    assert (entry.version, entry.timestamp_ms, entry.operation) == (7, now_ms, "WRITE")


def test_a_commit_of_another_tool_has_no_id(tmp_path: Path) -> None:
    entry = read_back(tmp_path, [{"commitInfo": {"operation": "DELETE", "timestamp": 5}}])

    assert (entry.id, entry.ebb, entry.operation, entry.timestamp_ms) == (None, {}, "DELETE", 5)


def test_an_entry_without_a_commit_info_is_one_all_the_same(tmp_path: Path) -> None:
    """Delta's protocol does not ask for it."""
    entry = read_back(tmp_path, [{"remove": {"path": "a%20b"}}])

    assert (entry.id, entry.removed, entry.added, entry.operation) == (None, ("a b",), (), "?")


def test_there_may_be_no_entry(tmp_path: Path) -> None:
    assert LogEntry.read(tmp_path, 0) is None
    assert LogEntry.read(tmp_path / "none", 0) is None


def test_a_new_table_has_the_plain_protocol() -> None:
    metadata = new_metadata([], ["_g"], {"a": "b"}, 5)

    protocol, described = metadata_actions(metadata, with_protocol=True)
    assert protocol == {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    assert described == {"metaData": metadata}
    assert metadata_actions(metadata, with_protocol=False) == [described]
    assert new_metadata([], ["_g"], {}, 5)["id"] != metadata["id"]
