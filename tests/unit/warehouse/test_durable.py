"""What is synced before what, read from a trace of real work (P8); and what happens when the disk refuses."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ebb import OpenTable, Warehouse
from ebb.index.errors import EngineError, UnsyncedError
from ebb.maintenance.phases import Phases
from ebb.warehouse.settings import Settings
from ebb.warehouse.store.disk import Disk
from ebb.warehouse.store.paths import UNSYNCED, entry_name, side_file
from ebb.warehouse.table.checkpoint import CHECKPOINT_INTERVAL
from ebb.warehouse.table.head import read_head
from tests.builders import NOW, arrow_batch, integer_table, open_warehouse, records, scanned_ids
from tests.faults import watched
from tests.foreign import append

BATCH = records(*[(id, f"k{id}", 1, 2 + id % 5) for id in range(9)], (90, None, 1, 3))


class Trace(list[str]):
    """What was done below a folder, in order: ``sync t/_delta_log``, ``os.link …`` and so on."""

    def place(self, what: str, *, after: int = -1) -> int:
        """Return where something was first done after another."""
        return next(n for n, done in enumerate(self) if n > after and done.startswith(what))


@contextmanager
def traced(folder: Path, refuse: Callable[[str], OSError | BaseException | None] = lambda _: None) -> Iterator[Trace]:
    """Note what is done below a folder; ``refuse``: the error for a sync of a place that the disk refuses."""
    trace, real = Trace(), os.fsync

    def sync(file: int) -> None:
        place = os.path.relpath(os.readlink(f"/proc/self/fd/{file}"), folder)
        trace.append(f"sync {place}")
        if error := refuse(place):
            raise error
        real(file)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", sync)
        with watched(folder, lambda event, path: trace.append(f"{event} {os.path.relpath(path, folder)}")):
            yield trace


@pytest.fixture
def table(tmp_path: Path) -> OpenTable:
    return integer_table(
        open_warehouse(tmp_path / "w"), grid="2x2", strategy="norebuild", reader_time="1", log_retention="1"
    )


def careless(table: OpenTable) -> OpenTable:
    """Return the same table for somebody who does not wait for the disk."""
    return Warehouse(Settings(warehouse=table.warehouse.root, durable=False), now=lambda: NOW).table("t")


def test_an_update_syncs_what_it_adds_then_its_entry_then_the_log(table: OpenTable, tmp_path: Path) -> None:
    with traced(tmp_path / "w") as trace:
        table.update(arrow_batch(BATCH), at=1)

    linked = trace.place("os.link t/_delta_log/_commit_")
    added = table.table.snapshot().files
    assert len(added) > 1
    wanted = {"t"}
    for file in added:
        folders = [str(parent) for parent in Path(file.path).parents][:-1]
        wanted |= {f"t/{place}" for place in (file.path, side_file(file.path), *folders)}
    assert {f"sync {place}" for place in wanted} <= set(trace[:linked])
    entry = trace.place("sync t/_delta_log/_commit_")
    assert max(trace.index(f"sync {place}") for place in wanted) < entry < linked, "the entry comes last"
    assert trace.place("sync t/_delta_log", after=linked), "its name is synced before the update is acknowledged"


def test_refused_records_are_on_the_disk_before_their_batch(table: OpenTable, tmp_path: Path) -> None:
    with traced(tmp_path / "w") as trace:
        table.update(arrow_batch(BATCH), at=1)

    batch = trace.place("os.link t/_delta_log/_commit_")
    refused = trace.place(
        "os.link t.quarantine/_delta_log/_commit_", after=trace.place("sync t.quarantine/_slot=1/part")
    )
    assert trace.place("sync t.quarantine/_slot=1") < refused
    assert trace.place("sync t.quarantine/_delta_log", after=refused) < batch
    made = trace.place("os.link t.quarantine/_delta_log/_commit_")
    assert trace.place("sync .", after=made) < refused, "the folder of the quarantine was made"


def test_a_tick_waits_for_its_entry_and_for_nothing_else(table: OpenTable, tmp_path: Path) -> None:
    table.update(at=1)
    with traced(tmp_path / "w") as trace:
        table.update(at=2)

    syncs = [done.split("_commit_")[0] for done in trace if done.startswith("sync")]
    assert syncs == ["sync t/_delta_log/", "sync t/_delta_log"]


def test_a_checkpoint_is_on_the_disk_before_what_it_replaces_goes(table: OpenTable, tmp_path: Path) -> None:
    for slot in range(1, 2 * CHECKPOINT_INTERVAL):
        table.update(at=slot)
    with traced(tmp_path / "w") as trace:
        table.update(at=2 * CHECKPOINT_INTERVAL)

    name = f"{2 * CHECKPOINT_INTERVAL:020}.checkpoint.parquet"
    aside = "t/_ebb/checkpoint/_delta_log"
    steps = [
        trace.place("sync t/_ebb/ledger/"),  # the state that the entry names
        trace.place("sync t/_ebb/ledger"),
        trace.place("os.link t/_delta_log/_commit_"),
        trace.place(f"sync {aside}/{name}"),
        trace.place(f"os.rename {aside}/{name}"),
        trace.place("sync t/_delta_log", after=trace.place(f"os.rename {aside}/{name}")),
        trace.place(f"os.rename {aside}/_last_checkpoint"),
        trace.place("sync t/_delta_log", after=trace.place(f"os.rename {aside}/_last_checkpoint")),
        trace.place("os.remove t/_delta_log/0000"),
    ]
    assert steps == sorted(steps)
    assert trace.place(f"sync {aside}/_last_checkpoint") < trace.place(f"os.rename {aside}/")
    assert not (table.table.folder / "_ebb/checkpoint").exists()
    assert open_warehouse(tmp_path / "w").table("t").status().clock == 2 * CHECKPOINT_INTERVAL


def test_what_a_commit_says_is_erased_is_off_the_disk(table: OpenTable, tmp_path: Path) -> None:
    table.update(arrow_batch(BATCH[:1]), at=1)
    table.update(at=2)
    removed = table.table.snapshot().removals()[0].paths[0]
    table.update(at=3)
    assert (table.table.folder / removed).exists()
    with traced(tmp_path / "w") as trace:
        report = table.update(at=4)

    assert report.erased_files == 1
    gone = trace.place(f"os.remove t/{removed}")
    linked = trace.place("os.link t/_delta_log/_commit_")
    assert gone < trace.place("sync t", after=gone) < linked


def test_create_and_drop_wait_for_the_name(tmp_path: Path) -> None:
    root = tmp_path / "new" / "w"
    with traced(tmp_path) as trace:
        table = integer_table(open_warehouse(root))
    named = trace.place("os.rename new/w/.new-t-")
    assert trace.place("sync new/w/.new-t-") < named < trace.place("sync new/w", after=named)
    assert {"sync .", "sync new"} <= set(trace[named:]), "the warehouse was made, too"

    table.update(arrow_batch(BATCH), at=1)
    with traced(tmp_path) as trace:
        table.warehouse.drop("t")
    moved = [n for n, done in enumerate(trace) if done.startswith("os.rename new/w/t")]
    assert len(moved) == 2
    assert trace.index("sync new/w") in range(moved[0], moved[1])
    removed = next(n for n, done in enumerate(trace) if done.startswith(("os.remove", "os.rmdir")))
    assert trace.index("sync new/w", moved[1]) < removed


def test_who_takes_over_from_a_killed_writer_syncs_its_commit_first(table: OpenTable, tmp_path: Path) -> None:
    table.update(at=1)

    class Killed(BaseException):
        pass

    with traced(tmp_path / "w", lambda place: Killed() if place == "t/_delta_log" else None), pytest.raises(Killed):
        table.update(arrow_batch(BATCH), at=2)
    assert table.table.snapshot().ledger.clock == 2, "others see it already"
    with traced(tmp_path / "w") as trace:
        assert table.update(arrow_batch(BATCH)).already_applied
    assert trace.place("sync t/_delta_log") < len(trace)


def test_who_takes_over_syncs_the_name_of_a_quarantine(table: OpenTable, tmp_path: Path) -> None:
    """Its first commit was made, and nobody knows whether its folders are on the disk."""
    table.update(at=1)

    class Killed(BaseException):
        pass

    with (
        traced(tmp_path / "w", lambda place: Killed() if place == "t.quarantine/_delta_log" else None),
        pytest.raises(Killed),
    ):
        table.update(arrow_batch(BATCH), at=2)
    assert [path.name for path in (table.table.quarantine / "_delta_log").glob("0*")] == [entry_name(0)]

    with traced(tmp_path / "w") as trace:
        assert table.update(arrow_batch(BATCH), at=2).quarantined == 1
    before = trace[: trace.place("os.link")]
    assert {"sync t.quarantine/_delta_log", "sync t.quarantine", "sync ."} <= set(before)


def test_a_quarantine_that_cannot_be_synced_says_that_the_batch_was_not_applied(
    table: OpenTable, tmp_path: Path
) -> None:
    table.update(at=1)
    broken = OSError(errno.EIO, os.strerror(errno.EIO))

    with (
        traced(tmp_path / "w", lambda place: broken if place == "t.quarantine/_delta_log" else None),
        pytest.raises(
            EngineError, match=r"refused records of table t may .* the batch was not applied; .* run it again"
        ) as raised,
    ):
        table.update(arrow_batch(BATCH), at=2)

    assert not isinstance(raised.value, UnsyncedError)
    assert table.status().clock == 1
    assert table.update(arrow_batch(BATCH), at=2).quarantined == 1


def test_an_old_quarantine_that_cannot_be_synced_is_synced_by_the_next_one(table: OpenTable, tmp_path: Path) -> None:
    """What expires there is told as a warning, and the next one does not take the disk to be in order."""
    table.update(arrow_batch(BATCH), at=1)
    table.alter(quarantine_time="1")
    broken = OSError(errno.EIO, os.strerror(errno.EIO))
    for slot in range(2, 9):
        with traced(tmp_path / "w", lambda place: broken if place == "t.quarantine/_delta_log" else None):
            warned = table.update(at=slot).warnings
        if any("t.quarantine" in warning for warning in warned):
            break
    else:
        pytest.fail("nothing of the quarantine expired")

    with traced(tmp_path / "w") as trace:
        table.update(at=slot + 1)
    assert "sync t.quarantine/_delta_log" in trace[: trace.place("os.link")]


def test_who_takes_over_writes_the_head_record_that_the_log_is_ahead_of(table: OpenTable, tmp_path: Path) -> None:
    table.update(at=1)

    class Killed(BaseException):
        pass

    with traced(tmp_path / "w", lambda place: Killed() if place == "t/_delta_log" else None), pytest.raises(Killed):
        table.update(arrow_batch(BATCH), at=2)
    before = read_head(table.table.hidden).head
    assert before is not None
    assert before.version == 1

    assert table.update(arrow_batch(BATCH)).already_applied

    after = read_head(table.table.hidden).head
    assert after is not None
    assert (after.version, after.entry) == (2, table.table.snapshot().hash)


def test_a_disk_that_refuses_before_the_entry_leaves_everything_as_it_was(table: OpenTable, tmp_path: Path) -> None:
    table.update(at=1)
    broken = OSError(errno.EIO, os.strerror(errno.EIO))
    for end in (".parquet", ".json.tmp"):

        def refuse(place: str, end: str = end) -> OSError | None:
            return broken if place.endswith(end) else None

        with (
            traced(tmp_path / "w", refuse),
            pytest.raises(EngineError, match="the disk reports an error; nothing was changed"),
        ):
            table.update(arrow_batch(BATCH[:9]), at=2)
    assert table.table.snapshot().version == 1
    assert scanned_ids(table) == []

    assert table.update(arrow_batch(BATCH[:9]), at=2).admitted == 7
    assert len(list(table.table.data_files())) == len(table.table.snapshot().files)


def test_a_commit_that_cannot_be_synced_is_told_and_stays(table: OpenTable, tmp_path: Path) -> None:
    broken = OSError(errno.EIO, os.strerror(errno.EIO))
    table.update(at=0)
    with (
        traced(tmp_path / "w", lambda place: broken if place == "t/_delta_log" else None),
        pytest.raises(UnsyncedError) as raised,
    ):
        table.update(arrow_batch(BATCH[:9]), at=1)

    assert str(raised.value).startswith(
        "commit 2 of table t was made, and may not be on the disk yet: the disk reports"
    )
    assert "nothing was changed" not in str(raised.value)
    assert scanned_ids(table) == list(range(9))
    assert table.update(arrow_batch(BATCH[:9])).already_applied


def test_a_file_system_that_cannot_sync_says_what_to_do(table: OpenTable, tmp_path: Path) -> None:
    refused = OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    with traced(tmp_path / "w", lambda _: refused):
        with pytest.raises(EngineError, match=r"cannot sync .*, or set durable to false"):
            table.update(arrow_batch(BATCH), at=1)
        assert careless(table).update(arrow_batch(BATCH), at=1).admitted == 9


def test_who_does_not_wait_leaves_a_word_and_the_next_one_makes_up_for_it(table: OpenTable, tmp_path: Path) -> None:
    unsynced = table.table.hidden / UNSYNCED
    with traced(tmp_path / "w") as trace:
        careless(table).update(arrow_batch(BATCH), at=1)
        careless(table).update(at=2)
    assert not [done for done in trace if done.startswith("sync")]
    assert unsynced.exists()

    everything = {f"t/{path}" for path in table.table.all_files()} | {"t/_delta_log/" + entry_name(n) for n in range(3)}
    everything |= {path.relative_to(tmp_path / "w").as_posix() for path in table.table.quarantine.rglob("*")}
    with traced(tmp_path / "w") as trace:
        table.update(at=3)
    first = trace.place("os.link")
    assert {f"sync {place}" for place in everything} <= set(trace[:first])
    assert trace.place(f"os.remove t/_ebb/{UNSYNCED}") < first
    assert not unsynced.exists()


def test_adopting_syncs_what_another_tool_wrote(table: OpenTable, tmp_path: Path) -> None:
    table.update(at=1)
    append(table, records((7, "k", 1, 5)))
    theirs = table.table.snapshot().files[0].path
    version = table.table.snapshot().version
    with traced(tmp_path / "w") as trace:
        table.adopt()

    linked = trace.place("os.link t/_delta_log/_commit_")
    assert {f"sync t/{theirs}", f"sync t/_delta_log/{entry_name(version)}"} <= set(trace[:linked])


def test_many_places_are_synced_at_once_and_each_once(tmp_path: Path) -> None:
    places = [tmp_path / str(number) for number in range(40)]
    for place in places:
        place.write_bytes(b"x")
    disk = Disk()
    with traced(tmp_path) as trace:
        disk.sync([*places, *places])
    assert sorted(trace) == sorted(f"sync {place.name}" for place in places)
    assert disk.syncs == len(places)
    with pytest.raises(FileNotFoundError):
        disk.sync([tmp_path / "none"])


def test_waiting_for_the_disk_is_in_no_other_phase() -> None:
    disk = Disk(seconds=5.0)
    phases = Phases(disk)
    with phases.timed("erase"):
        disk.seconds += 2.0
        phases.add("erase", 2.0)  # which the clock inside did not count
    assert phases.rounded() == {"sync": 2.0}


@pytest.mark.parametrize("durable", [True, False])
def test_every_way_to_a_table_waits_as_the_settings_say(*, durable: bool, tmp_path: Path) -> None:
    warehouse = Warehouse(Settings(warehouse=tmp_path / "w", durable=durable), now=lambda: NOW)
    made = integer_table(warehouse, landing=str(tmp_path / "landing"))
    assert {made.table.disk.is_durable, warehouse.table("t").table.disk.is_durable} == {durable}
    assert [table.table.disk.is_durable for table in warehouse.tables()] == [durable]
    made.update(at=1)
    (tmp_path / "landing/_taken/2").mkdir(parents=True)  # an empty tick to finish
    with traced(tmp_path) as trace:
        list(warehouse.run())
    assert made.table.snapshot().ledger.clock == 2
    assert bool([done for done in trace if done.startswith("sync")]) == durable
