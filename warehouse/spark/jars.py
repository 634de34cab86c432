"""Delta's jars: fetched once by Spark's own resolver, kept as files, checked by SHA-256 each time they are used.

Five jars are enough for tables by path; everything else that their poms name is in pyspark already.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from ebb.index.errors import CorruptionError, EngineError
from ebb.warehouse.settings import Settings

__all__ = ["DELTA_JARS", "delta_jars", "fetch_jars", "fetched_jars"]

PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"
DELTA_JARS = {
    "delta-kernel-api-4.4.0.jar": "ee9b5a14ac3b7efdff4d61a58478fe8eb0e5a3fbca43889dca7290795fe79a11",
    "delta-kernel-defaults-4.4.0.jar": "225c975199e4718b38ee5b7e6da7f19e9585024262b2cec2656b32151a856b0b",
    "delta-kernel-unitycatalog-4.4.0.jar": "cea22dfb4ac562b3cd27bf652697750e8336009d73fb06631363aaaad5345ffa",
    "delta-spark_4.2_2.13-4.4.0.jar": "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead",
    "delta-storage-4.4.0.jar": "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
}
_EXCLUDED = "org.apache.hadoop:*,org.apache.parquet:*,com.fasterxml.jackson.*:*,org.slf4j:*,io.unitycatalog:*"
_RESOLVE = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
builder = builder.config("spark.jars.packages", sys.argv[1]).config("spark.jars.excludes", sys.argv[2])
builder.config("spark.jars.ivy", sys.argv[3]).getOrCreate().stop()
"""


def _paths(settings: Settings) -> list[Path]:
    folder = settings.jars.expanduser().resolve()
    return [folder / name for name in DELTA_JARS]


def fetched_jars(settings: Settings) -> list[Path]:
    """Return Delta's jars if they have been fetched, none otherwise.

    Raises CorruptionError for a jar that is not the one we know, before it comes near a class path.
    """
    paths = _paths(settings)
    if not all(path.is_file() for path in paths):
        return []
    for path in paths:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != DELTA_JARS[path.name]:
            raise CorruptionError(
                "a jar is not the one that was published",
                f"{path} has SHA-256 {found}",
                "delete it, it will be fetched again",
            )
    return paths


def delta_jars(settings: Settings) -> list[Path]:
    """Return Delta's jars, fetching them if they are not there."""
    if not all(path.is_file() for path in _paths(settings)):
        fetch_jars(settings.jars.expanduser().resolve())
    return fetched_jars(settings)


def fetch_jars(folder: Path) -> None:
    """Resolve Delta's package once and keep its jars in ``folder``."""
    ivy = folder / ".ivy"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        command = [sys.executable, "-c", _RESOLVE, PACKAGE, _EXCLUDED, str(ivy)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        for name in DELTA_JARS:
            found = list((ivy / "jars").glob(f"*{name}"))
            if not found:
                lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
                reason = next(
                    (line.strip() for line in reversed(lines) if "rror" in line or "not found" in line), "no answer"
                )
                raise EngineError(
                    f"{PACKAGE} could not be fetched", reason, "check that Spark can reach its package repository"
                )
            partial = folder / f".{name}.{os.getpid()}"
            shutil.copyfile(found[0], partial)
            partial.rename(folder / name)
    except OSError as error:
        raise EngineError(
            f"the jars cannot be kept in {folder}", error, "set EBB_JARS to a folder you may write to"
        ) from error
    finally:
        shutil.rmtree(ivy, ignore_errors=True)


if __name__ == "__main__":
    from ebb.warehouse.settings import load_settings

    delta_jars(load_settings(environment=os.environ, file=None))
