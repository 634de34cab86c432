"""Calls to the operating system: a file is there whole or not at all, links lead nowhere, what has to go goes."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from ebb.index.errors import CorruptionError
from ebb.warehouse.store.disk import Disk
from ebb.warehouse.store.files import (
    create,
    files_below,
    fill,
    folders_in,
    identity,
    make_folder,
    opened_file,
    read_at,
    read_file,
    refuse_links,
    remove_all_but,
    remove_empty_folders,
    remove_file,
    remove_folder,
    size_of,
    write_new,
)
from tests.faults import Interruption, armed, full_disk


def make(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path)


def below(root: Path) -> list[str]:
    return sorted(p.relative_to(root).as_posix() for p in root.rglob("*"))


def test_a_file_is_created_whole_and_its_first_name_is_gone(tmp_path: Path) -> None:
    create(tmp_path / "x", b"whole", unfinished=tmp_path / "x.tmp", disk=Disk())

    assert (tmp_path / "x").read_bytes() == b"whole"
    assert below(tmp_path) == ["x"]


def test_a_file_that_is_there_is_not_replaced(tmp_path: Path) -> None:
    make(tmp_path, "x")

    with pytest.raises(FileExistsError):
        create(tmp_path / "x", b"other", unfinished=tmp_path / "x.tmp", disk=Disk())

    assert (tmp_path / "x").read_text() == "x"
    assert below(tmp_path) == ["x"]


@pytest.mark.parametrize("error", [full_disk(), Interruption()], ids=["full disk", "signal"])
def test_a_file_that_is_not_finished_leaves_nothing(tmp_path: Path, error: BaseException) -> None:
    with armed(tmp_path, error) as fault:
        create(tmp_path / "x", b"whole", unfinished=tmp_path / "x.tmp", disk=Disk())
    (tmp_path / "x").unlink()
    for at in range(fault.seen.index(f"os.link {'/x.tmp'}") + 1):
        with pytest.raises(type(error)), armed(tmp_path, error, at):
            create(tmp_path / "x", b"whole", unfinished=tmp_path / "x.tmp", disk=Disk())
        assert below(tmp_path) == []


def test_folders_are_for_their_owner_only(tmp_path: Path) -> None:
    make_folder(tmp_path / "f")

    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o700
    with pytest.raises(FileExistsError):
        make_folder(tmp_path / "f")


def test_bytes_are_read_where_they_are_and_no_further_than_the_end(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"0123456789")
    room = bytearray(6)

    with opened_file(str(tmp_path), "x") as opened:
        assert read_at(opened, 4, 2) == b"2345"
        assert read_at(opened, 4, 8) == b"89"
        assert fill(opened, memoryview(room), 7) == 10
        assert size_of(opened) == size_of(tmp_path / "x") == 10

    assert bytes(room) == b"789\0\0\0"


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [b""],
        [b"", b"", b""],
        [b"whole"],
        [b"", b"a", b"", b"", b"bc", b""],
        [bytes([n % 256]) for n in range(5000)],
        [b"x" * (n % 3) for n in range(3000)],
        [b"", *[b"y"] * 511, b"", b"z", b"\0"],
        [b"head", memoryview(b"large" * 2_000_000), b"", b"tail"],
    ],
    ids=["none", "an empty one", "empty ones", "one", "empty ones between", "more than one call takes",
         "empty ones among many", "just as many as one call takes", "a large one"],
)  # fmt: skip
def test_a_new_file_is_all_of_its_parts(tmp_path: Path, parts: list[bytes | memoryview]) -> None:
    write_new(str(tmp_path / "x"), parts)

    assert read_file(str(tmp_path / "x")) == b"".join(parts)
    assert size_of(tmp_path / "x") == sum(map(len, parts))


@pytest.mark.parametrize("most", [1, 7, 700, 4096])
def test_a_system_that_takes_little_at_a_time_gets_it_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """How much of one call is written is the system's matter."""
    parts = [bytes([n % 256]) * (n % 70) for n in range(600)]

    def short(file: int, some: Sequence[memoryview]) -> int:
        return os.write(file, b"".join(some)[:most])

    monkeypatch.setattr(os, "writev", short)
    write_new(str(tmp_path / "x"), parts)

    assert (tmp_path / "x").read_bytes() == b"".join(parts)


