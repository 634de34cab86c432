"""What can be told of an input text from its name and its first bytes: whether it is packed, encoding, header.

A byte-order mark says the encoding, and must not contradict one that was named. A packed text without a byte, and a CSV
file without a header, were cut off.
"""

from __future__ import annotations

import codecs
import csv
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ebb.index.errors import UnreadableInputError
from ebb.index.inputs import SEPARATORS, InputSchema, best_separator
from ebb.warehouse.store.errors import first_line
from ebb.warehouse.store.files import open_text

__all__ = ["csv_start", "encoding_of", "first_bytes", "is_packed", "suffix_of", "text_encoding", "text_errors"]

_START_BYTES = 1024 * 1024  # of a text, to tell its header by
_PACKED_LEAST = 20  # bytes of a .gz file of nothing
# What the first bytes of a text say of its encoding; those of UTF-32 begin like those of UTF-16.
_MARKS = {
    codecs.BOM_UTF32_LE: ("utf-32", "utf-32-le"),
    codecs.BOM_UTF32_BE: ("utf-32", "utf-32-be"),
    codecs.BOM_UTF16_LE: ("utf-16", "utf-16-le"),
    codecs.BOM_UTF16_BE: ("utf-16", "utf-16-be"),
    codecs.BOM_UTF8: ("utf-8", "utf-8-sig"),
}


def is_packed(path: Path) -> bool:
    """Whether the name of a file says that it is packed."""
    return path.suffix.lower() == ".gz"


def suffix_of(path: Path) -> str:
    """Return the suffix that tells the format, whether a text is packed or not."""
    return (Path(path.stem) if is_packed(path) else path).suffix.lower()


def encoding_of(start: bytes) -> str | None:
    """Return the encoding that the first bytes of a text tell; None if they tell none.

    >>> encoding_of("a".encode("utf-16")), encoding_of(b"a")
    ('utf-16', None)
    """
    return next((names[0] for mark, names in _MARKS.items() if start.startswith(mark)), None)


def text_encoding(path: Path, start: bytes, named: str | None) -> str:
    """Return the encoding of a text; refuses one that was named and that its first bytes contradict."""
    told, name = encoding_of(start), None if named is None else codecs.lookup(named).name
    if told is None or name is None:
        return told or name or "utf-8"
    if not any(start.startswith(mark) for mark, names in _MARKS.items() if name in names):
        reason = f"its first bytes say that it is {told}, and its encoding was named as {named}"
        step = f"name {told} instead, or write it in {named}"
        raise UnreadableInputError(path, reason, step, told, named, hint="other_encoding")
    return told  # which leaves the mark out


@contextmanager
def text_errors(path: str | Path) -> Iterator[None]:
    """Translate what is raised while a text is read."""
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadableInputError(path, f"it cannot be read ({first_line(error)})", "write it again") from error


def first_bytes(path: Path, size_bytes: int) -> bytes:
    """Return the beginning of a text, with its first line if that is not longer than anybody writes."""
    if is_packed(path) and size_bytes < _PACKED_LEAST:
        reason = f"it has {size_bytes} bytes, and a .gz file has {_PACKED_LEAST} at least: it was cut off"
        raise UnreadableInputError(path, reason, "write it again")
    with text_errors(path), open_text(str(path)) as text:
        return text.read(_START_BYTES)


def csv_start(path: Path, start: bytes, encoding: str, schema: InputSchema) -> tuple[str, list[str]]:
    """Return separator and header of a CSV file."""
    from ebb.warehouse.intake.csv_input import csv_header

    rules = schema.rules
    known = [*(column.name for column in schema.columns), *rules.rename]
    options = [rules.separator] if rules.separator else ["\t"] if suffix_of(path) == ".tsv" else SEPARATORS
    try:
        lines = start.decode(encoding, errors="ignore").removeprefix("\ufeff").splitlines()
        first = next((line for line in lines if line.strip()), None)
        if first is None:
            raise UnreadableInputError(path, "it is empty: it has no header", "write it again, with its header")
        headers = {separator: csv_header(first, separator) for separator in options}
    except (UnicodeError, csv.Error) as error:
        raise UnreadableInputError(path, f"its header cannot be read ({error})", "write it again") from error
    separator = options[0] if len(options) == 1 else best_separator(headers, known)
    return separator, headers[separator]
