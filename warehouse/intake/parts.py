"""Putting a staged batch together from what its tasks did.

The files go to a folder of their own, so work that dies leaves nothing that any commit names. The counts prove that no
record was lost on the way.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ebb.index.errors import EngineError, InputError
from ebb.warehouse.intake.digest import Digest
from ebb.warehouse.intake.faults import dumps_fault, loads_fault, raise_faults
from ebb.warehouse.intake.staged import Staged
from ebb.warehouse.parquet.writer import Written
from ebb.warehouse.store.errors import disk_error
from ebb.warehouse.store.files import make_folder, remove_all_but, remove_folder

__all__ = ["Part", "collect"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one task received and wrote."""

    digest: Digest
    written: Written
    expirations: Mapping[int, int]  # expiration slot -> records written
    quarantine_files: Sequence[str]
    reasons: Mapping[str, int]
    expired_on_arrival: int
    files: Mapping[int, Digest]  # of the records of each file, as they came
    faults: Sequence[InputError] = ()  # of files
    seconds: Mapping[str, float] = field(default_factory=dict)  # what took how long

    def dumps(self) -> str:
        """Write it as JSON, to bring it from a task to the driver."""
        names = ("quarantine_files", "reasons", "expired_on_arrival", "seconds")
        plain = {name: getattr(self, name) for name in names}
        files = [[number, asdict(digest)] for number, digest in self.files.items()]
        faults = [dumps_fault(fault) for fault in self.faults]
        digest, written = asdict(self.digest), self.written.dumps()
        more = {"digest": digest, "written": written, "files": files, "faults": faults}
        return json.dumps(plain | more | {"expirations": list(self.expirations.items())})

    @staticmethod
    def loads(text: str) -> Part:
        """Read what :meth:`dumps` wrote."""
        value = json.loads(text)
        value["digest"] = Digest(**value["digest"])
        value["written"] = Written.loads(value["written"])
        value["expirations"] = dict(value["expirations"])
        value["files"] = {number: Digest(**digest) for number, digest in value["files"]}
        value["faults"] = [loads_fault(fault) for fault in value["faults"]]
        return Part(**value)


def collect(table: str, folder: str, run: Callable[[], Iterable[Part]]) -> Staged:
    """Make the folder of a batch, let the tasks of a job fill it, and put together what they did.

    If anything goes wrong the folder is removed. The tasks make no folder at its place themselves: what is removed here
    cannot come back by a late one.
    """
    try:
        make_folder(f"{table}/{folder}")
    except OSError as error:
        raise disk_error(error, "the batch cannot be staged", step="check the table's folder") from error
    try:
        staged = _staged(folder, list(run()))
        # What failed attempts of a task left.
        remove_all_but(Path(table), folder, [*(f.path for f in staged.files), *staged.quarantine_files])
    except BaseException:
        remove_folder(Path(table, folder))
        raise
    return staged


def _staged(folder: str, parts: Sequence[Part]) -> Staged:
    raise_faults(fault for part in parts for fault in part.faults)
    expirations, reasons, seconds = Counter[int](), Counter[str](), Counter[str]()
    files: dict[int, Digest] = {}
    for part in parts:
        expirations.update(part.expirations)
        reasons.update(part.reasons)
        seconds.update(part.seconds)
        for number, digest in part.files.items():
            files[number] = files.get(number, Digest()) + digest
    digest = sum((part.digest for part in parts), Digest())
    staged = Staged(
        folder=folder,
        files=[file for part in parts for file in part.written.files],
        expirations=expirations,
        quarantine_files=[file for part in parts for file in part.quarantine_files],
        reasons=reasons,
        received=digest.records,
        expired_on_arrival=sum(part.expired_on_arrival for part in parts),
        digest=str(digest) if digest.records else None,
        files_digests={number: str(found) for number, found in sorted(files.items()) if found.records},
        seconds=seconds,
    )
    if staged.received != staged.admitted + staged.expired_on_arrival + staged.quarantined:
        counts = f"{staged.received} received, {staged.admitted} admitted, {staged.expired_on_arrival} expired, {staged.quarantined} quarantined"
        raise EngineError("the intake lost count", counts, "nothing was changed; report this")
    return staged
