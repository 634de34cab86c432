"""The JVM's class-data archive: Spark's classes, loaded and checked once, so that commands start in half the time.

    python -m warehouse.archive

makes it, next to Delta's jars: it starts Spark, does a little of what commands do, and lets the JVM write down what it
has loaded. The JVM itself checks that an archive fits its version and its jars, and does without it otherwise; so does
Ebb where there is none.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ebb.warehouse.settings import Settings, load_settings

__all__ = ["archive_options", "archive_path", "make_archive"]

_EXIT_SECONDS = 120


def archive_path(settings: Settings, class_path: Sequence[Path]) -> Path:
    """Return where the archive for this Java, this Spark and these jars is, or would be."""
    import pyspark

    java = (
        Path(os.environ["JAVA_HOME"], "bin", "java")
        if os.environ.get("JAVA_HOME")
        else Path(shutil.which("java") or "java")
    )
    parts = [
        str(java.resolve()),
        pyspark.__version__,
        str(Path(pyspark.__file__).parent),
        *(str(jar) for jar in class_path),
    ]
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    return settings.jars.expanduser().resolve() / f"classes-{key}.jsa"


def archive_options(settings: Settings, class_path: Sequence[Path]) -> list[str]:
    """Return the options that make the JVM use the archive; none if there is no archive."""
    path = archive_path(settings, class_path)
    # Without its log: a JVM that cannot use an archive would say so on standard output.
    return [f"-XX:SharedArchiveFile={path}", "-Xlog:disable"] if path.is_file() else []


def make_archive(settings: Settings) -> Path:
    """Make the archive and return its path."""
    from ebb.warehouse.spark.jars import delta_jars
    from ebb.warehouse.spark.session import spark_session

    path = archive_path(settings, delta_jars(settings))
    partial = path.with_suffix(f".{os.getpid()}")
    options = f"-XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit={partial} -Xlog:disable"
    settings = replace(settings, conf={**settings.conf, "spark.driver.extraJavaOptions": options})
    with tempfile.TemporaryDirectory() as folder:
        spark = spark_session(settings, delta=True)
        source = f"{folder}/source"
        spark.range(100).selectExpr("id", "cast(id as string) as text").write.parquet(source)
        frame = spark.read.parquet(source).selectExpr("*", "xxhash64(id, text) as h").where("h <> 1").coalesce(1)
        frame.mapInArrow(lambda batches: batches, "id long, text string, h long").collect()
        spark.read.csv(source)
        frame.write.format("delta").save(f"{folder}/table")
        spark.sql(f"SELECT text, count(*) FROM delta.`{folder}/table` GROUP BY text ORDER BY 2 LIMIT 5").toArrow()  # noqa: S608 - ours
        process = spark.sparkContext._gateway.proc
        process.stdin.close()  # the JVM exits by itself when its parent lets go, and writes the archive then
        process.wait(_EXIT_SECONDS)
    partial.rename(path)
    return path


if __name__ == "__main__":
    make_archive(load_settings(environment=os.environ, file=None))
