"""SQL over pinned windows without a JVM: DuckDB asks, and data files are read as for a scan, checksums verified.

Each table is a view that shows one window. The engine gets the columns and records that a query needs, nothing
else: no files, no extensions, no settings. What plain SQL means is the same as through Spark: nulls come first, times
are UTC, sums of integers are integers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

from ebb.index.columns import EXPIRES_SLOT
from ebb.index.errors import EngineError, InputError, UpgradeError, UsageError, WarehouseError
from ebb.warehouse.parquet.arrow import arrow_schema, conform, moment_of
from ebb.warehouse.parquet.chunks import read_row_groups
from ebb.warehouse.parquet.datafile import DataFile
from ebb.warehouse.parquet.thrift import MAGIC
from ebb.warehouse.read.answer import portions
from ebb.warehouse.read.pool import in_parallel
from ebb.warehouse.read.window import Window
from ebb.warehouse.sql.missing import missing_table
from ebb.warehouse.store.errors import disk_error, refusal

__all__ = ["DuckSession"]

_SETTINGS = (
    "SET TimeZone = 'UTC'",
    "SET default_null_order = 'nulls_first_on_asc_last_on_desc'",
    "SET ieee_floating_point_ops = false",  # division by zero is an error
    "SET temp_directory = ''",  # no records may lie in files that nobody erases
    "SET python_enable_replacements = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
# The engine advises to change its settings, which nobody can: to the end of the sentence, or the whole of it.
_UNSETTABLE = re.compile(r"(,? or |(?<=\. )[^.]*?\b)(SET|PRAGMA|INSTALL|LOAD) \w.*")
_BATCH_RECORDS = 10_000
_OF_THE_QUERY = (duckdb.ParserException, duckdb.CatalogException, duckdb.BinderException, duckdb.PermissionException)


class DuckSession:
    """A warm engine; ``open_window`` returns the window that a table's name stands for now, or refuses to."""

    def __init__(self, names: Sequence[str], open_window: Callable[[str], Window]) -> None:
        self.names = tuple(names)
        self._open = open_window
        self._shown: dict[str, tuple[Any, ...]] = {}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ebb-sql")
        self._failed: list[WarehouseError] = []  # while files were read; the engine hands on their text only
        self._connection = duckdb.connect(":memory:")
        for setting in _SETTINGS:
            self._connection.execute(setting)

    def answer(self, text: str, limit: int | None = None) -> pa.RecordBatchReader:
        """Stream the answer to one query; anything that would change something is refused.

        One at a time: the next query ends an answer that has not been read to its end.
        """
        self._failed.clear()
        try:
            text.encode()
        except UnicodeEncodeError:
            msg = f"the query {text!r} is not UTF-8; write it in UTF-8"
            raise UsageError(msg) from None
        with self._engine_errors():
            self._check(text)
            refused = self._show_all(text)
            try:
                relation = self._connection.sql(text)
            except duckdb.CatalogException as error:
                for name, why in refused.items():
                    if f"name {name} " in str(error):
                        raise why from error
                raise
            kinds = [str(kind) for kind in relation.types]
            limited = relation if limit is None else relation.limit(limit)
            answer = self._stoppable(lambda: limited.to_arrow_reader(_BATCH_RECORDS))
        schema = _as_spark(answer.schema, kinds)

        def batches() -> Iterator[pa.RecordBatch]:
            with self._engine_errors():
                while (batch := self._stoppable(lambda: next(answer, None))) is not None:
                    yield batch.cast(schema)

        return pa.RecordBatchReader.from_batches(schema, batches())

    def _stoppable(self, work: Callable[[], Any]) -> Any:
        """Do work of the engine so that Ctrl-C ends it: while it works, it hears nothing."""
        waiting = self._thread.submit(work)
        try:
            return waiting.result()
        except KeyboardInterrupt:
            self._connection.interrupt()
            raise

    def _check(self, text: str) -> None:
        kinds = [statement.type.name for statement in self._connection.extract_statements(text)]
        if kinds == ["EXPLAIN"]:  # which may run what it explains
            explained = re.sub(r"^\s*explain\s*(analyze\b|\([^)]*\))?", "", text, count=1, flags=re.IGNORECASE)
            kinds = [statement.type.name for statement in self._connection.extract_statements(explained)]
        if kinds != ["SELECT"]:
            statements = " and ".join(kinds) or "nothing"
            msg = f"one query is answered at a time, and this is {statements}; start it with SELECT or WITH"
            raise UsageError(msg)

    def _show_all(self, text: str) -> dict[str, WarehouseError]:
        """Make the names in a query stand for windows, and return why some cannot: they may be names of something else."""
        refused: dict[str, WarehouseError] = {}
        asks_for_names = re.search(r"\btables\b", text, re.IGNORECASE)
        for name in self.names:
            if asks_for_names or re.search(rf"\b{name}\b", text, re.IGNORECASE):
                try:
                    self._show(self._open(name))
                except (UsageError, InputError, UpgradeError) as error:
                    refused[name] = error
                    self._connection.execute(f'DROP VIEW IF EXISTS "{name}"')
                    self._shown.pop(name, None)
        return refused

    def _show(self, window: Window) -> None:
        """Make a table's name stand for a window."""
        name, state = window.snapshot.table.name, (window.version, window.moment, window.snapshot.mark)
        if self._shown.get(name) == state:
            return
        raw = f"{name}.files"  # no table of a user has a point in its name
        self._connection.register(raw, _Files(window, self._failed))
        self._connection.execute(f'CREATE OR REPLACE VIEW "{name}" AS SELECT * FROM "{raw}"')  # noqa: S608 - names only
        self._shown[name] = state

    @contextmanager
    def _engine_errors(self) -> Iterator[None]:
        """Translate what the engine raises."""
        try:
            yield
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            if self._failed:
                raise self._failed.pop(0) from error
            if refusal(error):
                raise disk_error(error, "the query failed") from error
            if missing := missing_table(str(error), self.names):
                raise missing from error
            text = _first_lines(error)
            if isinstance(error, _OF_THE_QUERY):
                msg = f"the query cannot be run: {text}"
                raise UsageError(msg) from error
            raise EngineError("the query failed", text, "fix the query, or ask Spark", hint="ask_spark") from error


