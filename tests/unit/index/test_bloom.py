"""Bloom filters: the hash against published values, the filters against those that Arrow writes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ebb.warehouse.parquet.bloom import may_hold, xxh64

PATTERN = bytes((197 * i + 91) % 256 for i in range(100))
# XXH64 with seed 0 of the first 0, 1, ... 100 bytes of the pattern, by the reference implementation (libxxhash 0.8.1).
REFERENCE = """
    ef46db3751d8e999 4b9e065d01804ab5 39cfeb514a8a848b b60f56b54e3e4514 e907a54f2aaccb53 1aff1da41d2af40b
    873a0578ed055ae8 0fb64a73abd044c0 d450cdc3299ce5c8 1e8c06883909e709 cadb4df11bb183e4 b69bbf9f765e0ee0
    d5529e7a438c9d63 9009e2f81f579380 515ec291b406c6d2 4e44107cc6af0c68 95f77c3084e239eb 921f75dd48428375
    88c7dc0c50ba4598 68857666dd8c9d90 b44298f68feb2c92 45648eefb248de8c 62bf85eb6de06a2a 641f9d196a76476f
    d1073c6399aa7023 a962706ec510f6b2 a0f004beab36c02a e6990f17a8061200 769362a3f6940210 5b8050c08591274c
    94abff3a7b90bb5b dd4eb12bc9748660 1aed357796e8cb82 c21bdfcab998e2c2 88769e318ced3b68 5fc1808c94c98fb5
    41c138f8d4562c70 bc5ff2aca31268d7 9c2e857e0adf9d17 20d71fe551dba7c9 617252e200388375 da159e4f16e8b0c5
    b1e546d618038549 8bef9ba2e6ba3ce6 c5956c92320430d5 423c71bc5eed35e1 eafc29e1bb584aa1 7ff990165ecca999
    f59bdd0e30eaddbc c97b65649d540cf8 ca48333c15be7455 90e0fdd147f80c11 7b4cebea4a3b3c1e a284d26b991f0b03
    e3021b9e81766425 607d7d1c73444a3f 60ccdf44df43a8ae fcec74be464bc27d 336542fbdeec2c50 808f10828f97b422
    390ce67e14854ac8 df1f06ee3a12c3a3 a8ea32be63325f23 0ceae58bbd874106 1c58b569317e9838 9211fca92f794c45
    3592dd6eb8934213 3611dcc62a9e3a76 a84530c1e47ff1a3 633ae324095326f8 3058177150a31fd9 553986804a135b57
    5b01b14493681924 402bf24a7c49dd67 9ab2b033019c636c a8e76d11bd6dc294 817bf4947a0b865e a39a8fb8d9a581b3
    abb1dbcbbfbc7406 57bbd31ec9789149 4730cfca14bec668 3d9f658752485e2d a28dd9dde7c33e2b 21e98fb54ccac38e
    fd6360838d4123a9 e12fa5911e85eb87 3692ad7e5f007da7 840ca5d39a7d4fe1 7d623681ebe36c08 3490056d1b2ab0e0
    ec74872fded1f526 0eef86ec48c578bb e6583f3037bfe294 bd9428bede955cd8 4e22354a5472f2a3 86ae0aa831f276c8
    db4b9c6fbc0d72c7 a75f523c4f0a6c08 6d6f9e8fd6518317 0fc984318bb94206 665ea83e321ce122
