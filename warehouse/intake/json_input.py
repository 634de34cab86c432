"""Reading JSON lines: one object a line.

A line that is no object is refused alone. A field that the table does not have is the fault of the whole file, unless
the rules say that such fields are ignored: its producer has changed, and records must not lose fields in silence.
"""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import IO, Any, AnyStr

import pyarrow as pa

from ebb.index.errors import SchemaDriftError, UnreadableInputError
from ebb.index.inputs import InputSchema
from ebb.warehouse.intake.convert import convert_values
from ebb.warehouse.intake.received import Unread, received, unread
from ebb.warehouse.store.files import open_text

__all__ = ["decode", "first_lines", "read_json"]

_LINES = 16 * 1024  # that are converted together
_WAITING_BYTES = 16 * 1024 * 1024
_BLOCK_BYTES = 1024 * 1024
_MOST_BYTES = 64 * 1024 * 1024  # of a line: one without an end, or packed, could take all memory


class _TwiceError(ValueError):
    """A field stands in an object more than once."""


def read_json(
    path: str,
    schema: InputSchema,
    *,
    file: int,
    encoding: str,
    start: int = 0,
    stop: int | None = None,
    first: int = 1,
) -> Iterator[pa.Table]:
    """Yield the records of a file, or those whose lines start in some of its bytes; ``first``: the number of the first."""
    waiting, waiting_bytes = list[tuple[int, str | None, bytes]](), 0
    for number, line in enumerate(_lines(path, encoding, start, stop), start=first):
        if line.strip(b" \t\r\n"):
            waiting.append((number, _text(line), line))
            waiting_bytes += len(line)
        if len(waiting) == _LINES or waiting_bytes > _WAITING_BYTES:
            yield from _records(waiting, path, schema, file)
            waiting, waiting_bytes = [], 0
    if waiting:
        yield from _records(waiting, path, schema, file)


def _lines(path: str, encoding: str, start: int, stop: int | None) -> Iterator[bytes]:
    """Yield lines without their ends."""
    with open_text(path) as raw:
        if encoding not in ("utf-8", "utf-8-sig"):
            with io.TextIOWrapper(raw, encoding, newline="\n") as text:
                yield from (line.rstrip("\r\n").encode() for line in _short(path, text))
            return
        place = start
        if start:  # a line belongs to where it starts
            raw.seek(start - 1)
            place += _rest(raw) - 1
        for line in _short(path, raw):
            if stop is not None and place >= stop:
                return
            is_first = place == 0
            place += len(line)
            yield (line.removeprefix(b"\xef\xbb\xbf") if is_first else line).rstrip(b"\r\n")


def _short(path: str, text: IO[AnyStr]) -> Iterator[AnyStr]:
    """Yield lines; refuses one that nobody would write."""
    while line := text.readline(_MOST_BYTES + 1):
        if len(line) > _MOST_BYTES:
            reason = f"a line has more than {_MOST_BYTES // 1024**2} MiB"
            raise UnreadableInputError(path, reason, "write one object per line")
        yield line


def _rest(raw: IO[bytes]) -> int:
    """Pass over the rest of a line; returns how many bytes it has."""
    count = 0
    while part := raw.readline(_BLOCK_BYTES):
        count += len(part)
        if part.endswith(b"\n"):
            break
    return count


def first_lines(path: str, starts: Sequence[int]) -> list[int]:
    """Return the numbers of the first lines that start at some places of a file or after them; reads it once.

    Requires ascending places.
    """
    numbers, breaks, place = list[int](), 0, 0
    with open_text(path) as raw:
        for start in starts:
            while place < start - 1 and (block := raw.read(min(_BLOCK_BYTES, start - 1 - place))):
                breaks += block.count(b"\n")
                place += len(block)
            numbers.append(breaks + 2 if start else 1)  # the line that holds the byte before belongs to another piece
    return numbers


def _text(line: bytes) -> str | None:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _TwiceError
    return found


# Numbers keep their digits: what they are for a column is decided by the rule for text.
decode = json.JSONDecoder(object_pairs_hook=_object, parse_float=Decimal).decode


def _records(
    lines: Sequence[tuple[int, str | None, bytes]],
    path: str,
    schema: InputSchema,
    file: int,
) -> Iterator[pa.Table]:
    rules = schema.rules
    known = {column.name for column in schema.columns if column.name not in schema.computed}
    found, numbers, refused = list[Mapping[str, Any]](), list[int](), list[Unread]()
    for number, text, line in lines:
        if text is None:
            refused.append(Unread("it is not UTF-8", line.decode(errors="backslashreplace"), number))
            continue
        try:
            value = decode(text)
            record = _renamed(value, rules.rename) if rules.rename and isinstance(value, dict) else value
        except _TwiceError:
            refused.append(Unread("a field stands there twice", text, number))
            continue
        except (ValueError, ArithmeticError, RecursionError):
            refused.append(Unread("it is not JSON", text, number))
            continue
        if not isinstance(record, dict):
            refused.append(Unread("it is not a JSON object", text, number))
            continue
        if (rules.strict or rules.extra == "refuse") and not known.issuperset(record):
            raise _strange(record, known, schema, f"{path}, line {number}")
        found.append(record)
        numbers.append(number)
    texts = {number: text for number, text, _ in lines}
    columns = [column for column in schema.columns if column.name in known]
    converted = {
        column.name: convert_values([record.get(column.name) for record in found], column) for column in columns
    }
    yield received(
        converted,
        schema.columns,
        len(found),
        lines=pa.array(numbers, pa.int64()),
        texts=lambda places: [str(texts[numbers[place]]) for place in places],
        file=file,
    )
    if refused:
        yield unread(refused, schema.columns, file)


def _renamed(record: Mapping[str, Any], rename: Mapping[str, str]) -> dict[str, Any]:
    return _object([(rename.get(name, name), value) for name, value in record.items()])


def _strange(record: Collection[str], known: Collection[str], schema: InputSchema, where: str) -> SchemaDriftError:
    from ebb.index.inputs import matched

    try:
        rules = replace(schema.rules, rename={}, extra="refuse", strict=False)  # they are renamed already
        strange = [name for name in record if name not in known]
        matched(where, strange, replace(schema, required=(), rules=rules))
    except SchemaDriftError as error:
        return error
    raise AssertionError(where)  # it has a field that is not known
