"""Where backups are: a folder each, what is in it, and what its table remembers of it.

A backup of table t in DIR is the folder ``DIR/t``: a manifest that names everything else, and the files of one version, as
they lie in a table. The manifest is replaced as a whole and only when all that it names is there; what it does not name
is removed afterwards. So whoever is killed leaves the backup that was there before.

Ebb looks after a backup from the moment on in which its first file is copied: a table remembers its places, with the slots
in which something there expires, and whoever erases files of the table takes expired records out of its backups too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from ebb.index.cellfile import CellFile, Rewrite
from ebb.index.columns import columns_of_delta
from ebb.index.errors import (
    CorruptionError,
    InputError,
    UpgradeError,
    UsageError,
)
from ebb.index.manifest import MANIFEST_FORMAT, Kept, Manifest
from ebb.maintenance.landing_place import relation
from ebb.maintenance.plan.backup import plan_trim
from ebb.warehouse.store.disk import Disk
from ebb.warehouse.store.errors import disk_errors, read_error
from ebb.warehouse.store.files import (
    absolute,
    files_below,
    make_folder,
    names_in,
    read_file,
    refuse_links,
    remove_empty_folders,
    remove_file,
    replace_file,
)
from ebb.warehouse.store.lock import Lock, locked
from ebb.warehouse.store.modes import share
from ebb.warehouse.store.paths import (
    BACKUPS,
    EVIDENCE,
    HIDDEN,
    HOLDS,
    LOG,
    MANIFEST,
    PLACE_LOCK,
    QUARANTINE_SUFFIX,
    STALE,
    STATES,
    backup_record,
    copied_name,
    inside,
    is_unfinished,
    rewrite_folder,
    side_file,
)
from ebb.warehouse.table.snapshot import Table
from ebb.warehouse.table.spec import TableSpec

__all__ = [
    "OTHER_BACKUP", "Place", "check_file", "give_up", "keep", "mark_stale", "merged", "place_in", "place_of", "remember", "remembered",
    "spec_of", "trim",
]  # fmt: skip

OTHER_BACKUP = "restore another backup"


@dataclass(frozen=True, slots=True)
class Place:
    """The folder of one backup."""

    folder: Path
    name: str  # of the table
    disk: Disk = field(default_factory=Disk, compare=False, repr=False)

    @property
    def table(self) -> Table:
        """Return the table whose files are there, by its place; nobody opens it."""
        return Table(self.folder, copied_name(self.name))

    def __str__(self) -> str:
        return f"the backup {self.folder}"

    def manifest(self) -> Manifest | None:
        """Return what is in the backup; None if it was never finished."""
        place = self.folder / MANIFEST
        step = f"{OTHER_BACKUP}, or remove this file and back up again: what is there is looked at and used"
        try:
            refuse_links(str(self.folder), MANIFEST)
            data = read_file(str(place))
            if (found := Manifest.format_of(data)) != MANIFEST_FORMAT:
                raise UpgradeError(copied_name(self.name), found, MANIFEST_FORMAT)
            manifest = Manifest.loads(data)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise read_error(error, "the manifest of a backup", place, damaged=step) from error
        for path in manifest.expiring:
            inside(path)
        for other in manifest.others:
            *above, name = other.path.split("/")
            if (
                above not in ([LOG], [HIDDEN, STATES], [HIDDEN, EVIDENCE], [HIDDEN, HOLDS])
                or name in ("", ".", "..")
                or "\0" in name
            ):
                raise CorruptionError("a manifest names a file outside its backup", other.path, OTHER_BACKUP)
        return manifest

    def check_ours(self) -> None:
        """Refuse a folder that holds something else than a backup of this table."""
        with disk_errors(f"{self} cannot be looked into"):
            names = set(names_in(self.folder)) if self.folder.exists() else set()
        names = {name for name in names if not is_unfinished(name)}
        copied = copied_name(self.name)
        strange = sorted(names - {MANIFEST, PLACE_LOCK, copied, copied + QUARANTINE_SUFFIX})
        if names and PLACE_LOCK not in names:
            strange = strange or sorted(names)
        if strange:
            what = f"{self.folder} holds something else than a backup of table {self.name}: {strange[0]}"
            raise InputError(what, "choose another folder")

    def make(self) -> None:
        """Make the folder, for its owner alone."""
        with disk_errors(f"{self} cannot be made"):
            is_new = not self.folder.exists()
            make_folder(self.folder, exist_ok=True, parents=True)
            if is_new or not names_in(self.folder):
                share(self.folder, None)

    @contextmanager
    def lock(self, *, wait: float = 0.0) -> Iterator[Lock]:
        """Be the one who writes there.  Requires the folder."""
        with locked(self.folder / PLACE_LOCK, str(self), wait=wait) as lock:
            yield lock

    @property
    def is_reachable(self) -> bool:
        """Whether there is a backup, and not the empty folder of a disk that is elsewhere."""
        with contextlib.suppress(OSError):
            return (self.folder / PLACE_LOCK).is_file()
        return False

    def write(self, manifest: Manifest, fresh: Sequence[Path]) -> None:
        """Make this what the backup holds; ``fresh``: the folders with what was written for it."""
        with disk_errors(f"{self} cannot be written", note="the one before is whole"):
            for folder in fresh:
                self.disk.sync_below(folder)
            self.disk.sync({folder.parent for folder in fresh})
            replace_file(self.folder / MANIFEST, manifest.dumps(), self.disk)
            self.disk.sync([self.folder, self.folder.parent])

    def sweep(self, manifest: Manifest | None) -> int:
        """Remove what the manifest does not name; returns how many files went.  Requires the lock."""
        table, removed = self.table, 0
        named = {MANIFEST, PLACE_LOCK}
        if manifest is not None:
            named |= {f"{table.name}/{file.path}" for file in manifest.files}
            named |= {f"{table.name}/{file.path}" for file in manifest.others}
            named |= {f"{table.quarantine.name}/{file.path}" for file in manifest.refused}
        with disk_errors(f"files of {self} cannot be removed", note="it is whole"):
            for path in [path for path in files_below(self.folder) if path not in named]:
                remove_file(self.folder / path)
                removed += 1
            for folder in (table.folder, table.quarantine):
                remove_empty_folders(folder)
        return removed


def place_of(folder: str | Path, table: Table, landing: str | None = None) -> Place:
    """Return the place of a table's backups in a folder; refuses one that is no place for them.

    It is apart from the warehouse, whose folders are tables, and from the table's landing folder. Links on the way to it
    are followed.
    """
    place = replace(place_in(folder, table.name), disk=table.disk)
    for other, what in ((table.root, "the warehouse"), *([(Path(landing), "the landing folder")] if landing else [])):
        if how := relation(place.folder, other.resolve()):
            raise UsageError(f"backup {place.folder} {how} {what} {other}", "choose a folder that is apart from it")
    return place


def place_in(folder: str | Path, name: str) -> Place:
    """Return the place of the backup of a table of this name in a folder."""
    try:
        str(folder).encode()
        resolved = Path(folder).expanduser().resolve()
    except (UnicodeEncodeError, OSError, RuntimeError, ValueError) as error:
        msg = f"backup folder {str(folder)!r} cannot be found ({error})"
        raise UsageError(msg, "choose another folder") from error
    place = Place(resolved / name, name)
    if place.folder.is_symlink():
        msg = f"backup {place.folder} is a symbolic link"
        raise UsageError(msg, "name the folder that it leads to, or choose another one")
    return place


def check_file(folder: Path, file: CellFile) -> None:
    """Read every byte of a data file below a folder; CorruptionError if it is not the one that was written."""
    from ebb.warehouse.check.records import check_bytes
    from ebb.warehouse.parquet.datafile import DataFile
    from ebb.warehouse.parquet.footer import damaged

    found = DataFile.open(str(folder), file)
    if not found.is_ours:
        raise damaged(f"{file.path}: its name holds no hash, so nothing vouches for it")
    check_bytes(found, file.size_bytes)


def spec_of(manifest: Manifest, name: str) -> TableSpec:
    """Return how the table of a backup was declared."""
    metadata = manifest.metadata
    try:
        columns = columns_of_delta(metadata["schemaString"])
        configuration = dict(metadata["configuration"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptionError(f"the manifest of a backup of table {name} is damaged", error, OTHER_BACKUP) from error
    return TableSpec.from_properties(name, columns, configuration)


def merged(spec: TableSpec, table: Table, tasks: Sequence[Rewrite], *, clock: int) -> list[CellFile]:
    """Write files of a folder anew without what has expired, in this process; returns what was written."""
    if not tasks:
        return []
    from ebb.warehouse.parquet.arrow import arrow_schema
    from ebb.warehouse.parquet.merge import merge_runs
    from ebb.warehouse.parquet.writer import Layout

    folder = rewrite_folder(clock)
    layout = Layout(arrow_schema(spec.columns), spec.key, absolute(table.folder), folder)
    make_folder(table.folder / folder)
    return [file for task in tasks for file in merge_runs(layout, task).files]


def trim(place: Place, manifest: Manifest, table: TableSpec, *, clock: int) -> Manifest:
    """Take out of a backup what has expired at a clock and is due; returns its manifest then.  Requires the lock.

    ``table``: as it is declared now. Files that are written anew get the columns that the backup knows.
    """
    plan = plan_trim(manifest, clock=clock, lag=table.lag, refused_until=table.quarantined_until(clock))
    if plan.is_empty:
        return manifest
    folder, gone = place.table.folder, {file.path for file in plan.dropped}
    with disk_errors(f"expired records cannot be taken out of {place}"):
        written = merged(spec_of(manifest, place.name), place.table, plan.rewrites, clock=clock)
        for file in written:
            remove_file(folder / side_file(file.path))  # a restore makes them anew
        trimmed = replace(
            manifest,
            files=(*(file for file in manifest.files if file.path not in gone), *written),
            refused=tuple(file for file in manifest.refused if file not in plan.refused),
            trimmed=clock,
        )
        place.write(trimmed, sorted({folder / file.path.split("/", 1)[0] for file in written}))
        for below, paths in ((folder, gone), (place.table.quarantine, {file.path for file in plan.refused})):
            for path in paths:
                refuse_links(str(below), path)
                remove_file(below / path)
                remove_empty_folders((below / path).parent)
    return trimmed


def _records(table: Table) -> Path:
    return table.hidden / BACKUPS


def remember(table: Table, place: Place, manifest: Manifest | None, more: Sequence[CellFile] = ()) -> None:
    """Let a table remember what one of its backups holds, and files that are being copied there."""
    keep(table, Kept.of(str(place.folder), manifest, more))


def keep(table: Table, kept: Kept) -> None:
    """Let a table remember this of one of its backups."""
    _write(table, backup_record(kept.place), kept.dumps(), f"its backup {kept.place}")


def _write(table: Table, name: str, data: bytes, what: str) -> None:
    with disk_errors(f"table {table.name} cannot remember {what}"):
        make_folder(_records(table), exist_ok=True, parents=True)
        replace_file(_records(table) / name, data, table.disk)
        table.disk.sync([_records(table), table.hidden])


def mark_stale(table: Table, version: int) -> None:
    """Note that from a version on, the next one, records may have to go that older backups hold.  Requires the writer's lock.

    It stays, and is apart from what is remembered of each backup, which has no lock of the table: so it is there for
    backups that are being made meanwhile, too.
    """
    _write(table, STALE, str(version).encode(), "that its backups are stale")


def remembered(table: Table) -> list[Kept]:
    """Return the backups that a table remembers, by place."""
    try:
        names = [name for name in names_in(_records(table)) if not is_unfinished(name)]
        version = int(read_file(f"{_records(table)}/{STALE}")) if STALE in names else None
        records = [read_file(f"{_records(table)}/{name}") for name in names if name != STALE]
        kept = [Kept.loads(data).stale_from(version) for data in records]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError) as error:
        what = f"what table {table.name} remembers of its backups"
        step = "remove this folder and back up again"
        raise read_error(error, what, _records(table), damaged=step) from error
    return sorted(kept, key=lambda one: one.place)


def give_up(table: Table, place: Place) -> bool:
    """Look after a backup no more; what is there stays.  Returns whether the table remembered it."""
    is_known = str(place.folder) in {kept.place for kept in remembered(table)}
    with disk_errors(f"table {table.name} cannot forget its backup {place.folder}"):
        remove_file(_records(table) / backup_record(str(place.folder)))
    return is_known
