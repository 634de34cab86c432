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
        self._items: OrderedDict[Any, tuple[_Value, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: Any) -> bool:
        return key in self._items

    def get(self, key: Any) -> _Value | None:
        """Return what is known under a key."""
        with self._lock:
            if key not in self._items:
                return None
            self._items.move_to_end(key)
            return self._items[key][0]

    def put(self, key: Any, value: _Value, weight: int) -> None:
        """Keep a value, and forget those that have not been used for longest."""
        with self._lock:
            self.total += weight - self._items.pop(key, (value, 0))[1]
            self._items[key] = value, weight
            while self.total > self._limit and len(self._items) > 1:
                self.total -= self._items.popitem(last=False)[1][1]
