"""A project of a user whose own modules are called like ours, and its commands, each in a real process."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

__all__ = ["NAMED_SO", "make_project", "run"]

# What a script of such a project begins with: both kinds of modules, side by side.
NAMED_SO = """
import cli, index, maintenance, warehouse
import ebb

assert (cli.NAME, index.NAME, maintenance.NAME, warehouse.NAME) == ("cli", "index", "maintenance", "warehouse")
"""


def make_project(folder: Path, files: Mapping[str, str]) -> Path:
    """Make a folder with modules and a package that have our names, settings for a warehouse in it, and some files."""
    (folder / "warehouse").mkdir()
    modules = {f"{name}.py": f'NAME = "{name}"\n' for name in ("index", "cli", "maintenance")}
    package = {"warehouse/__init__.py": 'NAME = "warehouse"\n'}
    for name, text in {**modules, **package, "ebb.toml": 'warehouse = "data"\n', **files}.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def run(project: Path, *command: str, environment: Mapping[str, str]) -> str:
    """Run a command in a project and return what it prints; it has to succeed."""
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
