"""Settings come from the command line, the environment, a TOML file and the defaults, in this order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ebb.index.errors import UsageError
from ebb.warehouse.settings import Settings, load_settings, read_settings

FILE = """
warehouse = "from-file"
jars = "~/jars-of-file"
[spark]
master = "local[3]"
[spark.conf]
"spark.driver.memory" = "4g"
"spark.ui.enabled" = false
"spark.sql.shuffle.partitions" = 7
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ebb.toml"
    path.write_text(FILE)
    return path


def test_without_anything_there_are_the_defaults() -> None:
    assert load_settings(environment={}, file=None) == Settings(jars=Path("~/.cache/ebb/jars").expanduser())


def test_a_file_is_read(file: Path) -> None:
    settings = load_settings(environment={}, file=file)

    assert (settings.warehouse, settings.master) == (Path("from-file"), "local[3]")
    assert settings.jars == Path("~/jars-of-file").expanduser()
    assert settings.conf == {
        "spark.driver.memory": "4g", "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "7",
    }  # fmt: skip


def test_the_environment_wins_over_the_file(file: Path) -> None:
    environment = {"EBB_WAREHOUSE": "e", "EBB_MASTER": "local[1]", "EBB_JARS": "j"}

    settings = load_settings(environment=environment, file=file)

    assert (settings.warehouse, settings.master, settings.jars) == (Path("e"), "local[1]", Path("j"))


def test_the_command_line_wins_over_everything(file: Path) -> None:
    environment = {"EBB_WAREHOUSE": "e", "EBB_MASTER": "local[1]"}

    settings = load_settings(
        environment=environment, file=file, warehouse="~/w", master="yarn", conf=["spark.driver.memory=1g", " a = b=c "]
    )

    assert (settings.warehouse, settings.master) == (Path("~/w").expanduser(), "yarn")
    assert settings.conf["spark.driver.memory"] == "1g"
    assert settings.conf["a"] == " b=c "
    assert settings.conf["spark.ui.enabled"] == "false"


def test_empty_variables_say_nothing() -> None:
    environment = {"EBB_WAREHOUSE": "", "EBB_MASTER": "", "EBB_JARS": "", "XDG_CACHE_HOME": ""}

    assert load_settings(environment=environment, file=None) == load_settings(environment={}, file=None)


@pytest.mark.parametrize(
    ("variable", "text", "is_durable"),
    [("", None, True), ("", "durable = false", False), ("false", None, False), ("true", "durable = false", True)],
)
def test_writers_wait_for_the_disk_unless_told_otherwise(
    variable: str, text: str | None, *, is_durable: bool, tmp_path: Path
) -> None:
    file = tmp_path / "ebb.toml" if text else None
    if file and text:
        file.write_text(text)

    assert load_settings(environment={"EBB_DURABLE": variable}, file=file).durable == is_durable


def test_a_variable_that_says_neither_is_refused() -> None:
    with pytest.raises(UsageError, match="EBB_DURABLE is 'nope'; it must be one of true, false"):
        load_settings(environment={"EBB_DURABLE": "nope"}, file=None)


def test_jars_follow_the_cache() -> None:
    assert load_settings(environment={"XDG_CACHE_HOME": "/c"}, file=None).jars == Path("/c/ebb/jars")


@pytest.mark.parametrize("item", ["", "a", "=b", "  =b"])
def test_a_setting_of_spark_without_key_or_value_is_refused(item: str) -> None:
    with pytest.raises(UsageError, match="is not KEY=VALUE"):
        load_settings(environment={}, file=None, conf=[item])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("warehouse = 7", "warehouse is 7; it may hold warehouse, jars, engine, durable, spark"),
        ("warehoose = 'x'", "warehoose is not a setting"),
        ("durable = 'no'", "durable is 'no'"),
        ("spark = 7", "spark is 7"),
        ("[spark]\nmaster = 1", "spark.master is 1; it may hold spark.master, spark.conf"),
        ("[spark]\nconf = 'x'", "spark.conf is 'x'"),
        ("[spark.conf]\nspark.driver.memory = '4g'", "spark.conf.spark is a table; write the whole name in quotes"),
        ("warehouse = ", "is not TOML"),
        (b"warehouse = '\xff'", "is not TOML"),
        (None, "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_understood_says_where(tmp_path: Path, text: Any, words: str) -> None:
    path = tmp_path / "ebb.toml"
    if text is not None:
        path.write_bytes(text.encode() if isinstance(text, str) else text)

    with pytest.raises(UsageError) as caught:
        load_settings(environment={}, file=path)

    assert words in str(caught.value)


def test_this_process_reads_its_environment_and_the_file_beside_it(
    file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("EBB_CONFIG", "EBB_WAREHOUSE", "EBB_MASTER", "EBB_JARS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    assert read_settings().warehouse == Path("from-file")
    file.rename(tmp_path / "other.toml")
    assert read_settings().warehouse == Settings().warehouse

    monkeypatch.setenv("EBB_CONFIG", "other.toml")
    assert read_settings().warehouse == Path("from-file")
    assert read_settings(warehouse="w").warehouse == Path("w")
    monkeypatch.setenv("EBB_CONFIG", "none.toml")
    with pytest.raises(UsageError, match=r"none\.toml cannot be read"):
        read_settings()
