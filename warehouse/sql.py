"""SQL over the windows: every table is a view that shows one pinned version without its expired records."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from index.errors import UsageError
from warehouse.errors import spark_errors
from warehouse.schema import EXPIRES_SLOT
from warehouse.table import Snapshot, Table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["answer", "query", "register", "window_sql"]

# The nodes of a parsed statement that change something, set something, or run what cannot be seen here.
_CHANGES = re.compile(
    r"^[\s:+\-']*((?:Insert|Create|Drop|Delete|Update|Merge|Replace|Alter|Set|Reset|Overwrite|Truncate|Add|Cache|Uncache|Execute"
    r"|Compound|Call|Refresh|Analyze|Load|Repair|Recover|Rename|Comment|Declare|Clear)\w*|\w*Command\w*|\w*ExecuteImmediate\w*)\b(?! *=)",
    re.MULTILINE,
)
_RUNS_CODE = {"reflect", "java_method", "try_reflect"}


def window_sql(snapshot: Snapshot) -> str:
    """Return the query that shows the window to any engine that reads Delta tables by path."""
    names = ", ".join(f"`{column.name}`" for column in snapshot.spec.columns)
    clock = snapshot.ledger.clock
    hidden = "false" if clock is None else f"{EXPIRES_SLOT} > {clock}"
    path = str(snapshot.table.folder.resolve()).replace("`", "``")
    return f"SELECT {names} FROM delta.`{path}` VERSION AS OF {snapshot.version} WHERE {hidden}"  # noqa: S608 - no value of a user


def register(spark: SparkSession, tables: Sequence[Table]) -> None:
    """Make each table a temporary view of its live window in any session that has Delta's jars."""
    for table in tables:
        with spark_errors(f"table {table.name} cannot be shown to SQL"):
            snapshot = table.snapshot()
            names = [f"`{column.name}`" for column in snapshot.spec.columns]
            # Files without live records are gone already, so looking for more of them would only cost time: as a sum
            # the slot is neither looked up in the log's statistics nor in those of every row group.
            visible = f"{EXPIRES_SLOT} + 0 > {snapshot.ledger.clock}" if snapshot.ledger.clock is not None else "false"
            reader = spark.read.format("delta").option("versionAsOf", snapshot.version)
            reader.load(str(table.folder.resolve())).where(visible).selectExpr(*names).createOrReplaceTempView(
                table.name
            )


def query(spark: SparkSession, text: str) -> DataFrame:
    """Return the answer to a query; anything that would change data or run code is refused."""
    with spark_errors("the query cannot be run", is_query=True):
        plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(text)  # there is no public parser
        shape = str(plan.treeString())
        found = _CHANGES.search(shape)
        if found:
            msg = f"ebb sql answers queries only, and this is {found[1]}; start it with SELECT or WITH"
            raise UsageError(msg)
        called = {name for name in _RUNS_CODE if f"'{name}(" in shape.lower()}
        if called:
            msg = f"ebb sql does not call {', '.join(sorted(called))}; leave it out"
            raise UsageError(msg)
        return spark.sql(text)


def answer(spark: SparkSession, text: str, limit: int | None = None) -> pa.Table:
    """Return the answer to a query as an Arrow table."""
    frame = query(spark, text)
    with spark_errors("the query failed", is_query=True):
        return (frame if limit is None else frame.limit(limit)).toArrow()
