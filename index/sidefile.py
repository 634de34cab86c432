"""The bytes of a side file: what the directory knows of one data file.

It never changes, because the data file never does: it can be kept beside the file, and is told apart from damage and
from another file's by a checksum and a name. Pure.
"""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Sequence

from ebb.index.directory import Block, Filter

__all__ = ["dump_blocks", "load_blocks"]

_MAGIC = b"EBBKEYS1"


_OPEN = 2**32 - 1  # the length of a stop that is open


def dump_blocks(name: str, blocks: Sequence[Block]) -> bytes:
    """Write what is known of the file with this name.  Requires all of its row groups, from 0 on."""
    filters = list(zip(*(block.filters for block in blocks), strict=True)) if blocks else []
    count, text = len(blocks), name.encode()
    stops = [block.stop for block in blocks]
    body = [
        struct.pack("<III", count, len(filters), len(text)),
        text,
        struct.pack(f"<{count}I", *(block.records for block in blocks)),
        struct.pack(f"<{count}Q", *(block.size_bytes for block in blocks)),
        *(struct.pack(f"<{count}Q", *(f.offset for f in column)) for column in filters),
        *(struct.pack(f"<{count}I", *(f.length for f in column)) for column in filters),
        *(struct.pack(f"<{count}I", *(f.checksum for f in column)) for column in filters),
        struct.pack(f"<{count}I", *(len(block.start) for block in blocks)),
        struct.pack(f"<{count}I", *(_OPEN if stop is None else len(stop) for stop in stops)),
        *(block.start for block in blocks),
        *(stop or b"" for stop in stops),
    ]
    content = b"".join(body)
    return _MAGIC + struct.pack("<I", zlib.crc32(content)) + content


def load_blocks(name: str, path: str, data: bytes) -> tuple[Block, ...] | None:
    """Read what :func:`dump_blocks` wrote of a file; None if it is damaged, of another version or of another file."""
    if data[:8] != _MAGIC or len(data) < 24 or struct.unpack_from("<I", data, 8)[0] != zlib.crc32(data[12:]):
        return None
    count, columns, length = struct.unpack_from("<III", data, 12)
    at = 24 + length
    if data[24:at] != name.encode():
        return None

    def numbers(kind: str) -> tuple[int, ...]:
        nonlocal at
        values = struct.unpack_from(f"<{count}{kind}", data, at)
        at += struct.calcsize(f"<{count}{kind}")
        return values

    records, sizes = numbers("I"), numbers("Q")
    offsets = [numbers("Q") for _ in range(columns)]
    lengths = [numbers("I") for _ in range(columns)]
    checksums = [numbers("I") for _ in range(columns)]
    start_lengths, stop_lengths = numbers("I"), numbers("I")

    def texts(sizes: Sequence[int]) -> list[bytes]:
        nonlocal at
        ends = list(itertools.accumulate(sizes, initial=at))
        at = ends[-1]
        return [data[low:high] for low, high in itertools.pairwise(ends)]

    starts = texts(start_lengths)
    stops = texts([0 if size == _OPEN else size for size in stop_lengths])
    filters = [
        tuple(map(Filter, of_offset, of_length, of_checksum))
        for of_offset, of_length, of_checksum in zip(offsets, lengths, checksums, strict=True)
    ]
    per_block = list(zip(*filters, strict=True)) if filters else [()] * count
    return tuple(
        Block(path, row_group, start, None if size == _OPEN else stop, of_records, of_bytes, of_filters)
        for row_group, (start, stop, size, of_records, of_bytes, of_filters) in enumerate(
            zip(starts, stops, stop_lengths, records, sizes, per_block, strict=True)
        )
    )
