"""What several workers of pytest-xdist cost the process that leads them: as much per test at the end of a run as at its start."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from xdist.scheduler import LoadGroupScheduling  # type: ignore[import-untyped]


class Scheduling(LoadGroupScheduling):  # type: ignore[misc]
    """xdist counts what a worker has still to do by looking through all that it ever had. What is done is forgotten here."""

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        name = self.registered_collections[node][item_index]
        group = self._split_scope(name)
        unit = self.assigned_work[node][group]
        unit[name] = True
        if all(unit.values()):
            del self.assigned_work[node][group]
        self._reschedule(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling | None:
    return Scheduling(config, log) if config.getvalue("dist") == "loadgroup" else None


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable(
    report: pytest.TestReport | pytest.CollectReport,
) -> Generator[None, dict[str, Any] | None, dict[str, Any] | None]:
    """Every word by which a test could be chosen is half of what a worker sends, and of use to nobody when it passed."""
    data = yield
    if data is not None and report.passed:
        data["keywords"] = {}
    return data
