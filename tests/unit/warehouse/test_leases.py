"""The leases of a process: shared, renewed, ended with their readers, and judged by whoever erases."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ebb import OpenTable
from ebb.index.errors import CorruptionError, ErasedError, LeaseEndedError
from ebb.index.lease import Ended, Lease
from ebb.warehouse.read.window import Window
from ebb.warehouse.store.leases import end_lease, is_dead, leases_in, new_lease, sweep_leases, write_lease
from ebb.warehouse.table.leases import HeldLease, Leases, leases_of, live_leases, own_leases
from ebb.warehouse.table.snapshot import Snapshot
from tests.builders import NOW, arrow_batch, integer_table, open_warehouse
from tests.faults import armed, full_disk
from tests.model import Record

SECONDS = 90.0


class Clocks:
    """A wall clock and a monotonic one that are moved by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def leases(clocks: Clocks) -> Leases:
    """Return leases that nobody looks after but the test."""
    return Leases(clocks.monotonic, SECONDS)


@pytest.fixture
def table(tmp_path: Path) -> OpenTable:
    """Return a table without a grace period whose updates rewrite all they touch."""
    wish = {"strategy": "rebuild", "grid": "2x2", "reader_time": "0", "span": "20", "deletion_bound": "12"}
    found = integer_table(open_warehouse(tmp_path / "w"), **wish)
    update(found, 1, 2)
    return found


def update(table: OpenTable, *slots: int) -> None:
    for slot in slots:
        table.update(arrow_batch([Record(10 * slot + n, f"k{n}", slot, slot + n) for n in range(1, 9)]), at=slot)


def taken(leases: Leases, table: OpenTable, clocks: Clocks) -> tuple[Snapshot, HeldLease]:
    return leases.pinned(table.table, "scan", clocks.now)


def lease_of(window: Window) -> HeldLease:
    assert window.lease is not None
    return window.lease


def on_disk(table: OpenTable) -> list[str]:
    return sorted(path.suffix for path in leases_of(table.table).iterdir())


# --- Of one process -------------------------------------------------------------------------------------------------


def test_everybody_who_reads_a_version_shares_one_lease(table: OpenTable) -> None:
    other = OpenTable(table.warehouse, table.table)
    windows = [table.at_latest(), other.at_latest(), table.up_to_date(), table.at_latest(as_of=3)]
    stream = windows[0].scan()

    assert len({id(window.lease) for window in windows}) == 1
    (lease,) = leases_in(leases_of(table.table))
    assert (lease.version, lease.pid, lease.what) == (windows[0].version, os.getpid(), "python")
    assert stream.read_all().num_rows == 15


def test_a_lease_says_who_reads_and_until_when(table: OpenTable, leases: Leases, clocks: Clocks) -> None:
    snapshot, held = taken(leases, table, clocks)

    (lease,) = leases_in(leases_of(table.table))
    assert lease == held.kept.lease
    assert (lease.version, lease.clock, lease.what) == (snapshot.version, 2, "scan")
    assert (lease.until - lease.since) / 1000 == SECONDS
    told = json.loads(next(leases_of(table.table).iterdir()).read_text())
    assert set(told) == {"id", "version", "clock", "pid", "host", "user", "what", "process", "since", "until"}


def test_it_is_renewed_every_third_of_its_time(table: OpenTable, leases: Leases, clocks: Clocks) -> None:
    _, held = taken(leases, table, clocks)
    untils = []
    for _ in range(12):
        clocks.seconds += 10
        leases.look()
        (lease,) = live_leases(table.table, clocks.now())
        untils.append(lease.until / 1000 - NOW.timestamp())

    assert untils == [90, 90, 120, 120, 120, 150, 150, 150, 180, 180, 180, 210]
    assert held.why_erased(1) is None


def test_it_ends_with_its_last_user_but_a_moment_later(table: OpenTable, leases: Leases, clocks: Clocks) -> None:
    _, held = taken(leases, table, clocks)
    _, again = taken(leases, table, clocks)
    assert again is held
    del held
    leases.look()
    assert on_disk(table) == [".lease"]
    del again
    leases.look()
    assert on_disk(table) == [".lease"], "the next window of this version would cost nothing"
    _, back = taken(leases, table, clocks)
    leases.look()
    assert on_disk(table) == [".lease"]
    del back
    leases.look()
    leases.look()
    assert on_disk(table) == []


