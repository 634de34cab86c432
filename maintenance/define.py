"""Creating, altering and dropping tables: everything is checked before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from ebb.index.columns import Column, parse_columns
from ebb.index.errors import CorruptionError, ForeignCommitError, HeldError, InputError, UpgradeError, UsageError
from ebb.index.strategy import check_strategy
from ebb.index.timeline import TimeKind
from ebb.maintenance.backup_place import remembered
from ebb.maintenance.declare import (
    Declared,
    Description,
    check_renames,
    described,
    read_group,
    read_label,
    read_remember,
)
from ebb.maintenance.landing_place import Kept, check_landing, kept_files, read_landing
from ebb.maintenance.values import Duration, read_duration
from ebb.warehouse.store.files import make_folder
from ebb.warehouse.table.catalog import alter_table, create_table, drop_table, share_table
from ebb.warehouse.table.snapshot import Table
from ebb.warehouse.table.spec import TableSpec, check_new_columns

__all__ = ["Altered", "Dropped", "alter", "create", "drop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Altered:
    """A table before and after it was altered, or would be."""

    before: Description
    after: Description
    left_behind: Kept | None = None  # the files in the landing folder that was given up


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """A table that was deleted, or would be; the counts are None if its log cannot be read."""

    name: str
    live_records: int | None
    files: int | None
    left_behind: Kept | None = None  # the files in its landing folder, which stay
    backups: tuple[str, ...] = ()  # they stay too, and nothing is erased there any more


def create(root: Path, declared: Declared, now: datetime, *, durable: bool = True) -> Table:
    """Create the declared table, and its landing folder if it has one."""
    _make_landing(declared.spec)
    return create_table(root, declared.spec, _ms(now), durable=durable)


def drop(table: Table, *, dry_run: bool = False) -> Dropped:
    """Delete a table and its quarantine, and return what was in it.  Its landing folder stays as it is."""
    if dry_run:
        return _content(table)
    with table.lock(is_foreign_fine=True):
        content = _content(table)
        drop_table(table)
    return content


def _content(table: Table) -> Dropped:
    try:
        snapshot = table.snapshot()
        snapshot.check_features()  # one of them may say that the records must stay
        if holds := snapshot.ledger.holds:
            raise HeldError(
                table.name,
                "dropped",
                sum(f.records for f in snapshot.files if f.cell.is_held),
                tuple(h.case for h in holds),
            )
    except (CorruptionError, ForeignCommitError, UpgradeError) as error:  # that may be why it is dropped
        if isinstance(error, UpgradeError) and not error.is_older:
            raise
        return Dropped(name=table.name, live_records=None, files=None)
    copied = snapshot.spec.copied
    is_managing = copied is None or copied.is_confirmed
    return Dropped(
        name=table.name,
        live_records=snapshot.ledger.live_records,
        files=len(snapshot.files),
        left_behind=_left_behind(snapshot.spec),
        backups=tuple(kept.place for kept in remembered(table)) if is_managing else (),
    )


def _left_behind(spec: TableSpec) -> Kept | None:
    """Return what stays in a landing folder that its table gives up; None if that is nothing, or nobody can look."""
    kept = kept_files(spec.landing) if spec.landing else None
    return kept if kept and kept.total else None


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
    deletion_bound: Duration | None = None,
    quarantine_time: Duration | None = None,
    log_retention: Duration | None = None,
    remember: Duration | None = None,
    landing: str | None = None,
    group: str | None = None,
    label: str | None = None,
    add_column: str | None = None,
    inputs: Mapping[str, Any] | None = None,
    evidence_retention: Duration | None = None,
    wait: float = 0.0,
    dry_run: bool = False,
) -> Altered:
    """Change what can be changed about a table.

    ``inputs``: what changes in the rules for batches. ``evidence_retention``: an empty text keeps it for ever.
    """
    with table.lock(wait=wait):
        snapshot = table.snapshot()
        old = snapshot.spec
        kind = old.timeline.kind

        def duration(value: Duration | None, default: int) -> int:
            return default if value is None else read_duration(kind, value)

        bound = duration(deletion_bound, old.bound)
        quarantine = duration(quarantine_time, old.quarantine_time)
        if deletion_bound and not quarantine_time:
            quarantine = min(quarantine, bound)
        column = _new_column(old, add_column) if add_column else None
        new = replace(
            old,
            bound=bound,
            quarantine_time=quarantine,
            log_retention=duration(log_retention, old.log_retention),
            remember=old.remember if remember is None else read_remember(old.timeline, remember),
            landing=read_landing(landing) if landing is not None else old.landing,
            label=old.label if label is None else read_label(label),
            group=read_group(group) if group is not None else old.group,
            columns=(*old.columns, column) if column else old.columns,
            inputs=old.inputs.changed(**(inputs or {})),
            evidence_retention=_kept(kind, old.evidence_retention, evidence_retention),
        )
        check_renames(new)
        is_moved = new.landing != old.landing
        if is_moved:
            check_landing(new.landing, table.root, table.name)
        check_strategy(new.strategy, new.grid, new.timeline, bound=new.bound, reader_time=new.reader_time)
        was, is_now = old.properties(), new.properties()
        changes = {name: value for name, value in is_now.items() if was[name] != value}
        if not dry_run and group is not None:  # also if it is so already: a copy may have lost it
            share_table(table, new)
        if not dry_run and (changes or column):
            _make_landing(new)
            alter_table(snapshot, changes, column, _ms(now))
    return Altered(
        before=Description(**described(old)),
        after=Description(**described(new)),
        left_behind=_left_behind(old) if is_moved else None,
    )


def _kept(kind: TimeKind, known: int | None, value: Duration | None) -> int | None:
    """Return how long evidence is kept: for ever if the value is empty."""
    if value is None:
        return known
    return None if value == "" else read_duration(kind, value)


def _new_column(spec: TableSpec, text: str) -> Column:
    columns = parse_columns(text)
    if len(columns) != 1:
        msg = f"{text!r} names {len(columns)} columns; add one at a time"
        raise UsageError(msg)
    known = next((column for column in spec.columns if column.name == columns[0].name), None)
    if known is not None:
        msg = f"table {spec.name} has a column {known.name} already, of type {known.type}; choose another name"
        raise UsageError(msg)
    check_new_columns((*spec.columns, columns[0]))
    return columns[0]
