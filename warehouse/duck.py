"""SQL over pinned windows without a JVM: DuckDB asks, and data files are read as for a scan, checksums verified.

Each table is a view that shows one window. The engine gets the columns and records that a query needs, nothing
else: no files, no extensions, no settings. What plain SQL means is the same as through Spark: nulls come first, times
are UTC, sums of integers are integers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

from index.errors import EngineError, UsageError, WarehouseError
from warehouse.cells import conform
from warehouse.parquet import DataFile
from warehouse.schema import EXPIRES_SLOT, arrow_schema
from warehouse.window import Window, in_parallel, portions

__all__ = ["DuckSession"]

_SETTINGS = (
    "SET TimeZone = 'UTC'",
    "SET default_null_order = 'nulls_first_on_asc_last_on_desc'",
    "SET ieee_floating_point_ops = false",  # division by zero is an error
    "SET python_enable_replacements = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
_BATCH_RECORDS = 10_000
_OF_THE_QUERY = (duckdb.ParserException, duckdb.CatalogException, duckdb.BinderException, duckdb.PermissionException)
_DIGITS = 38  # a decimal of so many is DuckDB's sum of integers


class DuckSession:
    """A warm engine; ``open_window`` returns the window that a table's name stands for now."""

    def __init__(self, names: Sequence[str], open_window: Callable[[str], Window]) -> None:
        self.names = tuple(names)
        self._open = open_window
        self._shown: dict[str, tuple[int, int | None]] = {}
        self._failed: list[WarehouseError] = []  # while files were read; the engine hands on their text only
        self._connection = duckdb.connect(":memory:")
        for setting in _SETTINGS:
            self._connection.execute(setting)

    def answer(self, text: str, limit: int | None = None) -> pa.RecordBatchReader:
        """Stream the answer to one query; anything that would change something is refused."""
        self._failed.clear()
        with self._told():
            self._check(text)
            for name in self.names:
                if re.search(rf"\b{name}\b", text, re.IGNORECASE):
                    self._show(self._open(name))
            relation = self._connection.sql(text)
            found = (relation if limit is None else relation.limit(limit)).to_arrow_reader(_BATCH_RECORDS)
        schema = _as_spark(found.schema)

        def batches() -> Iterator[pa.RecordBatch]:
            with self._told():
                for batch in found:
                    yield batch.cast(schema)

        return pa.RecordBatchReader.from_batches(schema, batches())

    def _check(self, text: str) -> None:
        statements = self._connection.extract_statements(text)
        kinds = [statement.type.name for statement in statements]
        if kinds not in (["SELECT"], ["EXPLAIN"]):
            found = " and ".join(kinds) or "nothing"
            msg = f"ebb sql answers one query, and this is {found}; start it with SELECT or WITH"
            raise UsageError(msg)

    def _show(self, window: Window) -> None:
        """Make a table's name stand for a window."""
        name, state = window.snapshot.table.name, (window.version, window.as_of)
        if self._shown.get(name) == state:
            return
        raw = f"{name}.files"  # no table of a user has a point in its name
        self._connection.register(raw, _Files(window, self._failed))
        columns = ", ".join('"' + column.replace('"', '""') + '"' for column in window.columns)
        visible = f'"{EXPIRES_SLOT}" > {window.clock if window.clock is not None else 0}'
        self._connection.execute(f'CREATE OR REPLACE VIEW "{name}" AS SELECT {columns} FROM "{raw}" WHERE {visible}')  # noqa: S608 - names only
        self._shown[name] = state

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Translate what the engine raises."""
        try:
            yield
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            if self._failed:
                raise self._failed.pop(0) from error
            told = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
            text = re.sub(r"^([A-Z][A-Za-z ]* Error|Error): ", "", told[0])
            text += "".join(f"; {line}" for line in told[1:2] if line.startswith(("Candidate", "Did you mean")))
            if isinstance(error, duckdb.CatalogException) and self.names:
                text += f"; there are {', '.join(self.names)}"
            if isinstance(error, _OF_THE_QUERY):
                msg = f"the query cannot be run: {text}"
                raise UsageError(msg) from error
            raise EngineError("the query failed", text, "mend the query, or ask with --engine spark") from error


class _Files(ds.Dataset):
    """The files of a window as the engine knows them: it names columns and a condition, and gets the records."""

    def __init__(self, window: Window, failed: list[WarehouseError]) -> None:
        # Not the base's, which is for files that Arrow reads by itself.
        self._window, self._failed = window, failed
        self._files = [window.finder.open(file) for file in window.visible_files()]
        form = ds.ParquetFileFormat()
        self._footers = [form.make_fragment(pa.BufferReader(_bytes(file))) for file in self._files]

    @property
    def schema(self) -> pa.Schema:
        """Return all columns."""
        return arrow_schema(self._window.snapshot.spec.columns)

    def scanner(self, *, columns: Sequence[str], filter: Any = None) -> _Scanner:
        """Return what reads some columns of the records for which a condition holds."""
        return _Scanner(pa.schema([self.schema.field(name) for name in columns]), lambda: self._read(columns, filter))

    def _read(self, columns: Sequence[str], condition: Any) -> Iterator[pa.RecordBatch]:
        text = "" if condition is None else str(condition)
        named = [name for name in self.schema.names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)]
        schema = pa.schema([self.schema.field(name) for name in dict.fromkeys([*columns, *named])])

        def work(task: tuple[DataFile, list[int]]) -> pa.Table:
            found = conform(task[0].read(task[1], schema.names), schema)
            return (found if condition is None else found.filter(condition)).select(columns)

        def tasks() -> Iterator[tuple[DataFile, list[int]]]:
            for file, footer in zip(self._files, self._footers, strict=True):
                met = footer if condition is None else footer.subset(condition, schema=self.schema)
                for groups, _ in portions(file, [group.id for group in met.row_groups]):
                    yield file, groups

        try:
            for table in in_parallel(work, tasks()):
                yield from table.to_batches()
        except WarehouseError as error:
            self._failed.append(error)
            raise


def _bytes(file: DataFile) -> bytes:
    """Return a file that has nothing but the footer."""
    sink = pa.BufferOutputStream()
    file.footer.write_metadata_file(sink)
    return sink.getvalue().to_pybytes()


class _Scanner:
    """A read that has not begun."""

    def __init__(self, schema: pa.Schema, read: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        self.projected_schema, self._read = schema, read

    def to_reader(self) -> pa.RecordBatchReader:
        """Begin to read."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self._read())


def _as_spark(schema: pa.Schema) -> pa.Schema:
    """Give sums of integers the type they have in Spark."""
    for place, field in enumerate(schema):
        if field.type == pa.decimal128(_DIGITS, 0):
            schema = schema.set(place, field.with_type(pa.int64()))
    return schema
