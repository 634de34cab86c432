"""Running ``ebb`` in this process, and what must be true of every run."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ebb.cli.main import main

__all__ = ["Command", "Result", "state_of"]


@dataclass(frozen=True)
class Result:
    """What a command gave back."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """Return the one JSON object that was printed."""
        assert self.out.endswith("\n")
        assert self.out.count("\n") == 1, "more than one line"
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value


class Command:
    """Runs commands on one warehouse and checks that nobody is ever shown a traceback."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root = root
        self._capsys = capsys

    def __call__(self, *arguments: object) -> Result:
        self._capsys.readouterr()
        code = main(["--warehouse", str(self.root), *(str(argument) for argument in arguments)])
        result = Result(code, *self._capsys.readouterr())
        assert "Traceback" not in result.out + result.err
        assert code in (0, 1, 2, 3), result
        if code in (1, 2):
            assert result.err.startswith("ebb: ")
            assert result.err.count("\n") == 1, "an error is one line"
            assert "inside Ebb" not in result.err, "an error that nobody thought of"
        return result

    def right(self, *arguments: object) -> Result:
        """Run a command that must succeed, in silence on the error output."""
        result = self(*arguments)
        assert result.code == 0, result.err
        assert result.err == ""
        return result

    def wrong(self, *arguments: object, code: int) -> str:
        """Run a command that must be refused and change nothing; return the message."""
        before = state_of(self.root)
        result = self(*arguments)
        assert result.code == code, result
        assert result.out == ""
        assert state_of(self.root) == before, "a refused command changed something"
        return result.err.removeprefix("ebb: ").rstrip("\n")


def state_of(root: Path) -> str:
    """Return a digest of every file below a folder, except for locks; empty folders come and go."""
    digest = hashlib.sha256()
    for place, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name != "_ebb")
        for name in sorted(names):
            digest.update(os.path.join(place, name).encode(errors="surrogateescape"))
            digest.update(Path(place, name).read_bytes())
    return digest.hexdigest()
