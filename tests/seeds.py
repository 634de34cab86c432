"""Seeds that can be given back, and how long random tests run.

Every random test prints its seed; ``EBB_SEED=N`` repeats it. ``EBB_SOAK=10`` makes them ten times as long.
"""

from __future__ import annotations

import os
import random

SOAK = int(os.environ.get("EBB_SOAK", "1"))


def drawn_seed() -> int:
    """Return the seed that was given back, or one that was never used; it is printed with a failure."""
    given = os.environ.get("EBB_SEED")
    seed = int(given) if given else random.SystemRandom().randrange(2**32)
    print(f"EBB_SEED={seed}")
    return seed


def rounds(count: int) -> int:
    """Return how many rounds a test makes: ``count``, or as many times that as a soak asks for."""
    return count * SOAK
