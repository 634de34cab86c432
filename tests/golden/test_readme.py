"""The examples of README and docs run, in the order in which they stand there, and give what is said there."""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ebb.cli.main import main

README = Path(__file__).parents[2] / "README.md"
READING = README.parent / "docs" / "reading.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_VOLATILE = (
    (re.compile(r"\d+(\.\d+)? (B|kB|MB)\b"), "SIZE"),
    (re.compile(r"\d+\.\d\d s\b"), "SECONDS"),
    (re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "TIME"),
)


def _blocks(language: str, page: Path = README) -> list[str]:
    return [text for found, text in _BLOCK.findall(page.read_text(encoding="utf-8")) if found == language]


def _steps() -> Iterator[tuple[str, list[str]]]:
    """Yield each command of the console blocks with the output that is shown for it."""
    for block in _blocks("console"):
        step: tuple[str, list[str]] | None = None
        for line in block.splitlines():
            if line.startswith("$ "):
                if step:
                    yield step
                step = (line[2:], [])
            elif step:
                step[1].append(line)
        if step:
            yield step


def _masked(text: str) -> str:
    for pattern, word in _VOLATILE:
        text = pattern.sub(word, text)
    return text


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EBB_WAREHOUSE", "EBB_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def test_the_commands_of_the_readme_run_and_print_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    ran = 0
    for command, shown in _steps():
        if not command.startswith("ebb "):
            subprocess.run(["bash", "-euc", command], check=True)
            continue
        ran += 1
        capsys.readouterr()
        code = main(shlex.split(command)[1:])
        printed = capsys.readouterr()

        assert code == 0, f"{command}: {printed.err}"
        if shown:
            assert _masked(printed.out).splitlines() == _masked("\n".join(shown)).splitlines(), command
    assert ran, "the README shows no command"


def test_the_python_example_of_the_readme_runs(tmp_path: Path) -> None:
    blocks = _blocks("python")
    assert blocks, "the README shows no Python"
    for number, block in enumerate(blocks):
        file = tmp_path / f"example{number}.py"
        file.write_text(block, encoding="utf-8")

        runpy.run_path(str(file))


def test_the_page_on_reading_reads_the_car_park_of_the_readme_with_every_engine(tmp_path: Path) -> None:
    for command, _ in _steps():
        if command.startswith("ebb "):
            assert main(shlex.split(command)[1:]) == 0
        else:
            subprocess.run(["bash", "-euc", command], check=True)
    blocks = _blocks("python", READING)
    assert len(blocks) == 4
    file = tmp_path / "reading.py"
    file.write_text("\n".join(blocks), encoding="utf-8")

    runpy.run_path(str(file))
