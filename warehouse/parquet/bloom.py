"""Parquet's split-block Bloom filters, read only: whether a row group may hold a value.

Arrow writes them and does not read them. The layout and the hash (XXH64 with seed 0 over a value's plain encoding)
are those of the Parquet format, so other engines use the same filters. Pure.
"""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa

__all__ = ["has_plain_bytes", "may_hold", "plain_bytes", "xxh64"]

_MASK = 2**64 - 1
_P1, _P2, _P3, _P4, _P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_SALT = (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31)
_BLOCK_BYTES = 32


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> (64 - by)) & _MASK


def _round(lane: int, word: int) -> int:
    return _rotated((lane + word * _P2) & _MASK, 31) * _P1 & _MASK


def xxh64(data: bytes) -> int:
    """Return the 64-bit xxHash of some bytes.

    >>> hex(xxh64(b"abc"))
    '0x44bc2cf5ad770999'
    """
    size, at = len(data), 0
    if size >= 32:
        lanes = [(_P1 + _P2) & _MASK, _P2, 0, -_P1 & _MASK]
        while at <= size - 32:
            lanes = [_round(lane, word) for lane, word in zip(lanes, struct.unpack_from("<4Q", data, at), strict=True)]
            at += 32
        digest = sum(_rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            digest = ((digest ^ _round(0, lane)) * _P1 + _P4) & _MASK
    else:
        digest = _P5
    digest = (digest + size) & _MASK
    while at <= size - 8:
        digest = (_rotated(digest ^ _round(0, struct.unpack_from("<Q", data, at)[0]), 27) * _P1 + _P4) & _MASK
        at += 8
    if at <= size - 4:
        digest = (_rotated(digest ^ (struct.unpack_from("<I", data, at)[0] * _P1 & _MASK), 23) * _P2 + _P3) & _MASK
        at += 4
    for byte in data[at:]:
        digest = _rotated(digest ^ (byte * _P5 & _MASK), 11) * _P1 & _MASK
    digest = (digest ^ digest >> 33) * _P2 & _MASK
    digest = (digest ^ digest >> 29) * _P3 & _MASK
    return digest ^ digest >> 32


def has_plain_bytes(kind: pa.DataType) -> bool:
    """Whether equal values of a type have equal bytes in a file, so that filters can be asked for them."""
    tests = (pa.types.is_integer, pa.types.is_string, pa.types.is_binary, pa.types.is_date32, pa.types.is_timestamp)
    return any(test(kind) for test in tests)


def plain_bytes(value: Any, kind: pa.DataType) -> bytes:
    """Return a value as Parquet writes it plainly, which is what filters hash."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    number = value if isinstance(value, int) else pa.scalar(value, kind).value
    return struct.pack("<q" if kind.bit_width == 64 else "<i", number)


def may_hold(filter: bytes | memoryview, hashed: int) -> bool:
    """Whether a filter, with or without its header, may hold the value with this hash; False is certain."""
    blocks = len(filter) // _BLOCK_BYTES
    header = len(filter) - blocks * _BLOCK_BYTES
    words = struct.unpack_from("<8I", filter, header + ((hashed >> 32) * blocks >> 32) * _BLOCK_BYTES)
    low = hashed & 0xFFFFFFFF
    return all(word >> ((low * salt & 0xFFFFFFFF) >> 27) & 1 for word, salt in zip(words, _SALT, strict=True))
