"""Backups of real tables: what is copied, what is looked after, what is refused, and what a kill leaves."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ebb import OpenTable
from ebb.index.errors import CorruptionError, EngineError, InputError, UsageError, WarehouseError
from tests.backups import LAZY, RETIRE, apply_batch, batch_of_slot, canaries_below, digest_of
from tests.builders import arrow_batch, integer_table, open_warehouse, records, scanned_ids
from tests.faults import Interruption, armed, broken_disk, full_disk, watched
from tests.model import Model
from tests.seeds import drawn_seed, rounds

_WRITER = """
import itertools, sys
from pathlib import Path
from tests.backups import apply_batch
from tests.builders import open_warehouse

table = open_warehouse(Path(sys.argv[1])).table("t")
for slot in itertools.count(3):
    apply_batch(table, slot)
    print(slot, flush=True)
"""
_COPIER = """
import os, sys
from pathlib import Path
import pyarrow.parquet
from tests.backups import apply_batch
from tests.builders import open_warehouse

def say(text):
    os.write(1, f"{text}\\n".encode())

def copy(slot):
    table = open_warehouse(Path(sys.argv[1])).table("t")
    apply_batch(table, slot)
    say("BEGUN")
    table.backup(sys.argv[2])
    say("DONE")

for line in sys.stdin:
    child = os.fork()
    if not child:
        copy(int(line))
        os._exit(0)
    say(child)
    os.waitpid(child, 0)
    say("ENDED")
"""


def window_at(table: OpenTable, clock: int, *, over: int) -> list[int]:
    """Return the ids in the model's window that had not expired at a later clock either."""
    model = Model(table.table.snapshot().spec.timeline)
    for slot in range(1, clock + 1):
        model.apply(slot, batch_of_slot(slot))
    return sorted(record.id for record in model.window() if (record.expires or 0) > over)


def restored_clock(folder: Path, backups: Path) -> int:
    """Restore a backup, check that it is one of the model's windows without what expired since, and return which one."""
    again = open_warehouse(folder)
    done = again.restore(backups, "t")
    copy, clock = again.table("t"), done.slot or 0
    assert scanned_ids(copy) == window_at(copy, clock, over=done.expired_through or 0)
    shutil.rmtree(folder)
    return clock


@pytest.fixture
def table(tmp_path: Path) -> OpenTable:
    """Return a table with two batches."""
    made = integer_table(open_warehouse(tmp_path / "w"), **LAZY)
    for slot in (1, 2):
        apply_batch(made, slot)
    return made


def test_a_second_backup_copies_only_what_is_new(table: OpenTable, tmp_path: Path) -> None:
    first = table.backup(tmp_path / "b")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "b").rglob("u*/**/*.parquet")}
    known = {file.path for file in table.table.snapshot().files}
    apply_batch(table, 3)

    second = table.backup(tmp_path / "b")

    snapshot = table.table.snapshot()
    added = [file for file in snapshot.files if file.path not in known and not file.is_dead(3)]
    entries = range(first.version + 1, snapshot.version + 1)
    log_bytes = sum((table.table.log / f"{version:020}.json").stat().st_size for version in entries)
    refused = sum(p.stat().st_size for p in table.table.quarantine.glob("_slot=3/*"))
    assert (first.files_copied, second.files_copied) == (first.files, len(added))
    assert second.bytes_copied == sum(file.size_bytes for file in added) + log_bytes + refused
    left = {path: path.stat().st_mtime_ns for path in before if path.exists()}
    assert left
    assert left.items() <= before.items(), "what was there was not written again"
    assert table.backup(tmp_path / "b").bytes_copied == 0


def test_a_dry_run_says_what_would_be_copied_and_changes_nothing(table: OpenTable, tmp_path: Path) -> None:
    would = table.backup(tmp_path / "b", dry_run=True)

    assert would.files_copied == would.files > 0
    assert not (tmp_path / "b").exists()
    assert not (table.table.hidden / "backups").exists()


