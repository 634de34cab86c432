"""Reading data files that may be damaged: a file is read as it was written, or not at all.

The log vouches for a file's size and, through the name, for a hash of its footer, which is checked before anything
is parsed: parsing a damaged footer may give wrong answers or end the process. The footer says where column chunks and
Bloom filters are, and has a checksum of each. Those of pages, which other engines verify, leave out the headers of the
pages: a damaged one can give fewer records, or other numbers. A symbolic link on the way to a file is refused.
"""

from __future__ import annotations

import bisect
import hashlib
import os
import re
import struct
import zlib
from collections.abc import Iterator, KeysView, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from index.cellfile import CellFile
from index.errors import CorruptionError

__all__ = ["DataFile", "leaves", "read_bytes", "refuse_links", "room_for_sums", "seal_file"]

_MAGIC = b"PAR1"
_TAIL_BYTES = 128 * 1024  # most footers are shorter
_NAMED = re.compile(r"-([0-9a-f]{16})\.parquet$")
_RESTORE = "restore it from a backup"
_SUMS = (
    b"ebb.checksums"  # in the footer: of each row group the CRC-32 of every column chunk, then of every Bloom filter
)
_DIGITS = 8  # of one of them


def leaves(kind: pa.DataType) -> int:
    """Return how many columns Parquet makes of one of this type."""
    return sum(leaves(kind.field(i).type) for i in range(kind.num_fields)) if kind.num_fields else 1


def room_for_sums(count: int) -> dict[bytes, bytes]:
    """Return what a footer needs for so many checksums to be written into it by :func:`seal_file`."""
    return {_SUMS: b"0" * _DIGITS * count}


def seal_file(table: str, path: str) -> str:
    """Write the checksums of a new file into its footer and return the footer's hash, which its name has to carry."""
    with open(f"{table}/{path}", "r+b", buffering=0) as opened:
        file = opened.fileno()
        footer, size = _footer(file, path), os.fstat(file).st_size
        parsed = pq.read_metadata(pa.BufferReader(footer))
        parts = [part for group in range(parsed.num_row_groups) for part in _parts(parsed.row_group(group))]
        sums = b"".join(b"%08x" % zlib.crc32(os.pread(file, length, offset)) for offset, length in parts)
        if parsed.metadata != room_for_sums(len(parts)):
            msg = f"{path} has no room for the checksums of its {len(parts)} parts"
            raise ValueError(msg)
        at = footer.rindex(b"0" * len(sums))  # the last place: the length before them may be a 0 as well
        os.pwrite(file, sums, size - len(footer) + at)
        return _hash(footer[:at] + sums + footer[at + len(sums) :])


def _parts(facts: Any) -> list[tuple[int, int]]:
    """Return offset and length of the column chunks of a row group, then of its Bloom filters."""
    columns = [facts.column(i) for i in range(facts.num_columns)]
    filters = [(c.bloom_filter_offset, c.bloom_filter_length) for c in columns if c.bloom_filter_offset]
    return [(_start(column), column.total_compressed_size) for column in columns] + filters


def _start(column: Any) -> int:
    """Return where the first page of a column chunk is."""
    return int(column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset)


def _hash(footer: bytes) -> str:
    return hashlib.blake2b(footer, digest_size=8).hexdigest()


def refuse_links(table: str, path: str) -> None:
    """Refuse a file to which a symbolic link leads: it may lead out of the table."""
    parts = path.split("/")
    for end in range(1, len(parts) + 1):
        place = "/".join(parts[:end])
        if os.path.islink(f"{table}/{place}"):
            step = "see where it leads, and remove it"
            raise CorruptionError("a symbolic link stands for a part of the table", place, step)


