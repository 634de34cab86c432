"""The files of a landing folder, without a table: none is replaced or lost, whatever is interrupted or broken."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ebb.index.errors import EngineError, LockedError
from ebb.index.timeline import TimeKind, Timeline
from ebb.maintenance.landing.folder import (
    arrived,
    erase_old,
    keep_applied,
    locked_folder,
    put_back,
    refuse_file,
    take,
    taken_batches,
)
from tests.faults import Interruption, armed, broken_disk, full_disk

LINE = Timeline(kind=TimeKind.INTEGER, origin=0, tick=1, span=6)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "landing"
    made.mkdir()
    return made


def land(place: Path, name: str, text: str | None = None) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    (place / name).write_text(text or name, encoding="utf-8")
    return place / name


def texts(folder: Path) -> list[str]:
    """Return the contents of all files, which tell them apart wherever they are."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("_"))
    return sorted(path.read_text(encoding="utf-8") for path in files)


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def paths(folder: Path) -> list[Path]:
    return sorted(landed.path for landed in arrived(folder, LINE))


def test_what_a_killed_run_was_taking_is_still_there_under_its_own_name(folder: Path) -> None:
    """The killed run's cars.csv was put back over the new cars.csv, which was lost."""
    land(folder / "_taken/1.part", "cars.csv", "old")
    land(folder, "cars.csv", "new")

    files = paths(folder)
    assert texts(folder) == ["new", "old"]
    batch = take(folder, 1, files)

    assert batch == folder / "_taken/1"
    assert names(folder) == ["_taken/1/cars.csv", "_taken/1/cars.n1.csv"]
    assert texts(folder) == ["new", "old"]
    assert paths(folder) == []


def test_a_batch_that_is_late_meets_a_new_file_of_the_same_name(folder: Path) -> None:
    """A taken batch whose tick had been applied was put back over what had arrived since."""
    land(folder / "_taken/2", "cars.csv", "late")
    land(folder / "_taken/2.part", "cars.csv", "later")
    land(folder, "cars.csv", "new")

    put_back(folder, folder / "_taken/2")

    assert taken_batches(folder) == []
    assert len(paths(folder)) == 3
    assert take(folder, 4, paths(folder)) == folder / "_taken/4"
    assert texts(folder / "_taken/4") == ["late", "later", "new"]


def test_refused_files_of_one_name_are_all_kept(folder: Path) -> None:
    """The second bad.csv of a tick replaced the first one in _refused."""
    for text, name in (("one", "bad.csv"), ("two", "bad.n1.csv"), ("three", "bad.n2.csv")):
        now = refuse_file(folder, land(folder, "bad.csv", text), 5, f"reason {text}")
        assert now == folder / "_refused/5" / name

    assert texts(folder) == ["one", "three", "two"]
    lines = (folder / "_refused/5/_reasons.jsonl").read_text(encoding="utf-8").splitlines()
    assert [(json.loads(line)["files"], json.loads(line)["reason"]) for line in lines] == [
        (["bad.csv"], "reason one"), (["bad.n1.csv"], "reason two"), (["bad.n2.csv"], "reason three"),
    ]  # fmt: skip


def test_batches_of_one_slot_are_all_kept(folder: Path) -> None:
    for text in ("one", "two"):
        batch = take(folder, 5, [land(folder, "cars.csv", text)])
        assert batch is not None
        keep_applied(folder, batch)

    assert texts(folder / "_applied") == ["one", "two"]
    assert sorted(path.name for path in (folder / "_applied").iterdir()) == ["5", "5.1"]


def test_a_batch_of_which_every_file_was_refused_leaves_nothing(folder: Path) -> None:
    batch = take(folder, 5, [land(folder, "cars.csv")])
    assert batch is not None
    refuse_file(folder, batch / "cars.csv", 5, "bad")
    keep_applied(folder, batch)

    assert texts(folder / "_refused/5") == ["cars.csv"]
    assert not (folder / "_applied").exists()
    assert taken_batches(folder) == []


