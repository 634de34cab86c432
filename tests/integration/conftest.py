"""Every test here works on real tables with real Spark."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _with_spark(spark: Any) -> None:
    """Start the shared session before the first test that needs it."""
