"""Everything that Ebb prints: aligned text for people, one JSON object for programs.

Values that come from data are escaped before they reach a terminal. Colour and progress are for terminals only.
"""

from __future__ import annotations

import bisect
import json
import math
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ebb.maintenance.values import counted

if TYPE_CHECKING:
    from ebb.maintenance.inspect.status import Status

__all__ = [
    "bytes_text",
    "clear_progress",
    "counted",
    "cut",
    "error",
    "flush",
    "heat_map",
    "is_lost",
    "json_object",
    "json_string",
    "json_text",
    "lines",
    "note",
    "pairs",
    "progress",
    "table_text",
    "terminal_columns",
    "visible",
    "warning",
    "width",
]

_JSON = json.JSONEncoder(ensure_ascii=False, default=str)
_CONTROL = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)  # and halves of characters
_SHADES = " ░▒▓█"
_USUAL_COLUMNS = 120
_lost: list[OSError] = []  # why something could not be printed


def visible(value: object) -> str:
    """Return a value as text in which control characters are shown instead of obeyed."""
    text = "" if value is None else str(value)
    return _CONTROL.sub(
        lambda match: f"\\x{ord(match[0]):02x}" if ord(match[0]) < 256 else f"\\u{ord(match[0]):04x}", text
    )


def lines(text: Sequence[str]) -> None:
    """Print lines."""
    with _told_if_unwritable():
        sys.stdout.write("\n".join(text) + "\n")


def json_object(value: Any) -> None:
    """Print one JSON object."""
    with _told_if_unwritable():
        sys.stdout.write(json_text(value) + "\n")


def flush() -> None:
    """Hand on everything that was printed."""
    with _told_if_unwritable():
        sys.stdout.flush()


@contextmanager
def _told_if_unwritable() -> Iterator[None]:
    """Say once that standard output takes no more, and go on: what is being done does not depend on who is told.

    Whoever reads no further from a pipe has got what he wanted.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as problem:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for the rest, which Python tries once more when it ends
        _lost.append(problem)
        error(f"the answer cannot be written: {problem.strerror or problem}; redirect standard output elsewhere")


def is_lost() -> bool:
    """Whether anything could not be printed; forgets it."""
    was_lost = bool(_lost)
    _lost.clear()
    return was_lost


def json_text(value: Any) -> str:
    """Return a value as one line of JSON in which control characters are escaped; what JSON has no number for is text."""
    return _escaped(_JSON.encode(_finite(value)))


def json_string(text: str) -> str:
    """Return what :func:`json_text` returns for a text, in half the time."""
    return _escaped(json.encoder.encode_basestring(text))


def _escaped(text: str) -> str:
    # To ask first takes a fraction of the time of a search. Of ASCII, JSON itself leaves only DEL.
    is_clean = "\x7f" not in text if text.isascii() else text.isprintable()
    return text if is_clean else _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def note(text: str) -> None:
    """Print a remark that is not part of the answer."""
    sys.stderr.write(text + "\n")


def error(text: str) -> None:
    """Print one line on what went wrong."""
    clear_progress()
    note(f"ebb: {visible(text)}")


def warning(text: str) -> None:
    """Print one line on what the answer may suffer from."""
    error(f"warning: {text}")


def progress(text: str) -> None:
    """Show what is being done, on a terminal only; the next line replaces it."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[2K\x1b[2m{text} …\x1b[0m")
        sys.stderr.flush()


def clear_progress() -> None:
    """Take the last progress line away."""
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[2K")
        sys.stderr.flush()


def bytes_text(count: float) -> str:
    """Return a number of bytes for people.

    >>> bytes_text(999), bytes_text(14_003_158)
    ('999 B', '14.0 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def width(text: str) -> int:
    """Return how many places a text takes on a terminal: wide characters and emoji take two.

    >>> width("ebb"), width("潮")
    (3, 2)
    """
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # most texts do without

    return cell_len(text)


def cut(text: str, most: int) -> str:
    """Return a text that takes at most so many places; an ellipsis says that there is more.

    >>> cut("ebb and flow", 8), cut("ebb", 3)
    ('ebb and…', 'ebb')
    """
    if width(text) <= most:
        return text
    fitting = bisect.bisect_left(range(len(text)), most, key=lambda length: width(text[:length]))
    return f"{text[: fitting - 1]}…"


def table_text(rows: Sequence[Sequence[object]], header: Sequence[str], *, right: Sequence[int] = ()) -> list[str]:
    """Return rows as aligned columns; ``right`` names the columns that hold numbers."""
    cells = [[visible(cell) for cell in row] for row in rows]
    names = [visible(name) for name in header]
    widths = [max(width(row[i]) for row in [names, *cells]) for i in range(len(names))]

    def line(row: Sequence[str]) -> str:
        blanks = (" " * (most - width(text)) for text, most in zip(row, widths, strict=True))
        padded = (
            blank + text if i in right else text + blank
            for i, (text, blank) in enumerate(zip(row, blanks, strict=True))
        )
        return "  ".join(padded).rstrip()

    return [line(names), "  ".join("─" * most for most in widths), *(line(row) for row in cells)]


def pairs(values: Mapping[str, object]) -> list[str]:
    """Return names and values, one a line, aligned."""
    width = max(len(name) for name in values)
    return [f"{name.ljust(width)}  {visible(value)}" for name, value in values.items()]


def heat_map(status: Status, measure: str = "records") -> list[str]:
    """Return the grid as a heat map: groups down, cohorts across, the darkest cell holds the most."""
    groups, cohorts = (int(part) for part in status.grid.split("x"))
    values = {(cell.group, cell.cohort): getattr(cell, measure) for cell in status.cells}
    most = max(values.values(), default=0)
    width = max([5, *(len(_short(v)) + 1 for v in values.values())])
    next_cohort, filling = status.next_cohort, status.filling_group
    shown = range(min(cohorts, max(4, (terminal_columns() - 12) // (width + 1))))
    head = "".join(f" {('e' + str(e)).rjust(width)}" for e in shown) + (" …" if len(shown) < cohorts else "")
    rows = [f"  {measure:>8} {head}"]
    for group in range(groups):
        cells = ""
        for cohort in shown:
            value = values.get((group, cohort), 0)
            shade = _SHADES[min(4, -(-4 * value // most))] if value else " "
            text = _short(value) if value else "·"
            cells += " " + _shaded(text.rjust(width - 1) + shade, value / most if most else 0)
        rows.append(f"  {('g' + str(group)).rjust(8)} {cells}{'  ← filling' if group == filling else ''}".rstrip())
    if next_cohort is not None and next_cohort in shown:
        rows.append(f"  {'':8} {' ' * ((width + 1) * next_cohort + width)}↑ goes next")
    return rows


def terminal_columns() -> int:
    """Return how wide the terminal is; some do not know."""
    try:
        return os.get_terminal_size().columns or _USUAL_COLUMNS
    except OSError:
        return _USUAL_COLUMNS


def _short(value: int) -> str:
    for limit, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if value >= limit:
            return f"{value / limit:.1f}{unit}"
    return str(value)


def _shaded(text: str, share: float) -> str:
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or not share:
        return text
    shade = (17, 18, 19, 20, 26, 32)[min(5, int(share * 6))]
    return f"\x1b[48;5;{shade}m\x1b[97m{text}\x1b[0m"
