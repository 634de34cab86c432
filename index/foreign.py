"""Commits that Ebb did not make: what the log says about them, and the warning of reads that answer all the same.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ebb.index.errors import ForeignCommitError

__all__ = ["ForeignCommit", "ForeignCommitWarning", "refusal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignCommit:
    """A commit of another tool that added or removed files."""

    version: int
    operation: str  # as that tool calls it
    committed: str  # when
    files_added: int
    files_removed: int


class ForeignCommitWarning(UserWarning):
    """A read answers from a table that another tool has written to.  Argument: the error that a writer would get."""


def refusal(table: str, commits: Sequence[ForeignCommit]) -> ForeignCommitError:
    """Return the error for a table with such commits, the oldest first.

    >>> one = ForeignCommit(version=7, operation="DELETE", committed="", files_added=0, files_removed=1)
    >>> refusal("t", [one, one, one]).facts
    'table t was changed by another tool: DELETE in version 7 and 2 more commits'
    """
    return ForeignCommitError(table, commits[0].version, commits[0].operation, len(commits) - 1)
