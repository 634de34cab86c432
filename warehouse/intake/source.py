"""Files of a batch: Parquet, CSV or JSON lines, named by path, folder or glob.

What can be told from names, headers and footers is checked here, before a record is read: that the files exist,
that their format is known, that their columns fit the table's. Each is opened once for all of that.
"""

from __future__ import annotations

import codecs
import csv
import glob
import itertools
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ebb.index.columns import Column
from ebb.index.errors import InputError, SchemaDriftError, UnreadableInputError, UsageError
from ebb.index.inputs import SEPARATORS, InputRules, InputSchema, best_separator, matched
from ebb.warehouse.intake.faults import blamed, raise_faults
from ebb.warehouse.store.files import open_text

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

__all__ = ["Footer", "InputFile", "Piece", "check_inputs", "encoding_of", "find_inputs", "infer_columns", "split"]

_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
}


_WIDTHS = {"INT32": 4, "FLOAT": 4, "BYTE_ARRAY": 4}  # of a value in memory at least; the others have 8 or more
_START_BYTES = 1024 * 1024  # of a text, to tell its header by
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
        return self.size_bytes * (_PACKED_TEXT if self.path.suffix.lower() == ".gz" else 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """As much of a file as one task reads, and how; it travels to wherever it is read."""

    file: int  # its number in the batch
    path: str
    format: str  # parquet, csv, json, or nothing
    memory_bytes: int  # of its records, about
    places: Mapping[str, int] = field(default_factory=dict)  # of the table's columns; unknown for JSON
    separator: str = ","
    encoding: str = "utf-8"
    width: int = 0  # how many fields a CSV record has
    start: int = 0
    stop: int | None = None  # row groups of Parquet, bytes of JSON lines; None: it cannot be cut


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


def check_inputs(files: Sequence[InputFile], schema: InputSchema) -> list[Piece]:
    """Return how the files of a batch are read; refuses those whose header does not fit the table."""
    pieces, faults = list[Piece](), list[InputError]()
    for number, file in enumerate(files):
        try:
            with blamed(str(file.path)):
                pieces.append(_piece(number, file, schema))
        except InputError as error:
            faults.append(error)
    raise_faults(faults)
    return pieces


def _piece(number: int, file: InputFile, schema: InputSchema) -> Piece:
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
    start = _first_bytes(file.path)
    encoding = codecs.lookup(schema.rules.encoding or encoding_of(start)).name
    piece = replace(piece, encoding=encoding)
    if file.format == "json":
        if re.match(rb"(\xef\xbb\xbf)?\s*\[\s*([{]|$)", start):
            raise UnreadableInputError(
                where, "it is a JSON array, not one object per line", "write one object per line"
            )
        is_split = encoding == "utf-8" and file.path.suffix.lower() != ".gz"
        return replace(piece, stop=file.size_bytes if is_split else None)
    separator, header = _csv_header(file.path, start, encoding, schema)
    if header is None:
        return replace(piece, format="nothing")
    return replace(piece, separator=separator, width=len(header), places=matched(where, header, schema))


def pa_schema(schema: pa.Schema, place: int) -> pa.Schema:
    """Return one field of a schema as a schema."""
    import pyarrow as pa

    return pa.schema([schema.field(place)])


def encoding_of(start: bytes) -> str:
    """Return the encoding that the first bytes of a text tell; UTF-8 if they tell none.

    >>> encoding_of("a".encode("utf-16")), encoding_of(b"a")
    ('utf-16', 'utf-8')
    """
    return "utf-16" if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8"


def _first_bytes(path: Path) -> bytes:
    """Return the beginning of a text, with its first line if that is not longer than anybody writes."""
    try:
        with open_text(str(path)) as text:
            return text.read(_START_BYTES)
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadableInputError(path, f"it cannot be read ({error})", "write it again") from error


def split(pieces: Sequence[Piece], size_bytes: int) -> list[Piece]:
    """Cut what can be cut into pieces of about ``size_bytes``: Parquet at row groups, JSON lines anywhere."""
    parts: list[Piece] = []
    for piece in pieces:
        count = min(-(-piece.memory_bytes // size_bytes), piece.stop or 1) if piece.format != "csv" else 1
        if count <= 1 or piece.stop is None:
            parts.append(piece)
            continue
        ends = [piece.stop * part // count for part in range(count + 1)]
        share = piece.memory_bytes // count
        parts += [replace(piece, start=a, stop=b, memory_bytes=share) for a, b in itertools.pairwise(ends)]
    return parts


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


def _csv_header(path: Path, start: bytes, encoding: str, schema: InputSchema) -> tuple[str, list[str] | None]:
    """Return separator and header of a CSV file; no header if the file is empty."""
    from ebb.warehouse.intake.csv_input import csv_header

    rules = schema.rules
    known = [*(column.name for column in schema.columns), *rules.rename]
    try:
        lines = start.decode(encoding, errors="ignore").removeprefix("\ufeff").splitlines()
        first = next((line for line in lines if line.strip()), None)
        if first is None:
            return ",", None
        options = [rules.separator] if rules.separator else SEPARATORS
        headers = {separator: csv_header(first, separator) for separator in options}
    except (UnicodeError, csv.Error) as error:
        raise UnreadableInputError(path, f"its header cannot be read ({error})", "write it again") from error
    separator = rules.separator or best_separator(headers, known)
    return separator, headers[separator]


def infer_columns(path: Path, rules: InputRules | None = None) -> tuple[Column, ...]:
    """Return the columns of a sample file, renamed, with the types that Ebb would give them."""
    import pyarrow as pa

    from ebb.warehouse.parquet.arrow import columns_of_arrow

    rules = rules or InputRules()
    files = find_inputs([str(path)])
    if not files:
        raise UnreadableInputError(path, "the folder holds no file", "name a sample file")
    file = files[0]
    try:
        schema = file.footer.schema if file.format == "parquet" else _inferred(file, rules)
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise UnreadableInputError(
            file.path, f"its columns cannot be told ({error})", "declare them instead", hint="schema"
        ) from error
    try:
        columns = columns_of_arrow(schema, str(file.path))
    except SchemaDriftError as error:
        raise UsageError(str(error), "declare the columns instead", hint="schema") from error
    return tuple(Column(rules.rename.get(column.name, column.name), column.type) for column in columns)


def _inferred(file: InputFile, rules: InputRules) -> pa.Schema:
    """Return the columns of a text as Arrow takes them from its first records."""
    import pyarrow as pa

    schema = InputSchema(columns=(), rules=rules)
    piece = _piece(0, file, replace(schema, rules=replace(rules, extra="ignore", strict=False)))
    with open_text(piece.path) as raw:
        start = raw.read(_START_BYTES * 16).decode(piece.encoding, errors="replace").removeprefix("\ufeff")
    text = pa.BufferReader(start.encode())
    if piece.format == "csv":
        import pyarrow.csv

        return pyarrow.csv.open_csv(text, parse_options=pyarrow.csv.ParseOptions(delimiter=piece.separator)).schema
    import pyarrow.json

    whole = start if len(start) < _START_BYTES * 16 else start[: start.rfind("\n")]
    return pyarrow.json.read_json(pa.BufferReader(whole.encode())).schema