@contextmanager
def _opened(table: str, path: str) -> Iterator[int]:
    opened = os.open(f"{table}/{path}", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield opened
    finally:
        os.close(opened)


def _footer(opened: int, path: str, size_bytes: int | None = None) -> bytes:
    """Return the footer of a file, with its length and magic; checks the file's size if one is given."""
    size = os.fstat(opened).st_size
    if size_bytes is not None and size != size_bytes:
        found = f"{path} has {size:,} bytes, and the log says {size_bytes:,}"
        raise CorruptionError("a data file is damaged", found, _RESTORE)
    tail = os.pread(opened, _TAIL_BYTES, max(0, size - _TAIL_BYTES))
    length = struct.unpack("<I", tail[-8:-4])[0] + 8 if len(tail) >= 12 and tail[-4:] == _MAGIC else 0
    if not 8 < length <= size - 4:
        raise CorruptionError("a data file is damaged", f"{path} does not end as a Parquet file", _RESTORE)
    return tail[-length:] if length <= len(tail) else os.pread(opened, length, size - length)


def read_bytes(table: str, path: str, offset: int, length: int) -> bytes:
    """Return some bytes of a data file.  Requires: no link leads to it."""
    with _told(path), _opened(table, path) as opened:
        return os.pread(opened, length, offset)


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data file with its footer read and checked."""

    table: str
    path: str
    footer: pq.FileMetaData
    leaves: Mapping[str, Sequence[int]]  # the leaves of its columns; those added to the table later are not among them
    sums: bytes  # the checksums; none if another tool wrote the file

    @staticmethod
    def open(table: str, file: CellFile) -> DataFile:
        """Read the footer of a data file and check that it is the one that was written."""
        refuse_links(table, file.path)
        with _told(file.path), _opened(table, file.path) as opened:
            footer = _footer(opened, file.path, file.size_bytes)
            named = _NAMED.search(file.path)
            if named and _hash(footer) != named[1]:
                found = f"{file.path}: its footer is not the one written"
                raise CorruptionError("a data file is damaged", found, _RESTORE)
            parsed = pq.read_metadata(pa.BufferReader(footer))
        places: dict[str, list[int]] = {}
        for leaf in range(parsed.num_columns):
            places.setdefault(parsed.schema.column(leaf).path.split(".", 1)[0], []).append(leaf)
        sums = bytes.fromhex((parsed.metadata or {}).get(_SUMS, b"").decode())
        return DataFile(table, file.path, parsed, places, sums)

    @property
    def names(self) -> KeysView[str]:
        """Return its columns."""
        return self.leaves.keys()

    @property
    def groups(self) -> int:
        """Return how many row groups there are."""
        return int(self.footer.num_row_groups)

    def group_bytes(self, group: int) -> int:
        """Return the compressed size of a row group."""
        facts = self.footer.row_group(group)
        return sum(facts.column(i).total_compressed_size for i in range(facts.num_columns))

    def leaf(self, name: str) -> int:
        """Return the place of a column that is not nested among the leaves: nested columns before it have several."""
        return self.leaves[name][0]

    def filter_sum(self, group: int, leaf: int) -> int | None:
        """Return the checksum of a column's Bloom filter in a row group; None if it is not known.  Requires a filter."""
        facts = self.footer.row_group(group)
        before = sum(bool(facts.column(i).bloom_filter_offset) for i in range(leaf))
        return self._sums(group)[facts.num_columns + before] if self.sums else None

    def _sums(self, group: int) -> tuple[int, ...]:
        """Return the checksums of a row group; all have as many."""
        count = len(self.sums) // 4 // self.groups
        return struct.unpack_from(f">{count}I", self.sums, 4 * count * group)

    def read(self, groups: Sequence[int], columns: Sequence[str] | None = None) -> pa.Table:
        """Read row groups with their checksums verified; columns that the file does not have are left out.

        Serial, because callers read many of them at once.
        """
        wanted = [name for name in (self.names if columns is None else columns) if name in self.leaves]
        with _told(self.path), _opened(self.table, self.path) as opened:
            held = (
                _Held(opened, self._chunks(groups, wanted), self.path)
                if self.sums
                else os.fdopen(opened, "rb", closefd=False)
            )
            with pq.ParquetFile(
                held, metadata=self.footer, page_checksum_verification=not self.sums, pre_buffer=False
            ) as file:
                found = file.read_row_groups(list(groups), columns=wanted, use_threads=False)
        return found.replace_schema_metadata()  # Arrow puts there what the footer has

    def _chunks(self, groups: Sequence[int], wanted: Sequence[str]) -> list[tuple[int, int, int]]:
        """Return start, end and checksum of the column chunks to read, in the order in which they lie in the file."""
        needed = [leaf for name in wanted for leaf in self.leaves[name]]
        chunks = []
        for group in groups:
            facts, sums = self.footer.row_group(group), self._sums(group)
            for leaf in needed:
                column = facts.column(leaf)
                start = _start(column)
                chunks.append((start, start + column.total_compressed_size, sums[leaf]))
        return sorted(chunks)


class _Held:
    """A file for Arrow of which some column chunks have been read, in few pieces, and found to be as they were written."""

    closed = False

    def __init__(self, opened: int, chunks: Sequence[tuple[int, int, int]], path: str) -> None:
        self._size = os.fstat(opened).st_size
        self._at = 0
        self._starts = [start for start, _, _ in chunks]
        self._held: list[memoryview] = []
        for piece in _pieces(chunks):
            first, last = piece[0][0], piece[-1][1]
            held = memoryview(os.pread(opened, last - first, first))
            for start, end, checksum in piece:
                self._held.append(held[start - first : end - first])
                if zlib.crc32(self._held[-1]) != checksum:
                    at = f"{path}: {end - start:,} bytes from {start:,} on are not those written"
                    raise CorruptionError("a data file is damaged", at, _RESTORE)

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset if whence == os.SEEK_SET else self._size + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, length: int) -> memoryview:
        place = bisect.bisect_right(self._starts, self._at) - 1
        start = self._at - self._starts[place]
        found = self._held[place][start : start + length]
        self._at += len(found)
        return found


def _pieces(chunks: Sequence[tuple[int, int, int]]) -> Iterator[list[tuple[int, int, int]]]:
    """Bring chunks together that follow each other in a file."""
    piece: list[tuple[int, int, int]] = []
    for chunk in chunks:
        if piece and chunk[0] != piece[-1][1]:
            yield piece
            piece = []
        piece.append(chunk)
    if piece:
        yield piece


@contextmanager
def _told(path: str) -> Iterator[None]:
    """Translate what goes wrong with a data file into an error that names it."""
    try:
        yield
    except FileNotFoundError as error:
        step = "its version was erased while it was read, run the command again; or the table is damaged"
        raise CorruptionError("a data file is missing", path, step) from error
    except (OSError, pa.ArrowException) as error:
        raise CorruptionError("a data file is damaged", f"{path} ({error})", _RESTORE) from error