def test_a_backup_is_one_version_while_another_process_updates(table: OpenTable, tmp_path: Path) -> None:
    command = [sys.executable, "-c", _WRITER, str(table.table.root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        try:
            assert writer.stdout is not None
            writer.stdout.readline()
            clocks = []
            for _ in range(rounds(10)):
                table.backup(tmp_path / "b", wait=60)
                clocks.append(restored_clock(tmp_path / "again", tmp_path / "b"))
            assert writer.poll() is None, "the writer should outlive the backups"
        finally:
            writer.kill()

    assert clocks == sorted(clocks)
    assert len(set(clocks)) > 5, "it should have been at work"


def test_a_backup_takes_a_newer_version_if_files_of_its_own_are_erased_meanwhile(tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"), **RETIRE)
    apply_batch(table, 1)
    said: list[str] = []

    def go_on(text: str) -> None:
        if text.startswith("copying") and not said:
            for slot in range(2, 9):
                apply_batch(table, slot)
        said.append(text)

    done = table.backup(tmp_path / "b", progress=go_on)

    assert (done.tries, done.slot) == (2, 8)
    assert "files were erased meanwhile: taking the newest version" in said
    assert restored_clock(tmp_path / "again", tmp_path / "b") == 8


@pytest.mark.parametrize("error", [Interruption(), full_disk(), broken_disk()])
def test_a_backup_that_is_broken_off_anywhere_leaves_the_one_before_or_the_new_one(
    error: BaseException, table: OpenTable, tmp_path: Path
) -> None:
    table.backup(tmp_path / "b")
    for slot in (3, 4):
        apply_batch(table, slot)
    shutil.copytree(tmp_path / "b", tmp_path / "first")
    with armed(tmp_path / "b", error) as watched:
        table.backup(tmp_path / "b")
    rng = random.Random(drawn_seed())
    for at in sorted(rng.sample(range(len(watched.seen)), min(rounds(4), len(watched.seen)))):
        shutil.rmtree(tmp_path / "b")
        shutil.copytree(tmp_path / "first", tmp_path / "b")
        with armed(tmp_path / "b", error, at), contextlib.suppress(Interruption, WarehouseError):
            table.backup(tmp_path / "b")

        assert restored_clock(tmp_path / "again", tmp_path / "b") in (2, 4), watched.seen[at]
        table.backup(tmp_path / "b")
        assert restored_clock(tmp_path / "again", tmp_path / "b") == 4
        assert names_below(tmp_path / "b") == names_of_manifest(table, tmp_path / "b"), "nothing else is left there"


def names_below(backups: Path) -> set[str]:
    return {name.removeprefix("t/") for name in digest_of(backups)}


def names_of_manifest(table: OpenTable, backups: Path) -> set[str]:
    from ebb.maintenance.backup_place import place_of

    manifest = place_of(backups, table.table).manifest()
    assert manifest is not None
    named = {f"t.backup/{file.path}" for file in manifest.files} | {f"t.backup/{file.path}" for file in manifest.others}
    return named | {f"t.backup.quarantine/{file.path}" for file in manifest.refused} | {"manifest"}


def test_a_killed_backup_leaves_the_one_before_or_the_new_one(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    integer_table(open_warehouse(tmp_path / "w"), **LAZY)
    rng, kills, outcomes = random.Random(drawn_seed()), rounds(10), []
    command = [sys.executable, "-c", _COPIER, str(tmp_path / "w"), str(tmp_path / "b")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as copier:
        assert copier.stdin is not None
        assert copier.stdout is not None
        seconds, done = 0.0, 0
        for slot in range(1, kills + 2):  # the first one is not killed, so that it is known how long they take
            copier.stdin.write(f"{slot}\n")
            child = int(copier.stdout.readline())
            assert copier.stdout.readline() == "BEGUN\n"
            began = time.monotonic()
            if slot > 1:
                time.sleep(rng.uniform(0, 3 * seconds))
                with contextlib.suppress(ProcessLookupError):  # it was done by then
                    os.kill(child, signal.SIGKILL)
            said = copier.stdout.readline()
            seconds = seconds or time.monotonic() - began
            if said == "DONE\n":
                done, said = slot, copier.stdout.readline()
            assert said == "ENDED\n"
            clock = restored_clock(tmp_path / "again", tmp_path / "b")
            assert clock in (done, slot)
            outcomes.append(clock == slot)
            done = clock
        copier.stdin.close()

    told = f"kills of backups: {kills}, torn 0, {sum(outcomes) - 1} with the new one in place"
    record_property("figures", told)


KINDS = {
    "data file": "t.backup/u*/**/*.parquet",
    "log entry": "t.backup/_delta_log/*.json",
    "checkpoint": "t.backup/_delta_log/*.checkpoint.parquet",
    "state of the ledger": "t.backup/_ebb/ledger/state-*",
    "segment of the ledger": "t.backup/_ebb/ledger/seen-*",
    "quarantine": "t.backup.quarantine/*/*.parquet",
}


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a warehouse whose table has checkpoints and states of its ledger, and its backup beside it."""
    folder = tmp_path_factory.mktemp("long")
    made = integer_table(open_warehouse(folder / "w"), **LAZY)
    for slot in range(1, 32):
        apply_batch(made, slot)
    made.backup(folder / "b")
    return folder


def damages(file: Path, rng: random.Random) -> dict[str, Callable[[], object]]:
    data = file.read_bytes()
    flipped = bytearray(data)
    flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return {
        "flipped": lambda: file.write_bytes(bytes(flipped)),
        "cut off": lambda: file.write_bytes(data[: rng.randrange(len(data))]),
        "missing": file.unlink,
        "a link": lambda: file.symlink_to(file.rename(file.with_name("elsewhere"))),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_damage_of_every_kind_of_file_is_found_and_healed(
    kind: str, long: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    rng = random.Random(drawn_seed())
    count = 0
    for how in ("flipped", "cut off", "missing", "a link"):
        shutil.copytree(long, tmp_path / "c", symlinks=True)
        warehouse = open_warehouse(tmp_path / "c" / "w")
        again = open_warehouse(tmp_path / "again")
        file = rng.choice(sorted((tmp_path / "c" / "b" / "t").glob(KINDS[kind])))
        damages(file, rng)[how]()

        for dry_run in (True, False):
            with pytest.raises(CorruptionError) as refused:
                again.restore(tmp_path / "c" / "b", "t", dry_run=dry_run)
            assert file.name in str(refused.value), how
            assert not list(again.root.glob("*")) if again.root.exists() else True
        if how == "a link":
            with pytest.raises(CorruptionError, match="link"):
                warehouse.table("t").backup(tmp_path / "c" / "b", verify=True)
        else:
            done = warehouse.table("t").backup(tmp_path / "c" / "b", verify=True)
            assert [Path(name).name for name in done.repaired] == [file.name]
            assert restored_clock(tmp_path / "again", tmp_path / "c" / "b") == 31
        shutil.rmtree(tmp_path / "c")
        count += 1
    record_property("figures", f"damages of a backup, {kind}: {count}, found {count}")


def test_a_damaged_manifest_is_named_and_can_be_made_anew_from_what_is_there(table: OpenTable, tmp_path: Path) -> None:
    table.backup(tmp_path / "b")
    manifest = tmp_path / "b/t/manifest"
    written = manifest.read_bytes()
    for place in (0, len(written) // 2, len(written) - 2):
        manifest.write_bytes(written[:place] + bytes([written[place] ^ 4]) + written[place + 1 :])
        for work in (
            lambda: table.backup(tmp_path / "b"),
            lambda: table.warehouse.restore(tmp_path / "b", "t", new_name="u"),
        ):
            with pytest.raises(CorruptionError, match=f"manifest of a backup is damaged: {manifest}"):
                work()
    manifest.unlink()

    done = table.backup(tmp_path / "b")

    assert done.files_copied == 0
    assert restored_clock(tmp_path / "again", tmp_path / "b") == 2


def test_damage_of_the_table_is_not_copied(table: OpenTable, tmp_path: Path) -> None:
    file = next(path for path in table.table.folder.glob("u*/**/*.parquet"))
    data = bytearray(file.read_bytes())
    data[7] ^= 1
    file.write_bytes(bytes(data))

    with pytest.raises(CorruptionError, match="a data file is damaged") as refused:
        table.backup(tmp_path / "b")

    assert file.name in str(refused.value)
    with pytest.raises(InputError, match="there is no backup of table t"):
        table.warehouse.restore(tmp_path / "b", "t", new_name="u")


@pytest.mark.parametrize("place", ["w", "w/t", "w/x", "landing/in"])
def test_a_folder_that_is_no_place_for_a_backup_is_refused(place: str, table: OpenTable, tmp_path: Path) -> None:
    table.alter(landing=str(tmp_path / "landing"))
    before = digest_of(tmp_path)

    with pytest.raises(UsageError, match="is inside"):
        table.backup(tmp_path / place)

    assert digest_of(tmp_path) == before


def test_a_folder_that_leads_elsewhere_or_is_somebodys_is_refused(table: OpenTable, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b/t").symlink_to(tmp_path)
    (tmp_path / "c/t").mkdir(parents=True)
    (tmp_path / "c/t/photos").write_text("mine")
    (tmp_path / "w/t/link").symlink_to(tmp_path)
    (tmp_path / "file").write_text("mine")

    with pytest.raises(UsageError, match="is a symbolic link"):
        table.backup(tmp_path / "b")
    with pytest.raises(InputError, match="holds something else than a backup of table t: photos"):
        table.backup(tmp_path / "c")
    with pytest.raises(EngineError, match="cannot be"):
        table.backup(tmp_path / "file")
    assert (tmp_path / "c/t/photos").read_text() == "mine"


def test_a_link_among_the_copies_is_not_followed(table: OpenTable, tmp_path: Path) -> None:
    table.backup(tmp_path / "b")
    folder = next((tmp_path / "b/t/t.backup").glob("u*"))
    folder.rename(tmp_path / "moved")
    folder.symlink_to(tmp_path / "moved")
    before = digest_of(tmp_path / "moved")

    for work in (
        lambda: table.backup(tmp_path / "b"),
        lambda: table.warehouse.restore(tmp_path / "b", "t", new_name="u"),
    ):
        with pytest.raises(CorruptionError, match="a symbolic link"):
            work()

    assert digest_of(tmp_path / "moved") == before


def test_two_tables_of_one_name_do_not_share_a_place(table: OpenTable, tmp_path: Path) -> None:
    other = integer_table(open_warehouse(tmp_path / "other"), **LAZY)
    table.backup(tmp_path / "b")

    for dry_run in (True, False):
        with pytest.raises(InputError, match="holds the backup of another table t"):
            other.backup(tmp_path / "b", dry_run=dry_run)

    assert restored_clock(tmp_path / "again", tmp_path / "b") == 2


def test_a_backup_is_its_owners_alone(table: OpenTable, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b").chmod(0o2775)  # shared with a group, which a backup is not
    umask = os.umask(0)
    try:
        table.backup(tmp_path / "b")
        apply_batch(table, 3)
        table.backup(tmp_path / "b")
        open_warehouse(tmp_path / "again").restore(tmp_path / "b", "t")
    finally:
        os.umask(umask)

    for below in (
        tmp_path / "b/t",
        tmp_path / "again/t",
        tmp_path / "again/t.quarantine",
        table.table.hidden / "backups",
    ):
        for path in (below, *below.rglob("*")):
            assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_expired_records_leave_a_backup_that_cannot_be_reached_as_soon_as_it_can(
    table: OpenTable, tmp_path: Path
) -> None:
    table.backup(tmp_path / "b")
    before = canaries_below(tmp_path / "b")
    (tmp_path / "b").rename(tmp_path / "away")
    warnings: list[str] = []
    for slot in range(3, 15):
        warnings += table.update(at=slot).warnings

    told = table.status()
    assert any("it cannot be reached" in text for text in warnings)
    assert not told.backups[0].is_reachable
    assert "cannot be reached" in told.backups[0].reason
    assert [str(found).split(",")[0] for found in told.findings] == [
        f"the backup {tmp_path}/b/t of table t holds records that expired 12 ago"
    ]
    assert canaries_below(tmp_path / "away") == before

    (tmp_path / "away").rename(tmp_path / "b")
    table.update(at=15)

    assert canaries_below(tmp_path / "b") == set()
    told = table.status()
    assert (told.findings, told.backups[0].overdue, told.backups[0].reason) == ((), None, "")


def test_what_a_killed_backup_copied_goes_when_it_expires(table: OpenTable, tmp_path: Path) -> None:
    with armed(tmp_path / "b", Interruption()) as watched:
        table.backup(tmp_path / "b")
    last = max(place for place, event in enumerate(watched.seen) if "manifest" in event)
    shutil.rmtree(tmp_path / "b")
    with armed(tmp_path / "b", Interruption(), last - 1), contextlib.suppress(Interruption):
        table.backup(tmp_path / "b")
    assert canaries_below(tmp_path / "b")
    assert table.status().backups[0].version is None

    for slot in range(3, 12):
        assert table.update(at=slot).warnings == ()

    assert canaries_below(tmp_path / "b") == set()
    assert table.status().findings == ()


def test_what_is_forgotten_is_in_no_byte_of_a_backup(table: OpenTable, tmp_path: Path) -> None:
    table.backup(tmp_path / "b")
    key = "canary-2-4-x"
    assert key in canaries_below(tmp_path / "b")

    done = table.forget(key, within=0)

    assert (done.records, done.warnings) == (1, ())
    assert canaries_below(tmp_path) == canaries_below(tmp_path / "b") != set()
    assert key not in canaries_below(tmp_path)
    again = open_warehouse(tmp_path / "again")
    again.restore(tmp_path / "b", "t")
    assert scanned_ids(again.table("t")) == scanned_ids(table)
    assert again.table("t").check(deep=True).findings == ()


def test_what_is_forgotten_leaves_a_backup_that_was_elsewhere_when_it_comes_back(
    table: OpenTable, tmp_path: Path
) -> None:
    table.backup(tmp_path / "b")
    key = "canary-2-4-x"
    (tmp_path / "b").rename(tmp_path / "away")

    done = table.forget(key, within=0)

    assert any("cannot be reached" in text for text in done.warnings)
    assert key in canaries_below(tmp_path / "away")
    told = table.status()
    assert told.backups[0].is_stale
    assert [str(found).split(";")[0] for found in told.findings] == [
        f"the backup {tmp_path}/b/t of table t may hold records that were forgotten, and it cannot be reached"
    ]
    (tmp_path / "away").rename(tmp_path / "b")
    with pytest.raises(InputError, match="records of table t were forgotten after"):
        table.warehouse.restore(tmp_path / "b", "t", new_name="u")

    assert table.update(at=3).warnings == ()

    assert key not in canaries_below(tmp_path)
    assert table.status().findings == ()
    table.warehouse.restore(tmp_path / "b", "t", new_name="u")
    assert 204 not in scanned_ids(table.warehouse.table("u"))


def test_a_backup_that_was_made_while_records_were_forgotten_is_made_again(table: OpenTable, tmp_path: Path) -> None:
    key = "canary-2-4-x"
    said: list[str] = []

    def go_on(text: str) -> None:
        if text.startswith("copying") and not said:
            table.forget(key)
        said.append(text)

    assert table.backup(tmp_path / "b", progress=go_on).version == 2
    assert key in canaries_below(tmp_path / "b")
    assert table.status().backups[0].is_stale

    table.update(at=3)

    assert key not in canaries_below(tmp_path / "b")
    assert not table.status().backups[0].is_stale


@pytest.mark.parametrize("is_known", [False, True])
def test_what_is_forgotten_before_the_table_remembers_the_backup_leaves_it_too(
    *, is_known: bool, table: OpenTable, tmp_path: Path
) -> None:
    if is_known:
        table.backup(tmp_path / "b")
    key = "canary-2-4-x"
    done: list[str] = []

    def forget(event: str, _: str) -> None:
        if not done:  # the version is pinned, and what the table remembers is about to be written
            done.append(event)
            other = threading.Thread(target=lambda: table.forget(key))
            other.start()
            other.join()

    with watched(table.table.hidden / "backups", forget):
        assert table.backup(tmp_path / "b").version == 2

    assert done
    assert key in canaries_below(tmp_path / "b")
    assert table.status().backups[0].is_stale
    with pytest.raises(InputError, match="records of table t were forgotten after"):
        table.warehouse.restore(tmp_path / "b", "t", new_name="u")
    table.update(at=3)
    assert key not in canaries_below(tmp_path / "b")
    assert not table.status().backups[0].is_stale
    table.warehouse.restore(tmp_path / "b", "t", new_name="u")
    assert 204 not in scanned_ids(table.warehouse.table("u"))


def test_records_whose_lives_were_shortened_leave_backups_in_their_new_time(table: OpenTable, tmp_path: Path) -> None:
    table.backup(tmp_path / "b")

    table.amend("canary-2-5-x", expires=4)  # instead of 8
    for slot in range(3, 4 + int(LAZY["deletion_bound"]) + 1):
        table.update(at=slot)
        assert ("canary-2-5-x" in canaries_below(tmp_path / "b")) <= (slot < 4 + int(LAZY["deletion_bound"]))

    assert table.status().findings == ()


def test_held_records_stay_in_backups_and_come_back_until_they_are_released(table: OpenTable, tmp_path: Path) -> None:
    held = "canary-2-0-x"  # expires at 3
    table.hold(held, case="c-1")
    table.backup(tmp_path / "b")
    for slot in range(3, 14):
        table.update(at=slot)
    assert canaries_below(tmp_path / "b") == {held}
    assert table.status().findings == ()
    for at in (None, 15):
        again = open_warehouse(tmp_path / f"again{at}")
        shutil.copytree(tmp_path / "b", tmp_path / f"b{at}")  # an adopted copy looks after the backup that it came from
        done = again.restore(tmp_path / f"b{at}", "t", at=at)
        copy = again.table("t")
        copy.adopt()
        assert scanned_ids(copy) == []
        assert copy.held("c-1").read_all()["id"].to_pylist() == [200]
        assert done.slot == (done.expired_through or 0) >= 3, "the clock hides it"
        assert copy.check(deep=True).findings == ()
        copy.release("c-1")
        copy.update(at=16, catch_up=True)

    table.release("c-1")

    assert canaries_below(tmp_path / "b") == set()


def test_arrivals_that_are_held_stay_in_backups_and_come_back(table: OpenTable, tmp_path: Path) -> None:
    held = "canary-3-2-x"  # expires at 6
    table.hold(held, case="c-1", arrivals=True)
    apply_batch(table, 3)
    assert not [file for file in table.table.snapshot().files if file.cell.is_held], "the next update would move it"

    done = table.backup(tmp_path / "b")

    assert (done.slot, done.files_copied) == (3, done.files)
    assert table.backup(tmp_path / "b").version == done.version, "it was moved once"
    for slot in range(4, 15):
        assert table.update(at=slot).warnings == ()
    assert canaries_below(tmp_path / "b") == {held}
    for name, at in (("u", None), ("v", 16)):
        table.warehouse.restore(tmp_path / "b", "t", new_name=name, at=at)
        copy = table.warehouse.table(name)
        assert copy.held("c-1").read_all()["id"].to_pylist() == [302]
        assert copy.check(deep=True).findings == ()
    table.release("c-1")
    assert canaries_below(tmp_path / "b") == set()


@pytest.mark.parametrize("is_reachable", [True, False])
def test_a_renewed_backup_keeps_arrivals_that_are_held(*, is_reachable: bool, table: OpenTable, tmp_path: Path) -> None:
    slot = 3 if is_reachable else 4  # of the last arrivals when the backup is made anew
    held, forgotten = f"canary-{slot}-2-x", "canary-3-3-x"
    table.hold(held, case="c-1", arrivals=True)
    table.backup(tmp_path / "b")
    apply_batch(table, 3)
    if not is_reachable:
        (tmp_path / "b").rename(tmp_path / "away")
    table.forget(forgotten, within=0)
    if not is_reachable:
        apply_batch(table, 4)
        (tmp_path / "away").rename(tmp_path / "b")
        table.erase()
    else:
        assert forgotten not in canaries_below(tmp_path), "at once"
        apply_batch(table, 4)

    table.update(at=5)

    assert forgotten not in canaries_below(tmp_path / "b")
    assert not table.status().backups[0].is_stale
    for at in range(6, 15):
        assert table.update(at=at).warnings == ()
    assert canaries_below(tmp_path / "b") == {held}
    table.warehouse.restore(tmp_path / "b", "t", new_name="u")
    assert table.warehouse.table("u").held("c-1").read_all()["id"].to_pylist() == [100 * slot + 2]


def test_a_backup_that_is_no_longer_managed_is_left_alone(table: OpenTable, tmp_path: Path) -> None:
    table.backup(tmp_path / "b")
    before = digest_of(tmp_path / "b")

    assert table.stop_managing(tmp_path / "b")
    assert not table.stop_managing(tmp_path / "b")
    for slot in range(3, 15):
        assert table.update(at=slot).warnings == ()

    assert digest_of(tmp_path / "b") == before
    assert table.status().backups == ()


def test_a_dropped_table_says_which_backups_stay(table: OpenTable, tmp_path: Path) -> None:
    table.backup(tmp_path / "b")
    table.backup(tmp_path / "c")

    dropped = table.warehouse.drop("t")

    assert dropped.backups == (f"{tmp_path}/b/t", f"{tmp_path}/c/t")
    assert restored_clock(tmp_path / "again", tmp_path / "c") == 2


def test_a_backup_looks_at_what_has_expired_while_it_was_made(tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"), **RETIRE)
    apply_batch(table, 1)
    calls = itertools.count()

    def go_on(_: str) -> None:
        if not next(calls):
            table.update(at=2)
            table.update(at=3)

    done = table.backup(tmp_path / "b", progress=go_on)

    assert done.slot == 1
    assert canaries_below(tmp_path / "b") == {f"canary-1-{i}-x" for i in range(1, 6)}, "what is dead went at once"


def test_what_a_table_remembers_of_its_backups_may_be_damaged(table: OpenTable, tmp_path: Path) -> None:
    table.backup(tmp_path / "b")
    record: Any = next((table.table.hidden / "backups").iterdir())
    record.write_text("{")

    (warning,) = table.update(at=3).warnings

    assert warning.startswith("what table t remembers of its backups is damaged")
    assert table.status().backups == ()


@pytest.mark.parametrize("op", ["forget", "amend", "release"])
def test_whatever_goes_wrong_with_a_backup_after_a_request_the_request_is_made(op: str, tmp_path: Path) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"))
    table.update(arrow_batch(records((1, "ann", 1, 5), (2, "bob", 1, 5))), at=1)
    table.hold("bob", case="c-1")
    table.backup(tmp_path / "b")
    asked: dict[str, Callable[[], Any]] = {
        "forget": lambda: table.forget("ann"),
        "amend": lambda: table.amend("ann", expires=3),
        "release": lambda: table.release("c-1"),
    }

    with armed(tmp_path / "b", MemoryError("no memory is left"), 0):
        done = asked[op]()

    assert (done.is_committed, done.warnings) == (True, ("no memory is left",))
    assert table.history(1)[0].op == op
    assert table.status().backups[0].is_stale
    table.update(at=2)
    assert not table.status().backups[0].is_stale
