"""The one translation of what Spark, py4j and Java raise into our own errors.

What Spark reports comes as pyspark's exceptions. When the JVM itself is gone there is nobody to report anything, and
whatever the connection to it fails with comes instead. Either way one of ours leaves here, with a reason and a next
step, and a dead JVM is forgotten so that the next piece of work starts a new one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from ebb.index import errors
from ebb.index.errors import CorruptionError, EngineError, UnreadableInputError, UsageError, WarehouseError
from ebb.warehouse.store.errors import disk_error, refusal

__all__ = ["dump_error", "load_error", "spark_errors"]

_NO_MEMORY = ("OutOfMemoryError", "Java heap space")
_UNREADABLE = ("FAILED_READ_FILE", "CANNOT_READ_FILE", "not a Parquet file")
_TRACEBACK = "Traceback (most recent call last):"
_MESSAGE_LENGTH = 300


@contextmanager
def spark_errors(what: str, *, is_query: bool = False) -> Iterator[None]:
    """Translate what Spark raises inside; ``what`` says in our words what failed.  Also a decorator.

    ``is_query``: the user wrote what Spark was asked, and it reads our files instead of theirs.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import AnalysisException, PySparkException

    try:
        yield
    except (PySparkException, Py4JError, ConnectionError, EOFError) as error:
        from ebb.warehouse.spark.session import gone, is_gone

        if is_gone(error):
            raise gone(what) from error
        if is_query and isinstance(error, AnalysisException):  # what the parser says is one too
            msg = f"{what}: {_first_line(error)}"
            raise UsageError(msg) from error
        raise _translated(error, what, is_query=is_query) from error


def dump_error(error: WarehouseError) -> str:
    """Write an error of ours as text, to bring it from a task to the driver."""
    return json.dumps([type(error).__name__, *map(str, error.args)])


def load_error(text: str) -> WarehouseError:
    """Read what :func:`dump_error` wrote."""
    name, *arguments = json.loads(text)
    error: WarehouseError = getattr(errors, name)(*arguments)
    return error


def _first_line(error: Exception) -> str:
    """Return the line that says it: the first one, or the last one of a traceback from a task."""
    text = str(error)
    lines = [line for line in text.partition(_TRACEBACK)[2].splitlines() if line and line[0] not in " \t"]
    lines = lines[-1:] or [line for line in text.splitlines() if line.strip()]
    return (lines[0].strip(" ;") if lines else "no message")[:_MESSAGE_LENGTH]


def _translated(error: Exception, what: str, *, is_query: bool) -> WarehouseError:
    text = str(error)
    if any(sign in text for sign in _NO_MEMORY):
        return EngineError(what, "Java ran out of memory", "nothing was changed; give it more and run it again")
    if refusal(error):
        return disk_error(error, what, note="nothing was changed")
    if any(sign in text for sign in _UNREADABLE):
        if is_query:
            step = "run it again if its version was erased meanwhile; otherwise restore the file from a backup"
            return CorruptionError("a data file cannot be read", _first_line(error), step)
        return UnreadableInputError("the batch", _first_line(error), "write the file again; nothing was changed")
    return EngineError(what, _first_line(error), "nothing was changed", hint="debug")
