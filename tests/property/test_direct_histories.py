"""Random histories on real Delta tables without a JVM: more of them in a tenth of the time."""

from __future__ import annotations

import pytest

from tests.seeds import rounds
from tests.walks import WITHOUT_SPARK, walk_histories


@pytest.mark.parametrize("strategy", ["rebuild", "norebuild", "retire"])
def test_every_step_of_a_random_history_without_spark_gives_the_models_answer(strategy: str) -> None:
    walk_histories(strategy, WITHOUT_SPARK, rounds(15))
