"""Every name on disk, and how it is read back.  ``docs/format.md`` says what each is for.  Pure."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterable
from pathlib import PurePosixPath
from urllib.parse import unquote

from ebb.index.errors import CorruptionError
from ebb.index.grid import Cell

__all__ = [
    "BACKUPS",
    "CHECKED",
    "CHECKPOINTING",
    "EVIDENCE",
    "HEAD",
    "HIDDEN",
    "HOLDS",
    "LANDING_APPLIED",
    "LANDING_LOCK",
    "LANDING_REASONS",
    "LANDING_REFUSED",
    "LANDING_TAKEN",
    "LAST_CHECKPOINT",
    "LEASES",
    "LOCK",
    "LOG",
    "MANIFEST",
    "PLACE_LOCK",
    "QUARANTINE_SUFFIX",
    "RANGES",
    "REFUSED",
    "SIDE_SUFFIX",
    "STALE",
    "STATES",
    "UNFINISHED_COMMITS",
    "UNSYNCED",
    "backup_record",
    "cell_folder",
    "copied_name",
    "doomed_folder",
    "dropped_name",
    "ended_name",
    "entry_name",
    "entry_version",
    "folders_above",
    "footer_hash_in",
    "hold_name",
    "inside",
    "is_data_file",
    "is_inside",
    "is_ranges",
    "is_segment",
    "is_unfinished",
    "journal_lines",
    "journal_segment",
    "lease_id",
    "lease_name",
    "new_data_file",
    "new_lease_name",
    "new_table_name",
    "numbered_batch",
    "numbered_file",
    "quarantine_file",
    "ranges_name",
    "rewrite_folder",
    "segment_checksum",
    "segment_name",
    "shared_with",
    "side_file",
    "staging_folder",
    "state_name",
    "state_version",
    "unfinished_commit",
    "unfinished_file",
]

LOG = "_delta_log"
LAST_CHECKPOINT = "_last_checkpoint"  # below the log: where opening a table starts
HIDDEN = "_ebb"  # what is not part of the Delta table
LOCK = "lock"
STATES = "ledger"  # the folder of the ledger's states, below the hidden one
HEAD = "head"  # the head record, below the hidden one
CHECKED = "checked"  # what the last checks found, below the hidden one
CHECKPOINTING = "checkpoint"  # the folder in which a checkpoint is made, below the hidden one
UNSYNCED = "unsynced"  # below the hidden one: somebody wrote who did not wait for the disk
HOLDS = "holds"  # the folder of what says which records are held, below the hidden one
RANGES = "ranges"  # the folder of objects with key ranges, below the hidden one
LEASES = "leases"  # the folder of leases, below the hidden one
EVIDENCE = "evidence"  # the folder of the journal's segments, below the hidden one
BACKUPS, STALE = "backups", "stale"  # below the hidden one: what is remembered of backups; there: who is stale
MANIFEST = "manifest"  # in the folder of a backup
PLACE_LOCK = "lock"  # there too
SIDE_SUFFIX = ".keys"  # of what the directory keeps beside a data file
QUARANTINE_SUFFIX = ".quarantine"  # no table can have such a name
REFUSED = "refused"  # refused records on their way to the quarantine, below a staging folder
UNFINISHED_COMMITS = "_commit_*.json.tmp"  # delta-rs calls its own so as well
LANDING_TAKEN = "_taken"  # below a landing folder: batches that are being applied
LANDING_APPLIED = "_applied"
LANDING_REFUSED = "_refused"
LANDING_REASONS = "_reasons.jsonl"  # beside refused files
LANDING_LOCK = "_lock"
_STATE = re.compile(r"state-([0-9]{1,20})-[0-9a-f]+")
_SEGMENT = re.compile(r"seen-[0-9a-f]+-[0-9a-f]{8}")
_RANGES = re.compile(r"[0-9]+-[0-9]+-[0-9a-f]+")
_FORMAT = re.compile(r"(\.[A-Za-z]\w*)?\.[A-Za-z]\w*$")  # also of a packed text; digits belong to the tick
_ENTRY = re.compile(r"([0-9]{20})\.json")
_LEASE = re.compile(r"([0-9a-f]{12})\.lease")
_JOURNAL = re.compile(r"([0-9]{12})-([0-9]{12})\.jsonl")
_HASHED = re.compile(r"-([0-9a-f]{16})\.parquet$")


def _id() -> str:
    return uuid.uuid4().hex[:12]


def entry_name(version: int) -> str:
    """Return the name of the log entry of a version.

    >>> entry_name(7)
    '00000000000000000007.json'
    """
    return f"{version:020}.json"


def entry_version(name: str) -> int | None:
    """Return the version of a log entry; None for another file of the log.

    >>> entry_version(entry_name(7)), entry_version("00000000000000000007.checkpoint.parquet")
    (7, None)
    """
    match = _ENTRY.fullmatch(name)
    return int(match[1]) if match else None


def copied_name(table: str) -> str:
    """Return the name of the folder that a table's files have in a backup; no table can have it.

    >>> copied_name("flights")
    'flights.backup'
    """
    return f"{table}.backup"


def backup_record(place: str) -> str:
    """Return the name of what a table remembers of the backup at a place."""
    return hashlib.blake2b(place.encode(), digest_size=8).hexdigest()


def unfinished_commit(id: str) -> str:
    """Return the name under which a log entry is written before it gets its own."""
    return UNFINISHED_COMMITS.replace("*", id)


def unfinished_file(name: str) -> str:
    """Return a new name under which a file is written before it takes the place of another one."""
    return f"{name}-{_id()}.tmp"


def is_unfinished(name: str) -> bool:
    """Whether a file is being written, or was left behind by somebody who was killed while writing it.

    >>> is_unfinished(unfinished_file("manifest")), is_unfinished("manifest")
    (True, False)
    """
    return name.endswith(".tmp")


def state_name(version: int) -> str:
    """Return a new name for the state of the ledger at a version."""
    return f"state-{version}-{_id()}"


def state_version(name: str) -> int | None:
    """Return the version in the name of a state; None if it is something else.

    >>> state_version(state_name(7)), state_version(segment_name("0123abcd"))
    (7, None)
    """
    match = _STATE.fullmatch(name)
    return int(match[1]) if match else None


def ranges_name(generation: int, cohort: int) -> str:
    """Return a new name for an object with key ranges of files of a cohort."""
    return f"{generation}-{cohort}-{_id()}"


def lease_name(id: str) -> str:
    """Return the name of a lease."""
    return f"{id}.lease"


def new_lease_name(id: str) -> str:
    """Return the name under which a lease is written before it gets its own."""
    return f"{id}.new"


def ended_name(id: str) -> str:
    """Return the name of what says why a lease was ended."""
    return f"{id}.ended"


def lease_id(name: str) -> str | None:
    """Return the id in the name of a lease; None if it is something else.

    >>> lease_id(lease_name("0123456789ab")), lease_id(ended_name("0123456789ab"))
    ('0123456789ab', None)
    """
    match = _LEASE.fullmatch(name)
    return match[1] if match else None


def is_ranges(name: str) -> bool:
    """Whether an object with key ranges can have this name.

    >>> is_ranges(ranges_name(0, 7)), is_ranges("../precious")
    (True, False)
    """
    return _RANGES.fullmatch(name) is not None


def hold_name() -> str:
    """Return a new name for what says which records a case holds; the case's own may be anything."""
    return _id()


