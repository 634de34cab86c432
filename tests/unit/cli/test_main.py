"""Settings, help, versions, and how errors are told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ebb.cli.main import app, main
from tests.unit.cli.command import Command
from tests.unit.cli.conftest import DECLARED

_COMMANDS = [str(command.callback.__name__) for command in app.registered_commands if command.callback]


@pytest.mark.parametrize("command", _COMMANDS)
def test_every_command_has_help_with_a_sentence_and_every_option_explained(command: str, ebb: Command) -> None:
    shown = ebb.right(command, "--help").out

    assert f"ebb {command}" in shown
    assert shown == ebb.right(command, "-h").out
    for line in shown.splitlines():
        words = line.strip("│* ").split()
        if words and words[0].startswith("--"):
            assert len(words) > 2, f"an option without help: {line}"


@pytest.mark.parametrize(
    ("command", "usage"),
    [
        ("probe", "ebb probe [OPTIONS] NAME [KEY]..."), ("update", "ebb update [OPTIONS] NAME [FILE]..."),
        ("status", "ebb status [OPTIONS] [NAME]"), ("sql", "ebb sql [OPTIONS] QUERY"), ("run", "ebb run [OPTIONS]"),
    ],
)  # fmt: skip
def test_the_usage_line_shows_what_is_required_and_what_may_be_repeated(command: str, usage: str, ebb: Command) -> None:
    shown = ebb.right(command, "--help").out

    assert f"Usage: {usage}" in [line.strip() for line in shown.splitlines()]
    assert not {"{", "range", "x>="} & {sign for sign in ("{", "range", "x>=") if sign in shown}


@pytest.mark.parametrize("folder", ["sql", "probe", "status"])
def test_a_warehouse_that_is_called_like_a_command_is_not_taken_for_it(
    folder: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The folder was taken for the command, and pandas, which Spark needs, was hidden."""
    assert main(["--warehouse", folder, "update", "t", "--nonsense"]) == 2
    assert capsys.readouterr().err.endswith("see ebb update --help\n")
    run = f"""
import importlib.util, sys
sys.argv = ["ebb", "--warehouse", {folder!r}, "update", "t"]
from ebb.cli.main import entry
try:
    entry()
except SystemExit:
    pass
import pyspark
assert importlib.util.find_spec("pandas")
"""
    environment = {"PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(
        [sys.executable, "-c", run], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert f"there is no warehouse {folder};" in done.stderr


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2

    shown = capsys.readouterr()
    assert all(command in shown.out for command in _COMMANDS)
    assert shown.err == ""


def test_the_version_is_told(ebb: Command) -> None:
    assert ebb.right("--version").out.startswith("ebb 0.")


def test_an_unknown_command_or_option_is_named(ebb: Command) -> None:
    assert ebb.wrong("frobnicate", code=2) == "no such command 'frobnicate'; see ebb --help"
    assert ebb.wrong("scan", "t", "--zigzag", code=2) == "no such option: --zigzag; see ebb scan --help"
    assert ebb.wrong("scan", code=2) == "missing argument 'NAME'; see ebb scan --help"
    assert "unexpected extra argument" in ebb.wrong("scan", "t", "u", code=2)


def test_the_warehouse_comes_from_the_command_line_then_the_environment_then_the_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def warehouse(*arguments: str) -> str:
        capsys.readouterr()
        main([*arguments, "status"])
        said = capsys.readouterr()
        return (
            (said.out or said.err)
            .split(";")[0]
            .removeprefix("no tables in ")
            .removeprefix("ebb: there is no warehouse ")
        )

    monkeypatch.delenv("EBB_WAREHOUSE", raising=False)
    monkeypatch.delenv("EBB_CONFIG", raising=False)
    assert warehouse() == "warehouse-data"
    Path("ebb.toml").write_text('warehouse = "here"\n', encoding="utf-8")
    assert warehouse() == "here"
    Path("other.toml").write_text('warehouse = "there"\n', encoding="utf-8")
    monkeypatch.setenv("EBB_CONFIG", "other.toml")
    assert warehouse() == "there"
    monkeypatch.setenv("EBB_WAREHOUSE", "environment")
    assert warehouse() == "environment"
    assert warehouse("--warehouse", "command-line") == "command-line"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"[spark\n", "is not TOML"),
        (b"\xff\xfe", "is not TOML"),
        (b"warehouse = 5\n", "warehouse is 5"),
        (b"warehous = 'x'\n", "warehous is not a setting; it may hold warehouse, jars, engine, durable, spark"),
        (b"spark = 'local'\n", "spark is 'local'"),
        (b"[spark]\nmaster = 4\n", "spark.master is 4"),
        (b"[spark.conf]\nspark.driver.memory = '4g'\n", "write the whole name in quotes"),
    ],
)
def test_a_broken_settings_file_is_named_with_what_is_wrong(ebb: Command, text: bytes, says: str) -> None:
    Path("ebb.toml").write_bytes(text)

    told = ebb.wrong("status", code=2)
    assert told.startswith("settings file ebb.toml")
    assert says in told


def test_a_settings_file_that_is_not_there_is_an_error_only_if_it_was_named(
    ebb: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    ebb.root.mkdir()
    ebb.right("status")
    monkeypatch.setenv("EBB_CONFIG", "none.toml")

    assert "settings file none.toml cannot be read" in ebb.wrong("status", code=2)


def test_a_warehouse_that_is_a_file_is_refused(ebb: Command) -> None:
    ebb.root.write_text("", encoding="utf-8")

    assert "is not a folder; pass --warehouse DIR" in ebb.wrong("status", code=2)


@pytest.mark.parametrize(
    ("version", "step"),
    [
        (1, "create the table again with this Ebb and load it from its source, or read it with the Ebb that wrote it"),
        (3, "install a newer Ebb"),
    ],
)
def test_a_table_of_another_format_is_refused_with_what_to_do(ebb: Command, version: int, step: str) -> None:
    ebb.right("create", "t", *DECLARED)
    entry = next((ebb.root / "t" / "_delta_log").glob("*.json"))
    text = entry.read_text(encoding="utf-8")
    assert '"ebb.formatVersion":"2"' in text
    entry.write_text(text.replace('"ebb.formatVersion":"2"', f'"ebb.formatVersion":"{version}"'), encoding="utf-8")

    for command in (
        ("scan", "t"),
        ("update", "t", "--at", "1"),
        ("status", "t"),
        ("alter", "t", "--deletion-bound", "9"),
    ):
        told = ebb.wrong(*command, code=1)
        assert told == f"table t has format version {version} and this Ebb knows 2; {step}"
    assert ebb("status").err == f"ebb: {told}\n"
    if version < 2:
        ebb.right("drop", "t", "--yes")
        ebb.right("create", "t", *DECLARED)
    else:
        assert ebb.wrong("drop", "t", "--yes", code=1) == told


def test_debug_shows_where_an_error_comes_from(with_table: Command) -> None:
    from ebb.index.errors import UnknownTableError

    with pytest.raises(UnknownTableError):
        main(["--warehouse", str(with_table.root), "--debug", "scan", "u"])


def test_an_error_that_nobody_thought_of_is_still_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, ebb: Command
) -> None:
    from ebb.maintenance.api.warehouse import Warehouse

    def broken(_self: Warehouse) -> None:
        msg = "first line\nsecond line"
        raise ZeroDivisionError(msg)

    monkeypatch.setattr(Warehouse, "tables", broken)
    capsys.readouterr()

    assert main(["status"]) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "ZeroDivisionError: first line; run again with --debug" in told
