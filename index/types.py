"""The types that columns can have: one value for each, with everything that differs between them.

Nested types (array, map, struct) are not among them: their columns can be stored and shown, but neither keys nor
predicates look into them. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import lru_cache
from typing import Any

from ebb.index.timeline import TimeKind

__all__ = ["TYPES", "ScalarType", "exact_decimal", "scalar_type"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ScalarType:
    """One type.  ``parse`` reads a value from text; what it raises on other text is not for users."""

    name: str  # Spark's DDL name
    delta: str  # what Delta calls it
    expected: str  # what a user should write
    parse: Callable[[str], Any]
    bits: int = 0  # of an integer type
    digits: int = 0  # of an exact number: how many in all
    scale: int = 0  # and how many of them after the point
    is_floating: bool = False  # whether it can hold NaN and negative zero

    @property
    def is_integer(self) -> bool:
        """Whether its values are integers of a fixed width."""
        return self.bits > 0

    @property
    def is_exact_number(self) -> bool:
        """Whether its values are integers or decimals."""
        return self.digits > 0

    @property
    def limits(self) -> tuple[int, int]:
        """Return the least and the greatest value.  Requires an integer type."""
        return -(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1


def _integer(name: str, delta: str, bits: int, digits: int) -> ScalarType:
    def parse(text: str) -> int:
        number = int(_plain_number(text))
        if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
            raise ValueError(text)
        return number

    return ScalarType(name, delta, f"a {name}", parse, bits=bits, digits=digits)


def _plain_number(text: str) -> str:
    """Refuse what only Python takes for a number."""
    if "_" in text or not text.isascii():
        raise ValueError(text)
    return text


def _float(name: str) -> ScalarType:
    # Adding zero makes negative zero zero.
    return ScalarType(name, name, f"a {name}", lambda text: float(_plain_number(text)) + 0.0, is_floating=True)


def _day(text: str) -> date:
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):  # some versions of Python know more forms
        raise ValueError(text)
    return date.fromisoformat(text)


def _moment(text: str) -> datetime:
    return _EPOCH + timedelta(microseconds=TimeKind.TIMESTAMP.time(text))


def _decimal(precision: int, scale: int) -> ScalarType:
    name = f"decimal({precision},{scale})"

    def parse(text: str) -> Decimal:
        return exact_decimal(Decimal(text), precision, scale)

    return ScalarType(name, name, f"a {name}", parse, digits=precision, scale=scale)


def exact_decimal(number: Decimal, precision: int, scale: int) -> Decimal:
    """Return a number with the digits of a decimal type; Arrow misreads some of many digits, and some end the process.

    Raises InvalidOperation or Inexact if it does not fit.
    """
    if not number.is_finite():
        raise InvalidOperation
    exactly = Context(prec=precision, traps=[InvalidOperation, Inexact])
    return number.quantize(Decimal((0, (1,), -scale)), context=exactly)


TYPES = {
    kind.name: kind
    for kind in (
        ScalarType("string", "string", "a string", str),
        _integer("bigint", "long", 64, 19),
        _integer("int", "integer", 32, 10),
        _integer("smallint", "short", 16, 5),
        _integer("tinyint", "byte", 8, 3),
        _float("float"),
        _float("double"),
        ScalarType(
            "boolean", "boolean", "true or false", lambda text: {"true": True, "false": False}[text.strip().lower()]
        ),
        ScalarType("binary", "binary", "hexadecimal digits", lambda text: bytes.fromhex(text.removeprefix("0x"))),
        ScalarType("date", "date", "like 2013-01-31", _day),
        ScalarType("timestamp", "timestamp", "ISO 8601", _moment),
    )
}  # and decimal(PRECISION,SCALE)


@lru_cache(maxsize=256)
def scalar_type(name: str) -> ScalarType | None:
    """Return the type with this name; None for a nested one.

    >>> scalar_type("decimal(4,2)").parse("1.5"), scalar_type("int").limits[1], scalar_type("array<int>")
    (Decimal('1.50'), 2147483647, None)
    """
    if name.startswith("decimal("):
        precision, scale = name.removeprefix("decimal(").removesuffix(")").split(",")
        return _decimal(int(precision), int(scale))
    return TYPES.get(name)
