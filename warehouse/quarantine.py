"""The quarantine: refused records of a table, with the reason, in a Delta table beside it.

Refused records are kept as text, because what is wrong with them may be that they do not fit the columns. They are
committed before the batch itself: a crash in between leaves them recorded and the batch not applied, and the next
try replaces them. Each update's records are a partition, so they go as whole files when their time is over.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable, Schema
from deltalake.transaction import AddAction, CommitProperties, RemoveAction

from warehouse.schema import Column, delta_fields
from warehouse.table import Table, inside

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Refused", "commit_refused", "expire_refused", "read_refused", "write_refused"]

_COLUMNS = (Column("reason", "string"), Column("record", "string"), Column("_slot", "bigint"))


@dataclass(frozen=True, slots=True)
class Refused:
    """One refused record."""

    slot: int
    reason: str
    record: str


def write_refused(table: str, folder: str, parts: Sequence[pa.Table]) -> dict[str, Any]:
    """Write refused records of one task below the batch's folder; returns files and counts by reason."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not parts:
        return {"files": [], "reasons": {}}
    refused = pa.concat_tables(parts).rename_columns(["reason", "record"])
    path = f"{folder}/refused/part-{uuid.uuid4().hex}.parquet"
    Path(table, folder, "refused").mkdir(exist_ok=True)
    pq.write_table(refused, f"{table}/{path}", compression="snappy", write_page_checksum=True, store_schema=False)
    return {"files": [path], "reasons": dict(Counter(refused["reason"].to_pylist()))}


def _open(table: Table, *, create: bool) -> DeltaTable | None:
    if (table.quarantine / "_delta_log").is_dir():
        return DeltaTable(table.quarantine)
    if not create:
        return None
    table.quarantine.mkdir(mode=0o700, exist_ok=True)
    return DeltaTable.create(
        table.quarantine,
        Schema.from_json(json.dumps({"type": "struct", "fields": delta_fields(_COLUMNS)})),
        partition_by=["_slot"],
        # The records must not outlive their files in the log.
        configuration={"delta.dataSkippingNumIndexedCols": "0"},
    )


def _commit(delta: DeltaTable, actions: list[AddAction | RemoveAction]) -> None:
    delta.create_write_transaction(
        actions, "append", delta.schema(), ["_slot"], commit_properties=CommitProperties(max_commit_retries=0)
    )


def _live(delta: DeltaTable) -> Iterator[tuple[str, int, int]]:
    """Yield path, slot and size of every live file."""
    actions = delta.get_add_actions(flatten=True)
    if actions.num_rows:
        columns = [actions.column(name).to_pylist() for name in ("path", "partition._slot", "size_bytes")]
        for path, slot, size in zip(*columns, strict=True):
            yield inside(path), slot, size


def _removal(path: str, slot: int, size: int, now_ms: int) -> RemoveAction:
    data_change = True
    return RemoveAction(path, data_change, now_ms, size, {"_slot": str(slot)})


def commit_refused(table: Table, files: Sequence[str], *, slot: int, clock: int | None, now_ms: int) -> None:
    """Move staged files into the quarantine under ``slot``, replacing what an unfinished try of it left."""
    delta = _open(table, create=bool(files))
    if delta is None:
        return
    stale = [f for f in _live(delta) if clock is None or f[1] > clock]
    adds: list[AddAction | RemoveAction] = []
    data_change = True
    for file in files:
        path = f"_slot={slot}/{Path(file).name}"
        (table.quarantine / f"_slot={slot}").mkdir(mode=0o700, exist_ok=True)
        (table.folder / file).rename(table.quarantine / path)
        size = (table.quarantine / path).stat().st_size
        adds.append(AddAction(path, size, {"_slot": str(slot)}, now_ms, data_change, "{}"))
    if adds or stale:
        _commit(delta, [*adds, *(_removal(*f, now_ms) for f in stale)])
        _unlink(table, [f[0] for f in stale])


def expire_refused(table: Table, *, through: int, now_ms: int) -> int:
    """Remove, from table and disk, what was refused at or before slot ``through``; returns how many files."""
    delta = _open(table, create=False)
    if delta is None:
        return 0
    live = list(_live(delta))
    over = [f for f in live if f[1] <= through]
    if over:
        _commit(delta, [_removal(*f, now_ms) for f in over])
    keep = {f[0] for f in live} - {f[0] for f in over}
    on_disk = [p.relative_to(table.quarantine).as_posix() for p in table.quarantine.glob("_slot=*/*")]
    _unlink(table, [path for path in on_disk if path not in keep])
    return len(over)


def _unlink(table: Table, paths: Sequence[str]) -> None:
    for path in paths:
        file = table.quarantine / path
        file.unlink(missing_ok=True)
        if file.parent != table.quarantine and not any(file.parent.iterdir()):
            file.parent.rmdir()


def read_refused(table: Table) -> list[Refused]:
    """Return the records in quarantine, oldest first."""
    import pyarrow.parquet as pq

    delta = _open(table, create=False)
    if delta is None:
        return []
    records: list[Refused] = []
    for path, slot, _ in sorted(_live(delta), key=lambda f: f[1]):
        with pq.ParquetFile(table.quarantine / path, page_checksum_verification=True) as file:
            data = file.read(columns=["reason", "record"]).to_pylist()
        records.extend(Refused(slot, row["reason"], row["record"]) for row in data)
    return records
