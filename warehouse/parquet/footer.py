"""The end of a data file: its footer as bytes, the hash that the file's name carries, and where its contents are."""

from __future__ import annotations

import hashlib
import struct

from ebb.index.errors import CorruptionError
from ebb.warehouse.parquet.thrift import MAGIC
from ebb.warehouse.store.errors import RESTORE
from ebb.warehouse.store.files import read_at, size_of

__all__ = ["CONTENTS", "damaged", "footer_bytes", "footer_hash"]

CONTENTS = "ebb.contents"  # in a footer: place, length and checksum of the file's contents
_TAIL_BYTES = 128 * 1024  # most footers are shorter


def footer_hash(footer: bytes) -> str:
    """Return the hash of a footer that the name of its file carries."""
    return hashlib.blake2b(footer, digest_size=8).hexdigest()


def damaged(what: str) -> CorruptionError:
    """Return the error for a data file that is not the one written: ``what`` names it and says why."""
    return CorruptionError("a data file is damaged", what, RESTORE)


def footer_bytes(opened: int, path: str, size_bytes: int | None = None) -> bytes:
    """Return the footer of a file, with its length and magic; checks the file's size if one is given."""
    size = size_of(opened)
    if size_bytes is not None and size != size_bytes:
        raise damaged(f"{path} has {size:,} bytes, and the log says {size_bytes:,}")
    tail = read_at(opened, _TAIL_BYTES, max(0, size - _TAIL_BYTES))
    length = struct.unpack("<I", tail[-8:-4])[0] + 8 if len(tail) >= 12 and tail[-4:] == MAGIC else 0
    if not 8 < length <= size - 4:
        raise damaged(f"{path} does not end as a Parquet file")
    return tail[-length:] if length <= len(tail) else read_at(opened, length, size - length)
