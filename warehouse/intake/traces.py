"""Traces of chosen records outside the table's files: in refused records, and in files of batches.

What can be read as records of the table is compared by value. What cannot be holds a key if its text stands there as a
whole word: it is better that a line too many goes than that a key stays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ebb.index.errors import InputError
from ebb.index.keys import Wanted, code
from ebb.warehouse.intake.arrow_source import fields_of, received_again
from ebb.warehouse.intake.compute import computed
from ebb.warehouse.intake.quarantine import Refused
from ebb.warehouse.intake.received import RAW
from ebb.warehouse.intake.source import check_inputs, find_inputs, input_format
from ebb.warehouse.intake.task import Counts, Task
from ebb.warehouse.read.choose import Choice
from ebb.warehouse.read.mask import mask as predicate_mask
from ebb.warehouse.read.order import key_mask
from ebb.warehouse.store.files import open_text
from ebb.warehouse.table.spec import TableSpec

__all__ = ["has_traces", "traces_in"]


def traces_in(records: Sequence[Refused], spec: TableSpec, choice: Choice, slot: int) -> list[bool]:
    """Return which refused records are chosen ones; ``slot``: for the times that the table computes."""
    table = computed(received_again(records, spec), spec, slot)
    is_readable = [fields_of(record.record, spec) is not None for record in records]
    has_key = np.all([table[name].is_valid().to_numpy() for name in spec.key], axis=0)
    words = _words(choice.wanted)
    return [
        (chosen and can_be_read) or (not (keyed and can_be_read) and _has_word(record.record, words))
        for record, chosen, can_be_read, keyed in zip(
            records, _chosen(table, spec, choice).tolist(), is_readable, has_key.tolist(), strict=True
        )
    ]


def has_traces(file: Path, spec: TableSpec, choice: Choice, slot: int) -> bool:
    """Whether a file of a batch holds a chosen record.

    A file that cannot be looked into may hold any key, and is said to; of a condition nobody can tell, and it is not.
    """
    words = _words(choice.wanted)
    try:
        pieces = check_inputs(find_inputs([str(file)]), spec.input_schema)
        task, counts = Task.of(spec, "", slot=slot, own_slots=False), Counts()
        for part in task.read(pieces, counts):
            if _chosen(computed(part, spec, slot), spec, choice).any():
                return True
            if any(_has_word(text, words) for text in part[RAW].drop_null().to_pylist()):
                return True
        is_read = not counts.faults
    except InputError:
        is_read = False
    return not is_read and choice.wanted is not None and _text_has_word(file, words)


def _chosen(table: pa.Table, spec: TableSpec, choice: Choice) -> Any:
    """Return which records of a batch are chosen."""
    if choice.wanted is not None:
        return _wanted(table, spec.key, choice.wanted)
    if choice.where is None:
        return np.ones(table.num_rows, np.bool_)
    holds = predicate_mask(table, choice.where, spec.columns)
    return pc.fill_null(holds, False).to_numpy(zero_copy_only=False)  # noqa: FBT003 - unknown is not chosen


def _wanted(table: pa.Table, key: Sequence[str], wanted: Wanted) -> Any:
    mask = key_mask(table, key, wanted)
    if mask is not None:
        return pc.fill_null(mask, False).to_numpy(zero_copy_only=False)  # noqa: FBT003 - no record has a null key
    rows = zip(*(table[name].to_pylist() for name in key), strict=True)
    return np.array([_is_wanted(row, wanted) for row in rows], np.bool_)


def _is_wanted(row: Sequence[Any], wanted: Wanted) -> bool:
    """Whether the parts of a key up to the first that is missing are wanted."""
    parts = row[: row.index(None)] if None in row else row
    encoded = code(parts)
    near = wanted.between(encoded, encoded + b"\x00")
    return bool(parts) and any(interval.holds(encoded) for interval in near.intervals)


def _words(wanted: Wanted | None) -> list[list[re.Pattern[str]]]:
    """Return for each key what its parts look like in a text."""
    return [[_word(str(part)) for part in key] for key in (wanted.keys if wanted else ())]


def _word(text: str) -> re.Pattern[str]:
    ways = {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    return re.compile("|".join(rf"(?<!\w){re.escape(way)}(?!\w)" for way in sorted(ways)))


def _has_word(text: str, words: Iterable[Sequence[re.Pattern[str]]]) -> bool:
    return any(all(part.search(text) for part in key) for key in words)


def _text_has_word(file: Path, words: Sequence[Sequence[re.Pattern[str]]]) -> bool:
    """Whether a file that could not be read as records may hold a key."""
    try:
        if input_format(file) == "parquet":
            return True
        with open_text(str(file)) as text:
            return any(_has_word(line.decode("utf-8", errors="replace"), words) for line in text)
    except (InputError, OSError, EOFError):
        return True
