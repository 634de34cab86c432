"""Checkpoints of a Delta log: what opening a table starts from, and what lets old entries go.

A step of its own after a commit, never part of one: a commit is made when its entry is there, and a checkpoint that
fails is tried again after the next.
"""

from __future__ import annotations

import json
from pathlib import Path

from ebb.warehouse.store.errors import disk_error
from ebb.warehouse.store.paths import LOG

__all__ = ["CHECKPOINT_INTERVAL", "checkpoint_if_due"]

CHECKPOINT_INTERVAL = 50  # commits; opening a table reads the entries since the last checkpoint


def checkpoint_if_due(folder: Path, version: int) -> None:
    """Write down what a Delta table looks like if enough commits were made, and let go of entries that are too old."""
    if version - _last(folder / LOG) < CHECKPOINT_INTERVAL:
        return
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        delta = DeltaTable(folder, version=version)
        delta.create_checkpoint()
        delta.cleanup_metadata()
    except (DeltaError, OSError) as error:
        what, step = f"the checkpoint of version {version} cannot be written", "the next commit tries again"
        raise disk_error(error, what, note="nothing is lost", step=step) from error


def _last(log: Path) -> int:
    """Return the version of the last checkpoint; 0 if there is none, or none that can be read."""
    try:
        return int(json.loads((log / "_last_checkpoint").read_bytes())["version"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0
