"""Looking for words that must be gone, in everything below a folder."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pyarrow.parquet as pq

__all__ = ["canaries_on_disk"]


def canaries_on_disk(root: Path) -> set[str]:
    """Return every word ``canary…`` in any value of any Parquet file or in the bytes of any other file."""
    words: set[str] = set()
    for file in root.rglob("*"):
        if not file.is_file():
            continue
        if file.suffix == ".parquet":
            text = json.dumps(pq.ParquetFile(file).read().to_pylist(), default=str)
        else:
            data = file.read_bytes()
            text = (gzip.decompress(data) if file.suffix == ".gz" else data).decode("utf-8", errors="replace")
        words.update(re.findall(r"\bcanary[\w-]*", text.replace("\\", "")))
    return words
