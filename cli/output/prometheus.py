"""Metrics in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ebb.maintenance.inspect.metrics import Metric

__all__ = ["exposition"]


def exposition(metrics: Sequence[Metric]) -> str:
    """Return metrics as Prometheus reads them: a name has its help, its type and then all its samples."""
    text: list[str] = []
    for metric in metrics:
        text += [f"# HELP {metric.name} {_escaped(metric.help)}", f"# TYPE {metric.name} gauge"]
        for table, value in metric.samples:
            label = f'{{table="{_escaped(table, quote=True)}"}}' if table is not None else ""
            text.append(f"{metric.name}{label} {_number(value)}")
    return "".join(f"{line}\n" for line in text)


def _escaped(text: str, *, quote: bool = False) -> str:
    r"""Escape what the format does.

    >>> _escaped('a"b\n', quote=True)
    'a\\"b\\n'
    """
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
    return escaped.replace('"', '\\"') if quote else escaped


def _number(value: float) -> str:
    """Write a number so that nothing of it is lost.

    >>> _number(True), _number(1763500000), _number(0.25)
    ('1', '1763500000', '0.25')
    """
    return str(int(value)) if value == int(value) else repr(float(value))
