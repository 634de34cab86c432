"""Files of a batch: Parquet, CSV or JSON lines, named by path, folder or glob.

What can be told from names, headers and footers is checked here, before a record is read: that the files exist,
that their format is known, that they have exactly the table's columns. Each is opened once for all of that.
"""

from __future__ import annotations

import csv
import glob
import gzip
import itertools
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ebb.index.columns import Column, check_drift
from ebb.index.errors import SchemaDriftError, UnreadableInputError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

__all__ = ["Footer", "InputFile", "check_inputs", "find_inputs", "infer_columns"]

_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
}


_WIDTHS = {"INT32": 4, "FLOAT": 4, "BYTE_ARRAY": 4}  # of a value in memory at least; the others have 8 or more
_PACKED_TEXT = 8  # how much larger text is than its .gz file, usually


@dataclass(frozen=True, slots=True)
class Footer:
    """What a Parquet file says about its records."""

    schema: pa.Schema
    metadata: pq.FileMetaData
    nanosecond_columns: frozenset[str]  # Spark reads them as numbers
    memory_bytes: int  # about
    has_old_calendar: bool  # dates before 1582 mean other days than they say; Spark knows which


@dataclass(frozen=True)
class InputFile:
    """One file of a batch.  Its footer is read once, when it is first asked for."""

    path: Path
    format: str  # parquet, csv or json
    size_bytes: int

    @cached_property
    def footer(self) -> Footer:
        """Return the footer.  Requires a Parquet file."""
        return _footer(self.path)

    @property
    def memory_bytes(self) -> int:
        """Return about how much memory its records take: files may be packed."""
        if self.format == "parquet":
            return self.footer.memory_bytes
        return self.size_bytes * (_PACKED_TEXT if self.path.suffix.lower() == ".gz" else 1)


def _format_of(path: Path) -> str | None:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
        kind = _FORMATS.get(suffixes[-1]) if suffixes else None
        return None if kind == "parquet" else kind
    return _FORMATS.get(suffixes[-1]) if suffixes else None


def find_inputs(patterns: Sequence[str]) -> list[InputFile]:
    """Resolve files, folders and globs; hidden names (``.x``, ``_x``) inside folders are left out."""
    found: dict[Path, InputFile] = {}
    for pattern in patterns:
        if not pattern.strip():  # an empty variable of a shell, not the current folder
            raise UnreadableInputError(repr(pattern), "no such file, folder or match", "check the path")
        try:
            found.update({file.path: file for file in _resolved(pattern)})
        except OSError as error:
            raise UnreadableInputError(
                pattern, f"it cannot be looked into ({error})", "check its permissions"
            ) from error
    return list(found.values())


def _resolved(pattern: str) -> Iterator[InputFile]:
    path = Path(pattern).expanduser()
    matches = [path] if path.exists() else [Path(m) for m in sorted(glob.glob(str(path), recursive=True))]
    if not matches:
        raise UnreadableInputError(pattern, "no such file, folder or match", "check the path")
    for match in matches:
        for file in _files_of(match):
            kind = _format_of(file)
            if kind is None:
                step = "use .parquet, .csv, .jsonl, .ndjson or .json, the text ones also with .gz"
                raise UnreadableInputError(file, "its name does not tell a format that Ebb reads", step)
            if file.name.startswith((".", "_")) or ":" in file.name:
                reason = "Spark passes over names that start with . or _ and cannot open names with a colon"
                raise UnreadableInputError(file, reason, "rename it")
            yield InputFile(file.resolve(), kind, file.stat().st_size)


def _files_of(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    inner = sorted(p for p in path.rglob("*") if p.is_file())
    return [p for p in inner if not any(part.startswith((".", "_")) for part in p.relative_to(path).parts)]


def check_inputs(files: Sequence[InputFile], columns: Sequence[Column]) -> None:
    """Refuse files whose header or footer does not have exactly the table's columns."""
    for file in files:
        if file.format == "parquet":
            from ebb.warehouse.parquet.arrow import columns_of_arrow

            check_drift(str(file.path), columns_of_arrow(file.footer.schema, str(file.path)), columns)
        elif file.format == "csv":
            header = _csv_header(file.path)
            if header is not None:
                check_drift(str(file.path), [Column(name, "string") for name in header], columns, typed=False)


def _footer(path: Path) -> Footer:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
            schema, metadata = file.schema_arrow, file.metadata
    except (pa.ArrowException, OSError) as error:
        raise UnreadableInputError(path, f"it is not a readable Parquet file ({error})", "write it again") from error
    leaves = [metadata.schema.column(i) for i in range(metadata.num_columns)]
    return Footer(
        schema=schema,
        metadata=metadata,
        # The old INT96 timestamps look like nanoseconds to Arrow; Spark reads and writes them as timestamps.
        nanosecond_columns=frozenset(
            leaf.path for leaf in leaves if leaf.physical_type == "INT64" and "nanoseconds" in str(leaf.logical_type)
        ),
        memory_bytes=_memory_bytes(metadata, leaves),
        has_old_calendar=_has_old_calendar(metadata.metadata or {}),
    )


def _memory_bytes(metadata: pq.FileMetaData, leaves: Sequence[pq.ColumnSchema]) -> int:
    """Return the size without compression, and not less than the values take that were folded into a few bytes."""
    row = sum(_WIDTHS.get(leaf.physical_type, max(8, leaf.length)) for leaf in leaves if not leaf.max_repetition_level)
    groups = (metadata.row_group(i) for i in range(metadata.num_row_groups))
    return sum(max(group.total_byte_size, group.num_rows * row) for group in groups)


def _has_old_calendar(notes: Mapping[bytes, bytes]) -> bool:
    """Whether a file was written by Spark before version 3, or by a later one in the manner of the old ones."""
    version = notes.get(b"org.apache.spark.version", b"")
    return version.startswith((b"1.", b"2.")) or any(b"org.apache.spark.legacy" in note for note in notes)


def _csv_header(path: Path) -> list[str] | None:
    """Return the header of a CSV file; None if the file is empty."""
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8-sig", newline="") as text:
            return next(csv.reader(itertools.islice(text, 1)), None)
    except (OSError, EOFError, UnicodeDecodeError, csv.Error, zlib.error) as error:
        raise UnreadableInputError(path, f"its header cannot be read ({error})", "write it again, in UTF-8") from error


def infer_columns(path: Path) -> tuple[Column, ...]:
    """Return the columns of a sample file, with the types that Ebb would give them."""
    import pyarrow as pa

    from ebb.warehouse.parquet.arrow import columns_of_arrow

    files = find_inputs([str(path)])
    if not files:
        raise UnreadableInputError(path, "the folder holds no file", "name a sample file")
    file = files[0]
    if file.format == "parquet":
        return columns_of_arrow(file.footer.schema, str(file.path))
    try:
        with pa.input_stream(str(file.path), compression="detect") as stream:
            if file.format == "csv":
                import pyarrow.csv

                schema = pyarrow.csv.open_csv(stream).schema
            else:
                import pyarrow.json

                schema = pyarrow.json.read_json(stream).schema
    except (pa.ArrowException, OSError) as error:
        raise UnreadableInputError(
            file.path, f"its columns cannot be told ({error})", "pass --schema instead"
        ) from error
    try:
        return columns_of_arrow(schema, str(file.path))
    except SchemaDriftError as error:
        msg = f"{error}; or pass --schema instead of --like"
        raise UsageError(msg) from error
