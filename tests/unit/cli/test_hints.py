"""Errors say what to do in the words of the edge that shows them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import typer

from ebb.cli.hints import LANDED_STEPS, STEPS, error_text
from ebb.cli.main import app
from ebb.index import errors
from tests.architecture.test_layers import modules, tree_of
from tests.unit.cli.command import Command
from tests.unit.cli.conftest import DECLARED

_BELOW = modules("index", "warehouse", "maintenance")
_ANYWHERE = modules("index", "warehouse", "maintenance", "cli")
_COMMANDS = "|".join(str(command.callback.__name__) for command in app.registered_commands if command.callback)
_OF_THE_COMMAND_LINE = re.compile(rf"(?<![\w-])--[a-z]|\bebb ({_COMMANDS})\b")


def _hints_given() -> set[str]:
    """Return every hint that an error is given, anywhere."""
    classes = {str(getattr(errors, name).hint) for name in errors.__all__ if getattr(errors, name).hint}
    calls = {
        constant.value
        for file in _ANYWHERE
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.keyword) and node.arg == "hint"
        for constant in ast.walk(node.value)
        if isinstance(constant, ast.Constant) and isinstance(constant.value, str)
    }
    return classes | calls


def test_every_hint_has_its_step_and_every_step_its_hint() -> None:
    assert _hints_given() == set(STEPS)
    assert set(LANDED_STEPS) < set(STEPS)


def _texts(tree: ast.Module) -> list[str]:
    """Return the texts in a module that are not docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docs = {id(n.body[0].value) for n in ast.walk(tree) if isinstance(n, documented) and n.body and isinstance(n.body[0], ast.Expr)}  # fmt: skip
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
    ]


@pytest.mark.parametrize("file", _BELOW, ids=lambda file: "/".join(Path(file).parts[-3:]))
def test_no_text_below_the_command_line_names_an_option_or_a_command(file: Path) -> None:
    """A web page that shows an error has neither."""
    assert [text for text in _texts(tree_of(file)) if _OF_THE_COMMAND_LINE.search(text)] == []


def test_every_option_and_command_that_a_step_names_exists() -> None:
    words = " ".join([*STEPS.values(), *LANDED_STEPS.values()])
    everything = typer.main.get_command(app)
    commands = [everything, *everything.commands.values()]  # type: ignore[attr-defined]  # a group has them
    options = {
        name for command in commands for option in command.params for name in (*option.opts, *option.secondary_opts)
    }

    assert set(re.findall(r"--[a-z-]+", words)) - options == set()
    assert set(re.findall(r"\bebb ([a-z]+)", words)) <= set(_COMMANDS.split("|"))


def test_a_step_is_made_of_the_values_of_its_error() -> None:
    exists = errors.TableExistsError("flights", "w")
    assert error_text(exists) == "table flights exists already in w; choose another name or run: ebb drop flights"
    assert str(exists) == "table flights exists already in w; choose another name, or drop that table first"
    plain = errors.UsageError("two of a kind")
    assert error_text(plain) == str(plain) == "two of a kind"


def test_commands_say_what_to_pass(with_table: Command) -> None:
    with_table.right("update", "t", "--at", "1")

    assert with_table.wrong("update", "t", "--at", "9", code=1) == (
        "slot 9 is 8 ticks after the clock 1; pass --catch-up to apply them in one commit"
    )
    assert with_table.wrong("create", "t", *DECLARED, code=1).endswith("run: ebb drop t")
    assert with_table.wrong("create", "u", *DECLARED[2:], code=2) == (
        "a table needs columns; pass --like FILE or --schema"
    )
    assert "pass --deletion-bound 4 or more" in with_table.wrong("alter", "t", "--deletion-bound", "1", code=2)
    with_table.right("drop", "t", "--yes")
    assert with_table.wrong("scan", "t", code=1).endswith("it is empty: check --warehouse, or run ebb create first")
