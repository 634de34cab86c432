"""A cache of what was used last."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any, Generic, TypeVar

__all__ = ["Recent"]

_Value = TypeVar("_Value")


class Recent(Generic[_Value]):
    """What was used last, up to a limit.  For several threads."""

    def __init__(self, limit: int) -> None:
        self.total, self._limit = 0, limit
        self._found: OrderedDict[Any, tuple[_Value, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: Any) -> _Value | None:
        """Return what is known under a key."""
        with self._lock:
            if key not in self._found:
                return None
            self._found.move_to_end(key)
            return self._found[key][0]

    def put(self, key: Any, value: _Value, weight: int) -> None:
        """Keep a value, and forget those that have not been used for longest."""
        with self._lock:
            self.total += weight - self._found.pop(key, (value, 0))[1]
            self._found[key] = value, weight
            while self.total > self._limit and len(self._found) > 1:
                self.total -= self._found.popitem(last=False)[1][1]
