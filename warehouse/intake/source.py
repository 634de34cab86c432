"""Where a batch comes from: files, folders and globs of Parquet, CSV or JSON lines, or a DataFrame.

What can be told from names, headers and footers is checked here, before Spark reads a record: that the files exist,
that their format is known, that they have exactly the table's columns.
"""

from __future__ import annotations

import csv
import glob
import gzip
import itertools
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ebb.index.columns import Column, check_drift
from ebb.index.errors import SchemaDriftError, UnreadableInputError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["InputFile", "check_inputs", "find_inputs", "infer_columns", "nanosecond_columns"]

_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
}


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file of a batch."""

    path: Path
    format: str  # parquet, csv or json
    size_bytes: int


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

            schema = _parquet_schema(file.path)
            check_drift(str(file.path), columns_of_arrow(schema, str(file.path)), columns)
        elif file.format == "csv":
            header = _csv_header(file.path)
            if header is not None:
                check_drift(str(file.path), [Column(name, "string") for name in header], columns, typed=False)


def nanosecond_columns(file: InputFile) -> frozenset[str]:
    """Return the columns of a Parquet file that hold nanoseconds, which Spark reads as numbers.

    The old INT96 timestamps look like nanoseconds to Arrow; Spark reads (and by default writes) them as timestamps.
    """
    import pyarrow.parquet as pq

    with pq.ParquetFile(file.path) as parquet:
        leaves = [parquet.schema.column(i) for i in range(len(parquet.schema))]
    return frozenset(
        leaf.path for leaf in leaves if leaf.physical_type == "INT64" and "nanoseconds" in str(leaf.logical_type)
    )


def _parquet_schema(path: Path) -> pa.Schema:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            return file.schema_arrow
    except (pa.ArrowException, OSError) as error:
        raise UnreadableInputError(path, f"it is not a readable Parquet file ({error})", "write it again") from error


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
        return columns_of_arrow(_parquet_schema(file.path), str(file.path))
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
            file.path, f"its columns cannot be told ({error})", "declare them instead", hint="schema"
        ) from error
    try:
        return columns_of_arrow(schema, str(file.path))
    except SchemaDriftError as error:
        raise UsageError(str(error), "declare the columns instead", hint="schema") from error
