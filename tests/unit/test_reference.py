"""docs/cli.md is what the commands say about themselves."""

from __future__ import annotations

import os
from pathlib import Path

from ebb.cli.main import app
from tests.reference import _JSON, reference_text

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def test_the_reference_of_the_command_line_is_up_to_date() -> None:
    text = reference_text()
    if os.environ.get("EBB_GOLDEN") == "write":
        PAGE.write_text(text, encoding="utf-8")

    assert PAGE.read_text(encoding="utf-8") == text


def test_every_command_that_prints_json_says_what() -> None:
    printing = {
        str(command.callback.__name__)
        for command in app.registered_commands
        if command.callback and "json" in command.callback.__annotations__
    }

    assert printing == set(_JSON)
