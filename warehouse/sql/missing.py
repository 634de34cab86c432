"""A query about a table that is not there: what the engines say of it, in our words.  Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ebb.index.errors import UsageError

__all__ = ["missing_table"]

_SAID = re.compile(
    r"Table with name (.+?) does not exist|\[TABLE_OR_VIEW_NOT_FOUND\] The table or view (.+?) cannot be"
)
_LISTED = 20  # tables, by name


def missing_table(said: str, names: Sequence[str]) -> UsageError | None:
    """Return the error if an engine says that a table is missing, with the tables there are; None if it says something else.

    >>> str(missing_table("Table with name visit does not exist!", ["trips", "visits"]))
    'the query cannot be run: there is no table visit; the tables are trips, visits'
    """
    match = _SAID.search(said)
    if match is None:
        return None
    listed = ", ".join(names[:_LISTED]) + " …" * (len(names) > _LISTED)
    msg = f"the query cannot be run: there is no table {(match[1] or match[2]).replace('`', '')}"
    return UsageError(msg, f"the tables are {listed}" if names else "the warehouse has no tables yet")
