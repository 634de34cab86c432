"""Ages for people.  Pure."""

from __future__ import annotations

from ebb.index.timeline import TimeKind

__all__ = ["age_text"]


def age_text(kind: TimeKind, age: int) -> str:
    """Return an age without fractions of a second, in at most two units."""
    if kind is not TimeKind.TIMESTAMP:
        return kind.show_duration(age)
    seconds = age // 1_000_000
    for size, unit, smaller, rest in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if seconds >= size:
            return f"{seconds // size}{unit} {seconds % size // smaller}{rest}"
    return f"{seconds}s"
