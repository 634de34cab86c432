"""What a backup holds: the manifest that says so, and what a table remembers of it.

A manifest names one version of a table, each of its data files with its slots, and every other file with a hash. It
vouches for itself with a hash of its text, and for the rest: other files by their hashes, data files through their
names, which carry the hashes of their footers. A copy of a table says in its properties what it was made from. Pure.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ebb.index.cellfile import CellFile
from ebb.index.grid import Cell
from ebb.index.stored import items, members, number, number_or_none, parsed, text

__all__ = ["MANIFEST_FORMAT", "Copied", "Kept", "Manifest", "RefusedFile", "StoredFile", "byte_hash"]

MANIFEST_FORMAT = 1


def byte_hash(data: bytes) -> str:
    """Return the hash of a file's bytes that a manifest keeps."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file that is no data file: of the log, or of the ledger."""

    path: str  # below the table
    size_bytes: int
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedFile:
    """A file of the quarantine."""

    path: str  # below the quarantine
    slot: int
    size_bytes: int
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One version of a table, as a backup holds it."""

    name: str
    table_id: str
    ancestors: tuple[str, ...]  # the ids of the tables that it was restored from, the oldest first
    version: int
    clock: int | None
    taken_ms: int
    metadata: Mapping[str, Any]  # as Delta keeps it: columns and properties
    files: tuple[CellFile, ...]
    others: tuple[StoredFile, ...]
    refused: tuple[RefusedFile, ...] = ()
    trimmed: int | None = None  # the clock at which expired records were last taken out of the backup

    def dumps(self) -> bytes:
        """Write it: a line of JSON, and a line with its hash."""
        value = {
            "format": MANIFEST_FORMAT,
            **{name: getattr(self, name) for name in self.__slots__},
            "files": [_numbers(file) for file in self.files],
            "others": [asdict(file) for file in self.others],
            "refused": [asdict(file) for file in self.refused],
        }
        line = json.dumps(value, separators=(",", ":")).encode()
        return line + b"\n" + byte_hash(line).encode() + b"\n"

    @staticmethod
    def format_of(data: bytes) -> int:
        """Return the format of a manifest that is as it was written; ValueError if it is not."""
        return number(_value(data)["format"])

    @staticmethod
    def loads(data: bytes) -> Manifest:
        """Read what :meth:`dumps` wrote; ValueError, KeyError or TypeError if it is damaged or something else."""
        value = _value(data)
        return Manifest(
            name=text(value["name"]),
            table_id=text(value["table_id"]),
            ancestors=tuple(map(text, items(value["ancestors"]))),
            version=number(value["version"]),
            clock=number_or_none(value["clock"]),
            taken_ms=number(value["taken_ms"]),
            metadata=members(value["metadata"]),
            files=tuple(_file(*items(row)) for row in items(value["files"])),
            others=tuple(StoredFile(**_sized(row)) for row in items(value["others"])),
            refused=tuple(RefusedFile(**_sized(row), slot=number(row["slot"])) for row in items(value["refused"])),
            trimmed=number_or_none(value["trimmed"]),
        )

    @property
    def size_bytes(self) -> int:
        """Return how many bytes its files have."""
        others = sum(file.size_bytes for file in self.others) + sum(file.size_bytes for file in self.refused)
        return sum(file.size_bytes for file in self.files) + others

    @property
    def expiring(self) -> tuple[str, ...]:
        """Return the paths of everything that holds records: data files, and files of the quarantine."""
        return (*(file.path for file in self.files), *(file.path for file in self.refused))


def _value(data: bytes) -> Mapping[str, Any]:
    line, _, rest = data.partition(b"\n")
    if rest != byte_hash(line).encode() + b"\n":
        msg = "its hash is wrong"
        raise ValueError(msg)
    return members(parsed(line))


def _sized(row: object) -> dict[str, Any]:
    value = members(row)
    return {"path": text(value["path"]), "size_bytes": number(value["size_bytes"]), "hash": text(value["hash"])}


def _numbers(file: CellFile) -> list[Any]:
    cell = file.cell
    slots = (file.min_ins, file.max_ins, file.min_exp, file.max_exp)
    return [file.path, cell.group, cell.cohort, cell.generation, file.size_bytes, file.records, *slots, file.added_ms]


def _file(path: object, *rest: object) -> CellFile:
    group, cohort, generation, size_bytes, records, min_ins, max_ins, min_exp, max_exp, added_ms = map(number, rest)
    return CellFile(
        path=text(path),
        cell=Cell(group, cohort, generation),
        size_bytes=size_bytes,
        records=records,
        min_ins=min_ins,
        max_ins=max_ins,
        min_exp=min_exp,
        max_exp=max_exp,
        added_ms=added_ms,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a table remembers of one of its backups, so that it need not look there to know what is due."""

    place: str
    version: int | None  # None: the first one is being made, or was never finished
    clock: int | None
    taken_ms: int | None
    oldest: int | None  # the first slot in which a record there expires; None: there are none
    first_dead: int | None  # the first slot in which all records of a file there have expired
    first_refused: int | None  # the oldest slot of refused records there
    stale_since: int | None = (
        None  # the version that forgot records which may be there; None: they are not. Not written
    )
    failed_ms: int | None = None  # since when expired records could not be taken out
    reason: str = ""

    def dumps(self) -> bytes:
        """Write it as JSON."""
        value = asdict(self)
        del value["stale_since"]
        return json.dumps(value).encode()

    @staticmethod
    def loads(data: bytes) -> Kept:
        """Read what :meth:`dumps` wrote; ValueError or TypeError if it is something else."""
        value = members(parsed(data))
        numbers = ("version", "clock", "taken_ms", "oldest", "first_dead", "first_refused", "failed_ms")
        known = {name: number_or_none(value.get(name)) for name in numbers}
        return Kept(place=text(value.get("place")), reason=text(value.get("reason", "")), **known)

    def stale_from(self, version: int | None) -> Kept:
        """Return it with what the last commit means for it that took records away sooner; None: there was none.

        >>> kept = Kept.of("/b/t", None)
        >>> kept.stale_from(7).stale_since, replace(kept, version=7).stale_from(7).stale_since
        (7, None)
        """
        is_stale = version is not None and (self.version is None or self.version < version)
        return replace(self, stale_since=version if is_stale else None)

    @staticmethod
    def of(place: str, manifest: Manifest | None, more: Iterable[CellFile] = ()) -> Kept:
        """Return what to remember of a backup, and of files that are being copied there."""
        files = [file for file in (*(manifest.files if manifest else ()), *more) if not file.cell.is_held]
        return Kept(
            place=place,
            version=manifest.version if manifest else None,
            clock=manifest.clock if manifest else None,
            taken_ms=manifest.taken_ms if manifest else None,
            oldest=min((file.min_exp for file in files), default=None),
            first_dead=min((file.max_exp for file in files), default=None),
            first_refused=min((file.slot for file in manifest.refused), default=None) if manifest else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What a restored table says of itself in its properties."""

    ancestors: tuple[str, ...]  # the ids of the tables before it, the oldest first
    version: int  # of the backup
    is_confirmed: bool  # somebody said that it goes on in place of the original; before that, nobody writes to it

    def dumps(self) -> str:
        """Write it as the text of a property.

        >>> Copied.loads(Copied(ancestors=("a",), version=3, is_confirmed=False).dumps()).version
        3
        """
        return json.dumps({"from": self.ancestors, "version": self.version, "confirmed": self.is_confirmed})

    @staticmethod
    def loads(written: str) -> Copied | None:
        """Read what :meth:`dumps` wrote; None for an empty text: the table is nobody's copy."""
        if not written:
            return None
        value = members(parsed(written))
        return Copied(
            ancestors=tuple(map(text, items(value["from"]))),
            version=number(value["version"]),
            is_confirmed=bool(value["confirmed"]),
        )
