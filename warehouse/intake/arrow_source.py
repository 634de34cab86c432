"""A batch that needs no Spark: files, or whatever hands out Arrow record batches.

Records are taken in portions, each sorted in memory and written as runs of its own, so that memory does not grow with
the batch: about four times ``IntakeSizes.portion_bytes`` hold a portion as it came, sorted, and on its way to disk.
The cells of a portion are written by as many threads as there are cores; Arrow does its work outside of Python's lock.
"""

from __future__ import annotations

import multiprocessing
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from ebb.index.errors import UnreadableInputError
from ebb.index.inputs import matched
from ebb.warehouse.intake.batch import ArrowStream
from ebb.warehouse.intake.compute import computed
from ebb.warehouse.intake.convert import convert_values
from ebb.warehouse.intake.faults import raise_faults
from ebb.warehouse.intake.json_input import decode
from ebb.warehouse.intake.judge import survey
from ebb.warehouse.intake.parts import Part, collect
from ebb.warehouse.intake.quarantine import Refused, RefusedFile
from ebb.warehouse.intake.readers import convert_batch
from ebb.warehouse.intake.received import NO_FILE, RAW, REASON, received
from ebb.warehouse.intake.sizes import IntakeSizes
from ebb.warehouse.intake.source import Piece
from ebb.warehouse.intake.staged import Staged, Survey
from ebb.warehouse.intake.task import Counts, Task
from ebb.warehouse.parquet.arrow import columns_of_arrow
from ebb.warehouse.store.errors import disk_error, first_line
from ebb.warehouse.table.spec import TableSpec

__all__ = [
    "ArrowSource",
    "fields_of",
    "file_source",
    "portions",
    "reasons_at",
    "received_again",
    "refused_source",
    "stream_source",
]

_INDEX = re.compile(r"__index_level_\d+__")  # what pandas calls an index without a name


@dataclass(frozen=True, slots=True)
class ArrowSource:
    """The records of a batch as Arrow reads them."""

    read: Callable[[Task, Counts], Iterable[pa.Table]]  # each call begins anew, if the batch can be read again
    spec: TableSpec
    sizes: IntakeSizes
    pieces: Sequence[Piece] = field(default=())  # if it is files
    refused: Sequence[RefusedFile] = ()  # if it is records that were refused before

    def survey(self) -> Survey:
        """Return how far the batch reaches; reads it once."""
        task, counts = Task.of(self.spec, "", slot=0, own_slots=True), Counts()
        portions = (computed(portion, self.spec, 0) for portion in self.read(task, counts))
        found = sum((survey(portion, self.spec) for portion in portions), Survey())
        raise_faults(counts.faults)
        return found

    def stage(self, task: Task) -> Staged:
        """Write the batch; reads it once."""
        task = replace(task, pieces={piece.file: piece for piece in self.pieces}, refused=self.refused)
        return collect(task.table, task.folder, lambda: self._run(task))

    def _run(self, task: Task) -> Iterator[Part]:
        with ThreadPoolExecutor(max_workers=multiprocessing.cpu_count()) as pool:
            reading = Counts()
            for number, portion in enumerate(portions(self.read(task, reading), self.sizes.portion_bytes)):
                try:
                    yield task.numbered(number).take_in(portion, Counts(), pool.map)
                except OSError as error:
                    raise disk_error(error, "the batch cannot be staged", note="nothing was changed") from error
            yield task.write((), reading)


def file_source(pieces: Sequence[Piece], spec: TableSpec, sizes: IntakeSizes) -> ArrowSource:
    """Return the records of files."""
    return ArrowSource(lambda task, counts: task.read(pieces, counts), spec, sizes, pieces)


