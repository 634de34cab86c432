"""Reading the files of a batch with Spark: Parquet, CSV and JSON lines, with the table's columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ebb.index.columns import Column, check_drift
from ebb.warehouse.intake.judge import RAW
from ebb.warehouse.intake.source import InputFile
from ebb.warehouse.intake.task import FOREIGN
from ebb.warehouse.spark.errors import spark_errors
from ebb.warehouse.table.spec import TableSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["check_frame", "ddl", "quoted", "read_files"]

_NOTHING = "\x01"  # what Spark takes an empty CSV field for, so that a quoted empty text stays one


@spark_errors("the batch cannot be read")
def read_files(spark: SparkSession, spec: TableSpec, files: Sequence[InputFile]) -> DataFrame:
    """Return the records of the files with the table's columns, plus the raw text of what could not be read.

    Requires files that :func:`check_inputs` accepts.
    """
    parts: list[DataFrame] = []
    by_format: dict[tuple[str, frozenset[str]], list[str]] = {}
    for file in files:
        nanos = file.footer.nanosecond_columns if file.format == "parquet" else frozenset()
        # Spark would take brackets and the like for a pattern, and read another file.
        by_format.setdefault((file.format, nanos), []).append(re.sub(r"([][{}*?\\])", r"\\\1", str(file.path)))
    for (kind, nanos), paths in by_format.items():
        if kind == "parquet":
            parts.append(_read_parquet(spark, spec, paths, nanos))
        elif kind == "csv":
            schema = ", ".join([ddl(spec.columns), f"`{RAW}` string"])
            reader = spark.read.schema(schema).option("header", "true").option("mode", "PERMISSIVE")
            # Fields as everybody writes them: quotes doubled, and line breaks allowed between them.
            reader = reader.option("escape", '"').option("multiLine", "true")
            parts.append(reader.option("columnNameOfCorruptRecord", RAW).option("nullValue", _NOTHING).csv(paths))
        else:
            parts.append(_read_json(spark, spec, paths))
    frame = parts[0]
    for part in parts[1:]:
        frame = frame.unionByName(part, allowMissingColumns=True)
    return frame


def ddl(columns: Sequence[Column]) -> str:
    """Return columns as Spark reads them."""
    return ", ".join(f"`{column.name}` {column.type}" for column in columns)


def _read_parquet(spark: SparkSession, spec: TableSpec, paths: list[str], nanos: frozenset[str]) -> DataFrame:
    if not nanos:
        return spark.read.schema(ddl(spec.columns)).parquet(*paths)
    columns = [Column(c.name, "bigint") if c.name in nanos else c for c in spec.columns]
    frame = spark.read.schema(ddl(columns)).parquet(*paths)
    # A nanosecond past a slot's end belongs to the next slot: round up, with integers only.
    rounded = "timestamp_micros({0} div 1000 + if({0} % 1000 > 0, 1, 0)) as {0}"
    return frame.selectExpr(
        *[rounded.format(quoted(c.name)) if c.name in nanos else quoted(c.name) for c in spec.columns]
    )


def _read_json(spark: SparkSession, spec: TableSpec, paths: list[str]) -> DataFrame:
    from pyspark.sql import functions as F

    known = F.array(*[F.lit(column.name) for column in spec.columns])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": RAW}
    lines = spark.read.text(paths).where(F.trim("value") != "")
    # The parser stops where the first value ends: a line that holds more, or not all of it, is no record. The quick
    # test does not know NaN and Infinity.
    whole = F.concat(F.lit("["), F.col("value"), F.lit("]"))
    values = F.coalesce(F.json_array_length(whole), F.size(F.from_json(whole, "array<string>")), F.lit(0))
    parsed = lines.select(
        F.from_json("value", f"{ddl(spec.columns)}, `{RAW}` string", options).alias("r"),
        F.json_object_keys("value").alias("k"),
        F.when(values != 1, F.col("value")).alias("w"),
    )
    strange = F.array_except("k", known)
    twice = F.filter("k", lambda name: F.size(F.filter("k", lambda other: other == name)) > 1)
    repeated = F.when(F.size("k") > F.size(F.array_distinct("k")), F.try_element_at(twice, F.lit(1)))
    keys = F.coalesce(F.try_element_at(strange, F.lit(1)), repeated).alias(FOREIGN)
    columns = [F.col(f"r.{quoted(column.name)}") for column in spec.columns]
    return parsed.select("r", "w", keys).select(*columns, F.coalesce(f"r.{RAW}", "w").alias(RAW), FOREIGN)


@spark_errors("the batch cannot be read")
def check_frame(frame: DataFrame, spec: TableSpec) -> None:
    """Refuse a DataFrame that does not have exactly the table's columns."""
    found = [Column(f.name, f.dataType.simpleString().replace("timestamp_ntz", "timestamp")) for f in frame.schema]
    check_drift("the DataFrame", found, spec.columns)


def quoted(name: str) -> str:
    """Return a column name as Spark's expressions take it."""
    return "`" + name.replace("`", "``") + "`"
