"""Landing folders lose nothing and stop nothing: a bad file is set aside alone, and the clock moves (B1, F1)."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ebb import OpenTable, Warehouse
from ebb.maintenance.landing.run import Outcome
from ebb.maintenance.schedule import Round
from ebb.warehouse.settings import Settings
from tests.builders import NOW, integer_table, records, scanned, scanned_ids, timestamp_table, write_batch

GOOD = {"id": 1, "key": "a", "inserted": 5, "expires": 9, "pay": "x"}


def half(path: Path) -> None:
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) // 2])


def drifting(path: Path) -> None:
    lines = [json.dumps(GOOD), json.dumps(GOOD | {"id": 2, "colour": "red"})]
    path.write_text("\n".join(lines))


def cut_gzip(path: Path) -> None:
    path.write_bytes(gzip.compress(("\n".join([json.dumps(GOOD)] * 5000)).encode()))
    half(path)


def cut_csv_gzip(path: Path) -> None:
    path.write_bytes(gzip.compress(("id,key,inserted,expires,pay\n" + "1,a,5,9,x\n" * 5000).encode()))
    half(path)


def cut_parquet(path: Path) -> None:
    write_batch(path, records((1, "a", 5, 9)))
    half(path)


def wrong_types(path: Path) -> None:
    pq.write_table(pa.table({"id": [True], "key": ["a"], "inserted": [5], "expires": [9], "pay": ["x"]}), path)


BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "drift.jsonl": (drifting, "line 2: column colour is not in the table"),
    "cut.jsonl.gz": (cut_gzip, "it cannot be read"),
    "cut.csv.gz": (cut_csv_gzip, "it cannot be read"),
    "cut.parquet": (cut_parquet, "it is not a readable Parquet file"),
    "types.parquet": (wrong_types, "column id has type boolean, and the table has bigint"),
    "header.csv": (lambda path: path.write_text("id,key,inserted,expires,pay,more\n"), "column more is not in the table"),
    "keyless.csv": (lambda path: path.write_text("id,inserted,expires\n1,5,9\n"), "column key is missing"),
    "twice.csv": (lambda path: path.write_text("id,key,key,inserted,expires\n"), "column key stands there 2 times"),
    "array.json": (lambda path: path.write_text(json.dumps([GOOD])), "it is a JSON array, not one object per line"),
    "empty.csv": (Path.touch, "it is empty: it has no header; write it again, with its header"),
    "blank.csv": (lambda path: path.write_text("\n \n"), "it is empty: it has no header"),
    "empty.csv.gz": (Path.touch, "it has 0 bytes, and a .gz file has 20 at least: it was cut off; write it again"),
    "empty.jsonl.gz": (Path.touch, "it has 0 bytes, and a .gz file has 20 at least"),
    "headless.csv.gz": (lambda path: path.write_bytes(gzip.compress(b"")), "it is empty: it has no header"),
    "empty.parquet": (Path.touch, "it is not a readable Parquet file (Parquet file size is 0 bytes)"),
    "note.txt": (lambda path: path.write_text("hello"), "does not tell a format that Ebb reads"),
}  # fmt: skip


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    return tmp_path / "landing"


@pytest.fixture
def table(tmp_path: Path, landing: Path) -> OpenTable:
    warehouse = Warehouse(Settings(warehouse=tmp_path / "w", engine="direct"), now=lambda: NOW)
    return integer_table(warehouse, landing=str(landing), quarantine_time="3")


def run(warehouse: Warehouse, **options: object) -> list[Outcome]:
    return [event for event in warehouse.run(**options) if not isinstance(event, Round)]  # type: ignore[arg-type]


def names(folder: Path) -> list[str]:
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file() and path.name != "_lock"
    )


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_file_is_set_aside_alone_and_its_tick_goes_on(bad: str, table: OpenTable, landing: Path) -> None:
    """One JSON file with a new field refused every file of its tick, stopped the clock, and in the end good data was deleted."""
    make, reason = BAD[bad]
    for name, rows in (
        ("5-good.jsonl", [(1, "a", 5, 9)]),
        ("5-fine.csv", [(2, "b", 5, 9)]),
        ("5-ok.parquet", [(3, "c", 5, 9)]),
    ):
        write_batch(landing / name, records(*rows))
    make(landing / f"5-{bad}")
    write_batch(landing / "6-next.csv", records((4, "d", 6, 9)))
    outcomes = run(table.warehouse)

    assert scanned_ids(table) == [1, 2, 3, 4]
    assert [(o.slot, o.files, o.error is None) for o in outcomes if o.set_aside is None] == [(5, 3, True), (6, 1, True)]
    refused = [o for o in outcomes if o.set_aside]
    assert len(refused) == 1
    assert reason in str(refused[0].error)
    aside = [name for name in names(landing) if name.startswith("_refused")]
    assert [name.rsplit("/", 1)[1] for name in aside] == sorted([f"5-{bad}", "_reasons.jsonl"])
    noted = json.loads((landing / aside[1]).read_text().splitlines()[0]) if aside[1].endswith("jsonl") else {}
    assert not noted or (noted["files"] == [f"5-{bad}"] and reason in noted["reason"])
    assert len([name for name in names(landing) if name.startswith("_applied")]) == 4


def test_of_a_link_to_a_bad_file_the_link_is_set_aside(table: OpenTable, landing: Path, tmp_path: Path) -> None:
    """The file that it leads to is somebody else's."""
    drifting(tmp_path / "elsewhere.jsonl")
    (landing / "5-link.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")
    outcomes = run(table.warehouse)

    assert [bool(o.set_aside) for o in outcomes] == [True, False]
    assert (tmp_path / "elsewhere.jsonl").is_file()
    assert (landing / "_refused/5/5-link.jsonl").is_symlink()


