"""Declaring tables: what a user says about one, with every default filled in and everything checked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from ebb.index.columns import Column, parse_columns, time_kind
from ebb.index.cost.choose import choose, default_bound, default_log_retention, default_reader_time
from ebb.index.errors import TableExistsError, UsageError
from ebb.index.expression import Expression, adds_to, is_name, least_after, parse_expression, split_name
from ebb.index.grid import Shuffle
from ebb.index.inputs import InputRules
from ebb.index.ledger import MAX_TICKS, check_span
from ebb.index.policy import parse_pair
from ebb.index.strategy import Strategy
from ebb.index.timeline import TimeKind, Timeline
from ebb.maintenance.landing_place import check_landing, read_landing
from ebb.maintenance.values import Duration, Time, read_duration, read_time
from ebb.warehouse.intake.samples import infer_columns
from ebb.warehouse.store.modes import group_id
from ebb.warehouse.table.spec import TableSpec, check_name, check_new_columns

__all__ = [
    "Declaration", "Declared", "Description", "check_renames", "declare", "described", "in_seconds", "read_group", "read_label", "read_remember",
]  # fmt: skip

_ZERO = re.compile("0+(us|ms|[smhdw])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What a user says about a new table."""

    name: str
    key: Sequence[str]
    inserted: str  # a column, or an expression
    expires: str | None = None
    tick: Duration
    span: Duration
    lifetime: Duration | None = None  # instead of ``expires``: a duration, or a column that holds one
    like: Path | None = None
    schema: str | None = None
    origin: Time | None = None
    grid: str | None = None
    policy: str | None = None
    strategy: str | None = None
    deletion_bound: Duration | None = None
    reader_time: Duration | None = None
    quarantine_time: Duration | None = None
    log_retention: Duration | None = None
    remember: Duration | None = None
    landing: str | None = None
    label: str | None = None
    group: str | None = None
    inputs: InputRules = field(default_factory=InputRules)


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """The declaration of a table in words that a user would type."""

    name: str
    kind: str  # what the table is: stream
    reader_features: tuple[str, ...]  # what an Ebb must know to read it
    writer_features: tuple[str, ...]  # and what more to write to it
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    inserted: str
    expires: str
    tick: str
    tick_seconds: float | None  # None for all of these if times are integers, which have no seconds
    span: str
    span_seconds: float | None
    origin: str
    ticks_per_span: int
    grid: str
    policy: str
    strategy: str
    deletion_bound: str
    deletion_bound_seconds: float | None
    reader_time: str
    reader_time_seconds: float | None
    quarantine_time: str
    quarantine_time_seconds: float | None
    log_retention: str
    log_retention_seconds: float | None
    remember: str
    remember_seconds: float | None
    landing: str | None
    group: str | None  # whose members may read the files
    label: str
    inserted_as: str | None
    expires_as: str | None
    inputs: InputRules
    evidence_retention: str | None = None  # how long the evidence of deletions is kept; null: for ever
    evidence_retention_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A table as it would be created, and why it would be so."""

    spec: TableSpec
    reason: str  # why this grid and strategy
    folder: Path

    @property
    def description(self) -> Description:
        """Return the declaration in words."""
        return Description(**described(self.spec))


def described(spec: TableSpec) -> dict[str, Any]:
    """Return the fields of a :class:`Description`."""
    line, groups, cohorts, kept = spec.timeline, spec.grid.groups, spec.grid.cohorts, spec.evidence_retention
    durations = {
        "tick": line.tick,
        "span": line.span,
        "deletion_bound": spec.bound,
        "reader_time": spec.reader_time,
        "quarantine_time": spec.quarantine_time,
        "log_retention": spec.log_retention,
        "remember": spec.remembered_ticks * line.tick,
    }
    return {
        "name": spec.name,
        "kind": spec.kind.value,
        "reader_features": spec.features.reader,
        "writer_features": spec.features.writer,
        "columns": spec.columns,
        "key": spec.key,
        "inserted": spec.inserted,
        "inserted_as": spec.inserted_as,
        "expires": spec.expires,
        "expires_as": spec.expires_as,
        "origin": line.kind.show_time(line.origin),
        "ticks_per_span": line.ticks_per_span,
        "grid": str(spec.grid),
        "policy": "random" if isinstance(groups, Shuffle) else f"{groups.run}x{cohorts.run}",
        "strategy": spec.strategy.value,
        "landing": spec.landing,
        "label": spec.label,
        "group": spec.group,
        "inputs": spec.inputs,
        "evidence_retention": None if kept is None else line.kind.show_duration(kept),
        "evidence_retention_seconds": None if kept is None else in_seconds(line.kind, kept),
        **{name: line.kind.show_duration(value) for name, value in durations.items()},
        **{f"{name}_seconds": in_seconds(line.kind, value) for name, value in durations.items()},
    }


def in_seconds(kind: TimeKind, duration: int) -> float | None:
    """Return a duration in seconds; None for integers, which have none."""
    return kind.seconds(duration) if kind.has_wall_clock else None


def declare(root: Path, wish: Declaration) -> Declared:
    """Return the table with every default filled in, and one line on what was chosen and why."""
    check_name(wish.name)
    brought = _columns(wish)
    columns, times = _times(wish, brought)
    check_new_columns(columns)
    by_name = {column.name: column for column in columns}
    inserted, expires = times
    for role, names in (
        ("key", wish.key),
        ("insertion time", [inserted.name]),
        ("expiration time", [expires.name]),
    ):
        for name in names:
            if name not in by_name:
                msg = f"the {role} names {name!r}, which is not a column; the columns are {', '.join(by_name)}"
                raise UsageError(msg)
    _check_key([by_name[name] for name in wish.key])
    kinds = [time_kind(by_name[time.name]) for time in times]
    if kinds[0] is not kinds[1]:
        msg = f"{inserted.name} is {by_name[inserted.name].type} and {expires.name} is {by_name[expires.name].type}; both times must be of one kind"
        raise UsageError(msg)
    kind = kinds[0]
    made = _parsed(times, brought, columns, kind)

    def duration(value: Duration | None, default: int) -> int:
        return default if value is None else read_duration(kind, value)

    timeline = Timeline(
        kind=kind,
        origin=0 if wish.origin is None else read_time(kind, wish.origin),
        tick=read_duration(kind, wish.tick),
        span=read_duration(kind, wish.span),
    )
    check_span(timeline)
    _check_lifetime(made.get(expires.name), times, timeline)
    bound = duration(wish.deletion_bound, default_bound(timeline))
    reader_time = 0 if _is_zero(wish.reader_time) else duration(wish.reader_time, default_reader_time(timeline))
    choice = choose(
        timeline,
        bound=bound,
        reader_time=reader_time,
        shape=parse_pair(wish.grid, "grid") if wish.grid else None,
        policy=wish.policy,
        strategy=_strategy(wish.strategy),
    )
    spec = TableSpec(
        name=wish.name,
        columns=columns,
        key=tuple(wish.key),
        inserted=inserted.name,
        expires=expires.name,
        timeline=timeline,
        grid=choice.grid,
        strategy=choice.strategy,
        bound=bound,
        reader_time=reader_time,
        quarantine_time=duration(wish.quarantine_time, bound),
        log_retention=duration(wish.log_retention, default_log_retention(timeline, bound)),
        remember=None if wish.remember is None else read_remember(timeline, wish.remember),
        landing=read_landing(wish.landing),
        label=read_label(wish.label or "end"),
        group=read_group(wish.group),
        inserted_as=inserted.text,
        expires_as=expires.text,
        inputs=wish.inputs,
    )
    check_renames(spec)
    if (root / wish.name).exists():
        raise TableExistsError(wish.name, root)
    check_landing(spec.landing, root, wish.name)
    return Declared(spec=spec, reason=choice.reason, folder=root / wish.name)


def _is_zero(value: Duration | None) -> bool:
    """Whether a duration is given as none at all, which is a choice for the grace period only: readers need leases then."""
    return value == timedelta() or (value is not None and _ZERO.fullmatch(str(value).strip()) is not None)


def _columns(wish: Declaration) -> tuple[Column, ...]:
    """Return the columns of a sample file, of a schema, or of the first with what the second says otherwise."""
    if wish.like is None and wish.schema is None:
        msg = "a table needs columns"
        raise UsageError(msg, "give a schema, or a file to take them from", hint="columns")
    declared = parse_columns(wish.schema) if wish.schema is not None else ()
    if wish.like is None:
        return declared
    found = infer_columns(wish.like, wish.inputs, declared)
    there = {column.name for column in found}
    return (*found, *(column for column in declared if column.name not in there))


@dataclass(frozen=True, slots=True)
class _TimeColumn:
    """A time column, and the expression that makes it if batches do not bring it."""

    name: str
    text: str | None = None


def _times(
    wish: Declaration, columns: tuple[Column, ...]
) -> tuple[tuple[Column, ...], tuple[_TimeColumn, _TimeColumn]]:
    """Return the two time columns, and all columns with those that the table makes."""
    inserted = _time_column(wish.inserted, "inserted")
    if (wish.expires is None) == (wish.lifetime is None):
        msg = "a table needs to know when its records expire"
        msg = msg if wish.expires is None else "the expiration time and a lifetime are both given"
        raise UsageError(msg, "name either a column or expression, or a lifetime", hint="expires")
    if wish.lifetime is not None:
        lifetime = wish.lifetime
        text = f"{lifetime // timedelta(microseconds=1)}us" if isinstance(lifetime, timedelta) else str(lifetime)
        text = f'"{text}"' if is_name(text) else text
        expires = _TimeColumn("expires", f'"{inserted.name}" + {text}')
    else:
        expires = _time_column(str(wish.expires), "expires")
    made = {time.name: time for time in (inserted, expires) if time.text is not None}
    known = {column.name: column for column in columns}
    kind = next((known[time.name].type for time in (inserted, expires) if time.name in known), None)
    kind = kind if kind in ("timestamp", "date", "bigint", "int") else "timestamp"
    new = tuple(Column(name, kind) for name in made if name not in known)
    return (*columns, *new), (inserted, expires)


def _parsed(
    times: tuple[_TimeColumn, _TimeColumn], brought: Sequence[Column], columns: Sequence[Column], kind: TimeKind
) -> dict[str, Expression]:
    """Return the expressions of the times that the table makes: the insertion time first, which the other may name."""
    inserted, expires = times
    known = {column.name for column in brought}
    found: dict[str, Expression] = {}
    for time in (inserted, expires):
        if time.text is not None:
            found[time.name] = parse_expression(time.text, [c for c in columns if c.name in known], kind)
            if adds_to(found[time.name], time.name):
                msg = f"{time.name}, as {time.text}, counts with the column that it replaces"
                raise UsageError(msg, f"give the result another name: {time.text} AS other")
        known.add(time.name)
    return found


def _check_lifetime(expression: Expression | None, times: tuple[_TimeColumn, _TimeColumn], timeline: Timeline) -> None:
    """Refuse an expiration time that is beyond the span for every record: all of them would be refused."""
    inserted, expires = times
    least = None if expression is None else least_after(expression, inserted.name)
    if least is not None and least > timeline.span:
        show = timeline.kind.show_duration
        msg = f"{expires.name}, as {expires.text}, is {show(least)} or more after {inserted.name}, and records that live longer than the span {show(timeline.span)} are refused"
        raise UsageError(msg, "choose a longer span or a shorter lifetime", show(least), hint="span")


def _time_column(text: str, default: str) -> _TimeColumn:
    if is_name(text):
        return _TimeColumn(text.strip().strip('`"'))
    expression, name = split_name(text, default)
    return _TimeColumn(name, expression)


def check_renames(spec: TableSpec) -> None:
    """Refuse rules for batches that rename to what is no column."""
    for new in spec.inputs.rename.values():
        spec.column(new)


def read_remember(timeline: Timeline, value: Duration) -> int:
    """Return how long batches are remembered, as declared."""
    remember = read_duration(timeline.kind, value)
    if remember // timeline.tick > MAX_TICKS:
        show = timeline.kind.show_duration
        msg = f"{show(remember)} has {remember // timeline.tick:,} ticks of {show(timeline.tick)}, and batches are remembered for {MAX_TICKS:,} at most"
        raise UsageError(msg, "choose a shorter time")
    return remember


def read_group(name: str | None) -> str | None:
    """Return a group of the operating system whose members may read a table's files; None if there is none."""
    if name:
        group_id(name)
    return name or None


def read_label(text: str) -> str:
    """Return which moment of its tick the name of a landed file says."""
    if text not in ("start", "end"):
        msg = f"label {text!r} is not start or end: which moment of its tick the name of a landed file says"
        raise UsageError(msg)
    return text


def _check_key(key: Sequence[Column]) -> None:
    if not key:
        msg = "the key names no column; give at least one"
        raise UsageError(msg)
    for column in key:
        if not column.is_sortable:
            msg = f"key column {column.name} has type {column.type}, which has no order; choose another key"
            raise UsageError(msg)
    if len({c.name for c in key}) < len(key):
        msg = f"key {','.join(c.name for c in key)} names a column twice"
        raise UsageError(msg)


def _strategy(text: str | None) -> Strategy | None:
    if text is None:
        return None
    try:
        return Strategy(text)
    except ValueError:
        msg = f"strategy {text!r} is not rebuild, norebuild or retire"
        raise UsageError(msg) from None
