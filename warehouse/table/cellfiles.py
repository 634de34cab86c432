"""Data files as the log has them: what is written about a file when it is added, and read back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from deltalake import DeltaTable

from ebb.index.cellfile import ANY_SLOT, CellFile
from ebb.index.columns import EXPIRES_SLOT, INSERTED_SLOT
from ebb.index.grid import Cell
from ebb.warehouse.store.paths import inside
from ebb.warehouse.table.log import Action, add_action, remove_action

__all__ = ["added", "file_of_add", "live_files", "removed"]

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
    return {"_g": str(cell.group), "_e": str(cell.cohort)}


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
    names = ("path", "partition._g", "partition._e", "size_bytes", "num_records", "modification_time")
    there = set(actions.schema.names)  # what no file has statistics of is left out
    columns: list[list[Any]] = [
        actions.column(name).to_pylist() if name in there else [None] * actions.num_rows
        for name in (*names, *(f"{end}.{slot}" for end, slot in _SLOTS))
    ]
    columns[5] = [moment if isinstance(moment, int) else int(moment.timestamp() * 1000) for moment in columns[5]]
    return tuple(_file(*row) for row in zip(*columns, strict=True))


def file_of_add(add: Mapping[str, Any]) -> CellFile:
    """Return the file that one action adds."""
    cell, statistics = add["partitionValues"], json.loads(add.get("stats") or "{}")
    slots = (statistics.get(f"{end}Values", {}).get(slot) for end, slot in _SLOTS)
    records = statistics.get("numRecords")
    return _file(add["path"], cell["_g"], cell["_e"], add["size"], records, add["modificationTime"], *slots)


def _file(path: str, group: Any, cohort: Any, size: int, records: int | None, added_ms: int, *slots: Any) -> CellFile:
    """Return a file; one that another tool added may lack a cell (no record belongs there) or statistics."""
    is_known = None not in (records, *slots)
    min_ins, max_ins, min_exp, max_exp = slots if is_known else ANY_SLOT * 2
    return CellFile(
        path=inside(path),
        cell=Cell(-1 if group is None else int(group), -1 if cohort is None else int(cohort)),
        size_bytes=size,
        records=records if is_known and records is not None else 0,
        min_ins=min_ins,
        max_ins=max_ins,
        min_exp=min_exp,
        max_exp=max_exp,
        added_ms=added_ms,
    )
