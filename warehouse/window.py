"""Reading one window without a JVM: pinned files, read with Arrow, expired records hidden.

A window is a snapshot at its clock, or at a later moment ``as_of`` for which records are hidden by their exact
expiration time. Files whose slots tell that nothing in them is visible are not opened; row groups whose keys tell
that nothing in them is asked for are not read. Both sides of each decision give the same answer, only slower.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from index.errors import InputError, UsageError
from index.predicate import And, Compare, In, IsNull, Literal, Name, Not, Operand, Or, Predicate
from index.timeline import TimeKind
from warehouse.cells import conform, leaf_of, open_parquet, read_groups
from warehouse.schema import EXPIRES_SLOT, Column, arrow_schema
from warehouse.table import Snapshot

__all__ = ["AllKeys", "KeyList", "KeyPrefix", "KeyRange", "Keys", "Window", "key_value", "parse_value"]

Key = tuple[Any, ...]  # the values of all key columns, or of the leading ones


@dataclass(frozen=True, slots=True)
class AllKeys:
    """Every record."""


@dataclass(frozen=True, slots=True)
class KeyList:
    """Records with one of these keys."""

    keys: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Records with keys from ``low`` to ``high``, both included; None is open."""

    low: Key | None
    high: Key | None


@dataclass(frozen=True, slots=True)
class KeyPrefix:
    """Records whose key starts with these values, the last of them as the start of a text."""

    start: Key


Keys = AllKeys | KeyList | KeyRange | KeyPrefix


def parse_value(column: Column, text: str) -> Any:
    """Read a value of a column from text."""
    try:
        match column.type:
            case "string":
                return text
            case "bigint" | "int" | "smallint" | "tinyint":
                return pa.scalar(int(text), arrow_schema([column]).field(0).type).as_py()
            case "float" | "double":
                return float(text) + 0.0
            case "boolean":
                return {"true": True, "false": False}[text.strip().lower()]
            case "date":
                return date.fromisoformat(text)
            case "timestamp":
                micros = TimeKind.TIMESTAMP.time(text)
                return pa.scalar(micros, pa.timestamp("us", "UTC")).as_py()
            case "binary":
                return bytes.fromhex(text.removeprefix("0x"))
            case _ if column.type.startswith("decimal"):
                return pa.scalar(Decimal(text), arrow_schema([column]).field(0).type).as_py()
    except (ValueError, KeyError, InvalidOperation, UsageError, pa.ArrowException, OverflowError):
        pass
    hint = {
        "binary": "hexadecimal digits",
        "timestamp": "ISO 8601",
        "date": "like 2013-01-31",
        "boolean": "true or false",
    }
    expected = hint.get(column.type, f"a {column.type}")
    msg = f"value {text!r} does not fit column {column.name} of type {column.type}; write {expected}"
    raise UsageError(msg)


def key_value(columns: Sequence[Column], value: Any) -> Key:
    """Return a key given as one value or a sequence, checked against the key's columns."""
    parts = tuple(value) if isinstance(value, tuple | list) else (value,)
    if not 1 <= len(parts) <= len(columns):
        msg = f"key {value!r} has {len(parts)} parts; the key is {', '.join(c.name for c in columns)}"
        raise UsageError(msg)
    checked = []
    for column, part in zip(columns, parts, strict=False):
        if part is None:
            msg = f"key {column.name} is null, and no record has a null key; leave it out"
            raise UsageError(msg)
        if isinstance(part, str) and column.type != "string":
            checked.append(parse_value(column, part))
            continue
        if isinstance(part, datetime) and part.tzinfo is None:
            part = part.replace(tzinfo=timezone.utc)  # noqa: PLW2901 - naive times are UTC everywhere
        try:
            checked.append(pa.scalar(part, arrow_schema([column]).field(0).type).as_py())
        except (pa.ArrowException, TypeError, OverflowError) as error:
            msg = f"key {part!r} does not fit column {column.name} of type {column.type}; pass a {column.type}"
            raise UsageError(msg) from error
    return tuple(part + 0.0 if isinstance(part, float) else part for part in checked)


