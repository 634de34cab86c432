"""Was every read of a recorded history a window, and a recent enough one?

The first half judges what one writer and many readers recorded: ``check(updates, reads)``. The clock takes only the
values that updates gave it, so a read is right if the bag of ids that it returned is the window after one of the
updates, and if real time allows that update. Two updates may leave equal windows, so a bag has a set of clocks.

- window: not from an update that began after the read ended, and not older than the newest update that was
  acknowledged before the read began. The second bound is more than window serializability (WS) asks: it is strong
  snapshot isolation, which lies between WS and LWS.
- latest: also not older than the newest update that was acknowledged before the read looked at the log for the last
  time, which is its commit (LWS).

Between the beginning of an update and its acknowledgement nobody knows whether it has happened, and both are allowed.

The second half judges interleavings of single operations as in chapter 7 of the thesis (L. Golab, *Sliding Window
Query Processing over Data Streams*, 2006) and in the report CS-2005-28 before it, where update j replaces the oldest
of n sub-windows in place and a query reads all n one by one. It exists to show that our words mean what theirs do.

Pure: standard library only, no I/O.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from graphlib import CycleError, TopologicalSorter
from itertools import combinations, pairwise
from typing import Literal

__all__ = [
    "Level", "Operation", "Read", "Rule", "Update", "Violation", "aborts", "check", "is_commit_order_preserving",
    "is_conflict_serializable", "is_latest_window_serializable", "is_window_serializable", "parse", "precedence",
    "states_read",
]  # fmt: skip

Level = Literal["window", "latest"]

_MOST_NAMED = 8  # ids or clocks in a reason: enough to see a pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """An acknowledged update. Times are monotonic nanoseconds of one machine."""

    slot: int  # the clock that it set; more than one above the last if it caught up
    began: int  # before the commit was tried
    committed: int  # after it was acknowledged
    admitted: Mapping[int, int] = field(default_factory=dict)  # expiration slot by id; ids are unique in a history


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A finished read."""

    reader: str
    began: int
    checked: int  # just before it looked at the log for the last time
    ended: int
    level: Level
    clock: int | None  # what it claims; None claims nothing, as a table that was never updated has no clock
    ids: tuple[int, ...]  # a bag: the order is free, repetition is not


