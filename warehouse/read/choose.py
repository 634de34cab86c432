"""Where chosen records are: in which files and row groups, and at which places in them.

Keys are found through the directory, as a probe finds them; a condition by reading the row groups whose statistics allow
it, as a scan does. What has expired and is still in a live file is found too, unless only live records are wanted. Of a
record no more is read than decides whether it is chosen.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ebb.index.cellfile import CellFile, Chosen, Places
from ebb.index.columns import EXPIRES_SLOT, INSERTED_SLOT
from ebb.index.keys import Wanted
from ebb.index.predicate.syntax import Predicate
from ebb.index.predicate.typed import names
from ebb.warehouse.parquet.arrow import arrow_schema, conform, moment_of
from ebb.warehouse.parquet.chunks import read_row_groups
from ebb.warehouse.parquet.datafile import DataFile
from ebb.warehouse.read.answer import Answer, portions
from ebb.warehouse.read.mask import mask as predicate_mask
from ebb.warehouse.read.order import wanted_places
from ebb.warehouse.read.pool import in_parallel
from ebb.warehouse.read.request import Read
from ebb.warehouse.read.window import Window

__all__ = ["Choice", "choose", "expiry_slots", "records_at"]

_Work = tuple[CellFile, DataFile, list[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which records are meant: those of keys, those for which a condition holds, or all."""

    wanted: Wanted | None = None
    where: Predicate | None = None
    live_at: int | None = None  # only those that have not expired at this clock
    arrived_by: int | None = None  # only those that were inserted up to this slot
    arrived_after: int | None = None  # only those that were inserted after this slot
    new_expiry: int | None = None  # they are to expire then: only those that do not yet, and when they were inserted


def choose(window: Window, files: Sequence[CellFile], choice: Choice) -> list[Chosen]:
    """Return the chosen records of files of a window's version, file by file; those without any are left out."""
    clock = window.clock
    if clock is None or not files:
        return []
    answer = Answer(window.snapshot, window.finder, Read((), choice.where), clock=clock, as_of=None, cost=window.cost)
    search = _Search(answer, choice, clock)
    found: dict[str, Chosen] = {}
    for part in in_parallel(search.look, search.tasks(window, files)):
        before = found.get(part.file.path)
        found[part.file.path] = part if before is None else _joined(before, part)
    return [chosen for chosen in found.values() if chosen.records]


def _joined(one: Chosen, other: Chosen) -> Chosen:
    times = [time for time in (one.first_inserted, other.first_inserted) if time is not None]
    return Chosen(
        file=one.file,
        places={**one.places, **other.places},
        live=Counter(one.live) + Counter(other.live),
        expired=one.expired + other.expired,
        first_inserted=min(times, default=None),
    )


def expiry_slots(window: Window, file: CellFile) -> dict[int, Any]:
    """Return the expiration slots of all records of a file, row group by row group."""
    data = window.finder.open(file, keep=False, cost=window.cost)
    return {
        number: read_row_groups([(data, [number])], [EXPIRES_SLOT])[EXPIRES_SLOT].to_numpy()
        for number in range(data.row_groups)
    }