def test_a_file_that_its_producer_takes_away_again_is_left_out(folder: Path) -> None:
    files = [land(folder, "1-a.csv"), land(folder, "1-b.csv")]
    files[0].unlink()

    assert refuse_file(folder, files[0], 1, "bad") is None
    assert take(folder, 1, files[:1]) is None
    batch = take(folder, 1, files)
    assert batch is not None
    assert texts(batch) == ["1-b.csv"]
    assert sorted(os.listdir(folder / "_taken")) == ["1"]


def test_names_that_are_ours_or_unfinished_have_not_arrived(folder: Path) -> None:
    for name in (".hidden.csv", "_x.csv", "a.csv.tmp", "a.part", "1-a.csv"):
        land(folder, name)
    (folder / "1-folder.csv").mkdir()
    (folder / "2-nowhere.csv").symlink_to("nowhere")

    assert paths(folder) == [folder / "1-a.csv"]


def test_a_line_that_was_cut_off_stays_alone(folder: Path) -> None:
    place = folder / "_refused/1"
    land(place, "_reasons.jsonl", '{"files": ["x')

    refuse_file(folder, land(folder, "1-bad.csv"), 1, "why")

    lines = (place / "_reasons.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[1]) == {"files": ["1-bad.csv"], "reason": "why"}


def test_what_has_been_kept_for_long_enough_is_erased(folder: Path) -> None:
    for place, slot in itertools.product(("_applied", "_refused"), ("4", "5", "5.1", "6", "-3")):
        land(folder / place / slot, "x.csv")
    land(folder / "_applied/notes", "x.csv")

    erase_old(folder, 5)

    kept = sorted(path.parent.relative_to(folder).as_posix() for path in folder.rglob("x.csv"))
    assert kept == ["_applied/6", "_applied/notes", "_refused/6"]


# Whatever is interrupted


def take_two(folder: Path) -> None:
    take(folder, 3, paths(folder))


def apply_batch(folder: Path) -> None:
    keep_applied(folder, folder / "_taken/2")


def refuse_taken(folder: Path) -> None:
    refuse_file(folder, folder / "_taken/2/cars.csv", 2, "bad")


def make_late(folder: Path) -> None:
    put_back(folder, folder / "_taken/2")


def refuse_one(folder: Path) -> None:
    refuse_file(folder, folder / "cars.csv", 2, "bad")


def filled(folder: Path) -> list[str]:
    """Fill a folder with the same name in every place that it can be in, each file with another content."""
    for number, place in enumerate(["", "_taken/2", "_taken/1.part", "_taken/2.part", "_applied/2", "_refused/2"]):
        land(folder / place, "cars.csv", f"file {number}")
    return texts(folder)


@pytest.mark.parametrize("error", [Interruption, full_disk, broken_disk])
@pytest.mark.parametrize("work", [take_two, apply_batch, refuse_taken, make_late, refuse_one])
def test_no_file_is_lost_or_doubled_wherever_work_on_the_folder_breaks(
    tmp_path: Path, work: Callable[[Path], None], error: Callable[[], BaseException]
) -> None:
    for at in itertools.count():
        folder = tmp_path / f"landing{at}"
        before = filled(folder)
        with armed(folder, error(), at) as fault, contextlib.suppress(Interruption, EngineError):
            work(folder)
        assert texts(folder) == before, fault.seen

        waiting = [*paths(folder), *(path for batch in taken_batches(folder) for path in batch.glob("*.csv"))]
        kept = [path for place in ("_applied", "_refused") for path in (folder / place).rglob("*.csv")]
        assert len(waiting) + len(kept) == len(before), "every file is in a place where it is looked for"
        if len(fault.seen) <= at:
            break
    assert at > 1


@pytest.mark.parametrize("at", range(12))
def test_refused_files_have_their_reasons_wherever_the_run_was_killed(folder: Path, at: int) -> None:
    files = [land(folder, "1-a.csv"), land(folder, "1-b.csv")]
    batch = take(folder, 2, [land(folder, "2-c.csv")])
    assert batch is not None
    with contextlib.suppress(Interruption), armed(folder, Interruption(), at):
        for file in files:
            refuse_file(folder, file, 1, "bad")
        refuse_file(folder, batch / "2-c.csv", 2, "bad too")

    for path in (folder / "_refused").rglob("*.csv"):
        lines = (path.parent / "_reasons.jsonl").read_text(encoding="utf-8").splitlines()
        assert any(path.name in json.loads(line)["files"] for line in lines)


# Errors of the file system


def test_a_missing_folder_is_named_and_not_made(tmp_path: Path) -> None:
    folder = tmp_path / "landing"

    for work in (lambda: arrived(folder, LINE), lambda: locked_folder(folder, wait=0).__enter__()):
        with pytest.raises(EngineError, match=rf"landing folder {folder} cannot be used: No such file .*; create it"):
            work()
    assert not folder.exists()


def test_a_landing_folder_that_is_a_file_is_told_as_such(tmp_path: Path) -> None:
    folder = land(tmp_path, "landing")

    with pytest.raises(EngineError, match=r"cannot be used: Not a directory; name another landing folder"):
        arrived(folder, LINE)


def test_a_file_where_a_folder_of_ours_should_be_is_named(folder: Path) -> None:
    land(folder, "_taken")

    with pytest.raises(EngineError, match=rf"\({folder}/_taken\)"):
        take(folder, 1, [land(folder, "1-a.csv")])
    assert (folder / "1-a.csv").exists()


def test_a_full_disk_says_to_free_space(folder: Path) -> None:
    file = land(folder, "1-a.csv")

    with armed(folder, full_disk(), 0), pytest.raises(EngineError, match=r"No space left on device; free some space"):
        take(folder, 1, [file])


@pytest.fixture
def open_place() -> Iterator[Path]:
    """Return a folder that every user can reach."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


@pytest.mark.parametrize("mode", [0o000, 0o500])
def test_a_forbidden_folder_says_so(open_place: Path, mode: int) -> None:
    folder = open_place / "landing"
    file = land(folder, "1-a.csv")
    folder.chmod(mode)
    user = os.geteuid()
    if user == 0:  # nothing is forbidden to root
        os.chown(folder, 65534, -1)
        os.seteuid(65534)
    try:
        with pytest.raises(EngineError, match=r"Permission denied.*; let the user of this process"):
            arrived(folder, LINE) and take(folder, 1, [file])
    finally:
        os.seteuid(user)
        folder.chmod(0o700)
    assert file.exists()


def test_files_of_other_users_can_be_taken(open_place: Path) -> None:
    """Hard links to them are refused by Linux; a rename needs the folder only."""
    folder = open_place / "landing"
    file = land(folder, "1-a.csv")
    user = os.geteuid()
    if user == 0:  # others cannot give files away
        file.chmod(0o644)
        os.chown(folder, 65534, -1)
        os.seteuid(65534)
    try:
        assert take(folder, 1, [file]) == folder / "_taken/1"
    finally:
        os.seteuid(user)


# One run at a time


def test_a_second_run_is_told_who_works_on_the_folder(folder: Path) -> None:
    with locked_folder(folder, wait=0):
        with pytest.raises(LockedError, match=rf"landing folder {folder} is .* process {os.getpid()} ") as raised:
            locked_folder(folder, wait=0.1).__enter__()
        assert raised.value.args[2] == 0.1
        assert (folder / "_lock").exists()

    with locked_folder(folder, wait=0):
        pass


def test_a_full_disk_does_not_keep_anybody_from_the_lock(folder: Path) -> None:
    """The holder's name could not be written, and that came out as a raw OSError."""
    (folder / "_lock").symlink_to("/dev/full")

    with locked_folder(folder, wait=0):
        pass


def test_an_unknown_error_of_the_disk_is_ours_too(folder: Path) -> None:
    file = land(folder, "1-a.csv")

    with armed(folder, broken_disk(), 0), pytest.raises(EngineError, match=r"Input/output error; check its disk"):
        take(folder, 1, [file])
