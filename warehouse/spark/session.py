"""The one place that starts Spark: tuned for small frequent jobs, loopback only on a local master, and quiet.

Writing needs no Delta jars, because Python commits; only SQL through Spark does. Whatever the JVM prints goes to
a file of this process and is shown only if Spark does not start.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from ebb.index.errors import EngineError, WarehouseError
from ebb.warehouse.settings import Settings
from ebb.warehouse.store.errors import first_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["gone", "is_gone", "spark_session"]

_ALWAYS = {
    "spark.app.name": "ebb",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # Parquet's naive timestamps are UTC here: timestamp_ntz would raise the table's protocol.
    "spark.sql.parquet.inferTimestampNTZ.enabled": "false",
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
    # Small batches let Spark and its Python worker work at the same time.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4096",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.python.worker.reuse": "true",
}
_LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "4g",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    # With a handful of partitions there is nothing to adapt, and planning again costs 50 ms a job.
    "spark.sql.adaptive.enabled": "false",
}
_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
_started: IO[bytes] | None = None  # what the JVM of this process prints


def spark_session(settings: Settings, *, delta: bool = False) -> SparkSession:
    """Return this process's Spark session, starting it if there is none; ``delta`` for SQL over Delta tables."""
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        raise EngineError(
            "Spark needs Java 17", "no java on the PATH", "install it: apt-get install openjdk-17-jre-headless"
        )
    from pyspark import SparkContext

    if is_dead():
        forget_session()
    try:
        session = _session(settings, delta=delta)
        extensions = session.conf.get("spark.sql.extensions", "")
    except WarehouseError:
        raise
    except Exception as error:
        # Whatever is asked of a JVM that was just killed fails, with one error or another.
        if SparkContext._gateway is not None and is_gone(error):
            raise gone("Spark did not start") from error
        reason = _last_words() or first_line(error)
        step = "check that java -version is 17, and the settings of Spark"
        raise EngineError("Spark did not start", reason, step, hint="spark_settings") from error
    if delta and _DELTA["spark.sql.extensions"] not in (extensions or ""):
        reason = "the Spark session of this process was started without Delta's jars"
        raise EngineError(
            "SQL needs Delta", reason, "start it with them: Warehouse.spark(delta=True) before anything else"
        )
    return session


def _session(settings: Settings, *, delta: bool) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    from ebb.warehouse.spark.class_archive import archive_options
    from ebb.warehouse.spark.jars import delta_jars, fetched_jars

    if "PYSPARK_GATEWAY_PORT" in os.environ:  # started by spark-submit: its settings are in the JVM that waits for us
        SparkContext._ensure_initialized()
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # errors are told by ours
    logging.getLogger().addFilter(_is_not_py4j)
    submitted = SparkConf()
    wanted = dict(_ALWAYS)
    master = settings.master or settings.conf.get("spark.master") or submitted.get("spark.master") or "local[*]"
    if master.startswith("local"):
        cores = str(os.cpu_count() or 1)
        wanted |= _LOCAL | {"spark.sql.shuffle.partitions": cores, "spark.default.parallelism": cores}
    # Jars that are there are always on the class path: one archive of classes then serves every command.
    jars = delta_jars(settings) if delta else fetched_jars(settings)
    wanted |= {"spark.driver.extraClassPath": ":".join(str(jar) for jar in jars)} if jars else {}
    wanted |= _DELTA if delta else {}
    if master.startswith("local"):
        options = [*(["-XX:TieredStopAtLevel=1"] if settings.short_work else []), *archive_options(settings, jars)]
        wanted["spark.driver.extraJavaOptions"] = " ".join(options)
    wanted = {key: value for key, value in wanted.items() if not submitted.contains(key)}
    wanted |= settings.conf
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with _quiet():
        conf = SparkConf().setMaster(master).setAll(list(wanted.items()))
        with _undisturbed(), _private():
            SparkContext._ensure_initialized(conf=conf)
        session = SparkSession.builder.config(conf=conf).getOrCreate()
        # A JVM that dies is told by our errors, not by a traceback of the thread that listens to it.
        session.sparkContext._accumulatorServer.handle_error = lambda *_: None
        session.sparkContext.setLogLevel("OFF")
    return session


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Hold interruptions back until the JVM can notice our end: one that comes earlier would leave it running for ever."""
    held: list[int] = []
    previous = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            previous[number] = signal.signal(number, lambda number, _: held.append(number))
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        if held:
            signal.raise_signal(held[0])


@contextmanager
def _private() -> Iterator[None]:
    """Let the JVM start with a mask that keeps others from what it writes: records, on their way through its temporary folders."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def _is_not_py4j(record: logging.LogRecord) -> bool:
    """Keep out of the root logger what py4j writes there with a traceback when its connection breaks."""
    return record.module != "java_gateway"


def is_dead(wait: float = 0.0) -> bool:
    """Whether this process started a JVM that has died since, or does so within ``wait`` seconds."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return False
    try:
        process.wait(wait)
    except subprocess.TimeoutExpired:
        return False
    return True


def is_gone(error: Exception) -> bool:
    """Whether an error means that the JVM has died."""
    from py4j.protocol import Py4JJavaError, Py4JNetworkError
    from pyspark.errors import PySparkException

    # Spark's own errors were told by a JVM that lived; anything else usually means that it does not.
    told = isinstance(error, PySparkException | Py4JJavaError) and "Connection refused" not in str(error)
    return isinstance(error, Py4JNetworkError | ConnectionError | EOFError) or is_dead(0.0 if told else 2.0)


def gone(what: str) -> EngineError:
    """Forget a JVM that has died and return the error that tells of it."""
    forget_session()
    reason = "Spark's Java process is gone: killed, or out of memory"
    return EngineError(what, reason, "nothing was changed; run it again, it starts a new one")


def forget_session() -> None:
    """Forget a JVM that has died, so that the next session starts a new one."""
    global _started  # noqa: PLW0603 - see below
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    with SparkContext._lock:
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    _started = None


@contextmanager
def _quiet() -> Iterator[None]:
    """Let the JVM inherit a file for its error output; ours stays where it is."""
    global _started  # noqa: PLW0603 - one JVM per process, and its output goes with it
    if _started is not None:
        yield
        return
    _started = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the JVM
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        os.dup2(_started.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _last_words() -> str:
    if _started is None:
        return ""
    _started.seek(0)
    lines = [line.strip() for line in _started.read().decode(errors="replace").splitlines()]
    return next((line for line in reversed(lines) if "rror" in line or "xception" in line), "")
