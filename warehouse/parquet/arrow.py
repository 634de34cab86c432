"""Arrow's side of columns and records: schemas of cell files, tables made to fit them, and keys of sorted tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ebb.index.columns import EXPIRES_SLOT, SLOT_COLUMNS, Column, delta_fields
from ebb.index.errors import SchemaDriftError
from ebb.index.keys import code

__all__ = ["Codes", "arrow_schema", "arrow_type", "columns_of_arrow", "conform", "key_starts", "moment_of"]

_BINARY = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view)


def columns_of_arrow(schema: pa.Schema, where: str) -> tuple[Column, ...]:
    """Return the columns of an Arrow schema as Spark reads a Parquet file with it."""
    return tuple(Column(field.name, _ddl_of_arrow(field.type, field.name, where)) for field in schema)


def _ddl_of_arrow(kind: pa.DataType, name: str, where: str) -> str:
    simple = {
        pa.bool_(): "boolean",
        pa.int8(): "tinyint",
        pa.int16(): "smallint",
        pa.uint8(): "smallint",
        pa.int32(): "int",
        pa.uint16(): "int",
        pa.int64(): "bigint",
        pa.uint32(): "bigint",
        pa.uint64(): "decimal(20,0)",
        pa.float32(): "float",
        pa.float64(): "double",
        pa.date32(): "date",
        pa.null(): "string",
    }
    if kind in simple:
        return simple[kind]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "string"
    if any(is_binary(kind) for is_binary in _BINARY):
        return "binary"
    if pa.types.is_timestamp(kind):
        return "timestamp"
    if pa.types.is_decimal128(kind) or pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_dictionary(kind):
        return _ddl_of_arrow(kind.value_type, name, where)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"array<{_ddl_of_arrow(kind.value_type, name, where)}>"
    if pa.types.is_map(kind):
        return f"map<{_ddl_of_arrow(kind.key_type, name, where)},{_ddl_of_arrow(kind.item_type, name, where)}>"
    if pa.types.is_struct(kind):
        return "struct<" + ",".join(f"{f.name}:{_ddl_of_arrow(f.type, name, where)}" for f in kind) + ">"
    raise SchemaDriftError(where, name, f"has type {kind}, which Delta tables cannot hold", "cast it to another type")


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    """Return the Arrow schema of the cell files: the user's columns and the two slots."""
    return _arrow_schema(tuple(columns))


def arrow_type(column: Column) -> pa.DataType:
    """Return the Arrow type of a column."""
    return arrow_schema([column]).field(0).type


@lru_cache(maxsize=64)
def _arrow_schema(columns: tuple[Column, ...]) -> pa.Schema:
    from deltalake import Schema

    fields = delta_fields((*columns, *(Column(name, "bigint") for name in SLOT_COLUMNS)))
    schema = Schema.from_json(json.dumps({"type": "struct", "fields": fields}))
    return pa.schema(schema.to_arrow())


def key_starts(table: pa.Table, key: Sequence[str]) -> Any:
    """Return the offsets at which a new key starts, as an array of numbers; the first is 0."""
    changes: Any = None
    for name in key:
        column = table[name]
        differs = pc.not_equal(column.slice(1), column.slice(0, table.num_rows - 1))
        changes = differs if changes is None else pc.or_(changes, differs)
    found = pc.indices_nonzero(changes).to_numpy()
    return np.concatenate([np.zeros(1, np.int64), found.astype(np.int64) + 1])


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Give a table the columns of ``schema``: those added after the file was written are null."""
    if table.schema.equals(schema):
        return table
    columns = [
        table[field.name].cast(field.type) if field.name in table.column_names else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


class Codes(Sequence[bytes]):
    """The codes of a sorted table's records, each its key and expiration slot, computed when asked for.

    Without slots, those of the keys alone.
    """

    def __init__(self, table: pa.Table, key: Sequence[str], *, with_slots: bool = True) -> None:
        self._columns = [_comparable(table[name]) for name in (*key, *[EXPIRES_SLOT][:with_slots])]
        self._records = table.num_rows

    def __len__(self) -> int:
        return self._records

    def __getitem__(self, place: Any) -> Any:
        return code([column[place].as_py() for column in self._columns])


def _comparable(column: Any) -> Any:
    """Return a column as one array, times as the integers that they are."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_timestamp(whole.type):
        return whole.cast(pa.int64())
    return whole.cast(pa.int32()) if pa.types.is_date32(whole.type) else whole


def moment_of(moment: int, kind: pa.DataType) -> pa.Scalar:
    """Return a moment as a value of a time column."""
    if pa.types.is_integer(kind):
        return pa.scalar(moment)
    width = pa.int32() if pa.types.is_date32(kind) else pa.int64()
    return pa.scalar(moment, width).cast(kind)
