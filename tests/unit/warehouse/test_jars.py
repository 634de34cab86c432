"""Delta's jars are those that were published, or none is used (P31)."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ebb.index.errors import CorruptionError
from ebb.warehouse.settings import Settings, read_settings
from ebb.warehouse.spark.jars import DELTA_JARS, fetched_jars


@pytest.fixture
def copied(tmp_path: Path) -> Settings:
    """Return settings with a copy of the jars that this machine has."""
    settings = read_settings()
    there = fetched_jars(settings)
    assert len(there) == len(DELTA_JARS), "make setup fetches them"
    for jar in there:
        shutil.copyfile(jar, tmp_path / jar.name)
    return replace(settings, jars=tmp_path)


@pytest.mark.parametrize("name", DELTA_JARS)
def test_one_flipped_byte_in_a_jar_is_refused(name: str, copied: Settings) -> None:
    jar = copied.jars / name
    data = bytearray(jar.read_bytes())
    data[len(data) // 2] ^= 1
    jar.write_bytes(data)

    with pytest.raises(CorruptionError, match=f"a jar is not the one that was published: .*{name} has SHA-256"):
        fetched_jars(copied)


def test_jars_that_are_whole_are_taken_and_a_missing_one_means_none(copied: Settings) -> None:
    assert [jar.name for jar in fetched_jars(copied)] == list(DELTA_JARS)
    (copied.jars / next(iter(DELTA_JARS))).unlink()
    assert fetched_jars(copied) == []
