"""A process to be killed: applies the batches it is told to, one after the other, and says so after each.

    python -m tests.crash.worker ROOT BATCHES

Reads slots from standard input, a line each. Prints ``READY`` once Spark is there, then ``ACK slot applied|already``
or ``FAILED type: message`` per slot, and lives on: after a failure it can be asked again.
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


def main(root: str, batches: str) -> None:
    """Apply batches until standard input ends."""
    settings = Settings(warehouse=Path(root), master="local[2]", conf={"spark.driver.memory": "1g"})
    warehouse = Warehouse(settings, now=lambda: NOW)
    table = warehouse.table("t")
    warehouse.spark(work_bytes=0)
    say("READY")
    for line in sys.stdin:
        slot = int(line)
        try:
            report = table.update(Path(batches) / f"b{slot}.parquet", at=slot)
        except WarehouseError as error:
            say(f"FAILED {type(error).__name__}: {error}")
        else:
            say(f"ACK {slot} {'already' if report.already_applied else 'applied'}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
