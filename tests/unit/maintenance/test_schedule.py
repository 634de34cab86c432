"""Rounds over all landing folders: real tables and files, a clock that the test moves, no JVM."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from ebb import OpenTable, Warehouse
from ebb.index.errors import EngineError
from ebb.maintenance.landing.run import Outcome
from ebb.maintenance.schedule import Round
from ebb.warehouse.settings import Settings
from ebb.warehouse.store.lock import locked
from tests.builders import NOW, timestamp_table
from tests.faults import Interruption, armed

HOUR = timedelta(hours=1)


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def warehouse(tmp_path: Path, clock: Clock) -> Warehouse:
    return Warehouse(Settings(warehouse=tmp_path / "w"), now=clock)


def landing_table(warehouse: Warehouse, name: str = "t") -> OpenTable:
    table = timestamp_table(warehouse, name, landing=str(warehouse.root.parent / "landing" / name))
    table.update(at=NOW)
    return table


def folder_of(table: OpenTable) -> Path:
    return Path(table.table.snapshot().spec.landing or "")


def rounds(
    warehouse: Warehouse, *between: Callable[[], object], tables: Sequence[str] = ()
) -> list[list[Outcome | Round]]:
    """Return what each round yields; between two rounds, while it sleeps, something happens."""
    happenings = list(between)
    seen: list[list[Outcome | Round]] = [[]]

    def sleep(seconds: float) -> None:
        assert 0 < seconds <= 1
        happenings.pop(0)()
        seen.append([])

    for event in warehouse.run(*tables, once=False, sleep=sleep):
        seen[-1].append(event)
        if isinstance(event, Round) and not happenings:
            break
    return seen


def nothing() -> None:
    """Let time pass."""


def news(events: list[Outcome | Round]) -> list[tuple[str, str | None]]:
    """Return the outcomes that were told, with errors."""
    return [(event.table, event.error) for event in events if isinstance(event, Outcome)]


def last(events: list[Outcome | Round]) -> Round:
    assert isinstance(events[-1], Round)
    return events[-1]


def slots(table: OpenTable) -> int:
    clock = table.table.snapshot().ledger.clock
    assert clock is not None
    return clock


def test_a_tick_is_applied_when_it_is_over(warehouse: Warehouse, clock: Clock) -> None:
    table = landing_table(warehouse)
    before = slots(table)

    def later() -> None:
        clock.now += HOUR

    seen = rounds(warehouse, nothing, later, nothing)

    assert [len(last(events).outcomes) for events in seen] == [0, 0, 1, 0]
    assert news(seen[2]) == [("t", None)]
    assert slots(table) == before + 1


def test_while_nothing_happens_no_log_is_read_and_no_lock_is_taken(warehouse: Warehouse) -> None:
    tables = [landing_table(warehouse, name) for name in ("a", "b")]
    timestamp_table(warehouse, "c")
    ends: list[int] = []

    with armed(warehouse.root.parent, Interruption()) as watched:
        rounds(warehouse, *[lambda: ends.append(len(watched.seen))] * 5)

    assert ends[0] > 0, "the first round reads the logs"
    others = [event for event in watched.seen[ends[0] :] if not event.endswith("/_ebb/head")]
    assert others == [], "but for the head record, which tells of a log that was rolled back"
    assert all(not (folder_of(table) / "_applied").exists() for table in tables)


def test_what_somebody_else_commits_is_seen(warehouse: Warehouse, clock: Clock) -> None:
    table = landing_table(warehouse)

    def updated_by_hand() -> None:
        clock.now += HOUR
        table.update()

    seen = rounds(warehouse, updated_by_hand, nothing)

    assert [last(events).outcomes for events in seen] == [(), (), ()]


def test_tables_that_come_and_go_are_seen(warehouse: Warehouse, clock: Clock) -> None:
    landing_table(warehouse, "a")

    def come() -> None:
        landing_table(warehouse, "b")
        clock.now += HOUR

    def go() -> None:
        warehouse.drop("a")
        clock.now += HOUR

    seen = rounds(warehouse, come, go)

    assert [last(events).tables for events in seen] == [1, 2, 1]
    assert [news(events) for events in seen] == [[], [("a", None), ("b", None)], [("b", None)]]


# One table never stops another


def break_log(table: OpenTable) -> None:
    (table.table.log / "00000000000000000000.json").write_text("{", encoding="utf-8")


def forget_log(table: OpenTable) -> None:
    for entry in table.table.log.iterdir():
        entry.unlink()


def make_foreign(table: OpenTable) -> None:
    entry = table.table.log / "00000000000000000000.json"
    text = entry.read_text(encoding="utf-8").replace("ebb.", "other.")
    forget_log(table)
    entry.write_text(text, encoding="utf-8")


def make_newer(table: OpenTable) -> None:
    for entry in table.table.log.glob("*.json"):
        text = entry.read_text(encoding="utf-8")
        entry.write_text(text.replace('"ebb.formatVersion":"2"', '"ebb.formatVersion":"99"'), encoding="utf-8")


def lose_landing(table: OpenTable) -> None:
    shutil.rmtree(folder_of(table))


def put_file_for_landing(table: OpenTable) -> None:
    lose_landing(table)
    folder_of(table).write_text("", encoding="utf-8")


def put_file_for_taken(table: OpenTable) -> None:
    (folder_of(table) / "_taken").write_text("", encoding="utf-8")


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (break_log, "is damaged"),
        (forget_log, "there is no table bad"),
        (make_foreign, "Ebb did not make"),
        (make_newer, "install a newer Ebb"),
        (lose_landing, "create it"),
        (put_file_for_landing, "Not a directory"),
        (put_file_for_taken, "Not a directory"),
    ],
)
def test_a_broken_table_stops_no_other(
    warehouse: Warehouse, clock: Clock, damage: Callable[[OpenTable], None], says: str
) -> None:
    """Declarations were read before anything was guarded: one broken table stopped the run for all."""
    first, bad, second = (landing_table(warehouse, name) for name in ("a", "bad", "c"))
    clock.now += HOUR
    damage(bad)

    *told, done = warehouse.run()

    assert isinstance(done, Round)
    assert done.failed
    errors = {outcome.table: outcome.error for outcome in done.outcomes}
    assert says in str(errors.pop("bad"))
    assert errors == {"a": None, "c": None}
    assert told == list(done.outcomes)
    assert slots(first) == slots(second) == first.table.snapshot().spec.timeline.clock_at(_micros(clock.now))


def _micros(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000


@pytest.fixture
def as_a_user() -> Iterator[Path]:
    """Return a folder of a user to whom something can be forbidden, and be that user."""
    place = Path(tempfile.mkdtemp())
    user = os.geteuid()
    if user == 0:
        os.chown(place, 65534, -1)
        os.seteuid(65534)
    yield place
    os.seteuid(user)
    shutil.rmtree(place)


def test_a_table_that_may_not_be_looked_into_stops_no_other(as_a_user: Path, clock: Clock) -> None:
    """Listing the tables ended with a PermissionError."""
    warehouse = Warehouse(Settings(warehouse=as_a_user / "w"), now=clock)
    tables = {name: landing_table(warehouse, name) for name in ("a", "bad", "c")}
    clock.now += HOUR
    tables["bad"].table.folder.chmod(0o000)

    (done,) = [event for event in warehouse.run() if isinstance(event, Round)]

    assert [(o.table, o.error is None) for o in done.outcomes] == [("a", True), ("bad", False), ("c", True)]
    assert "table bad" in str(done.outcomes[1].error)

    warehouse.root.chmod(0o000)
    with pytest.raises(EngineError, match="cannot be read"):
        list(warehouse.run())


def test_a_table_that_breaks_and_is_repaired_goes_on(warehouse: Warehouse, clock: Clock) -> None:
    table = landing_table(warehouse)
    entry = table.table.log / "00000000000000000001.json"
    text = entry.read_text(encoding="utf-8")

    def broken() -> None:
        clock.now += HOUR
        entry.write_text("{", encoding="utf-8")

    seen = rounds(warehouse, broken, lambda: entry.write_text(text, encoding="utf-8"))

    assert [last(events).failed for events in seen] == [False, True, False]
    assert news(seen[2]) == [("t", None)]


def test_a_name_that_no_table_has_is_an_outcome_and_the_others_go_on(warehouse: Warehouse, clock: Clock) -> None:
    landing_table(warehouse, "a")
    clock.now += HOUR

    (done,) = [event for event in warehouse.run("x", "a") if isinstance(event, Round)]

    assert [(o.table, o.error is None) for o in done.outcomes] == [("x", False), ("a", True)]


def test_a_folder_that_another_run_works_on_is_told_and_the_other_tables_go_on(
    warehouse: Warehouse, clock: Clock
) -> None:
    held, _ = landing_table(warehouse, "a"), landing_table(warehouse, "b")
    clock.now += HOUR

    with locked(folder_of(held) / "_lock", "it"):
        (locked_out,) = [event for event in warehouse.run() if isinstance(event, Round)]
    (after,) = [event for event in warehouse.run() if isinstance(event, Round)]

    assert [(o.table, o.error is None) for o in locked_out.outcomes] == [("a", False), ("b", True)]
    assert f"landing folder {folder_of(held)} is being written by process" in str(locked_out.outcomes[0].error)
    assert [(o.table, o.error) for o in after.outcomes] == [("a", None)]


# What is told


def test_an_error_is_told_once_and_again_when_it_comes_back(warehouse: Warehouse) -> None:
    """An error that had gone away and come back was never told again, and failed stayed true for ever."""
    folder = folder_of(landing_table(warehouse))
    away = folder.with_name("away")

    def go() -> None:
        folder.rename(away)

    def come_back() -> None:
        away.rename(folder)

    seen = rounds(warehouse, go, nothing, come_back, nothing, go, nothing)

    assert [len(news(events)) for events in seen] == [0, 1, 0, 0, 0, 1, 0]
    assert [last(events).failed for events in seen] == [False, True, True, False, False, True, True]
    assert [last(events).is_news for events in seen] == [False, True, False, True, False, True, False]
    assert [len(last(events).outcomes) for events in seen] == [0, 1, 1, 0, 0, 1, 1]


def test_each_refused_file_is_told_also_under_the_same_name(warehouse: Warehouse, clock: Clock) -> None:
    folder = folder_of(landing_table(warehouse))

    def land() -> None:
        clock.now += HOUR
        (folder / f"{NOW:%Y-%m-%dT%H%MZ}-bad.csv").write_text("a,b\n", encoding="utf-8")

    seen = rounds(warehouse, land, land)

    assert [[error is None for _, error in news(events)] for events in seen] == [[], [False, True], [False, True]]


def test_two_tables_with_the_same_error_are_both_told(warehouse: Warehouse) -> None:
    for name in ("a", "b"):
        folder_of(landing_table(warehouse, name)).rmdir()

    seen = rounds(warehouse, nothing)

    assert [len(news(events)) for events in seen] == [2, 0]


# Files


def land(file: Path, text: str, modified: datetime) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    os.utime(file, (modified.timestamp(), modified.timestamp()))


def test_a_file_that_arrives_under_a_used_name_replaces_nothing(warehouse: Warehouse, clock: Clock) -> None:
    """What a killed run had been taking, late batches and refused files replaced each other, or what had just arrived."""
    folder = folder_of(landing_table(warehouse))
    land(folder / "_taken/1.part/cars.csv", "left by a killed run\n", NOW)
    land(folder / "_taken/1/cars.csv", "taken by it\n", NOW)
    land(folder / "cars.csv", "new\n", NOW)
    clock.now += HOUR

    def again() -> None:
        land(folder / "cars.csv", f"at {clock.now}\n", clock.now)
        clock.now += HOUR

    rounds(warehouse, again, again)

    kept = sorted(path.read_text(encoding="utf-8") for path in folder.rglob("*.csv"))
    assert kept == [
        f"at {NOW + HOUR}\n", f"at {NOW + 2 * HOUR}\n", "left by a killed run\n", "new\n", "taken by it\n",
    ]  # fmt: skip


def test_what_is_refused_after_a_long_outage_can_still_be_seen(warehouse: Warehouse, clock: Clock) -> None:
    """A file of a tick longer ago than the quarantine time was refused and erased by one and the same run."""
    table = landing_table(warehouse)
    folder = folder_of(table)
    land(folder / "early.csv", "wrong\n", NOW + HOUR)
    land(folder / f"_taken/{slots(table) + 1}/whole.csv", "wrong\n", NOW + HOUR)
    clock.now += 100 * HOUR

    outcomes = [event for event in warehouse.run() if isinstance(event, Outcome)]

    asides = [Path(outcome.set_aside) for outcome in outcomes if outcome.set_aside]
    assert {path.name for aside in asides for path in aside.glob("*.csv")} == {"early.csv", "whole.csv"}

    clock.now += 100 * HOUR
    list(warehouse.run())
    assert list(folder.rglob("*.csv")) == []


def test_a_relative_link_is_refused_because_it_would_lead_nowhere(warehouse: Warehouse, clock: Clock) -> None:
    """It was moved, led nowhere from there, and was taken for a batch without records."""
    folder = folder_of(landing_table(warehouse))
    land(folder.parent / "elsewhere.csv", "id,key,inserted,expires\n", NOW)
    (folder / "cars.csv").symlink_to("../elsewhere.csv")
    clock.now += HOUR

    outcomes = [event for event in warehouse.run() if isinstance(event, Outcome)]

    assert ["relative symbolic link" in str(outcome.error) for outcome in outcomes] == [True, False]


def test_files_without_a_tick_do_not_wait_for_ever_in_silence(warehouse: Warehouse, tmp_path: Path) -> None:
    """An integer table without a clock said that no files had arrived."""
    integers = {"schema": "key STRING, i BIGINT, x BIGINT", "key": ["key"], "inserted": "i", "expires": "x"}
    warehouse.create("n", tick="1", span="6", landing=str(tmp_path / "n"), **integers)
    (tmp_path / "n/cars.csv").write_text("key,i,x\n", encoding="utf-8")

    (outcome, done) = warehouse.run()

    assert isinstance(outcome, Outcome)
    assert "has no clock yet" in str(outcome.error)
    assert isinstance(done, Round)
    assert done.failed

    (tmp_path / "n/_taken/1").mkdir(parents=True)  # a tick that was taken sets the clock first
    (tmp_path / "n/cars.csv").write_text("wrong\n", encoding="utf-8")
    assert [o.slot for o in warehouse.run() if isinstance(o, Outcome)] == [1, 2, 2]


def test_a_dry_run_moves_nothing_and_locks_nothing(warehouse: Warehouse, clock: Clock) -> None:
    """A taken batch was refused, or put back, by a dry run."""
    table = landing_table(warehouse)
    folder = folder_of(table)
    batch = folder / f"_taken/{slots(table)}"
    batch.mkdir(parents=True)
    (batch / "cars.csv").write_text("a,b\n", encoding="utf-8")
    clock.now += HOUR

    with armed(folder, Interruption()) as watched:
        outcomes = [event for event in warehouse.run(dry_run=True) if isinstance(event, Outcome)]

    assert [(o.slot, o.files, o.report, o.error) for o in outcomes] == [
        (slots(table), 1, None, None), (slots(table) + 1, 0, None, None),
    ]  # fmt: skip
    assert [event for event in watched.seen if not event.startswith("open")] == []
    assert {path.name for path in folder.rglob("*")} == {"_taken", "cars.csv", batch.name}


def test_a_refused_batch_does_not_stop_the_clock(warehouse: Warehouse, clock: Clock) -> None:
    """What was refused as a whole left its tick out, and the clock stood still until the next one."""
    table = landing_table(warehouse)
    clock.now += HOUR
    slot = slots(table) + 1
    batch = folder_of(table) / f"_taken/{slot}"
    batch.mkdir(parents=True)
    (batch / "cars.csv").write_text("a,b\n", encoding="utf-8")

    outcomes = [event for event in warehouse.run() if isinstance(event, Outcome)]

    assert [(o.slot, o.files, o.set_aside is None) for o in outcomes] == [(slot, 1, False), (slot, 0, True)]
    assert slots(table) == slot
    reasons = (folder_of(table) / f"_refused/{slot}/_reasons.jsonl").read_text(encoding="utf-8")
    assert json.loads(reasons)["files"] == ["cars.csv"]


def test_a_broken_table_does_not_make_good_batches_refused(warehouse: Warehouse, clock: Clock) -> None:
    """Whatever went wrong with the table, its batches were set aside, and erased later."""
    table = landing_table(warehouse)
    batch = folder_of(table) / f"_taken/{slots(table) + 1}"
    batch.mkdir(parents=True)
    (batch / "cars.csv").write_text("id,key,inserted,expires\n", encoding="utf-8")
    clock.now += HOUR
    (table.table.folder / "link").symlink_to("/")  # which is found when a killed writer's remains are removed
    (table.table.hidden / "lock").write_text("killed", encoding="utf-8")

    (outcome,) = (event for event in warehouse.run() if isinstance(event, Outcome))

    assert outcome.is_stopped
    assert "symbolic link" in str(outcome.error)
    assert (batch / "cars.csv").exists()
