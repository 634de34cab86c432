"""Documents that run: their examples are taken out of the Markdown and carried out as they stand there.

``console`` blocks hold commands after ``$`` (continued after ``>``) and what they print; ``python`` blocks share their
names. In what is printed, ``…`` stands for anything, and times, sizes and seconds may differ. A command whose message
``ebb: …`` is shown must fail. Blocks in other languages are for reading.
"""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ebb.cli.main import main

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SETTING = re.compile(r"(\w+)=(\S+)\s+")
_VOLATILE = (
    (re.compile(r"\d+(\.\d+)? (B|kB|MB)\b"), "SIZE"),
    (re.compile(r"\d+\.\d\d s\b"), "SECONDS"),
    (re.compile(r"\d\.\d{3}(?= (?:log|directory|reading)\b)"), "SECONDS"),
)


class Block(NamedTuple):
    """A fenced block of a document."""

    language: str
    text: str
    line: int  # its first


class Step(NamedTuple):
    """A command and what is shown for it."""

    command: str
    shown: list[str]
    line: int


def pages() -> list[Path]:
    """Return every document."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def blocks(page: Path, *languages: str) -> list[Block]:
    """Return the blocks of a document, in some languages or all."""
    text = page.read_text(encoding="utf-8")
    found = [Block(m[1], m[2], text.count("\n", 0, m.start()) + 2) for m in _BLOCK.finditer(text)]
    return [block for block in found if not languages or block.language in languages]


def steps(block: Block) -> Iterator[Step]:
    """Yield the commands of a console block."""
    step: Step | None = None
    for number, line in enumerate(block.text.splitlines()):
        if line.startswith("$ "):
            if step:
                yield step
            step = Step(line[2:], [], block.line + number)
        elif step is None:
            raise AssertionError(f"line {block.line + number}: output before the first command")
        elif line.startswith("> "):
            step = step._replace(command=f"{step.command}\n{line[2:]}")
        else:
            step.shown.append(line)
    if step:
        yield step


def run_python(page: Path, folder: Path, names: dict[str, Any], block: Block) -> dict[str, Any]:
    """Run a Python block with the names of those before it and return all; a traceback has the document's lines."""
    file = folder / f".{page.stem}.py"
    file.write_text("\n" * (block.line - 1) + block.text, encoding="utf-8")
    known = runpy.run_path(str(file), init_globals=names)
    return {name: value for name, value in known.items() if not name.startswith("__")}


def run_document(page: Path, folder: Path, capture: pytest.CaptureFixture[str]) -> int:
    """Run everything in a document that runs, in the current folder; return how many commands and blocks that were."""
    names: dict[str, Any] = {}
    ran = 0
    for block in blocks(page, "console", "python"):
        if block.language == "python":
            names = run_python(page, folder, names, block)
            ran += 1
            continue
        for step in steps(block):
            ran += _run_step(page, step, capture)
    return ran


def _run_step(page: Path, step: Step, capture: pytest.CaptureFixture[str]) -> int:
    where = f"{page.name}:{step.line}: {step.command}"
    settings: dict[str, str] = {}
    command = step.command.replace("\\\n", " ")
    while match := _SETTING.match(command):
        settings[match[1]] = match[2]
        command = command[match.end() :]
    if not command.startswith("ebb "):
        done = subprocess.run(["bash", "-euc", step.command], check=False, capture_output=True, text=True)
        assert done.returncode == 0, f"{where}\n{done.stderr}"
        printed = done.stdout
    else:
        capture.readouterr()
        before = dict(os.environ)
        os.environ.update(settings)
        try:
            command, _, filter_ = command.partition(" | ")
            code = main(shlex.split(command)[1:])
        finally:
            os.environ.clear()
            os.environ.update(before)
        out, err = capture.readouterr()
        must_fail = any(line.startswith("ebb: ") for line in step.shown)
        assert (code != 0) == must_fail, f"{where}\nexit code {code}\n{out}{err}"
        if filter_:
            out = subprocess.run(
                ["bash", "-euc", filter_], input=out, check=True, capture_output=True, text=True
            ).stdout
        printed = out + err
    if step.shown:
        assert matches(step.shown, printed), f"{where}\n{printed}"
    return 1


def _masked(text: str) -> str:
    for pattern, word in _VOLATILE:
        text = pattern.sub(word, text)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def matches(shown: list[str], printed: str) -> bool:
    """Whether a command printed what is shown: ``…`` in a line stands for anything in it, alone for any lines."""
    pattern = ""
    for line in _masked("\n".join(shown)).splitlines():
        inner = ".*".join(re.escape(part) for part in line.split("…"))
        pattern += r"(?:.*\n)*?" if line == "…" else rf"{inner}\n"
    return re.fullmatch(pattern, _masked(printed)) is not None
