"""Showing a table to other sessions of Spark for good: a view in its catalog that hides what has expired."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ebb.warehouse.sql.spark import create_view, view_sql
from ebb.warehouse.table.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Published", "publish"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A view that was created or replaced, or would be."""

    name: str
    view: str  # with its database, if one was named
    sql: str  # the statement
    dry_run: bool


def publish(
    snapshot: Snapshot,
    spark: Callable[[], SparkSession],
    *,
    view: str | None = None,
    database: str | None = None,
    dry_run: bool = False,
) -> Published:
    """Create or replace a view that stays true while the table is updated."""
    name, statement = view_sql(snapshot, view, database)
    if not dry_run:
        create_view(spark(), name, statement)
    return Published(name=snapshot.table.name, view=name, sql=statement, dry_run=dry_run)
