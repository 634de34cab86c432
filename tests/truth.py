"""The slow truth of --where: one predicate, one record, three answers.

It walks the predicate for every record and compares Python values, so it knows nothing of Arrow, SQL or statistics.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from typing import Any

from ebb.index.predicate.syntax import And, Compare, In, IsNull, Like, Literal, Name, Not, Operand, Or, Predicate

__all__ = ["Value", "compare", "matches", "truth"]

Value = Callable[[Literal, str], Any]  # gives a literal the type of a column


def truth(predicate: Predicate, record: Mapping[str, Any], value: Value) -> bool | None:
    """Return whether a record matches; None if that is unknown."""

    def side(operand: Operand, other: Operand) -> Any:
        if isinstance(operand, Name):
            return record[operand.name]
        assert isinstance(other, Name)
        return value(operand, other.name)

    match predicate:
        case Not(inner):
            answer = truth(inner, record, value)
            return None if answer is None else not answer
        case And(left, right):
            answers = {truth(left, record, value), truth(right, record, value)}
            return False if False in answers else None if None in answers else True
        case Or(left, right):
            answers = {truth(left, record, value), truth(right, record, value)}
            return True if True in answers else None if None in answers else False
        case IsNull(name):
            return record[name.name] is None
        case In(name, literals):
            found = record[name.name]
            return None if found is None else any(compare(found, "=", value(v, name.name)) for v in literals)
        case Like(name, pattern, escape):
            found = record[name.name]
            return None if found is None else matches(found, pattern, escape)
        case Compare(left, sign, right):
            first, second = side(left, right), side(right, left)
            return None if first is None or second is None else compare(first, sign, second)


def matches(text: str, pattern: str, escape: str | None) -> bool:
    """Whether a text matches a pattern, character by character: ``places`` is how much of the text may be matched so far."""
    places = {0}
    signs = iter(pattern)
    for sign in signs:
        if sign == "%" and sign != escape:
            places = set(range(min(places), len(text) + 1)) if places else places
        elif sign == "_" and sign != escape:
            places = {place + 1 for place in places if place < len(text)}
        else:
            wanted = next(signs) if sign == escape else sign
            places = {place + 1 for place in places if text[place : place + 1] == wanted}
    return len(text) in places


def compare(left: Any, sign: str, right: Any) -> bool:
    """Compare two values: NaN equals NaN and is the greatest number, beside a float all numbers are floats."""
    match left, right:
        case (float(), _) | (_, float()):
            left, right = ((math.isnan(float(side)), 0 if math.isnan(side) else float(side)) for side in (left, right))
        case (str(), bytes()) | (bytes(), str()) | (str(), str()):
            left, right = (side.encode() if isinstance(side, str) else side for side in (left, right))
        case date(), date():
            left, right = (_moment(side) for side in (left, right))
    return {
        "=": left == right,
        "!=": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[sign]


def _moment(day: date) -> datetime:
    return day if isinstance(day, datetime) else datetime.combine(day, time(), UTC)
