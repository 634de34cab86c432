"""Every error that Ebb raises on purpose.

    WarehouseError                    exit code 1
    ├── UsageError                    an argument cannot be accepted: change the command (exit code 2)
    ├── InputError                    the data or the request does not fit the table: change the input
    │   ├── UnknownTableError
    │   ├── TableExistsError
    │   ├── SchemaDriftError
    │   ├── UnreadableInputError
    │   ├── BadFilesError             several files of a batch, each with an error of its own
    │   ├── AppliedSlotError          other content for a slot that has been applied
    │   ├── TooLateError              changes that are no longer all there
    │   ├── HeldError                 records that a case holds
    │   ├── JumpError                 more than one tick ahead
    │   ├── MassDeletionError         a condition that takes more than half of the live records away
    │   ├── OverDeletionError         a jump that would empty the table
    │   └── ExpiredBatchError         a batch of which no record would be kept
    ├── RetryError                    nothing is wrong: try again later
    │   ├── LockedError
    │   ├── NotDueError
    │   ├── ConflictError             somebody else committed in between
    │   └── ErasedError               the version that was read has been erased meanwhile
    │       └── LeaseEndedError       because the lease on it was ended
    ├── UpgradeError                  the table has another format than this Ebb reads and writes
    │   └── FeatureError              it is of a kind, or has features, that this Ebb does not know
    ├── ForeignCommitError            another tool wrote to the table: adopt what it did, or restore the table
    │   ├── AdoptionError             what it did cannot be adopted
    │   └── ProtocolError             it raised the protocol beyond what Ebb reads and writes
    ├── RestoredError                 the table is a copy from a backup, and nobody has said that it goes on: adopt it
    ├── CorruptionError               what is on disk contradicts itself: restore it from a backup
    │   ├── RolledBackError           the log lacks commits that were made: restore it, or adopt it as it is
    │   └── LostHeadError             nothing tells whether the log is whole: look, and confirm it
    └── EngineError                   Spark, Java or the disk failed
        ├── InDoubtError              the log cannot tell whether a commit was made; the next run settles it
        └── UnsyncedError             a commit was made, and a power failure may still take it back

Raw values are the exception's arguments and the text is made when it is shown, so that a test can read
the values and the error survives pickling. The text is the facts and a next step in words that fit everywhere; where an
edge has better ones (an option of the command line, a button of a page), ``hint`` names the step, see ``cli/hints.py``.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "AdoptionError", "AppliedSlotError", "BadFilesError", "ConflictError", "CorruptionError", "EngineError",
    "ErasedError", "ExpiredBatchError", "FeatureError", "ForeignCommitError", "HeldError", "InDoubtError",
    "InputError", "JumpError", "LeaseEndedError", "LockedError", "LostHeadError", "MassDeletionError",
    "NotDueError", "OverDeletionError", "ProtocolError", "RestoredError", "RetryError", "RolledBackError",
    "SchemaDriftError", "TableExistsError", "TooLateError", "UnknownTableError", "UnreadableInputError",
    "UnsyncedError", "UpgradeError", "UsageError", "WarehouseError",
]  # fmt: skip


class WarehouseError(Exception):
    """The root: every error here says what was wrong, which limit it broke and what to do next."""

    exit_code: ClassVar[int] = 1
    template: ClassVar[str] = "{0}"  # the facts
    step: ClassVar[str] = "{1}"  # what to do next; may be left out
    hint: str | None = None

    def __init__(self, *values: object, hint: str | None = None) -> None:
        super().__init__(*values)
        if hint is not None:
            self.hint = hint

    @property
    def facts(self) -> str:
        """Return what was wrong."""
        return self.template.format(*self.args)

    @property
    def next_step(self) -> str:
        """Return what to do, in words that fit everywhere."""
        try:
            return self.step.format(*self.args)
        except IndexError:
            return ""

    def __str__(self) -> str:
        return f"{self.facts}; {self.next_step}" if self.next_step else self.facts


class UsageError(WarehouseError):
    """Arguments: what is wrong, next step if it is not said there."""

    exit_code = 2


class InputError(WarehouseError):
    """Arguments: what is wrong, next step if it is not said there."""

    file: str | None = None  # whose fault it is, if it is a file's


class UnknownTableError(InputError):
    """Arguments: name, warehouse, names of the tables that exist if they are known."""

    template = "there is no table {0} in {1}"

    @property
    def next_step(self) -> str:
        """Return which tables there are."""
        if len(self.args) < 3:
            return "look which tables there are"
        return f"it has {', '.join(self.args[2])}" if self.args[2] else "it is empty"


class TableExistsError(InputError):
    """Arguments: name, folder."""

    template = "table {0} exists already in {1}"
    step = "choose another name, or drop that table first"
    hint = "table_exists"


class SchemaDriftError(InputError):
    """Arguments: where, column, what is wrong with it, next step, and what hints need."""

    template = "{0}: column {1} {2}"
    step = "{3}"


class UnreadableInputError(InputError):
    """Arguments: file, reason, next step."""

    template = "{0}: {1}"
    step = "{2}"


class BadFilesError(InputError):
    """Arguments: the errors of the files."""

    args: tuple[InputError, ...]

    @property
    def facts(self) -> str:
        """Return what is wrong with the first, and how many there are."""
        return f"{len(self.args)} files cannot be read; the first is {self.args[0].facts}"

    @property
    def next_step(self) -> str:
        """Return what to do about the first."""
        return self.args[0].next_step


class AppliedSlotError(InputError):
    """Arguments: slot, its time, clock, what is known of the batch applied there."""

    template = "slot {0} ({1}) is not after the clock {2}, and this batch is not the one applied there: {3}"
    step = "apply it with a later time, late records are admitted too"
    hint = "later"


class TooLateError(InputError):
    """Arguments: table, version after which changes were asked for, oldest version after which they are all there.

    Then may come whether what expired was asked for too, and the file that the version was read from.
    """

    template = "the changes of table {0} after version {1} are no longer all there"
    step = "those after version {2} are; read the table itself to know what was before"
    hint = "too_late"

    @property
    def facts(self) -> str:
        """Return what is not there; what expired is gone before what was admitted."""
        has_expiries = len(self.args) > 3 and self.args[3]
        return super().facts.replace("changes of", "changes and expiries of", 1) if has_expiries else super().facts


class HeldError(InputError):
    """Arguments: table, what was to be done with the records, how many are held, the cases that hold them."""

    template = "table {0}: {2} of the records are held and cannot be {1}"
    step = "release them first, if the case allows it"
    hint = "release"

    @property
    def facts(self) -> str:
        """Return which cases they are."""
        cases = self.args[3]
        return f"{super().facts}: case{'s' * (len(cases) != 1)} {', '.join(cases)}"


class JumpError(InputError):
    """Arguments: slot, ticks, clock."""

    template = "slot {0} is {1} ticks after the clock {2}"
    step = "catching up was not allowed"
    hint = "catch_up"


class MassDeletionError(InputError):
    """Arguments: what would be done to the records, how many, live records."""

    template = "it would {0} {1} of {2} live records, more than half of them"
    step = "so many were not allowed"
    hint = "expire_all"


class OverDeletionError(InputError):
    """Arguments: slot, ticks, live records."""

    template = "moving the clock {1} ticks to slot {0} would expire all {2} live records"
    step = "expiring all of them was not allowed"
    hint = "expire_all"

    @property
    def facts(self) -> str:
        """Return what was wrong; one record is not all records."""
        return super().facts.replace("all 1 live records", "the only live record")


class ExpiredBatchError(InputError):
    """Arguments: records, slot, its time, records that were refused besides."""

    template = "all {0} records of the batch had expired by the end of its tick, {2} (slot {1})"
    step = "nothing was changed; most probably its expiration times are wrong (their unit, their time zone, a swapped column), or it belongs to an earlier tick: keeping none of it was not allowed"
    hint = "keep_none"

    @property
    def facts(self) -> str:
        """Return what was wrong, and that others were refused."""
        refused = int(self.args[3])
        return super().facts + (f", and {refused} others were refused" if refused else "")


class RetryError(WarehouseError):
    """Nothing is wrong: try again later."""


class LockedError(RetryError):
    """Arguments: what is locked, holder, seconds waited."""

    template = "{0} is being written by {1}; waited {2:g} s"
    step = "try again later"
    hint = "locked"


class NotDueError(RetryError):
    """Arguments: slot, when its tick is over, now."""

    template = "the tick of slot {0} is not over before {1} and it is {2} now"
    step = "try again then"
    hint = "not_due"


class ConflictError(RetryError):
    """Arguments: table, version that was read."""

    template = "another commit was made to table {0} after version {1} was read"
    step = "nothing was changed, try again"


class ErasedError(RetryError):
    """Arguments: table, version, why."""

    template = "version {1} of table {0} was erased while it was read: {2}"
    step = "read the table again"
    hint = "read_again"


class LeaseEndedError(ErasedError):
    """Arguments: table, version, when the lease ended, why."""

    template = "version {1} of table {0} was erased while it was read: the lease on it ended at {2}, because {3}"


class UpgradeError(WarehouseError):
    """Arguments: table, format version found, format version known."""

    template = "table {0} has format version {1} and this Ebb knows {2}"
    step = "install a newer Ebb"

    @property
    def is_older(self) -> bool:
        """Whether the table is older than what this Ebb knows, so that no newer Ebb helps."""
        return int(self.args[1]) < int(self.args[2])

    @property
    def next_step(self) -> str:
        """Return what to do: an older format is not converted."""
        if self.is_older:
            return "create the table again with this Ebb and load it from its source, or read it with the Ebb that wrote it"
        return super().next_step


class FeatureError(UpgradeError):
    """Arguments: table, what it asks to be known (``kind``, ``reader`` or ``writer``), names, version of this Ebb."""

    template = "table {0} {1}, which Ebb {2} does not know"

    @property
    def is_older(self) -> bool:
        """Say no: what is not known is new."""
        return False

    @property
    def facts(self) -> str:
        """Return what is not known; of what only writers must know, that the table can be read."""
        table, what, names, version = self.args
        several = "s" * (len(names) != 1)
        has = f"is of kind {names[0]}" if what == "kind" else f"has {what} feature{several} {', '.join(names)}"
        is_readable = ", so it can be read and not written" if what == "writer" else ""
        return self.template.format(table, has, version) + is_readable


class ForeignCommitError(WarehouseError):
    """Arguments: table, version of the first such commit, its operation, how many came after it."""

    template = "table {0} was changed by another tool: {2} in version {1}"
    step = "adopt what it did, or restore the table from a backup"
    hint: str | None = "adopt"
    others: ClassVar[str] = " and {} more commit"

    @property
    def facts(self) -> str:
        """Return which one it was, and whether there are more."""
        more = self.args[3]
        return super().facts + (f"{self.others.format(more)}{'s' * (more != 1)}" if more else "")


class AdoptionError(ForeignCommitError):
    """Arguments: table, file, what is wrong with it, how many other files do not fit either."""

    template = "what another tool did to table {0} cannot be adopted: {1}: {2}"
    step = "nothing was changed; restore the table from a backup"
    hint = None
    others = ", and {} more file"


class ProtocolError(ForeignCommitError):
    """Arguments: table, reader version, writer version, features."""

    template = "table {0} needs reader {1} and writer {2} of Delta's protocol{3}, and Ebb knows 1 and 2"
    step = "take it back with the tool that raised it, or restore the table from a backup"
    hint = None

    @property
    def facts(self) -> str:
        """Return what was raised."""
        features = ", ".join(self.args[3])
        return self.template.format(*self.args[:3], f" ({features})" if features else "")


class RestoredError(WarehouseError):
    """Arguments: table, version of the backup."""

    template = "table {0} was restored from a backup of version {1}, and nothing is written to it yet"
    step = "adopt it if it goes on in place of the original, or drop it"
    hint = "adopt_copy"


class CorruptionError(WarehouseError):
    """Arguments: what was found, where, next step."""

    template = "{0}: {1}"
    step = "{2}"


class RolledBackError(CorruptionError):
    """Arguments: table, version that the head record names, newest version of the log, what is wrong with the log."""

    template = "the log of table {0} {3}, and version {1} was committed: it was rolled back, truncated or replaced"
    step = "restore the log, or adopt the table as it is"
    hint = "rolled_back"


class LostHeadError(CorruptionError):
    """Arguments: table, what is wrong with its head record."""

    template = "the head record of table {0} {1}, so nothing tells whether its log is whole"
    step = "look whether the newest commit is there, and confirm it"
    hint = "lost_head"


class EngineError(WarehouseError):
    """Arguments: what failed, reason, next step."""

    template = "{0}: {1}"
    step = "{2}"


class InDoubtError(EngineError):
    """Arguments: table, reason."""

    template = "whether the commit to table {0} was made is not known: {1}"
    step = "nothing was deleted, and the next run settles it"


class UnsyncedError(EngineError):
    """Arguments: table, version, reason."""

    template = "commit {1} of table {0} was made, and may not be on the disk yet: {2}"
    step = "check the disk; until a later run succeeds, a power failure may take the commit back"
