"""The tree of errors: drawn, pickled, shown."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest

from ebb.index import errors
from ebb.index.errors import (
    AdoptionError,
    AppliedSlotError,
    BadFilesError,
    ConflictError,
    CorruptionError,
    EngineError,
    ErasedError,
    ExpiredBatchError,
    FeatureError,
    ForeignCommitError,
    HeldError,
    InDoubtError,
    InputError,
    JumpError,
    LeaseEndedError,
    LockedError,
    LostHeadError,
    MassDeletionError,
    NotDueError,
    OverDeletionError,
    ProtocolError,
    RestoredError,
    RetryError,
    RolledBackError,
    SchemaDriftError,
    TableExistsError,
    TooLateError,
    UnknownTableError,
    UnreadableInputError,
    UnsyncedError,
    UpgradeError,
    UsageError,
    WarehouseError,
)

SHOWN: list[tuple[WarehouseError, str]] = [
    (WarehouseError("plain {words}"), "plain {words}"),
    (UsageError("grid '4' is not two numbers"), "grid '4' is not two numbers"),
    (InputError("no records"), "no records"),
    (UsageError("tick 0 is not positive", "choose a longer one"), "tick 0 is not positive; choose a longer one"),
    (UsageError("no clock", "load it", hint="no_clock"), "no clock; load it"),
    (UnknownTableError("t", "/w", ("a", "b")), "there is no table t in /w; it has a, b"),
    (UnknownTableError("t", "/w", ()), "there is no table t in /w; it is empty"),
    (UnknownTableError("t", "/w"), "there is no table t in /w; look which tables there are"),
    (TableExistsError("t", "/w"), "table t exists already in /w; choose another name, or drop that table first"),
    (SchemaDriftError("a.csv", "x", "is missing", "add it"), "a.csv: column x is missing; add it"),
    (UnreadableInputError("a.csv", "not UTF-8", "convert it"), "a.csv: not UTF-8; convert it"),
    (
        BadFilesError(UnreadableInputError("a.csv", "not UTF-8", "convert it"), InputError("no records")),
        "2 files cannot be read; the first is a.csv: not UTF-8; convert it",
    ),
    (
        AppliedSlotError(4, "1970-01-05", 7, "there it was ab"),
        (
            "slot 4 (1970-01-05) is not after the clock 7, and this batch is not the one applied there: there it was ab; "
            "apply it with a later time, late records are admitted too"
        ),
    ),
    (
        TooLateError("t", 3, 40),
        (
            "the changes of table t after version 3 are no longer all there; "
            "those after version 40 are; read the table itself to know what was before"
        ),
    ),
    (
        TooLateError(*("t", 3, 40, True)),
        (
            "the changes and expiries of table t after version 3 are no longer all there; "
            "those after version 40 are; read the table itself to know what was before"
        ),
    ),
    (
        JumpError(43, 3, 40),
        "slot 43 is 3 ticks after the clock 40; catching up was not allowed",
    ),
    (
        HeldError("t", "forgotten", 3, ("c-1", "c-2")),
        "table t: 3 of the records are held and cannot be forgotten: cases c-1, c-2; release them first, if the case allows it",
    ),
    (
        MassDeletionError("forget", 7, 12),
        "it would forget 7 of 12 live records, more than half of them; so many were not allowed",
    ),
    (
        OverDeletionError(43, 3, 12),
        "moving the clock 3 ticks to slot 43 would expire all 12 live records; expiring all of them was not allowed",
    ),
    (
        OverDeletionError(43, 3, 1),
        "moving the clock 3 ticks to slot 43 would expire the only live record; expiring all of them was not allowed",
    ),
    (
        ExpiredBatchError(20, 3, "12:00", 0),
        "all 20 records of the batch had expired by the end of its tick, 12:00 (slot 3); nothing was changed; most probably its expiration times are wrong (their unit, their time zone, a swapped column), or it belongs to an earlier tick: keeping none of it was not allowed",
    ),
    (RetryError("later"), "later"),
    (
        LockedError("table t", "process 7", 1.50),
        "table t is being written by process 7; waited 1.5 s; try again later",
    ),
    (
        NotDueError(5, "06:00", "05:59"),
        "the tick of slot 5 is not over before 06:00 and it is 05:59 now; try again then",
    ),
    (
        ConflictError("t", 9),
        "another commit was made to table t after version 9 was read; nothing was changed, try again",
    ),
    (UpgradeError("t", 3, 2), "table t has format version 3 and this Ebb knows 2; install a newer Ebb"),
    (
        UpgradeError("t", 1, 2),
        "table t has format version 1 and this Ebb knows 2; create the table again with this Ebb and load it from its source, or read it with the Ebb that wrote it",
    ),
    (
        FeatureError("t", "kind", ("view",), "0.1"),
        "table t is of kind view, which Ebb 0.1 does not know; install a newer Ebb",
    ),
    (
        FeatureError("t", "reader", ("amends", "holds"), "0.1"),
        "table t has reader features amends, holds, which Ebb 0.1 does not know; install a newer Ebb",
    ),
    (
        FeatureError("t", "writer", ("holds",), "0.1"),
        "table t has writer feature holds, which Ebb 0.1 does not know, so it can be read and not written; install a newer Ebb",
    ),
    (
        ForeignCommitError("t", 7, "DELETE", 0),
        "table t was changed by another tool: DELETE in version 7; adopt what it did, or restore the table from a backup",
    ),
    (
        ForeignCommitError("t", 7, "DELETE", 1),
        "table t was changed by another tool: DELETE in version 7 and 1 more commit; adopt what it did, or restore the table from a backup",
    ),
    (
        AdoptionError("t", "a/b.parquet", "a record has no slot", 0),
        "what another tool did to table t cannot be adopted: a/b.parquet: a record has no slot; nothing was changed; restore the table from a backup",
    ),
    (
        AdoptionError("t", "a/b.parquet", "a record has no slot", 2),
        "what another tool did to table t cannot be adopted: a/b.parquet: a record has no slot, and 2 more files; nothing was changed; restore the table from a backup",
    ),
    (
        RestoredError("t", 7),
        "table t was restored from a backup of version 7, and nothing is written to it yet; adopt it if it goes on in place of the original, or drop it",
    ),
    (
        ProtocolError("t", 3, 7, ["deletionVectors"]),
        "table t needs reader 3 and writer 7 of Delta's protocol (deletionVectors), and Ebb knows 1 and 2; take it back with the tool that raised it, or restore the table from a backup",
    ),
    (
        ProtocolError("t", 2, 5, []),
        "table t needs reader 2 and writer 5 of Delta's protocol, and Ebb knows 1 and 2; take it back with the tool that raised it, or restore the table from a backup",
    ),
    (
        ErasedError("t", 7, "this process could write no lease"),
        "version 7 of table t was erased while it was read: this process could write no lease; read the table again",
    ),
    (
        LeaseEndedError("t", 7, "2026-01-01T12:00:00Z", "somebody removed it"),
        "version 7 of table t was erased while it was read: the lease on it ended at 2026-01-01T12:00:00Z, because somebody removed it; read the table again",
    ),
    (CorruptionError("a file is missing", "c1/x", "restore it"), "a file is missing: c1/x; restore it"),
    (
        RolledBackError("t", 7, 5, "ends at version 5"),
        "the log of table t ends at version 5, and version 7 was committed: it was rolled back, truncated or replaced; restore the log, or adopt the table as it is",
    ),
    (
        LostHeadError("t", "is missing"),
        "the head record of table t is missing, so nothing tells whether its log is whole; look whether the newest commit is there, and confirm it",
    ),
    (EngineError("the merge failed", "disk full", "make room"), "the merge failed: disk full; make room"),
    (
        InDoubtError("t", "the disk is gone"),
        "whether the commit to table t was made is not known: the disk is gone; nothing was deleted, and the next run settles it",
    ),
    (
        UnsyncedError("t", 7, "the disk is gone"),
        "commit 7 of table t was made, and may not be on the disk yet: the disk is gone; check the disk; until a later run succeeds, a power failure may take the commit back",
    ),
]


@pytest.mark.parametrize(("error", "text"), SHOWN, ids=lambda value: type(value).__name__)
def test_an_error_says_what_was_wrong_and_what_to_do(error: WarehouseError, text: str) -> None:
    assert str(error) == text


@pytest.mark.parametrize("error", [error for error, _ in SHOWN], ids=lambda value: type(value).__name__)
def test_an_error_survives_pickling_with_its_values(error: WarehouseError) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes

    assert (repr(copy), copy.hint, str(copy)) == (repr(error), error.hint, str(error))


@pytest.mark.parametrize("error", [error for error, _ in SHOWN], ids=lambda value: type(value).__name__)
def test_only_misuse_of_the_command_has_exit_code_2(error: WarehouseError) -> None:
    assert error.exit_code == (2 if isinstance(error, UsageError) else 1)


def test_every_error_is_exported_and_shown_here() -> None:
    defined = {name for name, value in inspect.getmembers(errors, inspect.isclass) if issubclass(value, Exception)}

    assert set(errors.__all__) == defined
    assert {type(error).__name__ for error, _ in SHOWN} == defined


def test_the_drawing_shows_the_tree() -> None:
    drawn: dict[str, str] = {}
    above: list[str] = []
    for line in str(errors.__doc__).splitlines():
        found = re.match(r"    ([│├└─ ]*)(\w+Error)\b", line)
        if found:
            depth = len(found[1]) // 4
            above = [*above[:depth], found[2]]
            drawn[found[2]] = above[depth - 1] if depth else "Exception"

    assert drawn == {name: getattr(errors, name).__base__.__name__ for name in errors.__all__}
