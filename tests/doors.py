"""Everything that a user can do with a table, as one function each: the doors through which errors come.

``python -m tests.doors COPY ROOT files N`` goes through those of ROOT with N more files than it has open by then, and
``forbidden`` as a user who owns none of it. Those of COPY come first, so that everything is imported.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path

from ebb import OpenTable
from ebb.index.errors import WarehouseError
from ebb.warehouse.table.snapshot import Table
from tests.builders import integer_table, open_warehouse, refused_records
from tests.direct import apply

__all__ = ["DOORS", "make_table", "open_table"]

DOORS: dict[str, Callable[[OpenTable], object]] = {
    "find": lambda table: table.warehouse.table("t"),
    "status": lambda table: table.status(),
    "history": lambda table: table.history(),
    "scan": lambda table: table.scan().read_all(),
    "scan where": lambda table: table.scan(where="id > 3").read_all(),
    "scan latest": lambda table: table.up_to_date().scan().read_all(),
    "changes": lambda table: table.changes("start", expiries=True).reader().read_all(),
    "probe": lambda table: table.probe("k1", "k3"),
    "sql": lambda table: table.warehouse.sql("select key, count(*) from t group by key").read_all(),
    "quarantine": lambda table: refused_records(table.table),
    "update": lambda table: table.update(),
    "seal": lambda table: table.seal(),
    "purge": lambda table: table.purge(),
    "erase": lambda table: table.erase(),
    "backup": lambda table: table.backup(table.table.root.with_name(f"{table.table.root.name}.backups")),
    "tables": lambda table: table.warehouse.tables(),
    "drop": lambda table: table.warehouse.drop("t"),
}


def open_table(root: Path) -> OpenTable:
    """Return the table of :func:`make_table`, known to nobody yet."""
    return OpenTable(open_warehouse(root), Table(root, "t"))


def make_table(root: Path) -> None:
    """Make a table with some updates, records in quarantine, and something to do for each door."""
    table = integer_table(open_warehouse(root), grid="2x4", policy="2x2", strategy="retire")
    for slot in range(1, 4):
        good = [
            {"id": 10 * slot + n, "key": f"k{n}", "inserted": slot, "expires": slot + 1 + n, "pay": "p" * 99}
            for n in range(5)
        ]
        apply(table, slot, [*good, {"id": 0, "key": None, "inserted": slot, "expires": slot + 1, "pay": ""}])


def _go_through(root: Path) -> dict[str, str]:
    """Return what each door says."""
    answers = {}
    for name, door in DOORS.items():
        try:
            door(open_table(root))
            answers[name] = "done"
        except WarehouseError as error:
            answers[name] = str(error)
        except BaseException as error:
            answers[name] = f"FOREIGN {type(error).__name__}: {error}"
    return answers


def _allow_files(extra: int) -> None:
    already = len(os.listdir("/proc/self/fd")) - 1  # without the one that lists them
    resource.setrlimit(resource.RLIMIT_NOFILE, (already + extra, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def _become_nobody() -> None:
    if os.geteuid() == 0:  # whom nothing is forbidden
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)


if __name__ == "__main__":
    _go_through(Path(sys.argv[1]))
    if sys.argv[3] == "files":
        _allow_files(int(sys.argv[4]))
    else:
        _become_nobody()
    print(json.dumps(_go_through(Path(sys.argv[2]))))