def segment_name(checksum: str) -> str:
    """Return a new name for a segment of fingerprints, which carries its checksum."""
    return f"seen-{_id()}-{checksum}"


def is_segment(name: str) -> bool:
    """Whether a segment of fingerprints can have this name.

    >>> is_segment(segment_name("0123abcd")), is_segment("../precious-0123abcd")
    (True, False)
    """
    return _SEGMENT.fullmatch(name) is not None


def segment_checksum(name: str) -> str:
    """Return the checksum in the name of a segment.

    >>> segment_checksum(segment_name("0123abcd"))
    '0123abcd'
    """
    return name.rsplit("-", 1)[-1]


def journal_segment(first: int, last: int) -> str:
    """Return the name of the segment of the evidence journal that holds these lines, counted from 0.

    >>> journal_segment(0, 49)
    '000000000000-000000000049.jsonl'
    """
    return f"{first:012}-{last:012}.jsonl"


def journal_lines(name: str) -> tuple[int, int] | None:
    """Return which lines a segment of the evidence journal holds; None if the name is something else's.

    >>> journal_lines(journal_segment(50, 99)), journal_lines("notes.txt")
    ((50, 99), None)
    """
    match = _JOURNAL.fullmatch(name)
    return (int(match[1]), int(match[2])) if match else None


def staging_folder(slot: int) -> str:
    """Return a new name for the folder of what an update brings."""
    return f"u{slot}-{_id()}"


def rewrite_folder(clock: int) -> str:
    """Return a new name for the folder of what is written anew."""
    return f"r{clock}-{_id()}"


