"""What a table asks of whoever opens it: its kind, and the features that readers and writers must know.

The format version says how to read these; they say the rest. What changes the meaning of files or answers is a reader
feature, what a writer alone has to keep true is a writer feature. ``KNOWN`` is all that this Ebb knows: whatever adds a
feature to the format adds its name there. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["KNOWN", "Features", "Kind", "names_in"]


class Kind(StrEnum):
    """What a table is."""

    STREAM = "stream"  # batches arrive, and every record expires in its time


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """Features by name, in order: of a table, or those that an Ebb knows."""

    reader: tuple[str, ...] = ()
    writer: tuple[str, ...] = ()

    def new_to_reader(self, known: Features) -> tuple[str, ...]:
        """Return the features that keep somebody who knows others from reading.

        >>> Features(reader=("amends", "pages"), writer=("holds",)).new_to_reader(Features(reader=("pages",)))
        ('amends',)
        """
        return tuple(name for name in self.reader if name not in known.reader)

    def new_to_writer(self, known: Features) -> tuple[str, ...]:
        """Return the features that keep somebody from writing: those that keep him from reading, and more.

        >>> Features(reader=("amends", "pages"), writer=("holds",)).new_to_writer(Features(reader=("pages",)))
        ('amends', 'holds')
        """
        return (*self.new_to_reader(known), *(name for name in self.writer if name not in known.writer))


KNOWN = Features(writer=("holds",))  # held files: nobody may seal, purge or retire them


def names_in(text: str) -> tuple[str, ...]:
    """Return names as a property lists them, in order and once each.

    >>> names_in("pages,holds"), names_in("")
    (('holds', 'pages'), ())
    """
    return tuple(sorted({name.strip() for name in text.split(",")} - {""}))
