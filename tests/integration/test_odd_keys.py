"""One rule for keys on every path: the model, the reader without a JVM and Spark find the same records (P5)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from ebb import OpenTable, Warehouse

_UTC = UTC
_INTS = [0, 1, -1, 2, 7, 10, 99, 100, 127, -128]


def _spread(limit: int) -> list[int]:
    """Return integers at every edge up to a limit."""
    edges = [n for bits in (8, 16, 32, 64) for n in (2 ** (bits - 1) - 1, 2 ** (bits - 1) - 2, -(2 ** (bits - 1)))]
    return sorted({n for n in [*_INTS, *range(3, 30), *edges] if -limit - 1 <= n <= limit})


_TEXTS = [
    "", " ", "  ", "a", "A", "aa", "ab", "b", "a ", " a", "a,b", 'a"b', "a'b", "a\\b", "a\\", "%", "_", "a%", "a\nb", "a\tb",
    "a\rb", "0", "00", "1", "-1", "1e3", "null", "NULL", "None", "nan", "é", "e\u0301", "ß", "ÿ", "\u00ff", "中", "\uffff",
    "\U0001f600", "\U0001f600a", "z" * 200, "${x}", "`a`", "\x01", "a\x01", "a\x7f", "*", "a/b", "../x", "a b", "\u202ea",
]  # fmt: skip
_DOUBLES = [
    0.0, -0.0, 1.0, -1.0, 0.1, -0.1, 1e-300, -1e-300, 5e-324, -5e-324, 1e300, -1e300, 2.0**53, 2.0**53 + 2, 1 / 3, 100.0,
    1.7976931348623157e308, -1.7976931348623157e308, 2.2250738585072014e-308, 0.30000000000000004, 0.3, 1e16, 123456.789,
    *[float(n) for n in range(2, 20)],
]  # fmt: skip
_FLOATS = sorted({struct.unpack("<f", struct.pack("<f", x))[0] for x in _DOUBLES if abs(x) < 3e38})
_DATES = [date(1970, 1, 1) + timedelta(days=d) for d in (0, 1, -1, 365, -365, 10957, 20000, -20000, *range(2, 34))]
_MOMENTS = [
    datetime(1970, 1, 1, tzinfo=_UTC) + timedelta(microseconds=us)
    for us in (0, 1, -1, 999_999, 10**6, -(10**6), 10**15, 10**15 + 1, -(10**15), *(10**12 * n for n in range(1, 32)))
]
_BYTES = [b"", b"\x00", b"\x00\x00", b"\x00\x01", b"\x01", b"\xff", b"\xff\xff", b"a", b"a\x00", b"a\x00b", b"ab", b"\x7f", b"\x80",
          *(bytes([n, 255 - n]) for n in range(28))]  # fmt: skip
_CENTS = [Decimal(n).scaleb(-2) for n in (0, 1, -1, 99, 100, 101, -100, 10**9, -(10**9), *range(2, 34))]
_HUGE = [Decimal(n) for n in (0, 1, -1, 10**37, -(10**37), 10**38 - 1, -(10**38) + 1, 10**19, -(10**19), *range(2, 34))]

KEYS: dict[str, tuple[str, pa.DataType, list[Any]]] = {
    "string": ("STRING", pa.string(), _TEXTS),
    "bigint": ("BIGINT", pa.int64(), _spread(2**63 - 1)),
    "int": ("INT", pa.int32(), _spread(2**31 - 1)),
    "smallint": ("SMALLINT", pa.int16(), _spread(2**15 - 1)),
    "tinyint": ("TINYINT", pa.int8(), _spread(2**7 - 1)),
    "double": ("DOUBLE", pa.float64(), _DOUBLES),
    "float": ("FLOAT", pa.float32(), _FLOATS),
    "decimal": ("DECIMAL(12,2)", pa.decimal128(12, 2), _CENTS),
    "wide decimal": ("DECIMAL(38,0)", pa.decimal128(38, 0), _HUGE),
    "date": ("DATE", pa.date32(), _DATES),
    "timestamp": ("TIMESTAMP", pa.timestamp("us", "UTC"), _MOMENTS),
    "binary": ("BINARY", pa.binary(), _BYTES),
    "boolean": ("BOOLEAN", pa.bool_(), [True, False]),
}


def _order(value: Any) -> Any:
    """Return what a key is compared by: texts bytewise, -0.0 as 0.0."""
    return value.encode() if isinstance(value, str) else value + 0.0 if isinstance(value, float) else value


class Story:
    """A table with every odd key in two batches, some keys again and again, and the list of what is in it."""

    def __init__(self, warehouse: Warehouse, folder: Path, parts: list[str], strategy: dict[str, str]) -> None:
        kinds = [KEYS[part] for part in parts]
        self.names = [f"k{i}" for i in range(len(parts))]
        columns = ", ".join(f"{name} {kind[0]}" for name, kind in zip(self.names, kinds, strict=True))
        self.table: OpenTable = warehouse.create(
            "t", schema=f"id BIGINT, {columns}, ins BIGINT, exp BIGINT", key=self.names, inserted="ins", expires="exp",
            tick="1", span="6", **strategy,
        )  # fmt: skip
        self.kinds = [kind[1] for kind in kinds]
        self.records: list[tuple[int, tuple[Any, ...], int]] = []
        values = self._keys([kind[2] for kind in kinds])
        for slot in (1, 2, 3):
            batch = [
                (slot * 10_000 + 2 * place + copy, key, slot + 1 + (place + copy) % 5)
                for place, key in enumerate(values)
                for copy in range(1 + (place % 3 == 0))
            ]
            arrays = {
                "id": pa.array([r[0] for r in batch], pa.int64()),
                **{
                    name: pa.array([r[1][i] for r in batch], kind)
                    for i, (name, kind) in enumerate(zip(self.names, self.kinds, strict=True))
                },
                "ins": pa.array([slot] * len(batch), pa.int64()),
                "exp": pa.array([r[2] for r in batch], pa.int64()),
            }
            path = folder / f"{slot}.parquet"
            pq.write_table(pa.table(arrays), path)
            self.table.update(str(path), at=slot)
            self.records = [r for r in [*self.records, *batch] if r[2] > slot]
        self.keys = values

    @staticmethod
    def _keys(parts: list[list[Any]]) -> list[tuple[Any, ...]]:
        if len(parts) == 1:
            return [(value,) for value in parts[0]]
        # Neighbours on both sides: each part meets many of the other's.
        first, second = parts
        return [(first[i % len(first)], second[(i * 7 + i // len(first)) % len(second)]) for i in range(120)]

    def model(self, test: Callable[[tuple[Any, ...]], bool]) -> list[tuple[Any, ...]]:
        """Return id by key, then expiration, of the records whose key passes a test."""
        found = [r for r in self.records if test(tuple(_order(part) for part in r[1]))]
        return sorted((tuple(_order(part) for part in key), expires, id) for id, key, expires in found)

    def direct(self, *keys: Any, **ends: Any) -> list[tuple[Any, ...]]:
        """Return the same from a probe, and check that it came in order."""
        rows = self.table.probe(*keys, **ends).to_pylist()
        found = [(tuple(_order(row[name]) for name in self.names), row["exp"], row["id"]) for row in rows]
        assert [row[:2] for row in found] == sorted(row[:2] for row in found), "not in the order of key and expiration"
        return sorted(found)


def _same(key: tuple[Any, ...]) -> Callable[[tuple[Any, ...]], bool]:
    wanted = tuple(_order(part) for part in key)
    return lambda found: found[: len(wanted)] == wanted


def _between(low: tuple[Any, ...] | None, high: tuple[Any, ...] | None) -> Callable[[tuple[Any, ...]], bool]:
    first, last = (None if end is None else tuple(_order(part) for part in end) for end in (low, high))
    return lambda found: (first is None or found >= first) and (last is None or found <= last)


def _begins(start: str) -> Callable[[tuple[Any, ...]], bool]:
    return lambda found: bool(found[0].startswith(start.encode()))


STRATEGIES = {"retire": {"policy": "2x2", "strategy": "retire"}, "rebuild": {"grid": "2x3", "strategy": "rebuild"}}


@pytest.mark.parametrize(
    "parts",
    [
        *([kind] for kind in KEYS),
        ["string", "bigint"],
        ["bigint", "string"],
        ["binary", "date"],
        ["decimal", "double"],
        ["boolean", "timestamp"],
        ["string", "string"],
    ],
    ids="+".join,
)
def test_the_model_spark_and_the_direct_path_agree_on_every_odd_key(
    parts: list[str], warehouse: Warehouse, tmp_path: Path, spark: Any
) -> None:
    strategy = STRATEGIES["rebuild" if len(parts) > 1 else "retire"]
    story = Story(warehouse, tmp_path, parts, strategy)
    warehouse.register(spark)
    # All of Spark's answers in one query: key by key would take a second each.
    asked = spark.createDataFrame(
        pa.table(
            {
                "n": pa.array(range(len(story.keys)), pa.int64()),
                **{f"a{i}": pa.array([key[i] for key in story.keys], kind) for i, kind in enumerate(story.kinds)},
            }
        )
    )
    view = spark.table("t")
    same = [view[name] == asked[f"a{i}"] for i, name in enumerate(story.names)]
    joined = asked.join(view, on=same).groupBy("n").agg(F.sort_array(F.collect_list("id")).alias("ids"))
    by_spark = {row["n"]: row["ids"] for row in joined.collect()}

    for number, key in enumerate(story.keys):
        expected = story.model(_same(key))
        assert story.direct(key) == expected, key
        assert by_spark.get(number, []) == sorted(id for _, _, id in expected), key
    assert story.direct(*story.keys) == story.model(lambda _: True), "all keys at once"
    assert story.direct(*story.keys[::3]) == story.model(
        lambda found: any(_same(key)(found) for key in story.keys[::3])
    )


@pytest.mark.parametrize("parts", [[kind] for kind in KEYS] + [["string", "bigint"], ["binary", "date"]], ids="+".join)
def test_ranges_leading_parts_and_prefixes_are_those_of_the_model(
    parts: list[str], warehouse: Warehouse, tmp_path: Path
) -> None:
    story = Story(warehouse, tmp_path, parts, STRATEGIES["retire"])
    ordered = sorted(story.keys, key=lambda key: tuple(_order(part) for part in key))
    picks = [ordered[0], ordered[len(ordered) // 4], ordered[len(ordered) // 2], ordered[-1]]

    for low in [None, *picks]:
        for high in [None, *picks]:
            if low is None and high is None:
                continue
            assert story.direct(low=low, high=high) == story.model(_between(low, high)), (low, high)
    if len(parts) > 1:
        for key in picks:
            assert story.direct(key[:1]) == story.model(_same(key[:1]))
    if parts == ["string"]:
        for prefix in ["a", "", "a\x01", "\U0001f600", "zz", "é", "nope"]:
            assert story.direct(prefix=prefix) == story.model(_begins(prefix)), prefix
