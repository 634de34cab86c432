"""Files of a batch: Parquet, CSV or JSON lines, named by path, folder or glob.

What can be told from names, headers and footers is checked here, before a record is read: that the files exist,
that their format is known, that their columns fit the table's. Each is opened once for all of that.
"""

from __future__ import annotations

import glob
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ebb.index.errors import InputError, UnreadableInputError
from ebb.index.inputs import InputSchema, matched
from ebb.warehouse.intake.faults import blamed, raise_faults
from ebb.warehouse.intake.text_input import csv_start, first_bytes, is_packed, suffix_of, text_encoding, text_errors
from ebb.warehouse.store.errors import first_line

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

__all__ = [
    "Footer",
    "InputFile",
    "Piece",
    "check_inputs",
    "find_inputs",
    "input_format",
    "pa_schema",
    "piece_of",
    "split",
]

_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
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
    def has_old_calendar(self) -> bool:
        """Whether its dates before 1582 mean other days than they say; Spark knows which."""
        return self.format == "parquet" and self.footer.has_old_calendar

    @property
    def memory_bytes(self) -> int:
        """Return about how much memory its records take: files may be packed."""
        if self.format == "parquet":
            return self.footer.memory_bytes
        return self.size_bytes * (_PACKED_TEXT if is_packed(self.path) else 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """As much of a file as one task reads, and how; it travels to wherever it is read."""

    file: int  # its number in the batch
    path: str
    format: str  # parquet, csv or json
    memory_bytes: int  # of its records, about
    places: Mapping[str, int] = field(default_factory=dict)  # of the table's columns; unknown for JSON
    separator: str = ","
    encoding: str = "utf-8"
    width: int = 0  # how many fields a CSV record has
    start: int = 0
    stop: int | None = None  # row groups of Parquet, bytes of JSON lines; None: it cannot be cut
    first_line: int = 1  # of JSON lines: the number of the first line that starts in the piece


def _format_of(path: Path) -> str | None:
    kind = _FORMATS.get(suffix_of(path))
    return None if kind == "parquet" and is_packed(path) else kind


def input_format(file: Path) -> str:
    """Return the format that the name of a file tells; refuses names that cannot be those of inputs."""
    kind = _format_of(file)
    if kind is None:
        step = "use .parquet, .csv, .tsv, .jsonl, .ndjson or .json, the text ones also with .gz"
        raise UnreadableInputError(file, "its name does not tell a format that Ebb reads", step)
    if file.name.startswith((".", "_")) or ":" in file.name:
        reason = "Spark passes over names that start with . or _ and cannot open names with a colon"
        raise UnreadableInputError(file, reason, "rename it")
    return kind


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
            kind = input_format(file)
            yield InputFile(file.resolve(), kind, file.stat().st_size)


def _files_of(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    inner = sorted(p for p in path.rglob("*") if p.is_file())
    return [p for p in inner if not any(part.startswith((".", "_")) for part in p.relative_to(path).parts)]


def check_inputs(files: Sequence[InputFile], schema: InputSchema) -> list[Piece]:
    """Return how the files of a batch are read; refuses those whose header does not fit the table."""
    pieces, faults = list[Piece](), list[InputError]()
    for number, file in enumerate(files):
        try:
            with blamed(str(file.path)):
                pieces.append(piece_of(number, file, schema))
        except InputError as error:
            faults.append(error)
    raise_faults(faults)
    return pieces


def piece_of(number: int, file: InputFile, schema: InputSchema) -> Piece:
    """Return a whole file as one piece."""
    where = str(file.path)
    piece = Piece(file=number, path=where, format=file.format, memory_bytes=file.memory_bytes)
    if file.format == "parquet":
        from ebb.warehouse.parquet.arrow import columns_of_arrow

        found = file.footer.schema

        def type_of(place: int) -> str:
            return columns_of_arrow(pa_schema(found, place), where)[0].type

        places = matched(where, found.names, schema, type_of)
        return replace(piece, places=places, stop=file.footer.metadata.num_row_groups)
    start = first_bytes(file.path, file.size_bytes)
    encoding = text_encoding(file.path, start, schema.rules.encoding)
    piece = replace(piece, encoding=encoding)
    if file.format == "json":
        if re.match(rb"(\xef\xbb\xbf)?\s*\[\s*([{]|$)", start):
            raise UnreadableInputError(
                where, "it is a JSON array, not one object per line", "write one object per line"
            )
        is_split = encoding == "utf-8" and not is_packed(file.path)
        return replace(piece, stop=file.size_bytes if is_split else None)
    separator, header = csv_start(file.path, start, encoding, schema)
    return replace(piece, separator=separator, width=len(header), places=matched(where, header, schema))


def pa_schema(schema: pa.Schema, place: int) -> pa.Schema:
    """Return one field of a schema as a schema."""
    import pyarrow as pa

    return pa.schema([schema.field(place)])


def split(pieces: Sequence[Piece], size_bytes: int) -> list[Piece]:
    """Cut what can be cut into pieces of about ``size_bytes``: Parquet at row groups, JSON lines anywhere.

    JSON lines that are cut are read once, to count their lines.
    """
    parts: list[Piece] = []
    for piece in pieces:
        count = min(-(-piece.memory_bytes // size_bytes), piece.stop or 1) if piece.format != "csv" else 1
        if count <= 1 or piece.stop is None:
            parts.append(piece)
            continue
        ends = [piece.stop * part // count for part in range(count + 1)]
        shared = replace(piece, memory_bytes=piece.memory_bytes // count)
        cut = [replace(shared, start=start, stop=stop) for start, stop in itertools.pairwise(ends)]
        parts += _numbered(cut) if piece.format == "json" else cut
    return parts


def _numbered(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Give the pieces of a file of JSON lines the numbers of their first lines."""
    from ebb.warehouse.intake.json_input import first_lines

    with blamed(pieces[0].path), text_errors(pieces[0].path):
        numbers = first_lines(pieces[0].path, [piece.start for piece in pieces])
    return (replace(piece, first_line=number) for piece, number in zip(pieces, numbers, strict=True))


def _footer(path: Path) -> Footer:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
            schema, metadata = file.schema_arrow, file.metadata
    except (pa.ArrowException, OSError) as error:
        raise UnreadableInputError(
            path, f"it is not a readable Parquet file ({first_line(error)})", "write it again"
        ) from error
    leaves = [metadata.schema.column(i) for i in range(metadata.num_columns)]
    return Footer(
        schema=schema,
        metadata=metadata,
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
