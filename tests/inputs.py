"""Input files that nobody should have written: batches of every format, and what accidents and malice make of them."""

from __future__ import annotations

import gzip
import io
import json
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["CANARY", "HEADER", "BadFile", "bad_file"]

CANARY = "canary7f3a"  # in values of every record: no message may show one
HEADER = "id,key,inserted,expires,pay"
_SCHEMA = pa.schema(
    [("id", pa.int64()), ("key", pa.string()), ("inserted", pa.int64()), ("expires", pa.int64()), ("pay", pa.string())]
)
_ODD = (
    "", "x", "-1", "1.5", "1e400", "nan", "9" * 40, "0x10", "1_000", "\u0661", "true", "2013-01-01", "[1]", "{}", "null",
    '"', "\x00", "\r", "\x1b]0;owned\x07", "=1+1", "\u202e", "a" * 70_000, "é" * 300, " ", "\ufeff",
)  # fmt: skip
_NAMES = (
    "batch",
    "40-cars",
    "-rf",
    "--at",
    "a b",
    "é",
    "b\nb",
    "b\x1b[31m",
    "b'\"b",
    "b%sb",
    "b{0}",
    "$(id)",
    "b;b",
    "x" * 240,
)


@dataclass(frozen=True)
class BadFile:
    """A file."""

    name: str
    data: bytes
    has_header: bool  # whether its columns are still called as they were
    what: str


def _rows(dice: random.Random, slot: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {
            "id": n,
            "key": f"{CANARY}-{n % 5}",
            "inserted": slot,
            "expires": slot + 1 + n % 7,
            "pay": f"{CANARY} {dice.random()}",
        }
        for n in range(dice.choice((0, 1, 3, 20)))
    ]
    for row in rows:
        while dice.random() < 0.3:
            row[dice.choice(_SCHEMA.names)] = dice.choice(
                (*_ODD, None, 2**70, -(2**63), 1.5, True, [], {"a": [1]}, f"{CANARY}!")
            )
    return rows


def _csv(rows: list[dict[str, Any]]) -> bytes:
    def field(value: Any) -> str:
        return "" if value is None else '"' + str(value).replace('"', '""') + '"'

    return "\n".join([HEADER, *(",".join(field(row[name]) for name in _SCHEMA.names) for row in rows), ""]).encode()


def _json(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def _parquet(rows: list[dict[str, Any]], dice: random.Random) -> bytes:
    columns: dict[str, Any] = {}
    for name, kind in zip(_SCHEMA.names, _SCHEMA.types, strict=True):
        values = [row[name] for row in rows]
        try:
            columns[name] = pa.array(values) if dice.random() < 0.2 else pa.array(values, kind)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            columns[name] = pa.array([None if value is None else str(value) for value in values], pa.string())
    if dice.random() < 0.2:
        name = dice.choice(_SCHEMA.names)
        columns[name] = columns[name].dictionary_encode() if dice.random() < 0.5 else pa.array([[{"a": 1}]] * len(rows))
    sink = io.BytesIO()
    pq.write_table(
        pa.table(columns), sink, row_group_size=dice.choice((1, 7, 1000)), write_page_checksum=dice.random() < 0.5,
        compression=dice.choice(("none", "snappy", "zstd", "gzip")), use_dictionary=dice.random() < 0.5,
    )  # fmt: skip
    return sink.getvalue()


def _flip(data: bytes, dice: random.Random) -> bytes:
    spoiled = bytearray(data)
    for _ in range(dice.choice((1, 2, 16))):
        spoiled[dice.randrange(len(spoiled))] = dice.randrange(256)
    return bytes(spoiled)


def _large_number(data: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(data))
    return (
        data[:at] + dice.choice((b"\xff\xff\xff\xff\x0f", struct.pack("<I", 2**31 - 1), b"\xff" * 10)) + data[at + 4 :]
    )


def _again(data: bytes, dice: random.Random) -> bytes:
    low, high = sorted(dice.randrange(len(data) + 1) for _ in range(2))
    return data[:high] + data[low:high] * dice.choice((1, 3)) + data[high:]


def _into(data: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(data) + 1)
    what = (
        b"\x00",
        b'"',
        b"\n",
        b"\r\n",
        b",",
        b"\xff\xfe",
        b"{",
        b"[" * 2000,
        b"}",
        b"1" * 5000,
        b"\xed\xa0\x80",
        b"\xef\xbb\xbf",
        b"PAR1",
    )
    return data[:at] + dice.choice(what) + data[at:]


_SPOIL: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    lambda data, _: data,
    _flip,
    _flip,
    _large_number,
    _again,
    _into,
    _into,
    lambda data, dice: data[: dice.randrange(len(data) + 1)],
    lambda data, dice: data[dice.randrange(len(data)) :],
    lambda _, dice: dice.randbytes(dice.choice((1, 12, 4096))),
    lambda _, __: b"",
    lambda data, _: data.decode("latin-1").encode("utf-16"),
    lambda data, _: b"PARE" + data[4:-4] + b"PARE",
    lambda data, _: data[:-8] + b"\xff\xff\xff\x7f" + data[-4:],
)


def bad_file(dice: random.Random, slot: int, number: int) -> BadFile:
    """Return a file of a batch for a slot, spoiled in one way or another, or not at all."""
    rows = _rows(dice, slot)
    kind = dice.choice((".csv", ".jsonl", ".parquet"))
    data = {".csv": _csv, ".jsonl": _json}[kind](rows) if kind != ".parquet" else _parquet(rows, dice)
    how = dice.randrange(len(_SPOIL))
    spoiled = _SPOIL[how](data, dice) if data else data
    suffix = kind if dice.random() < 0.9 else dice.choice((".csv", ".jsonl", ".parquet", ".tsv", ".json"))
    if suffix != ".parquet" and dice.random() < 0.15:
        suffix += ".gz"
        packed = gzip.compress(spoiled)
        spoiled = packed if dice.random() < 0.7 else _flip(packed, dice)
    has_header = how == 0 or (kind == ".csv" and suffix == ".csv" and spoiled.startswith(HEADER.encode() + b"\n"))
    # A number: no two files of a run have the same name.
    return BadFile(f"{dice.choice(_NAMES)}{number}{suffix}", spoiled, has_header and suffix == kind, f"{kind} {how}")
