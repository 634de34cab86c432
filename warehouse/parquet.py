"""Reading data files that may be damaged: a file is read as it was written, or not at all.

The log vouches for a file's size and, through the name, for a hash of its footer, which is checked before anything
is parsed: parsing a damaged footer may give wrong answers or end the process. The footer says where pages are, and
each page carries a checksum of its own.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from index.cellfile import CellFile
from index.errors import CorruptionError

__all__ = ["DataFile", "footer_bytes", "footer_hash", "read_bytes"]

_MAGIC = b"PAR1"
_TAIL_BYTES = 128 * 1024  # most footers are shorter
_NAMED = re.compile(r"-([0-9a-f]{16})\.parquet$")
_RESTORE = "restore it from a backup"


def footer_hash(footer: bytes) -> str:
    """Return the hash of a footer, with the length and the magic that follow it, as file names carry it."""
    return hashlib.blake2b(footer, digest_size=8).hexdigest()


def footer_bytes(table: str, path: str, size_bytes: int | None = None) -> bytes:
    """Return the footer of a file, with its length and magic; checks the file's size if one is given."""
    with _told(path), open(f"{table}/{path}", "rb", buffering=0) as opened:
        size = os.fstat(opened.fileno()).st_size
        if size_bytes is not None and size != size_bytes:
            found = f"{path} has {size:,} bytes, and the log says {size_bytes:,}"
            raise CorruptionError("a data file is damaged", found, _RESTORE)
        tail = os.pread(opened.fileno(), _TAIL_BYTES, max(0, size - _TAIL_BYTES))
        length = struct.unpack("<I", tail[-8:-4])[0] + 8 if len(tail) >= 12 and tail[-4:] == _MAGIC else 0
        if not 8 < length <= size - 4:
            raise CorruptionError("a data file is damaged", f"{path} does not end as a Parquet file", _RESTORE)
        return tail[-length:] if length <= len(tail) else os.pread(opened.fileno(), length, size - length)


def read_bytes(table: str, path: str, offset: int, length: int) -> bytes:
    """Return some bytes of a data file."""
    with _told(path), open(f"{table}/{path}", "rb", buffering=0) as opened:
        return os.pread(opened.fileno(), length, offset)


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data file with its footer read and checked."""

    table: str
    path: str
    footer: pq.FileMetaData
    names: frozenset[str]  # its columns; those added to the table later are not among them

    @staticmethod
    def open(table: str, file: CellFile) -> DataFile:
        """Read the footer of a data file and check that it is the one that was written."""
        footer = footer_bytes(table, file.path, file.size_bytes)
        named = _NAMED.search(file.path)
        if named and footer_hash(footer) != named[1]:
            raise CorruptionError("a data file is damaged", f"{file.path}: its footer is not the one written", _RESTORE)
        with _told(file.path):
            parsed = pq.read_metadata(pa.BufferReader(footer))
        return DataFile(table, file.path, parsed, frozenset(parsed.schema.to_arrow_schema().names))

    @property
    def groups(self) -> int:
        """Return how many row groups there are."""
        return int(self.footer.num_row_groups)

    def leaf(self, name: str) -> int:
        """Return the place of a column among the leaves of the file: nested columns before it have several."""
        schema = self.footer.schema
        return next(i for i in range(self.footer.num_columns) if schema.column(i).path == name)

    def read(self, groups: Sequence[int], columns: Sequence[str] | None = None) -> pa.Table:
        """Read row groups with their page checksums verified; columns that the file does not have are left out.

        Serial, because callers read many of them at once.
        """
        wanted = None if columns is None else [name for name in columns if name in self.names]
        with (
            _told(self.path),
            pq.ParquetFile(
                f"{self.table}/{self.path}", metadata=self.footer, page_checksum_verification=True, pre_buffer=False
            ) as file,
        ):
            return file.read_row_groups(list(groups), columns=wanted, use_threads=False)


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
