"""Reading a batch over Arrow, wherever it is read: in this process or in Spark's tasks.

Every form a batch can have comes out as the same received records (``received.py``), converted by one rule. What is
wrong with a file as a whole is raised as an error that names it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ebb.index.columns import Column
from ebb.index.errors import UnreadableInputError
from ebb.index.inputs import InputSchema
from ebb.warehouse.intake.convert import Converted, convert
from ebb.warehouse.intake.csv_input import read_csv
from ebb.warehouse.intake.faults import blamed
from ebb.warehouse.intake.json_input import read_json
from ebb.warehouse.intake.received import NO_FILE, received, texts_of
from ebb.warehouse.intake.source import Piece
from ebb.warehouse.store.errors import first_line

__all__ = ["convert_batch", "read_piece"]

_BATCH_RECORDS = 64 * 1024
_BATCH_BYTES = 64 * 1024 * 1024


def read_piece(piece: Piece, schema: InputSchema) -> Iterator[pa.Table]:
    """Yield the records of a piece of a file."""
    with blamed(piece.path):
        try:
            yield from _records(piece, schema)
        except (pa.ArrowException, OSError, EOFError, zlib.error, UnicodeError) as error:
            step = "nothing was changed; write it again"
            raise UnreadableInputError(piece.path, f"it cannot be read ({first_line(error)})", step) from error


def _records(piece: Piece, schema: InputSchema) -> Iterator[pa.Table]:
    match piece.format:
        case "parquet":
            return _read_parquet(piece, schema.columns)
        case "csv":
            return read_csv(
                piece.path,
                schema.columns,
                piece.places,
                file=piece.file,
                separator=piece.separator,
                encoding=piece.encoding,
                width=piece.width,
            )
        case "json":
            return read_json(
                piece.path,
                schema,
                file=piece.file,
                encoding=piece.encoding,
                start=piece.start,
                stop=piece.stop,
                first=piece.first_line,
            )
        case _:
            raise AssertionError(piece.format)


def _read_parquet(piece: Piece, columns: Sequence[Column]) -> Iterator[pa.Table]:
    opened = pq.ParquetFile(piece.path, coerce_int96_timestamp_unit="us", page_checksum_verification=True)
    with opened:
        names = opened.schema_arrow.names
        chosen = [names[place] for place in piece.places.values()]
        is_plain = not any("." in name for name in chosen)  # a point would choose a part of a column
        metadata = opened.metadata
        first = sum(metadata.row_group(number).num_rows for number in range(piece.start))
        row_groups = list(range(piece.start, piece.stop or 0))
        some = sum(metadata.row_group(number).num_rows for number in row_groups)
        size = max(1, min(_BATCH_RECORDS, _BATCH_BYTES * some // max(1, piece.memory_bytes)))
        for batch in opened.iter_batches(size, row_groups, columns=chosen if is_plain else None):
            batch.validate(full=True)  # what is not UTF-8, or points outside of its memory, goes no further
            places = {name: batch.schema.get_field_index(names[place]) for name, place in piece.places.items()}
            yield convert_batch(batch, places, columns, file=piece.file, first=first)
            first += batch.num_rows


def convert_batch(
    batch: pa.RecordBatch,
    places: Mapping[str, int],
    columns: Sequence[Column],
    *,
    file: int = NO_FILE,
    first: int | None = None,
) -> pa.Table:
    """Return the records of Arrow data; ``places`` of the table's columns, ``first``: how many came before."""
    arrays = {name: batch.column(place) for name, place in places.items()}
    found: dict[str, Converted] = {
        column.name: convert(arrays[column.name], column) for column in columns if column.name in arrays
    }
    count = batch.num_rows
    lines = None if first is None else pa.array(np.arange(first + 1, first + 1 + count))
    return received(found, columns, count, lines=lines, texts=texts_of(arrays), file=file)
