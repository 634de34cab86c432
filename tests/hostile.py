"""What somebody may put where Ebb reads: values of every wrong kind in place of one in a log entry, and what memory it takes."""

from __future__ import annotations

import json
import random
import resource
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ebb.index.head import entry_hash, new_file, places

__all__ = ["VALUES", "hostile_keys", "peak_bytes", "quoted", "spoil", "spoiled", "vouch"]

VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63 - 1, 2**63, -(2**63), 10**30, 10**400, 1.5, 1e308, float("nan"), float("inf"),
    "", "x", "../x", "/dev/zero", "/etc/passwd", "0", "-1", "9" * 30, "9" * 5000, "a" * 100_000, "\x00", "\n\x1b[31m", "é\u202e",
    [], {}, [[]], [None], [1, 2, 3], ["a"], {"a": 1}, {"a": None}, "[]", "{}", "null", "[" * 100_000, "(" * 5000,
    [1, "/dev/zero"], [1, "../../../../../../dev/zero"], [[0, 0, "../../../../../../dev/zero", 1]], [[0, 0, "/dev/zero", 10**18]],
    "ring:999999999999:1", "ring:1:999999999999", "ring:0:0", "shuffle:99999999999:1", "a,b,c", '{"rename": 7}', '{"separator": []}',
)  # fmt: skip
_TEXTS = (
    ("commitInfo", "ebb"),
    ("add", "stats"),
    ("metaData", "schemaString"),
)  # that hold JSON
_INNER = "of text"  # marks JSON that is kept as a text


def spoil(entry: Path, dice: random.Random) -> str:
    """Put a hostile value in place of one in a log entry; returns which, for messages."""
    actions = [_opened(json.loads(line)) for line in entry.read_text(encoding="utf-8").splitlines()]
    place = dice.randrange(len(actions))
    actions[place], what = spoiled(actions[place], dice)
    entry.write_text("".join(json.dumps(_closed(action)) + "\n" for action in actions), encoding="utf-8")
    return f"{entry.name} {what}"


def spoiled(value: Any, dice: random.Random) -> tuple[Any, str]:
    """Return JSON with a hostile value in place of one, and which."""
    spot = dice.choice([path for path in _spots(value) if path and path[-1] != _INNER])
    new = dice.choice(VALUES)
    return _with(value, spot, new), f"{'.'.join(map(str, spot))} = {new!r:.60}"


def vouch(folder: Path) -> None:
    """Let the head record of a table vouch for whatever its log says now: who changes the one can change the other."""
    newest = max((folder / "_delta_log").glob("*.json"))
    head = folder / "_ebb" / "head"
    known = places(head.read_bytes()).head
    assert known is not None
    head.write_bytes(new_file(replace(known, version=int(newest.stem), entry=entry_hash(newest.read_bytes()))))


def _spots(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict | list):
        for name in value if isinstance(value, dict) else range(len(value)):
            yield from _spots(value[name], (*path, name))


def _with(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    value = value.copy()
    value[path[0]] = _with(value[path[0]], path[1:], new)
    return value


def _opened(action: dict[str, Any]) -> dict[str, Any]:
    """Return an action in which JSON that is kept as a text can be changed too."""
    for kind, name in _TEXTS:
        if action.get(kind, {}).get(name):
            action[kind][name] = {_INNER: json.loads(action[kind][name])}
    return action


def _closed(value: Any) -> Any:
    if isinstance(value, dict):
        if list(value) == [_INNER]:
            return json.dumps(_closed(value[_INNER]))
        return {name: _closed(inner) for name, inner in value.items()}
    return [_closed(inner) for inner in value] if isinstance(value, list) else value


_PARTS = (
    "'", "''", '"', "\\", "\\'", "%", "_", "`", ";", "--", "/*", "*/", "$$", "$1", "?", ":a", "{}", "%s", "{0}", "\x00", "\n", "\r", "\t", "\x1b[2J",
    "\x7f", "\u0085", "\u202e", "\ufeff", "\uffff", "\U0010ffff", "é", "e\u0301", "ß", "İ", "ﬀ", " ", "a", "A", "0", ",", "=", "(", ")", "[", "null", "NaN",
    "' or '1'='1", "'; drop table t; --", "x' union select * from t --", "${java.version}", "$(id)", "=1+1", "../../etc/passwd", "\ud7ff", "\ue000",
)  # fmt: skip


def hostile_keys(dice: random.Random, count: int) -> list[str]:
    """Return different texts that mean something to somebody on their way."""
    found = {"", "'" * 9, "a" * 300, "\\" * 7}
    while len(found) < count:
        found.add("".join(dice.choice(_PARTS) for _ in range(dice.randrange(1, 8))))
    return sorted(found)[:count]


def quoted(text: str) -> str:
    """Return a text as SQL and predicates write it."""
    return "'" + text.replace("'", "''") + "'"


def peak_bytes() -> int:
    """Return the most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