def stream_source(stream: ArrowStream, spec: TableSpec, sizes: IntakeSizes) -> ArrowSource:
    """Return the records of Arrow data; columns that do not fit the table are refused when it is read."""
    is_frame = type(stream).__name__ == "DataFrame"
    what = "the DataFrame" if is_frame else "the Arrow stream"

    def read(_: Task, counts: Counts) -> Iterator[pa.Table]:
        try:
            with pa.RecordBatchReader.from_stream(stream) as reader:
                schema = pa.schema([field for field in reader.schema if not _INDEX.fullmatch(field.name)])

                def type_of(place: int) -> str:
                    return columns_of_arrow(pa.schema([schema.field(place)]), what)[0].type

                places = matched(what, schema.names, spec.input_schema, type_of)
                first = 0
                for batch in counts.timed("read", reader):
                    batch.validate(full=True)  # what is not UTF-8, or points outside of its memory, goes no further
                    for piece in _pieces(batch.select(schema.names), sizes.portion_bytes):
                        yield convert_batch(piece, places, spec.columns, first=first)
                        first += piece.num_rows
        except (pa.ArrowException, OSError) as error:
            # What pandas cannot convert comes with the column as a second argument.
            reason = "; ".join(map(str, error.args)) if len(error.args) > 1 else first_line(error)
            step = f"nothing was changed; {'give each column one type' if is_frame else 'write it again'}"
            raise UnreadableInputError(what, f"it cannot be read ({reason})", step) from error

    return ArrowSource(read, spec, sizes)


def refused_source(files: Sequence[RefusedFile], spec: TableSpec, sizes: IntakeSizes) -> ArrowSource:
    """Return records that were refused before, as they came then.  Requires records that :func:`fields_of` reads."""

    def read(_: Task, __: Counts) -> Iterator[pa.Table]:
        for number, file in enumerate(files):
            yield received_again(file.records, spec, number)

    return ArrowSource(read, spec, sizes, refused=files)


def reasons_at(records: Sequence[Refused], spec: TableSpec, slot: int) -> list[str | None]:
    """Return why refused records would be refused by an update now; None for those that would not be."""
    task = Task.of(spec, "", slot=slot, own_slots=False)
    found: list[str | None] = task.judge(task.stamp(received_again(records, spec)))[REASON].to_pylist()
    return found


def received_again(records: Sequence[Refused], spec: TableSpec, number: int = NO_FILE) -> pa.Table:
    """Return refused records as they would be received now: what cannot be read is null."""
    columns = [column for column in spec.columns if column.name not in spec.input_schema.computed]
    rows = [fields_of(record.record, spec) or {} for record in records]
    found = {column.name: convert_values([row.get(column.name) for row in rows], column) for column in columns}
    places = pa.array(range(len(rows)), pa.int64())
    table = received(found, spec.columns, len(rows), lines=places, texts=lambda some: [""] * len(some), file=number)
    raw = pa.array([record.record for record in records], pa.string())
    return table.set_column(table.column_names.index(RAW), RAW, raw)


def fields_of(record: str, spec: TableSpec) -> dict[str, Any] | None:
    """Return the fields of a refused record under the names of the table; None if it cannot be judged again."""
    try:
        found = decode(record)
    except (ValueError, ArithmeticError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    fields = {spec.inputs.rename.get(name, name): value for name, value in found.items()}
    return fields if {column.name for column in spec.columns}.issuperset(fields) else None


def portions(tables: Iterable[pa.Table], size_bytes: int) -> Iterator[pa.Table]:
    """Cut a stream into tables of about ``size_bytes``; a record that is larger is a portion alone."""
    waiting, waiting_bytes = list[pa.Table](), 0
    for table in tables:
        for piece in _pieces(table, size_bytes):
            if waiting and waiting_bytes + piece.nbytes > size_bytes:
                yield pa.concat_tables(waiting)
                waiting, waiting_bytes = [], 0
            waiting.append(piece)
            waiting_bytes += piece.nbytes
    if waiting:
        yield pa.concat_tables(waiting)


def _pieces(records: Any, size_bytes: int) -> Iterator[Any]:
    """Cut a table or record batch."""
    count = max(1, records.num_rows * size_bytes // max(1, records.nbytes))
    for start in range(0, records.num_rows, count):
        yield records.slice(start, count)
