"""Columns told from a sample file: by its footer, by its header and first records, or by what JSON objects hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ebb.index.columns import Column
from ebb.index.errors import SchemaDriftError, UnreadableInputError, UsageError
from ebb.index.inputs import InputRules, InputSchema
from ebb.index.sample import Sample
from ebb.warehouse.intake.source import InputFile, Piece, find_inputs, pa_schema, piece_of
from ebb.warehouse.intake.text_input import text_errors
from ebb.warehouse.store.files import open_text

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["infer_columns"]

_SAMPLE_BYTES = 16 * 1024 * 1024  # of a text


def infer_columns(path: Path, rules: InputRules | None = None, declared: Sequence[Column] = ()) -> tuple[Column, ...]:
    """Return the columns of a sample file, renamed, with the types that Ebb would give them.

    Those that are ``declared`` have the types that are said there, whatever the sample holds.
    """
    import pyarrow as pa

    from ebb.warehouse.intake.csv_input import csv_fault
    from ebb.warehouse.parquet.arrow import columns_of_arrow

    rules = rules or InputRules()
    files = find_inputs([str(path)])
    if not files:
        raise UnreadableInputError(path, "the folder holds no file", "name a sample file")
    file, known = files[0], {column.name: column for column in declared}
    try:
        if file.format == "json":
            return _columns_of_json(file, rules, known)
        schema = file.footer.schema if file.format == "parquet" else _csv_schema(file, rules)
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise UnreadableInputError(
            file.path, f"its columns cannot be told ({csv_fault(error)})", "declare them instead", hint="schema"
        ) from error
    columns: list[Column] = []
    for place, found in enumerate(schema.names):
        name = rules.rename.get(found, found)
        try:
            columns.append(
                known.get(name) or Column(name, columns_of_arrow(pa_schema(schema, place), str(file.path))[0].type)
            )
        except SchemaDriftError as error:
            raise UsageError(str(error), "declare the columns instead", hint="schema") from error
    return tuple(columns)


def _sample(file: InputFile, rules: InputRules) -> tuple[Piece, str]:
    """Return how a text is read, and its first records."""
    schema = InputSchema(columns=(), rules=replace(rules, extra="ignore", strict=False))
    piece = piece_of(0, file, schema)
    with text_errors(file.path), open_text(piece.path) as raw:
        data = raw.read(_SAMPLE_BYTES)
    text = data.decode(piece.encoding, errors="replace").removeprefix("\ufeff")
    return piece, text if len(data) < _SAMPLE_BYTES else text[: text.rfind("\n")]


def _columns_of_json(file: InputFile, rules: InputRules, declared: Mapping[str, Column]) -> tuple[Column, ...]:
    from ebb.warehouse.intake.json_input import decode

    sample = Sample(declared)
    _, text = _sample(file, rules)
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            where = f"{file.path}, line {number}"
            try:
                record = decode(line)
            except (ValueError, ArithmeticError, RecursionError):
                record = None
            if not isinstance(record, dict):
                step = "correct it, or declare the columns"
                raise UnreadableInputError(where, "it is not a JSON object", step, hint="schema")
            sample.add(where, {rules.rename.get(name, name): value for name, value in record.items()})
    return sample.columns()


def _csv_schema(file: InputFile, rules: InputRules) -> pa.Schema:
    """Return the columns of a CSV file as Arrow takes them from its first records."""
    import pyarrow as pa
    import pyarrow.csv

    piece, text = _sample(file, rules)
    options = pyarrow.csv.ParseOptions(delimiter=piece.separator)
    return pyarrow.csv.open_csv(pa.BufferReader(text.encode()), parse_options=options).schema
