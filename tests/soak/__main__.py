"""A soak: for some minutes everything happens to a real warehouse, and after each step all must be as it should be.

    python -m tests.soak --minutes 30 [--seed N] [--no-java] [--folder DIR]

Prints its seed first and its figures last, and exits with 1 if anything was violated; then the warehouse stays where it is,
for whoever wants to look. The same seed draws the same steps; what processes do meanwhile is not drawn.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.soak.steps import CHANGES, STEPS, WITH_JAVA, Step
from tests.soak.world import Story, World

__all__ = ["main", "soak"]

_STEPS_OF_A_STORY = 120
_JUDGED_EVERY = 20  # steps


def soak(world: World, *, seconds: float, least: int = 0) -> None:
    """Tell stories until the time is over, and at least some steps; raises what is wrong."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends or world.figures["steps"] < least:
        story = Story.begin(world)
        print(f"story {world.figures['stories']}: {story.wish}", flush=True)
        steps = STEPS | ({} if story.readers else CHANGES) | (WITH_JAVA if world.with_java else {})
        for number in range(_STEPS_OF_A_STORY):
            if time.monotonic() >= ends and world.figures["steps"] >= least:
                break
            (step,) = world.rng.choices(list(steps), list(steps.values()))
            _take(story, step)
            if number % _JUDGED_EVERY == _JUDGED_EVERY - 1:
                story.judge_readers()
        story.end()


def _take(story: Story, step: Step) -> None:
    story.world.figures["steps"] += 1
    story.world.last = f"{step.__name__} at clock {story.model.clock}"
    step(story)
    story.look()


def main(arguments: list[str]) -> int:
    """Soak as the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--no-java", action="store_true", help="leave out what starts a JVM")
    parser.add_argument("--folder", type=Path, help="where the warehouse is made; it must not be there")
    options = parser.parse_args(arguments)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="ebb-soak-"))
    print(f"seed {options.seed}, {options.minutes:g} minutes, in {folder}", flush=True)
    world = World(folder, random.Random(options.seed), with_java=not options.no_java)
    began = time.monotonic()
    try:
        soak(world, seconds=options.minutes * 60)
    except BaseException as error:
        traceback.print_exc()
        print(f"VIOLATION in step {world.figures['steps']}, {world.last}: {error}")
        print(f"repeat it with --seed {options.seed}; the warehouse is in {folder}")
        return 1
    finally:
        world.close()
        print(world.told(time.monotonic() - began), flush=True)
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