def _first_lines(error: Exception) -> str:
    """Return what the engine says, and what it proposes instead if it does."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    text = re.sub(r"^([A-Z][A-Za-z ]* Error|Error): ", "", lines[0])
    text = _UNSETTABLE.sub("", text).rstrip("!. ")
    proposed = [line for line in lines[1:2] if line.startswith(("Candidate bindings", "Did you mean"))]
    return text if "configuration parameter" in text else "; ".join([text, *proposed])


class _Files(ds.Dataset):
    """The files of a window as the engine knows them: it names columns and a condition, and gets the records."""

    def __init__(self, window: Window, failed: list[WarehouseError]) -> None:
        # Not the base's, which is for files that Arrow reads by itself.
        self._window, self._failed = window, failed
        with window.reading():
            self._files = [window.finder.open(file) for file in window.visible_files()]
        form = ds.ParquetFileFormat()
        self._footers = [form.make_fragment(pa.BufferReader(MAGIC + file.tail)) for file in self._files]

    @property
    def schema(self) -> pa.Schema:
        """Return the user's columns."""
        return self._window.schema()

    def scanner(self, *, columns: Sequence[str] | None = None, filter: Any = None) -> _Scanner:
        """Return what reads some columns of the live records for which a condition holds."""
        names = self.schema.names if columns is None else list(columns)
        condition = ds.field(EXPIRES_SLOT) > (self._window.clock or 0)
        if self._window.moment is not None:
            expires = self._window.snapshot.spec.expires
            kind = arrow_schema(self._window.snapshot.spec.columns).field(expires).type
            condition &= ds.field(expires) > moment_of(self._window.moment, kind)
        if filter is not None:
            condition &= filter
        return _Scanner(self._window.schema(names) if names else pa.schema([]), lambda: self._read(names, condition))

    def _read(self, columns: Sequence[str], condition: Any) -> Iterator[pa.RecordBatch]:
        everything = arrow_schema(self._window.snapshot.spec.columns)
        text = str(condition)
        named = [name for name in everything.names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)]
        schema = pa.schema([everything.field(name) for name in dict.fromkeys([*columns, *named])])

        def work(task: tuple[DataFile, list[int]]) -> pa.Table:
            records = conform(read_row_groups([task], schema.names), schema)
            return records.filter(condition).select(columns)

        def tasks() -> Iterator[tuple[DataFile, list[int]]]:
            for file, footer in zip(self._files, self._footers, strict=True):
                met = footer.subset(condition, schema=everything)
                row_groups = [row_group.id for row_group in met.row_groups]
                for portion in portions(file, row_groups, self._window.finder.sizes):
                    yield file, portion

        try:
            with self._window.reading():
                for table in in_parallel(work, tasks()):
                    yield from table.to_batches()
        except WarehouseError as error:
            self._failed.append(error)
            raise


class _Scanner:
    """A read that has not begun."""

    def __init__(self, schema: pa.Schema, read: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        self.projected_schema, self._read = schema, read

    def to_reader(self) -> pa.RecordBatchReader:
        """Begin to read."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self._read())


def _as_spark(schema: pa.Schema, kinds: Sequence[str]) -> pa.Schema:
    """Give sums of integers, which are of a kind of their own in the engine, the type they have in Spark."""
    for place, kind in enumerate(kinds):
        if kind == "HUGEINT":
            schema = schema.set(place, schema.field(place).with_type(pa.int64()))
    return schema
