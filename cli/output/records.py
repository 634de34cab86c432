"""Writing records: as a table for people, CSV, JSON lines, Arrow or Parquet, to a file or to standard output."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ebb.cli.output import render
from ebb.cli.output.values import csv_field, shown
from ebb.index.errors import EngineError, InputError, UsageError
from ebb.maintenance.values import counted

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Format", "format_of", "limited", "read_bytes", "write_bytes", "write_lines", "write_records"]

_CELL_WIDTH = 40  # of a table on a terminal
_LISTED = 3  # columns that did not fit, by name
_TABLE_ROWS = 1000  # a table for people is aligned in memory; more than this is not for people


class Format(StrEnum):
    """How records are written."""

    table = "table"
    csv = "csv"
    jsonl = "jsonl"
    arrow = "arrow"
    parquet = "parquet"


_SUFFIXES = {
    "": Format.table,
    ".txt": Format.table,
    ".csv": Format.csv,
    ".jsonl": Format.jsonl,
    ".ndjson": Format.jsonl,
    ".json": Format.jsonl,
    ".arrow": Format.arrow,
    ".arrows": Format.arrow,
    ".parquet": Format.parquet,
    ".pq": Format.parquet,
}


def format_of(output: Path | None) -> Format:
    """Return the format that the name of a file tells; a table for standard output and names without a suffix.

    >>> format_of(Path("live.parquet")).value, format_of(Path("LIVE.CSV")).value, format_of(None).value
    ('parquet', 'csv', 'table')
    """
    suffix = "" if output is None else output.suffix.lower()
    if suffix not in _SUFFIXES:
        formats, known = ", ".join(Format), ", ".join(filter(None, _SUFFIXES))
        msg = f"the name {output} tells no format: {suffix} is none of {known}; rename it, or pass --format {formats}"
        raise UsageError(msg)
    return _SUFFIXES[suffix]


def limited(parts: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.Table]:
    """Yield at most ``limit`` records and stop reading then."""
    import pyarrow as pa

    left = limit
    if left == 0:
        return
    for batch in parts:
        part = pa.Table.from_batches([batch])
        if left is None:
            yield part
            continue
        yield part.slice(0, min(left, part.num_rows))
        left -= part.num_rows
        if left <= 0:
            return


def _use_little_memory() -> None:
    """Let Arrow use the allocator that gives back what one thread allocates and another frees: a scan does only that."""
    import pyarrow as pa

    if "ARROW_DEFAULT_MEMORY_POOL" not in os.environ:
        with suppress(NotImplementedError):  # not everywhere; what comes with Arrow by default keeps 100 MB more
            pa.set_memory_pool(pa.jemalloc_memory_pool())


def write_records(
    parts: Iterable[pa.Table],
    schema: pa.Schema,
    *,
    form: Format,
    output: Path | None,
    guard_formulas: bool = False,
    narrower: str = "use --columns or --format",
) -> int:
    """Write records and return how many there were; ``narrower`` is what helps if a table is too wide for the terminal."""
    is_terminal = output is None and sys.stdout.isatty()
    if form in (Format.arrow, Format.parquet) and is_terminal:
        msg = f"format {form.value} is not for a terminal; pass --output FILE or redirect"
        raise UsageError(msg)
    _use_little_memory()
    try:
        with _target(output) as sink:
            match form:
                case Format.table:
                    return _table(parts, schema, sink, narrower=narrower if is_terminal else None)
                case Format.csv:
                    return _csv(parts, schema, sink, guard_formulas=guard_formulas, is_terminal=is_terminal)
                case Format.jsonl:
                    return _jsonl(parts, schema, sink)
                case Format.arrow | Format.parquet:
                    return _binary(parts, schema, sink, form)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except OSError as error:
        raise _unwritable(output, error) from error


def write_lines(text: Iterable[str], output: Path) -> None:
    """Write lines to a file."""
    try:
        with _target(output) as sink:
            sink.writelines(f"{line}\n".encode() for line in text)
    except OSError as error:
        raise _unwritable(output, error) from error


def write_bytes(data: bytes, output: Path | None, *, mode: int | None = None) -> None:
    """Write something to standard output, or to a file that is there whole or not at all; ``mode``: who may read it."""
    try:
        with _target(output, mode) as sink:
            sink.write(data)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError as error:
        raise _unwritable(output, error) from error


def read_bytes(file: Path) -> bytes:
    """Return what is in a file that a user named."""
    try:
        return file.read_bytes()
    except OSError as error:
        msg = f"{file} cannot be read: {error.strerror or error}"
        raise InputError(msg, "check its name") from error


def _unwritable(output: Path | None, error: OSError) -> EngineError:
    """Return the error for what cannot be written, under the name that the user gave it."""
    what = f"{'the answer' if output is None else output} cannot be written"
    if output is not None and not output.resolve().parent.is_dir():
        return EngineError(what, f"there is no folder {output.parent}", "make it, or correct --output")
    return EngineError(what, error.strerror or error, "check --output and the free space")


@contextmanager
def _target(output: Path | None, mode: int | None = None) -> Iterator[IO[bytes]]:
    """Write to standard output, or to a file that appears under its name only when it is complete."""
    if output is None:
        if sys.__stdout__ is None:
            raise EngineError(
                "the answer cannot be written", "standard output is closed", "redirect it, or pass --output"
            )
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if output.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(output))
    if output.exists() and not output.is_file():  # /dev/null or a pipe: to be written to, not to be replaced
        with output.open("wb") as sink:
            yield sink
        return
    output = output.resolve()  # a link stays a link
    partial = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        with partial.open("wb") as sink:
            yield sink
        if mode is not None:
            partial.chmod(mode)
        partial.replace(output)
    finally:
        partial.unlink(missing_ok=True)


def _rows(parts: Iterable[pa.Table]) -> Iterator[tuple[str, ...]]:
    """Yield the records with their values as people see them."""
    for part in parts:
        for batch in part.to_batches(max_chunksize=_TABLE_ROWS):
            with _writable():
                columns = [[shown(value) for value in column.to_pylist()] for column in batch.columns]
            yield from zip(*columns, strict=True)


@contextmanager
def _writable() -> Iterator[None]:
    """Say what to do about a value that has no text."""
    try:
        yield
    except (OverflowError, ValueError) as error:
        msg = f"a value cannot be written ({error}); cast it to text in the query, or use --format parquet"
        raise UsageError(msg) from error


def _table(parts: Iterable[pa.Table], schema: pa.Schema, sink: IO[bytes], *, narrower: str | None) -> int:
    """Write records as aligned columns; with ``narrower`` only as much as a terminal can show."""
    import pyarrow as pa

    rows: list[tuple[str, ...]] = []
    more = False
    for row in _rows(parts):
        if len(rows) == _TABLE_ROWS:
            more = True
            break
        rows.append(row)
    names: Sequence[str] = schema.names
    told = counted(len(rows), "record")
    told += " shown, there are more: use --format csv or --limit" if more else ""
    if narrower is not None:
        names, *rows = [tuple(render.cut(render.visible(text), _CELL_WIDTH) for text in row) for row in (names, *rows)]
        hidden = names[_fitting(names, rows) :]
        names, rows = names[: len(names) - len(hidden)], [row[: len(names) - len(hidden)] for row in rows]
        if hidden:
            listed = ", ".join(hidden[:_LISTED]) + " …" * (len(hidden) > _LISTED)
            told += f"; {counted(len(hidden), 'more column')}: {listed}; {narrower}"
    right = [
        i
        for i, f in enumerate(schema)
        if pa.types.is_integer(f.type) or pa.types.is_floating(f.type) or pa.types.is_decimal(f.type)
    ]
    text = render.table_text(rows, names, right=right)
    sink.write(("\n".join([*text, f"({told})"]) + "\n").encode())
    return len(rows)


def _fitting(names: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Return how many columns fit the terminal: one at least."""
    used, room = 0, render.terminal_columns()
    for place, name in enumerate(names):
        used += max(render.width(text) for text in (name, *(row[place] for row in rows))) + 2 * (place > 0)
        if used > room and place:
            return place
    return len(names)


