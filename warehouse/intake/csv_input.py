"""Reading CSV: fields between separators, quotes doubled, line breaks allowed between quotes, a header.

An empty field is null, an empty text is written "". Arrow cuts the text into fields; what they mean is decided
elsewhere. A record with too few or too many fields is refused alone.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from ebb.index.columns import Column
from ebb.index.errors import UnreadableInputError
from ebb.warehouse.intake.convert import convert
from ebb.warehouse.intake.raw_bytes import Utf8Stream, uncovered, uncovered_batch
from ebb.warehouse.intake.received import Unread, received, texts_of, unread
from ebb.warehouse.store.errors import first_line
from ebb.warehouse.store.files import open_text

__all__ = ["CsvLines", "csv_fault", "csv_header", "read_csv"]

_BLOCK_BYTES = 16 * 1024 * 1024  # no record may be larger


def csv_fault(error: Exception) -> str:
    """Return what Arrow says of a text, without the record that it shows: no message holds a value.

    >>> csv_fault(ValueError("CSV parse error: Expected 2 columns, got 1: secret"))
    'CSV parse error: Expected 2 columns, got 1'
    """
    return re.sub(r"(got \d+): .*", r"\1", first_line(error))


def csv_header(line: str, separator: str) -> list[str]:
    """Return the names in the first line of a CSV file."""
    return next(csv.reader([line], delimiter=separator), [])


def read_csv(
    path: str,
    columns: Sequence[Column],
    places: Mapping[str, int],
    *,
    file: int,
    separator: str,
    encoding: str,
    width: int,
) -> Iterator[pa.Table]:
    """Yield the records of a CSV file.  ``places``: of the table's columns; ``width``: how many fields there are."""
    refused: list[Unread] = []  # in the order of their numbers; Arrow is ahead of what it has handed out

    def handle(row: Any) -> str:
        reason = "it has too few fields" if row.actual_columns < row.expected_columns else "it has too many fields"
        text = uncovered(row.text.encode()).decode(errors="backslashreplace")
        refused.append(Unread(reason, text, row.number - 1))
        return "skip"

    wanted = {name: f"f{place}" for name, place in places.items()}
    taken = 0  # the number of the last record so far
    with closing(Utf8Stream(open_text(path), is_utf8=encoding in ("utf-8", "utf-8-sig"))) as text:
        ending = False
        for fields in _batches(path, text, list(wanted.values()), handle, separator, encoding, width):
            batch, count = uncovered_batch(fields) if text.is_covering else fields, fields.num_rows
            numbers = _numbers(taken, count, [record.line for record in refused])
            if count:
                taken = int(numbers[-1])
                ending = any(b"\n" in (column[count - 1].as_py() or b"") for column in batch.columns)
            broken = _broken(batch)
            if broken is not None:
                shown = [separator.join(row) for row in _shown(batch.filter(pa.array(broken)))]
                marked = zip(shown, numbers[broken].tolist(), strict=True)
                yield unread([Unread("it is not UTF-8", text, number) for text, number in marked], columns, file)
                batch, numbers = batch.filter(pa.array(~broken)), numbers[~broken]
            arrays = {name: batch.column(place).cast(pa.string()) for name, place in wanted.items()}
            found = {column.name: convert(arrays[column.name], column) for column in columns if column.name in arrays}
            lines = pa.array(numbers, pa.int64())
            yield received(found, columns, batch.num_rows, lines=lines, texts=texts_of(arrays), file=file)
            passed = [record for record in refused if record.line is not None and record.line <= taken]
            if passed:
                yield unread(passed, columns, file)
                del refused[: len(passed)]
        if refused:
            yield unread(refused, columns, file)
        elif ending and text.quotes % 2:
            reason = "a quote is not closed, and the last record holds what follows it"
            raise UnreadableInputError(path, reason, "close it")


def _numbers(before: int, count: int, refused: Sequence[int | None]) -> Any:
    """Return the numbers of the next records of a file, from 1, when some among them or after them were refused."""
    everything = np.arange(before + 1, before + 1 + count + len(refused))
    return np.setdiff1d(everything, np.array(refused, np.int64), assume_unique=True)[:count]


def _batches(
    path: str, stream: Any, names: Sequence[str], handle: Any, separator: str, encoding: str, width: int
) -> Iterator[pa.RecordBatch]:
    """Yield the fields of the records behind the header, as bytes."""
    is_header = True
    try:
        reader = pa_csv.open_csv(
            pa.PythonFile(stream, mode="r"),
            read_options=pa_csv.ReadOptions(
                use_threads=False, block_size=_BLOCK_BYTES, autogenerate_column_names=True, encoding=encoding
            ),
            parse_options=pa_csv.ParseOptions(delimiter=separator, newlines_in_values=True, invalid_row_handler=handle),
            convert_options=pa_csv.ConvertOptions(
                check_utf8=False,
                column_types={f"f{place}": pa.binary() for place in range(width)},
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                include_columns=list(dict.fromkeys(names)) or ["f0"],
            ),
        )
        for batch in reader:
            yield batch.slice(1) if is_header else batch
            is_header = False
    except pa.ArrowInvalid as error:
        if str(error).startswith(("Empty CSV", "CSV parse error: Empty CSV")):  # nothing, or a header alone
            return
        reason = f"it is not CSV ({csv_fault(error)})"
        if "straddl" in str(error):
            reason = "a quote is not closed, or a record is larger than 16 MiB"
        raise UnreadableInputError(path, reason, "write it again") from error
    except UnicodeError as error:
        raise UnreadableInputError(
            path, f"it is not {encoding} ({error})", "name its encoding", hint="encoding"
        ) from error


def _broken(batch: pa.RecordBatch) -> Any:
    """Return which records have a field that is not UTF-8; None if all are fine."""
    broken = np.zeros(batch.num_rows, np.bool_)
    for column in batch.columns:
        try:
            column.cast(pa.string())
        except pa.ArrowInvalid:
            broken |= np.array([not _is_text(value) for value in column.to_pylist()], np.bool_)
    return broken if broken.any() else None


def _is_text(value: bytes | None) -> bool:
    try:
        if value is not None:
            value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _shown(batch: pa.RecordBatch) -> list[list[str]]:
    """Return the fields of records as text for people."""
    rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
    return [["" if value is None else value.decode(errors="backslashreplace") for value in row] for row in rows]


class CsvLines:
    """The lines on which the records of a CSV file start, by their numbers; reads on from where it was left."""

    def __init__(self, path: str, separator: str, encoding: str) -> None:
        self._file = (path, separator, encoding)
        self._starts, self._last = _starts(*self._file), 0

    def of(self, numbers: Iterable[int]) -> dict[int, int]:
        """Return the lines of some records; nothing for those that are not found."""
        found: dict[int, int] = {}
        for number in sorted(set(numbers)):
            if number <= self._last:
                self._starts, self._last = _starts(*self._file), 0
            for at, line in self._starts:
                self._last = at
                if at == number:
                    found[number] = line
                    break
        return found


def _starts(path: str, separator: str, encoding: str) -> Iterator[tuple[int, int]]:
    """Yield the number of each record and the line on which it starts."""
    with open_text(path) as raw, io.TextIOWrapper(raw, encoding, errors="replace", newline="") as text:
        reader, number, line = csv.reader(text, delimiter=separator), -1, 0
        try:
            for fields in reader:
                if fields:
                    number += 1
                    yield number, line + 1
                line = reader.line_num
        except csv.Error:  # a field that is too long for it
            return
