"""A table on a wall clock that a test moves, and the truth about its records: when each was last on the disk."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ebb import Warehouse
from ebb.index.journal import Line
from ebb.warehouse.settings import Settings
from ebb.warehouse.table.journal import whole_journal
from tests.builders import data_files, timestamp_table

__all__ = ["WAYS", "WallTable", "lines_of"]

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
WAYS: dict[str, dict[str, str]] = {
    "retire": {"grid": "3x5", "policy": "3x2", "strategy": "retire", "deletion_bound": "6h"},
    "norebuild": {"grid": "3x3", "strategy": "norebuild", "deletion_bound": "6h"},
    "rebuild": {"grid": "3x3", "strategy": "rebuild", "deletion_bound": "6h"},
}
_SCHEMA = pa.schema(
    [("id", pa.int64()), ("key", pa.string()), ("inserted", pa.timestamp("us", "UTC")), ("expires", pa.timestamp("us", "UTC"))]
)  # fmt: skip


def lines_of(table: Any) -> list[Line]:
    """Return the whole journal of a table: what is on disk, and what will be."""
    snapshot = table.table.snapshot()
    return whole_journal(table.table.evidence, table.table.log, snapshot.version)[0]


class WallTable:
    """A table of hours whose updates come late at times, and what is on its disk after each."""

    def __init__(self, root: Path, dice: random.Random, **wish: Any) -> None:
        self.now, self.dice = START, dice
        self.warehouse = Warehouse(Settings(warehouse=root), now=lambda: self.now)
        self.table = timestamp_table(self.warehouse, **wish)
        self.expires: dict[int, datetime] = {}  # of each record that was admitted: the end of its tick
        self.gone: dict[int, datetime] = {}
        self._ids: dict[str, set[int]] = {}  # in each file
        self._next = 0

    def wait(self, hours: float) -> None:
        """Let time pass, in whole seconds."""
        self.now += timedelta(seconds=round(3600 * hours))

    def update(self) -> None:
        """Bring a batch with lifetimes of all lengths, and apply every tick that is over."""
        end = self.now.replace(minute=0, second=0, microsecond=0)
        rows = []
        for _ in range(self.dice.randrange(5)):
            born, life = end - timedelta(minutes=self.dice.randrange(60)), self.dice.randrange(1, 360)
            expiry = born + timedelta(minutes=life)
            self._next += 1
            rows.append({"id": self._next, "key": f"k{self._next}", "inserted": born, "expires": expiry})
            over = expiry.replace(minute=0, second=0, microsecond=0)
            over += HOUR * (over < expiry)
            if over > end:
                self.expires[self._next] = over
        self.table.update(pa.Table.from_pylist(rows, _SCHEMA) if rows else None, at=end, catch_up=True, yes=True)
        self.look()

    def erase(self) -> None:
        """Erase what may go, outside of an update."""
        self.table.erase()
        self.look()

    def look(self) -> None:
        """Note which records are in no file on disk any more."""
        there: set[int] = set()
        for path in data_files(self.table):
            if path.endswith(".parquet"):
                known = self._ids.get(path)
                if known is None:
                    column = pq.ParquetFile(self.table.table.folder / path).read(columns=["id"])["id"]
                    known = self._ids[path] = set(column.to_pylist())
                there |= known
        for id in self.expires:
            if id not in there and id not in self.gone:
                self.gone[id] = self.now

    @property
    def longest(self) -> timedelta:
        """Return the longest time that a record has been on disk after its expiry."""
        delays = [self.gone.get(id, self.now) - over for id, over in self.expires.items() if over < self.now]
        return max(delays, default=timedelta(0))
