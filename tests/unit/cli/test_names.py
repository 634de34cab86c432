"""Names never form a path outside the warehouse (P26)."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema

from ebb import Warehouse
from ebb.index.errors import UsageError
from tests.seeds import drawn_seed
from tests.unit.cli.command import Command
from tests.unit.cli.conftest import DECLARED

_PARTS = (
    "..", ".", "/", "\\", "a", "b", "t", "~", "%2e%2e", "%2f", "..%2f", " ", "\n", "é", "\u202e", "A", "-",
    "_", "C:", "$HOME", "`id`", "*", "?", "con", "nul", "etc", "passwd", "tmp", "\u2215", "\uff0e\uff0e", "t.quarantine",
    "_delta_log",
)  # fmt: skip


def _listing(folder: Path) -> list[str]:
    return sorted(os.path.join(place, name) for place, folders, names in os.walk(folder) for name in [*folders, *names])


@pytest.mark.parametrize(
    "name", ["../x", "a/b", "A", "", ".", "..", "/etc", "t.quarantine", "_t", "1t", "a" * 64, "ü", "a b", "a\nb", "~"]
)
def test_a_hostile_name_is_refused(ebb: Command, name: str) -> None:
    assert "must start with a letter a-z" in ebb.wrong("create", name, *DECLARED, code=2)
    assert "must start with a letter a-z" in ebb.wrong("scan", "--", name, code=2)


@pytest.mark.parametrize("name", ["../x", "t.quarantine"])
def test_a_hostile_name_is_refused_by_every_command(ebb: Command, name: str) -> None:
    for command in (
        "load",
        "update",
        "scan",
        "changes --since=1",
        "history",
        "explain",
        "quarantine",
        "drop",
        "seal",
        "purge",
        "erase",
    ):
        assert "must start with a letter a-z" in ebb.wrong(*command.split(), "--", name, code=2)
    assert "must start with a letter a-z" in ebb.wrong("probe", "--", name, "key", code=2)
    assert "must start with a letter a-z" in ebb.wrong("alter", "--landing", "x", "--", name, code=2)
    assert "must start with a letter a-z" in ebb.wrong("status", "--", name, code=2)
    assert "must start with a letter a-z" in ebb.wrong("run", "--once", f"--table={name}", code=2)


def test_the_longest_name_is_accepted(ebb: Command) -> None:
    ebb.right("create", "a" * 63, *DECLARED)
    ebb.right("create", "z9_", *DECLARED)

    assert ebb.right("status", "a" * 63, "--json").json["name"] == "a" * 63


def test_five_hundred_traversals_make_nothing_anywhere(
    ebb: Command, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    seed = drawn_seed()
    rng = random.Random(seed)
    before = _listing(tmp_path)
    warehouse = Warehouse.open(ebb.root)
    names = {"".join(rng.choice(_PARTS) for _ in range(rng.randrange(1, 7))) for _ in range(700)}
    hostile = sorted(name for name in names if not re.fullmatch("[a-z][a-z0-9_]{0,62}", name))[:500]
    assert len(hostile) == 500
    wish: dict[str, Any] = {"key": ["key"], "inserted": "inserted", "expires": "expires", "tick": "1", "span": "6"}
    for name in hostile:
        for act in (warehouse.table, warehouse.drop, lambda n: warehouse.create(n, schema=DECLARED[1], **wish)):
            with pytest.raises(UsageError, match="must start with a letter a-z"):
                act(name)
    for name in rng.sample(hostile, 50):
        assert "must start with a letter a-z" in ebb.wrong("create", *DECLARED, "--", name, code=2)

    assert _listing(tmp_path) == before
    record_property("figures", "traversing names: 500, made outside 0")


def test_a_hostile_name_in_a_message_is_escaped(ebb: Command) -> None:
    told = ebb.wrong("scan", "--", "\x1b]0;owned\x07\u202e", code=2)

    assert "\x1b" not in told
    assert "\x07" not in told
    assert "\u202e" not in told


def test_a_folder_that_is_no_table_is_not_listed(ebb: Command) -> None:
    ebb.right("create", "t", *DECLARED)
    (ebb.root / "other").mkdir()
    (ebb.root / "file").write_text("", encoding="utf-8")

    assert [table["name"] for table in ebb.right("status", "--json").json["tables"]] == ["t"]
    assert "there is no table other" in ebb.wrong("scan", "other", code=1)
    assert "exists already" in ebb.wrong("create", "other", *DECLARED, code=1)
    DeltaTable.create(ebb.root / "foreign", Schema.from_arrow(pa.schema([("a", pa.int64())])))
    assert "is a Delta table that Ebb did not make" in ebb.wrong("scan", "foreign", code=1)
    assert "exists already" in ebb.wrong("create", "file", *DECLARED, code=1)
