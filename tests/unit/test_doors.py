"""No error of the disk, Arrow, delta-rs or DuckDB comes through any door as it is, and each is told apart.

Real damage to real files, calls of the operating system that fail, and a process that may open no more files.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ebb import OpenTable
from ebb.index.errors import CorruptionError, EngineError, UnknownTableError, WarehouseError
from tests.doors import DOORS, make_table, open_table
from tests.faults import armed
from tests.seeds import drawn_seed, rounds
from tests.unit.cli.command import state_of

REASONS = {
    errno.EACCES: "permission denied; ",
    errno.EMFILE: "this process has too many open files; ",
    errno.ENFILE: "this machine has too many open files; ",
    errno.EROFS: "the file system is read-only; ",
    errno.ENOSPC: "the disk is full; ",
    errno.EIO: "the disk reports an error; ",
}
READERS = {"changes", "scan", "scan where", "scan latest", "probe", "sql"}
WRITERS = {"update", "seal", "purge", "erase", "backup", "drop"}
FILES: dict[str, str] = {
    "newest entry": "t/_delta_log/*3.json",
    "an entry": "t/_delta_log/*2.json",
    "oldest entry": "t/_delta_log/*0.json",
    "data files": "t/u*/*/*/*/*.parquet",
    "side files": "t/u*/*/*/*/*.keys",
    "log of quarantine": "t.quarantine/_delta_log/*2.json",
    "quarantine": "t.quarantine/*/*.parquet",
}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("doors") / "original"
    make_table(root)
    return root


@pytest.fixture
def fresh(original: Path, tmp_path: Path) -> Callable[[], OpenTable]:
    """Return what makes a copy of the table that nobody has opened."""
    numbers = itertools.count()

    def copy() -> OpenTable:
        root = tmp_path / str(next(numbers))
        shutil.copytree(original, root)
        return open_table(root)

    return copy


def remove(file: Path) -> None:
    file.unlink()


def truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def scramble(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 3 :: 7] = b"\x00" * len(data[len(data) // 3 :: 7])
    file.write_bytes(data)


def folder_instead(file: Path) -> None:
    file.unlink()
    file.mkdir()


DAMAGES = (remove, truncate, scramble, folder_instead)


def outcome(door: Callable[[OpenTable], object], table: OpenTable) -> WarehouseError | None:
    """Go through a door: whatever comes out and is not ours fails the test."""
    try:
        door(table)
    except WarehouseError as error:
        text = str(error)
        assert "\n" not in text, text
        assert "\\n" not in text, text
        assert "<unknown>" not in text, text
        return error
    return None


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("door", DOORS)
def test_no_foreign_error_comes_of_a_damaged_file(
    door: str, damage: Callable[[Path], None], fresh: Callable[[], OpenTable]
) -> None:
    for pattern in FILES.values():
        table = fresh()
        root = table.warehouse.root
        files = sorted(root.glob(pattern))
        assert files, pattern
        for file in files:
            damage(file)
        error = outcome(DOORS[door], table)
        if error is not None:
            assert isinstance(error, CorruptionError | UnknownTableError) or door in WRITERS, (
                error
            )  # no folder is removed as a file
            assert not any(reason in str(error) for reason in REASONS.values()), "nothing was refused"


@pytest.mark.parametrize("door", DOORS)
def test_no_foreign_error_comes_of_a_call_that_the_system_refuses(door: str, fresh: Callable[[], OpenTable]) -> None:
    """One of the things that are done to files fails, for a reason that is told."""
    dice = random.Random(drawn_seed())
    table = fresh()
    with armed(table.warehouse.root, OSError(), listings=True) as fault:
        outcome(DOORS[door], table)
    assert fault.seen or door == "find"
    for at in dice.sample(range(len(fault.seen)), min(rounds(10), len(fault.seen))):
        event, number = fault.seen[at], dice.choice(list(REASONS))
        table = fresh()
        with armed(table.warehouse.root, OSError(number, os.strerror(number)), at, listings=True) as again:
            error = outcome(DOORS[door], table)
        if error is not None and at < len(again.seen):
            assert REASONS[number] in str(error), (event, error)
            assert isinstance(error, EngineError), (event, error)


def answers_of_a_process(original: Path, root: Path, *limit: str) -> dict[str, str]:
    """Return what each door of a table says in a process of its own."""
    copy = root.with_name("copy")
    shutil.copytree(original, copy)
    command = [sys.executable, "-m", "tests.doors", str(copy), str(root), *limit]
    child = subprocess.run(command, capture_output=True, text=True, check=True)
    answers: dict[str, str] = json.loads(child.stdout)
    assert set(answers) == set(DOORS)
    return answers


@pytest.mark.parametrize("extra", [0, 1, 2, 4, 8])
def test_a_process_that_may_open_no_more_files_says_so(original: Path, extra: int, tmp_path: Path) -> None:
    root = tmp_path / "w"
    shutil.copytree(original, root)

    answers = answers_of_a_process(original, root, "files", str(extra))

    for door, text in answers.items():
        assert text == "done" or REASONS[errno.EMFILE] in text, (door, text)
    assert extra > 0 or [door for door, text in answers.items() if text == "done"] == ["find"]


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """Return a folder that everybody may look into, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_table_that_may_only_be_read_answers_and_says_why_it_cannot_be_written(
    original: Path, public_folder: Path
) -> None:
    root = public_folder / "w"
    shutil.copytree(original, root)
    for path in (*root.rglob("*"), root):
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = state_of(root)

    answers = answers_of_a_process(original, root, "forbidden")

    for door, text in answers.items():
        assert REASONS[errno.EACCES] in text if door in WRITERS else text == "done", (door, text)
    assert state_of(root) == before


@pytest.mark.parametrize(
    ("forbidden", "refused"),
    [
        (".", set(DOORS)),
        ("t", set(DOORS) - {"tables", "quarantine"}),
        ("t/_delta_log", set(DOORS) - {"tables", "find", "quarantine"}),
        ("t/_delta_log/*3.json", set(DOORS) - {"tables", "find", "quarantine"}),
        ("t/u*/*/*/*/*.parquet", READERS | WRITERS),
        ("t/u*/*/*/*/*.keys", WRITERS),
        ("t.quarantine/*/*.parquet", WRITERS | {"quarantine"}),
    ],
)
def test_what_a_user_may_not_read_is_neither_missing_nor_damaged(
    original: Path, public_folder: Path, forbidden: str, refused: set[str]
) -> None:
    root = public_folder / "w"
    shutil.copytree(original, root)
    for path in (root, *root.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    for path in list(root.glob(forbidden)) if forbidden != "." else [root]:
        path.chmod(0)

    answers = answers_of_a_process(original, root, "forbidden")

    for door, text in answers.items():
        assert REASONS[errno.EACCES] in text if door in refused else text == "done", (door, text)
