"""A warehouse of its own for each test, and the command that works on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.command import Command

SCHEMA = "id BIGINT, key STRING, inserted BIGINT, expires BIGINT, pay STRING"
TIMES = ("--inserted", "inserted", "--expires", "expires")
DECLARED = ("--schema", SCHEMA, "--key", "key", *TIMES, "--tick", "1", "--span", "6")


@pytest.fixture
def ebb(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Return the command in an empty folder, without settings from outside."""
    for name in ("EBB_WAREHOUSE", "EBB_CONFIG", "EBB_DURABLE", "EBB_ENGINE", "EBB_MASTER"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return Command(tmp_path / "warehouse", capsys)


@pytest.fixture
def with_table(ebb: Command) -> Command:
    """Return the command with an empty table t that counts integers."""
    ebb.right("create", "t", *DECLARED)
    return ebb