def test_a_known_version_is_pinned_without_touching_its_folder(table: OpenTable) -> None:
    window = table.at_latest()
    with armed(leases_of(table.table), full_disk()) as fault:
        for _ in range(3):
            table.probe("k1")
    assert (fault.seen, window.version) == ([], table.at_latest().version)


def test_a_stream_alone_keeps_the_lease_until_it_is_drained(table: OpenTable) -> None:
    stream = table.scan(["id"])
    gc.collect()
    update(table, 3)
    assert table.erase().files_leased > 0

    assert len(stream.read_all()) == 15
    update(table, 4)
    assert table.erase().files_leased == 0
    assert on_disk(table) == []


def test_a_session_of_sql_keeps_the_window_that_it_shows(table: OpenTable) -> None:
    session = table.warehouse.sql_session()
    count = session.answer("SELECT count(*) AS n FROM t")
    assert count.read_all()["n"].to_pylist() == [15]
    update(table, 3)
    assert table.erase().files_leased > 0
    assert session.answer("SELECT count(*) AS n FROM t").read_all()["n"].to_pylist() == [21]
    assert table.erase().files_leased == 0, "it shows the next one"


def test_a_process_that_ends_takes_its_leases_away(table: OpenTable) -> None:
    code = (
        "import sys, ebb; w = ebb.open(sys.argv[1]).table('t').at_latest(); "
        "print(len(list((w.snapshot.table.hidden / 'leases').iterdir())))"
    )
    child = subprocess.run(
        [sys.executable, "-c", code, str(table.warehouse.root)], capture_output=True, text=True, check=True
    )

    assert child.stdout.split() == ["1"]
    assert on_disk(table) == []


def _pin_in_child(table: OpenTable, inherited: HeldLease, answers: Any) -> None:
    held = lease_of(table.at_latest())
    answers.put((held is inherited, held.why_erased(1) is None, inherited.why_erased(1) is None))
    answers.close()
    answers.join_thread()


def test_a_child_holds_leases_of_its_own(table: OpenTable) -> None:
    """A fork copies what the parent knows, and not the thread that renews it."""
    window = table.at_latest()
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_pin_in_child, args=(table, lease_of(window), answers))
    child.start()
    try:
        assert answers.get(timeout=30) == (False, True, True)
        child.join(30)
        assert child.exitcode == 0
    finally:
        child.kill()
    assert sorted(lease.pid for lease in leases_in(leases_of(table.table))) == sorted([os.getpid(), child.pid or 0])
    assert [lease.pid for lease in live_leases(table.table, NOW)] == [os.getpid()], "the child is dead"


# --- What becomes of it ---------------------------------------------------------------------------------------------


def test_erase_keeps_what_is_read_and_says_so(table: OpenTable) -> None:
    window = table.at_latest()
    update(table, 3, 4)
    planned, done = table.erase(dry_run=True), table.erase()

    assert (planned.files_leased, planned.files_erased) == (done.files_leased, done.files_erased)
    assert done.files_leased > 0
    assert (done.files_erased, done.files_waiting, done.leases_ended) == (0, 0, 0)
    status = table.status()
    assert status.files_leased == done.files_leased
    assert [lease.version for lease in status.leases] == [window.version]
    assert len(window.scan().read_all()) == 15


def test_a_lease_never_breaks_the_bound_and_its_reader_is_told(table: OpenTable) -> None:
    """The oldest record that the reader sees is due to go from 3 on, so its files must be gone at 15."""
    window = table.at_latest()
    before = [file.path for file in window.snapshot.files]
    for slot in range(3, 14):
        update(table, slot)
        assert all((table.table.folder / path).exists() for path in before), slot
    planned = table.erase(dry_run=True)
    assert planned.leases_ended == 0
    table.update(at=14)
    assert table.erase(dry_run=True).leases_ended == 1
    assert table.erase().leases_ended == 1
    assert not any((table.table.folder / path).exists() for path in before)

    with pytest.raises(LeaseEndedError, match=r"version 2 of table t was erased .* the deletion bound of 12; read"):
        window.scan().read_all()
    with pytest.raises(LeaseEndedError):
        window.probe("k1")
    assert table.status().deletion_bound_kept
    assert table.probe("k8").num_rows


def test_a_session_of_sql_is_told_as_well(table: OpenTable) -> None:
    window = table.at_latest()
    session = table.warehouse.sql_session(lambda _: window)
    session.answer("SELECT id FROM t LIMIT 1").read_all()
    for slot in range(3, 16):
        update(table, slot)
    with pytest.raises(LeaseEndedError, match="read the table again"):
        session.answer("SELECT sum(length(pay)) FROM t").read_all()


