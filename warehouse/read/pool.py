"""Work in parallel, in order, with little of it waiting: the threads that read."""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import TypeVar

__all__ = ["in_parallel", "read_pool"]

_Item = TypeVar("_Item")


_Result = TypeVar("_Result")


@lru_cache(maxsize=1)
def read_pool() -> ThreadPoolExecutor:
    """Return the threads of this process that read."""
    return ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="ebb-read")


os.register_at_fork(after_in_child=read_pool.cache_clear)  # threads stay with the parent


def in_parallel(work: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
    """Yield the results of work in order, with as many items in work as there are threads and one waiting."""
    pool, left = read_pool(), iter(items)
    ahead = deque(pool.submit(work, item) for item in itertools.islice(left, pool._max_workers + 1))
    try:
        while ahead:
            done: Future[_Result] = ahead.popleft()
            result = done.result()
            ahead.extend(pool.submit(work, item) for item in itertools.islice(left, 1))
            yield result
    finally:
        for waiting in ahead:
            waiting.cancel()
