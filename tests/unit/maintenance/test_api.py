"""Ebb from Python: what comes back is frozen, and nothing needs the command line."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ebb
from ebb import OpenTable, Warehouse
from ebb.index.errors import InputError, UsageError
from ebb.warehouse.settings import Settings
from ebb.warehouse.table.catalog import alter_table
from tests.builders import SCHEMA, integer_table, open_warehouse
from tests.faults import armed, full_disk

TIMES: dict[str, Any] = {"inserted": "inserted", "expires": "expires", "tick": "1", "span": "6"}


@pytest.fixture
def table(tmp_path: Path) -> OpenTable:
    made = integer_table(open_warehouse(tmp_path / "w"))
    made.update(at=1)
    return made


RESULTS: dict[str, Any] = {
    "report": lambda t: t.update(at=2),
    "status": lambda t: t.status(),
    "last update": lambda t: t.status().last_update,
    "commit": lambda t: t.history()[0],
    "explanation": lambda t: t.explain(),
    "quarantine": lambda t: t.quarantine(),
    "seal": lambda t: t.seal(),
    "purge": lambda t: t.purge(),
    "erasure": lambda t: t.erase(),
    "altered": lambda t: t.alter(deletion_bound="9"),
    "declared": lambda t: t.warehouse.declare("u", schema=SCHEMA, key=["key"], **TIMES),
    "dropped": lambda t: t.warehouse.drop("t"),
}


@pytest.mark.parametrize("kind", list(RESULTS))
def test_what_comes_back_cannot_be_changed(table: OpenTable, kind: str) -> None:
    result = RESULTS[kind](table)
    field = dataclasses.fields(result)[0].name

    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(result, field, None)
    assert not hasattr(result, "__dict__"), "a misspelt attribute would be accepted"


def test_a_declared_table_is_not_there_before_it_is_created(tmp_path: Path) -> None:
    warehouse = open_warehouse(tmp_path / "w")

    declared = warehouse.declare("t", schema=SCHEMA, key=["key"], **TIMES)

    assert warehouse.tables() == []
    assert (declared.folder, declared.description.grid) == (tmp_path / "w" / "t", "5x4")
    assert "retire" in declared.reason
    assert warehouse.create_declared(declared).status().grid == "5x4"
    with pytest.raises(ebb.TableExistsError):
        warehouse.declare("t", schema=SCHEMA, key=["key"], **TIMES)


def test_a_table_whose_log_is_damaged_can_be_dropped(table: OpenTable) -> None:
    for entry in table.table.log.glob("*.json"):
        entry.write_text("{", encoding="utf-8")

    assert table.warehouse.drop("t", dry_run=True).live_records is None
    assert table.warehouse.drop("t").files is None
    assert table.warehouse.tables() == []


def test_altering_returns_the_table_before_and_after(table: OpenTable) -> None:
    altered = table.alter(deletion_bound="9", add_column="note STRING")

    assert (altered.before.deletion_bound, altered.after.deletion_bound) == ("4", "9")
    assert [column.name for column in altered.after.columns[len(altered.before.columns) :]] == ["note"]


@pytest.mark.parametrize("strategy", ["rebuild", "norebuild", "retire"])
def test_only_a_table_that_seals_is_said_to_seal_after_the_update(tmp_path: Path, strategy: str) -> None:
    """Under rebuild and norebuild it was said too, although they never seal."""
    made = integer_table(
        open_warehouse(tmp_path / "w"), strategy=strategy, grid="4x4", policy="3x3", deletion_bound="9"
    )
    made.update(at=2)  # the next update ends a run of the group

    assert made.explain().seals_after == (strategy == "retire")
    assert any("seals group" in line for line in made.explain().words) == (strategy == "retire")


def test_a_waiting_time_may_be_given_as_text(table: OpenTable) -> None:
    assert table.seal(wait="1s").files_removed == table.seal(wait=1.0).files_removed == 0
    with pytest.raises(ebb.UsageError, match="duration"):
        table.seal(wait="soon")


# Opening


def _opened(warehouse: Warehouse) -> tuple[str, str | None, dict[str, str]]:
    return str(warehouse.root), warehouse.settings.master, dict(warehouse.settings.conf)


def test_opening_reads_the_environment_and_the_toml_file_as_the_commands_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Warehouse.open read neither."""
    monkeypatch.chdir(tmp_path)
    for name in ("EBB_WAREHOUSE", "EBB_CONFIG", "EBB_MASTER"):
        monkeypatch.delenv(name, raising=False)
    assert _opened(ebb.open()) == ("warehouse-data", None, {})

    Path("ebb.toml").write_text(
        'warehouse = "file"\n[spark]\nmaster = "local[3]"\n[spark.conf]\n"a.b" = 1\n', encoding="utf-8"
    )
    assert _opened(ebb.open()) == _opened(Warehouse.open()) == ("file", "local[3]", {"a.b": "1"})
    monkeypatch.setenv("EBB_WAREHOUSE", "environment")
    monkeypatch.setenv("EBB_MASTER", "local[2]")
    assert _opened(ebb.open()) == ("environment", "local[2]", {"a.b": "1"})
    assert _opened(ebb.open("here")) == _opened(Warehouse.open(Path("here"))) == ("here", "local[2]", {"a.b": "1"})
    assert _opened(ebb.open("here", master="local[1]", conf=["c=d"])) == ("here", "local[1]", {"a.b": "1", "c": "d"})
    assert _opened(Warehouse.open("here", Settings())) == ("here", None, {})


def test_a_wrong_settings_file_is_told_when_a_warehouse_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EBB_CONFIG", str(tmp_path / "none.toml"))

    with pytest.raises(ebb.UsageError, match=r"none\.toml cannot be read"):
        ebb.open()