def test_a_lease_that_somebody_removed_has_ended(table: OpenTable) -> None:
    window = table.at_latest()
    for path in leases_of(table.table).iterdir():
        path.unlink()
    update(table, 3)
    assert table.erase().files_erased

    with pytest.raises(LeaseEndedError, match="because somebody removed it"):
        window.scan().read_all()


def test_a_renewal_brings_no_lease_back(table: OpenTable, leases: Leases, clocks: Clocks) -> None:
    _, held = taken(leases, table, clocks)
    end_lease(leases_of(table.table), held.kept.lease, Ended(7, "of a test"))
    clocks.seconds += SECONDS / 2
    leases.look()

    assert on_disk(table) == [".ended"]
    assert held.kept.end == Ended(7, "of a test")
    error = held.why_erased(5)
    assert isinstance(error, LeaseEndedError)
    assert error.args == ("t", 5, "1970-01-01T00:00:00Z", "of a test")
    _, another = taken(leases, table, clocks)
    assert another is not held
    assert on_disk(table) == [".ended", ".lease"]


@pytest.mark.parametrize("is_removed", [True, False])
def test_nobody_new_relies_on_a_lease_that_was_not_renewed_in_time(
    table: OpenTable, leases: Leases, clocks: Clocks, *, is_removed: bool
) -> None:
    """As when the machine was suspended; somebody may have erased meanwhile."""
    _, first = taken(leases, table, clocks)
    clocks.seconds += SECONDS
    if is_removed:
        end_lease(leases_of(table.table), first.kept.lease, Ended(7, "of a test"))
    _, another = taken(leases, table, clocks)

    assert (another is first) is not is_removed
    assert another.kept.lease in live_leases(table.table, clocks.now())
    assert (first.kept.end is not None) is is_removed


def test_nobody_new_relies_on_a_lease_that_is_gone(table: OpenTable) -> None:
    window = table.at_latest()
    for path in leases_of(table.table).iterdir():
        path.unlink()
    another = table.at_latest()

    assert another.version == window.version
    assert [lease.id for lease in live_leases(table.table, NOW)] == [lease_of(another).kept.lease.id]
    assert lease_of(window).kept.end is not None


def test_a_lost_file_that_is_live_is_damage_and_no_matter_of_leases(table: OpenTable) -> None:
    window = table.at_latest()
    for file in window.snapshot.files:
        (table.table.folder / file.path).unlink()
    with pytest.raises(CorruptionError, match="a data file is missing"):
        window.scan().read_all()


def test_a_lost_file_under_a_lease_that_is_held_is_damage_too(table: OpenTable) -> None:
    """Nothing may have erased it: a short answer would be wrong, and so would be an excuse."""
    window = table.at_latest()
    update(table, 3, 4)
    gone = {file.path for file in window.snapshot.files} - {file.path for file in table.table.snapshot().files}
    for path in gone:
        (table.table.folder / path).unlink()
    with pytest.raises(CorruptionError, match="a data file is missing"):
        window.scan().read_all()


def test_who_can_write_no_lease_relies_on_the_grace_period(table: OpenTable) -> None:
    with armed(leases_of(table.table), full_disk(), 0) as fault:
        window = table.at_latest()
    assert fault.seen
    assert live_leases(table.table, NOW) == []
    assert len(window.scan().read_all()) == 15
    update(table, 3)
    assert table.erase().files_leased == 0
    with pytest.raises(ErasedError, match=r"could write no lease \(the disk is full\), and the grace period is over"):
        window.scan().read_all()


