"""What of a table somebody should look after now, or soon: for schedules and monitoring.

Limits are declared by whoever asks; each finding names the value, the limit and what to do. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from ebb.index.errors import UsageError, WarehouseError
from ebb.index.timeline import TimeKind
from ebb.maintenance.inspect.status import Status
from ebb.maintenance.values import age_text, counted, read_seconds

__all__ = ["Limits", "read_limits", "watch"]

_MOST_BEHIND = 150  # commits that are not in the journal: it is brought up to date every 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """From when on something is a finding."""

    within: int = 1  # ticks for which the deletion bound must hold from now on
    ticks_behind: int = 2  # more overdue ticks than these: updates have stalled
    most_refused: float = 0.5  # a greater share of what was received lately is too much in quarantine
    check_every: float | None = None  # seconds since the last check; None: nobody has to check

    def __post_init__(self) -> None:
        if not 0 <= self.most_refused <= 1:
            msg = f"a share of {self.most_refused:g} is not between 0 and 1"
            raise UsageError(msg)


def read_limits(within: int, behind: int, most_refused: float, check_every: str | None) -> Limits:
    """Return limits as a user gives them."""
    every = None if check_every is None else read_seconds(check_every)
    return Limits(within=within, ticks_behind=behind, most_refused=most_refused, check_every=every)


def watch(table: Status, limits: Limits) -> tuple[WarehouseError, ...]:
    """Return the findings about a table: what is wrong with it, and what is beyond the limits."""
    checks = (_bound(table, limits), _stalled(table, limits), _refused(table, limits), _checked(table, limits))
    return (*table.findings, *(found for found in (*checks, _journal(table)) if found is not None))


def _bound(table: Status, limits: Limits) -> WarehouseError | None:
    ticks = table.bound_missed_in_ticks
    if not table.deletion_bound_kept or ticks is None or ticks >= limits.within:
        return None
    facts = (
        f"table {table.name} will miss its deletion bound of {table.deletion_bound} at {table.bound_missed_at}, "
        f"within {counted(limits.within, 'tick')}"
    )
    return WarehouseError(facts, "update it", table.name, hint="bound")


def _stalled(table: Status, limits: Limits) -> WarehouseError | None:
    behind = table.ticks_behind
    if behind is None or behind <= limits.ticks_behind:
        return None
    facts = f"table {table.name} is {counted(behind, 'tick')} behind, and {limits.ticks_behind} are tolerated; its clock is at {table.clock_time}"
    return WarehouseError(facts, "update it, or see why its schedule does not", table.name, hint="stalled")


def _refused(table: Status, limits: Limits) -> WarehouseError | None:
    refused, received = table.recent_quarantined, table.recent_received
    if not received or refused <= limits.most_refused * received:
        return None
    facts = (
        f"of {counted(received, 'record')} that table {table.name} received lately {refused:,} were refused, "
        f"and {limits.most_refused:.0%} are tolerated"
    )
    return WarehouseError(facts, "look at the reasons in its quarantine", table.name, hint="refused")


def _checked(table: Status, limits: Limits) -> WarehouseError | None:
    ago, every = table.checked_seconds_ago, limits.check_every
    if table.check_failed:
        facts = f"the check of table {table.name} at {table.checked} found something"
    elif every is None or (ago is not None and ago <= every):
        return None
    else:
        when = "was never checked" if ago is None else f"was checked last at {table.checked}"
        facts = f"table {table.name} {when}, and is to be every {age_text(TimeKind.TIMESTAMP, int(every * 1_000_000))}"
    return WarehouseError(facts, "check it", table.name, hint="check")


def _journal(table: Status) -> WarehouseError | None:
    behind, lost = table.evidence_behind, table.evidence_lost
    if behind is None or lost is None:
        facts = f"the evidence journal of table {table.name} cannot be read"
    elif lost:
        facts = f"the evidence of {counted(lost, 'commit')} of table {table.name} is lost: their log entries are gone, and they are not in the journal"
    elif behind > _MOST_BEHIND:
        facts = f"the evidence journal of table {table.name} is {counted(behind, 'commit')} behind, and {_MOST_BEHIND} are tolerated"
    else:
        return None
    return WarehouseError(facts, "look for warnings of its updates", table.name, hint="evidence")
