"""Who reads the same records in the bench of reads: Ebb, one sorted Parquet file, Spark, and other stores.

Each reader answers a probe for some keys, and a scan, in the form that it hands out by itself: Arrow tables, data
frames or lists of tuples. ``digest`` sees through the form, so that every answer is checked before it is timed.
"""

from __future__ import annotations

import bisect
import itertools
import sqlite3
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import rocksdict  # type: ignore[import-not-found,unused-ignore]  # comes with the extra "bench" only

from ebb.index.cellfile import CellFile
from ebb.index.columns import EXPIRES_SLOT, INSERTED_SLOT
from ebb.index.directory import Block
from ebb.index.grid import Cell
from ebb.index.keys import Wanted
from ebb.warehouse.parquet.arrow import arrow_schema, conform
from ebb.warehouse.parquet.sizes import WriteSizes
from ebb.warehouse.parquet.writer import Layout, RunWriter
from ebb.warehouse.read.finder import Finder
from ebb.warehouse.read.request import Cost
from ebb.warehouse.read.window import Window

__all__ = [
    "Digest",
    "DuckDb",
    "Ebb",
    "Polars",
    "Reader",
    "RocksDb",
    "SortedFile",
    "Spark",
    "Sqlite",
    "digest",
    "sorted_file",
    "unfiltered",
]

COLUMNS = ["k", "ins", "exp", "pay"]
FRAME = {"k": pl.Int64, "ins": pl.Int64, "exp": pl.Int64, "pay": pl.String}
FETCHED = 1000  # rows that a store without batches of its own hands out at once

Digest = tuple[int, int]  # how many records, and the sum of their hashes: the same in any order


def digest(parts: Iterable[Any]) -> Digest:
    """Return what tells one multiset of records from another."""
    count = total = 0
    for part in parts:
        frame = pl.DataFrame(part, schema=FRAME, orient="row") if isinstance(part, list) else pl.DataFrame(part)
        count += frame.height
        total += int(frame.select(COLUMNS).hash_rows().sum())
    return count, total % 2**64


class Reader(Protocol):
    """One way to read the records."""

    name: str

    def probe(self, keys: Sequence[int]) -> Any: ...

    def scan(self) -> Iterable[Any]: ...


class Ebb:
    """The table through windows: one that is kept, or a new one for each read."""

    def __init__(self, name: str, window: Callable[[], Window]) -> None:
        self.name, self.window = name, window

    def probe(self, keys: Sequence[int]) -> pa.Table:
        return self.window().probe(*keys)

    def scan(self) -> Iterable[pa.RecordBatch]:
        return self.window().scan()


class _Unfiltered(Finder):
    def filtered(self, blocks: Sequence[Block], files: Sequence[CellFile], wanted: Wanted, cost: Cost) -> list[Block]:
        del files, wanted, cost
        return list(blocks)


def unfiltered(window: Window) -> Window:
    """Return the same window, read without Bloom filters."""
    spec = window.snapshot.spec
    finder = _Unfiltered(window.finder.table, [spec.column(name) for name in spec.key])
    return Window(window.snapshot, finder, window.lease)


def sorted_file(window: Window, folder: Path) -> Path:
    """Write the records of a window as one Parquet file, by key, with row groups as Ebb makes them."""
    schema = arrow_schema(window.snapshot.spec.columns)
    (folder / "sorted").mkdir(parents=True)
    if True:
        layout = Layout(schema, ("k",), str(folder), "sorted", WriteSizes(file_bytes=sys.maxsize))
        writer = RunWriter(layout, Cell(0, 0))
        for batch in window.read(window.wanted((), low=0)):
            slots = {INSERTED_SLOT: batch["ins"], EXPIRES_SLOT: batch["exp"]}
            writer.add(conform(pa.table({name: batch[name] for name in COLUMNS} | slots), schema))
        (written,) = writer.close().files
    return folder / written.path


class SortedFile:
    """One sorted Parquet file with pyarrow, its footer parsed once: nothing expires, nothing is ever added."""

    def __init__(self, path: Path) -> None:
        self.name, self.path, self.file = "one sorted file", path, pq.ParquetFile(path)
        footer = self.file.metadata
        ends = [footer.row_group(i).column(0).statistics for i in range(footer.num_row_groups)]
        self.lows, self.highs = [end.min for end in ends], [end.max for end in ends]

    def probe(self, keys: Sequence[int]) -> pa.Table:
        if len(keys) > 1:
            return self._list(np.sort(keys))
        groups = range(bisect.bisect_left(self.highs, keys[0]), bisect.bisect_right(self.lows, keys[0]))
        found = self.file.read_row_groups(groups, columns=COLUMNS)
        low, high = np.searchsorted(found["k"].to_numpy(), [keys[0], keys[0] + 1])
        return found.slice(low, high - low)

    def _list(self, keys: Any) -> pa.Table:
        met = np.searchsorted(keys, self.lows) < np.searchsorted(keys, self.highs, side="right")
        found = self.file.read_row_groups(np.flatnonzero(met).tolist(), columns=COLUMNS)
        return found.filter(pc.is_in(found["k"], pa.array(keys)))

    def scan(self) -> Iterable[pa.RecordBatch]:
        return pq.ParquetFile(self.path).iter_batches(columns=COLUMNS)

    def scan_at_once(self, *, is_verified: bool = False) -> Iterable[pa.Table]:
        """Read everything into memory, which is faster than part after part; the checksums of pages can be verified."""
        return [pq.read_table(self.path, columns=COLUMNS, partitioning=None, page_checksum_verification=is_verified)]


