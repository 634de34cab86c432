"""Declaring, altering and dropping tables: everything is checked before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from ebb.index.columns import Column, parse_columns, time_kind
from ebb.index.cost.choose import choose, default_bound, default_log_retention, default_reader_time
from ebb.index.errors import CorruptionError, ForeignCommitError, InputError, TableExistsError, UsageError
from ebb.index.grid import Shuffle
from ebb.index.ledger import check_span
from ebb.index.policy import parse_pair
from ebb.index.strategy import Strategy, check_strategy
from ebb.index.timeline import TimeKind, Timeline
from ebb.warehouse.intake.source import infer_columns
from ebb.warehouse.store.files import make_folder
from ebb.warehouse.store.modes import group_id
from ebb.warehouse.table.catalog import alter_table, create_table, drop_table, share_table
from ebb.warehouse.table.snapshot import Table
from ebb.warehouse.table.spec import TableSpec, check_name, check_new_columns

__all__ = [
    "Altered",
    "Declaration",
    "Declared",
    "Description",
    "Dropped",
    "alter",
    "create",
    "declare",
    "described",
    "drop",
    "in_seconds",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What a user says about a new table, as text."""

    name: str
    key: Sequence[str]
    inserted: str
    expires: str
    tick: str
    span: str
    like: Path | None = None
    schema: str | None = None
    origin: str | None = None
    grid: str | None = None
    policy: str | None = None
    strategy: str | None = None
    deletion_bound: str | None = None
    reader_time: str | None = None
    quarantine_time: str | None = None
    log_retention: str | None = None
    landing: str | None = None
    group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """The declaration of a table in words that a user would type."""

    name: str
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
    landing: str | None
    group: str | None  # whose members may read the files


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Altered:
    """A table before and after it was altered, or would be."""

    before: Description
    after: Description


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """A table that was deleted, or would be; the counts are None if its log cannot be read."""

    name: str
    live_records: int | None
    files: int | None


def described(spec: TableSpec) -> dict[str, Any]:
    """Return the fields of a :class:`Description`."""
    line, groups, cohorts = spec.timeline, spec.grid.groups, spec.grid.cohorts
    durations = {
        "tick": line.tick,
        "span": line.span,
        "deletion_bound": spec.bound,
        "reader_time": spec.reader_time,
        "quarantine_time": spec.quarantine_time,
        "log_retention": spec.log_retention,
    }
    return {
        "name": spec.name,
        "columns": spec.columns,
        "key": spec.key,
        "inserted": spec.inserted,
        "expires": spec.expires,
        "origin": line.kind.show_time(line.origin),
        "ticks_per_span": line.ticks_per_span,
        "grid": str(spec.grid),
        "policy": "random" if isinstance(groups, Shuffle) else f"{groups.run}x{cohorts.run}",
        "strategy": spec.strategy.value,
        "landing": spec.landing,
        "group": spec.group,
        **{name: line.kind.show_duration(value) for name, value in durations.items()},
        **{f"{name}_seconds": in_seconds(line.kind, value) for name, value in durations.items()},
    }


def in_seconds(kind: TimeKind, duration: int) -> float | None:
    """Return a duration in seconds; None for integers, which have none."""
    return kind.seconds(duration) if kind.has_wall_clock else None


def declare(root: Path, wish: Declaration) -> Declared:
    """Return the table with every default filled in, and one line on what was chosen and why."""
    check_name(wish.name)
    if (wish.like is None) == (wish.schema is None):
        msg = "a table needs its columns once"
        raise UsageError(msg, "give either a schema or a file to take them from", hint="columns")
    columns = infer_columns(wish.like) if wish.like is not None else parse_columns(str(wish.schema))
    check_new_columns(columns)
    by_name = {column.name: column for column in columns}
    for role, names in (
        ("key", wish.key),
        ("insertion time", [wish.inserted]),
        ("expiration time", [wish.expires]),
    ):
        for name in names:
            if name not in by_name:
                msg = f"the {role} names {name!r}, which is not a column; the columns are {', '.join(by_name)}"
                raise UsageError(msg)
    _check_key(wish, [by_name[name] for name in wish.key])
    kinds = [time_kind(by_name[name]) for name in (wish.inserted, wish.expires)]
    if kinds[0] is not kinds[1]:
        msg = f"{wish.inserted} is {by_name[wish.inserted].type} and {wish.expires} is {by_name[wish.expires].type}; both times must be of one kind"
        raise UsageError(msg)
    kind = kinds[0]
    timeline = Timeline(
        kind=kind,
        origin=kind.time(wish.origin) if wish.origin else 0,
        tick=kind.duration(wish.tick),
        span=kind.duration(wish.span),
    )
    check_span(timeline)
    bound = kind.duration(wish.deletion_bound) if wish.deletion_bound else default_bound(timeline)
    reader_time = kind.duration(wish.reader_time) if wish.reader_time else default_reader_time(timeline)
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
        inserted=wish.inserted,
        expires=wish.expires,
        timeline=timeline,
        grid=choice.grid,
        strategy=choice.strategy,
        bound=bound,
        reader_time=reader_time,
        quarantine_time=kind.duration(wish.quarantine_time) if wish.quarantine_time else bound,
        log_retention=kind.duration(wish.log_retention)
        if wish.log_retention
        else default_log_retention(timeline, bound),
        landing=_landing(wish.landing),
        group=_group(wish.group),
    )
    if (root / wish.name).exists():
        raise TableExistsError(wish.name, root)
    return Declared(spec=spec, reason=choice.reason, folder=root / wish.name)


