"""The prompt: lines from a pipe, and a person at a terminal."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ebb import OpenTable
from tests.builders import integer_table, open_warehouse, records, write_batch

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> OpenTable:
    """A table with a few keys, one of them with a blank in it."""
    folder = tmp_path_factory.mktemp("shell")
    table = integer_table(open_warehouse(folder / "w"))
    batch = records(
        (1, "apple", 1, 5), (2, "apricot", 1, 4), (3, "apple", 1, 3), (4, "big berry", 1, 6), (5, "cherry", 1, 7)
    )
    table.update(write_batch(folder / "1.parquet", batch), at=1)
    return table


def _run(table: OpenTable, *lines: str, home: Path, code: int = 0) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", "--warehouse", str(table.warehouse.root), "shell", "t"],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "HOME": str(home), "XDG_STATE_HOME": str(home)},
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


def test_lines_from_a_pipe_are_answered_in_order(table: OpenTable, tmp_path: Path) -> None:
    out, err = _run(
        table,
        ".timing off", ".format csv", ".columns id,key", "apple", "apricot cherry", "'big berry'", ".prefix ap", ".range b c",
        ".range - b", ".scan id >= 4", "select count(*) as n from t", ".sql SELECT max(id) AS m FROM t", ".limit 1", ".prefix ap",
        ".columns", "cherry", ".window", "nothing",
        home=tmp_path,
    )  # fmt: skip

    assert out.split("\n") == [
        "id,key", "3,apple", "1,apple",
        "id,key", "2,apricot", "5,cherry",
        "id,key", "4,big berry",
        "id,key", "3,apple", "1,apple", "2,apricot",
        "id,key", "4,big berry",
        "id,key", "3,apple", "1,apple", "2,apricot",
        "id,key", "4,big berry", "5,cherry",
        "n", "5",
        "m", "5",
        "id,key", "3,apple",
        "id,key,inserted,expires,pay", "5,cherry,1,7,p5",
        "t at 1, version 1: 5 live records",
        "id,key,inserted,expires,pay", "",
    ]  # fmt: skip
    assert err == "there are more: .limit 0 shows all\n"
    assert not list(tmp_path.iterdir()), "lines from a pipe are no history"


def test_a_line_that_is_wrong_is_told_and_the_next_one_answered(table: OpenTable, tmp_path: Path) -> None:
    out, err = _run(
        table,
        ".timing off", ".format csv", ".columns id", ".nope", ".columns nope", ".range a", ".limit many", ".format xml",
        "'open quote", ".scan nope = 1", "select nope from t", "drop view t", ".sql drop view t", ".explain", "cherry",
        home=tmp_path, code=1,
    )  # fmt: skip

    # `drop view t` is three keys.
    assert out == "id\nid\n5\n"
    told = err.splitlines()
    assert all(line.startswith("ebb: ") for line in told)
    for line, says in zip(
        told,
        [
            ".nope is not a command; .help shows them", "has no column 'nope'", ".range takes two keys", ".limit many is not",
            ".format xml is not", "put quotes around", "names 'nope', which is not a column", '"nope" not found',
            "this is DROP", ".explain takes at least one key",
        ],
        strict=True,
    ):  # fmt: skip
        assert says in line


def test_answers_say_how_long_they_took_and_what_they_read(table: OpenTable, tmp_path: Path) -> None:
    out, err = _run(table, "apple", ".explain apple", ".help", home=tmp_path)

    assert re.fullmatch(r"\d+\.\d ms\n", err)
    assert re.search(r"row groups  2 read of \d+; 2 have the key in their range", out)
    assert ".prefix TEXT" in out


class _Terminal:
    """A person at a terminal."""

    def __init__(self, table: OpenTable, home: Path, *options: str) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            # The terminal is its own, so that Ctrl-C reaches it as a signal.
            [
                "setsid",
                "--ctty",
                sys.executable,
                "-m",
                "cli.main",
                "--warehouse",
                str(table.warehouse.root),
                "shell",
                "t",
                *options,
            ],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=ROOT,
            env={**os.environ, "HOME": str(home), "XDG_STATE_HOME": str(home), "TERM": "dumb"},
        )
        os.close(theirs)
        self.screen = ""

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def sees(self, text: str, seconds: float = 30) -> None:
        """Wait until a text is on the screen, then forget what was before its end."""
        deadline = time.monotonic() + seconds
        while text not in self.screen:
            ready, _, _ = select.select([self._ours], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"{text!r} did not come; there was {self.screen!r}"
            self.screen += os.read(self._ours, 4096).decode(errors="replace")
        self.screen = self.screen.partition(text)[2]

    def stops(self) -> None:
        """Press Ctrl-C until there is a prompt: Python forgets one that comes just before it waits for the next key."""
        for _ in range(20):
            self.type("\x03")
            with contextlib.suppress(AssertionError):
                return self.sees("t> ", seconds=1)
        raise AssertionError(self.screen)

    def leaves(self) -> None:
        """Press Ctrl-D, and again: one that comes before the prompt is lost when the terminal changes its mode."""
        for _ in range(20):
            self.type("\x04")
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(1)
                break
        assert self.process.poll() == 0
        os.close(self._ours)


def test_a_person_completes_keys_columns_and_commands_and_finds_the_lines_again(
    table: OpenTable, tmp_path: Path
) -> None:
    person = _Terminal(table, tmp_path)
    person.sees("5 live records")
    person.sees("t> ")
    person.type(".timing off\n")
    person.sees("t> ")
    person.type("che\t\n")
    person.sees("cherry")
    person.sees("(1 record)")
    person.sees("t> ")
    person.type("big\t\n")  # a key with a blank comes in quotes
    person.sees("(1 record)")
    person.sees("t> ")
    person.type(".col\t id\n")
    person.sees("t> ")
    person.type(".scan inse\t = 1 and id = 2\n")
    person.sees("(1 record)")
    person.sees("t> ")
    person.type(".bogus\n")
    person.sees("ebb: .bogus is not a command")
    person.sees("t> ")
    person.type("half a li")
    person.sees("half a li")
    person.stops()  # the line, not the prompt
    person.leaves()

    assert (tmp_path / "ebb" / "history").read_text().splitlines()[:2] == [".timing off", "cherry"]
    assert oct((tmp_path / "ebb" / "history").stat().st_mode & 0o077) == "0o0"
    again = _Terminal(table, tmp_path)
    again.sees("t> ")
    again.type("\x10\x10\x10\x10\x10\n")  # Ctrl-P, up to the first key
    again.sees("(1 record)")
    again.sees("t> ")
    again.leaves()


def test_no_history_is_kept_if_none_is_wanted(table: OpenTable, tmp_path: Path) -> None:
    person = _Terminal(table, tmp_path, "--no-history")
    person.sees("t> ")
    person.type("cherry\n")
    person.sees("(1 record)")
    person.type(".quit\n")

    assert person.process.wait(20) == 0
    assert not list(tmp_path.iterdir())


def test_the_prompt_follows_the_newest_window_until_it_is_pinned(tmp_path: Path, spark: Any) -> None:
    table = integer_table(open_warehouse(tmp_path / "w"))
    table.update(write_batch(tmp_path / "1.parquet", records((1, "a", 1, 3), (2, "b", 1, 7))), at=1)
    person = _Terminal(table, tmp_path, "--no-history")
    person.sees("2 live records")
    table.update(at=2)
    person.type(".window\n")
    person.sees("t at 2, version")
    person.sees("t> ")
    person.type(".pin\n")
    person.sees("t> ")  # pinned before the table moves on
    table.update(at=3)
    person.type(".window\n")
    person.sees("t at 2, version")
    person.type("select count(*) as n from t\n")
    person.sees("2")
    person.sees("(1 record)")
    person.type(".unpin\n")
    person.type(".scan\n")
    person.sees("(1 record)")
    person.type(".window\n")
    person.sees("t at 3, version")
    person.leaves()
