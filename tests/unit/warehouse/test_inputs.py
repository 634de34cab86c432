"""Files of a batch: how large they are in memory, who reads them, and how often they are opened."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ebb import Warehouse
from ebb.warehouse.intake.arrow_source import ArrowSource
from ebb.warehouse.intake.batch import Files, Stream, batch_of, memory_bytes, open_batch
from ebb.warehouse.intake.sizes import IntakeSizes
from ebb.warehouse.intake.source import check_inputs, find_inputs
from ebb.warehouse.settings import Engine
from tests.builders import arrow_batch, integer_table, records, write_batch

ROWS = records((1, "a", 5, 8), (2, "b", 5, 9))


class SparkStarted(Exception):  # noqa: N818 - no error: it says who reads
    """Raised where Spark would be started."""


def _start() -> Any:
    raise SparkStarted


def is_direct(files: list[Path], engine: Engine, warehouse: Warehouse, direct_bytes: int = 10**6) -> bool:
    """Whether the files are read without Spark."""
    spec = integer_table(warehouse, "t").table.snapshot().spec
    warehouse.drop("t")
    batch = batch_of([str(file) for file in files], engine)
    try:
        source = open_batch(batch, spec, spark=_start, sizes=IntakeSizes(direct_bytes=direct_bytes))
    except SparkStarted:
        return False
    return isinstance(source, ArrowSource)


def test_packed_files_were_taken_for_as_small_in_memory_as_on_disk(tmp_path: Path) -> None:
    """32 MB of compressed text or Parquet were sorted in one task as if that were what they take in memory."""
    text = "id,key\n" + "1,aaaaaaaaaaaaaaaa\n" * 10_000
    (tmp_path / "a.csv").write_text(text)
    with gzip.open(tmp_path / "b.csv.gz", "wt") as packed:
        packed.write(text)
    table = pa.table({"id": pa.array([7] * 10**6), "text": pa.array([f"{i:030}" for i in range(10**6)])})
    pq.write_table(table, tmp_path / "c.parquet", compression="zstd")
    pq.write_table(table.select(["id"]), tmp_path / "d.parquet")
    plain, packed_text, packed_parquet, folded = find_inputs([str(tmp_path)])

    assert plain.memory_bytes == plain.size_bytes == len(text)
    assert packed_text.memory_bytes == 8 * packed_text.size_bytes
    assert packed_parquet.size_bytes < 10**7 < 3 * 10**7 < packed_parquet.memory_bytes < 2 * table.nbytes
    assert folded.size_bytes < 10**5 < 8 * 10**6 <= folded.memory_bytes
    assert memory_bytes(Files((plain, folded))) == plain.memory_bytes + folded.memory_bytes
    assert memory_bytes(Stream(table)) is None


def test_a_parquet_file_was_opened_for_each_thing_to_be_known_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its columns, its calendar and its size were looked up in three openings, or four for a landing folder."""
    opened: list[Any] = []

    class Counted(pq.ParquetFile):
        def __init__(self, source: Any, **options: Any) -> None:
            opened.append((source, options.get("metadata") is not None))
            super().__init__(source, **options)

    monkeypatch.setattr(pq, "ParquetFile", Counted)
    files = find_inputs([str(write_batch(tmp_path / f"{i}.parquet", ROWS)) for i in range(2)])
    schema = integer_table(Warehouse.open(tmp_path / "w")).table.snapshot().spec.input_schema
    for _ in range(2):
        check_inputs(files, schema)
    facts = [(file.memory_bytes, file.has_old_calendar) for file in files]

    assert opened == [(file.path, False) for file in files]
    assert all(size > 0 and not is_old for size, is_old in facts)


def test_auto_leaves_to_spark_what_is_large_or_of_an_old_calendar(warehouse: Warehouse, tmp_path: Path) -> None:
    small = write_batch(tmp_path / "a.parquet", ROWS)
    size = small.stat().st_size
    old = tmp_path / "old.parquet"
    pq.write_table(arrow_batch(ROWS).replace_schema_metadata({"org.apache.spark.version": "2.4.0"}), old)
    new = tmp_path / "new.parquet"
    pq.write_table(arrow_batch(ROWS).replace_schema_metadata({"org.apache.spark.version": "4.2.0"}), new)

    assert is_direct([small], "auto", warehouse, direct_bytes=size)
    assert is_direct([small, new], "auto", warehouse)
    assert not is_direct([small], "auto", warehouse, direct_bytes=size - 1)
    assert not is_direct([small, new], "auto", warehouse, direct_bytes=size)
    assert is_direct([small, write_batch(tmp_path / "b.csv", ROWS)], "auto", warehouse)
    assert not is_direct([old], "auto", warehouse)


def test_direct_takes_parquet_of_any_size_and_spark_everything(warehouse: Warehouse, tmp_path: Path) -> None:
    small = write_batch(tmp_path / "a.parquet", ROWS)

    assert is_direct([small], "direct", warehouse, direct_bytes=0)
    assert not is_direct([small], "spark", warehouse)


def test_the_size_up_to_which_auto_is_direct_is_that_of_the_documents() -> None:
    assert IntakeSizes().direct_bytes == 64 * 1024 * 1024
