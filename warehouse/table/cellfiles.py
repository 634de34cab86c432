"""Data files as the log has them: what is written about a file when it is added, and read back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from ebb.index.cellfile import ANY_SLOT, CellFile
from ebb.index.columns import EXPIRES_SLOT, INSERTED_SLOT, PARTITION_COLUMNS
from ebb.index.errors import CorruptionError
from ebb.index.grid import Cell
from ebb.index.stored import members, number, number_or_none, text
from ebb.warehouse.store.errors import read_error
from ebb.warehouse.store.files import size_of
from ebb.warehouse.store.paths import inside
from ebb.warehouse.table.log import Action, add_action, remove_action
from ebb.warehouse.table.spec import TableSpec

__all__ = ["added", "check_generations", "file_of_add", "file_of_remove", "file_on_disk", "live_files", "removed"]

_SLOTS = tuple((end, slot) for slot in (INSERTED_SLOT, EXPIRES_SLOT) for end in ("min", "max"))


def added(file: CellFile, now_ms: int, *, data_change: bool) -> Action:
    """Return the action that adds a file."""
    return add_action(
        file.path, file.size_bytes, _values(file.cell), now_ms, data_change=data_change, statistics=_statistics(file)
    )


def removed(file: CellFile, now_ms: int, *, data_change: bool) -> Action:
    """Return the action that removes a file."""
    return remove_action(file.path, file.size_bytes, _values(file.cell), now_ms, data_change=data_change)


def _values(cell: Cell) -> dict[str, str]:
    return dict(zip(PARTITION_COLUMNS, map(str, (cell.generation, cell.group, cell.cohort)), strict=True))


def _statistics(file: CellFile) -> str:
    """Return the statistics for the log: the two slots and nothing else, because no key may enter the log."""
    return json.dumps(
        {
            "numRecords": file.records,
            "minValues": {INSERTED_SLOT: file.min_ins, EXPIRES_SLOT: file.min_exp},
            "maxValues": {INSERTED_SLOT: file.max_ins, EXPIRES_SLOT: file.max_exp},
            "nullCount": {INSERTED_SLOT: 0, EXPIRES_SLOT: 0},
        }
    )


def live_files(delta: DeltaTable) -> tuple[CellFile, ...]:
    """Return the files of a version, from all that the log says.  O(files)."""
    actions = delta.get_add_actions(flatten=True)
    if not actions.num_rows:
        return ()
    cells = tuple(f"partition.{name}" for name in PARTITION_COLUMNS)
    names = ("path", "size_bytes", "num_records", "modification_time", *cells)
    there = set(actions.schema.names)  # what no file has statistics of is left out
    columns: list[list[Any]] = [
        actions.column(name).to_pylist() if name in there else [None] * actions.num_rows
        for name in (*names, *(f"{end}.{slot}" for end, slot in _SLOTS))
    ]
    columns[3] = [moment if isinstance(moment, int) else int(moment.timestamp() * 1000) for moment in columns[3]]
    return tuple(_file(*row) for row in zip(*columns, strict=True))


def file_of_add(add: Mapping[str, Any]) -> CellFile:
    """Return the file that one action adds."""
    try:
        values, statistics = members(add["partitionValues"]), members(json.loads(add.get("stats") or "{}"))
        cell = [values.get(name) for name in PARTITION_COLUMNS]
        slots = [number_or_none(members(statistics.get(f"{end}Values", {})).get(slot)) for end, slot in _SLOTS]
        records = number_or_none(statistics.get("numRecords"))
        return _file(text(add["path"]), number(add["size"]), records, number(add["modificationTime"]), *cell, *slots)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise read_error(error, "what the log says of a file", add.get("path")) from error


def file_of_remove(remove: Mapping[str, Any]) -> CellFile:
    """Return the file that one action removes; which slots it has, the action does not say."""
    try:
        values = members(remove.get("partitionValues") or {})
        cell = [values.get(name) for name in PARTITION_COLUMNS]
        return _file(text(remove["path"]), number(remove.get("size") or 0), None, 0, *cell, *[None] * 4)
    except (ValueError, KeyError, TypeError) as error:
        raise read_error(error, "what the log says of a file", remove.get("path")) from error


def file_on_disk(table: Path, path: str) -> CellFile:
    """Return a file that was removed from the table and is still there."""
    return _file(path, size_of(table / path), None, 0, *[None] * 7)


def check_generations(spec: TableSpec, files: Iterable[CellFile]) -> None:
    """Refuse files of a layout that the table does not describe: what their cells mean is not known."""
    for file in files:
        found, known = file.cell.generation, spec.grid.generation
        if found != known:
            what = f"table {spec.name} describes layout generation {known}, and a file has {'none' if found < 0 else found}"
            raise CorruptionError(
                what, file.path, "restore the table from a backup, or install the Ebb that wrote the file"
            )


def _file(path: str, size: int, records: int | None, added_ms: int, *cell_and_slots: Any) -> CellFile:
    """Return a file; one that another tool added may lack a cell (no record belongs there) or statistics."""
    generation, group, cohort, *slots = cell_and_slots
    is_known = None not in (records, *slots)
    min_ins, max_ins, min_exp, max_exp = slots if is_known else ANY_SLOT * 2
    return CellFile(
        path=inside(path),
        cell=Cell(*(-1 if value is None else number(int(value)) for value in (group, cohort, generation))),
        size_bytes=size,
        records=records if is_known and records is not None else 0,
        min_ins=min_ins,
        max_ins=max_ins,
        min_exp=min_exp,
        max_exp=max_exp,
        added_ms=added_ms,
    )
