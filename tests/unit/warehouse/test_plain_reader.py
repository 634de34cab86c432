"""A reader written from docs/format.md, with nothing but Arrow and the standard library, sees what Ebb sees.

It reads the log, refuses what it does not know, verifies every byte of every file that it reads, and finds keys by key
ranges and contents. Ebb makes the tables and answers the same questions; the reader knows nothing of it.
"""

from __future__ import annotations

import io
import itertools
import json
import struct
import zlib
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ebb import OpenTable
from tests.builders import integer_table, open_warehouse
from tests.model import Model, Record

KNOWN_KINDS, KNOWN_FEATURES = {"stream"}, set[str]()


class Contents:
    """The block before a footer."""

    def __init__(self, data: bytes) -> None:
        self.n, self.leaves, self.keys, self.pages, schema = struct.unpack_from("<5I", data)
        self._data, self._at = data, 20 + schema
        n, chunks, filters = self.n, self.n * self.leaves, self.keys * self.n
        self.records, self.raw = self._take("I", n), self._take("Q", n)
        self.min_ins, self.max_ins, self.min_exp, self.max_exp = (self._take("q", n) for _ in range(4))
        self.chunk_at = self._take("Q", chunks)
        self.chunk_bytes, self.values, self.chunk_sums, self.chunk_pages = (self._take("I", chunks) for _ in range(4))
        self.page_bytes, self.page_records, self.page_sums = (self._take("I", self.pages) for _ in range(3))
        self.filter_at, self.filter_bytes, self.filter_sums = (
            self._take("Q", filters), self._take("I", filters), self._take("I", filters),
        )  # fmt: skip
        start_ends, stop_ends = self._take("I", n), self._take("I", n)
        self.codecs = self._take("B", chunks)
        texts = data[self._at :]
        self.starts = [texts[low:high] for low, high in itertools.pairwise([0, *start_ends])]
        texts = texts[start_ends[-1] :]
        self.stops = [texts[low:high] or None for low, high in itertools.pairwise([0, *stop_ends])]
        assert len(texts) == stop_ends[-1]

    def _take(self, kind: str, count: int) -> tuple[int, ...]:
        found = struct.unpack_from(f"<{count}{kind}", self._data, self._at)
        self._at += struct.calcsize(f"<{count}{kind}")
        return found