def test_a_file_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    make(tmp_path, "x")

    with pytest.raises(FileExistsError):
        write_new(str(tmp_path / "x"), [b"other"])

    assert (tmp_path / "x").read_text() == "x"
    (tmp_path / "link").symlink_to("elsewhere")
    with pytest.raises(FileExistsError):
        write_new(str(tmp_path / "link"), [b"other"])
    assert not (tmp_path / "elsewhere").exists()


def test_a_new_file_is_opened_once_and_nothing_else_is_done(tmp_path: Path) -> None:
    with armed(tmp_path, full_disk()) as seen:
        write_new(str(tmp_path / "x"), [b"a", b"b"] * 1000)

    assert seen.seen == ["open /x"]


def test_a_link_is_not_opened(tmp_path: Path) -> None:
    make(tmp_path, "secret")
    (tmp_path / "x").symlink_to("secret")

    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)), opened_file(str(tmp_path), "x"):
        pass


@pytest.mark.parametrize("link", ["a", "a/b", "a/b/x"])
def test_a_link_anywhere_on_the_way_is_refused(tmp_path: Path, link: str) -> None:
    make(tmp_path, "t/a/b/x", "elsewhere/x", "elsewhere/b/x")
    refuse_links(str(tmp_path / "t"), "a/b/x")
    place = tmp_path / "t" / link
    remove_file(place) if place.is_file() else place.rename(tmp_path / "moved")
    place.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(CorruptionError, match=f"symbolic link.*: {link};"):
        refuse_links(str(tmp_path / "t"), "a/b/x")
    with pytest.raises(CorruptionError, match=f"symbolic link.*: {link};"):
        list(files_below(tmp_path / "t"))


def test_all_files_below_a_folder_are_listed_but_those_left_out(tmp_path: Path) -> None:
    make(tmp_path, "b", "a/x", "a/log/y", "log/z")

    assert list(files_below(tmp_path, leave_out=("log",))) == ["a/log/y", "a/x", "b"]
    assert list(files_below(tmp_path / "none")) == []


def test_a_file_is_known_again_by_more_than_its_name(tmp_path: Path) -> None:
    make(tmp_path, "x")
    first = identity(tmp_path / "x")
    make(tmp_path, "y")
    (tmp_path / "y").rename(tmp_path / "x")

    assert first is not None
    assert identity(tmp_path / "x") != first
    assert identity(tmp_path / "none") is None


def test_a_folder_goes_with_everything_in_it(tmp_path: Path) -> None:
    make(tmp_path, "u1/a/b/x", "u2/x")
    (tmp_path / "u1" / "link").symlink_to(tmp_path / "u2")

    remove_folder(tmp_path / "u1")
    remove_folder(tmp_path / "none")

    assert below(tmp_path) == ["u2", "u2/x"]


def test_files_that_stay_keep_what_lies_beside_them(tmp_path: Path) -> None:
    make(tmp_path, "u1/a/x.parquet", "u1/a/x.keys", "u1/a/y.parquet", "u1/a/y.keys", "u1/b/z.parquet")

    remove_all_but(tmp_path, "u1", ["u1/a/x.parquet", "u2/a/y.parquet"])

    assert below(tmp_path) == ["u1", "u1/a", "u1/a/x.keys", "u1/a/x.parquet"]
    remove_all_but(tmp_path, "u1", ["u2/a/y.parquet"])
    assert below(tmp_path) == []


def test_only_folders_are_listed_and_only_empty_ones_removed(tmp_path: Path) -> None:
    make(tmp_path, "file", "full/x")
    (tmp_path / "empty" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("full")

    assert sorted(folders_in(tmp_path)) == ["empty", "full"]
    remove_empty_folders(tmp_path / "empty")
    remove_empty_folders(tmp_path / "full")
    assert sorted(folders_in(tmp_path)) == ["full"]
