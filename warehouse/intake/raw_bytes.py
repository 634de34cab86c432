"""Bytes that are not UTF-8, on their way through a reader that takes nothing else.

Arrow's reader of CSV hands out the text of a record that has too few or too many fields, and gives the whole file up if that
is not UTF-8. So such a byte travels as a character, one of the last that Unicode has, and is itself again behind the
reader. These characters travel as their bytes do, so that none is taken for a byte.
"""

from __future__ import annotations

import codecs
import re
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["Utf8Stream", "uncovered", "uncovered_batch"]

_BYTES = 0x10FF00  # the character of byte 0; those of bytes below 128 are never used
_CHARACTERS = re.compile("[\U0010ff80-\U0010ffff]")
_STARTS = (b"\xf4\x8f\xbe", b"\xf4\x8f\xbf")  # of these characters in UTF-8
_NO_TEXT = re.compile("[\udc80-\udcff]")  # what Python makes of bytes that are not UTF-8


class Utf8Stream:
    """A text that counts its quotes while it is read; ``is_utf8``: bytes that are not what they should be travel covered."""

    def __init__(self, raw: IO[bytes], *, is_utf8: bool) -> None:
        self._raw, self._is_utf8 = raw, is_utf8
        self._left = b""  # the first bytes of a character
        self._ready = b""
        self.quotes = 0
        self.is_covering = False  # whether there was any such byte
        self.closed = False

    def close(self) -> None:
        """Close it."""
        self._raw.close()

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Read some bytes."""
        while not self._ready:
            data = self._raw.read(size)
            self.quotes += data.count(b'"')
            if not self._is_utf8 or (not self._left and data.isascii()):
                return data
            self._ready = self._covered(self._left + data, is_last=not data)
            if not data:
                break
        # Never more than was asked for: there is no room for it.
        ready, self._ready = self._ready, b""
        if 0 <= size < len(ready):
            ready, self._ready = ready[:size], ready[size:]
        return ready

    def _covered(self, data: bytes, *, is_last: bool) -> bytes:
        try:
            _, end = codecs.utf_8_decode(data, "strict", is_last)
            self._left, data = data[end:], data[:end]
            if not any(start in data for start in _STARTS):
                return data
            text = data.decode()
        except UnicodeDecodeError:
            text, end = codecs.utf_8_decode(data, "surrogateescape", is_last)
            self._left = data[end:]
        self.is_covering = True
        text = _CHARACTERS.sub(lambda found: "".join(chr(_BYTES + byte) for byte in found[0].encode()), text)
        return _NO_TEXT.sub(lambda found: chr(ord(found[0]) - 0xDC00 + _BYTES), text).encode()


def uncovered(value: bytes) -> bytes:
    """Return a text as it was."""
    text = _CHARACTERS.sub(lambda found: chr(ord(found[0]) - _BYTES + 0xDC00), value.decode())
    return text.encode(errors="surrogateescape")


def uncovered_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return texts as they were."""
    for place, column in enumerate(batch.columns):
        if any(pc.any(pc.match_substring(column, start)).as_py() for start in _STARTS):
            texts = [None if value is None else uncovered(value) for value in column.to_pylist()]
            batch = batch.set_column(place, batch.schema.field(place), pa.array(texts, pa.binary()))
    return batch
