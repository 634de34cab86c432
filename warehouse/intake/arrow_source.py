"""A batch that needs no Spark: Parquet files, or whatever hands out Arrow record batches.

Records are taken in portions, each sorted in memory and written as runs of its own, so that memory does not grow with
the batch: about four times ``IntakeSizes.portion_bytes`` hold a portion as it came, sorted, and on its way to disk.
The cells of a portion are written by as many threads as there are cores; Arrow does its work outside of Python's lock.
"""

from __future__ import annotations

import multiprocessing
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ebb.index.columns import check_drift
from ebb.index.errors import EngineError, UnreadableInputError
from ebb.warehouse.intake.batch import ArrowStream
from ebb.warehouse.intake.judge import RAW, survey
from ebb.warehouse.intake.parts import Part, collect
from ebb.warehouse.intake.sizes import IntakeSizes
from ebb.warehouse.intake.source import InputFile
from ebb.warehouse.intake.staged import Staged, Survey
from ebb.warehouse.intake.task import Task
from ebb.warehouse.parquet.arrow import arrow_schema, columns_of_arrow
from ebb.warehouse.table.spec import TableSpec

__all__ = ["ArrowSource", "file_source", "portions", "stream_source"]

_STREAM = "the Arrow stream"
_INDEX = re.compile(r"__index_level_\d+__")  # what pandas calls an index without a name
_BATCH_RECORDS = 64 * 1024


@dataclass(frozen=True, slots=True)
class ArrowSource:
    """The records of a batch as Arrow reads them, checked for the table's columns."""

    read: Callable[[], Iterable[pa.RecordBatch]]  # each call begins anew, if the batch can be read again
    where: str  # what they are read from, for messages
    spec: TableSpec
    sizes: IntakeSizes

    def survey(self) -> Survey:
        """Return how far the batch reaches; reads it once."""
        return sum((survey(portion, self.spec) for portion in self._portions()), Survey())

    def stage(self, task: Task) -> Staged:
        """Write the batch; reads it once."""
        return collect(task.table, task.folder, lambda: self._run(task))

    def _run(self, task: Task) -> Iterator[Part]:
        with ThreadPoolExecutor(max_workers=multiprocessing.cpu_count()) as pool:
            for number, portion in enumerate(self._portions()):
                try:
                    yield task.numbered(number).take_in(portion, pool.map)
                except OSError as error:
                    step = "nothing was changed; make room and run it again"
                    raise EngineError("the batch cannot be staged", error, step) from error

    def _portions(self) -> Iterator[pa.Table]:
        """Yield the records with the types of the table's columns."""
        schema = pa.schema(list(arrow_schema(self.spec.columns))[: len(self.spec.columns)])  # without the slots
        for batches in portions(self._readable(), self.sizes.portion_bytes):
            columns = [
                _fitted(pa.chunked_array([batch.column(place) for batch in batches]), field, self.where)
                for place, field in enumerate(schema)
            ]
            table = pa.table(columns, schema=schema)
            yield table.append_column(RAW, pa.nulls(table.num_rows, pa.string()))

    def _readable(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self.read():
                batch.validate(full=True)  # what is not UTF-8, or points outside of its memory, goes no further
                yield batch
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(self.where, error) from error


def file_source(files: Sequence[InputFile], spec: TableSpec, sizes: IntakeSizes) -> ArrowSource:
    """Return the records of Parquet files that have the table's columns."""
    where = str(files[0].path) if len(files) == 1 else "the batch"
    return ArrowSource(lambda: _file_batches(files, sizes), where, spec, sizes)


def _file_batches(files: Sequence[InputFile], sizes: IntakeSizes) -> Iterator[pa.RecordBatch]:
    for file in files:
        metadata = file.footer.metadata
        records = sizes.portion_bytes * metadata.num_rows // max(1, file.memory_bytes)
        opened = pq.ParquetFile(
            file.path, metadata=metadata, coerce_int96_timestamp_unit="us", page_checksum_verification=True
        )
        with opened:
            yield from opened.iter_batches(batch_size=max(1, min(_BATCH_RECORDS, records)))


def stream_source(stream: ArrowStream, spec: TableSpec, sizes: IntakeSizes) -> ArrowSource:
    """Return the records of Arrow data; other columns than the table's are refused when it is read."""

    def read() -> Iterator[pa.RecordBatch]:
        with pa.RecordBatchReader.from_stream(stream) as reader:
            schema = pa.schema([field for field in reader.schema if not _INDEX.fullmatch(field.name)])
            check_drift(_STREAM, columns_of_arrow(schema, _STREAM), spec.columns)
            for batch in reader:
                yield batch.select(schema.names)

    return ArrowSource(read, _STREAM, spec, sizes)


def portions(batches: Iterable[pa.RecordBatch], size_bytes: int) -> Iterator[list[pa.RecordBatch]]:
    """Cut a stream into lists of batches of about ``size_bytes``; a record that is larger is a portion alone."""
    waiting, waiting_bytes = list[pa.RecordBatch](), 0
    for batch in batches:
        for piece in _pieces(batch, size_bytes):
            if waiting and waiting_bytes + piece.nbytes > size_bytes:
                yield waiting
                waiting, waiting_bytes = [], 0
            waiting.append(piece)
            waiting_bytes += piece.nbytes
    if waiting:
        yield waiting


def _pieces(batch: pa.RecordBatch, size_bytes: int) -> Iterator[pa.RecordBatch]:
    records = max(1, batch.num_rows * size_bytes // max(1, batch.nbytes))
    for start in range(0, batch.num_rows, records):
        yield batch.slice(start, records)


def _fitted(column: pa.ChunkedArray, field: pa.Field, where: str) -> pa.ChunkedArray:
    """Return a column with the type that the table gives it.  Times without a zone are UTC."""
    try:
        if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
            column = _microseconds(column)
        try:
            return column.cast(field.type)
        except pa.ArrowInvalid:
            # Arrow refuses a slice whose values lie more than 2 GB behind its start: a copy of it starts anew.
            return pa.chunked_array(
                [chunk.take(pa.array(range(len(chunk)), pa.int64())) for chunk in column.chunks]
            ).cast(field.type)
    except pa.ArrowException as error:
        raise _unreadable(where, f"column {field.name}: {error}") from error


def _microseconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return nanoseconds as microseconds: one past a slot's end belongs to the next slot, so round up."""
    numbers = column.cast(pa.int64())
    nanoseconds = pc.fill_null(numbers, 0).to_numpy()
    rounded = nanoseconds // 1000 + (nanoseconds % 1000 > 0)
    missing = pc.is_null(column).to_numpy() if column.null_count else None
    return pa.chunked_array([pa.array(rounded.astype(np.int64), pa.timestamp("us"), mask=missing)])


def _unreadable(where: str, reason: object) -> UnreadableInputError:
    said = str(reason).splitlines()[0] if str(reason) else type(reason).__name__  # a traceback may follow
    return UnreadableInputError(where, f"it cannot be read ({said})", "nothing was changed; write it again")
