"""Many readers at once while updates run: every answer is one true window, or an error of ours."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from ebb import JumpError, NotDueError, OpenTable, OverDeletionError, Warehouse
from ebb.index.errors import WarehouseError
from ebb.warehouse.settings import Settings
from tests.builders import arrow_batch, integer_table, open_warehouse, scanned_ids, timestamp_table
from tests.model import Record
from tests.seeds import drawn_seed, rounds

_UPDATES = 12


def _batch(slot: int) -> list[Record]:
    return [Record(slot * 100 + n, f"k{n % 7}", slot, slot + 1 + (slot + n) % 6) for n in range(30)]


def _window(clock: int) -> list[int]:
    return sorted(r.id for slot in range(1, clock + 1) for r in _batch(slot) if (r.expires or 0) > clock)


def test_many_readers_see_true_windows_while_updates_run(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    wish = {"strategy": "retire", "policy": "3x2", "deletion_bound": "9", "reader_time": "4"}
    table = integer_table(open_warehouse(tmp_path / "w"), **wish)
    table.update(arrow_batch(_batch(1)), at=1)
    readers, is_over, told = rounds(20), threading.Event(), Counter[str]()
    start = threading.Barrier(readers + 1)

    def read(number: int) -> None:
        mine, others = open_warehouse(tmp_path / "w").table("t"), number
        start.wait()
        while not is_over.is_set() or not told[f"{number}"]:
            window = mine.at_latest() if number % 2 else open_warehouse(tmp_path / "w").table("t").at_latest()
            try:
                found = sorted(window.scan(columns=["id"]).read_all()["id"].to_pylist())
                few = sorted(window.probe(f"k{others % 7}")["id"].to_pylist())
            except WarehouseError as error:
                if "run the command again" not in str(error):  # it was slower than the grace period
                    raise
                told["refused"] += 1
                continue
            finally:
                told[f"{number}"] += 1
            expected = _window(window.clock or 0)
            assert found == expected
            assert few == [i for i in expected if i % 100 % 7 == others % 7]
            told["answers"] += 1

    with ThreadPoolExecutor(readers) as pool:
        reading = [pool.submit(read, number) for number in range(readers)]
        try:
            start.wait()
            for slot in range(2, _UPDATES + 1):
                table.update(arrow_batch(_batch(slot)), at=slot)
        finally:
            is_over.set()
        for thread in reading:
            thread.result()
    assert scanned_ids(table) == _window(_UPDATES)
    assert told["answers"] >= readers // 2
    record_property("figures", f"readers at once: {readers}, {told['answers']} answers, 0 wrong")


class Wall:
    """A clock on the wall that jumps."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


_JUMPS = {
    "an hour back": timedelta(hours=-1),
    "a day back": timedelta(days=-1),
    "a year on": timedelta(days=365),
    "a year back": timedelta(days=-365),
    "the same instant": timedelta(0),
    "an hour on": timedelta(hours=1),
    "summer time ends": timedelta(minutes=-60, microseconds=1),
    "a bit": timedelta(minutes=7),
}


@pytest.mark.parametrize("catch_up", [False, True])
def test_no_jump_of_the_wall_clock_moves_the_clock_back_or_changes_an_answer(
    tmp_path: Path, record_property: Callable[[str, object], None], *, catch_up: bool
) -> None:
    """A record is live from the update that admits it until its slot has passed, wherever the wall clock has been."""
    dice = random.Random(drawn_seed())
    start = datetime(2026, 10, 25, 0, 0, tzinfo=UTC)  # the day on which Europe puts its clocks back
    wall = Wall(start)
    table: OpenTable = timestamp_table(Warehouse(Settings(warehouse=tmp_path / "w"), now=wall))
    table.update(at=start)
    kept: dict[int, datetime] = {}
    clocks, jumps, count = [table.status().clock or 0], Counter[str](), rounds(20)
    for number in range(count):
        jump = dice.choice(list(_JUMPS))
        wall.now += _JUMPS[jump]
        jumps[jump] += 1
        until = wall.now + timedelta(hours=dice.choice((1, 3, 5)))
        times = pa.timestamp("us", "UTC")
        columns = [pa.array([number]), pa.array([f"k{number}"]), pa.array([wall.now - timedelta(minutes=1)], times), pa.array([until], times)]  # fmt: skip
        batch = pa.table(columns, names=["id", "key", "inserted", "expires"])
        try:
            report = table.update(batch, catch_up=catch_up)
        except (NotDueError, JumpError, OverDeletionError):
            pass
        else:
            if report.admitted:
                kept[number] = until
        line, clock = table.table.snapshot().spec.timeline, table.status().clock or 0
        clocks.append(clock)
        now = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=line.end_of(clock))
        slot_end = {n: -(-(end - now) // timedelta(hours=1)) for n, end in kept.items()}
        assert scanned_ids(table) == sorted(n for n, ticks in slot_end.items() if ticks > 0), (number, jump)
    assert clocks == sorted(clocks)
    record_property("figures", f"wall clock jumps, catch-up {catch_up}: {count}, clock back 0, differences 0")