class Window:
    """One window of one table.  Every method sees the same records, whatever is committed meanwhile."""

    def __init__(self, snapshot: Snapshot, *, as_of: int | None = None) -> None:
        self.snapshot = snapshot
        self.spec = snapshot.spec
        self.clock = snapshot.ledger.clock
        self.as_of = as_of
        self.schema = arrow_schema(self.spec.columns)
        line = self.spec.timeline
        if as_of is not None and self.clock is not None and as_of < line.end_of(self.clock):
            shown = line.kind.show_time(as_of)
            msg = f"--as-of {shown} is before the clock {line.show_slot(self.clock)}; what expired until then is gone, pass a later time"
            raise InputError(msg)

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the user's columns."""
        return tuple(column.name for column in self.spec.columns)

    def probe(self, keys: Keys, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the records with these keys, ordered by key, then expiration."""
        wanted = self._wanted(columns)
        parts = list(self._read(keys, None, wanted))
        schema = pa.schema([self.schema.field(name) for name in wanted])
        order = [(name, "ascending") for name in (*self.spec.key, EXPIRES_SLOT)]
        with_order = pa.schema([self.schema.field(n) for n in dict.fromkeys([*wanted, *(n for n, _ in order)])])
        table = pa.concat_tables(parts).sort_by(order) if parts else with_order.empty_table()
        return table.select(schema.names)

    def scan(self, columns: Sequence[str] | None = None, where: Predicate | None = None) -> Iterator[pa.Table]:
        """Yield the records of the window, a part of a file at a time, in no particular order."""
        wanted = self._wanted(columns)
        for part in self._read(AllKeys(), where, wanted):
            yield part.select(wanted)

    def _wanted(self, columns: Sequence[str] | None) -> list[str]:
        return [self.spec.column(name).name for name in columns] if columns else list(self.columns)

    def _read(self, keys: Keys, where: Predicate | None, wanted: Sequence[str]) -> Iterator[pa.Table]:
        key = [self.spec.column(name) for name in self.spec.key]
        used = _names(where)
        for name in sorted(used - set(self.columns)):
            known = ", ".join(self.columns)
            msg = f"--where names {name!r}, which is not a column: there are {known}, and a text is written '{name}'"
            raise UsageError(msg)
        needed = list(dict.fromkeys([*wanted, *self.spec.key, self.spec.expires, EXPIRES_SLOT, *used]))
        schema = pa.schema([self.schema.field(name) for name in needed])
        low, high = _ends(keys)
        for file in self.snapshot.files:
            if self.clock is None or file.is_dead(self.clock):
                continue
            parquet = open_parquet(str(self.snapshot.table.folder), file.path)
            with parquet:
                present = [name for name in needed if name in parquet.schema_arrow.names]
                first = leaf_of(parquet, key[0].name)
                for group in range(parquet.metadata.num_row_groups):
                    stats = parquet.metadata.row_group(group).column(first).statistics
                    if (
                        stats is not None
                        and stats.has_min_max
                        and _misses(stats, low, high, self.schema.field(key[0].name).type)
                    ):
                        continue
                    table = conform(read_groups(parquet, [group], file.path, present), schema)
                    mask = self._visible(table)
                    if not isinstance(keys, AllKeys):
                        mask = pc.and_kleene(mask, _key_mask(table, key, keys))
                    if where is not None:
                        mask = pc.and_kleene(mask, _mask(table, where, self.spec.column))
                    table = table.filter(mask)
                    if table.num_rows:
                        yield table

    def _visible(self, table: pa.Table) -> Any:
        mask = pc.greater(table[EXPIRES_SLOT], self.clock)
        if self.as_of is None:
            return mask
        times = table[self.spec.expires]
        moment: Any = self.as_of
        if not pa.types.is_integer(times.type):
            moment = pa.scalar(self.as_of, pa.int32() if pa.types.is_date32(times.type) else pa.int64()).cast(
                times.type
            )
        return pc.and_(mask, pc.greater(times, moment))


def _ends(keys: Keys) -> tuple[Any, Any]:
    """Return the least and the greatest first key value that can match; None is open."""
    match keys:
        case KeyList(values):
            firsts = [key[0] for key in values]
            return (min(firsts), max(firsts)) if firsts else (None, None)
        case KeyRange(low, high):
            return (low[0] if low else None), (high[0] if high else None)
        case KeyPrefix(start):
            return (start[0], start[0] if len(start) > 1 else None)
        case AllKeys():
            return None, None


def _misses(stats: Any, low: Any, high: Any, kind: pa.DataType) -> bool:
    if pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        return False
    return bool((low is not None and stats.max < low) or (high is not None and stats.min > high))


def _key_mask(table: pa.Table, key: Sequence[Column], keys: Keys) -> Any:
    columns = [table[column.name] for column in key]
    match keys:
        case KeyList(values):
            return _list_mask(columns, values)
        case KeyRange(low, high):
            mask = pa.scalar(True)  # noqa: FBT003 - an Arrow value
            if low is not None:
                mask = pc.and_(mask, _after(columns, low))
            if high is not None:
                mask = pc.and_(mask, pc.invert(_after(columns, high, strictly=True)))
            return mask
        case KeyPrefix(start):
            mask = pc.starts_with(columns[len(start) - 1].cast(pa.binary()), pattern=_bytes(start[-1]))
            for column, value in zip(columns, start[:-1], strict=False):
                mask = pc.and_(mask, pc.equal(column, pa.scalar(value, column.type)))
            return mask
        case AllKeys():
            return pa.scalar(True)  # noqa: FBT003 - an Arrow value


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _list_mask(columns: Sequence[pa.ChunkedArray], values: Sequence[Key]) -> Any:
    by_length: dict[int, list[Key]] = {}
    for value in values:
        by_length.setdefault(len(value), []).append(value)
    mask = pa.scalar(False)  # noqa: FBT003 - an Arrow value
    for length, group in by_length.items():
        found = pc.is_in(columns[0], value_set=pa.array([key[0] for key in group], columns[0].type))
        if length > 1 and pc.any(found).as_py():
            wanted = set(group)
            rows = zip(*(column.to_pylist() for column in columns[:length]), strict=True)
            found = pc.and_(found, pa.chunked_array([pa.array([row in wanted for row in rows], pa.bool_())]))
        mask = pc.or_(mask, found)
    return mask


def _after(columns: Sequence[pa.ChunkedArray], bound: Key, *, strictly: bool = False) -> Any:
    """Return which keys are at or after a bound (or strictly after it), comparing its leading parts in order."""
    last = len(bound) - 1
    mask: Any = None
    for place in range(last, -1, -1):
        column, value = columns[place], pa.scalar(bound[place], columns[place].type)
        if mask is None:
            mask = pc.greater(column, value) if strictly else pc.greater_equal(column, value)
        else:
            mask = pc.or_(pc.greater(column, value), pc.and_(pc.equal(column, value), mask))
    return mask


def _names(predicate: Predicate | None) -> set[str]:
    match predicate:
        case None:
            return set()
        case Compare(left, _, right):
            return {side.name for side in (left, right) if isinstance(side, Name)}
        case In(name, _) | IsNull(name):
            return {name.name}
        case Not(inner):
            return _names(inner)
        case And(left, right) | Or(left, right):
            return _names(left) | _names(right)


def _mask(table: pa.Table, predicate: Predicate, column_of: Any) -> Any:
    """Return for each record true, false or null, as SQL would."""
    match predicate:
        case Compare(left, sign, right):
            return _compare(table, left, sign, right, column_of)
        case In(name, values):
            column = table[name.name]
            options = pa.array([_literal(v, column_of(name.name)) for v in values], column.type)
            # An unknown value is neither in nor out of a list.
            return pc.if_else(pc.is_null(column), pa.scalar(None, pa.bool_()), pc.is_in(column, value_set=options))
        case IsNull(name):
            return pc.is_null(table[name.name])
        case Not(inner):
            return pc.invert(_mask(table, inner, column_of))
        case And(left, right):
            return pc.and_kleene(_mask(table, left, column_of), _mask(table, right, column_of))
        case Or(left, right):
            return pc.or_kleene(_mask(table, left, column_of), _mask(table, right, column_of))


def _literal(literal: Literal, column: Column) -> Any:
    if column.type == "string" and not literal.is_text:
        msg = f"--where compares column {column.name} of type string with {literal.text}; write it '{literal.text}'"
        raise UsageError(msg)
    if column.type in ("bigint", "int", "smallint", "tinyint") and "." in literal.text:
        return Decimal(literal.text)
    return parse_value(column, literal.text)


def _compare(table: pa.Table, left: Operand, sign: str, right: Operand, column_of: Any) -> Any:
    if isinstance(left, Literal) and isinstance(right, Literal):
        msg = f"--where compares two values, {left.text!r} and {right.text!r}; name a column"
        raise UsageError(msg)
    named = left if isinstance(left, Name) else right
    assert isinstance(named, Name)  # noqa: S101 - one of them is
    column = column_of(named.name)
    if not column.is_sortable:
        msg = f"--where cannot compare column {column.name} of type {column.type}; it can test it with is null"
        raise UsageError(msg)

    def side(operand: Operand) -> Any:
        if isinstance(operand, Name):
            return table[operand.name]
        value = _literal(operand, column)
        return pa.scalar(value) if isinstance(value, Decimal) else pa.scalar(value, table[named.name].type)

    compare = {
        "=": pc.equal,
        "!=": pc.not_equal,
        "<": pc.less,
        "<=": pc.less_equal,
        ">": pc.greater,
        ">=": pc.greater_equal,
    }[sign]
    try:
        return compare(side(left), side(right))
    except pa.ArrowException as error:
        msg = f"--where compares columns of types that do not compare: {error}"
        raise UsageError(msg) from error