def holds_bytes(table: OpenTable, text: str) -> bool:
    """Search every byte: pages of so few records are not compressed."""
    return any(text.encode() in path.read_bytes() for path in table.table.folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("is_live", [True, False])
def test_no_lease_keeps_what_was_forgotten(table: OpenTable, *, is_live: bool) -> None:
    """Also what only a file still holds that was removed before, and that the lease kept until now."""
    secret = Record(99, "a-key-to-forget", 3, 9 if is_live else 4)
    table.update(arrow_batch([secret]), at=3)
    window = table.at_latest()
    update(table, 4)
    assert table.erase().files_leased
    assert bool(table.probe(secret.key).num_rows) == is_live
    assert holds_bytes(table, str(secret.key))

    table.forget(secret.key)
    table.update(at=5)

    assert not holds_bytes(table, str(secret.key))
    with pytest.raises(LeaseEndedError):
        window.scan().read_all()


# --- Of others ------------------------------------------------------------------------------------------------------


def foreign(table: OpenTable, **other: Any) -> Lease:
    """Write a lease as a process of another machine does."""
    now_ms = int(NOW.timestamp() * 1000)
    lease = new_lease(version=1, clock=1, what="scan", since=now_ms, until=now_ms + 1000)
    lease = replace(lease, process="elsewhere pid:[1] 7", host="elsewhere", **other)
    leases_of(table.table).mkdir(exist_ok=True)
    write_lease(leases_of(table.table), lease)
    return lease


def test_a_lease_of_another_machine_counts_until_its_time_is_over(table: OpenTable) -> None:
    lease = foreign(table, pid=2**22)
    update(table, 3)
    assert table.erase().files_leased > 0

    later = OpenTable(open_warehouse(table.warehouse.root, NOW + timedelta(seconds=1)), table.table)
    done = later.erase()
    assert (done.files_leased, done.leases_ended) == (0, 0)
    assert done.files_erased > 0
    word = json.loads((leases_of(table.table) / f"{lease.id}.ended").read_text())
    assert word["why"] == "it was not renewed after 2026-01-01T12:00:01Z"


def test_a_process_that_died_here_is_known_to_be_dead(table: OpenTable) -> None:
    code = (
        "import sys, os, ebb; w = ebb.open(sys.argv[1]).table('t').at_latest(); print('READY', flush=True); "
        "sys.stdin.read(); os.kill(os.getpid(), 9)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(table.warehouse.root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"READY\n"
        (lease,) = leases_in(leases_of(table.table))
        assert not is_dead(lease)
        assert not is_dead(replace(lease, process="elsewhere pid:[1] 7")), "nobody can look there"
        assert is_dead(replace(lease, process=lease.process + "1")), "another process has its number"
    assert is_dead(lease)
    assert on_disk(table) == [".lease"]
    update(table, 3)
    assert table.erase().files_leased == 0
    assert on_disk(table) == []


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[:0],
        lambda text: f"[{text}]",
        lambda text: text.replace('"version": 1', '"version": "1"'),
        lambda text: text.replace('"version": 1', '"version": true'),
        lambda text: text.replace('"pid": ', '"pid": -'),
        lambda text: text.replace('"what"', '"where"'),
        lambda text: text.replace('"id": "', '"id": "../'),
        lambda text: text.replace('"until": ', '"until": 9' + "0" * 30),
    ],
)
def test_what_is_no_lease_keeps_nothing_and_stops_nobody(table: OpenTable, spoil: Callable[[str], str]) -> None:
    lease = foreign(table)
    path = leases_of(table.table) / f"{lease.id}.lease"
    path.write_text(spoil(path.read_text()))
    update(table, 3)

    assert leases_in(leases_of(table.table)) == []
    assert table.erase().files_leased == 0
    assert table.status().leases == ()


def test_what_is_left_in_the_folder_goes_after_a_day(table: OpenTable) -> None:
    folder = leases_of(table.table)
    folder.mkdir(exist_ok=True)
    lease = foreign(table)
    for name in ("0123456789ab.ended", "0123456789ab.new"):
        (folder / name).touch()
        os.utime(folder / name, (NOW.timestamp(), NOW.timestamp()))
    day = 24 * 60 * 60 * 1000
    sweep_leases(folder, int(NOW.timestamp() * 1000) + day)
    assert len(on_disk(table)) == 3
    sweep_leases(folder, int(NOW.timestamp() * 1000) + day + 1)
    assert [path.name for path in folder.iterdir()] == [f"{lease.id}.lease"]


def test_the_leases_of_this_process_are_looked_after_by_one_thread(table: OpenTable) -> None:
    window = table.at_latest()
    assert lease_of(window).leases is own_leases()
    (thread,) = [each for each in threading.enumerate() if each.name == "ebb-leases"]
    assert thread.daemon


def test_a_thread_that_cannot_start_is_started_by_a_later_window(table: OpenTable) -> None:
    """As with too many of them. Here no address space has room for its stack."""
    code = (
        "import sys, threading, ebb; table = ebb.open(sys.argv[1]).table('t')\n"
        "def looked_after(): return any(each.name == 'ebb-leases' for each in threading.enumerate())\n"
        "before = threading.stack_size(2**46)\n"
        "first = table.at_latest(); print(len(table.status().leases), looked_after())\n"
        "threading.stack_size(before)\n"
        "print(table.at_latest().lease is first.lease, looked_after())"
    )
    command = [sys.executable, "-c", code, str(table.warehouse.root)]
    child = subprocess.run(command, capture_output=True, text=True, check=False)

    assert child.returncode == 0, child.stderr
    assert child.stdout.split() == ["1", "False", "True", "True"]


