"""A landing folder on disk: what has arrived, and where its files go.

Before a tick is applied its files are moved together into ``_taken/SLOT``: whatever dies afterwards, the next run finds
the very same batch and the ledger tells whether it was applied. Then they go to ``_applied/SLOT`` or, with a reason, to
``_refused/SLOT``; both are erased with the quarantine's time.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from ebb.index.timeline import Timeline
from ebb.maintenance.landing.steps import Landed, label_time
from ebb.warehouse.store.files import remove_tree
from ebb.warehouse.table.spec import TableSpec

__all__ = [
    "batches",
    "erase_old",
    "give_back",
    "landed_files",
    "move",
    "set_aside",
    "slot_of",
    "store",
    "take",
    "write_reason",
]

_SLOT = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")  # the folder of a batch; a second one of the same slot has a number


def batches(folder: Path) -> list[Path]:
    """Return the folders that are named after a slot, in order."""
    found = [p for p in folder.glob("*") if p.is_dir() and _SLOT.fullmatch(p.name)]
    return sorted(found, key=slot_of)


def slot_of(folder: Path) -> int:
    """Return the slot that a batch's folder is named after."""
    return int(folder.name.split(".")[0])


def take(files: Sequence[Path], folder: Path, slot: int) -> Path:
    """Take the files of a batch together: the folder has its name only when all of them are in it."""
    partial = move(files, folder / "_taken" / f"{slot}.part")
    return partial.rename(folder / "_taken" / str(slot))


def give_back(folder: Path) -> None:
    """Put back what a run was taking when it died."""
    for partial in (folder / "_taken").glob("*.part"):
        move(sorted(partial.iterdir()), folder)
        partial.rmdir()


def store(batch: Path, folder: Path) -> Path:
    """Move a whole batch in one step: a part of it left behind would look like another batch."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for turn in itertools.count():
        target = folder / (f"{slot_of(batch)}.{turn}" if turn else str(slot_of(batch)))
        if not target.exists():
            return batch.rename(target)
    raise AssertionError  # there is always a next number


def landed_files(folder: Path, line: Timeline) -> list[Landed]:
    """Return the files that have arrived and the slots they belong to."""
    files = [
        p
        for p in folder.iterdir()
        if p.is_file() and not p.name.startswith((".", "_")) and p.suffix not in (".tmp", ".part")
    ]
    landed = []
    for path in files:
        time = label_time(path.name, line.kind)
        if time is not None:
            landed.append(Landed(path, line.clock_at(time)))
        elif line.kind.has_wall_clock:
            modified = datetime.fromtimestamp(path.stat().st_mtime, tz=timezone.utc)
            landed.append(Landed(path, line.slot_of(line.kind.from_datetime(modified))))
        else:
            landed.append(Landed(path, None))
    return landed


def move(files: Sequence[Path], target: Path) -> Path:
    """Move files into a folder."""
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    for file in files:
        file.rename(target / file.name)
    return target


def set_aside(files: Sequence[Path], folder: Path, slot: int, reason: str) -> Path:
    """Keep files that cannot be applied, with the reason in a file beside them."""
    aside = move(files, folder / "_refused" / str(slot))
    write_reason(aside, [file.name for file in files], reason)
    return aside


def write_reason(folder: Path, names: Sequence[str], reason: str) -> None:
    """Write down why files were refused."""
    with (folder / "_reasons.jsonl").open("a", encoding="utf-8") as text:
        text.write(json.dumps({"files": names, "reason": reason}) + "\n")


def erase_old(folder: Path, spec: TableSpec, clock: int | None) -> None:
    """Erase files with the quarantine's time: the deletion bound would mean little if they stayed."""
    if clock is None:
        return
    through = clock - max(0, spec.quarantine_time // spec.timeline.tick - 1)
    for batch in (*batches(folder / "_applied"), *batches(folder / "_refused")):
        if slot_of(batch) <= through:
            remove_tree(batch)
