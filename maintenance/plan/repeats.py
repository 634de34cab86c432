"""What of a batch was applied before, and what is probably wrong with one of which most is refused.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

__all__ = ["Repeats", "likely_causes", "repeated_files", "without"]

T = TypeVar("T")

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
    files: Mapping[str, int | None] = field(default_factory=dict)  # their slots; None: twice in one batch
    is_whole: bool = False  # the batch was applied, split into other files

    def and_files(self, found: Mapping[str, tuple[int | None, str]]) -> Repeats:
        """Return it with files: name -> slot and digest."""
        slots = [slot for slot in (self.slot, *(slot for slot, _ in found.values())) if slot is not None]
        return Repeats(
            records=self.records + sum(_records(digest) for _, digest in found.values()),
            slot=max(slots, default=None),
            files={**self.files, **{name: slot for name, (slot, _) in found.items()}},
        )

    def and_all(self, records: int, slot: int) -> Repeats:
        """Return it with all records that are left."""
        last = slot if self.slot is None else max(slot, self.slot)
        return Repeats(records=self.records + records, slot=last, files=self.files, is_whole=True)

    def is_everything(self, left: int) -> bool:
        """Whether nothing is left of a batch that had records; ``left``: how many of them are no repeats of files."""
        return self.is_whole or (self.slot is not None and not left)


def _records(digest: str) -> int:
    """Return how many records a digest is of.

    >>> _records("0.0.1f")
    31
    """
    return int(digest.rsplit(".", 1)[-1], 16)


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
