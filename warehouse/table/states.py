"""States of the ledger on disk: the whole of it, written from time to time, named by the commits that follow.

A state is one file and the segments of fingerprints that it names, in the table's hidden folder. None is ever changed.
A commit says which state it builds on and what it changes itself, so the ledger of a version is that state and the
changes of the commits since.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from zlib_ng.zlib_ng import crc32  # the same as zlib's, and a segment may have megabytes

from ebb.index.errors import CorruptionError
from ebb.index.fingerprints import Fingerprints, Segment, merges, survivors
from ebb.index.ledger import Change, Ledger, State
from ebb.index.stored import items, number, text
from ebb.warehouse.store.disk import Disk
from ebb.warehouse.store.errors import read_error
from ebb.warehouse.store.files import create, make_folder, mapped, remove_file
from ebb.warehouse.store.paths import (
    is_segment,
    segment_checksum,
    segment_name,
    state_name,
    state_version,
    unfinished_commit,
)
from ebb.warehouse.table.checkpoint import CHECKPOINT_INTERVAL
from ebb.warehouse.table.log import LogEntry

__all__ = ["change_of", "read_ledger", "remove_old_states", "stored_ledger", "wants_state", "write_state"]

_CHANGE_BYTES = 16 * 1024  # a commit that would say more than this about the ledger names a new state instead
_KEPT_STATES = 8  # the last ones


def stored_ledger(state: State | None, change: Change) -> dict[str, Any]:
    """Return what a commit says about the ledger."""
    return {"state": None if state is None else [state.version, state.name], **change.stored()}


def read_ledger(folder: Path, log: Path, newest: int) -> tuple[Ledger, State | None]:
    """Return the ledger of a version, and the state it builds on.  Reads the commits since that state."""
    changes: list[Change] = []
    state, version = None, newest
    while version >= 0:
        entry = LogEntry.read(log, version)
        if entry is None:
            break
        stored = entry.ebb.get("ledger")
        if stored is not None:
            change, named = change_of(stored, version)
            state = named if state is None else state
            if state is not None and version <= state.version:
                break
            changes.append(change)
        version -= 1
    if version >= 0 and (state is None or version > state.version):
        where = f"there is no commit {version} in its log"
        raise CorruptionError("the ledger cannot be read", where, "restore the log from a backup")
    ledger = Ledger() if state is None else _load(folder, state)
    for change in reversed(changes):
        ledger = ledger.advanced(change)
    return ledger, state


def change_of(stored: Mapping[str, Any], version: int) -> tuple[Change, State | None]:
    """Return what a commit says about the ledger: what it changes, and the state that it builds on."""
    try:
        return Change.restored(stored), None if stored["state"] is None else _state(*items(stored["state"]))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise read_error(error, "what a commit says about the ledger", f"version {version}") from error


def _state(version: object, name: object) -> State:
    if state_version(text(name)) is None:  # it may name any file
        msg = f"{name!r} is not the name of a state"
        raise ValueError(msg)
    return State(number(version), text(name))


def _load(folder: Path, state: State) -> Ledger:
    try:
        ledger, names = Ledger.loads((folder / state.name).read_bytes())
        segments = [_segment(folder, name) for name in names]
    except (OSError, ValueError, KeyError, TypeError, RecursionError, struct.error) as error:
        raise read_error(error, "a state of the ledger", state.name) from error
    return replace(ledger, fingerprints=Fingerprints(tuple(segments)))


def _segment(folder: Path, name: str) -> Segment:
    if not is_segment(name):  # it may name any file
        msg = f"{name!r} is not the name of a segment"
        raise ValueError(msg)
    data = mapped(folder / name)
    if f"{crc32(data):08x}" != segment_checksum(name):
        msg = f"{name} is not as it was written"
        raise ValueError(msg)
    return Segment.loads(name, data)


def wants_state(state: State | None, version: int, change: Change) -> bool:
    """Whether the commit of a version names a new state: after some time, or if it would say too much about the ledger."""
    since = version - (state.version if state else 0)
    return since >= CHECKPOINT_INTERVAL or len(json.dumps(change.stored())) > _CHANGE_BYTES


def write_state(folder: Path, ledger: Ledger, version: int, ticks: int, disk: Disk) -> tuple[Ledger, State]:
    """Write down the ledger of a version; returns the same ledger as it is read back, and the state.

    Both are on the disk then: the next commit names them.

    ``ticks``: how long batches are remembered.
    """
    make_folder(folder, exist_ok=True, parents=True)
    since = ledger.remembered_since(ticks)
    segments, recent = list(ledger.fingerprints.segments), ledger.fingerprints.recent
    if recent:
        count = merges([len(segment) for segment in segments], len(recent))
        taken = segments[len(segments) - count :]
        data = Segment.dumps(survivors(taken, recent, since))
        name = segment_name(f"{crc32(data):08x}")
        _write(folder, name, data, disk)
        segments[len(segments) - count :] = [Segment.loads(name, mapped(folder / name))]
    kept = [segment for segment in segments if max(segment.slots, default=since) >= since]
    settled = ledger.settled(kept)
    state = State(version, state_name(version))
    _write(folder, state.name, settled.dumps(), disk)
    disk.sync([folder, folder.parent, folder.parent.parent])
    return settled, state


def _write(folder: Path, name: str, data: bytes, disk: Disk) -> None:
    create(folder / name, data, unfinished=folder / unfinished_commit(name), disk=disk)


def remove_old_states(folder: Path, named: State) -> None:
    """Remove the states before the one that the newest commit names, and what commits that failed have left.

    A reader may have read a commit just before and look for its state now: the last ones stay, with their segments.
    Requires the writer's lock: a state that is newer than the named one belongs to no commit.
    """
    states = [path for path in folder.iterdir() if (state_version(path.name) or -1) in range(named.version + 1)]
    older = sorted((path for path in states if _version(path) < named.version), key=_version)
    kept = [*older[1 - _KEPT_STATES :], folder / named.name]
    used = {path.name for path in kept}
    for path in kept:
        used.update(Ledger.segment_names(path.read_bytes()))
    for path in folder.iterdir():
        if path.name not in used:
            remove_file(path)


def _version(path: Path) -> int:
    return state_version(path.name) or 0
