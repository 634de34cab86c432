"""Tables on a terminal of some width: a real process at a real terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pyarrow as pa
import pytest

from ebb.cli.output import render
from tests.builders import integer_table, open_warehouse

_ROOT = Path(__file__).parents[3]
_SCHEMA = "id BIGINT, key STRING, note STRING, city STRING, inserted BIGINT, expires BIGINT, last STRING"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("terminal")
    batch = {
        "id": [1, 2], "key": ["a", "b"], "note": ["short", "n" * 60], "city": ["東京", "\U0001f30a x"], "inserted": [1, 1],
        "expires": [5, 5], "last": ["z", "end"],
    }  # fmt: skip
    integer_table(open_warehouse(folder), schema=_SCHEMA).update(pa.table(batch), at=1)
    return folder


def _shown(root: Path, *arguments: str, columns: int, lines: str = "") -> list[str]:
    """Return what a terminal of some width shows."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    command = [sys.executable, "-m", "ebb.cli.main", "--warehouse", str(root), *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=theirs, stderr=subprocess.PIPE, cwd=_ROOT)
    os.close(theirs)
    assert process.stdin is not None
    process.stdin.write(lines.encode())
    process.stdin.close()
    told = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # how a terminal ends
            break
        if not piece:
            break
        told += piece
    os.close(ours)
    assert process.stderr is not None
    assert process.wait(30) == 0, process.stderr.read().decode()
    process.stderr.close()
    return told.decode().replace("\r\n", "\n").splitlines()


def test_columns_that_do_not_fit_are_left_out_and_named(root: Path) -> None:
    told = _shown(root, "probe", "t", "a", "b", columns=60)

    assert told == [
        "id  key  note                                      city",
        "──  ───  ────────────────────────────────────────  ────",
        " 1  a    short                                     東京",
        f" 2  b    {'n' * 39}…  \U0001f30a x",
        "(2 records; 3 more columns: inserted, expires, last; use --columns or --format)",
    ]
    assert max(map(render.width, told[:-1])) <= 60


def test_a_wide_terminal_shows_everything_and_a_narrow_one_a_column(root: Path) -> None:
    wide, narrow = (_shown(root, "probe", "t", "a", columns=columns) for columns in (200, 1))

    assert wide[0] == "id  key  note   city  inserted  expires  last"
    assert wide[-1] == "(1 record)"
    assert narrow == ["id", "──", " 1", "(1 record; 6 more columns: key, note, city …; use --columns or --format)"]


def test_a_terminal_that_does_not_know_its_width_is_not_taken_for_a_narrow_one(root: Path) -> None:
    assert _shown(root, "probe", "t", "a", columns=0)[-1] == "(1 record)"


def test_sql_and_the_prompt_say_what_helps_there(root: Path) -> None:
    assert _shown(root, "sql", "SELECT key, id FROM t WHERE id = 1", columns=5)[-1] == (
        "(1 record; 1 more column: id; select fewer or use --format)"
    )
    assert _shown(root, "shell", "t", columns=5, lines=".timing off\n.columns key,id\na\n")[-1] == (
        "(1 record; 1 more column: id; use .columns or .format)"
    )


def test_nothing_is_cut_where_there_is_no_terminal(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "out"
    for output in (["--output", str(file)], []):
        command = [sys.executable, "-m", "ebb.cli.main", "--warehouse", str(root), "probe", "t", "b", *output]
        done = subprocess.run(command, capture_output=True, check=True, cwd=_ROOT)
        text = (file.read_bytes() if output else done.stdout).decode().splitlines()

        assert text[0].split() == ["id", "key", "note", "city", "inserted", "expires", "last"]
        assert "n" * 60 in text[2]
        assert text[3] == "(1 record)"
    assert len(_shown(root, "probe", "t", "b", "--output", str(file), columns=20)) == 0


def test_columns_may_be_named_one_by_one_or_with_commas(root: Path) -> None:
    told = _shown(root, "probe", "t", "a", "--columns", "key,id", "--columns", "last", "--format", "csv", columns=80)

    assert told == ["key,id,last", "a,1,z"]


@pytest.mark.parametrize(
    ("text", "places"), [("", 0), ("abc", 3), ("é", 1), ("東京", 4), ("\U0001f600", 2), ("e\u0301", 1), ("ａ", 2)]
)
def test_wide_characters_take_two_places(text: str, places: int) -> None:
    assert render.width(text) == places


@pytest.mark.parametrize("text", ["a" * 41, "東" * 21, "a" + "東" * 20, "\U0001f600" * 30, "e\u0301" * 41])
def test_what_is_cut_fits_and_says_so(text: str) -> None:
    assert 38 <= render.width(render.cut(text, 40)) <= 40
    assert render.cut(text, 40).endswith("…")
    assert text.startswith(render.cut(text, 40)[:-1])


@pytest.mark.parametrize("text", ["a" * 40, "東" * 20, ""])
def test_what_fits_is_not_cut(text: str) -> None:
    assert render.cut(text, 40) == text


def test_texts_of_any_script_stand_in_columns() -> None:
    told = render.table_text([("東京", 1), ("ab", 22)], ("city", "n"), right=(1,))

    assert told == ["city   n", "────  ──", "東京   1", "ab    22"]