class File:
    """A data file, every byte of it verified."""

    def __init__(self, path: Path, size: int) -> None:
        self.name, self.data = path.name, path.read_bytes()
        assert len(self.data) == size
        assert self.data[:4] == self.data[-4:] == b"PAR1"
        length = struct.unpack("<I", self.data[-8:-4])[0] + 8
        footer = self.data[-length:]
        assert path.stem.rsplit("-", 1)[1] == blake2b(footer, digest_size=8).hexdigest()
        self.parquet = pq.ParquetFile(io.BytesIO(self.data))
        offset, size, checksum = self.parquet.metadata.metadata[b"ebb.contents"].decode().split()
        self.block = self.data[int(offset) : int(offset) + int(size)]
        assert f"{zlib.crc32(self.block):08x}" == checksum
        self.contents = Contents(self.block)
        assert 4 + self._verified() + len(self.block) + length == len(self.data), "a byte that nobody vouches for"

    def _verified(self) -> int:
        """Verify chunks, pages and filters; return how many bytes they have."""
        found, total, page = self.contents, 0, 0
        for chunk in range(found.n * found.leaves):
            start, size = found.chunk_at[chunk], found.chunk_bytes[chunk]
            assert zlib.crc32(self.data[start : start + size]) == found.chunk_sums[chunk]
            column = self.parquet.metadata.row_group(chunk // found.leaves).column(chunk % found.leaves)
            assert (column.total_compressed_size, column.num_values) == (size, found.values[chunk])
            assert ("UNCOMPRESSED", "SNAPPY")[found.codecs[chunk]] == column.compression
            at, records = start, 0
            while page < found.chunk_pages[chunk]:
                end = at + found.page_bytes[page]
                assert zlib.crc32(self.data[at:end]) == found.page_sums[page]
                records += found.page_records[page]
                at, page = end, page + 1
            assert (at, records) == (start + size, found.records[chunk // found.leaves])
            total += size
        for at, size, checksum in zip(found.filter_at, found.filter_bytes, found.filter_sums, strict=True):
            assert zlib.crc32(self.data[at : at + size]) == checksum
            total += size
        return total

    def check_side_file(self, path: Path) -> None:
        """Check that a side file says the same."""
        data = path.read_bytes()
        crc, name, block = struct.unpack_from("<III", data, 8)
        assert (data[:8], crc) == (b"EBBKEYS2", zlib.crc32(data[12:]))
        assert data[20 : 20 + name].decode() == self.name
        assert data[20 + name : 20 + name + block] == self.block
        filters = zip(self.contents.filter_at, self.contents.filter_bytes, strict=True)
        assert data[20 + name + block :] == b"".join(self.data[at : at + size] for at, size in filters)

    def row_groups(self, numbers: list[int]) -> pa.Table:
        """Return the records of row groups, and check that they are where the contents say."""
        return self.parquet.read_row_groups(numbers)


class Plain:
    """A table at its newest version."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.live: dict[str, dict[str, Any]] = {}
        self.clock: int | None = None
        self.ranges: list[list[Any]] = []
        for action in self._actions():
            if "metaData" in action:
                self.properties = dict(action["metaData"]["configuration"])
                self.fields = [field["name"] for field in json.loads(action["metaData"]["schemaString"])["fields"]]
            if "add" in action:
                self.live[unquote(action["add"]["path"])] = action["add"]
            if "remove" in action:
                self.live.pop(unquote(action["remove"]["path"]), None)
            if action.get("txn", {}).get("appId") == "ebb":
                self.clock = action["txn"]["version"]
        assert self.properties["ebb.formatVersion"] == "2"
        assert self.properties["ebb.kind"] in KNOWN_KINDS
        assert not set(filter(None, self.properties["ebb.readerFeatures"].split(","))) - KNOWN_FEATURES
        generations = {dict(add["partitionValues"])["_gen"] for add in self.live.values()}
        assert generations <= {self.properties["ebb.generation"]}
        self.columns = [name for name in self.fields if not name.startswith("_")]

    def _actions(self) -> Iterator[dict[str, Any]]:
        """Yield what the log says, from the last checkpoint on."""
        log, first = self.folder / "_delta_log", 0
        if (log / "_last_checkpoint").exists():
            last = json.loads((log / "_last_checkpoint").read_text())["version"]
            for row in pq.read_table(log / f"{last:020}.checkpoint.parquet").to_pylist():
                yield {
                    name: {k: dict(v) if k in ("configuration", "partitionValues") else v for k, v in value.items()}
                    for name, value in row.items()
                    if value is not None
                }
            first = last + 1
        for entry in sorted(log.glob("*.json")):
            if int(entry.stem) >= first:
                yield from map(json.loads, entry.read_text(encoding="utf-8").splitlines())

    def _shown(self, table: pa.Table) -> list[dict[str, Any]]:
        assert self.clock is not None
        rows = [row for row in table.to_pylist() if row["_exp_slot"] > self.clock]
        return [{name: row.get(name) for name in self.columns} for row in rows]

    def scan(self) -> list[dict[str, Any]]:
        """Return all live records."""
        found = []
        for path, add in self.live.items():
            file = File(self.folder / path, add["size"])
            file.check_side_file(self.folder / path.replace(".parquet", ".keys"))
            table = file.row_groups(list(range(file.contents.n)))
            self._check_row_groups(file, add)
            found += self._shown(table)
        return found

    def _check_row_groups(self, file: File, add: dict[str, Any]) -> None:
        """Check slots and codes of every row group against its records, and those of the file against the log."""
        contents, stats = file.contents, json.loads(add["stats"])
        key = self.properties["ebb.key"].split(",")
        for number in range(contents.n):
            rows = file.row_groups([number]).to_pylist()
            codes = [encoded([row[name] for name in key] + [row["_exp_slot"]]) for row in rows]
            assert codes == sorted(codes)
            assert contents.starts[number] == codes[0][:256]
            assert (contents.stops[number] or b"\xff" * 300) > codes[-1]
            slots = [[row["_ins_slot"] for row in rows], [row["_exp_slot"] for row in rows]]
            assert (contents.min_ins[number], contents.max_ins[number]) == (min(slots[0]), max(slots[0]))
            assert (contents.min_exp[number], contents.max_exp[number]) == (min(slots[1]), max(slots[1]))
        assert stats["numRecords"] == sum(contents.records)
        assert stats["minValues"] == {"_ins_slot": min(contents.min_ins), "_exp_slot": min(contents.min_exp)}
        assert stats["maxValues"] == {"_ins_slot": max(contents.max_ins), "_exp_slot": max(contents.max_exp)}

    def probe(self, key: list[Any]) -> tuple[list[dict[str, Any]], int]:
        """Return the live records of a key, and how many files were looked into."""
        start = encoded(key)
        stop = start[:-1] + bytes([start[-1] + 1])
        ranges = self.key_ranges()
        found, looked = [], 0
        for path, add in self.live.items():
            low, high = ranges.get(path, (b"", None))
            if low >= stop or (high is not None and high <= start):
                continue
            looked += 1
            file = File(self.folder / path, add["size"])
            ends = enumerate(zip(file.contents.starts, file.contents.stops, strict=True))
            met = [number for number, (low, high) in ends if low < stop and (high is None or high > start)]
            if met:
                names = self.properties["ebb.key"].split(",")
                rows = self._shown(file.row_groups(met))
                found += [row for row in rows if [row[name] for name in names] == key]
        return found, looked

    def key_ranges(self) -> dict[str, tuple[bytes, bytes | None]]:
        """Return what the objects in the folder say; that some of them are no longer named does not make them wrong."""
        found: dict[str, tuple[bytes, bytes | None]] = {}
        for place in (self.folder / "_ebb" / "ranges").glob("*"):
            data = place.read_bytes()
            assert (data[:8], struct.unpack("<I", data[8:12])[0]) == (b"EBBRNGS1", zlib.crc32(data[12:]))
            body = zlib.decompress(data[12:])
            n, size = struct.unpack_from("<II", body)
            _, starts, stops = (struct.unpack_from(f"<{n}I", body, 8 + 4 * n * number) for number in range(3))
            at = 8 + 12 * n
            paths = body[at : at + size].decode().split("\n")
            edges = list(itertools.accumulate([*starts, *stops], initial=at + size))
            texts = [body[low:high] for low, high in itertools.pairwise(edges)]
            found |= {path: (texts[i], texts[n + i] or None) for i, path in enumerate(paths)}
        return found


def encoded(parts: list[Any]) -> bytes:
    """Return the code of texts and integers."""
    return b"".join(
        part.encode().replace(b"\0", b"\0\xff") + b"\0\x01"
        if isinstance(part, str)
        else (part + 2**63).to_bytes(8, "big")
        for part in parts
    )


def filled(tmp_path: Path, wish: dict[str, Any], slots: int) -> tuple[OpenTable, Model]:
    """Return a table after many updates, with keys of few and of many records, and the model of it."""
    table = integer_table(open_warehouse(tmp_path / "w"), span="60", reader_time="1", **wish)
    model = Model(table.table.snapshot().spec.timeline)
    for slot in range(1, slots + 1):
        long = [
            ("k007", n % 5) for n in range(900 if slot % 20 == 0 else 0)
        ]  # a row group of its own, and several pages
        keys = [(f"k{(slot * 7 + n) % 40:03}", n) for n in range(10)] + long
        records = [
            Record(10_000 * slot + n, key, slot, slot + 3 + 5 * (life % 9)) for n, (key, life) in enumerate(keys)
        ]
        columns: dict[str, Any] = {
            name: [getattr(r, name) for r in records] for name in ("id", "key", "inserted", "expires")
        }
        table.update(pa.table(columns | {"pay": [f"{r.id:x}" * 60 for r in records]}), at=slot)
        model.apply(slot, records)
    return table, model


WISHES = {
    "retire": {"strategy": "retire", "policy": "8x8", "deletion_bound": "20"},
    "norebuild": {"strategy": "norebuild", "grid": "2x2", "deletion_bound": "40"},
    "rebuild": {"strategy": "rebuild", "grid": "3x3", "deletion_bound": "4"},
}


@pytest.mark.parametrize("wish", WISHES)
def test_a_reader_written_from_the_page_sees_what_ebb_sees(wish: str, tmp_path: Path) -> None:
    table, model = filled(tmp_path, WISHES[wish], 64)  # past a checkpoint

    plain = Plain(table.table.folder)

    window = sorted(record.id for record in model.window())
    assert sorted(row["id"] for row in plain.scan()) == window == sorted(table.scan().read_all()["id"].to_pylist())
    assert sorted(plain.scan(), key=lambda row: row["id"]) == sorted(
        table.scan().read_all().to_pylist(), key=lambda row: row["id"]
    )
    for key in ("k007", "k020", "k039", "none"):
        rows, looked = plain.probe([key])
        assert sorted(row["id"] for row in rows) == sorted(table.probe(key)["id"].to_pylist())
        assert looked <= len(plain.live)
