"""Work on a table in a process that may not write large files, or not have much memory: ``python -m tests.limits FOLDER KIND SEED ROUNDS``.

Each round takes a copy of a table, tightens the limit, works, and loosens it again. Whatever comes out is ours; the table is then
as it was or as it should be, and goes on.
"""

from __future__ import annotations

import json
import random
import resource
import shutil
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa

from ebb import OpenTable
from ebb.index.errors import EngineError
from tests.builders import ARROW, NOW, integer_table, open_warehouse, scanned_ids

__all__ = ["WORK"]

FILLED = 7
_RECORDS = 120_000  # of the large batch: each has a kilobyte
_KINDS = {"size": resource.RLIMIT_FSIZE, "memory": resource.RLIMIT_AS}
_REASONS = {"size": "a file may not become that large", "memory": "there is not enough memory"}


def batch(slot: int, records: int, pay: int) -> pa.Table:
    rows = range(records)
    columns = [
        [slot * 1_000_000 + n for n in rows],
        [f"k{n % 11}" for n in rows],
        [slot] * records,
        [slot + 1 + n % 5 for n in rows],
        [f"{n:0{pay}}" for n in rows],
    ]
    return pa.table([pa.array(c, t) for c, t in zip(columns, ARROW.types, strict=True)], names=ARROW.names)


def filled(root: Path, *, strategy: str = "norebuild", records: int = 40, pay: int = 200) -> OpenTable:
    table = integer_table(open_warehouse(root), grid="3x3", strategy=strategy, deletion_bound="6", reader_time="1")
    for slot in range(1, FILLED + 1):
        table.update(batch(slot, records, pay), at=slot)
    return table


WORK: dict[str, Callable[[OpenTable, pa.Table], object]] = {
    "update": lambda table, large: table.update(large, at=FILLED + 1),
    "tick": lambda table, _: table.update(at=FILLED + 1),
    "seal": lambda table, _: table.seal(),
    "purge": lambda table, _: table.purge(),
    "erase": lambda table, _: table.erase(),
    "alter": lambda table, _: table.alter(quarantine_time="3"),
    "scan": lambda table, _: table.scan().read_all(),
    "probe": lambda table, _: table.probe(low="k0"),
}


def limited(kind: str, most: int, work: Callable[[], object]) -> str:
    """Do work under a limit; returns what was said."""
    number = _KINDS[kind]
    _, hard = resource.getrlimit(number)
    resource.setrlimit(number, (most, hard))
    try:
        work()
    except EngineError as error:
        if _REASONS[kind] not in str(error):
            raise
        return str(error)
    finally:
        resource.setrlimit(number, (hard, hard))
    return "done"


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()


def _most(kind: str, dice: random.Random) -> int:
    if kind == "size":
        return int(2 ** dice.uniform(0, 18))  # a byte to 256 KiB
    return _address_space() + int(dice.uniform(0, 24)) * 1024 * 1024


def go(folder: Path, kind: str, seed: int, rounds: int) -> dict[str, int]:
    """Do it all; returns how often what happened."""
    dice = random.Random(seed)
    sizes = {"records": 40, "pay": 200} if kind == "size" else {"records": _RECORDS // 10, "pay": 1000}
    strategies = ("rebuild", "norebuild")
    for strategy in strategies:
        filled(folder / strategy, strategy=strategy, **sizes)
    large = batch(FILLED + 1, 300 if kind == "size" else _RECORDS, 1000)
    counts = {"done": 0, "refused": 0}
    for number in range(rounds):
        root, op, strategy = folder / "w", list(WORK)[number % len(WORK)], dice.choice(strategies)
        if kind == "memory" and number % 2 == 0:
            op = "update"  # which takes most of it
        shutil.copytree(folder / strategy, root)
        table = open_warehouse(root).table("t")
        before, version = scanned_ids(table), table.table.snapshot().version
        after_update = sorted([*(i for i in _left(table)), *large["id"].to_pylist()])
        after_tick = sorted(_left(table))
        most = _most(kind, dice)
        said = limited(kind, most, lambda op=op, table=table: WORK[op](table, large))  # type: ignore[misc]
        print(number, op, strategy, most, said, file=sys.stderr)
        counts["done" if said == "done" else "refused"] += 1
        table = open_warehouse(root, NOW + timedelta(days=1)).table("t")
        now = scanned_ids(table)
        named = {file.path for file in table.table.snapshot().files}
        assert named <= set(table.table.data_files()), (op, said)
        fine = {"update": after_update, "tick": after_tick}.get(op, before)
        if said == "done":
            assert now == fine, (op, said)
        else:
            assert now in (before, fine), (op, said)
            if "nothing was changed" in said:
                assert (now, table.table.snapshot().version) == (before, version), (op, said)
        clock = table.table.snapshot().ledger.clock or 0
        table.update(batch(clock + 1, 3, 10), at=clock + 1)
        table.update(at=clock + 2)
        named = {path for entry in table.table.entries(table.table.snapshot().version) for path in entry.added}
        assert {path for path in table.table.data_files() if path not in named} == set(), (op, said)
        shutil.rmtree(root)
    return counts


def _left(table: OpenTable) -> list[int]:
    """Return the records that are left after the next tick."""
    shown = table.scan(columns=["id", "expires"]).read_all()
    return [i for i, end in zip(shown["id"].to_pylist(), shown["expires"].to_pylist(), strict=True) if end > FILLED + 1]


if __name__ == "__main__":
    print(json.dumps(go(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