"""


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"a", 0xD24EC4F1A98C6E5B),
        (b"abc", 0x44BC2CF5AD770999),
        (b"\x00" * 8, 0x34C96ACDCADB1BBB),
        (b"0123456789abcdef" * 2, 0x642A94958E71E6C5),
        (b"\xff" * 33, 0xF4291792CF8FDB43),
        (b"The quick brown fox jumps over the lazy dog", 0x0B242D361FDA71BC),
        (bytes(range(256)) * 5, 0xAFC184AD7938A354),
    ],
    ids=["empty", "a", "abc", "one word", "one block", "all bits", "text", "many blocks"],
)
def test_known_hashes(data: bytes, expected: int) -> None:
    assert xxh64(data) == expected


def test_the_hash_of_any_length_is_that_of_the_reference() -> None:
    assert [f"{xxh64(PATTERN[:size]):016x}" for size in range(101)] == REFERENCE.split()


def int32(value: Any) -> bytes:
    return struct.pack("<i", value)


def int64(value: Any) -> bytes:
    return struct.pack("<q", value)


def as_is(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def filters_of(path: Path) -> list[bytes]:
    """Return the bits of the filter of each row group's only column."""
    footer, data = pq.ParquetFile(path).metadata, path.read_bytes()
    columns = [footer.row_group(group).column(0) for group in range(footer.num_row_groups)]
    found = [data[c.bloom_filter_offset : c.bloom_filter_offset + c.bloom_filter_length] for c in columns]
    return [filter[-(len(filter) // 32 * 32) :] for filter in found]


def written(path: Path, values: list[Any], kind: pa.DataType, *, group_size: int | None = None) -> list[bytes]:
    size = group_size or len(values)
    options = {"k": {"ndv": size, "fpp": 0.01}}
    pq.write_table(pa.table({"k": pa.array(values, kind)}), path, row_group_size=size, bloom_filter_options=options)
    return filters_of(path)


SEED = 20240301
LIMITS = {32: [-(2**31), -1, 0, 1, 2**31 - 1], 64: [-(2**63), -(2**31) - 1, -1, 0, 1, 2**32, 2**63 - 1]}


def numbers(bits: int) -> list[Any]:
    random = Random(SEED)
    drawn = (random.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1)) for _ in range(4000))
    return list(dict.fromkeys(LIMITS[bits] + list(drawn)))


def binaries() -> list[Any]:
    random = Random(SEED)
    return list(dict.fromkeys([b"", b"\x00", b"\xff", *(random.randbytes(n % 81) for n in range(1, 4000))]))


def texts() -> list[Any]:
    random = Random(SEED)
    ascii_only = ("".join(random.choices("abcdefgh \x00", k=n % 81)) for n in range(3000))
    wide = ("".join(random.choices("aé€\U0001f600", k=n % 27)) for n in range(1000))
    return list(dict.fromkeys(["", *ascii_only, *wide]))


KINDS: list[tuple[pa.DataType, Callable[[Any], bytes], list[Any]]] = [
    (pa.int32(), int32, numbers(32)),
    (pa.int64(), int64, numbers(64)),
    (pa.date32(), int32, numbers(32)),
    (pa.timestamp("us", "UTC"), int64, numbers(64)),
    (pa.string(), as_is, texts()),
    (pa.binary(), as_is, binaries()),
]


@pytest.mark.parametrize(("kind", "plain", "values"), KINDS, ids=[str(kind) for kind, *_ in KINDS])
def test_a_filter_of_arrow_holds_what_was_written_and_little_else(
    kind: pa.DataType, plain: Callable[[Any], bytes], values: list[Any], tmp_path: Path
) -> None:
    present, absent = values[::2], values[1::2]
    (bits,) = written(tmp_path / "a.parquet", present, kind)
    strangers = [value for value in absent if may_hold(bits, xxh64(plain(value)))]

    assert [value for value in present if not may_hold(bits, xxh64(plain(value)))] == []
    assert len(strangers) / len(absent) < 0.03


@pytest.mark.parametrize("size", [1, 2, 20, 40, 300, 5000])
def test_filters_of_any_size_are_read(size: int, tmp_path: Path) -> None:
    (bits,) = written(tmp_path / "a.parquet", list(range(size)), pa.int64())
    strangers = [n for n in range(-2000, 0) if may_hold(bits, xxh64(int64(n)))]

    assert all(may_hold(bits, xxh64(int64(n))) for n in range(size))
    assert len(strangers) < 0.03 * 2000


def test_the_sizes_of_filters_above_reach_from_one_block_to_many(tmp_path: Path) -> None:
    blocks = [len(written(tmp_path / "a.parquet", list(range(size)), pa.int64())[0]) // 32 for size in (1, 40, 5000)]

    assert blocks[0] == 1
    assert blocks[0] < blocks[1] < blocks[2]
    assert blocks[2] >= 128


def test_each_row_group_has_a_filter_of_its_own(tmp_path: Path) -> None:
    filters = written(tmp_path / "a.parquet", list(range(900)), pa.int64(), group_size=300)
    owners = {n: {place for place, bits in enumerate(filters) if may_hold(bits, xxh64(int64(n)))} for n in range(900)}

    assert len(filters) == 3
    assert all(n // 300 in places for n, places in owners.items())
    assert sum(len(places) - 1 for places in owners.values()) < 0.03 * 1800


HASHES = [xxh64(PATTERN[:size]) for size in range(101)] + [0, 2**32 - 1, 2**32, 2**63, 2**64 - 1]


@pytest.mark.parametrize("blocks", [1, 2, 3, 64])
def test_an_empty_filter_holds_nothing_and_a_full_one_all(blocks: int) -> None:
    assert not any(may_hold(b"\x00" * 32 * blocks, hashed) for hashed in HASHES)
    assert all(may_hold(b"\xff" * 32 * blocks, hashed) for hashed in HASHES)


@pytest.mark.parametrize("hashed", HASHES[:20])
def test_every_one_of_the_eight_bits_of_a_value_counts(hashed: int) -> None:
    """Of 256 bits exactly eight, one in each word, decide; without any of them the value is certainly not there."""
    full = (1 << 256) - 1
    deciding = [bit for bit in range(256) if not may_hold((full ^ 1 << bit).to_bytes(32, "little"), hashed)]
    exact = sum(1 << bit for bit in deciding)

    assert [bit // 32 for bit in deciding] == list(range(8))
    assert may_hold(exact.to_bytes(32, "little"), hashed)


def test_the_upper_half_of_a_hash_chooses_the_block_evenly() -> None:
    blocks = 3
    chosen = []
    for upper in (0, 2**32 // 3, 2**32 // 3 + 1, 2 * 2**32 // 3, 2 * 2**32 // 3 + 1, 2**32 - 1):
        with_hole = [b"\xff" * 32 * n + b"\x00" * 32 + b"\xff" * 32 * (blocks - 1 - n) for n in range(blocks)]
        chosen += [n for n in range(blocks) if not may_hold(with_hole[n], upper << 32)]

    assert chosen == [0, 0, 1, 1, 2, 2]
