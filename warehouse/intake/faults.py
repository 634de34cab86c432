"""Faults of files: what makes a whole file unfit, told apart file by file.

A file that cannot be read is found out while it is read, perhaps in a task on another machine. Its error travels back
as text, and everything about the other files is known too, so that one file can be set aside alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ebb.index import errors
from ebb.index.errors import BadFilesError, InputError

__all__ = ["at_place", "bad_files", "blamed", "dumps_fault", "loads_fault", "raise_faults"]


@contextmanager
def blamed(path: str) -> Iterator[None]:
    """Say of an error of a batch which file it is about."""
    try:
        yield
    except InputError as error:
        error.file = path
        raise


def raise_faults(faults: Iterable[InputError]) -> None:
    """Raise the errors of some files, if there are any: one as it is, several as one."""
    by_file = {fault.file: fault for fault in sorted(faults, key=lambda fault: str(fault.file), reverse=True)}
    found = sorted(by_file.values(), key=lambda fault: str(fault.file))
    if len(found) == 1:
        raise found[0]
    if found:
        raise BadFilesError(*found)


def bad_files(error: InputError) -> dict[str, InputError]:
    """Return the files that an error is about, each with its own."""
    parts = error.args if isinstance(error, BadFilesError) else (error,)
    return {part.file: part for part in parts if part.file is not None}


def at_place(fault: InputError, path: str, place: str) -> InputError:
    """Return the fault of a file that was found at a path and is at another place now.

    >>> print(at_place(errors.UnreadableInputError("/in/a.csv, line 2", "it is odd", "fix it"), "/in/a.csv", "/out/a.csv"))
    /out/a.csv, line 2: it is odd; fix it
    """
    values = [str(value).replace(path, place).replace(fault.file or path, place) for value in fault.args]
    moved = type(fault)(*values, hint=fault.hint)
    moved.file = place
    return moved


def dumps_fault(error: InputError) -> str:
    """Write the error of a file as text, to bring it from a task to the driver."""
    values = [str(value) for value in error.args]
    return json.dumps({"kind": type(error).__name__, "values": values, "hint": error.hint, "file": error.file})


def loads_fault(text: str) -> InputError:
    """Read what :func:`dumps_fault` wrote."""
    value = json.loads(text)
    error: InputError = getattr(errors, value["kind"])(*value["values"])
    error.hint, error.file = value["hint"], value["file"]
    return error
