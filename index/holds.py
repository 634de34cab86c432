"""Holds: which records a case keeps on disk although they expire.  Pure.

A hold is about keys, a condition, or all records; of those that were in the table's window when it was made and, if it says
so, of those that arrive later. What a case holds stays the same whatever other cases do.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ebb.index.keys import Interval, Key, Wanted, code, successor, wanted_keys

__all__ = ["Hold"]

_MAGIC = b"EBBHOLD1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """What one case holds."""

    case: str
    by: str
    slot: int  # the clock when it was made
    arrivals: bool  # whether it also holds what arrives after that
    keys: tuple[str, ...] = ()  # codes of keys or of their leading parts, in hexadecimal
    where: str | None = None  # without both, it holds everything

    @staticmethod
    def codes(keys: Sequence[Key]) -> tuple[str, ...]:
        """Return the codes of keys; what another leads is left out.

        >>> Hold.codes([("b",), ("a", 1), ("a",)])
        ('610001', '620001')
        """
        return tuple(code(key).hex() for key in wanted_keys(keys).keys)

    @property
    def wanted(self) -> Wanted | None:
        """Return the keys as a probe asks for them; None if it is not about keys."""
        if not self.keys:
            return None
        starts = map(bytes.fromhex, self.keys)
        return Wanted(tuple(Interval(start, successor(start)) for start in starts))

    def is_same(self, other: Hold) -> bool:
        """Whether another request asks for the same, whoever asks and whenever."""
        asked = ("case", "arrivals", "keys", "where")
        return all(getattr(self, name) == getattr(other, name) for name in asked)

    def dumps(self) -> bytes:
        """Write it as an object."""
        value: Mapping[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        body = zlib.compress(json.dumps(value, separators=(",", ":")).encode())
        return _MAGIC + struct.pack("<I", zlib.crc32(body)) + body

    @staticmethod
    def loads(data: bytes) -> Hold:
        """Read what :meth:`dumps` wrote; ValueError if it is damaged.

        >>> hold = Hold(case="c-1", by="ann", slot=7, arrivals=True, keys=("610001",))
        >>> Hold.loads(hold.dumps()) == hold
        True
        """
        if data[:8] != _MAGIC or len(data) < 12 or struct.unpack_from("<I", data, 8)[0] != zlib.crc32(data[12:]):
            msg = "its checksum is wrong"
            raise ValueError(msg)
        value = json.loads(zlib.decompress(data[12:]))
        return Hold(**{**value, "keys": tuple(value["keys"])})
