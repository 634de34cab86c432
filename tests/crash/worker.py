"""A process to be killed: applies numbered batches to a table, one after the other, and says so after each.

    python -m tests.crash.worker ROOT BATCHES FIRST LAST

Prints ``READY`` once Spark is there, then ``ACK slot applied|already`` per batch, or ``FAILED type: message``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from index.errors import WarehouseError
from maintenance import Warehouse
from tests.builders import NOW
from warehouse.settings import Settings


def say(text: str) -> None:
    """Tell the parent, at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(root: str, batches: str, first: int, last: int) -> int:
    """Apply batches ``first`` to ``last``."""
    settings = Settings(warehouse=Path(root), master="local[2]", conf={"spark.driver.memory": "1g"})
    warehouse = Warehouse(settings, now=lambda: NOW)
    table = warehouse.table("t")
    try:
        warehouse.spark()
        say("READY")
        for slot in range(first, last + 1):
            report = table.update(Path(batches) / f"b{slot}.parquet", at=slot)
            say(f"ACK {slot} {'already' if report.already_applied else 'applied'}")
    except WarehouseError as error:
        say(f"FAILED {type(error).__name__}: {error}")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
