"""Columns told from sample records of JSON: the type that takes every value of a field.  Pure.

Texts that are all ISO dates or times are dates or timestamps. Numbers of both kinds are doubles. Other types in one
field cannot be told apart, and the column has to be declared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from ebb.index.columns import Column
from ebb.index.errors import SchemaDriftError
from ebb.index.timeline import moment_us
from ebb.index.types import TYPES

__all__ = ["Sample"]

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
# Types of which the later takes what the earlier does.
_WIDER = (("bigint", "double"), ("date", "timestamp", "string"))

# A scalar type by its name, an array by what it holds, a struct by its fields; None if nothing is known.
Kind = str | list["Kind"] | dict[str, "Kind"] | None


class Sample:
    """What some records tell of their columns; ``declared`` ones are as they were declared, whatever they hold."""

    def __init__(self, declared: Mapping[str, Column]) -> None:
        self._declared = declared
        self._kinds: dict[str, Kind] = {}

    def add(self, where: str, record: Mapping[str, Any]) -> None:
        """Look at one more record, which stands ``where``; refuses a value of another type than those before."""
        for name, value in record.items():
            known = self._kinds.setdefault(name, None)
            if name in self._declared:
                continue
            try:
                self._kinds[name] = _both(known, _kind(value))
            except _MixedError as error:
                what = f"holds {error.args[1]}, and {error.args[0]} before"
                raise SchemaDriftError(where, name, what, "declare its type", hint="declare_column") from None

    def columns(self) -> tuple[Column, ...]:
        """Return the columns in the order in which they came.

        >>> sample = Sample({})
        >>> sample.add("line 1", {"at": "2026-03-01T08:00Z", "n": [1]})
        >>> sample.add("line 2", {"at": "2026-03-01", "n": None, "text": "?"})
        >>> [f"{column.name} {column.type}" for column in sample.columns()]
        ['at timestamp', 'n array<bigint>', 'text string']
        """
        return tuple(self._declared.get(name) or Column(name, _text(kind)) for name, kind in self._kinds.items())


class _MixedError(Exception):
    """Arguments: two types that no type takes both of."""


def _kind(value: Any) -> Kind:
    match value:
        case None:
            return None
        case bool():
            return "boolean"
        case int():
            low, high = TYPES["bigint"].limits
            return "bigint" if low <= value <= high else "double"
        case float() | Decimal():
            return "double"
        case str():
            return _kind_of_text(value)
        case list():
            inner: Kind = None
            for item in value:
                inner = _both(inner, _kind(item))
            return [inner]
        case _:
            return {name: _kind(item) for name, item in value.items()} or None


def _kind_of_text(text: str) -> str:
    try:
        moment_us(text)
    except ValueError:
        return "string"
    return "date" if _DATE.fullmatch(text) else "timestamp"


def _both(one: Kind, other: Kind) -> Kind:
    """Return the type that takes the values of two types."""
    match one, other:
        case (None, kind) | (kind, None):
            return kind
        case [left], [right]:
            return [_both(left, right)]
        case dict(), dict():
            return {name: _both(one.get(name), other.get(name)) for name in {**one, **other}}
    for names in _WIDER:
        if one in names and other in names:
            return names[max(names.index(str(one)), names.index(str(other)))]
    if one == other:
        return one
    raise _MixedError(_text(one), _text(other))


def _text(kind: Kind) -> str:
    match kind:
        case None:
            return "string"
        case [inner]:
            return f"array<{_text(inner)}>"
        case dict():
            return f"struct<{','.join(f'{name}:{_text(inner)}' for name, inner in kind.items())}>"
        case _:
            return str(kind)
