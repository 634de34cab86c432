"""Values that are read back from disk, where anybody may have put others: of the type that was written, of a size that can be.

Whatever is something else is a ValueError, so that who reads it can say that the file is damaged. Pure.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["items", "members", "number", "number_or_none", "parsed", "text", "unpacked"]

_LEAST, _GREATEST = -(2**63), 2**63 - 1


def number(value: object) -> int:
    """Return an integer of 64 bits.

    >>> number(7)
    7
    """
    if not isinstance(value, int) or isinstance(value, bool) or not _LEAST <= value <= _GREATEST:
        raise _other("an integer", value)
    return value


def number_or_none(value: object) -> int | None:
    """Return an integer, or nothing."""
    return None if value is None else number(value)


def text(value: object) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise _other("a text", value)
    return value


def items(value: object) -> Sequence[Any]:
    """Return a list."""
    if not isinstance(value, list):
        raise _other("a list", value)
    return value


def members(value: object) -> Mapping[str, Any]:
    """Return an object of JSON."""
    if not isinstance(value, dict):
        raise _other("an object", value)
    return value


def _other(wanted: str, value: object) -> ValueError:
    return ValueError(f"{type(value).__name__} stands where {wanted} should be")


def parsed(data: str | bytes) -> Any:
    """Return what JSON says.

    >>> parsed('{"a": 1}')
    {'a': 1}
    """
    try:
        return json.loads(data)
    except RecursionError as error:
        msg = "it is nested too deeply"
        raise ValueError(msg) from error


def unpacked(data: bytes, most_bytes: int) -> bytes:
    """Return what zlib has packed, without taking more memory than ``most_bytes``: a few bytes may say gigabytes.

    >>> unpacked(zlib.compress(b"a" * 9), 9)
    b'aaaaaaaaa'
    """
    packer = zlib.decompressobj()
    try:
        raw = packer.decompress(data, most_bytes + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if len(raw) > most_bytes:
        msg = f"it has more than {most_bytes:,} bytes when it is unpacked"
        raise ValueError(msg)
    if not packer.eof:
        msg = "it was cut off"
        raise ValueError(msg)
    return raw
