"""The slow truth: a list of records and a filter.

Every policy, strategy, directory and read path must give the answers that this gives. It knows nothing of cells,
files or Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ebb.index.timeline import Timeline

__all__ = ["Model", "Outcome", "Record"]


@dataclass(frozen=True, slots=True)
class Record:
    """One record as a user would hand it over; ``id`` is unique."""

    id: int
    key: str | None
    inserted: int | None
    expires: int | None


@dataclass(slots=True)
class Outcome:
    """What became of a batch."""

    admitted: list[Record] = field(default_factory=list)
    expired_on_arrival: list[Record] = field(default_factory=list)
    quarantined: list[Record] = field(default_factory=list)
    expired: int = 0


@dataclass(slots=True)
class Model:
    """A table as a list."""

    timeline: Timeline
    clock: int | None = None
    kept: list[Record] = field(default_factory=list)
    holds: dict[str, set[int]] = field(default_factory=dict)  # what each case holds, by id
    holding: dict[str, Callable[[Record], bool]] = field(default_factory=dict)  # what it holds of what arrives

    def apply(self, slot: int, batch: Sequence[Record]) -> Outcome:
        """Move the clock to ``slot`` and admit a batch; loading is the same."""
        outcome = Outcome()
        before = self.window()
        for record in batch:
            if self._is_refused(record, slot):
                outcome.quarantined.append(record)
            elif self._slot(record) <= slot:
                outcome.expired_on_arrival.append(record)
            else:
                outcome.admitted.append(record)
        self.clock = slot
        outcome.expired = len(before) - len(self.window())
        self.kept.extend(outcome.admitted)
        for case, is_chosen in self.holding.items():
            self.holds[case] |= {record.id for record in outcome.admitted if is_chosen(record)}
        return outcome

    def window(self) -> list[Record]:
        """Return the records that have not expired."""
        if self.clock is None:
            return []
        return [record for record in self.kept if self._slot(record) > self.clock]

    def forget(self, is_chosen: Callable[[Record], bool]) -> list[Record]:
        """Drop records, whether they have expired or not; return those that had not."""
        gone = [record for record in self.window() if is_chosen(record)]
        self.kept = [record for record in self.kept if not is_chosen(record)]
        return gone

    def amend(self, is_chosen: Callable[[Record], bool], expires: int) -> list[Record]:
        """Let records that have not expired expire at another time; return those for which it is another one."""
        left = {record.id for record in self.window() if is_chosen(record) and record.expires != expires}
        self.kept = [replace(record, expires=expires) if record.id in left else record for record in self.kept]
        return [record for record in self.kept if record.id in left]

    def hold(self, case: str, is_chosen: Callable[[Record], bool], *, arrivals: bool) -> None:
        """Let a case hold what is live, or held by another one, and perhaps what arrives later."""
        there = {record.id for record in self.window()} | self.held()
        self.holds[case] = {record.id for record in self.kept if record.id in there and is_chosen(record)}
        if arrivals:
            self.holding[case] = is_chosen

    def release(self, case: str) -> None:
        """Let a case hold nothing any more."""
        del self.holds[case]
        self.holding.pop(case, None)

    def held(self) -> set[int]:
        """Return the records that some case holds."""
        return {id for ids in self.holds.values() for id in ids}

    def _slot(self, record: Record) -> int:
        assert record.expires is not None
        return self.timeline.slot_of(record.expires)

    def _is_refused(self, record: Record, slot: int) -> bool:
        if record.key is None or record.inserted is None or record.expires is None:
            return True
        if record.expires <= record.inserted or record.expires - record.inserted > self.timeline.span:
            return True
        return self.timeline.slot_of(record.inserted) > slot
