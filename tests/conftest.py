"""One Spark session for the whole run; markers and groups by folder; figures at the end; a warehouse per test."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.promises import keep_figures
from tests.seeds import SOAK

if TYPE_CHECKING:
    from ebb import Warehouse

_SPARK_FOLDERS = {"integration", "golden", "crash"}
_SLOW_FOLDERS = {"crash"}


@pytest.hookimpl(tryfirst=True)  # before those who share tests out look at their groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    root = Path(__file__).parent
    for item in items:
        if root in item.path.parents:
            folder = item.path.relative_to(root).parts[0]
            if folder in _SPARK_FOLDERS:
                item.add_marker(pytest.mark.spark)
                item.add_marker(pytest.mark.xdist_group("spark"))  # one process, one JVM
            if folder in _SLOW_FOLDERS:
                item.add_marker(pytest.mark.slow)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what tests have counted, also those that passed: ``record_property("figures", ...)``."""
    reports = (report for some in terminalreporter.stats.values() for report in some)
    properties = [pair for r in reports if getattr(r, "when", None) == "call" for pair in r.user_properties]
    told = sorted(value for name, value in properties if name == "figures")
    if told:
        terminalreporter.section("figures")
        for line in told:
            terminalreporter.write_line(str(line))
        if "EBB_FIGURES" in os.environ:
            keep_figures(Path(os.environ["EBB_FIGURES"]), told, soak=SOAK)


@pytest.fixture(scope="session")
def spark() -> Any:
    """Return the session that all tests share; it has Delta's jars so that SQL can be asked too."""
    from ebb.warehouse.settings import load_settings
    from ebb.warehouse.spark.session import spark_session

    return spark_session(load_settings(environment=os.environ, file=None), delta=True)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """Return an empty warehouse in a folder of its own."""
    from tests.builders import open_warehouse

    return open_warehouse(tmp_path / "warehouse")
