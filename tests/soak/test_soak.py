"""A soak of some steps, and that a soak finds what is wrong."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.seeds import drawn_seed, rounds
from tests.soak import __main__ as driver
from tests.soak.steps import tick, update_from_arrow
from tests.soak.world import Story, World


def test_some_steps_of_a_soak(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    world = World(tmp_path, random.Random(drawn_seed()), with_java=False)
    began = time.monotonic()
    try:
        driver.soak(world, seconds=0, least=rounds(12))
    finally:
        world.close()
    record_property("figures", world.told(time.monotonic() - began))


def lose_a_file(story: Story) -> None:
    update_from_arrow(story)
    table = story.open().table
    for file in table.snapshot().files:
        (table.folder / file.path).unlink()


def lose_a_commit(story: Story) -> None:
    tick(story)
    story.acknowledged(story.version + 1)


def forget_a_record(story: Story) -> None:
    update_from_arrow(story)
    story.model.kept.pop()


@pytest.mark.parametrize("broken", [lose_a_file, lose_a_commit, forget_a_record], ids=lambda step: step.__name__)
def test_what_is_wrong_ends_a_soak_with_1_and_the_seed(
    broken: Callable[[Story], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(driver, "STEPS", {broken: 1})
    monkeypatch.setattr(driver, "CHANGES", {})
    monkeypatch.setattr("tests.soak.world.READERS", 0)

    code = driver.main(["--minutes", "1", "--seed", "7", "--no-java", "--folder", str(tmp_path / "w")])

    assert code == 1
    told = capsys.readouterr().out
    assert told.startswith("seed 7, 1 minutes")
    assert f"VIOLATION in step 1, {broken.__name__}" in told
    assert "repeat it with --seed 7" in told
