"""SQL over pinned windows without a JVM: DuckDB reads the data files through Arrow, page checksums verified.

Each table is a view that shows one window. The engine gets the columns and row groups that a query needs, nothing
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

from index.errors import CorruptionError, EngineError, UsageError
from warehouse.schema import EXPIRES_SLOT, arrow_schema
from warehouse.window import Window

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
_DAMAGE = ("CRC", "No such file", "arquet")  # what Arrow says of files
_OF_THE_QUERY = (duckdb.ParserException, duckdb.CatalogException, duckdb.BinderException, duckdb.PermissionException)
_DIGITS = 38  # a decimal of so many is DuckDB's sum of integers


class DuckSession:
    """A warm engine; ``open_window`` returns the window that a table's name stands for now."""

    def __init__(self, names: Sequence[str], open_window: Callable[[str], Window]) -> None:
        self.names = tuple(names)
        self._open = open_window
        self._shown: dict[str, tuple[int, int | None]] = {}
        self._connection = duckdb.connect(":memory:")
        for setting in _SETTINGS:
            self._connection.execute(setting)

    def answer(self, text: str, limit: int | None = None) -> pa.RecordBatchReader:
        """Stream the answer to one query; anything that would change something is refused."""
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
        files = [window.finder.open(file) for file in window.visible_files()]
        options = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
        schema = arrow_schema(window.snapshot.spec.columns)
        paths = [f"{file.table}/{file.path}" for file in files]
        form = ds.ParquetFileFormat(default_fragment_scan_options=options)
        held: Any = ds.dataset(paths, schema=schema, format=form) if paths else schema.empty_table()
        self._connection.register(raw, held)
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
            text = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
            text = re.sub(r"^([A-Z][A-Za-z ]* Error|Error): ", "", text)
            if any(sign in str(error) for sign in _DAMAGE):
                step = "restore the file from a backup; ebb scan names it"
                raise CorruptionError("a data file cannot be read", text, step) from error
            if isinstance(error, duckdb.CatalogException) and self.names:
                text += f"; there are {', '.join(self.names)}"
            if isinstance(error, _OF_THE_QUERY):
                msg = f"the query cannot be run: {text}"
                raise UsageError(msg) from error
            raise EngineError("the query failed", text, "mend the query, or ask with --engine spark") from error


def _as_spark(schema: pa.Schema) -> pa.Schema:
    """Give sums of integers the type they have in Spark."""
    for place, field in enumerate(schema):
        if field.type == pa.decimal128(_DIGITS, 0):
            schema = schema.set(place, field.with_type(pa.int64()))
    return schema
