"""The quarantine: refused records of a table, with the reason, in a Delta table beside it.

Refused records are kept as text, because what is wrong with them may be that they do not fit the columns. They are
committed before the batch itself: a crash in between leaves them recorded and the batch not applied, and the next
try replaces them. Each update's records are a partition, so they go as whole files when their time is over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ebb.index.columns import Column, delta_fields
from ebb.index.errors import CorruptionError, EngineError, UnsyncedError
from ebb.warehouse.store.errors import disk_error, disk_errors, first_line, read_error
from ebb.warehouse.store.files import make_file, make_folder, remove_empty_folders, remove_file, rename, size_of
from ebb.warehouse.store.paths import CHECKPOINTING, LOG, REFUSED, inside, new_data_file, quarantine_file
from ebb.warehouse.table.checkpoint import checkpoint_if_due
from ebb.warehouse.table.commit import append, new_id
from ebb.warehouse.table.delta import delta_errors, open_delta
from ebb.warehouse.table.log import (
    Action,
    LogEntry,
    add_action,
    commit_action,
    metadata_actions,
    new_metadata,
    remove_action,
)
from ebb.warehouse.table.snapshot import Table

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from deltalake import DeltaTable

__all__ = [
    "Refused", "RefusedFile", "checkpoint_quarantine", "clear_refused", "commit_refused", "count_refused", "expire_refused", "look_at_refused", "part_refused",
    "read_refused", "refused_files", "restore_refused", "was_left_by_restore", "write_refused",
]  # fmt: skip

_RESTORE = "restore it from a backup; the records of the table itself are not concerned"
_FIELDS = ("reason", "record", "file", "line", "column")
_COLUMNS = (
    *(Column(name, "bigint" if name == "line" else "string") for name in _FIELDS),
    Column("_slot", "bigint"),
)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Refused:
    """One refused record."""

    slot: int
    reason: str
    record: str  # as it came, or as JSON
    file: str | None = None  # the name of its file
    line: int | None = None  # where it stands there
    column: str | None = None  # that does not fit


@dataclass(frozen=True, slots=True)
class RefusedFile:
    """Refused records that were written together."""

    path: str  # below the quarantine
    slot: int
    records: tuple[Refused, ...]


def write_refused(table: str, folder: str, parts: Sequence[pa.Table]) -> dict[str, Any]:
    """Write refused records of one task below the batch's folder; returns files and counts by reason."""
    import pyarrow as pa

    if not parts:
        return {"files": [], "reasons": {}}
    refused = pa.concat_tables(parts).rename_columns(list(_FIELDS))
    path = new_data_file(f"{folder}/{REFUSED}")
    make_folder(f"{table}/{folder}/{REFUSED}", exist_ok=True)
    _write(f"{table}/{path}", refused)
    return {"files": [path], "reasons": dict(Counter(refused["reason"].to_pylist()))}


def _write(path: str, refused: pa.Table) -> None:
    import pyarrow.parquet as pq

    make_file(path)
    pq.write_table(refused, path, compression="snappy", write_page_checksum=True, store_schema=False)


def _open(table: Table) -> DeltaTable | None:
    what = f"the log of the quarantine of table {table.name}"
    try:
        if not any((table.quarantine / LOG).iterdir()):
            return None
    except FileNotFoundError:
        return None
    except OSError as error:
        raise read_error(error, what, table.quarantine) from error
    step = "restore it from a backup, or remove its folder if its records are not needed"
    return open_delta(table.quarantine, what, damaged=step)