def test_warehouses_and_tables_say_what_they_are(table: OpenTable) -> None:
    root = str(table.warehouse.root)

    assert repr(table) == f"<Table 't' in {root!r}>"
    assert repr(table.warehouse) == f"<Warehouse {root!r}: t>"
    assert repr(ebb.open(f"{root}/none")) == f"<Warehouse '{root}/none': no tables>"


# Stored properties


def _with_property(table: OpenTable, name: str, value: str | None) -> None:
    """Write another value of a property into the log."""
    entry = table.table.log / f"{0:020}.json"
    actions = [json.loads(line) for line in entry.read_text(encoding="utf-8").splitlines()]
    for action in actions:
        configuration = action.get("metaData", {}).get("configuration", {})
        if value is None:
            configuration.pop(name, None)
        elif configuration:
            configuration[name] = value
    entry.write_text("".join(json.dumps(action) + "\n" for action in actions), encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ebb.formatVersion", "one"), ("ebb.key", "nothing"), ("ebb.key", None), ("ebb.inserted", "key"),
        ("ebb.inserted", "nothing"), ("ebb.expires", "nothing"), ("ebb.tick", "0"), ("ebb.tick", "x"),
        ("ebb.span", "-1"), ("ebb.origin", ""), ("ebb.groups", "ring:0:1"), ("ebb.groups", "ring"),
        ("ebb.cohorts", "circle:4:1"), ("ebb.strategy", "forget"), ("ebb.deletionBound", "soon"),
        ("ebb.readerTime", None), ("ebb.quarantineTime", "1.5"), ("ebb.logRetention", "for ever"),
        ("ebb.kind", None), ("ebb.readerFeatures", None), ("ebb.writerFeatures", None), ("ebb.generation", None),
        ("ebb.generation", "new"), ("ebb.generation", "-1"),
    ],
)  # fmt: skip
def test_a_stored_property_that_is_wrong_is_damage(table: OpenTable, name: str, value: str | None) -> None:
    """It was a ValueError, or a usage error that asked for other options."""
    _with_property(table, name, value)

    with pytest.raises(ebb.CorruptionError, match=r"the properties of table t cannot be understood: .*backup"):
        table.warehouse.table("t").status()


def test_a_table_with_a_bound_that_nobody_would_declare_can_still_be_read(table: OpenTable) -> None:
    """Reading back ran the checks of declaring, and status asked for another bound."""
    _with_property(table, "ebb.deletionBound", "1")

    assert table.warehouse.table("t").status().deletion_bound == "1"
    with pytest.raises(ebb.UsageError, match="deletion bound 2 is shorter"):
        table.alter(deletion_bound="2")


# Altering while the disk fails


def _altered(table: OpenTable) -> tuple[str, list[str]]:
    status = open_warehouse(table.warehouse.root).table("t").status()
    return status.deletion_bound, [column.name for column in status.columns]


def test_an_alter_that_fails_changes_all_or_nothing_and_says_which(tmp_path: Path) -> None:
    """Properties and columns were two commits, every error of the log was called a conflict, and OSError was not caught."""
    before, after = ("4", ["id", "key", "inserted", "expires", "pay"]), ("9", ["id", "key", "inserted", "expires", "pay", "note"])  # fmt: skip
    outcomes = set()
    with armed(tmp_path, full_disk()) as count:
        integer_table(open_warehouse(tmp_path / "w")).alter(deletion_bound="9", add_column="note STRING")
    for step in range(len(count.seen)):
        table = integer_table(open_warehouse(tmp_path / str(step)))
        failed: ebb.WarehouseError | None = None
        try:
            with armed(table.table.folder, full_disk(), at=step):
                table.alter(deletion_bound="9", add_column="note STRING")
        except ebb.WarehouseError as error:
            failed = error
        is_made = failed is None or isinstance(failed, ebb.UnsyncedError)
        assert _altered(table) == (after if is_made else before), (step, failed)
        assert failed is None or "the disk is full" in str(failed)
        outcomes.add(type(failed))
    assert outcomes == {type(None), ebb.EngineError, ebb.UnsyncedError}


def test_an_alter_that_somebody_else_overtook_is_a_conflict_and_changes_nothing(table: OpenTable) -> None:
    snapshot = table.table.snapshot()
    table.update(at=2)

    with pytest.raises(ebb.ConflictError, match="nothing was changed, try again"):
        alter_table(snapshot, {"ebb.deletionBound": "9"}, None, 0)
    assert _altered(table)[0] == "4"


def test_a_probe_that_asks_for_nothing_is_refused(table: OpenTable) -> None:
    for probe in (table.probe, table.at_latest().probe, table.up_to_date().probe):
        with pytest.raises(UsageError, match="without a key asks for nothing; pass keys, or low and high, or a prefix"):
            probe(columns=["id"])
    assert table.probe(low="a").num_rows == 0


def test_a_warehouse_that_is_not_there_is_an_error_when_it_is_read_and_made_by_its_first_table(tmp_path: Path) -> None:
    for warehouse in (ebb.open(tmp_path / "w"), Warehouse.open(tmp_path / "w", Settings(engine="direct"))):
        reads: list[Callable[[], object]] = [
            warehouse.tables,
            lambda: warehouse.table("t"),  # noqa: B023 - called here
            lambda: warehouse.sql("SELECT 1"),  # noqa: B023 - called here
            lambda: warehouse.drop("t"),  # noqa: B023 - called here
            warehouse.run,
        ]
        for read in reads:
            with pytest.raises(
                InputError, match=r"there is no warehouse .*/w; check its name, or create a table"
            ) as told:
                read()
            assert told.value.exit_code == 1

    integer_table(warehouse)

    assert [table.name for table in ebb.open(tmp_path / "w").tables()] == ["t"]
