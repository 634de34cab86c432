"""The reference of the command line, made from the commands and from the values that they print as JSON."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields, is_dataclass
from typing import Any

import typer.main

from ebb.cli.main import app
from ebb.index.inputs import InputRules
from ebb.maintenance.adopt import Adoption
from ebb.maintenance.amend import Amended
from ebb.maintenance.backup import Backup
from ebb.maintenance.declare import Description
from ebb.maintenance.forget import Forgotten
from ebb.maintenance.holds import HeldCase, Holding
from ebb.maintenance.inspect.backups import BackupStatus
from ebb.maintenance.inspect.check import Checked
from ebb.maintenance.inspect.deletions import (
    ExpiredTick,
    Findings,
    Given,
    Missing,
    OtherCommit,
    RemovedFiles,
    Request,
)
from ebb.maintenance.inspect.explain import Explanation
from ebb.maintenance.inspect.findings import Finding
from ebb.maintenance.inspect.history import Commit
from ebb.maintenance.inspect.proof import Chain, Verified
from ebb.maintenance.inspect.quarantined import Quarantined
from ebb.maintenance.inspect.status import CellStatus, Status
from ebb.maintenance.landing.run import Outcome
from ebb.maintenance.landing_place import Kept
from ebb.maintenance.repair import Repaired
from ebb.maintenance.restore import Restoration
from ebb.maintenance.retry import Cleared
from ebb.maintenance.update import Report
from ebb.maintenance.upkeep import Erasure, Upkeep
from ebb.warehouse.read.request import Cost

__all__ = ["reference_text"]

_EXIT_CODES = {
    0: "done. Also a repeat: the tick that was asked for is applied, now or before; `already_applied` and `repeated_of` tell which",
    1: "refused or failed, with one line on why: bad input, a lock, a damaged table, a full disk; `ebb status --check` also for a finding, `ebb check` if it finds anything, `ebb evidence --check` for a broken promise; `ebb run` if any table or file failed",
    2: "wrong usage: an argument or option that cannot be accepted",
    3: "`ebb update` without `--at`: the batch had been applied before, and nothing changed",
    130: "ended by Ctrl-C; one line says what the table looks like",
    143: "ended by SIGTERM, likewise; for systemd, a service that is stopped so has ended well: `SuccessExitStatus=143`",
}
# What each command prints with --json, beside or around the fields of these values.
_JSON: dict[str, tuple[str, tuple[type, ...]]] = {
    "create": ("the declaration, and `reason`, `dry_run`, `folder`", (Description,)),
    "alter": ("the declaration after the change, `left_behind`, which is null unless a landing folder with files is given up, and `dry_run`", (Description, Kept)),
    "drop": ("`name`, `dropped`, `live_records`, `files`, `left_behind`, the files in its landing folder, if there are any, and `backups`, those that stay", (Kept,)),
    "load": ("the report", (Report,)),
    "update": ("the report", (Report,)),
    "run": ("`outcomes`, a list, and `failed`, once a round", (Outcome,)),
    "probe": ("with `--explain`: `keys`, how many were asked for, and the cost, with `log_seconds` and `read_seconds`", (Cost,)),
    "status": ("with NAME the status; without, `warehouse` and `tables`, a list of them, where a broken table has `name` and `error`", (Status, CellStatus, BackupStatus)),
    "history": ("`name`, `oldest_version`, `log_retention`, `log_retention_seconds` and `commits`, a list; what a commit does not say is left out", (Commit,)),
    "explain": ("the plan; with `--sql`, `name` and `sql`", (Explanation,)),
    "quarantine": ("`name`, `quarantined`, `reasons` and `records`, a list, in which `record` is an object where it could be read; with `--retry` a report as of update; with `--clear` `name`, `cleared`, `dry_run`", (Quarantined, Cleared)),
    "amend": ("what was amended", (Amended,)),
    "hold": ("what is held", (Holding,)),
    "release": ("what is held no longer", (Holding,)),
    "held": ("`name` and `cases`, a list", (HeldCase,)),
    "check": ("what was found, `is_sound`, and `findings`, a list; `path` is left out there, and `step` says what to do", (Checked, Finding)),
    "forget": ("what was forgotten", (Forgotten,)),
    "evidence": ("the report: `about`, `given`, `findings`, `measured`, `chain`, `lines`, `hashes`; with `--verify`, what was verified", (Findings, ExpiredTick, RemovedFiles, Request, OtherCommit, Missing, Given, Chain, Verified)),
    "adopt": ("the adoption", (Adoption,)),
    "repair": ("what was repaired and what was left, both lists of findings as of check", (Repaired,)),
    "seal": ("what was done", (Upkeep,)),
    "purge": ("what was done", (Upkeep,)),
    "erase": ("what was done", (Erasure,)),
    "backup": ("what was copied; with `--stop-managing` `name`, `folder` and `was_managed`", (Backup,)),
    "restore": ("what came back", (Restoration,)),
    "publish": ("`name`, `view`, `sql`, `dry_run`", ()),
}  # fmt: skip


def reference_text() -> str:
    """Return docs/cli.md."""
    group = typer.main.get_command(app)
    commands: dict[str, Any] = group.commands  # type: ignore[attr-defined]
    parts = [
        "# Command line reference",
        "",
        "A contract: names, options, exit codes and JSON fields stay. Made from the commands by `make golden`; a test compares.",
        "The [guide](guide.md) says what to use when.",
        "",
        "`ebb [--warehouse DIR] [--debug] COMMAND …`. Times are ISO 8601, UTC unless they say otherwise, or integers where the",
        "time columns are integers. Durations are `90s`, `5m`, `1h`, `7d`, `2w`, or integers likewise.",
        "",
        "## Exit codes",
        "",
        "| code | meaning |",
        "| --- | --- |",
        *(f"| {code} | {meaning} |" for code, meaning in _EXIT_CODES.items()),
        "",
        "An error is one line on standard error: what was wrong, which limit it broke, what to do next. With `--json`, standard",
        "output holds one object and nothing else.",
    ]
    for name in sorted(commands):
        parts += _command(name, commands[name])
    parts += [
        "",
        "## JSON values",
        "",
        "A field that is null says that there is nothing to say. Durations are text as they are",
        "declared, and numbers of seconds beside it.",
    ]
    for kind in dict.fromkeys(kind for _, kinds in _JSON.values() for kind in kinds):
        parts += _value(kind)
    parts += _value(InputRules)
    return "\n".join(parts) + "\n"


def _command(name: str, command: Any) -> list[str]:
    context = typer.Context(command, info_name=name)
    usage = " ".join(["ebb", name, *command.collect_usage_pieces(context)])
    text = " ".join(inspect.cleandoc(command.help or "").split())
    rows = [
        _option(parameter)
        for parameter in command.params
        if parameter.param_type_name == "option" and parameter.name != "help"
    ]
    arguments = [
        f"| `{parameter.make_metavar(context).strip('[]{}')}` | {parameter.help or ''} |"
        for parameter in command.params
        if parameter.param_type_name == "argument"
    ]
    said = _JSON.get(name)
    lines = [
        "",
        f"## ebb {name}",
        "",
        f"`{usage}`",
        "",
        text,
        "",
        "| option | meaning |",
        "| --- | --- |",
        *arguments,
        *rows,
    ]
    if said:
        values = ", ".join(f"[{kind.__name__}](#{kind.__name__.lower()})" for kind in said[1])
        lines += ["", f"JSON: {said[0]}" + (f" ({values})" if values else "") + "."]
    return lines


def _option(parameter: Any) -> str:
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    choices = getattr(parameter.type, "choices", None)
    form = "" if parameter.is_flag else f" {parameter.metavar or ('|'.join(map(str, choices)) if choices else 'TEXT')}"
    shown = f"{names}{form}".replace("|", "\\|")
    return f"| `{shown}` | {' '.join((parameter.help or '').split())} |"


def _value(kind: type) -> list[str]:
    assert is_dataclass(kind)
    notes: dict[str, str] = {}
    for owner in reversed(kind.__mro__[:-1]):
        notes |= {
            match[1]: match[2] or ""
            for match in re.finditer(r"^    (\w+): [^#\n]*(?:  # (.*))?$", inspect.getsource(owner), re.MULTILINE)
        }
    rows = [
        f"| `{field.name}` | `{_plain(field.type)}` | {notes.get(field.name, '')} |"
        for field in fields(kind)
        if field.name != "cause"
    ]
    return [
        "",
        f"### {kind.__name__}",
        "",
        str(kind.__doc__).split("\n\n")[0],
        "",
        "| field | type | meaning |",
        "| --- | --- | --- |",
        *rows,
    ]


def _plain(type: object) -> str:
    text = str(type)
    for python, json in (
        ("Mapping[str, int]", "object"),
        ("Mapping[str, float]", "object"),
        ("Mapping[str, str]", "object"),
        ("None", "null"),
        ("str", "string"),
        ("bool", "boolean"),
        (" | ", " or "),
    ):
        text = text.replace(python, json)
    return re.sub(r"tuple\[(.*?), \.\.\.\]", r"list of \1", text)
