"""Random arguments (P25): one line or an answer, never a traceback, and nothing is changed by what was refused."""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from ebb.cli.main import app, main
from tests.seeds import drawn_seed, rounds
from tests.unit.cli.command import state_of
from tests.unit.cli.conftest import DECLARED

_COMMANDS = (
    "create", "alter", "drop", "load", "update", "run", "probe", "scan", "changes", "status", "history", "explain", "quarantine",
    "seal", "purge", "erase", "shell", "sqll", "",
)  # fmt: skip
_WORDS = (
    "t", "u", "nope", "../t", "", " ", "-", "--", "-1", "0", "1", "2", "3", "7", "99999999999999999999", "1.5", "NaN", "a", "a,b",
    '"', "'", "x" * 300, "é", "\u202e", "\udcff", "\x1b[31m", "%s", "{}", "{0}", "$(id)", "*", "?", "[", "~", "/", ".", "none.csv",
    "bad.csv", "bad.parquet", "bad.json", "key", "id", "id,key", "id > 1", "id in (1, 2)", "key = 'a'", "not", "(", "4x4",
    "0x0", "retire", "random", "2013-01-01", "5m", "csv", "jsonl", "parquet", "table", "window", "z INT", "out", "no/out",
)  # fmt: skip
_GOOD = {
    "--at": ("1", "2", "3"), "--columns": ("id", "id,key", "key"), "--where": ("id > 1", "key like 'a%'", "key = 'a' or id is null"),
    "--since": ("0", "1", "start", "slot:1", "time:1"), "--limit": ("0", "1"), "--format": ("csv", "jsonl", "table"), "--output": ("out",), "--from": ("a",), "--to": ("b",),
    "--prefix": ("a",), "--keys-from": ("-", "keys"), "--as-of": ("5", "9"), "--deletion-bound": ("9", "4"), "--grid": ("3x3", "9x9"),
    "--policy": ("round-robin", "chronological", "1x1"), "--strategy": ("rebuild", "norebuild"), "--tick": ("1", "2"),
    "--quarantine-time": ("3",), "--landing": ("landing", ""), "--add-column": ("z INT", "y STRING"), "--show": ("bytes",),
    "--conf": ("a=b",), "--master": ("local[1]",), "--reason": ("key",), "--table": ("t",), "--span": ("6", "12"),
}  # fmt: skip
_OPTIONS = {
    name: [
        (parameter.opts[0], bool(getattr(parameter, "is_flag", False)))
        for parameter in command.params
        if parameter.opts[0].startswith("-") and parameter.opts[0] != "--follow"  # which never ends
    ]
    for name, command in typer.main.get_command(app).commands.items()  # type: ignore[attr-defined]
}


def _arguments(rng: random.Random) -> list[str]:
    command = rng.choice(_COMMANDS)
    words = [command]
    if command not in ("run", "") and rng.random() < 0.95:
        words.append("t" if rng.random() < 0.8 else rng.choice(_WORDS))
    if command == "create" and rng.random() < 0.8:
        words[1:] = [rng.choice("uvwxyz"), *DECLARED]
    if command == "probe" and rng.random() < 0.5:
        words.append(rng.choice(_WORDS))
    options = _OPTIONS.get(command, [("--nonsense", False)])
    for option, is_flag in rng.sample(options, min(len(options), rng.choice((0, 0, 1, 1, 2, 3)))):
        words.append(option)
        if not is_flag:
            # A wait could be a long one.
            good = ("1ms",) if option == "--wait" else _GOOD.get(option, _WORDS)
            words.append(
                rng.choice(good) if rng.random() < 0.75 else rng.choice(_WORDS) if option != "--wait" else "1ms"
            )
    if rng.random() < 0.1:
        words.append(rng.choice(_WORDS))
    return [*words, "--once"] if command == "run" else words


def test_random_arguments_never_give_a_traceback_and_change_nothing_when_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    seed = drawn_seed()
    rng = random.Random(seed)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("EBB_WAREHOUSE", str(tmp_path / "w"))
    Path("bad.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    Path("bad.parquet").write_bytes(b"PAR1")
    Path("keys").write_text("a\nb\n", encoding="utf-8")
    codes = {0: 0, 1: 0, 2: 0}
    count = rounds(150)
    for _ in range(count):
        if not (tmp_path / "w" / "t").exists():
            assert _run(["create", "t", *DECLARED])[0] == 0
        arguments = _arguments(rng)
        monkeypatch.setattr("sys.stdin", io.StringIO("a\n"))
        before = state_of(tmp_path / "w")

        code, told = _run(arguments)

        print(code, arguments)
        assert code in codes, (arguments, told)
        assert "Traceback" not in told
        assert "inside Ebb" not in told, (arguments, told)
        if code and arguments[0] != "run":
            assert told.startswith("ebb: ") or not arguments[0], (arguments, told)
            assert told.count("\n") <= 1
            assert state_of(tmp_path / "w") == before, arguments
        codes[code] += 1
    assert all(codes.values()), codes
    record_property("figures", f"fuzzed arguments: {count}, tracebacks 0")


def _run(arguments: list[str]) -> tuple[int, str]:
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()) as told:
        return main(arguments), told.getvalue()