def test_all_bad_files_of_a_tick_are_set_aside_at_once_and_the_tick_is_empty(table: OpenTable, landing: Path) -> None:
    table.update(at=4)
    for name in ("drift.jsonl", "cut.jsonl.gz"):
        BAD[name][0](landing / f"5-{name}")
    outcomes = run(table.warehouse)

    assert [bool(o.set_aside) for o in outcomes] == [True, True, False]
    assert (outcomes[-1].report.slot if outcomes[-1].report else None) == 5
    assert not any(name.startswith(("_taken", "_applied")) for name in names(landing))


def test_a_producer_that_drifts_at_every_tick_never_stops_the_clock(tmp_path: Path, landing: Path) -> None:
    now = [NOW]
    warehouse = Warehouse(Settings(warehouse=tmp_path / "w", engine="direct"), now=lambda: now[0])
    table = timestamp_table(warehouse, landing=str(landing))
    row = {"id": 1, "key": "a", "inserted": "2026-01-01T12:10:00Z", "expires": "2026-01-01T14:30:00Z"}
    (landing / "2026-01-01T1300Z.jsonl").write_text(json.dumps(row))
    for hour in range(13, 17):
        now[0] = datetime(2026, 1, 1, hour, 5, tzinfo=UTC)
        drift = row | {"id": hour, "colour": "red", "expires": "2026-01-01T17:00:00Z"}
        (landing / f"2026-01-01T{hour}00Z-drift.jsonl").write_text(json.dumps(drift))
        run(warehouse)
        assert table.status().clock_time == f"2026-01-01T{hour}:00:00Z"

    assert scanned_ids(table) == []


def test_a_file_that_is_delivered_again_is_applied_once(table: OpenTable, landing: Path) -> None:
    write_batch(landing / "5-a.csv", records((1, "a", 5, 9)))
    run(table.warehouse)
    for slot in (6, 7):
        write_batch(landing / f"{slot}-a.csv", records((1, "a", 5, 9)))
        write_batch(landing / f"{slot}-b.csv", records((slot, "b", slot, 9)))
        outcomes = run(table.warehouse)
        assert [(o.report.repeated, o.report.admitted) for o in outcomes if o.report] == [(1, 1)]
    # A stuck producer does not stop the clock of a table that only files move.
    for slot in (8, 9, 10):
        write_batch(landing / f"{slot}-a.csv", records((1, "a", 5, 9)))
        run(table.warehouse)

    assert table.status().clock == 10
    assert scanned_ids(table) == []


def test_what_is_refused_is_kept_from_where_the_clock_went(tmp_path: Path, landing: Path) -> None:
    """A file of the year 2099 made refused files stay until then."""
    warehouse = Warehouse(Settings(warehouse=tmp_path / "w", engine="direct"), now=lambda: NOW)
    timestamp_table(warehouse, landing=str(landing))
    (landing / "2099-01-01T0000Z.csv").write_text("id,key,inserted,expires\n")
    (landing / "2026-01-01T1200Z.json").write_text("[{}]")
    (aside,) = (outcome.set_aside for outcome in run(warehouse) if outcome.set_aside)

    assert aside == str(landing / "_refused" / "490908")


def test_names_may_say_the_start_of_a_tick(tmp_path: Path, landing: Path) -> None:
    warehouse = Warehouse(Settings(warehouse=tmp_path / "w", engine="direct"), now=lambda: NOW + timedelta(days=3))
    wish = {"tick": "1d", "span": "5d", "landing": str(landing), "label": "start"}
    table = timestamp_table(warehouse, **wish)
    (landing / "2026-01-02.csv").write_text("id,key,inserted,expires\n1,a,2026-01-02T13:00:00Z,2026-01-06T00:00:00Z\n")
    run(warehouse)

    assert [row["id"] for row in scanned(table)] == [1]
    assert table.alter(label="end").after.label == "end"


def test_files_for_a_tick_that_is_not_over_are_told_as_waiting(tmp_path: Path, landing: Path) -> None:
    warehouse = Warehouse(Settings(warehouse=tmp_path / "w", engine="direct"), now=lambda: NOW)
    table = timestamp_table(warehouse, landing=str(landing))
    table.update()
    (landing / "2026-01-01T1300Z.csv").write_text("id,key,inserted,expires\n")
    rounds = [event for event in warehouse.run() if isinstance(event, Round)]

    assert (rounds[0].outcomes, rounds[0].waiting) == ((), 1)