def records_at(window: Window, file: CellFile, places: Places, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield some columns of the records at places in a file, and their expiration slots."""
    schema = arrow_schema(window.snapshot.spec.columns)
    schema = pa.schema([schema.field(name) for name in dict.fromkeys([*columns, EXPIRES_SLOT])])
    data = window.finder.open(file, keep=False, cost=window.cost)
    for row_groups in portions(data, sorted(places), window.finder.sizes):
        table = conform(read_row_groups([(data, row_groups)], schema.names), schema)
        starts = itertools.accumulate((data.contents.records[number] for number in row_groups), initial=0)
        wanted = [
            start + np.asarray(places[number], np.int64) for number, start in zip(row_groups, starts, strict=False)
        ]
        yield table.take(pa.array(np.concatenate(wanted)))


class _Search:
    """One choice, looked for in some files."""

    def __init__(self, answer: Answer, choice: Choice, clock: int) -> None:
        self.answer, self.choice, self.clock = answer, choice, clock
        spec = answer.snapshot.spec
        self.spec, self.times = spec, (spec.inserted, spec.expires)
        decides = {*names(choice.where), *(spec.key if choice.wanted is not None else ())}
        decides |= set(self.times) if choice.new_expiry is not None else set()
        self.schema = pa.schema(
            [field for field in answer.schema if field.name in {*decides, INSERTED_SLOT, EXPIRES_SLOT}]
        )

    def tasks(self, window: Window, files: Sequence[CellFile]) -> Iterator[_Work]:
        """Yield the row groups that may hold chosen records, file by file."""
        choice, finder, cost = self.choice, self.answer.finder, self.answer.cost
        if choice.live_at is not None:
            files = [file for file in files if not file.is_dead(choice.live_at)]
        if choice.arrived_by is not None:
            files = [file for file in files if file.min_ins <= choice.arrived_by]
        if choice.arrived_after is not None:
            files = [file for file in files if file.max_ins > choice.arrived_after]
        if choice.wanted is None:
            for file in files:
                data = finder.open(file, keep=False, cost=cost)
                for row_groups in portions(data, self.answer.row_groups(data), finder.sizes):
                    yield file, data, row_groups
            return
        met = finder.find(window.snapshot, files, choice.wanted, cost)
        by_path: dict[str, list[int]] = {}
        for block in finder.filtered(met, files, choice.wanted, cost):
            by_path.setdefault(block.path, []).append(block.row_group)
        for file in files:
            if file.path in by_path:
                data = finder.look_up(file, cost)
                for row_groups in portions(data, sorted(by_path[file.path]), finder.sizes):
                    yield file, data, row_groups

    def look(self, task: _Work) -> Chosen:
        """Return the chosen records of some row groups of a file."""
        file, data, row_groups = task
        table = conform(read_row_groups([(data, row_groups)], self.schema.names), self.schema)
        counts = [data.contents.records[number] for number in row_groups]
        self.answer.cost.count(data=data.column_bytes(row_groups, self.schema.names))
        places = self._places(table, counts)
        slots = table[EXPIRES_SLOT].to_numpy()[places]
        living = Counter(dict(zip(*(part.tolist() for part in np.unique(slots, return_counts=True)), strict=True)))
        live = Counter({slot: count for slot, count in living.items() if slot > self.clock})
        starts = np.concatenate([[0], np.cumsum(counts)])
        cuts = np.searchsorted(places, starts)
        return Chosen(
            file=file,
            places={
                number: (places[low:high] - start).astype(np.int32)
                for number, start, low, high in zip(row_groups, starts, cuts, cuts[1:], strict=False)
                if high > low
            },
            live=live,
            expired=len(places) - live.total(),
            first_inserted=self._first_inserted(table, places),
        )

    def _places(self, table: pa.Table, counts: Sequence[int]) -> Any:
        """Return the places of the chosen records among those of row groups with so many records each."""
        choice = self.choice
        chosen = np.ones(table.num_rows, np.bool_)
        if choice.wanted is not None:
            chosen[:] = False
            chosen[wanted_places(table, self.spec.key, choice.wanted, counts)] = True
        if choice.where is not None:
            holds = predicate_mask(table, choice.where, self.spec.columns)
            chosen &= pc.fill_null(holds, False).to_numpy(zero_copy_only=False)  # noqa: FBT003 - unknown is not chosen
        if choice.live_at is not None:
            chosen &= table[EXPIRES_SLOT].to_numpy() > choice.live_at
        if choice.arrived_by is not None:
            chosen &= table[INSERTED_SLOT].to_numpy() <= choice.arrived_by
        if choice.arrived_after is not None:
            chosen &= table[INSERTED_SLOT].to_numpy() > choice.arrived_after
        if choice.new_expiry is not None:
            expires = table[self.spec.expires]
            chosen &= pc.not_equal(expires, moment_of(choice.new_expiry, expires.type)).to_numpy()
        return np.flatnonzero(chosen)

    def _first_inserted(self, table: pa.Table, places: Any) -> int | None:
        if self.choice.new_expiry is None or not len(places):
            return None
        first = pc.min(table[self.spec.inserted].take(places))
        return int(first.cast(pa.int32() if pa.types.is_date32(first.type) else pa.int64()).cast(pa.int64()).as_py())
