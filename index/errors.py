"""Every error that Ebb raises on purpose.

    WarehouseError                    exit code 1
    ├── UsageError                    an argument cannot be accepted: change the command (exit code 2)
    ├── InputError                    the data or the request does not fit the table: change the input
    │   ├── UnknownTableError
    │   ├── TableExistsError
    │   ├── SchemaDriftError
    │   ├── UnreadableInputError
    │   ├── AppliedSlotError          other content for a slot that has been applied
    │   ├── JumpError                 more than one tick ahead
    │   └── OverDeletionError         a jump that would empty the table
    ├── RetryError                    nothing is wrong: try again later
    │   ├── LockedError
    │   ├── NotDueError
    │   └── ConflictError             somebody else committed in between
    ├── UpgradeError                  the table was written by a newer Ebb
    ├── CorruptionError               what is on disk contradicts itself: run a check, restore
    └── EngineError                   Spark, Java or the disk failed
        └── InDoubtError              the log cannot tell whether a commit was made; the next run settles it

Raw values are the exception's arguments and the text is made when it is shown, so that a test can read
the values and the error survives pickling.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "AppliedSlotError",
    "ConflictError",
    "CorruptionError",
    "EngineError",
    "InDoubtError",
    "InputError",
    "JumpError",
    "LockedError",
    "NotDueError",
    "OverDeletionError",
    "RetryError",
    "SchemaDriftError",
    "TableExistsError",
    "UnknownTableError",
    "UnreadableInputError",
    "UpgradeError",
    "UsageError",
    "WarehouseError",
]


class WarehouseError(Exception):
    """The root: every error here says what was wrong, which limit it broke and what to do next."""

    exit_code: ClassVar[int] = 1
    template: ClassVar[str] = "{0}"

    def __str__(self) -> str:
        return self.template.format(*self.args)


class UsageError(WarehouseError):
    """An argument cannot be accepted."""

    exit_code = 2


class InputError(WarehouseError):
    """The data or the request does not fit the table."""


class UnknownTableError(InputError):
    """Arguments: name, warehouse, names of the tables that exist."""

    template = "there is no table {0} in {1}; {2}"


class TableExistsError(InputError):
    """Arguments: name, folder."""

    template = "table {0} exists already in {1}; choose another name or run: ebb drop {0}"


class SchemaDriftError(InputError):
    """Arguments: where, column, what is wrong with it, next step."""

    template = "{0}: column {1} {2}; {3}"


class UnreadableInputError(InputError):
    """Arguments: file, reason, next step."""

    template = "{0}: {1}; {2}"


class AppliedSlotError(InputError):
    """Arguments: slot, its time, clock, what is known of the batch applied there."""

    template = "slot {0} ({1}) is not after the clock {2}, and this batch is not the one applied there: {3}"


class JumpError(InputError):
    """Arguments: slot, ticks, clock."""

    template = "slot {0} is {1} ticks after the clock {2}; pass --catch-up to apply them in one commit"


class OverDeletionError(InputError):
    """Arguments: slot, ticks, live records."""

    template = "moving the clock {1} ticks to slot {0} would expire all {2} live records; pass --yes if that is meant"


class RetryError(WarehouseError):
    """Nothing is wrong: try again later."""


class LockedError(RetryError):
    """Arguments: what is locked, holder, seconds waited."""

    template = "{0} is being written by {1}; waited {2:g} s, pass --wait to wait longer"


class NotDueError(RetryError):
    """Arguments: slot, when its tick is over, now."""

    template = "the tick of slot {0} is not over before {1} and it is {2} now; run again then, or pass --at"


class ConflictError(RetryError):
    """Arguments: table, version that was read."""

    template = (
        "another commit was made to table {0} after version {1} was read; nothing was changed, run the command again"
    )


class UpgradeError(WarehouseError):
    """Arguments: table, format version found, format version known."""

    template = "table {0} has format version {1} and this Ebb knows {2}; upgrade Ebb"


class CorruptionError(WarehouseError):
    """Arguments: what was found, where, next step."""

    template = "{0}: {1}; {2}"


class EngineError(WarehouseError):
    """Arguments: what failed, reason, next step."""

    template = "{0}: {1}; {2}"


class InDoubtError(EngineError):
    """Arguments: table, reason."""

    template = "whether the commit to table {0} was made is not known: {1}; nothing was deleted, run the command again to settle it"
