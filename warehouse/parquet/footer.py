"""Footers of data files: found at the end of a file, hashed for its name, and made.

Two kinds are made. Chunks, or some of their pages, that are laid one after the other in memory, whatever file they come from,
get a footer that lets Arrow read them as one file: to open a file costs Arrow more than to read a short run of one key from
it, and a window has many files. And row groups that are put together to a new file get that file's footer, in which
everything but their places is as it was.
"""

from __future__ import annotations

import hashlib
import itertools
import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ebb.index.errors import CorruptionError
from ebb.warehouse.parquet.thrift import MAGIC, STRUCT, ChunkEntry, Footer, ParquetColumn, list_header, varint, zigzag
from ebb.warehouse.store.errors import RESTORE
from ebb.warehouse.store.files import read_at, size_of

__all__ = ["CONTENTS", "PlacedChunk", "damaged", "file_footer", "footer_bytes", "footer_hash", "footer_of"]

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


class PlacedChunk(NamedTuple):
    """Pages of a column chunk, and where they lie in memory: the dictionary first, if there is one."""

    at: int
    size_bytes: int
    dictionary_bytes: int
    values: int
    codec: int


def footer_of(columns: Sequence[ParquetColumn], row_groups: Sequence[tuple[int, Sequence[PlacedChunk]]]) -> bytes:
    """Return the footer, with its length and magic, that lets Arrow read chunks in memory as those of one file.

    Of each row group the number of records and, for all leaves of the columns, the chunks as they lie there.
    """
    heads = tuple(b"\x26\x00\x1c%b\x15" % head for column in columns for head in column.heads)
    body = [
        b"\x15\x04\x19",
        list_header(STRUCT, 1 + sum(column.elements for column in columns)),
        b"\x48\x06schema\x15%b\x00" % zigzag(len(columns)),
        *(column.schema for column in columns),
        b"\x16%b\x19" % zigzag(sum(records for records, _ in row_groups)),
        list_header(STRUCT, len(row_groups)),
    ]
    for dictionaries, same in itertools.groupby(
        row_groups, lambda group: tuple(bool(c.dictionary_bytes) for c in group[1])
    ):
        body.append(_filled(*_row_group_form(heads, dictionaries), [_numbers(*group) for group in same]))
    body.append(b"\x00")
    footer = b"".join(body)
    return footer + len(footer).to_bytes(4, "little") + MAGIC


def _numbers(records: int, chunks: Sequence[PlacedChunk]) -> list[int]:
    """Return the numbers of a row group in the order in which its form has room for them."""
    numbers: list[int] = []
    total = 0
    for at, size_bytes, dictionary_bytes, values, codec in chunks:
        numbers += (codec, values, size_bytes, size_bytes, at + dictionary_bytes)
        if dictionary_bytes:
            numbers.append(at)
        total += size_bytes
    numbers += (total, records)
    return numbers


_VARINT_BYTES = 9  # of numbers that are written all at once, of which the last bytes may be empty


@lru_cache(maxsize=256)
def _row_group_form(heads: tuple[bytes, ...], dictionaries: tuple[bool, ...]) -> tuple[bytes, Any]:
    """Return a row group with room for its numbers, and where that is."""
    room = bytes(_VARINT_BYTES)
    form, places = bytearray(b"\x19" + list_header(STRUCT, len(heads))), []

    def write(*parts: bytes) -> None:
        for part in parts:
            if part is room:
                places.append(len(form))
            form.extend(part)

    for head, has_dictionary in zip(heads, dictionaries, strict=True):
        write(head, room, b"\x16", room, b"\x16", room, b"\x16", room, b"\x26", room)
        write(*((b"\x26", room) if has_dictionary else ()), b"\x00\x00")
    write(b"\x16", room, b"\x16", room, b"\x00")
    return bytes(form), np.array(places)[:, None] + np.arange(_VARINT_BYTES)


def _filled(form: bytes, places: Any, numbers: Sequence[Sequence[int]]) -> bytes:
    """Return a form once for each sequence of numbers, with them in their places."""
    doubled = np.array(numbers, np.uint64) << np.uint64(1)  # none is negative
    groups = doubled[:, :, None] >> np.arange(0, 7 * _VARINT_BYTES, 7, dtype=np.uint64) & np.uint64(0x7F)
    groups[:, :, :-1] |= np.uint64(0x80)
    filled = np.tile(np.frombuffer(form, np.uint8), (len(numbers), 1))
    filled[:, places] = groups
    return filled.tobytes()


def file_footer(
    like: Footer, row_groups: Sequence[tuple[int, Sequence[tuple[int, int, ChunkEntry]]]], metadata: Mapping[str, str]
) -> bytes:
    """Return the footer, with its length and magic, of a file with the columns of another one.

    Of each row group the number of records and the chunks: where they are now, where their Bloom filters are, and what
    a footer said of them.
    """
    body = [
        b"\x15\x04\x19",
        like.schema,
        b"\x16%b\x19" % zigzag(sum(records for records, _ in row_groups)),
        list_header(STRUCT, len(row_groups)),
    ]
    for number, (records, chunks) in enumerate(row_groups):
        body += (b"\x19", list_header(STRUCT, len(chunks)))
        raw_bytes = size_bytes = 0
        for at, filter_at, entry in chunks:
            places = [at + entry.data_at - entry.start]
            if entry.has_dictionary:
                places.append(at)
            if entry.filter_at:
                places.append(filter_at)
            body += (b"\x26\x00\x1c", entry.parts[0])
            for place, part in zip(places, entry.parts[1:], strict=True):
                body += (zigzag(place), part)
            body.append(b"\x00")
            raw_bytes += entry.raw_bytes
            size_bytes += entry.size_bytes
        first = chunks[0][0] if chunks else 0
        numbers = (raw_bytes, records, first, size_bytes)
        body.append(b"\x16%b\x16%b\x26%b\x16%b\x14%b\x00" % (*map(zigzag, numbers), zigzag(min(number, 0x7FFF))))
    body += (b"\x19", list_header(STRUCT, len(metadata)))
    for name, text in metadata.items():
        body.append(b"\x18%b%b\x18%b%b\x00" % (varint(len(name)), name.encode(), varint(len(text)), text.encode()))
    body += (b"\x18", varint(len(like.created_by)), like.created_by, b"\x19", like.column_orders, b"\x00")
    written = b"".join(body)
    return written + len(written).to_bytes(4, "little") + MAGIC
