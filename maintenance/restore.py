"""Restoring a table from a backup: all of it or nothing, and nothing that has expired.

Everything is put together under another name, every byte is checked on the way, and one commit on top of the log that came
back says what did not: the files that are dead by now, and those that were written anew without what has expired. That
commit gives the table an id of its own, because its history is another one from there on: whoever followed the original
further than the backup goes has to notice. The clock stays where it was, so that what came after the backup can be
applied again, tick by tick, and is recognised if it was in it.

A table that comes back under its own name may be a copy of one that is still alive. Nobody writes to it before somebody
says that it goes on in place of that one.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ebb.index.cellfile import CellFile
from ebb.index.errors import CorruptionError, InputError, TableExistsError, UsageError, WarehouseError
from ebb.index.ledger import Change
from ebb.index.manifest import Copied, Manifest, byte_hash
from ebb.index.timeline import Timeline
from ebb.maintenance.backup_place import (
    OTHER_BACKUP,
    Place,
    check_file,
    merged,
    place_in,
    remember,
    remembered,
    spec_of,
)
from ebb.maintenance.carry_out import follow_up, warned
from ebb.maintenance.context import Context
from ebb.maintenance.plan.backup import RestorePlan, plan_restore
from ebb.maintenance.values import Time, counted, read_time
from ebb.warehouse.intake.quarantine import restore_refused, was_left_by_restore
from ebb.warehouse.parquet.datafile import DataFile
from ebb.warehouse.ranges import changed_ranges
from ebb.warehouse.store.disk import Disk
from ebb.warehouse.store.errors import disk_errors, read_error
from ebb.warehouse.store.files import (
    copy_file,
    make_folder,
    read_file,
    refuse_links,
    remove_empty_parents,
    remove_file,
    remove_tree,
    rename,
    write_new,
)
from ebb.warehouse.store.paths import dropped_name, new_table_name, side_file
from ebb.warehouse.table.catalog import remove_dropped, share_table
from ebb.warehouse.table.commit import new_id
from ebb.warehouse.table.head import head_of, write_head
from ebb.warehouse.table.leases import leases_of
from ebb.warehouse.table.log import new_table_id
from ebb.warehouse.table.snapshot import Snapshot, Table
from ebb.warehouse.table.spec import TableSpec, check_name

__all__ = ["Restoration", "confirm_restored", "restore"]

_TRIES = 30  # to read a backup that somebody makes anew meanwhile
_BEFORE_ALL = -(2**62)  # a slot: nothing expires at it or before


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoration:
    """What came back, or would."""

    name: str
    place: str
    version: int  # of the backup
    slot: int | None  # the clock: that of the backup, unless held records had expired that it does not hide
    time: str | None  # of the slot
    expired_through: int | None  # the last slot of which nothing came back, because it was over
    taken_ms: int
    records: int | None  # that came back; None if it was not tried
    expired: int | None  # that did not, because they have expired since
    files: int  # data files
    bytes: int
    files_left_out: int  # every record in them has expired
    files_rewritten: int  # without the records that have expired
    refused_files: int
    is_confirmed: bool  # somebody may write to it right away
    landing_left: str | None = (
        None  # the landing folder of the original, which a table of another name does not take over
    )
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()


def restore(
    root: Path,
    folder: str | Path,
    name: str,
    context: Context,
    *,
    new_name: str | None = None,
    at: Time | None = None,
) -> Restoration:
    """Bring a table back from its backup below ``folder``, under its own name or another one.

    ``at``: what has expired then does not come back; by default now, or the clock of the backup if times are integers.
    A dry run checks every byte of the backup.
    """
    started = time.monotonic()
    place = place_in(folder, check_name(name))
    target = Table(root, check_name(new_name or name), Disk(context.durable))
    _check_free(target)
    _check_stale(root, place)
    for is_last in (False,) * (_TRIES - 1) + (True,):
        manifest = place.manifest()
        if manifest is None:
            msg = f"there is no backup of table {name} in {place.folder.parent}"
            raise InputError(msg, "check the folder and the name")
        try:
            done = _restored(place, manifest, target, context, at)
        except CorruptionError:
            # Somebody may have made it anew, or taken out what has expired.
            if is_last or place.manifest() == manifest:
                raise
        else:
            break
    return replace(done, seconds=round(time.monotonic() - started, 3))


def _check_free(target: Table) -> None:
    if target.folder.exists():
        raise TableExistsError(target.name, target.root)
    if target.quarantine.exists() and not was_left_by_restore(target):
        what = f"{target.quarantine} is there without its table"
        raise InputError(what, "move it away, or restore under another name")


def _check_stale(root: Path, place: Place) -> None:
    """Refuse a backup from before a request to forget, as far as the original is here and knows of it."""
    original = Table(root, place.name)
    if original.is_there() and any(
        kept.stale_since is not None for kept in remembered(original) if kept.place == str(place.folder)
    ):
        what = f"records of table {place.name} were forgotten after {place} was made"
        raise InputError(what, "back the table up again first")


def _expired(line: Timeline, manifest: Manifest, context: Context, at: Time | None) -> int:
    """Return the last slot that is over: what expires in it or before does not come back."""
    # What was taken out of the backup after it was made had expired by then.
    known = [clock for clock in (manifest.clock, manifest.trimmed) if clock is not None]
    least = max(known, default=_BEFORE_ALL)
    now = line.kind.from_datetime(context.now) if line.kind.has_wall_clock else None
    if at is None:
        return least if now is None else max(least, line.clock_at(now))
    moment = read_time(line.kind, at)
    if now is not None and moment < now:
        msg = f"time {line.kind.show_time(moment)} is over: what has expired by now does not come back"
        raise UsageError(msg, "pass a later time, or none")
    if line.clock_at(moment) < least:
        msg = f"time {line.kind.show_time(moment)} is before {line.show_slot(least)}, and the backup holds nothing that had expired then"
        raise UsageError(msg, "pass a later time, or none")
    return line.clock_at(moment)


def _restored(place: Place, manifest: Manifest, target: Table, context: Context, at: Time | None) -> Restoration:
    spec = spec_of(manifest, target.name)
    expired = _expired(spec.timeline, manifest, context, at)
    plan = plan_restore(manifest, expired=expired, refused_until=spec.quarantined_until(expired))
    is_renamed = target.name != manifest.name
    told = Restoration(
        name=target.name,
        place=str(place.folder),
        version=manifest.version,
        slot=plan.clock,
        time=None if plan.clock is None else spec.timeline.show_slot(plan.clock),
        expired_through=None if expired == _BEFORE_ALL else expired,
        taken_ms=manifest.taken_ms,
        records=None,
        expired=None,
        files=len(plan.copied) + len(plan.rewrites),
        bytes=sum(file.size_bytes for file in (*plan.copied, *plan.rewritten)),
        files_left_out=len(plan.left_out),
        files_rewritten=len(plan.rewritten),
        refused_files=len(plan.refused),
        is_confirmed=is_renamed,
        landing_left=spec.landing if is_renamed else None,
    )
    if context.dry_run:
        context.progress("checking every byte of the backup")
        _check_whole(place, manifest, plan)
        return told
    copied = Copied(
        ancestors=(*manifest.ancestors, manifest.table_id), version=manifest.version, is_confirmed=is_renamed
    )
    spec = replace(spec, copied=copied, landing=None if is_renamed else spec.landing)
    unfinished = target.root / new_table_name(target.name, new_id())
    made = Table(unfinished, target.name, target.disk)
    work = _Work(place, manifest, plan, made, spec, expired, context)
    try:
        with disk_errors(f"table {target.name} cannot be restored", note="nothing was changed"):
            make_folder(made.hidden, parents=True)
            make_folder(leases_of(made))
            work.bring_back()
            after, hidden = work.commit()
            warnings = work.finish(after)
            made.disk.sync_below(unfinished)
            _put_in_place(made, target)
    except BaseException:
        remove_tree(unfinished)
        raise
    remove_tree(unfinished)
    for left in target.root.glob(new_table_name(target.name)):  # of those that were killed
        remove_tree(left)
    if spec.group is not None:
        warnings += warned(lambda: share_table(target, spec))
    return replace(told, records=after.ledger.live_records, expired=hidden, warnings=tuple(warnings))


def _put_in_place(made: Table, target: Table) -> None:
    """Give everything its name: the quarantine first, so that no table is ever without its own."""
    if target.folder.exists():
        raise TableExistsError(target.name, target.root)
    if target.quarantine.exists():
        _check_free(target)
        rename(target.quarantine, target.root / dropped_name(target.name, new_id()))
        remove_dropped(target.root)
    if made.quarantine.exists():
        rename(made.quarantine, target.quarantine)
        target.disk.sync([target.root])
    rename(made.folder, target.folder)
    target.disk.sync([target.root, target.root.absolute().parent])


def _check_whole(place: Place, manifest: Manifest, plan: RestorePlan) -> None:
    """Read everything that would come back."""
    folder = place.table.folder
    for other in manifest.others:
        _read(folder, other.path, other.hash)
    for refused in plan.refused:
        _read(place.table.quarantine, refused.path, refused.hash)
    for file in (*plan.copied, *plan.rewritten):
        check_file(folder, file)


def _read(folder: Path, path: str, hash: str) -> bytes:
    """Read a file of a backup that is no data file, and check it."""
    refuse_links(str(folder), path)
    try:
        data = read_file(f"{folder}/{path}")
    except OSError as error:
        raise read_error(error, "a file of the backup", f"{folder}/{path}", missing=OTHER_BACKUP) from error
    if byte_hash(data) != hash:
        raise CorruptionError("a file of the backup is not the one written", f"{folder}/{path}", OTHER_BACKUP)
    return data


@dataclass(frozen=True, slots=True)
class _Work:
    """A table that is being put together."""

    place: Place
    manifest: Manifest
    plan: RestorePlan
    made: Table
    spec: TableSpec
    expired: int  # the last slot of which nothing comes back
    context: Context

    def bring_back(self) -> None:
        """Copy log, ledger and data files, and check each byte of what was copied."""
        source, folder = self.place.table.folder, self.made.folder
        for other in self.manifest.others:
            data = _read(source, other.path, other.hash)
            self._write(folder / other.path, data)
        for refused in self.plan.refused:
            data = _read(self.place.table.quarantine, refused.path, refused.hash)
            self._write(self.made.quarantine / refused.path, data)
        files = (*self.plan.copied, *self.plan.rewritten)
        self.context.progress(f"restoring {counted(len(files), 'file')}")
        for file in files:
            refuse_links(str(source), file.path)
            make_folder((folder / file.path).parent, exist_ok=True, parents=True)
            try:
                copy_file(source / file.path, folder / file.path)
            except FileNotFoundError as error:
                raise CorruptionError("a file of the backup is missing", source / file.path, OTHER_BACKUP) from error
            check_file(folder, file)

    def _write(self, path: Path, data: bytes) -> None:
        make_folder(path.parent, exist_ok=True, parents=True)
        write_new(str(path), [data])

    def commit(self) -> tuple[Snapshot, int]:
        """Make the commit that says what did not come back; returns the table after it, and how many records expired."""
        snapshot, plan, now_ms = self._opened(), self.plan, self.context.now_ms()
        written = merged(self.spec, self.made, plan.rewrites, clock=self.expired)
        for file in plan.rewritten:
            remove_file(self.made.folder / file.path)
            remove_file(self.made.folder / side_file(file.path))
            remove_empty_parents(self.made.folder, file.path)
        removes, adds = plan.changes(snapshot.files)
        adds = (*adds, *written)
        files = (*plan.copied, *written)
        # As if all files were new: which objects with key ranges there were does not matter.
        bare = replace(snapshot, files=(), ledger=replace(snapshot.ledger, ranges=()))
        ranges = changed_ranges(bare, adds=files, removes=())
        gone = {slot: count for slot, count in snapshot.ledger.live.items() if slot <= self.expired}
        is_moved = plan.clock != self.manifest.clock  # then it takes them out of the counts itself
        change = Change(
            clock=plan.clock,
            arrivals={} if is_moved else {slot: -count for slot, count in gone.items()},
            erased_version=snapshot.version + 1,  # nothing that was removed by then has come back
            ranges_added=ranges.added,
            ranges_dropped=tuple(found.name for found in snapshot.ledger.ranges),
        )
        after = snapshot.commit(
            adds=adds,
            removes=removes,
            change=change,
            report=self._said(adds, sum(gone.values()), snapshot.ledger.live_records - sum(gone.values())),
            data_change=False,
            now_ms=now_ms,
            metadata=self._metadata(snapshot),
        )
        live, known = sum(file.records for file in files if not file.cell.is_held), after.ledger.live_records
        held = sum(file.records for file in files if file.cell.is_held)  # live ones and others
        if not live <= known <= live + held:
            what = f"the backup of table {self.place.name} contradicts itself"
            raise CorruptionError(what, f"its files hold {live:,} live records, and its ledger {known:,}", OTHER_BACKUP)
        return after, sum(gone.values())

    def _opened(self) -> Snapshot:
        """Open the log that came back; the manifest knows which one it is, and says so in place of a head record."""
        manifest, newest = self.manifest, self.made.entry(self.manifest.version)
        if newest is not None:
            head = head_of(newest, manifest.metadata, manifest.clock, oldest=self.made.oldest_version())
            write_head(self.made.hidden, head, self.made.disk)
        snapshot = self.made.snapshot()
        found = (snapshot.version, snapshot.table_id, snapshot.ledger.clock)
        if found != (self.manifest.version, self.manifest.table_id, self.manifest.clock):
            what = f"the log in the backup of table {self.place.name} is not that of its manifest"
            raise CorruptionError(what, self.place.folder, OTHER_BACKUP)
        return snapshot

    def _metadata(self, snapshot: Snapshot) -> dict[str, Any]:
        configuration = {**snapshot.metadata["configuration"], **self.spec.properties()}
        return {**snapshot.metadata, "id": new_table_id(), "configuration": configuration}

    def _said(self, adds: tuple[CellFile, ...], expired: int, live: int) -> dict[str, Any]:
        return {
            "op": "restore",
            "slot": self.plan.clock,
            "restored_version": self.manifest.version,
            "restored_from": self.manifest.table_id,
            "expired": expired,
            "live": live,
            "files_added": len(adds),
            "bytes_written": sum(file.size_bytes for file in adds),
        }

    def finish(self, after: Snapshot) -> list[str]:
        """Write what spares readers work, and the quarantine."""
        folder = str(self.made.folder)
        for file in after.files:
            DataFile.look_up(folder, file)  # writes its side file
        if self.made.name == self.manifest.name:
            remember(self.made, self.place, self.manifest)  # it looks after it once it goes on in place of the original
        if self.plan.refused:
            files = [(file.path, file.slot, file.size_bytes) for file in self.plan.refused]
            restore_refused(self.made, files, self.context.now_ms())
        return follow_up(after, self.context.wall())


def confirm_restored(snapshot: Snapshot, now_ms: int) -> Snapshot:
    """Let a restored table go on in place of the original; returns it as it is then.  Requires the writer's lock."""
    copied = snapshot.spec.copied
    if copied is None or copied.is_confirmed:
        return snapshot
    spec = replace(snapshot.spec, copied=replace(copied, is_confirmed=True))
    configuration = {**snapshot.metadata["configuration"], **spec.properties()}
    report = {"op": "adopt", "slot": snapshot.ledger.clock, "restored_version": copied.version}
    for kept in remembered(snapshot.table):
        _look_again(snapshot.table, Place(Path(kept.place), snapshot.table.name))
    snapshot.commit_metadata({**snapshot.metadata, "configuration": configuration}, report, now_ms)
    return snapshot.table.snapshot()


def _look_again(table: Table, place: Place) -> None:
    """Remember what a backup holds by now: the original may have made it anew.  What cannot be read stays as it was."""
    with suppress(WarehouseError):
        if place.is_reachable and (manifest := place.manifest()) is not None:
            remember(table, place, manifest)
