"""Requests to do something to single records: which, who asks, and under which case.

A commit that carries one out says how many records, who asked, under which case, and a hash of what was asked; never a key,
because the log outlives the records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ebb.index.asked import asked_hash
from ebb.index.errors import MassDeletionError, UsageError
from ebb.index.keys import Key
from ebb.index.values import plain
from ebb.warehouse.read.choose import Choice
from ebb.warehouse.read.window import Window
from ebb.warehouse.table.commit import new_id
from ebb.warehouse.table.snapshot import Snapshot

__all__ = ["Ask", "check_share", "check_word"]

_WORD_LETTERS = 100  # of a case and of who asked: the log keeps them


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Which records somebody asks for, who asks, and under which case."""

    keys: tuple[Key, ...] = ()  # leading parts of a key stand for all keys that they lead
    where: str | None = None
    everything: bool = False
    by: str
    case: str | None = None

    def __post_init__(self) -> None:
        if sum([bool(self.keys), self.where is not None, self.everything]) != 1:
            msg = "it takes keys or a condition, one of them"
            raise UsageError(msg, "pass one of them", hint="keys_or_where")
        check_word("actor", self.by)
        if self.case is not None:
            check_word("case", self.case)

    def choice(self, window: Window) -> Choice:
        """Return what is asked for, checked against the table's columns."""
        if self.keys:
            return Choice(wanted=window.wanted(self.keys))
        if self.everything:
            return Choice()
        return Choice(where=window.predicate(self.where))

    def said(self, op: str, **more: Any) -> dict[str, Any]:
        """Return what the commit says of it."""
        which: dict[str, Any] = {"all": True} if self.everything else {"where": self.where}
        keys = {"keys": [[plain(part) for part in key] for key in self.keys]} if self.keys else which
        case = {} if self.case is None else {"case": self.case}
        return {"op": op, **case, "by": self.by, "asked": asked_hash({**keys, **more}, new_id())}


def check_word(what: str, text: str) -> str:
    """Refuse what the log should not keep as the name of a case or of somebody."""
    if not (0 < len(text) <= _WORD_LETTERS and text.isprintable() and text == text.strip()):
        msg = f"{what} {text!r} is not a short text; pass 1 to {_WORD_LETTERS} characters on one line"
        raise UsageError(msg)
    return text


def check_share(what: str, records: int, snapshot: Snapshot, *, is_asked: bool) -> None:
    """Refuse to take more than half of the live records away, unless that was asked for."""
    live = snapshot.ledger.live_records
    if 2 * records > live and not is_asked:
        raise MassDeletionError(what, records, live)
