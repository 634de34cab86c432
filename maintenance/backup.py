"""Backing up a table: one version of it, copied while others go on writing, file by file and each of them once.

The order: the table remembers the place and what is about to be there; files that the backup has not are copied, and
read back; the manifest takes the place of the one before; what has expired meanwhile is taken out; what no manifest names
is removed. A file that is erased while it waits to be copied belongs to a version of the past: then the newest one is
taken instead, and what was copied by then counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from ebb.index.cellfile import CellFile
from ebb.index.errors import CorruptionError, EngineError, InputError, RetryError, WarehouseError
from ebb.index.manifest import Manifest, RefusedFile, StoredFile, byte_hash
from ebb.maintenance.backup_place import Place, check_file, give_up, place_in, place_of, remember, trim
from ebb.maintenance.context import Context
from ebb.maintenance.plan.backup import plan_backup
from ebb.maintenance.values import counted
from ebb.warehouse.intake.quarantine import refused_files
from ebb.warehouse.store.errors import disk_errors, read_error
from ebb.warehouse.store.files import (
    copy_file,
    is_there,
    make_folder,
    names_in,
    read_file,
    refuse_links,
    remove_file,
    size_of,
    write_new,
)
from ebb.warehouse.store.paths import EVIDENCE, HIDDEN, HOLDS, LOG, STATES, journal_lines
from ebb.warehouse.table.checkpoint import log_until
from ebb.warehouse.table.leases import HeldLease, own_leases
from ebb.warehouse.table.snapshot import Snapshot, Table

__all__ = ["Backup", "backup", "is_own", "renew", "stop_managing"]

_SOON_SECONDS = 10.0  # by then an update has taken out what is due
_TRIES = 8  # to copy a version before files of it are erased


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """What a backup copied, or would copy."""

    name: str
    place: str
    version: int
    slot: int | None  # the clock
    time: str | None  # of the slot
    records: int  # of the window
    files: int  # data files that the backup holds
    bytes: int  # of everything in it
    files_copied: int = 0  # data files
    bytes_copied: int = 0  # of all files
    files_dropped: int = 0  # that no backup names any more, or that expired
    repaired: tuple[str, ...] = ()  # copies that were damaged or missing, and are whole again
    verified: bool = False  # all of it was read back, not only what was copied now
    tries: int = 1
    seconds: float = 0.0


class _GoneError(Exception):
    """A file of the version is no longer there.  Argument: the error that tells so."""

    args: tuple[WarehouseError]


@dataclass(slots=True)
class _Copying:
    """One go at copying a version."""

    place: Place
    known: Manifest | None
    verify: bool
    context: Context | None  # for a lease; None: none is needed
    lease: HeldLease | None = None
    tries: int = 0
    bytes_copied: int = 0
    files_copied: int = 0
    repaired: list[str] = field(default_factory=list)

    def progress(self, text: str) -> None:
        """Tell what is being done."""
        if self.context is not None:
            self.context.progress(text)

    def pinned(self, table: Table) -> Snapshot:
        """Pin the newest version.  What arrived and a case holds lies in held files then, where the backup keeps it."""
        if self.context is None:
            return table.snapshot()
        snapshot, self.lease = own_leases().pinned(table, "backup", self.context.wall)
        if snapshot.ledger.holds:
            from ebb.maintenance.keep import has_arrivals, keep_arrivals  # reads files, which few backups have to

            if has_arrivals(snapshot):
                with table.lock(wait=max(self.context.wait, _SOON_SECONDS)):
                    keep_arrivals(table.snapshot(), self.context)
                    snapshot, self.lease = own_leases().pinned(table, "backup", self.context.wall)
        return snapshot

    def data(self, snapshot: Snapshot) -> None:
        """Copy data files that are not there, and read them back."""
        plan = plan_backup(_wanted(snapshot), self.known.files if self.known else ())
        for file in plan.kept:
            if not self._is_whole(file, look=self.verify):
                self._copy(snapshot.table, file)
                self.repaired.append(file.path)
        for file in plan.copied:
            # One that is there already was copied by a backup that was killed.
            if not self._is_whole(file, look=True):
                self._copy(snapshot.table, file)
                self.files_copied += 1

    def _is_whole(self, file: CellFile, *, look: bool) -> bool:
        folder = self.place.table.folder
        refuse_links(str(folder), file.path)
        try:
            if size_of(folder / file.path) != file.size_bytes:
                return False
            if look:
                check_file(folder, file)
        except (OSError, CorruptionError):
            return False
        return True

    def _copy(self, table: Table, file: CellFile) -> None:
        source, target = table.folder / file.path, self.place.table.folder / file.path
        refuse_links(str(table.folder), file.path)
        try:
            make_folder(target.parent, exist_ok=True, parents=True)
            copy_file(source, target)
            check_file(self.place.table.folder, file)
        except CorruptionError as error:
            check_file(table.folder, file)  # the table's own may be what is damaged: then that is said
            what, step = f"a copy in {self.place} is not what was written there", "check its disk and run it again"
            raise EngineError(what, error.args[1], step) from error
        except FileNotFoundError as error:
            raise self._gone(source, error) from error
        self.bytes_copied += file.size_bytes

    def _gone(self, source: Path, error: FileNotFoundError) -> Exception:
        return error if is_there(source) else _GoneError(read_error(error, "a file of the table", source))

    def other(self, source: Path, target: Path, hash: str | None) -> bytes:
        """Copy another file if what is there has another hash than the source; returns the bytes of the source.

        ``hash``: what the backup says that it has; None if it does not know the file.
        """
        try:
            data = read_file(str(source))
        except FileNotFoundError as error:
            raise self._gone(source, error) from error
        except OSError as error:
            raise read_error(error, "a file of the table", source) from error
        wanted = byte_hash(data)
        if hash == wanted and self._has(target, data if self.verify else len(data)):
            return data
        if hash == wanted:
            self.repaired.append(target.name)
        refuse_links(str(self.place.folder), target.relative_to(self.place.folder).as_posix())
        make_folder(target.parent, exist_ok=True, parents=True)
        remove_file(target)
        write_new(str(target), [data])
        if read_file(str(target)) != data:
            what, step = f"a copy in {self.place} is not what was written there", "check its disk and run it again"
            raise EngineError(what, target.name, step)
        self.bytes_copied += len(data)
        return data

    def _has(self, target: Path, expected: bytes | int) -> bool:
        try:
            return size_of(target) == expected if isinstance(expected, int) else read_file(str(target)) == expected
        except OSError:
            return False

    def others(self, snapshot: Snapshot) -> tuple[StoredFile, ...]:
        """Copy the log and the ledger of a version."""
        hashes = {file.path: file.hash for file in self.known.others} if self.known else {}
        names = log_until(names_in(snapshot.table.log), snapshot.version)
        paths = [f"{LOG}/{name}" for name in names]
        if snapshot.state is not None:
            segments = [segment.name for segment in snapshot.ledger.fingerprints.segments]
            paths += [f"{HIDDEN}/{STATES}/{name}" for name in (snapshot.state.name, *segments)]
        paths += [f"{HIDDEN}/{HOLDS}/{found.name}" for found in snapshot.ledger.holds]
        with suppress(FileNotFoundError):  # there is none before entries have left the log
            paths += [
                f"{HIDDEN}/{EVIDENCE}/{name}" for name in names_in(snapshot.table.evidence) if journal_lines(name)
            ]
        stored = []
        for path in paths:
            refuse_links(str(snapshot.table.folder), path)
            data = self.other(snapshot.table.folder / path, self.place.table.folder / path, hashes.get(path))
            stored.append(StoredFile(path=path, size_bytes=len(data), hash=byte_hash(data)))
        return tuple(stored)

    def refused(self, snapshot: Snapshot) -> tuple[RefusedFile, ...]:
        """Copy the quarantine of a version."""
        table, clock = snapshot.table, snapshot.ledger.clock
        if clock is None:
            return ()
        hashes = {file.path: file.hash for file in self.known.refused} if self.known else {}
        stored = []
        over = snapshot.spec.quarantined_until(clock)
        for path, slot, _ in (file for file in refused_files(table, clock) if file[1] > over):
            refuse_links(str(table.quarantine), path)
            data = self.other(table.quarantine / path, self.place.table.quarantine / path, hashes.get(path))
            stored.append(RefusedFile(path=path, slot=slot, size_bytes=len(data), hash=byte_hash(data)))
        return tuple(stored)


def backup(table: Table, folder: str | Path, context: Context, *, verify: bool = False) -> Backup:
    """Copy the newest version of a table into a folder of its own below ``folder``, what is new of it since the last time.

    ``verify``: read back every file of the backup, not only what is copied now. A copy that is damaged is made anew.
    """
    snapshot = table.snapshot()
    snapshot.check_own()
    place = place_of(folder, table, snapshot.spec.landing)
    place.check_ours()
    if context.dry_run:
        manifest = place.manifest()
        _check_same(place, manifest, snapshot)
        return _planned(place, manifest, snapshot)
    place.make()
    return renew(place, table, wall=context.wall, context=context, verify=verify)


def renew(
    place: Place,
    table: Table,
    *,
    wall: Callable[[], datetime],
    context: Context | None = None,
    verify: bool = False,
) -> Backup:
    """Make a backup one of the newest version.  Requires its folder.

    Without a context nobody erases meanwhile, because the caller has the writer's lock, and every arrival that a case
    holds was moved. Otherwise a lease keeps the files there.
    """
    started = time.monotonic()
    with place.lock(wait=max(context.wait, _SOON_SECONDS) if context is not None else 0.0) as lock:
        known = place.manifest()
        copying = _Copying(place, known, verify, context)
        snapshot = copying.pinned(table)
        _check_same(place, known, snapshot)
        snapshot, manifest = _copy_newest(copying, snapshot)
        manifest = replace(manifest, taken_ms=int(wall().timestamp() * 1000))
        place.write(manifest, [place.folder])
        newest = table.snapshot()
        if newest.ledger.clock is not None and newest.table_id == snapshot.table_id:
            manifest = trim(place, manifest, newest.spec, clock=newest.ledger.clock)
        dropped = place.sweep(manifest)
        remember(table, place, manifest)
        lock.is_in_order = True
    return replace(
        _told(place, manifest, snapshot),
        files_copied=copying.files_copied,
        bytes_copied=copying.bytes_copied,
        files_dropped=dropped,
        repaired=tuple(copying.repaired),
        verified=verify,
        tries=copying.tries,
        seconds=round(time.monotonic() - started, 3),
    )


def stop_managing(table: Table, folder: str | Path, *, wait: float = 0.0) -> bool:
    """Look after a backup no more: nothing is erased there from now on.  Returns whether the table knew it."""
    with table.lock(wait=wait):
        return give_up(table, place_in(folder, table.name))


def is_own(manifest: Manifest, snapshot: Snapshot) -> bool:
    """Whether a backup is one of this table, or of one that it was restored from."""
    copied = snapshot.spec.copied
    return manifest.table_id in {snapshot.table_id, *(copied.ancestors if copied else ())}


def _check_same(place: Place, known: Manifest | None, snapshot: Snapshot) -> None:
    """Refuse a place with the backup of another table, unless this one was restored from it."""
    if known is not None and not is_own(known, snapshot):
        what = f"{place.folder} holds the backup of another table {known.name}"
        raise InputError(what, "choose another folder, or remove that one")


def _copy_newest(copying: _Copying, snapshot: Snapshot) -> tuple[Snapshot, Manifest]:
    """Copy a version, or a newer one if files of it are erased meanwhile; returns which, and what the backup holds."""
    table, place = snapshot.table, copying.place
    while copying.tries < _TRIES:
        copying.tries += 1
        snapshot.check_own()
        remember(table, place, copying.known, _wanted(snapshot))
        try:
            return snapshot, _copied(copying, snapshot)
        except _GoneError as error:
            copying.progress("files were erased meanwhile: taking the newest version")
            before, snapshot = snapshot, copying.pinned(table)
            if before.version == snapshot.version:  # nobody has erased it
                raise error.args[0] from error
    facts = f"table {table.name} erased files of {_TRIES} versions, one after the other, while they were copied"
    raise RetryError(facts, "run it again: what was copied counts")


def _copied(copying: _Copying, snapshot: Snapshot) -> Manifest:
    place = copying.place
    copying.progress(f"copying version {snapshot.version}: {counted(len(snapshot.files), 'file')}")
    with disk_errors(f"{place} cannot be written", note="the one before is whole"):
        others, refused = copying.others(snapshot), copying.refused(snapshot)
        copying.data(snapshot)
    copied = snapshot.spec.copied
    return Manifest(
        name=place.name,
        table_id=snapshot.table_id,
        ancestors=copied.ancestors if copied else (),
        version=snapshot.version,
        clock=snapshot.ledger.clock,
        taken_ms=0,
        metadata=snapshot.metadata,
        files=_wanted(snapshot),
        others=others,
        refused=refused,
    )


def _wanted(snapshot: Snapshot) -> tuple[CellFile, ...]:
    """Return the files of a version that hold a live or a held record."""
    clock = snapshot.ledger.clock
    return tuple(file for file in snapshot.files if clock is None or file.cell.is_held or not file.is_dead(clock))


def _told(place: Place, manifest: Manifest, snapshot: Snapshot) -> Backup:
    clock = manifest.clock
    return Backup(
        name=place.name,
        place=str(place.folder),
        version=manifest.version,
        slot=clock,
        time=None if clock is None else snapshot.spec.timeline.show_slot(clock),
        records=snapshot.ledger.live_records,
        files=len(manifest.files),
        bytes=manifest.size_bytes,
    )


def _planned(place: Place, known: Manifest | None, snapshot: Snapshot) -> Backup:
    live = _wanted(snapshot)
    plan = plan_backup(live, known.files if known else ())
    clock = snapshot.ledger.clock
    return Backup(
        name=place.name,
        place=str(place.folder),
        version=snapshot.version,
        slot=clock,
        time=None if clock is None else snapshot.spec.timeline.show_slot(clock),
        records=snapshot.ledger.live_records,
        files=len(live),
        bytes=sum(file.size_bytes for file in live),
        files_copied=len(plan.copied),
        bytes_copied=sum(file.size_bytes for file in plan.copied),
        files_dropped=len(plan.dropped),
    )