class Rule(Enum):
    """What a read can break."""

    ONE_WINDOW = "returned no single window"
    CLAIMED_CLOCK = "claimed another clock than that of its window"
    NOT_FROM_THE_FUTURE = "shows an update that had not begun"
    NOT_BEFORE_ITS_BEGINNING = "was older than its own beginning"
    NOT_BEFORE_ITS_COMMIT = "was older than its own commit"


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a read broke, and how one can tell."""

    reader: str
    rule: Rule
    reason: str
    read: Read = field(repr=False)

    def __str__(self) -> str:
        return f"{self.reader} {self.rule.value}: {self.reason}"


def check(updates: Iterable[Update], reads: Iterable[Read]) -> list[Violation]:
    """Return what the reads broke, at most two rules each; an empty list means that all is well.

    Requires one writer: updates that do not overlap. O(updates x window) once, O(updates + ids) per read that is right.

    Raises ValueError if the recording itself cannot be true.

    >>> updates = [
    ...     Update(slot=1, began=10, committed=19, admitted={7: 3, 8: 2}),
    ...     Update(slot=2, began=20, committed=29, admitted={9: 4}),
    ... ]
    >>> mixed = Read(reader="r1", began=15, checked=25, ended=30, level="window", clock=1, ids=(7, 8, 9))
    >>> for violation in check(updates, [mixed]):
    ...     print(violation)
    r1 returned no single window: claims 1; nearest 1, 2; compared with 1: too early 9
    """
    past = _past(updates)
    return [violation for read in reads for violation in _violations(past, read)]


@dataclass(frozen=True, slots=True)
class _Past:
    """All states of the table. State k is the table after k updates, so counting updates gives a state."""

    clocks: tuple[int | None, ...]
    windows: tuple[frozenset[int], ...]
    began: tuple[int, ...]
    committed: tuple[int, ...]
    admitted: Mapping[int, int]  # the first state that a record was part of, by id


def _past(updates: Iterable[Update]) -> _Past:
    ordered = sorted(updates, key=lambda update: update.slot)
    for update in ordered:
        if update.began > update.committed:
            raise ValueError(f"update {update.slot} was committed before it began")
    for earlier, later in pairwise(ordered):
        if earlier.slot == later.slot or earlier.committed > later.began:
            raise ValueError(f"updates {earlier.slot} and {later.slot} overlap; one writer makes them in turn")
    admitted: dict[int, int] = {}
    windows, window = [frozenset[int]()], dict[int, int]()
    for state, update in enumerate(ordered, start=1):
        if again := admitted.keys() & update.admitted.keys():
            raise ValueError(f"update {update.slot} admits {_some(again)} again; ids must be unique")
        admitted |= dict.fromkeys(update.admitted, state)
        window = {id: expires for id, expires in (window | {**update.admitted}).items() if expires > update.slot}
        windows.append(frozenset(window))
    return _Past(
        clocks=(None, *(update.slot for update in ordered)),
        windows=tuple(windows),
        began=tuple(update.began for update in ordered),
        committed=tuple(update.committed for update in ordered),
        admitted=admitted,
    )


def _violations(past: _Past, read: Read) -> list[Violation]:
    if not read.began <= read.checked <= read.ended:
        raise ValueError(f"a read of {read.reader} did not begin, check and end in this order")
    ids = frozenset(read.ids)
    if len(ids) < len(read.ids) or not (states := {k for k, window in enumerate(past.windows) if window == ids}):
        return [Violation(read.reader, Rule.ONE_WINDOW, _comparison(past, read), read)]

    found = []
    if read.clock is not None:
        if claimed := {state for state in states if past.clocks[state] == read.clock}:
            states = claimed
        else:
            reason = f"claims {read.clock}, returned {_clocks(past, states)}"
            found.append(Violation(read.reader, Rule.CLAIMED_CLOCK, reason, read))

    # Equal times tell no order, and are read in favour of the reader.
    newest = bisect_right(past.began, read.ended)
    oldest = bisect_left(past.committed, read.began)
    if min(states) > newest:
        reason = f"shows {_clocks(past, states)}, but {past.clocks[newest + 1]} began after it ended"
        found.append(Violation(read.reader, Rule.NOT_FROM_THE_FUTURE, reason, read))
        return found
    shown = max(state for state in states if state <= newest)
    if shown < oldest:
        reason = f"shows {_clocks(past, {shown})}, but {past.clocks[oldest]} was committed before it began"
        found.append(Violation(read.reader, Rule.NOT_BEFORE_ITS_BEGINNING, reason, read))
    elif read.level == "latest" and shown < (latest := bisect_left(past.committed, read.checked)):
        reason = f"shows {_clocks(past, {shown})}, but {past.clocks[latest]} was committed before its last look"
        found.append(Violation(read.reader, Rule.NOT_BEFORE_ITS_COMMIT, reason, read))
    return found


def _comparison(past: _Past, read: Read) -> str:
    """Say how a bag that is no window differs from the window that it is most like."""
    bag = Counter(read.ids)
    wrong = [len(window) + len(read.ids) - 2 * len(window & bag.keys()) for window in past.windows]
    nearest = {state for state, count in enumerate(wrong) if count == min(wrong)}
    # The claimed clock explains most, if it is as near as any.
    other = max(nearest, key=lambda state: (past.clocks[state] == read.clock, state))
    window, strange = past.windows[other], bag.keys() - past.windows[other]
    differences = {
        "missing": window - bag.keys(),
        "twice": {id for id, count in bag.items() if count > 1},
        "expired": {id for id in strange if past.admitted.get(id, other + 1) <= other},
        "too early": {id for id in strange if past.admitted.get(id, other) > other},
        "never admitted": strange - past.admitted.keys(),
    }
    told = "; ".join(f"{what} {_some(which)}" for what, which in differences.items() if which)
    claim = "claims nothing" if read.clock is None else f"claims {read.clock}"
    return f"{claim}; nearest {_clocks(past, nearest)}; compared with {_clocks(past, {other})}: {told}"


def _clocks(past: _Past, states: Iterable[int]) -> str:
    return _some("the table before any update" if state == 0 else past.clocks[state] for state in sorted(states))


def _some(values: Iterable[object]) -> str:
    """Name the first few values; a set of ids comes in order."""
    listed = sorted(values) if isinstance(values, (set, frozenset)) else list(values)
    more = f" and {len(listed) - _MOST_NAMED} more" if len(listed) > _MOST_NAMED else ""
    return ", ".join(str(value) for value in listed[:_MOST_NAMED]) + more


@dataclass(frozen=True, slots=True)
class Operation:
    """One step of a transaction: update j is called ``"j"``, query k ``"Qk"``."""

    kind: Literal["read", "write", "commit", "abort"]
    transaction: str
    sub_window: int | None = None  # of reads and writes


_KINDS: Mapping[str, Literal["read", "write", "commit", "abort"]] = {
    "r": "read", "w": "write", "c": "commit", "a": "abort",
}  # fmt: skip
# What lies ahead says who does what: queries read, updates write, both commit, and only queries abort.
_OPERATION = re.compile(r"(?=rQ\d+\[|w\d+\[|c\w+$|aQ\d+$)([rwca])(Q?\d+)(?:\[(\d+)\])?")


def parse(text: str) -> tuple[Operation, ...]:
    r"""Read a history as the thesis prints it, or as the report does in TeX.

    >>> parse(r"rQ1[0] w5[0] c5") == parse(r"r_{Q1}[0] \ w_5[0] \ c_5")
    True
    """
    history = []
    for token in re.sub(r"[_{}]", "", text.replace("\\", " ")).split():
        if not (match := _OPERATION.fullmatch(token)):
            raise ValueError(f"{token!r} is no operation; write r, w, c or a, a transaction, and a [sub-window]")
        letter, transaction, sub_window = match.groups()
        history.append(Operation(_KINDS[letter], transaction, int(sub_window) if sub_window else None))
    _sub_windows(history)
    return tuple(history)


def precedence(history: Sequence[Operation]) -> frozenset[tuple[str, str]]:
    """Return the serialization graph: who comes before whom, among those that commit."""
    done = _commits(history).keys()
    return frozenset(
        (first.transaction, second.transaction)
        for first, second in combinations([step for step in history if step.transaction in done], 2)
        if first.sub_window is not None
        and first.sub_window == second.sub_window
        and first.transaction != second.transaction
        and "write" in {first.kind, second.kind}
    )


def is_conflict_serializable(history: Sequence[Operation]) -> bool:
    """Whether the serialization graph has no cycle."""
    graph: dict[str, set[str]] = defaultdict(set)
    for before, after in precedence(history):
        graph[after].add(before)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError:
        return False
    return True


def is_commit_order_preserving(history: Sequence[Operation]) -> bool:
    """Whether transactions that conflict commit in the order of their conflicting operations (CPS)."""
    commits = _commits(history)
    return all(commits[before] < commits[after] for before, after in precedence(history))


def states_read(history: Sequence[Operation]) -> dict[str, int | None]:
    """Return, for each committed query, the update whose window it read, or None if it read a mix.

    The histories leave out the updates that came before their first one. After update m, sub-window i has the content
    of the newest update j <= m with j mod n = i.
    """
    n = _sub_windows(history)
    first = next((int(step.transaction) for step in history if step.kind == "write"), n)
    content = {i: _content(i, first - 1, n) for i in range(n)}
    seen: dict[str, dict[int, int]] = defaultdict(dict)
    states: dict[str, int | None] = {}
    for step in history:
        match step:
            case Operation("write", update, int(i)):
                content[i] = int(update)
            case Operation("read", query, int(i)):
                seen[query][i] = content[i]
            case Operation("commit", query) if query in seen:
                m = max(seen[query].values())
                states[query] = m if all(j == _content(i, m, n) for i, j in seen[query].items()) else None
    return states


def is_window_serializable(history: Sequence[Operation]) -> bool:
    """Whether every committed query read the window of some one moment (WS, definition 7.1)."""
    return None not in states_read(history).values()


def is_latest_window_serializable(history: Sequence[Operation]) -> bool:
    """Whether every committed query read a window with all updates that were committed before it (LWS).

    This is definition 2 of the report. Definition 7.2 of the thesis speaks of the state at the query's commit; they
    differ only in whether an update counts that was written before that commit and committed after it.
    """
    commits = _commits(history)
    return all(
        state is not None
        and all(int(other) <= state for other, at in commits.items() if other.isdecimal() and at < commits[query])
        for query, state in states_read(history).items()
    )


def aborts(history: Sequence[Operation]) -> dict[str, str]:
    """Return the queries that algorithm 7 would abort, each with the update at whose commit it would.

    That is the first one to replace a sub-window that the running query has read.
    """
    aborted: dict[str, str] = {}
    seen: dict[str, set[int]] = defaultdict(set)
    overtaken: dict[str, set[str]] = {}
    for step in history:
        match step:
            case Operation("read", query, int(i)):
                seen[query].add(i)
            case Operation("write", update, int(i)):
                overtaken[update] = {query for query, read in seen.items() if i in read}
            case Operation("commit", update) if update in overtaken:
                for query in overtaken[update] & seen.keys():
                    aborted.setdefault(query, update)
            case Operation("commit" | "abort", query):
                seen.pop(query, None)
    return aborted


def _content(i: int, m: int, n: int) -> int:
    """Return the update that sub-window i has its content from, once update m is done."""
    return m - (m - i) % n


def _commits(history: Sequence[Operation]) -> dict[str, int]:
    """Return when each transaction commits, as a position."""
    return {step.transaction: at for at, step in enumerate(history) if step.kind == "commit"}


def _sub_windows(history: Sequence[Operation]) -> int:
    """Return n, after making sure that the history is one of the kind that the definitions speak of."""
    n = 1 + max((step.sub_window for step in history if step.sub_window is not None), default=0)
    writes = [(int(step.transaction), step.sub_window) for step in history if step.kind == "write"]
    if any(i != j % n for j, i in writes) or any(later != j + 1 for (j, _), (later, _) in pairwise(writes)):
        raise ValueError(f"update j must write sub-window j mod {n}, and the next write must be that of update j+1")
    for query in _commits(history):
        read = [step.sub_window for step in history if step.kind == "read" and step.transaction == query]
        if not query.isdecimal() and Counter(read) != Counter(range(n)):
            raise ValueError(f"{query} must read each of the {n} sub-windows once")
    return n