def _csv(
    parts: Iterable[pa.Table], schema: pa.Schema, sink: IO[bytes], *, guard_formulas: bool, is_terminal: bool
) -> int:
    from ebb.cli.output.columns import csv_lines, data_of, lines_of

    count = 0
    sink.write((",".join(csv_field(name) or "" for name in schema.names) + "\n").encode())

    def write(batch: pa.RecordBatch) -> pa.Array:
        with _writable():
            return csv_lines(batch, guard_formulas=guard_formulas)

    for lines in lines_of(parts, write):
        if is_terminal:
            sink.writelines(f"{render.visible(line[:-1])}\n".encode() for line in lines.to_pylist())
        else:
            sink.write(data_of(lines))
        count += len(lines)
    return count


def _jsonl(parts: Iterable[pa.Table], schema: pa.Schema, sink: IO[bytes]) -> int:
    from ebb.cli.output.columns import data_of, json_lines, lines_of

    if len(set(schema.names)) < len(schema.names):
        msg = f"two columns have one name in {', '.join(schema.names)}; rename one, for example with AS"
        raise UsageError(msg)
    count = 0

    def write(batch: pa.RecordBatch) -> pa.Array:
        with _writable():
            return json_lines(batch)

    for lines in lines_of(parts, write):
        sink.write(data_of(lines))
        count += len(lines)
    return count


def _binary(parts: Iterable[pa.Table], schema: pa.Schema, sink: IO[bytes], form: Format) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    count = 0
    try:
        writer: Any = pa.ipc.new_stream(sink, schema) if form is Format.arrow else pq.ParquetWriter(sink, schema)
    except pa.ArrowNotImplementedError as error:
        msg = f"format {form.value} has no such type ({error}); cast the column to text in the query"
        raise UsageError(msg) from error
    with writer:
        for part in parts:
            writer.write_table(part)
            count += part.num_rows
    return count