def doomed_folder(name: str) -> str:
    """Return the name of a folder while it is being removed."""
    return f"x-{name}"


def cell_folder(folder: str, cell: Cell) -> str:
    """Return the folder of a cell below a commit's.

    >>> cell_folder("u7-ab", Cell(1, 2))
    'u7-ab/_g=1/_e=2'
    """
    return f"{folder}/_g={cell.group}/_e={cell.cohort}"


def folders_above(paths: Iterable[str]) -> list[str]:
    """Return the folders that lead to files below a table, with the table's own, which is called ``.``.

    >>> folders_above(["u7-ab/_g=1/_e=2/part-x.parquet", "u7-ab/_g=1/_e=3/part-y.parquet"])
    ['.', 'u7-ab', 'u7-ab/_g=1', 'u7-ab/_g=1/_e=2', 'u7-ab/_g=1/_e=3']
    """
    return sorted({str(parent) for path in paths for parent in PurePosixPath(path).parents})


def new_data_file(folder: str, footer_hash: str = "") -> str:
    """Return a new name for a Parquet file; that of a data file carries the hash of its footer.

    >>> new_data_file("u7-ab/_g=1/_e=2", "0123456789abcdef").endswith("-0123456789abcdef.parquet")
    True
    """
    return f"{folder}/part-{uuid.uuid4().hex}{footer_hash and '-'}{footer_hash}.parquet"


def footer_hash_in(path: str) -> str | None:
    """Return the hash that a data file's name carries; None if another tool wrote it."""
    match = _HASHED.search(path)
    return match[1] if match else None


def is_data_file(path: str) -> bool:
    """Whether a file below a table is none of the directory's."""
    return not path.endswith(SIDE_SUFFIX)


def side_file(path: str) -> str:
    """Return the place of what the directory keeps of a data file.

    >>> side_file("u7-ab/_g=1/_e=2/part-x.parquet")
    'u7-ab/_g=1/_e=2/part-x.keys'
    """
    return path.removesuffix(".parquet") + SIDE_SUFFIX


def quarantine_file(slot: int, name: str) -> str:
    """Return the place of refused records below the quarantine."""
    return f"_slot={slot}/{name}"


def shared_with(name: str) -> str | None:
    """Return the name of the folder beside one that says who may look into both; None if that is the folder above.

    >>> shared_with("t.quarantine"), shared_with("t")
    ('t', None)
    """
    return name.removesuffix(QUARANTINE_SUFFIX) if name.endswith(QUARANTINE_SUFFIX) else None


def dropped_name(table: str, id: str = "*") -> str:
    """Return the name of a table on its way out; without an id, a pattern for all of them."""
    return f".dropped-{table}-{id}"


def new_table_name(table: str, id: str = "*") -> str:
    """Return the name of a table that is being created; without an id, a pattern for all of them."""
    return f".new-{table}-{id}"


def numbered_batch(slot: int, number: int) -> str:
    """Return the name of the folder of a batch; the second one of a slot has the number 1.

    >>> numbered_batch(7, 0), numbered_batch(7, 1)
    ('7', '7.1')
    """
    return f"{slot}.{number}" if number else str(slot)


def numbered_file(name: str, number: int) -> str:
    """Return another name for a landed file, which says the same tick and the same format; its own for 0.

    >>> numbered_file("40-cars.csv.gz", 0), numbered_file("40-cars.csv.gz", 2)
    ('40-cars.csv.gz', '40-cars.n2.csv.gz')
    """
    if not number:
        return name
    match = _FORMAT.search(name)
    end = match[0] if match else ""
    # With a letter: a number alone could be read as the minutes of the tick that the name starts with.
    return f"{name.removesuffix(end)}.n{number}{end}"


def is_inside(path: str) -> bool:
    """Whether a path stays within the folder that it is relative to."""
    parts = PurePosixPath(path).parts
    is_plain = path == "/".join(parts) and "\0" not in path  # else a file could have several names
    is_ours = bool(parts) and parts[0] not in (LOG, HIDDEN)  # no data file is called like them
    return is_ours and is_plain and not path.startswith("/") and ".." not in parts and ":" not in parts[0]


def inside(path: str) -> str:
    """Return a path of a log, decoded; refuses one that leads out of the table.

    >>> inside("u7-ab/_g%3D1/x.parquet")
    'u7-ab/_g=1/x.parquet'
    """
    path = unquote(path)
    if not is_inside(path):
        raise CorruptionError("the log names a file outside the table", path, "do not use this table; restore its log")
    return path
