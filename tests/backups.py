"""What tests of backups share: tables to back up, and everything that is on disk below a folder."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ebb import OpenTable
from tests.builders import arrow_batch
from tests.model import Record

__all__ = ["LAZY", "RETIRE", "apply_batch", "batch_of_slot", "canaries_below", "digest_of"]

RETIRE = {"policy": "2x2", "strategy": "retire", "deletion_bound": "5"}
LAZY = {"grid": "3x2", "strategy": "norebuild", "deletion_bound": "9"}


def batch_of_slot(slot: int) -> list[Record]:
    """Return records of every lifetime up to the span, and one that is refused."""
    batch = [Record(100 * slot + i, f"canary-{slot}-{i}-x", slot, slot + 1 + i) for i in range(6)]
    return [*batch, Record(100 * slot + 50, None, slot, slot + 3)]


def apply_batch(table: OpenTable, slot: int) -> None:
    """Apply the batch of a slot."""
    table.update(arrow_batch(batch_of_slot(slot)), at=slot)


def canaries_below(root: Path) -> set[str]:
    """Return every word ``canary-…-x`` in any value of any Parquet file or in the bytes of any other file."""
    words: set[str] = set()
    for file in root.rglob("*"):
        if file.is_file():
            is_parquet = file.suffix == ".parquet"
            rows: Any = pq.ParquetFile(file).read().to_pylist() if is_parquet else None
            text = json.dumps(rows, default=str) if is_parquet else file.read_bytes().decode("latin-1")
            words.update(re.findall(r"canary-[\d-]+-x", text))
    return words


def digest_of(root: Path) -> dict[str, str]:
    """Return a hash of every file below a folder, except for locks and leases, which come and go."""
    files = (f for f in root.rglob("*") if f.name != "lock" and f.suffix != ".lease" and f.is_file())
    return {file.relative_to(root).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
