"""Settings: where the warehouse is and how Spark is started.

Each value comes from the first of these that names it: the command line, the environment, a TOML file, the default
here. The environment and the file are arguments: nothing below the command line looks for them by itself.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from index.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # the same module, before it came with Python

__all__ = ["Settings", "load_settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that is not a property of a table."""

    warehouse: Path = Path("warehouse-data")  # the root of all tables
    master: str | None = None  # Spark's master; None: what spark-submit says, or local[*]
    conf: Mapping[str, str] = field(default_factory=dict)  # Spark settings, over our defaults
    jars: Path = Path("~/.cache/ebb/jars")  # where Delta's jars are kept once they were fetched
    short_work: bool = True  # the JVM compiles less: starts 2 s sooner, and long jobs run slower


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
    if not isinstance(spark, dict) or not isinstance(spark.get("conf", {}), dict):
        msg = f"{file}: [spark] must be a table with master and conf"
        raise UsageError(msg)
    pairs = {str(key): str(value) for key, value in spark.get("conf", {}).items()}
    for item in conf:
        key, separator, value = item.partition("=")
        if not separator or not key.strip():
            msg = f"--conf {item!r} is not KEY=VALUE; write it like spark.driver.memory=4g"
            raise UsageError(msg)
        pairs[key.strip()] = value
    cache = environment.get("XDG_CACHE_HOME") or "~/.cache"
    return Settings(
        warehouse=Path(
            warehouse or environment.get("EBB_WAREHOUSE") or stored.get("warehouse") or Settings().warehouse
        ).expanduser(),
        master=master or environment.get("EBB_MASTER") or spark.get("master"),
        conf=pairs,
        jars=Path(environment.get("EBB_JARS") or stored.get("jars") or Path(cache) / "ebb" / "jars").expanduser(),
    )


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        msg = f"settings file {file} cannot be read: {error.strerror}; check EBB_CONFIG"
        raise UsageError(msg) from error
    except tomllib.TOMLDecodeError as error:
        msg = f"settings file {file} is not TOML: {error}; mend that line"
        raise UsageError(msg) from error
