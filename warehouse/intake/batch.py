"""A batch has three forms: files, a Spark DataFrame, an Arrow stream.

Whatever a user passes becomes one of them once, at the edge, and is opened once the table is known. Opened, it is one of
two sources with one interface: Spark reads it, or Arrow does, in this process and without a JVM. Both judge, sort and
write with the same code, and give the same digest. Importing this module imports neither.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Union, runtime_checkable

from ebb.index.errors import UnreadableInputError, UsageError
from ebb.warehouse.intake.faults import blamed
from ebb.warehouse.intake.sizes import IntakeSizes
from ebb.warehouse.intake.source import InputFile, check_inputs, find_inputs
from ebb.warehouse.settings import Engine
from ebb.warehouse.table.spec import TableSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ebb.warehouse.intake.quarantine import RefusedFile
    from ebb.warehouse.intake.staged import Staged, Survey
    from ebb.warehouse.intake.task import Task

__all__ = [
    "ArrowStream",
    "Batch",
    "BatchLike",
    "Files",
    "Frame",
    "Refusals",
    "Source",
    "Stream",
    "batch_of",
    "is_nothing",
    "memory_bytes",
    "open_batch",
    "without_engine",
]


class ArrowStream(Protocol):
    """Arrow's own protocol for handing out record batches."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


@dataclass(frozen=True, slots=True)
class Files:
    """Files of Parquet, CSV or JSON lines, and who reads them.  No files are the batch of an empty tick."""

    files: tuple[InputFile, ...] = ()
    engine: Engine = "spark"


@dataclass(frozen=True, slots=True)
class Frame:
    """A Spark DataFrame."""

    frame: DataFrame


@dataclass(frozen=True, slots=True)
class Stream:
    """An Arrow table or reader, a frame of pandas or polars, a DuckDB relation: anything that hands out Arrow data."""

    stream: ArrowStream


@dataclass(frozen=True, slots=True)
class Refusals:
    """Refused records that are judged once more, file by file of the quarantine."""

    files: tuple[RefusedFile, ...]


Batch = Files | Frame | Stream | Refusals


class Source(Protocol):
    """The records of a batch, checked for the table's columns."""

    def survey(self) -> Survey:
        """Read the batch to find out how far it reaches."""

    def stage(self, task: Task) -> Staged:
        """Judge, sort and write the batch."""


@runtime_checkable
class LazyFrame(Protocol):
    """A lazy frame of polars, which hands out records once it is collected."""

    def collect(self) -> ArrowStream: ...


BatchLike = Union[str, Path, Sequence["str | Path"], "DataFrame", ArrowStream, LazyFrame]


def batch_of(value: BatchLike | None, engine: Engine) -> Batch:
    """Return what a user passes as a batch.  ``engine``: who reads files."""
    if value is None:
        return Files()
    if isinstance(value, str | Path):
        return _files([value], engine)
    if type(value).__module__.startswith("pyspark."):  # without importing it
        return Frame(value)
    if isinstance(value, LazyFrame):  # collected once, because a batch may be read twice
        return Stream(value.collect())
    if hasattr(value, "__arrow_c_stream__"):
        return Stream(value)
    if isinstance(value, Sequence) and all(isinstance(name, str | Path) for name in value):
        return _files(value, engine)
    msg = f"a batch of type {type(value).__name__} cannot be read; pass paths, a Spark DataFrame, or Arrow data"
    raise UsageError(msg)


def _files(names: Sequence[str | Path], engine: Engine) -> Files:
    files = find_inputs([str(name) for name in names])
    if names and not files:
        where = ", ".join(str(name) for name in names)
        raise UnreadableInputError(where, "there is no file in it", "leave it out if the tick has no batch")
    return Files(tuple(files), engine)


def is_nothing(batch: Batch) -> bool:
    """Whether a batch is known to have no records without opening it."""
    return isinstance(batch, Files | Refusals) and not batch.files


def without_engine(batch: Batch) -> Batch:
    """Return a batch that starts no JVM if it need not: for one that is only compared with what was applied."""
    return replace(batch, engine="auto") if isinstance(batch, Files) and batch.engine == "spark" else batch


def memory_bytes(batch: Batch) -> int | None:
    """Return about how much memory the records of a batch take; None if nobody knows."""
    return sum(file.memory_bytes for file in batch.files) if isinstance(batch, Files) else None


def open_batch(batch: Batch, spec: TableSpec, *, spark: Callable[[], SparkSession], sizes: IntakeSizes) -> Source:
    """Check that a batch has the table's columns, and return the records of it.  Spark starts only if it reads them."""
    match batch:
        case Files(files, engine):
            pieces = check_inputs(files, spec.input_schema)
            old = [file for file in files if file.has_old_calendar]
            if _is_direct(files, old, engine, sizes):
                from ebb.warehouse.intake.arrow_source import file_source

                return file_source(pieces, spec, sizes)
            from ebb.warehouse.intake import spark_source

            if not old:
                return spark_source.file_source(spark(), pieces, spec, sizes)
            if len(old) < len(files):
                step = "apply the files of that calendar in a batch of their own"
                with blamed(str(old[0].path)):
                    raise UnreadableInputError(
                        old[0].path, "it has dates of the calendar of Spark 2, and others do not", step
                    )
            return spark_source.old_file_source(spark(), files, spec, sizes)
        case Frame(frame):
            from ebb.warehouse.intake.spark_source import frame_source

            return frame_source(frame, spec, sizes)
        case Stream(stream):
            from ebb.warehouse.intake.arrow_source import stream_source

            return stream_source(stream, spec, sizes)
        case Refusals(files):
            from ebb.warehouse.intake.arrow_source import refused_source

            return refused_source(files, spec, sizes)


def _is_direct(files: Sequence[InputFile], old: Sequence[InputFile], engine: Engine, sizes: IntakeSizes) -> bool:
    """Whether files are read without Spark."""
    if engine == "spark":
        return False
    if engine == "auto":
        sizes_bytes = [file.size_bytes if file.format == "parquet" else file.memory_bytes for file in files]
        return not old and sum(sizes_bytes) <= sizes.direct_bytes
    if old:
        what = "it has dates of the calendar of Spark 2, which the engine direct does not read"
        with blamed(str(old[0].path)):
            raise UnreadableInputError(old[0].path, what, "use the engine spark or auto, or write it again")
    return True