def test_a_lease_that_cannot_be_renewed_ends_no_other(table: OpenTable, leases: Leases, clocks: Clocks) -> None:
    moments = iter([NOW, NOW])  # of a warehouse whose clock fails later
    other = integer_table(table.warehouse, "other")
    _, failing = leases.pinned(other.table, "scan", lambda: next(moments))
    _, held = taken(leases, table, clocks)
    clocks.seconds += SECONDS / 2
    leases.look()

    assert failing.kept.end is None
    (lease,) = live_leases(table.table, clocks.now() + timedelta(seconds=SECONDS * 0.9))
    assert lease == held.kept.lease


def test_times_are_those_of_the_warehouse(table: OpenTable) -> None:
    window = table.at_latest()
    assert table.status().leases[0].since == "2026-01-01T12:00:00Z"
    assert datetime.fromtimestamp(lease_of(window).kept.lease.since / 1000, tz=UTC) == NOW


# --- Of root, beside the owner --------------------------------------------------------------------------------------

_OWNER = """
import json, os, sys
from pathlib import Path
from tests.builders import arrow_batch, integer_table, open_warehouse
from tests.model import Record
def work(table, slot):
    batch = arrow_batch([Record(10 * slot + n, f"k{n}", slot, slot + n) for n in range(1, 3)])
    warned = list(table.update(batch, at=slot).warnings)
    done, status = table.erase(), table.status()
    return [done.files_leased > 0, len(status.leases), warned, len(table.check().findings)]
root = Path(sys.argv[1])
imports = integer_table(open_warehouse(root / "imports"), strategy="rebuild")  # while all that is needed can be read
for slot in (1, 2):
    work(imports, slot)
os.setgroups([]); os.setgid(65534); os.setuid(65534)
print(json.dumps(work(open_warehouse(root / "w").table("t"), 3)))
"""
is_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


@pytest.fixture
def of_nobody() -> Iterator[OpenTable]:
    """Return a table that is not root's, in a folder that its owner may enter."""
    with tempfile.TemporaryDirectory() as folder:
        wish = {"strategy": "rebuild", "grid": "2x2", "reader_time": "0", "span": "20", "deletion_bound": "12"}
        table = integer_table(open_warehouse(Path(folder) / "w"), **wish)
        update(table, 1, 2)
        for path in (Path(folder), *Path(folder).rglob("*")):
            os.chown(path, 65534, 65534)
        yield table


def owner_works(table: OpenTable) -> list[Any]:
    """Return whether files are leased, how many leases there are, the warnings, and what a check finds."""
    command = [sys.executable, "-c", _OWNER, str(table.warehouse.root.parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


def not_of_the_owner(table: OpenTable) -> list[str]:
    return [str(path) for path in table.table.folder.rglob("*") if path.lstat().st_uid != 65534]


@is_root
@pytest.mark.parametrize("is_first", [True, False])
def test_what_root_leaves_behind_as_a_reader_belongs_to_the_owner(of_nobody: OpenTable, *, is_first: bool) -> None:
    if is_first:
        leases_of(of_nobody.table).rmdir()
    for path in [*of_nobody.table.folder.rglob("*.keys"), *of_nobody.table.folder.rglob("lock")]:
        path.unlink()
    window = of_nobody.at_latest()
    assert window.probe("k1").num_rows
    of_nobody.check()
    own_lock = of_nobody.table.hidden / "lock"
    with of_nobody.table.lock():
        pass

    assert on_disk(of_nobody) == [".lease"]
    assert own_lock.exists()
    assert list(of_nobody.table.folder.rglob("*.keys"))
    assert (of_nobody.table.hidden / "checked").exists()
    assert not_of_the_owner(of_nobody) == []
    assert owner_works(of_nobody) == [True, 1, [], 0]


@is_root
@pytest.mark.parametrize("what", ["folder", "file"])
def test_a_lease_that_may_not_be_read_stops_no_erasure(of_nobody: OpenTable, what: str) -> None:
    """As when an administrator copied or changed it: it could not be ended, and would break the bound."""
    foreign(of_nobody)
    folder = leases_of(of_nobody.table)
    for path in (folder, *folder.iterdir()):
        os.chown(path, 0, 0)
        path.chmod(0o700 if path.is_dir() else 0o600)
    if what == "file":
        os.chown(folder, 65534, 65534)

    assert owner_works(of_nobody) == [False, 0, [], 0]
