"""Kinds, features and generations on real tables: who may read, who may write, and that no layout is mistaken for another."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import ebb
from ebb import OpenTable, Warehouse
from ebb.index.grid import Cell
from ebb.maintenance.landing.run import Outcome
from ebb.warehouse.parquet.writer import Written
from ebb.warehouse.settings import Settings
from tests.builders import NOW, arrow_batch, integer_table, open_warehouse, scanned_ids, write_batch
from tests.contract import declared_by_newer, table_of_generation
from tests.filestore import cell_file
from tests.foreign import READS, WAYS, WRITES, append, delta, filled, fresh, ids, set_properties
from tests.model import Model, Record
from tests.unit.cli.command import Command, state_of

EVERY_READ: dict[str, Callable[[OpenTable], object]] = READS | {
    "status": lambda t: t.status(),
    "history": lambda t: t.history(),
    "explain": lambda t: t.explain(),
    "quarantine": lambda t: t.quarantine(),
}
EVERY_WRITE: dict[str, Callable[[OpenTable], object]] = WRITES | {
    "adopt": lambda t: t.adopt(),
    "adopt for trial": lambda t: t.adopt(dry_run=True),
    "clear": lambda t: t.clear_quarantine(),
    "drop": lambda t: t.warehouse.drop("t"),
}
# As the command line is asked for the same.
COMMANDS = {
    "read": (
        ("scan", "t"), ("probe", "t", "k1"), ("sql", "SELECT * FROM t"), ("explain", "t", "--sql"), ("history", "t"), ("status", "t"),
    ),
    "write": (
        ("update", "t", "--at", "5"), ("alter", "t", "--deletion-bound", "9"), ("seal", "t"), ("purge", "t"), ("erase", "t"),
        ("adopt", "t"), ("drop", "t", "--yes"), ("quarantine", "t", "--clear"),
    ),
}  # fmt: skip
EBB = version("ebb")


@pytest.fixture
def table(tmp_path: Path) -> OpenTable:
    return integer_table(open_warehouse(tmp_path / "w"), reader_time="1", **WAYS["retire"])


@pytest.fixture
def model(table: OpenTable) -> Model:
    return filled(table)


# Kinds and reader features


STRANGE = {
    "kind": ({"ebb.kind": "view"}, f"table t is of kind view, which Ebb {EBB} does not know; install a newer Ebb"),
    "feature": (
        {"ebb.readerFeatures": "amends"},
        f"table t has reader feature amends, which Ebb {EBB} does not know; install a newer Ebb",
    ),
    "features": (
        {"ebb.readerFeatures": "amends,pages", "ebb.writerFeatures": "keeps"},
        f"table t has reader features amends, pages, which Ebb {EBB} does not know; install a newer Ebb",
    ),
}


@pytest.mark.parametrize("what", sorted(STRANGE))
def test_what_nobody_here_can_read_is_refused_by_everybody(table: OpenTable, model: Model, what: str) -> None:
    properties, text = STRANGE[what]
    declared_by_newer(table, properties)
    before = state_of(table.table.root)

    for work in (*EVERY_READ.values(), *EVERY_WRITE.values()):
        for opened in (table, fresh(table)):
            with pytest.raises(ebb.FeatureError, match=f"^{re.escape(text)}$"):
                work(opened)

    assert state_of(table.table.root) == before


@pytest.mark.parametrize("what", sorted(STRANGE))
def test_a_command_says_what_to_install_in_one_line(
    table: OpenTable, model: Model, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    properties, text = STRANGE[what]
    declared_by_newer(table, properties)
    command = Command(table.table.root, capsys)

    for arguments in (*COMMANDS["read"], *COMMANDS["write"]):
        assert command.wrong(*arguments, code=1) == text


def test_status_shows_the_other_tables_and_a_sentence_about_the_one_that_is_too_new(
    table: OpenTable, model: Model, capsys: pytest.CaptureFixture[str]
) -> None:
    integer_table(table.warehouse, "other")
    properties, text = STRANGE["feature"]
    declared_by_newer(table, properties)
    command = Command(table.table.root, capsys)

    told, as_json = command("status"), command("status", "--json")

    assert (told.code, told.err) == (1, f"ebb: {text}\n")
    assert "other" in told.out
    assert as_json.json["tables"][1] == {"name": "t", "error": text}
    assert as_json.json["tables"][0]["kind"] == "stream"


def test_sql_answers_about_the_other_tables(table: OpenTable, model: Model) -> None:
    filled(integer_table(table.warehouse, "other"))
    declared_by_newer(table, {"ebb.readerFeatures": "amends"})

    assert table.warehouse.sql("SELECT count(*) AS n FROM other").read_all()["n"].to_pylist() == [len(model.window())]
    shown = table.warehouse.sql("SHOW TABLES").read_all().column(0).to_pylist()
    assert "other" in shown
    assert "t" not in shown
    with pytest.raises(ebb.FeatureError, match="reader feature amends"):
        table.warehouse.sql("SELECT * FROM other, t")


# Writer features


KEEPS = f"table t has writer features keeps, leases, which Ebb {EBB} does not know, so it can be read and not written; install a newer Ebb"


@pytest.fixture
def held(table: OpenTable, model: Model) -> OpenTable:
    """Return a table that a newer Ebb has given features for writers."""
    declared_by_newer(table, {"ebb.writerFeatures": "leases,keeps"})
    return table


@pytest.mark.parametrize("read", sorted(EVERY_READ))
def test_readers_go_on_if_only_writers_must_know_more(held: OpenTable, model: Model, read: str) -> None:
    for opened in (held, fresh(held)):
        EVERY_READ[read](opened)
        assert scanned_ids(opened) == ids(model)


@pytest.mark.parametrize("write", sorted(EVERY_WRITE))
def test_writers_stop_before_they_change_anything(held: OpenTable, write: str) -> None:
    before = state_of(held.table.root)

    for opened in (held, fresh(held)):
        with pytest.raises(ebb.FeatureError, match=f"^{re.escape(KEEPS)}$"):
            EVERY_WRITE[write](opened)

    assert state_of(held.table.root) == before


def test_the_commit_itself_asks_again(table: OpenTable, model: Model) -> None:
    """Whoever forgets the lock, or opens it for a reader, cannot commit either."""
    with table.table.lock():
        declared_by_newer(table, {"ebb.writerFeatures": "keeps"})
        snapshot = table.table.snapshot()
        for op in ("alter", "adopt"):
            with pytest.raises(ebb.FeatureError):
                snapshot.commit_metadata(snapshot.metadata, {"op": op}, 0)


def test_an_adoption_is_refused_before_any_file_is_looked_into(held: OpenTable) -> None:
    delta(held).delete("id = 43")
    held.table.snapshot()
    for path in held.table.data_files():
        (held.table.folder / path).unlink()

    with pytest.raises(ebb.FeatureError):
        held.adopt()


def test_status_says_who_may_not_write_and_check_fails(held: OpenTable, capsys: pytest.CaptureFixture[str]) -> None:
    command = Command(held.table.root, capsys)

    assert held.status().not_writable == KEEPS
    assert [str(finding) for finding in held.status().findings] == [KEEPS]
    assert KEEPS in command.right("status", "t").out
    assert KEEPS in command.right("status").out.splitlines()
    told = command.right("status", "t", "--json").json
    assert (told["not_writable"], told["writer_features"], told["reader_features"]) == (KEEPS, ["keeps", "leases"], [])
    for check in (command("status", "t", "--check"), command("status", "--check")):
        assert (check.code, check.err) == (1, f"ebb: {KEEPS}\n")


def test_a_command_that_writes_says_so_in_one_line(held: OpenTable, capsys: pytest.CaptureFixture[str]) -> None:
    command = Command(held.table.root, capsys)

    for arguments in COMMANDS["write"]:
        assert command.wrong(*arguments, code=1) == KEEPS
    for arguments in COMMANDS["read"]:
        command.right(*arguments)


def test_a_run_goes_on_with_the_other_tables(tmp_path: Path) -> None:
    warehouse = Warehouse(Settings(warehouse=tmp_path / "w", engine="direct"), now=lambda: NOW)
    for name in ("a", "b"):
        filled(integer_table(warehouse, name, landing=str(tmp_path / name)))
        write_batch(tmp_path / name / "5-x.parquet", [Record(50, "k1", 5, 8)])
    declared_by_newer(warehouse.table("a"), {"ebb.writerFeatures": "keeps"})

    outcomes = {o.table: o for o in warehouse.run() if isinstance(o, Outcome)}

    assert "table a has writer feature keeps, which Ebb" in str(outcomes["a"].error)
    assert outcomes["b"].report is not None
    assert [table.status().clock for table in warehouse.tables()] == [4, 5]
    declared_by_newer(warehouse.table("a"), {"ebb.writerFeatures": ""})
    assert [o.error for o in warehouse.run() if isinstance(o, Outcome)] == [None]
    assert [table.status().clock for table in warehouse.tables()] == [5, 5]


# Layout


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kind", "view"), ("readerFeatures", "amends"), ("writerFeatures", "keeps"), ("generation", "1"), ("formatVersion", "3"),
    ],
)  # fmt: skip
def test_another_tool_that_changes_the_contract_is_noticed(
    table: OpenTable, model: Model, name: str, value: str
) -> None:
    known = table.table.snapshot()
    set_properties(table, known, **{name: value})

    for opened in (table, fresh(table)):
        with pytest.raises(
            ebb.CorruptionError, match=f"another tool changed the layout of table t in version 7: ebb.{name}; "
        ):
            opened.status()
    set_properties(table, known)
    assert table.update(at=5).expired == model.apply(5, []).expired


def test_alter_keeps_what_it_does_not_change(tmp_path: Path) -> None:
    table = table_of_generation(open_warehouse(tmp_path / "w"), 3)
    names = ("ebb.formatVersion", "ebb.kind", "ebb.readerFeatures", "ebb.writerFeatures", "ebb.generation")
    table.alter(deletion_bound="30", add_column="more INT")

    configuration = fresh(table).table.snapshot().metadata["configuration"]
    assert {name: configuration[name] for name in names} == dict(zip(names, ("2", "stream", "", "", "3"), strict=True))
    assert (table.describe().kind, table.describe().deletion_bound) == ("stream", "30")


# Generations


@pytest.mark.parametrize("way", sorted(WAYS))
@pytest.mark.parametrize("generation", [0, 3])
def test_a_table_works_the_same_in_every_generation(tmp_path: Path, way: str, generation: int) -> None:
    """Updates, seals, purges and adoptions write files of the generation that the table names, and of no other."""
    table = table_of_generation(open_warehouse(tmp_path / "w"), generation, reader_time="1", **WAYS[way])
    model = filled(table)
    delta(table).delete("id % 10 = 3")
    model.kept = [record for record in model.kept if record.id % 10 != 3]
    extra = [Record(900, "k9", 4, 9), Record(901, "a0", 3, 7)]
    append(table, extra)
    model.kept += extra
    assert table.adopt().live == len(model.window())
    for slot in range(5, 15):
        batch = [Record(100 * slot + n, f"k{n}", slot, slot + 1 + n) for n in range(4)]
        outcome = model.apply(slot, batch)
        report = table.update(arrow_batch(batch), at=slot)
        assert (report.admitted, report.expired, report.warnings) == (len(outcome.admitted), outcome.expired, ())
        assert report.cells_touched <= report.cells_bound
        assert scanned_ids(table) == scanned_ids(fresh(table)) == ids(model)
    table.purge()
    table.seal()

    assert scanned_ids(table) == ids(model)
    assert {file.cell.generation for file in fresh(table).table.snapshot().files} == {generation}
    values = {tuple(add["partitionValues"].items()) for entry in table.table.entries(99) for add in entry.adds}
    assert {dict(value)["_gen"] for value in values if dict(value)} <= {str(generation)}
    assert fresh(table).status().cells == table.status().cells


def test_paths_do_not_say_the_generation_and_the_log_does(tmp_path: Path) -> None:
    table = table_of_generation(open_warehouse(tmp_path / "w"), 3)
    table.update(arrow_batch([Record(1, "a", 1, 3)]), at=1)
    (file,) = table.table.snapshot().files
    entry = table.table.entry(1)
    assert entry is not None

    assert file.cell == table.table.snapshot().spec.grid.cell_of(1, 3) == Cell(file.cell.group, file.cell.cohort, 3)
    assert re.fullmatch(r"u1-[0-9a-f]+/0/_g=\d+/_e=\d+/part-[0-9a-f]{32}-[0-9a-f]{16}\.parquet", file.path)
    assert list(entry.adds[0]["partitionValues"]) == delta(table).metadata().partition_columns == ["_gen", "_g", "_e"]


def test_what_a_task_tells_the_driver_of_its_files_has_their_generation() -> None:
    files = [cell_file("a/1", (1, 2, 3)), cell_file("a/2", (1, 2, 0))]

    assert Written.loads(Written(files=files).dumps()).files == files


def test_only_the_user_s_columns_are_shown(tmp_path: Path) -> None:
    table = table_of_generation(open_warehouse(tmp_path / "w"), 3)
    table.update(arrow_batch([Record(1, "a", 1, 3)]), at=1)
    user = ["id", "key", "inserted", "expires", "pay"]

    assert table.scan().read_all().column_names == table.probe("a").column_names == user
    assert table.warehouse.sql("SELECT * FROM t").read_all().column_names == user
    assert "_gen" not in table.window_sql()
    assert [column.name for column in table.describe().columns] == user


def test_other_engines_read_a_table_of_any_generation(tmp_path: Path) -> None:
    table = table_of_generation(open_warehouse(tmp_path / "w"), 3, **WAYS["norebuild"])
    model = filled(table)
    clock = table.table.snapshot().ledger.clock or 0

    by_polars = pl.scan_delta(str(table.table.folder)).filter(pl.col("_exp_slot") > clock).collect()
    by_delta = delta(table).to_pyarrow_table(filters=[("_exp_slot", ">", clock)])
    assert sorted(by_polars["id"]) == sorted(by_delta["id"].to_pylist()) == ids(model)
    assert by_polars.columns == by_delta.column_names
    assert set(by_delta["_gen"].to_pylist()) == {3}
    # Polars takes partition values from paths, which do not say it; nothing in a read depends on it.
    assert set(by_polars["_gen"]) == {None}


def _with_generation(table: OpenTable, value: Any) -> None:
    """Write another generation into the newest commit of a table."""
    entry = max(table.table.log.glob("*.json"))
    actions = [json.loads(line) for line in entry.read_text(encoding="utf-8").splitlines()]
    for action in actions:
        if "add" in action:
            action["add"]["partitionValues"]["_gen"] = value
    entry.write_text("".join(json.dumps(action) + "\n" for action in actions), encoding="utf-8")


@pytest.mark.parametrize(("value", "named"), [("7", "7"), (None, "none")])
@pytest.mark.parametrize("is_known", [True, False])
def test_a_file_of_a_layout_that_the_table_does_not_describe_is_damage(
    table: OpenTable, model: Model, value: str | None, named: str, *, is_known: bool
) -> None:
    """Also for whoever has the table open and only follows its commits."""
    other = fresh(table)
    if is_known:
        other.table.snapshot()
    table.update(arrow_batch([Record(50, "k1", 5, 8)]), at=5)
    _with_generation(table, value)

    for work in (OpenTable.scan, OpenTable.status, OpenTable.update, OpenTable.adopt):
        with pytest.raises(
            ebb.CorruptionError, match=f"table t describes layout generation 0, and a file has {named}: u5-"
        ):
            work(other)
    assert table.warehouse.drop("t").live_records is None


@pytest.mark.parametrize("value", [7, None])
def test_what_another_tool_adds_to_no_known_layout_is_not_read_either(
    table: OpenTable, model: Model, value: int | None, capsys: pytest.CaptureFixture[str]
) -> None:
    append(table, [Record(900, "k9", 4, 9)], _gen=[value])

    told = Command(table.table.root, capsys).wrong("scan", "t", code=1)
    assert told.startswith(
        f"table t describes layout generation 0, and a file has {'none' if value is None else value}: "
    )
    assert told.endswith("; restore the table from a backup, or install the Ebb that wrote the file")
    delta(table).restore(delta(table).version() - 1)
    with pytest.warns(ebb.ForeignCommitWarning):
        assert scanned_ids(table) == ids(model)


def test_a_table_that_says_another_generation_than_its_files_is_damaged(table: OpenTable, model: Model) -> None:
    declared_by_newer(table, {"ebb.generation": "1"})

    with pytest.raises(ebb.CorruptionError, match="describes layout generation 1, and a file has 0"):
        fresh(table).scan()


def test_a_plan_with_a_file_of_another_generation_is_not_carried_out(table: OpenTable, model: Model) -> None:
    from dataclasses import replace

    from ebb.maintenance.carry_out import carry_out
    from ebb.maintenance.plan.change import Plan

    snapshot = table.table.snapshot()
    away = replace(snapshot.files[0], cell=snapshot.files[0].cell._replace(generation=1))
    context = table.warehouse.context()
    plan = Plan(removes=(away,), within=snapshot.spec.grid.cells)

    with pytest.raises(
        ebb.EngineError, match=r"it would touch cell \(\d, \d\) of generation 1, and may touch 15 others"
    ):
        carry_out(snapshot, plan, context, clock=4, change=None, data_change=False, report=lambda _: {})  # type: ignore[arg-type]


def test_batches_bring_no_column_named_like_the_generation(tmp_path: Path) -> None:
    warehouse = open_warehouse(tmp_path / "w")
    with pytest.raises(ebb.UsageError, match="column name _gen is reserved for Ebb"):
        integer_table(warehouse, schema="key STRING, inserted INT, expires INT, _gen INT")
    table = integer_table(warehouse)
    with pytest.raises(ebb.UsageError, match="reserved"):
        table.alter(add_column="_GEN INT")
    with pytest.raises(ebb.SchemaDriftError, match="_gen"):
        table.update(arrow_batch([Record(1, "a", 1, 3)]).append_column("_gen", pa.array([1], pa.int32())), at=1)
