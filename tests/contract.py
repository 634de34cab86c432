"""Tables as another Ebb would leave them: other properties in a commit of its own, or another layout generation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ebb import OpenTable, Warehouse
from ebb.warehouse.table.commit import append, new_id
from ebb.warehouse.table.log import commit_action
from tests.builders import SCHEMA

__all__ = ["declared_by_newer", "table_of_generation"]


def declared_by_newer(table: OpenTable, properties: Mapping[str, str]) -> None:
    """Change properties by hand, in a metadata commit as Ebb makes it."""
    snapshot = table.table.snapshot()
    id, clock, state = new_id(), snapshot.ledger.clock, snapshot.state
    ledger = {"state": None if state is None else [state.version, state.name], "clock": clock}
    metadata = {**snapshot.metadata, "configuration": {**snapshot.metadata["configuration"], **properties}}
    said = commit_action("alter", {"id": id, "op": "alter", "slot": clock, "ledger": ledger}, 0)
    clocked = [] if clock is None else [{"txn": {"appId": "ebb", "version": clock}}]
    actions = [said, {"metaData": metadata}, *clocked]
    append(table.table.log, snapshot.version + 1, actions, id=id, table=table.name, disk=table.table.disk)


def table_of_generation(warehouse: Warehouse, generation: int, name: str = "t", **wish: Any) -> OpenTable:
    """Create a table with integer times whose files belong to a generation."""
    declaration: dict[str, Any] = {
        "key": ["key"], "inserted": "inserted", "expires": "expires", "tick": "1", "span": "6", "schema": SCHEMA,
    }  # fmt: skip
    declared = warehouse.declare(name, **(declaration | wish))
    grid = replace(declared.spec.grid, generation=generation)
    return warehouse.create_declared(replace(declared, spec=replace(declared.spec, grid=grid)))
