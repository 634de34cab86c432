"""How the columns of a batch meet the columns of a table: by name, or exactly.  Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ebb.index.columns import Column
from ebb.index.conversion import is_convertible
from ebb.index.errors import SchemaDriftError, UsageError
from ebb.index.stored import members
from ebb.index.stored import text as text_of

__all__ = ["SEPARATORS", "InputRules", "InputSchema", "best_separator", "matched"]

SEPARATORS = (",", ";", "\t", "|")
_EXTRA = ("refuse", "ignore")
_LISTED = 10  # columns that do not fit, by name
_SPELLED = {"\\t": "\t", "tab": "\t", "comma": ",", "semicolon": ";", "pipe": "|"}


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRules:
    """What a table accepts of its batches; a batch may have rules of its own."""

    strict: bool = False  # exactly the table's columns, in its order, with its types
    extra: str = "refuse"  # columns that the table does not have: refuse the file, or ignore them
    rename: Mapping[str, str] = field(default_factory=dict)  # name in the batch -> name in the table
    separator: str | None = None  # of CSV; None: told from the header
    encoding: str | None = None  # of text; None: UTF-8, or what the file's first bytes say

    def __post_init__(self) -> None:
        if self.extra not in _EXTRA:
            msg = f"extra is {self.extra!r}; it must be refuse or ignore"
            raise UsageError(msg)
        text = self.separator
        if text is not None and (len(text) != 1 or not text.isascii() or text in '"\r\n'):
            msg = f"separator {text!r} must be one ASCII character that is neither a quote nor a line break"
            raise UsageError(msg)
        if self.encoding is not None:
            try:
                "".encode(self.encoding)
            except (LookupError, ValueError):
                msg = f"encoding {self.encoding!r} is not known; write it like utf-8, latin-1 or utf-16"
                raise UsageError(msg) from None

    def changed(
        self,
        *,
        strict: bool | None = None,
        extra: str | None = None,
        rename: Mapping[str, str] | Sequence[str] | None = None,
        separator: str | None = None,
        encoding: str | None = None,
    ) -> InputRules:
        """Return the rules with what is not None; an empty text takes a separator or encoding back.

        >>> InputRules().changed(rename=["Event Time=event_time"], separator="tab").rename
        {'Event Time': 'event_time'}
        """
        return InputRules(
            strict=self.strict if strict is None else strict,
            extra=self.extra if extra is None else extra,
            rename=self.rename if rename is None else _renamed(rename),
            separator=self.separator if separator is None else _SPELLED.get(separator, separator) or None,
            encoding=self.encoding if encoding is None else encoding or None,
        )

    def dumps(self) -> str:
        """Write them as a table keeps them: what is not as usual."""
        plain = InputRules()
        names = ("strict", "extra", "rename", "separator", "encoding")
        changed = {name: getattr(self, name) for name in names if getattr(self, name) != getattr(plain, name)}
        return json.dumps(changed, sort_keys=True) if changed else ""

    @staticmethod
    def loads(written: str) -> InputRules:
        """Read what :meth:`dumps` wrote; ValueError, TypeError or UsageError if it is something else.

        >>> InputRules.loads(InputRules(strict=True).dumps()) == InputRules(strict=True)
        True
        """
        value = members(json.loads(written)) if written else {}
        texts = [value[name] for name in ("extra", "separator", "encoding") if value.get(name) is not None]
        for found in (*texts, *members(value.get("rename", {})).values()):
            text_of(found)
        return InputRules(**value)


def _renamed(rename: Mapping[str, str] | Sequence[str]) -> dict[str, str]:
    if isinstance(rename, Mapping):
        return dict(rename)
    names = {}
    for text in rename:
        old, separator, new = text.rpartition("=")
        if not (separator and old.strip() and new.strip()):
            msg = f"rename {text!r} is not OLD=NEW; write it like 'Event Time=event_time'"
            raise UsageError(msg)
        names[old.strip()] = new.strip()
    return names


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSchema:
    """What a table wants of a batch."""

    columns: tuple[Column, ...]
    required: tuple[str, ...] = ()  # no record can do without these
    computed: Mapping[str, str] = field(default_factory=dict)  # columns that the table makes, and from what
    rules: InputRules = field(default_factory=InputRules)
    table: str = ""  # its name

    def type_of(self, name: str) -> str | None:
        """Return the type of a column; None if there is none."""
        return next((column.type for column in self.columns if column.name == name), None)


def matched(
    where: str, names: Sequence[str], wanted: InputSchema, type_of: Callable[[int], str] | None = None
) -> dict[str, int]:
    """Return at which place of a batch each column of the table stands; those that are missing are left out.

    ``names``: of the batch's columns. ``type_of``: the type of the one at a place; None if the batch is text. Raises
    SchemaDriftError naming every column that does not fit.
    """
    named = [wanted.rules.rename.get(name, name) for name in names]
    places: dict[str, int] = {}
    faults: list[SchemaDriftError] = []
    for name, times in Counter(named).items():
        places[name] = named.index(name)
        try:
            if times > 1:
                raise SchemaDriftError(where, name, f"stands there {times} times", "keep one of them")
            if not _is_taken(where, name, wanted, None if type_of is None else partial(type_of, places[name])):
                del places[name]
        except SchemaDriftError as fault:
            faults.append(fault)
    told = {fault.args[1].lower() for fault in faults}  # also what is there in other letters
    for column in wanted.columns:
        is_needed = column.name in wanted.required or wanted.rules.strict
        is_there = column.name in places or column.name in wanted.computed or column.name.lower() in told
        if is_needed and not is_there:
            step = f"add it, as {column.type}, or rename the column that holds it"
            missing = SchemaDriftError(where, column.name, "is missing", step, column.type, hint="missing_column")
            faults.append(missing)
    if faults:
        raise _together(faults, wanted.table)
    if wanted.rules.strict:
        _check_order(where, places, [column.name for column in wanted.columns if column.name in places])
    return places


def _together(faults: Sequence[SchemaDriftError], table: str) -> SchemaDriftError:
    """Return one error for all columns that do not fit."""
    if len(faults) == 1:
        return faults[0]
    where, first, what = faults[0].args[:3]
    others = [f"column {fault.args[1]} {fault.args[2]}" for fault in faults[1:_LISTED]]
    more = [f"{len(faults) - _LISTED} more columns do not fit"] if len(faults) > _LISTED else []
    step = "rename, remove or add columns until all of them fit"
    together = ", ".join([what, *others, *more])
    return SchemaDriftError(where, first, together, step, table, hint="several_columns")


def _is_taken(where: str, name: str, wanted: InputSchema, type_of: Callable[[], str] | None) -> bool:
    """Whether the table takes a column of a batch, or else ignores it; raises if it does neither."""
    type, rules = wanted.type_of(name), wanted.rules
    if name in wanted.computed or type is None:
        if rules.extra == "ignore" and not rules.strict:
            return False
        raise _extra(where, name, wanted, None if type_of is None else type_of())
    found = type if type_of is None else type_of()
    if found == type or (not rules.strict and is_convertible(found, type)):
        return True
    raise SchemaDriftError(where, name, f"has type {found}, and the table has {type}", f"cast it to {type}")


def _extra(where: str, name: str, wanted: InputSchema, type: str | None) -> SchemaDriftError:
    if name in wanted.computed:
        what = f"is computed by the table, as {wanted.computed[name]}"
        return SchemaDriftError(where, name, what, "leave it out", hint="extra_computed")
    twin = next((column.name for column in wanted.columns if column.name.lower() == name.lower()), None)
    if twin:
        step = f"rename it to {twin}"
        return SchemaDriftError(where, name, f"is called {twin} in the table", step, f"{name}={twin}", hint="rename")
    new = f"{name} {type or 'TYPE'}"
    step = "remove it, or add it to the table" + ("" if type is None else f" as {new}")
    return SchemaDriftError(where, name, "is not in the table", step, new, wanted.table, hint="add_column")


def _check_order(where: str, places: Mapping[str, int], expected: Sequence[str]) -> None:
    for at, (name, other) in enumerate(zip(sorted(places, key=places.__getitem__), expected, strict=True), start=1):
        if name != other:
            step = f"write them in the order {', '.join(expected)}"
            raise SchemaDriftError(where, name, f"stands at place {at}, and {other} should", step)


def best_separator(headers: Mapping[str, Sequence[str]], known: Collection[str]) -> str:
    """Return the separator under which a header makes most sense: most names that are known, then most names.

    >>> best_separator({",": ["code;net"], ";": ["code", "net"]}, ["code", "net"])
    ';'
    """
    fit: dict[str, Any] = {
        separator: (sum(name in known for name in names), len(names)) for separator, names in headers.items()
    }
    return max(fit, key=lambda separator: (fit[separator], -SEPARATORS.index(separator)))