class Spark:
    """Ebb's view of the window in a warm session."""

    def __init__(self, spark: Any) -> None:
        self.name, self.spark = "Spark", spark

    def probe(self, keys: Sequence[int]) -> pa.Table:
        if len(keys) == 1:
            return self.spark.sql(f"SELECT * FROM t WHERE k = {keys[0]}").toArrow()
        self.spark.createDataFrame(pa.table({"k": keys})).createOrReplaceTempView("wanted")
        return self.spark.sql("SELECT * FROM t LEFT SEMI JOIN wanted USING (k)").toArrow()

    def scan(self) -> Iterable[pa.Table]:
        """Read everything and leave it in the JVM, in Spark's favour: what it hands out it also keeps there."""
        self.spark.table("t").write.format("noop").mode("overwrite").save()
        return []

    def parts(self) -> Iterator[pa.Table]:
        """Hand the records out in parts that the JVM has room for."""
        return (self.spark.sql(f"SELECT * FROM t WHERE exp % 8 = {part}").toArrow() for part in range(8))


class Sqlite:
    """A table with an index on the key."""

    def __init__(self, source: Path, folder: Path) -> None:
        self.name, self.db = "sqlite", sqlite3.connect(folder / "sqlite.db")
        self.db.execute("CREATE TABLE t (k INTEGER, ins INTEGER, exp INTEGER, pay TEXT)")
        self.db.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", _tuples(source))
        self.db.execute("CREATE INDEX by_key ON t (k)")
        self.db.commit()

    def probe(self, keys: Sequence[int]) -> list[Any]:
        if len(keys) == 1:
            return self.db.execute("SELECT * FROM t WHERE k = ?", keys).fetchall()
        self.db.execute("CREATE TEMP TABLE IF NOT EXISTS wanted (k INTEGER PRIMARY KEY)")
        self.db.execute("DELETE FROM wanted")
        self.db.executemany("INSERT INTO wanted VALUES (?)", ((key,) for key in keys))
        return self.db.execute("SELECT t.* FROM wanted CROSS JOIN t USING (k)").fetchall()

    def scan(self) -> Iterator[list[Any]]:
        cursor = self.db.execute("SELECT * FROM t")
        return iter(lambda: cursor.fetchmany(FETCHED), [])


class DuckDb:
    """A native table in the order of the key, with an index on it: probes of many keys take half as long with it."""

    def __init__(self, source: Path, folder: Path) -> None:
        self.name, self.db = "duckdb", duckdb.connect(str(folder / "duck.db"))
        self.db.execute(f"CREATE TABLE t AS SELECT {', '.join(COLUMNS)} FROM '{source}'")
        self.db.execute("CREATE INDEX by_key ON t (k)")
        self.db.execute("CHECKPOINT")

    def probe(self, keys: Sequence[int]) -> pa.Table:
        if len(keys) == 1:
            return self.db.sql("SELECT * FROM t WHERE k = ?", params=keys).to_arrow_table()
        self.db.register("wanted", pa.table({"k": keys}))
        return self.db.sql("SELECT * FROM t SEMI JOIN wanted USING (k)").to_arrow_table()

    def scan(self) -> Iterable[pa.RecordBatch]:
        return self.db.sql("SELECT * FROM t").to_arrow_reader(10_000)


class RocksDb:
    """Records under their key and a number, compacted; a probe goes through a range of keys."""

    def __init__(self, source: Path, folder: Path) -> None:
        self.name = "rocksdb"
        self.db: Any = rocksdict.Rdict(str(folder / "rocks"), rocksdict.Options(raw_mode=True))
        for number, (key, inserted, expires, pay) in enumerate(_tuples(source)):
            self.db[struct.pack(">QI", key, number)] = struct.pack("<qq", inserted, expires) + pay.encode()
        self.db.flush()
        self.db.compact_range(None, None)

    def _between(self, low: int, high: int) -> Iterator[tuple[Any, ...]]:
        options = rocksdict.ReadOptions()
        options.set_iterate_upper_bound(struct.pack(">Q", high))
        for key, value in self.db.items(from_key=struct.pack(">Q", low), read_opt=options):
            yield struct.unpack_from(">Q", key) + struct.unpack_from("<qq", value) + (value[16:].decode(),)

    def probe(self, keys: Sequence[int]) -> list[Any]:
        return [row for key in keys for row in self._between(key, key + 1)]

    def scan(self) -> Iterator[list[Any]]:
        rows = self._between(0, 2**63)
        return iter(lambda: list(itertools.islice(rows, FETCHED)), [])


class Polars:
    """The sorted file as a lazy frame."""

    def __init__(self, path: Path) -> None:
        self.name, self.frame = "polars", pl.scan_parquet(path, hive_partitioning=False).select(COLUMNS)

    def probe(self, keys: Sequence[int]) -> pl.DataFrame:
        return self.frame.filter(pl.col("k") == keys[0] if len(keys) == 1 else pl.col("k").is_in(keys)).collect()

    def scan(self) -> Iterable[pl.DataFrame]:
        return self.frame.collect_batches()


def _tuples(path: Path) -> Iterator[tuple[Any, ...]]:
    for batch in pq.ParquetFile(path).iter_batches(columns=COLUMNS):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
