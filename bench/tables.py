"""What the reports share: tables in Markdown, where a run was measured, and verdicts on what was to be reached."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Bar", "markdown", "measured_on", "verdicts"]

_MACHINE = ("kind", "date", "commit", "python", "cores", "memory_gb")  # the others are packages
_COMPARISONS = {"≤": operator.le, "≥": operator.ge, "<": operator.lt}
_REACHED = "reached"
_ONE_PERCENT = 1.01


@dataclass(frozen=True, slots=True)
class Bar:
    """A figure that was to be reached: what was measured, the result in words, its value, the comparison, the bar."""

    name: str
    result: str
    value: float
    sign: str
    bar: float

    @property
    def verdict(self) -> str:
        """Say whether it was reached."""
        if _COMPARISONS[self.sign](self.value, self.bar):
            return _REACHED
        missed = max(self.value / self.bar, self.bar / self.value)
        return f"missed by {missed:.2f}×" if missed >= _ONE_PERCENT else "missed by less than 1 %"


def markdown(header: list[str], lines: list[list[str]]) -> list[str]:
    """Return a table."""
    return ["| " + " | ".join(line) + " |" for line in [header, ["---"] * len(header), *lines]]


def measured_on(machine: Mapping[str, Any]) -> str:
    """Return where and with what a run was measured."""
    packages = [f"{name} {version}" for name, version in machine.items() if name not in _MACHINE]
    place = f"{machine['cores']} cores, {machine['memory_gb']} GB, {machine['date']}, commit {machine['commit']}"
    return f"{place}; {', '.join(packages)}."


def verdicts(bars: Iterable[Bar], reasons: Mapping[str, str]) -> list[str]:
    """Return a table of bars with a verdict beside each, and the reasons for those missed, by how their names start."""
    lines, missed = [], []
    for bar in bars:
        lines.append([bar.name, bar.result, f"{bar.sign} {bar.bar:g}", bar.verdict])
        if bar.verdict != _REACHED:
            missed.append(bar.name)
    why = [f"- {start}: {text}" for start, text in reasons.items() if any(name.startswith(start) for name in missed)]
    return [
        *markdown(["measurement", "result", "bar", "verdict"], lines),
        *(["", "Why bars were missed:", "", *why] if why else []),
        "",
    ]
