"""What of a batch was applied before, and what is probably wrong with one of which most or all is not kept.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ebb.index.errors import ExpiredBatchError
from ebb.index.timeline import Timeline

__all__ = ["Repeats", "check_arrival", "likely_causes", "repeated_files", "summed", "without"]

T = TypeVar("T")

_A_FEW = 20  # records: a late file with fewer, of which none is kept, is nothing to stop for

_CAUSES = {
    "inserted in the future": "times of updates and names of landed files mean the end of a tick; this one may have been applied a tick too early",
    "lives longer than the span": "the span is too short, or an expiration time is wrong",
    "expires at or before its insertion": "the two time columns may be swapped",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeats:
    """Records that were left out because they were applied before."""

    records: int = 0
    slot: int | None = None  # under which they were; the last one
    files: tuple[str, ...] = ()  # the names of theirs that were
    digests: tuple[str, ...] = ()  # of these files
    is_whole: bool = False  # the batch was applied, split into other files

    def and_files(self, found: Sequence[tuple[str, int | None, str]]) -> Repeats:
        """Return it with files: name, slot and digest."""
        slots = [slot for slot in (self.slot, *(slot for _, slot, _ in found)) if slot is not None]
        digests = (*self.digests, *(digest for _, _, digest in found))
        return Repeats(
            records=sum(map(_records, digests)),
            slot=max(slots, default=None),
            files=(*self.files, *(name for name, _, _ in found)),
            digests=digests,
        )

    def and_all(self, records: int, slot: int) -> Repeats:
        """Return it with all records that are left."""
        last = slot if self.slot is None else max(slot, self.slot)
        return Repeats(records=self.records + records, slot=last, files=self.files, digests=self.digests, is_whole=True)

    def whole(self, rest: str | None) -> str | None:
        """Return the digest of the batch as it came, if files of it were left out and ``rest`` was not."""
        return summed([*self.digests, rest]) if self.digests and rest is not None else None

    def is_everything(self, left: int) -> bool:
        """Whether nothing is left of a batch that had records; ``left``: how many of them are no repeats of files."""
        return self.is_whole or (self.slot is not None and not left)


def _records(digest: str) -> int:
    """Return how many records a digest is of.

    >>> _records("0.0.1f")
    31
    """
    return int(digest.rsplit(".", 1)[-1], 16)


def summed(digests: Sequence[str]) -> str:
    """Return the digest of records that are those of several digests together.

    >>> summed(["ffffffffffffffff.1.2", "1.2.3"])
    '0000000000000000.0000000000000003.5'
    """
    numbers = [[int(part, 16) for part in digest.split(".")] for digest in digests]
    first, second, records = (sum(column) for column in zip(*numbers, strict=True))
    return f"{first % 2**64:016x}.{second % 2**64:016x}.{records:x}"


def repeated_files(digests: Mapping[int, str], slot_of: Callable[[str], int | None]) -> dict[int, int | None]:
    """Return the files of a batch that are left out, each with the slot it was applied under; None: twice in it.

    >>> repeated_files({0: "a", 1: "b", 2: "a"}, {"b": 7}.get)
    {1: 7, 2: None}
    """
    found: dict[int, int | None] = {}
    seen: set[str] = set()
    for number, digest in digests.items():
        slot = slot_of(digest)
        if slot is not None or digest in seen:
            found[number] = slot
        seen.add(digest)
    return found


def without(items: Sequence[T], places: Collection[int]) -> tuple[T, ...]:
    """Return items without those at some places."""
    return tuple(item for place, item in enumerate(items) if place not in places)


def likely_causes(received: int, reasons: Mapping[str, int]) -> Iterator[str]:
    """Yield a warning if most of a batch was refused.

    >>> list(likely_causes(4, {"key k is null": 3}))
    ['3 of 4 records were refused, most often because: key k is null']
    """
    refused = sum(reasons.values())
    if 2 * refused <= received:
        return
    often = max(reasons, key=lambda reason: reasons[reason])
    cause = next((text for start, text in _CAUSES.items() if often.startswith(start)), None)
    yield f"{refused:,} of {received:,} records were refused, most often because: {often}" + (
        f" ({cause})" if cause else ""
    )


def check_arrival(
    admitted: int, expired: int, refused: int, slot: int, timeline: Timeline, *, is_sent_again: bool = False
) -> list[str]:
    """Refuse a batch of more than a few records of which all that are fine had expired when they came.

    They would be counted and not stored, and most probably it is their times that are wrong. If whoever sends it would
    send it again for ever, that is a warning.
    """
    if admitted or expired < _A_FEW:
        return []
    error = ExpiredBatchError(expired, slot, timeline.show_slot(slot), refused)
    if not is_sent_again:
        raise error
    return [f"{error.facts}; none was kept, and most probably their times are wrong"]
