"""Random histories on real Delta tables, with batches in every form, by Spark and without."""

from __future__ import annotations

import pytest

from tests.seeds import rounds
from tests.walks import BY_SPARK, WITHOUT_SPARK, walk_histories


@pytest.mark.parametrize("strategy", ["rebuild", "norebuild", "retire"])
def test_every_step_of_a_random_history_gives_the_models_answer(strategy: str) -> None:
    walk_histories(strategy, (*BY_SPARK, *WITHOUT_SPARK), rounds(6))