def _check_key(wish: Declaration, key: Sequence[Column]) -> None:
    if not key:
        msg = "the key names no column; give at least one"
        raise UsageError(msg)
    for column in key:
        if not column.is_sortable:
            msg = f"key column {column.name} has type {column.type}, which has no order; choose another key"
            raise UsageError(msg)
        if column.name in (wish.inserted, wish.expires):
            msg = f"key column {column.name} is a time column of the table as well; copy it into a column of its own"
            raise UsageError(msg)
    if len({c.name for c in key}) < len(key):
        msg = f"key {','.join(wish.key)} names a column twice"
        raise UsageError(msg)


def _strategy(text: str | None) -> Strategy | None:
    if text is None:
        return None
    try:
        return Strategy(text)
    except ValueError:
        msg = f"strategy {text!r} is not rebuild, norebuild or retire"
        raise UsageError(msg) from None


def _landing(folder: str | None) -> str | None:
    if not folder:
        return None
    try:
        folder.encode()
    except UnicodeEncodeError as error:
        msg = f"landing folder {folder!r} is not Unicode, and the table could not remember it; choose another"
        raise UsageError(msg) from error
    return str(Path(folder).expanduser().resolve())


def _group(name: str | None) -> str | None:
    if name:
        group_id(name)
    return name or None


def create(root: Path, declared: Declared, now: datetime) -> Table:
    """Create the declared table, and its landing folder if it has one."""
    _make_landing(declared.spec)
    return create_table(root, declared.spec, _ms(now))


def drop(table: Table, *, dry_run: bool = False) -> Dropped:
    """Delete a table and its quarantine, and return what was in it."""
    if dry_run:
        return _content(table)
    with table.lock(is_foreign_fine=True):
        content = _content(table)
        drop_table(table)
    return content


def _content(table: Table) -> Dropped:
    try:
        snapshot = table.snapshot()
    except (CorruptionError, ForeignCommitError):  # that it cannot be read may be why it is dropped
        return Dropped(name=table.name, live_records=None, files=None)
    return Dropped(name=table.name, live_records=snapshot.ledger.live_records, files=len(snapshot.files))


def _ms(now: datetime) -> int:
    return int(now.timestamp() * 1000)


def _make_landing(spec: TableSpec) -> None:
    if spec.landing is None:
        return
    try:
        make_folder(spec.landing, parents=True, exist_ok=True)
    except OSError as error:
        msg = f"landing {spec.landing} cannot be a folder ({error.strerror}); choose another one"
        raise InputError(msg) from error


def alter(
    table: Table,
    *,
    now: datetime,
    deletion_bound: str | None = None,
    quarantine_time: str | None = None,
    log_retention: str | None = None,
    landing: str | None = None,
    group: str | None = None,
    add_column: str | None = None,
    wait: float = 0.0,
    dry_run: bool = False,
) -> Altered:
    """Change what can be changed about a table."""
    with table.lock(wait=wait):
        snapshot = table.snapshot()
        old = snapshot.spec
        kind = old.timeline.kind
        bound = kind.duration(deletion_bound) if deletion_bound else old.bound
        quarantine = kind.duration(quarantine_time) if quarantine_time else old.quarantine_time
        if deletion_bound and not quarantine_time:
            quarantine = min(quarantine, bound)
        column = _new_column(old, add_column) if add_column else None
        new = replace(
            old,
            bound=bound,
            quarantine_time=quarantine,
            log_retention=kind.duration(log_retention) if log_retention else old.log_retention,
            landing=_landing(landing) if landing is not None else old.landing,
            group=_group(group) if group is not None else old.group,
            columns=(*old.columns, column) if column else old.columns,
        )
        check_strategy(new.strategy, new.grid, new.timeline, bound=new.bound, reader_time=new.reader_time)
        was, is_now = old.properties(), new.properties()
        changes = {name: value for name, value in is_now.items() if was[name] != value}
        if not dry_run and group is not None:  # also if it is so already: a copy may have lost it
            share_table(table, new)
        if not dry_run and (changes or column):
            _make_landing(new)
            alter_table(snapshot, changes, column, _ms(now))
    return Altered(before=Description(**described(old)), after=Description(**described(new)))


def _new_column(spec: TableSpec, text: str) -> Column:
    columns = parse_columns(text)
    if len(columns) != 1:
        msg = f"{text!r} names {len(columns)} columns; add one at a time"
        raise UsageError(msg)
    check_new_columns((*spec.columns, columns[0]))
    return columns[0]