def _create(table: Table, now_ms: int) -> DeltaTable | None:
    try:
        make_folder(table.quarantine / LOG, parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(table, error) from error
    # The records must not outlive their files in the log.
    configuration = {"delta.dataSkippingNumIndexedCols": "0"}
    metadata = new_metadata(delta_fields(_COLUMNS), ["_slot"], configuration, now_ms)
    _append(table, 0, metadata_actions(metadata, with_protocol=True), op="create", now_ms=now_ms)
    return _open(table)


def _append(table: Table, version: int, actions: Sequence[Action], *, op: str, now_ms: int) -> None:
    id = new_id()
    entry = [commit_action(op, {"id": id, "op": op}, now_ms), *actions]
    append(table.quarantine / LOG, version, entry, id=id, table=f"{table.name}.quarantine", disk=table.disk)


def _unwritable(table: Table, error: OSError) -> EngineError:
    return disk_error(error, f"the quarantine of table {table.name} cannot be written", note="nothing was changed")


def _live(delta: DeltaTable) -> Iterator[tuple[str, int, int]]:
    """Yield path, slot and size of every live file."""
    with delta_errors("the log of the quarantine", Path(delta.table_uri)):
        actions = delta.get_add_actions(flatten=True)
    if actions.num_rows:
        columns = [actions.column(name).to_pylist() for name in ("path", "partition._slot", "size_bytes")]
        for path, slot, size in zip(*columns, strict=True):
            yield inside(path), slot, size


def _removal(path: str, slot: int, size: int, now_ms: int) -> Action:
    return remove_action(path, size, {"_slot": str(slot)}, now_ms, data_change=True)


def commit_refused(table: Table, files: Sequence[str], *, slot: int, clock: int | None, now_ms: int) -> None:
    """Move staged files into the quarantine under ``slot``, replacing what an unfinished try of it left."""
    try:
        _commit_refused(table, files, slot=slot, clock=clock, now_ms=now_ms)
    except UnsyncedError as error:  # what was committed is not the batch
        what = f"the refused records of table {table.name} may not be on the disk yet"
        step = "the batch was not applied; check the disk and run it again"
        raise EngineError(what, error.args[2], step) from error


def _commit_refused(table: Table, files: Sequence[str], *, slot: int, clock: int | None, now_ms: int) -> None:
    delta = _open(table)
    if delta is None:
        if not files:
            return
        delta = _create(table, now_ms)
    assert delta is not None  # noqa: S101 - created above
    stale = [f for f in _live(delta) if clock is None or f[1] > clock]
    adds: list[Action] = []
    try:
        for file in files:
            path = quarantine_file(slot, Path(file).name)
            make_folder((table.quarantine / path).parent, exist_ok=True)
            rename(table.folder / file, table.quarantine / path)
            size = size_of(table.quarantine / path)
            adds.append(add_action(path, size, {"_slot": str(slot)}, now_ms, data_change=True, statistics="{}"))
    except OSError as error:
        raise _unwritable(table, error) from error
    if adds or stale:
        actions = [*adds, *(_removal(*f, now_ms) for f in stale)]
        _append(table, delta.version() + 1, actions, op="update", now_ms=now_ms)
        _unlink(table, [f[0] for f in stale])


def refused_files(table: Table, through: int) -> list[tuple[str, int, int]]:
    """Return path, slot and size of the files of what was refused at or before a slot."""
    delta = _open(table)
    return [] if delta is None else [file for file in _live(delta) if file[1] <= through]


def restore_refused(table: Table, files: Sequence[tuple[str, int, int]], now_ms: int) -> None:
    """Make a quarantine of files that lie in its folder already."""
    _create(table, now_ms)
    adds = [
        add_action(path, size, {"_slot": str(slot)}, now_ms, data_change=True, statistics="{}")
        for path, slot, size in files
    ]
    _append(table, 1, adds, op="restore", now_ms=now_ms)


def was_left_by_restore(table: Table) -> bool:
    """Whether there is a quarantine as a restore makes it, and nothing was done to it since."""
    log = table.quarantine / LOG
    first = LogEntry.read(log, 1)
    return first is not None and first.ebb.get("op") == "restore" and LogEntry.read(log, 2) is None


def expire_refused(table: Table, *, through: int, now_ms: int, dry_run: bool = False) -> int:
    """Remove, from table and disk, what was refused at or before slot ``through``; returns how many files."""
    delta = _open(table)
    if delta is None:
        return 0
    live = list(_live(delta))
    expired = [f for f in live if f[1] <= through]
    if dry_run:
        return len(expired)
    if expired:
        actions = [_removal(*f, now_ms) for f in expired]
        _append(table, delta.version() + 1, actions, op="expire", now_ms=now_ms)
    keep = {f[0] for f in live} - {f[0] for f in expired}
    with disk_errors(f"files of the quarantine of table {table.name} cannot be erased"):
        on_disk = [p.relative_to(table.quarantine).as_posix() for p in table.quarantine.glob("_slot=*/*")]
        _unlink(table, [path for path in on_disk if path not in keep])
    return len(expired)


def checkpoint_quarantine(table: Table) -> None:
    """Write down what the quarantine looks like, if it exists and that is due."""
    delta = _open(table)
    if delta is not None:
        checkpoint_if_due(table.quarantine, delta.version(), aside=table.hidden / CHECKPOINTING, disk=table.disk)


def _unlink(table: Table, paths: Sequence[str]) -> None:
    for path in paths:
        remove_file(table.quarantine / path)
        remove_empty_folders((table.quarantine / path).parent)


def read_refused(table: Table) -> list[RefusedFile]:
    """Return the records in quarantine, file by file, oldest first."""
    return [
        RefusedFile(path, slot, tuple(Refused(slot, **row) for row in rows))
        for path, slot, rows in _looked_into(table, lambda file: file.read(columns=list(_FIELDS)).to_pylist())
    ]


def count_refused(table: Table, through: int) -> int:
    """Return how many records are in quarantine that were refused at or before a slot.  Reads footers only."""
    looked = _looked_into(table, lambda file: file.metadata.num_rows)
    return sum(records for _, slot, records in looked if slot <= through)


def look_at_refused(table: Table, *, deep: bool) -> tuple[Counter[int], list[CorruptionError], bool]:
    """Return how many refused records there are per slot, what is wrong with their files, and whether any were taken out.

    Reads sizes and footers, and if ``deep`` every page.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    delta = _open(table)
    counts: Counter[int] = Counter()
    wrong: list[CorruptionError] = []
    if delta is None:
        return counts, wrong, False
    for path, slot, size in _live(delta):
        try:
            if size_of(table.quarantine / path) != size:
                wrong.append(CorruptionError("has another size than its log says", path, _RESTORE))
                continue
            with pq.ParquetFile(table.quarantine / path, page_checksum_verification=True) as file:
                counts[slot] += file.read().num_rows if deep else file.metadata.num_rows
        except FileNotFoundError:
            if path in {f[0] for f in _live(_open(table) or delta)}:
                wrong.append(CorruptionError("is missing", path, _RESTORE))
        except (OSError, pa.ArrowException) as error:
            wrong.append(CorruptionError(f"is damaged ({first_line(error)})", path, _RESTORE))
    entries = (LogEntry.read(table.quarantine / LOG, version) for version in range(delta.version() + 1))
    return counts, wrong, any(entry is None or entry.ebb.get("op") == "clear" for entry in entries)


def _looked_into(table: Table, look: Callable[[pq.ParquetFile], T]) -> Iterator[tuple[str, int, T]]:
    """Yield path, slot and what a look into it gives, of each file of the quarantine, oldest first."""
    delta = _open(table)
    if delta is None:
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    for path, slot, _ in sorted(_live(delta), key=lambda f: f[1]):
        try:
            with pq.ParquetFile(table.quarantine / path, page_checksum_verification=True) as file:
                found = look(file)
        except FileNotFoundError:
            if path in {f[0] for f in _live(_open(table) or delta)}:
                raise CorruptionError("a file of the quarantine is missing", path, _RESTORE) from None
            continue  # erased while we read: its time was over
        except (OSError, pa.ArrowException) as error:
            raise read_error(error, "a file of the quarantine", path, damaged=_RESTORE) from error
        yield path, slot, found


def clear_refused(
    table: Table, files: Sequence[RefusedFile], is_cleared: Callable[[RefusedFile, Refused], bool], *, now_ms: int
) -> int:
    """Remove some records from the quarantine, and from the disk; returns how many.  Requires the writer's lock."""
    kept = {file.path: [[r for r in file.records if not is_cleared(file, r)]] for file in files}
    changed = [file for file in files if len(kept[file.path][0]) < len(file.records)]
    _rewrite(table, changed, kept, now_ms=now_ms)
    return sum(len(file.records) - len(kept[file.path][0]) for file in changed)


def part_refused(
    table: Table, files: Sequence[RefusedFile], is_chosen: Callable[[Refused], bool], *, now_ms: int
) -> None:
    """Put the chosen records of each file into a file of their own.  Requires the writer's lock."""
    parts = {
        file.path: [[r for r in file.records if is_chosen(r)], [r for r in file.records if not is_chosen(r)]]
        for file in files
    }
    _rewrite(table, [file for file in files if all(parts[file.path])], parts, now_ms=now_ms)


def _rewrite(
    table: Table, files: Sequence[RefusedFile], parts: Mapping[str, Sequence[Sequence[Refused]]], *, now_ms: int
) -> None:
    """Write the parts of some files as files of their own, in one commit."""
    import pyarrow as pa

    delta = _open(table)
    if delta is None or not files:
        return
    live = {path: (path, slot, size) for path, slot, size in _live(delta)}
    schema = pa.schema([(name, pa.int64() if name == "line" else pa.string()) for name in _FIELDS])
    actions: list[Action] = []
    for file in files:
        for records in filter(None, parts[file.path]):
            rows = [asdict(record) for record in records]
            path = quarantine_file(file.slot, Path(new_data_file("")).name)
            with disk_errors(f"the quarantine of table {table.name} cannot be written"):
                _write(
                    f"{table.quarantine}/{path}",
                    pa.Table.from_pylist([{n: r[n] for n in _FIELDS} for r in rows], schema),
                )
                size = size_of(table.quarantine / path)
            values = {"_slot": str(file.slot)}
            actions.append(add_action(path, size, values, now_ms, data_change=True, statistics="{}"))
        actions.append(_removal(*live[file.path], now_ms))
    _append(table, delta.version() + 1, actions, op="clear", now_ms=now_ms)
    with disk_errors(f"files of the quarantine of table {table.name} cannot be erased"):
        _unlink(table, [file.path for file in files])
