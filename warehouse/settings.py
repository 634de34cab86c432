"""Settings: where the warehouse is, who reads batches and how Spark is started.

Each value is looked up in this order: arguments, environment, TOML file, the default here. Only :func:`read_settings` looks at the environment of the process; everything else is handed down.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast, get_args

from ebb.index.errors import UsageError

__all__ = ["Engine", "Settings", "check_engine", "load_settings", "read_settings"]

Engine = Literal["spark", "direct", "auto"]

_FILE: dict[str, type] = {
    "warehouse": str,
    "jars": str,
    "engine": str,
    "durable": bool,
    "spark": dict,
}  # what the file may hold
_SWITCH = {"true": True, "false": False}
_SPARK: dict[str, type] = {"master": str, "conf": dict}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that is not a property of a table."""

    warehouse: Path = Path("warehouse-data")  # the root of all tables
    is_named: bool = False  # whether somebody said where the warehouse is: then it is wrong if it is not there
    engine: Engine = "spark"  # who reads files of batches; direct: no JVM, Parquet only; auto: direct up to 64 MB
    durable: bool = True  # writers wait until everything is on the disk before they say that it was done
    master: str | None = None  # Spark's master; None: what spark-submit says, or local[*]
    conf: Mapping[str, str] = field(default_factory=dict)  # Spark settings, over our defaults
    jars: Path = Path("~/.cache/ebb/jars")  # where Delta's jars are kept once they were fetched
    short_work: bool = True  # the JVM compiles less: starts 2 s sooner, and long jobs run slower


def check_engine(name: str, where: str = "engine") -> Engine:
    """Return the engine with this name."""
    for engine in get_args(Engine):
        if name == engine:
            return cast("Engine", engine)
    msg = f"{where} is {name!r}; it must be one of {', '.join(get_args(Engine))}"
    raise UsageError(msg)


def read_settings(*, warehouse: str | None = None, master: str | None = None, conf: Sequence[str] = ()) -> Settings:
    """Put the settings together from this process's environment and the TOML file that it names, or ``ebb.toml`` here."""
    named = os.environ.get("EBB_CONFIG")
    file = Path(named) if named else Path("ebb.toml")
    present = file if named or file.is_file() else None
    return load_settings(environment=os.environ, file=present, warehouse=warehouse, master=master, conf=conf)


def load_settings(
    *,
    environment: Mapping[str, str],
    file: Path | None,
    warehouse: str | None = None,
    master: str | None = None,
    conf: Sequence[str] = (),
) -> Settings:
    """Put the settings together.

    >>> load_settings(environment={"EBB_WAREHOUSE": "/data"}, file=None, conf=["a.b=c=d"]).conf
    {'a.b': 'c=d'}
    """
    stored = _read(file) if file else {}
    spark = stored.get("spark", {})
    pairs = {str(key): _setting(value) for key, value in spark.get("conf", {}).items()}
    for item in conf:
        key, separator, value = item.partition("=")
        if not separator or not key.strip():
            msg = f"Spark setting {item!r} is not KEY=VALUE; write it like spark.driver.memory=4g"
            raise UsageError(msg)
        pairs[key.strip()] = value
    cache = environment.get("XDG_CACHE_HOME") or "~/.cache"
    named = warehouse or environment.get("EBB_WAREHOUSE") or stored.get("warehouse")
    return Settings(
        warehouse=Path(named or Settings().warehouse).expanduser(),
        is_named=bool(named),
        engine=check_engine(environment.get("EBB_ENGINE") or stored.get("engine") or Settings().engine),
        durable=_durable(environment.get("EBB_DURABLE"), stored.get("durable", Settings().durable)),
        master=master or environment.get("EBB_MASTER") or spark.get("master"),
        conf=pairs,
        jars=Path(environment.get("EBB_JARS") or stored.get("jars") or Path(cache) / "ebb" / "jars").expanduser(),
    )


def _durable(named: str | None, otherwise: bool) -> bool:  # noqa: FBT001 - the value itself
    if not named:
        return otherwise
    if named not in _SWITCH:
        msg = f"EBB_DURABLE is {named!r}; it must be one of {', '.join(_SWITCH)}"
        raise UsageError(msg)
    return _SWITCH[named]


def _setting(value: Any) -> str:
    """Return a value as Spark writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read(file: Path) -> dict[str, Any]:
    try:
        stored = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        msg = f"settings file {file} cannot be read: {error.strerror}; check EBB_CONFIG"
        raise UsageError(msg) from error
    except ValueError as error:  # not TOML, or not UTF-8
        msg = f"settings file {file} is not TOML: {error}; fix that line"
        raise UsageError(msg) from error
    _check(file, stored, _FILE, "")
    _check(file, stored.get("spark", {}), _SPARK, "spark.")
    for name, value in stored.get("spark", {}).get("conf", {}).items():
        if isinstance(value, dict):
            msg = f'settings file {file}: spark.conf.{name} is a table; write the whole name in quotes, like "spark.driver.memory" = "4g"'
            raise UsageError(msg)
    return stored


def _check(file: Path, found: dict[str, Any], known: dict[str, type], place: str) -> None:
    for name, value in found.items():
        if not isinstance(value, known.get(name, ())):
            wrong = f"is {value!r}" if name in known else "is not a setting"
            msg = f"settings file {file}: {place}{name} {wrong}; it may hold {', '.join(place + k for k in known)}"
            raise UsageError(msg)
