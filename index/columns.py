"""Columns and types: one spelling, Spark's DDL names, translated from and to Delta.

``bigint`` in a table's schema, in a message and in ``--schema`` is the same word. Only the columns of the user are
described here; ``_ins_slot`` and ``_exp_slot`` and the partition columns ``_gen``, ``_g`` and ``_e`` are added where
files and tables are made. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from ebb.index.errors import UsageError
from ebb.index.timeline import TimeKind
from ebb.index.types import TYPES, ScalarType, scalar_type

__all__ = [
    "EXPIRES_SLOT",
    "INSERTED_SLOT",
    "PARTITION_COLUMNS",
    "SLOT_COLUMNS",
    "Column",
    "columns_of_delta",
    "delta_fields",
    "inner_columns",
    "parse_columns",
    "time_kind",
]

INSERTED_SLOT = "_ins_slot"


EXPIRES_SLOT = "_exp_slot"


SLOT_COLUMNS = (INSERTED_SLOT, EXPIRES_SLOT)


PARTITION_COLUMNS = ("_gen", "_g", "_e")


_DELTA_NAMES = {kind.delta: kind.name for kind in TYPES.values()}
_DDL_ALIASES = {
    **_DELTA_NAMES,
    "real": "float",
    "dec": "decimal(10,0)",
    "decimal": "decimal(10,0)",
    "numeric": "decimal(10,0)",
    "timestamp_ltz": "timestamp",
    "varchar": "string",
    "text": "string",
}
_TOKEN = re.compile(r"\s*(?:([A-Za-z_][A-Za-z0-9_]*|`[^`]+`)|([0-9]+)|([<>(),:]))")


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the user."""

    name: str
    type: str  # Spark's DDL name, in lower case

    @property
    def scalar(self) -> ScalarType | None:
        """Return what is known of its type; None if it is nested."""
        return scalar_type(self.type)

    @property
    def is_sortable(self) -> bool:
        """Whether records can be kept in the order of this column."""
        return self.scalar is not None

    @property
    def is_floating(self) -> bool:
        """Whether the column can hold NaN and negative zero."""
        return self.scalar is not None and self.scalar.is_floating


def time_kind(column: Column) -> TimeKind:
    """Return what kind of time a column holds."""
    if column.type in ("timestamp", "date"):
        return TimeKind(column.type)
    if column.type in ("bigint", "int"):
        return TimeKind.INTEGER
    msg = f"time column {column.name} has type {column.type}; it must be timestamp, date, bigint or int"
    raise UsageError(msg)


