"""The examples of the documents run, in the order in which they stand there, and give what is said there."""

from __future__ import annotations

import io
import json
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from ebb.cli.main import main
from tests.documents import ROOT, blocks, run_document

README, GUIDE = ROOT / "README.md", ROOT / "docs" / "guide.md"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EBB_WAREHOUSE", "EBB_CONFIG", "EBB_MASTER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("page", "fewest"), [(README, 9), (GUIDE, 40)], ids=["readme", "guide"])
def test_the_examples_of_a_document_run_and_print_what_it_shows(
    page: Path, fewest: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_document(page, tmp_path, capsys) >= fewest, "the examples are gone"


def test_the_fields_that_the_guide_asks_jq_for_are_in_what_the_commands_print(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_document(README, tmp_path, capsys)
    asked = 0
    for line in "".join(block.text for block in blocks(GUIDE, "sh")).splitlines():
        command, _, program = line.partition(" | jq ")
        if not program:
            continue
        asked += 1
        text = io.StringIO()
        with redirect_stdout(text):
            assert main(command.replace("flights", "parking").split()[1:]) == 0
        known = set(re.findall(r'"(\w+)":', json.dumps(json.loads(text.getvalue()))))
        fields = set(re.findall(r"(?<![\w)])\.(\w+)", program)) | set(re.findall(r"[{,] *(\w+)(?=[,}])", program))
        assert fields, line
        assert fields <= known, f"{line}: {fields - known}"
    assert asked >= 4