class _Parser:
    """A recursive-descent parser of Spark's DDL: ``name TYPE, ...`` with nested types."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[str] = []
        at, end = 0, len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if not match:
                self.fail(f"cannot read {text[at : at + 40].strip()[:20]!r}")
            self.tokens.append(match[0].strip())
            at = match.end()
        self.at = 0

    def fail(self, why: str) -> NoReturn:
        msg = f'schema "{self.text}": {why}; write it like "tail STRING, dep TIMESTAMP, price DECIMAL(10,2)"'
        raise UsageError(msg)

    def take(self, expected: str | None = None) -> str:
        if self.at == len(self.tokens):
            self.fail(f"it ends where {expected or 'a name or type'} should be")
        token = self.tokens[self.at]
        if expected is not None and token != expected:
            self.fail(f"{token!r} stands where {expected!r} should be")
        self.at += 1
        return token

    def sees(self, token: str) -> bool:
        return self.at < len(self.tokens) and self.tokens[self.at] == token

    def columns(self) -> tuple[Column, ...]:
        columns = [self.column()]
        while self.sees(","):
            self.take()
            columns.append(self.column())
        if self.at < len(self.tokens):
            self.fail(f"{self.tokens[self.at]!r} stands where a comma should be")
        return tuple(columns)

    def column(self) -> Column:
        name = self.take().strip("`")
        if self.sees(":"):
            self.take()
        return Column(name, self.type())

    def type(self) -> str:
        word = self.take().lower()
        if word == "array":
            self.take("<")
            inner = self.type()
            self.take(">")
            return f"array<{inner}>"
        if word == "map":
            self.take("<")
            key = self.type()
            self.take(",")
            value = self.type()
            self.take(">")
            return f"map<{key},{value}>"
        if word == "struct":
            self.take("<")
            fields = [self.column()]
            while self.sees(","):
                self.take()
                fields.append(self.column())
            self.take(">")
            return "struct<" + ",".join(f"{f.name}:{f.type}" for f in fields) + ">"
        if word in ("decimal", "dec", "numeric") and self.sees("("):
            self.take("(")
            precision = self.take()
            scale = "0"
            if self.sees(","):
                self.take()
                scale = self.take()
            self.take(")")
            if not (
                precision.isdigit() and scale.isdigit() and 1 <= int(precision) <= 38 and int(scale) <= int(precision)
            ):
                self.fail(f"decimal({precision},{scale}) must have a precision of 1 to 38 and a scale within it")
            return f"decimal({precision},{scale})"
        word = _DDL_ALIASES.get(word, word)
        if scalar_type(word) is None:
            self.fail(f"type {word!r} is not known; use one of {', '.join(TYPES)}, decimal, array, struct, map")
        return word


def parse_columns(text: str) -> tuple[Column, ...]:
    """Read columns written as Spark DDL.

    >>> parse_columns("tail STRING, tags ARRAY<INT>")
    (Column(name='tail', type='string'), Column(name='tags', type='array<int>'))
    """
    return _Parser(text).columns()


def inner_columns(ddl: str) -> tuple[Column, ...]:
    """Return what a nested type holds: the element of an array, key and value of a map, the fields of a struct.

    >>> inner_columns("map<string,int>")
    (Column(name='key', type='string'), Column(name='value', type='int'))
    """
    if ddl.startswith("array<"):
        return (Column("element", ddl[6:-1]),)
    if ddl.startswith("struct<"):
        return _Parser(ddl[7:-1]).columns()
    parser = _Parser(ddl[4:-1])
    key = parser.type()
    parser.take(",")
    return (Column("key", key), Column("value", parser.type()))


def _delta_type(ddl: str) -> Any:
    """Return Delta's JSON form of a type."""
    kind = scalar_type(ddl)
    if kind is not None:
        return kind.delta
    inner = inner_columns(ddl)
    if ddl.startswith("array<"):
        return {"type": "array", "elementType": _delta_type(inner[0].type), "containsNull": True}
    if ddl.startswith("struct<"):
        return {"type": "struct", "fields": [_delta_field(column) for column in inner]}
    key, value = (_delta_type(column.type) for column in inner)
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def _delta_field(column: Column) -> dict[str, Any]:
    return {"name": column.name, "type": _delta_type(column.type), "nullable": True, "metadata": {}}


def delta_fields(columns: Sequence[Column]) -> list[dict[str, Any]]:
    """Return the fields of a Delta schema for the columns."""
    return [_delta_field(column) for column in columns]


def _ddl_of_delta(value: Any) -> str:
    if isinstance(value, str):
        return _DELTA_NAMES.get(value, value)
    match value["type"]:
        case "array":
            return f"array<{_ddl_of_delta(value['elementType'])}>"
        case "map":
            return f"map<{_ddl_of_delta(value['keyType'])},{_ddl_of_delta(value['valueType'])}>"
        case _:
            return "struct<" + ",".join(f"{f['name']}:{_ddl_of_delta(f['type'])}" for f in value["fields"]) + ">"


def columns_of_delta(schema_json: str) -> tuple[Column, ...]:
    """Return the user's columns of a Delta schema."""
    hidden = (*SLOT_COLUMNS, *PARTITION_COLUMNS)
    fields = json.loads(schema_json)["fields"]
    return tuple(Column(f["name"], _ddl_of_delta(f["type"])) for f in fields if f["name"] not in hidden)
